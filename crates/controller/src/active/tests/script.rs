//! Scripts of requests to the active controller, one step a line, and below it what is answered and what the
//! cluster's metadata become.
//!
//! | step | |
//! |--|--|
//! | `at MS` | the time from here on; 0 before |
//! | `register ID [again] [crashed]` | a process of a broker; the same one `again`, or one after a crash |
//! | `heartbeat ID [fence] [stop] [followed=OFFSET]` | of a broker that has followed everything, unless it says |
//! | `… [epoch=N] [offline=DIRS] [cordoned=DIRS] [deadline=MS]` | and what else it may say |
//! | `brokers ID…` | register, and send a heartbeat each |
//! | `note ID [epoch=N]` | a heartbeat is received that is not decided |
//! | `unfence ID`, `unregister ID`, `producer-ids ID [epoch=N]`, `assign ID DIR PARTITION…` | the requests |
//! | `topic NAME REPLICAS…`, `config NAME KEY=VALUE` | new topics, and what is set for them; `*` is all brokers |
//! | `isr PARTITION ISR` | AlterPartition, of all partitions from `PARTITION+` on; `ID@EPOCH` names a run of a broker |
//! | `… [by=ID] [epoch=N] [leader-epoch=N] [partition-epoch=N] [recovering]` | and what else it may say |
//! | `move PARTITION REPLICAS`, `back PARTITION`, `elect preferred\|unclean` | reassignments, elections |
//! | `level FEATURE LEVEL` | the feature has this level in the log |
//! | `half-shutdown ID` | of the records that begin a shutdown the log has only the first |
//! | `next`, `tick` | what the controller does next by itself; all of it that is due |
//! | `refuse STEP` | the log does not take what the step asks for |
//! | `lead`, `keep ID`, `end ID`, `live ID` | another controller leads; the broker of this process; sessions |

use super::*;
use crate::alter_partition::WantedIsr;
use crate::directories::DirectoryAssignment;
use crate::elect_leaders::ElectionType;
use crate::heartbeats::{BrokerHeartbeat, BrokerStanding};
use crate::reassign_partitions::TopicReassignment;
use crate::requests::{
    AllocateProducerIds, AlterPartition, AlterPartitionReassignments, AssignReplicasToDirectories,
    ElectLeaders, RegisterBroker, UnfenceBroker, UnregisterBroker,
};
use crate::test_changes::changes;
use crate::test_cluster::{assigned_topic, counting_random, directory, registration, wrapped};
use crate::{ApiError, BrokerTransitionKind, PartitionResults};
use expect_test::Expect;
use metadata::{BrokerRegistrationChange, LeaderRecoveryState, Partition};
use model::{BrokerEpoch, LeaderEpoch, Offset, Uuid};
use std::collections::BTreeMap;
use std::fmt::Debug;

/// No moment of a script has more for the controller to do by itself.
const TICKS_MAX: usize = 20;

/// Runs a script with the configuration that is given, and no signs of life.
pub(super) fn check_with(pairs: &[(&str, &str)], script: &str, expect: &Expect) {
    let mut world = World::new(pairs);
    let lines = script.lines().map(str::trim);
    let shown = lines.filter(|line| !line.is_empty()).map(|line| {
        let before = world.cluster.image.clone();
        let told = world.step(line);
        let changed = changes(&before, &world.cluster.image);
        format!("{line}{told}\n{changed}{}", world.transitions())
    });
    expect.assert_eq(&wrapped(&shown.collect::<String>()));
}

/// The same with Kafka's defaults.
#[expect(clippy::needless_pass_by_value, reason = "reads as a table")]
pub(super) fn check(script: &str, expect: Expect) {
    check_with(&[("metadata.max.idle.interval.ms", "0")], script, &expect);
}

/// The words of a step, and what it says as `name=value`.
struct Line<'a> {
    words: Vec<&'a str>,
    fields: BTreeMap<&'a str, &'a str>,
}

