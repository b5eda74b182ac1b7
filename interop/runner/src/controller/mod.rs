//! The controller's decisions against those of Apache Kafka's controller: the same requests of brokers and
//! of administrators to both, their answers compared, and the records that each writes.
//!
//! ```text
//!   operations.rs   a request, drawn over the image
//!      ├── kafka.rs   Kafka's controller, a process of its own: wire.rs, an answer, and what its log has more
//!      └── ours.rs    `controller::ActiveController`, in this process: an answer, and what it proposes
//! ```
//!
//! There are no brokers: the requests that brokers would send are drawn as well, so that they come in any
//! order. Each step is judged by itself: both decide over what Kafka has written before.

mod kafka;
mod operations;
mod ours;
mod shutdowns;
mod wire;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use ::controller::ControllerRequest;
use anyhow::{Result, ensure};
use interpreter::Random;
use metadata::{MetadataImage, MetadataRecord, Partition, PartitionChange};
use model::{BrokerId, Uuid};

use super::run::Run;
use kafka::{KafkaController, Written};
use operations::{BROKERS, Operations, sign_of_life};
use ours::{OurController, describe};

/// The suite's name.
const SUITE: &str = "controller";
/// Operations of a scenario, unless the command line says.
const DEFAULT_COUNT: usize = 2000;

/// The scenario of controlled shutdowns.
const SHUTDOWNS: &str = "shutdowns";

/// The scenarios, each with what Kafka's StorageTool is told of features.
const SCENARIOS: &[(&str, &[&str])] = &[
    ("decisions", &["eligible.leader.replicas.version=0"]),
    (WITH_ELIGIBLE_LEADERS, &[]),
];

/// The scenario in which replicas may be eligible leaders.
const WITH_ELIGIBLE_LEADERS: &str = "decisions-with-eligible-leaders";

/// The names of the scenarios.
pub(crate) fn list() -> Vec<String> {
    let names = SCENARIOS.iter().map(|(name, _)| *name);
    names.chain([SHUTDOWNS]).map(str::to_owned).collect()
}

/// Runs the scenarios that are asked for.
pub(crate) fn run(run: &mut Run) -> Result<()> {
    for (name, features) in SCENARIOS {
        run.scenario(SUITE, name, |run| compare(run, name, features));
    }
    run.scenario(SUITE, SHUTDOWNS, compare_shutdowns);
    Ok(())
}

fn compare_shutdowns(run: &mut Run) -> Result<()> {
    let mut mistakes = String::new();
    let mut comparison = Comparison::start(run, SHUTDOWNS, &[])?;
    for (index, script) in shutdowns::SCRIPTS.iter().enumerate() {
        for step in shutdowns::steps(script) {
            let request = shutdowns::request(step, comparison.ours.image())?;
            if let Err(error) = comparison.decide(&request) {
                mistakes += &format!("script {index}, {step}: {error}\n");
            }
        }
        for request in shutdowns::clearance(comparison.ours.image()) {
            comparison.decide(&request)?;
        }
    }
    comparison.kafka.stop()?;
    ensure!(mistakes.is_empty(), "{mistakes}");
    Ok(())
}

/// How long Kafka waits for a broker that is silent.
pub(super) const SESSION: Duration = Duration::from_secs(10);
/// Requests between two silences: they take less than a session.
const PHASE_COUNT: usize = 150;
/// How long Kafka may take to fence whom it misses.
const FENCE_LIMIT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Requests before a difference that are shown with it.
const HISTORY_COUNT: usize = 100;

/// Both controllers, between two steps.
struct Comparison {
    kafka: KafkaController,
    ours: OurController,
    random: Random,
    operations: Operations,
    step: usize,
    /// Steps that have changed the metadata.
    changes: usize,
    fenced: usize,
    /// A line for each of the last requests.
    history: VecDeque<String>,
}

fn compare(run: &mut Run, name: &str, features: &[&str]) -> Result<()> {
    let mut comparison = Comparison::start(run, name, features)?;
    comparison.operations.has_eligible_leaders = name == WITH_ELIGIBLE_LEADERS;
    let count = run.options.count.unwrap_or(DEFAULT_COUNT);
    while comparison.step < count {
        let started = Instant::now();
        comparison.tell_of_life(&BROKERS.map(BrokerId))?;
        for _ in 0..PHASE_COUNT {
            let operations = &mut comparison.operations;
            let request = operations.draw(comparison.ours.image(), &mut comparison.random);
            comparison.decide(&request)?;
            comparison.step += 1;
        }
        ensure!(
            started.elapsed() < SESSION,
            "too slow: Kafka may have fenced brokers by itself"
        );
        comparison.fence()?;
    }
    let Comparison {
        step,
        changes,
        fenced,
        ..
    } = comparison;
    println!("    {step} requests, {changes} of them changed something, {fenced} brokers fenced");
    comparison.kafka.stop()
}

impl Comparison {
    fn start(run: &mut Run, name: &str, features: &[&str]) -> Result<Self> {
        let java = run.java()?;
        let dir = run.suite_dir(SUITE).join(name);
        let mut kafka = KafkaController::start(&java, &dir, features)?;
        let ours = OurController::new(&kafka.read_log()?)?;
        Ok(Self {
            kafka,
            ours,
            random: Random::new(run.options.seed.unwrap_or(1)),
            operations: Operations::default(),
            step: 0,
            changes: 0,
            fenced: 0,
            history: VecDeque::new(),
        })
    }

    fn decide(&mut self, request: &ControllerRequest) -> Result<()> {
        let before = self.ours.image().clone();
        let expected = self.kafka.ask(request)?;
        let written = self.kafka.read_log()?;
        let found = self.ours.decide(request, &written)?;
        let mut ours = in_order(changing(&before, found.records.clone())?);
        if matches!(request, ControllerRequest::AssignReplicasToDirectories(_)) {
            ours.iter_mut()
                .for_each(|record| unelected(&before, record));
        }
        let mut kafkas = in_order(changing(&before, written.records())?);
        if is_placed(request) {
            ours.iter_mut().for_each(unplaced);
            kafkas.iter_mut().for_each(unplaced);
        }
        ensure!(
            sorted(&found.answer) == sorted(&expected) && ours == kafkas,
            "step {}: {request:#?}\n{}{}Kafka answers {expected:#?}\nand writes {:#?}\n\
             we answer {:#?}\nand write {:#?}",
            self.step,
            describe(&before),
            self.last_requests(),
            written.records(),
            found.answer,
            found.records,
        );
        let end = self.ours.image().provenance.last_offset;
        let line = format!("{end} {request:?} -> {expected:?}");
        if self.history.front() != Some(&line) {
            self.history.truncate(HISTORY_COUNT - 1);
            self.history.push_front(line);
        }
        self.changes += usize::from(!written.is_empty());
        Ok(())
    }

    fn last_requests(&self) -> String {
        let lines = self.history.iter().rev();
        lines.map(|line| format!("{line}\n")).collect()
    }

    fn tell_of_life(&mut self, brokers: &[BrokerId]) -> Result<()> {
        for id in brokers {
            if let Some(request) = sign_of_life(self.ours.image(), *id) {
                self.decide(&request)?;
            }
        }
        Ok(())
    }

    /// Lets some brokers be silent, until they are fenced.
    fn fence(&mut self) -> Result<()> {
        // Of several silent brokers Kafka fences any first: here one that is not fenced is silent.
        let cluster = &self.ours.image().cluster;
        let unfenced = cluster
            .brokers()
            .values()
            .filter(|broker| !broker.is_fenced);
        let unfenced: Vec<BrokerId> = unfenced.map(|broker| broker.id).collect();
        let chosen = unfenced
            .get(self.random.below(unfenced.len().max(1)))
            .copied();
        let brokers = BROKERS.map(BrokerId).into_iter();
        let (silent, loud): (Vec<_>, Vec<_>) =
            brokers.partition(|id| Some(*id) == chosen || !unfenced.contains(id));
        let mut told = Instant::now();
        let deadline = Instant::now() + SESSION + FENCE_LIMIT;
        loop {
            let image = self.ours.image().clone();
            let is_missed = |id: &&BrokerId| {
                let broker = image.cluster.broker(**id);
                broker.is_some_and(|broker| !broker.is_fenced)
            };
            let now_missed = silent.iter().filter(is_missed).count();
            if now_missed == 0 {
                // Whoever is fenced already may come back once its session has run out.
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "Kafka fences nobody");
            if told.elapsed() > SESSION / 4 {
                told = Instant::now();
                self.tell_of_life(&loud)?;
            }
            std::thread::sleep(POLL_INTERVAL);
            for batch in self.kafka.read_log()?.batches {
                let before = self.ours.image().clone();
                let batches = vec![batch];
                let written = Written { batches };
                let expected = in_order(changing(&before, written.records())?);
                let found = self.ours.decide_task(&written, !expected.is_empty())?;
                ensure!(
                    in_order(changing(&before, found.clone())?) == expected,
                    "Kafka writes by itself {expected:#?}\nand we {found:#?}\n{}{}",
                    describe(&before),
                    self.last_requests(),
                );
                self.fenced += 1;
            }
        }
    }
}

/// The records but for what changes nothing: Kafka fences a fenced broker once more that wants to stop, or is
/// silent. Replicas that have left a partition it leaves among the eligible leaders for ever.
fn changing(before: &MetadataImage, records: Vec<MetadataRecord>) -> Result<Vec<MetadataRecord>> {
    let mut image = before.clone();
    let mut changing = Vec::new();
    for mut record in records {
        let replayed = record.clone();
        let brokers = image.cluster.clone();
        if let MetadataRecord::PartitionChange(change) = &mut record
            && let Some(topic) = image.topics.by_id(change.topic_id)
            && let Some(partition) = topic.partition(change.partition_id)
        {
            clean(change, partition);
        }
        image.replay(&replayed)?;
        let is_idle = match &record {
            MetadataRecord::BrokerRegistrationChange(_) => brokers == image.cluster,
            MetadataRecord::PartitionChange(change) => change.is_empty(),
            _ => false,
        };
        if !is_idle {
            changing.push(record);
        }
    }
    Ok(changing)
}