impl<'a> Line<'a> {
    fn new(line: &'a str) -> Self {
        let (fields, words): (Vec<&str>, Vec<&str>) =
            line.split_whitespace().partition(|word| word.contains('='));
        let fields = fields.into_iter().map(|one| one.split_once('=').unwrap());
        Self {
            words,
            fields: fields.collect(),
        }
    }

    fn id(&self) -> BrokerId {
        self.words[1].parse().unwrap()
    }

    fn has(&self, word: &str) -> bool {
        self.words.contains(&word)
    }

    fn field(&self, name: &str) -> Option<i64> {
        self.fields.get(name).map(|value| value.parse().unwrap())
    }

    fn directories(&self, name: &str) -> Option<Vec<Uuid>> {
        let ids = self
            .fields
            .get(name)?
            .split(',')
            .filter(|id| !id.is_empty());
        Some(ids.map(|id| directory(id.parse().unwrap())).collect())
    }
}

fn broker_ids(text: &str) -> Vec<BrokerId> {
    text.split(',').map(|id| id.parse().unwrap()).collect()
}

/// A controller that leads, and the log that it writes to.
struct World {
    cluster: TestCluster,
    controller: ActiveController<()>,
    now: MonotonicTime,
    drawn: u64,
}

impl World {
    fn new(pairs: &[(&str, &str)]) -> Self {
        let cluster = TestCluster::new(pairs);
        Self {
            controller: lead(&cluster, NOW),
            cluster,
            now: NOW,
            drawn: 0,
        }
    }

    fn end_offset(&self) -> Offset {
        self.cluster.image.provenance.last_offset + 1
    }

    fn step(&mut self, text: &str) -> String {
        let line = Line::new(text);
        let (controller, now) = (&mut self.controller, self.now);
        match line.words[0] {
            "at" => self.now = MonotonicTime::from_ms(line.words[1].parse().unwrap()),
            "brokers" => {
                for id in &line.words[1..] {
                    self.step(&format!("register {id}"));
                    self.step(&format!("heartbeat {id}"));
                }
                // Every script begins so.
                self.transitions();
            }
            "half-shutdown" => {
                let broker_epoch = self.broker_epoch(&line);
                self.append(&[MetadataRecord::BrokerRegistrationChange(
                    BrokerRegistrationChange {
                        broker_id: line.id(),
                        broker_epoch,
                        enters_controlled_shutdown: true,
                        ..BrokerRegistrationChange::default()
                    },
                )]);
            }
            "level" => self.append(&[MetadataRecord::FeatureLevel {
                name: line.words[1].to_owned(),
                level: line.words[2].parse().unwrap(),
            }]),
            "note" => {
                let epoch = self.broker_epoch(&line);
                let sessions = self.controller.sessions();
                sessions.contacts().note(line.id(), epoch, now);
            }
            "next" => {
                let next = controller
                    .tasks
                    .next(&controller.image, &controller.sessions);
                assert_eq!(controller.next_task(), next.map(|(at, _)| at));
                return next.map_or_else(
                    || " -> nothing".to_owned(),
                    |(at, task)| format!(" -> {task:?} at {}", at.as_ms()),
                );
            }
            "tick" => return self.tick(),
            "refuse" => return self.refuse(text.trim_start_matches("refuse ")),
            "lead" => self.controller = lead(&self.cluster, now),
            "keep" => controller.keep_own_broker(line.id()),
            "end" => controller.begin_own_broker(line.id()),
            "live" => return format!(" -> {}", controller.sessions.is_live(line.id(), now)),
            _ => {
                let request = self.request(&line);
                return self.decide(&request);
            }
        }
        String::new()
    }

    /// What others have written.
    fn append(&mut self, records: &[MetadataRecord]) {
        self.cluster.replay(records);
        let image = Arc::new(self.cluster.image.clone());
        self.controller.appended(image, 1, self.end_offset());
    }

    fn take(&mut self, proposal: &Proposal) {
        if !proposal.is_empty() {
            self.append(&proposal.records);
            self.controller.accepted();
        }
    }

    fn propose(&mut self, request: &ControllerRequest) -> Proposal {
        let context = ControllerContext::new(&self.cluster.config);
        let random = &mut counting_random(&mut self.drawn);
        self.controller
            .propose(request, (), &context, self.now, random)
    }

    fn decide(&mut self, request: &ControllerRequest) -> String {
        let proposal = self.propose(request);
        self.take(&proposal);
        let answers = self.controller.committed(self.end_offset());
        assert_eq!(answers.len(), 1, "each request has an answer");
        let answers = answers.into_iter().map(|(_, response)| told(response));
        answers.collect::<String>()
    }

    /// All that is due, by its names.
    fn tick(&mut self) -> String {
        let mut shown = String::new();
        for _ in 0..TICKS_MAX {
            let controller = &mut self.controller;
            let next = controller
                .tasks
                .next(&controller.image, &controller.sessions);
            let context = ControllerContext::new(&self.cluster.config);
            let Some(proposal) = controller.propose_task(&context, self.now) else {
                return shown;
            };
            let count = proposal.records.len();
            shown += &format!("\n  {:?}: {count} records", next.unwrap().1);
            self.take(&proposal);
            self.controller.committed(self.end_offset());
        }
        panic!("there is always more to do:{shown}");
    }

    fn refuse(&mut self, step: &str) -> String {
        let context = ControllerContext::new(&self.cluster.config);
        let proposal = match step {
            "tick" => self.controller.propose_task(&context, self.now).unwrap(),
            _ => {
                let request = self.request(&Line::new(step));
                self.propose(&request)
            }
        };
        assert!(!proposal.is_empty(), "it asks for something");
        self.controller.refused();
        String::new()
    }

    fn transitions(&mut self) -> String {
        let transitions = self.controller.take_transitions().into_iter();
        let kind = |kind| match kind {
            BrokerTransitionKind::Registered(_) => "Registered".to_owned(),
            kind => format!("{kind:?}"),
        };
        let shown = transitions.map(|one| format!("  {}: {}\n", one.broker_id, kind(one.kind)));
        shown.collect()
    }

    /// The epoch that a step names, or that of the broker's registration.
    fn broker_epoch(&self, line: &Line<'_>) -> BrokerEpoch {
        let registered = self.cluster.image.cluster.broker(line.id());
        let epoch = registered.map_or(BrokerEpoch::NONE, |broker| broker.epoch);
        line.field("epoch").map_or(epoch, BrokerEpoch)
    }

    fn request(&self, line: &Line<'_>) -> ControllerRequest {
        match line.words[0] {
            "topic" => {
                let topics = vec![assigned_topic(&line.words[1..])];
                let validate_only = false;
                CreateTopics {
                    topics,
                    validate_only,
                }
                .into()
            }
            "config" => config(line),
            "isr" => self.alter_partition(line),
            "move" => reassignment(line.words[1], Some(broker_ids(line.words[2]))),
            "back" => reassignment(line.words[1], None),
            "elect" => ElectLeaders {
                election: match line.words[1] {
                    "preferred" => ElectionType::Preferred,
                    _ => ElectionType::Unclean,
                },
                topics: None,
            }
            .into(),
            _ => self.broker_request(line),
        }
    }