fn clean(change: &mut PartitionChange, before: &Partition) {
    let left = |ids: &[BrokerId], replicas: &[BrokerId]| -> Vec<BrokerId> {
        ids.iter()
            .copied()
            .filter(|id| replicas.contains(id))
            .collect()
    };
    let known = &before.eligible_leader_replicas;
    let eligible = change.eligible_leader_replicas.as_ref().unwrap_or(known);
    let replicas = change.replicas.as_ref().unwrap_or(&before.replicas);
    let eligible = left(eligible, replicas);
    let is_changed = eligible != left(known, &before.replicas);
    change.eligible_leader_replicas = is_changed.then_some(eligible);
    // Nobody leads a partition without a leader.
    let is_known = |ids: &Vec<BrokerId>| {
        *ids != [BrokerId::NONE] && *ids != before.last_known_eligible_leader_replicas
    };
    let last_known = &mut change.last_known_eligible_leader_replicas;
    *last_known = last_known.take().filter(is_known);
}

/// The change of the directory alone: Kafka judges by the directory that a replica was in whether it can
/// lead, and so leaves a partition without a leader that has one in the directory that is told.
fn unelected(before: &MetadataImage, record: &mut MetadataRecord) {
    let MetadataRecord::PartitionChange(change) = record else {
        return;
    };
    let topic = before.topics.by_id(change.topic_id);
    let partition = topic.and_then(|topic| topic.partition(change.partition_id));
    let is_elected = change.leader.is_some() && change.directories.is_some();
    if partition.is_some_and(|partition| !partition.has_leader()) && is_elected {
        *change = PartitionChange {
            directories: change.directories.take(),
            ..PartitionChange::of(change.topic_id, change.partition_id)
        };
    }
}

/// Changes of partitions that stand together in the order of the partitions, each partition once: Kafka's
/// order is that of its hash tables, and it writes some changes twice, as of a broker that crashes, and is in
/// sync here and eligible there, or of one that is fenced as its directory fails.
fn in_order(records: Vec<MetadataRecord>) -> Vec<MetadataRecord> {
    let place = |record: &MetadataRecord| match record {
        MetadataRecord::PartitionChange(change) => Some((change.topic_id, change.partition_id)),
        _ => None,
    };
    let mut ordered: Vec<MetadataRecord> = Vec::new();
    for mut record in records {
        let at = place(&record);
        let before = ordered
            .iter_mut()
            .find(|one| at.is_some() && place(one) == at);
        match (before, &mut record) {
            (Some(MetadataRecord::PartitionChange(one)), MetadataRecord::PartitionChange(next)) => {
                merge(one, next);
            }
            _ => ordered.push(record),
        }
    }
    for run in ordered.chunk_by_mut(|one, next| place(one).is_some() && place(next).is_some()) {
        run.sort_by_key(place);
    }
    ordered
}

fn sorted(answer: &[String]) -> Vec<&String> {
    let mut lines: Vec<_> = answer.iter().collect();
    lines.sort();
    lines
}

/// Whether the controller chooses replicas, which both do at random.
fn is_placed(request: &ControllerRequest) -> bool {
    match request {
        ControllerRequest::CreateTopics(request) => request
            .topics
            .iter()
            .any(|topic| topic.assignments.is_empty()),
        ControllerRequest::CreatePartitions(request) => request
            .topics
            .iter()
            .any(|topic| topic.assignments.is_none()),
        _ => false,
    }
}

/// Of a new partition only how many replicas it has.
fn unplaced(record: &mut MetadataRecord) {
    match record {
        MetadataRecord::Topic { topic_id, .. } => *topic_id = Uuid::ZERO,
        MetadataRecord::Partition {
            topic_id,
            partition,
            ..
        } => {
            *topic_id = Uuid::ZERO;
            *partition = Partition {
                replicas: vec![BrokerId::NONE; partition.replicas.len()],
                ..Partition::default()
            };
        }
        _ => {}
    }
}

/// A change and what comes after it in one.
fn merge(one: &mut PartitionChange, next: &mut PartitionChange) {
    let later = |one: &mut Option<Vec<BrokerId>>, next: &mut Option<Vec<BrokerId>>| {
        *one = next.take().or_else(|| one.take());
    };
    later(&mut one.isr, &mut next.isr);
    later(&mut one.replicas, &mut next.replicas);
    later(&mut one.removing_replicas, &mut next.removing_replicas);
    later(&mut one.adding_replicas, &mut next.adding_replicas);
    later(
        &mut one.eligible_leader_replicas,
        &mut next.eligible_leader_replicas,
    );
    later(
        &mut one.last_known_eligible_leader_replicas,
        &mut next.last_known_eligible_leader_replicas,
    );
    one.leader = next.leader.or(one.leader);
    one.leader_recovery_state = next.leader_recovery_state.or(one.leader_recovery_state);
    one.directories = next.directories.take().or_else(|| one.directories.take());
}