    fn broker_request(&self, line: &Line<'_>) -> ControllerRequest {
        let (broker_id, broker_epoch) = (line.id(), self.broker_epoch(line));
        match line.words[0] {
            "register" => self.register(line).into(),
            "heartbeat" => BrokerHeartbeat {
                broker_id,
                broker_epoch,
                metadata_offset: Offset(
                    line.field("followed").unwrap_or((self.end_offset() - 1).0),
                ),
                wants_fence: line.has("fence"),
                wants_shut_down: line.has("stop"),
                offline_directories: line.directories("offline").unwrap_or_default(),
                cordoned_directories: line.directories("cordoned"),
                deadline: line
                    .field("deadline")
                    .map_or(MonotonicTime::MAX, MonotonicTime::from_ms),
            }
            .into(),
            "unfence" => UnfenceBroker {
                broker_id,
                broker_epoch,
            }
            .into(),
            "unregister" => UnregisterBroker { broker_id }.into(),
            "producer-ids" => AllocateProducerIds {
                broker_id,
                broker_epoch,
            }
            .into(),
            "assign" => {
                let to = directory(line.words[2].parse().unwrap());
                let assignments = line.words[3..].iter().map(|at| {
                    let (topic_id, partition_id, _) = self.partition(at);
                    DirectoryAssignment {
                        directory: to,
                        topic_id,
                        partition_id,
                    }
                });
                AssignReplicasToDirectories {
                    broker_id,
                    broker_epoch,
                    assignments: assignments.collect(),
                }
                .into()
            }
            other => unreachable!("no step {other}"),
        }
    }

    fn register(&self, line: &Line<'_>) -> RegisterBroker {
        let known = self.cluster.image.cluster.broker(line.id());
        let mut registration = registration(line.id());
        registration.incarnation_id = match known {
            Some(known) if line.has("again") => known.incarnation_id,
            _ => Uuid::from_u128(self.end_offset().0.unsigned_abs().into()),
        };
        if !line.has("crashed") {
            registration.previous_broker_epoch = self.broker_epoch(line);
        }
        RegisterBroker {
            registration,
            detects_clean_shutdown: true,
        }
    }

    /// `topic-partition`, of a topic and a partition that may be unknown.
    fn partition(&self, at: &str) -> (Uuid, i32, Option<Partition>) {
        let (topic, id) = at.rsplit_once('-').unwrap();
        let (topics, id) = (&self.cluster.image.topics, id.parse().unwrap());
        let topic_id = topics.id_of(topic).unwrap_or(Uuid::from_u128(7));
        let partition = topics.partition(topic, id);
        (topic_id, id, partition.map(|one| (**one).clone()))
    }

    /// Of one partition, or of all from one on: `t-0` or `t-0+`.
    fn alter_partition(&self, line: &Line<'_>) -> ControllerRequest {
        let at = line.words[1].trim_end_matches('+');
        let (topic_id, first, partition) = self.partition(at);
        let partition = partition.unwrap_or_default();
        let leader = line
            .field("by")
            .map_or(partition.leader, |id| BrokerId(id as i32));
        let isr = line.words[2].split(',').map(|one| {
            let (id, epoch) = one.split_once('@').unwrap_or((one, "-1"));
            (id.parse().unwrap(), BrokerEpoch(epoch.parse().unwrap()))
        });
        let wanted = WantedIsr {
            topic_id,
            partition_id: first,
            leader_epoch: line
                .field("leader-epoch")
                .map_or(partition.leader_epoch, |epoch| LeaderEpoch(epoch as i32)),
            partition_epoch: line
                .field("partition-epoch")
                .map_or(partition.partition_epoch, |epoch| epoch as i32),
            isr: isr.collect(),
            leader_recovery_state: Some(match line.has("recovering") {
                true => LeaderRecoveryState::Recovering,
                false => LeaderRecoveryState::Recovered,
            }),
        };
        let topic = self.cluster.image.topics.by_id(topic_id);
        let end = match line.words[1].ends_with('+') {
            true => topic.unwrap().partition_count() as i32,
            false => first + 1,
        };
        let partitions = (first..end).map(|partition_id| WantedIsr {
            partition_id,
            ..wanted.clone()
        });
        let broker = self.cluster.image.cluster.broker(leader);
        let known = broker.map_or(BrokerEpoch::NONE, |broker| broker.epoch);
        AlterPartition {
            broker_id: leader,
            broker_epoch: line.field("epoch").map_or(known, BrokerEpoch),
            partitions: partitions.collect(),
        }
        .into()
    }
}

fn lead(cluster: &TestCluster, now: MonotonicTime) -> ActiveController<()> {
    let image = Arc::new(cluster.image.clone());
    let end_offset = image.provenance.last_offset + 1;
    ActiveController::new(image, 1, end_offset, &cluster.context(), now)
}

/// `config TOPIC|* NAME=VALUE`.
fn config(line: &Line<'_>) -> ControllerRequest {
    let operations = line.fields.iter().map(|(name, value)| ConfigOperation {
        operation: 0,
        name: (*name).to_owned(),
        value: Some((*value).to_owned()),
    });
    let (resource_type, name) = match line.words[1] {
        "*" => (4, ""),
        topic => (2, topic),
    };
    AlterConfigs {
        resources: vec![AlteredResource {
            resource_type,
            resource_name: name.to_owned(),
            change: ConfigChange::Operations(operations.collect()),
        }],
        options: AlterOptions::default(),
    }
    .into()
}

fn reassignment(at: &str, replicas: Option<Vec<BrokerId>>) -> ControllerRequest {
    let (topic, id) = at.rsplit_once('-').unwrap();
    let topics = vec![TopicReassignment {
        topic: topic.to_owned(),
        partitions: vec![(id.parse().unwrap(), replicas)],
    }];
    AlterPartitionReassignments {
        topics,
        allows_other_counts: true,
    }
    .into()
}

/// What is answered, if it is more than that all went well.
fn told(response: ControllerResponse) -> String {
    match response {
        ControllerResponse::BrokerHeartbeat(result) => told_of(result.map(standing)),
        ControllerResponse::RegisterBroker(result) => {
            told_of(result.map(|epoch| format!("epoch {epoch}")))
        }
        ControllerResponse::AllocateProducerIds(result) => {
            told_of(result.map(|block| format!("{} from {} on", block.count, block.first)))
        }
        ControllerResponse::AssignReplicasToDirectories(result) => {
            told_of(result.map(|codes| codes_of(codes.into_iter())))
        }
        ControllerResponse::AlterPartition(result) => told_of(result.map(|altered| {
            codes_of(
                altered
                    .into_iter()
                    .map(|one| one.err().unwrap_or(ErrorCode::None)),
            )
        })),
        ControllerResponse::AlterPartitionReassignments(results)
        | ControllerResponse::ElectLeaders(results) => told_of_partitions(&results),
        ControllerResponse::CreateTopics(results) => told_of_all(results[0].result.as_ref()),
        ControllerResponse::AlterConfigs(results) => told_of_all(results[0].as_ref()),
        ControllerResponse::UnfenceBroker(result)
        | ControllerResponse::UnregisterBroker(result) => told_of_all(result.as_ref()),
        other => unreachable!("{other:?}"),
    }
}

fn told_of(result: Result<String, ApiError>) -> String {
    format!(" -> {}", result.unwrap_or_else(|error| error.to_string()))
}

fn told_of_all<T: Debug>(result: Result<T, &ApiError>) -> String {
    result.map_or_else(|error| format!(" -> {error}"), |_| String::new())
}

fn told_of_partitions(results: &[PartitionResults]) -> String {
    let partitions = results.iter().flat_map(|topic| &topic.partitions);
    let shown = partitions.map(|(_, result)| told_of_all(result.as_ref()));
    shown.collect()
}

/// Codes in their order, those that are alike once.
fn codes_of(codes: impl Iterator<Item = ErrorCode>) -> String {
    let mut names: Vec<_> = codes.map(ErrorCode::name).collect();
    names.dedup();
    names.join(", ")
}

fn standing(standing: BrokerStanding) -> String {
    let words = [
        (standing.is_caught_up, "caught up"),
        (standing.is_fenced, "fenced"),
        (standing.is_shutting_down, "has to wait"),
        (standing.should_shut_down, "may stop"),
    ];
    let words = words.into_iter().filter(|(is_so, _)| *is_so);
    let words: Vec<&str> = words.map(|(_, word)| word).collect();
    words.join(", ")
}
