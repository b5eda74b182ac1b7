//! Several members against a model of their coordinator, under lost requests and answers, members
//! that come, go, crash and are expelled: no partition has two owners at a time, and in the end each
//! has one. So for consumer groups, and for the active tasks of streams groups.

use super::script::Scripted;
use super::*;
use crate::cluster::Random;
use crate::consumer::streams_group::{StreamsSubtopology, StreamsTasks, StreamsTopology};
use std::collections::BTreeMap;

const MEMBERS: usize = 4;
const TOPICS: [&str; 2] = ["a", "b"];
const PARTITIONS: i32 = 4;

fn id_of(topic: usize) -> Uuid {
    Uuid::from_u128(topic as u128 + 1)
}

/// A partition by the index of its topic, which is also that of the sub-topology that reads it.
type Place = (usize, i32);

/// What worlds of one kind of group have of their own.
trait Simulated: Scripted {
    /// Whether Apache Kafka's coordinator tells the assignment again to a member that tells everything again.
    const IS_TOLD_AGAIN: bool;

    /// A member that wants to read all topics.
    fn member(settings: HeartbeatSettings, now_ms: i64) -> HeartbeatMembership<Self>;

    fn places(assignment: &Self::Assignment) -> BTreeSet<Place>;

    fn assignment(places: &BTreeSet<Place>) -> Self::Assignment;

    /// Tells what the metadata have of the topics, if they have anything.
    fn learn(member: &mut HeartbeatMembership<Self>, is_known: bool);
}

impl Simulated for ConsumerGroup {
    const IS_TOLD_AGAIN: bool = true;

    fn member(settings: HeartbeatSettings, now_ms: i64) -> HeartbeatMembership {
        let mut member = HeartbeatMembership::new(settings, now_ms);
        member.subscribe(Interest::Topics(TOPICS.map(str::to_owned).into()));
        member
    }

    fn places(assignment: &Assignment) -> BTreeSet<Place> {
        let topics = 0..TOPICS.len();
        topics
            .flat_map(|topic| {
                let partitions = assignment.get(&id_of(topic)).into_iter().flatten();
                partitions.map(move |partition| (topic, *partition))
            })
            .collect()
    }

    fn assignment(places: &BTreeSet<Place>) -> Assignment {
        let mut assignment = Assignment::new();
        for (topic, partition) in places {
            let partitions = assignment.entry(id_of(*topic)).or_default();
            partitions.insert(*partition);
        }
        assignment
    }

    fn learn(member: &mut HeartbeatMembership, is_known: bool) {
        member.handle_names(|id| {
            let topic = (0..TOPICS.len()).find(|topic| id_of(*topic) == id)?;
            is_known.then(|| TOPICS[topic].to_owned())
        });
    }
}

impl Simulated for StreamsGroup {
    const IS_TOLD_AGAIN: bool = false;

    fn member(settings: HeartbeatSettings, now_ms: i64) -> HeartbeatMembership<Self> {
        let subtopologies = (0..TOPICS.len()).map(|topic| StreamsSubtopology {
            id: topic.to_string(),
            source_topics: vec![TOPICS[topic].to_owned()],
            ..StreamsSubtopology::default()
        });
        let topology = StreamsTopology {
            epoch: 0,
            subtopologies: subtopologies.collect(),
        };
        HeartbeatMembership::of_streams_group(settings, topology, now_ms)
    }

    fn places(tasks: &StreamsTasks) -> BTreeSet<Place> {
        let subtopologies = 0..TOPICS.len();
        subtopologies
            .flat_map(|index| {
                let partitions = tasks.active.get(&index.to_string()).into_iter().flatten();
                partitions.map(move |partition| (index, *partition))
            })
            .collect()
    }

    fn assignment(places: &BTreeSet<Place>) -> StreamsTasks {
        let mut tasks = StreamsTasks::default();
        for (subtopology, partition) in places {
            let partitions = tasks.active.entry(subtopology.to_string()).or_default();
            partitions.insert(*partition);
        }
        tasks
    }

    fn learn(member: &mut HeartbeatMembership<Self>, is_known: bool) {
        member.handle_counts(|_| is_known.then_some(PARTITIONS));
    }
}

/// A member as the coordinator knows it.
#[derive(Debug, Default)]
struct Known {
    epoch: i32,
    previous_epoch: i32,
    /// What it may own, and what it must give up before its epoch rises.
    assigned: BTreeSet<Place>,
    revoking: BTreeSet<Place>,
    target: BTreeSet<Place>,
}

/// The coordinator, with Apache Kafka's rules of reconciliation.
#[derive(Debug, Default)]
struct Coordinator {
    epoch: i32,
    members: BTreeMap<String, Known>,
}

impl Coordinator {
    /// Gives every partition to somebody, whoever had it.
    fn assign(&mut self, random: &mut Random) {
        self.epoch += 1;
        for member in self.members.values_mut() {
            member.target.clear();
        }
        let count = self.members.len();
        if count == 0 {
            return;
        }
        for topic in 0..TOPICS.len() {
            for partition in 0..PARTITIONS {
                let chosen = self.members.values_mut().nth(random.below(count));
                let chosen = chosen.expect("it is below the count");
                chosen.target.insert((topic, partition));
            }
        }
    }

    fn heartbeat<P: Simulated>(
        &mut self,
        beat: &Heartbeat<P>,
        random: &mut Random,
    ) -> HeartbeatAnswer<P> {
        if beat.member_epoch < JOIN_EPOCH {
            if self.members.remove(&beat.member_id).is_some() {
                self.assign(random);
            }
            return self.accept(beat.member_epoch, None);
        }
        if beat.member_epoch == JOIN_EPOCH {
            assert!(beat.interest.is_some() && beat.rebalance_timeout_ms.is_some());
            let owned = beat.owned.as_ref().map(P::places);
            assert_eq!(owned, Some(BTreeSet::new()), "who joins owns nothing");
            self.members
                .insert(beat.member_id.clone(), Known::default());
            self.assign(random);
        }
        let Some(known) = self.members.get(&beat.member_id) else {
            return HeartbeatAnswer::Refused(ErrorCode::UnknownMemberId);
        };
        let owned = beat.owned.as_ref().map(P::places);
        if beat.member_epoch != known.epoch {
            let is_late = beat.member_epoch == known.previous_epoch
                && owned
                    .as_ref()
                    .is_some_and(|owned| owned.is_subset(&known.assigned));
            if !is_late {
                return HeartbeatAnswer::Refused(ErrorCode::FencedMemberEpoch);
            }
        }
        let is_told = beat.member_epoch == JOIN_EPOCH
            || P::IS_TOLD_AGAIN && beat.rebalance_timeout_ms.is_some();
        let before = known.assigned.clone();
        self.reconcile(&beat.member_id, owned);
        let known = &self.members[&beat.member_id];
        let is_changed = is_told || known.assigned != before;
        let epoch = known.epoch;
        let assigned = is_changed.then(|| P::assignment(&known.assigned));
        self.accept(epoch, assigned)
    }

    fn accept<P: Simulated>(
        &self,
        member_epoch: i32,
        assignment: Option<P::Assignment>,
    ) -> HeartbeatAnswer<P> {
        HeartbeatAnswer::Accepted {
            member_id: None,
            member_epoch,
            heartbeat_interval_ms: 1_000,
            assignment,
            news: P::no_news(),
        }
    }

    fn reconcile(&mut self, id: &str, owned: Option<BTreeSet<Place>>) {
        let mut others = BTreeSet::new();
        for (other, known) in &self.members {
            if other != id {
                others.extend(known.assigned.union(&known.revoking).copied());
            }
        }
        let epoch = self.epoch;
        let known = self.members.get_mut(id).expect("it is a member");
        if let Some(owned) = owned {
            known.revoking.retain(|place| owned.contains(place));
        }
        if !known.revoking.is_empty() {
            return;
        }
        let kept: BTreeSet<Place> = known
            .assigned
            .intersection(&known.target)
            .copied()
            .collect();
        if kept != known.assigned {
            known.revoking = known.assigned.difference(&kept).copied().collect();
            known.assigned = kept;
            return;
        }
        if known.epoch != epoch {
            known.previous_epoch = known.epoch;
            known.epoch = epoch;
        }
        known.assigned = known.target.difference(&others).copied().collect();
    }
}

struct World<P: Simulated> {
    random: Random,
    now_ms: i64,
    coordinator: Coordinator,
    members: Vec<Option<HeartbeatMembership<P>>>,
    /// Answers on their way.
    inbox: Vec<Option<HeartbeatAnswer<P>>>,
    owners: BTreeMap<TopicPartition, usize>,
    fault_percent: usize,
    next_id: u32,
    assigned_count: usize,
}

impl<P: Simulated> World<P> {
    fn new(seed: u64) -> Self {
        Self {
            random: Random::from_seed(seed),
            now_ms: 0,
            coordinator: Coordinator::default(),
            members: (0..MEMBERS).map(|_| None).collect(),
            inbox: (0..MEMBERS).map(|_| None).collect(),
            owners: BTreeMap::new(),
            fault_percent: 12,
            next_id: 0,
            assigned_count: 0,
        }
    }

    fn is_faulty(&mut self) -> bool {
        self.random.below(100) < self.fault_percent
    }

    fn step(&mut self) {
        let index = self.random.below(MEMBERS);
        match self.random.below(20) {
            0 if self.members[index].is_none() => self.start(index),
            1 if self.is_faulty() => self.leave(index),
            2 if self.is_faulty() => self.crash(index),
            3 if self.is_faulty() => self.expel(index),
            4 => self.now_ms += self.random.below(400) as i64,
            5..=9 => self.request(index),
            10..=14 => self.deliver(index),
            _ => self.act(index),
        }
    }

    fn start(&mut self, index: usize) {
        self.next_id += 1;
        let settings = HeartbeatSettings {
            member_id: format!("member-{}", self.next_id),
            group_instance_id: None,
            max_poll_interval_ms: 300_000,
            retry_backoff_ms: 10,
            retry_backoff_max_ms: 100,
            remote_assignor: None,
            rack_id: None,
        };
        self.members[index] = Some(P::member(settings, self.now_ms));
        self.inbox[index] = None;
    }

    fn forget(&mut self, index: usize) {
        self.owners.retain(|_, owner| *owner != index);
        if let Some(member) = &self.members[index] {
            let (id, _) = member.generation();
            if self.coordinator.members.remove(id).is_some() {
                self.coordinator.assign(&mut self.random);
            }
        }
    }

    /// The member ends without a word, and its session ends later; here at once.
    fn crash(&mut self, index: usize) {
        self.forget(index);
        self.members[index] = None;
        self.inbox[index] = None;
    }

    /// The coordinator takes a member for dead that lives; until it hears so, it may read on.
    fn expel(&mut self, index: usize) {
        self.forget(index);
    }

    fn leave(&mut self, index: usize) {
        let Some(member) = &mut self.members[index] else {
            return;
        };
        self.owners.retain(|_, owner| *owner != index);
        member.leave(GroupMembershipOperation::Default);
        if let Some(MemberRequest::Heartbeat(beat)) = member.poll_request(self.now_ms) {
            assert!(beat.member_epoch < JOIN_EPOCH);
            let _answer = self.coordinator.heartbeat(&beat, &mut self.random);
        }
        // It may have been a member without knowing.
        self.crash(index);
    }

    /// Carries the member's next request.
    fn request(&mut self, index: usize) {
        if self.inbox[index].is_some() {
            return;
        }
        let Some(member) = &mut self.members[index] else {
            return;
        };
        let Some(request) = member.poll_request(self.now_ms) else {
            return;
        };
        if self.is_faulty() {
            let member = self.members[index].as_mut().expect("it was there");
            return member.handle_failure(self.now_ms);
        }
        let answer = match &request {
            MemberRequest::FindCoordinator => HeartbeatAnswer::Coordinator(Ok(BrokerId(1))),
            MemberRequest::Heartbeat(beat) => self.coordinator.heartbeat(beat, &mut self.random),
        };
        if self.is_faulty() {
            // Served, but nobody hears of it.
            let member = self.members[index].as_mut().expect("it was there");
            return member.handle_failure(self.now_ms);
        }
        self.inbox[index] = Some(answer);
    }

    fn deliver(&mut self, index: usize) {
        if let (Some(member), Some(answer)) = (&mut self.members[index], self.inbox[index].take()) {
            member.handle_answer(answer, self.now_ms);
        }
        self.learn(index);
    }

    fn learn(&mut self, index: usize) {
        let is_known = !self.is_faulty();
        if let Some(member) = &mut self.members[index] {
            P::learn(member, is_known);
        }
    }

    /// What the application does within a poll.
    fn act(&mut self, index: usize) {
        self.learn(index);
        let Some(member) = &mut self.members[index] else {
            return;
        };
        member.handle_application_poll(self.now_ms);
        if member.has_event_out {
            return member.handle_event_done();
        }
        match member.poll_event() {
            Some(Event::Assigned(partitions)) => {
                self.assigned_count += partitions.len();
                let (id, _) = member.generation();
                let is_member = self.coordinator.members.contains_key(id);
                for partition in partitions {
                    // Who was expelled and does not know does no harm: its commits are refused.
                    if is_member {
                        let other = self.owners.insert(partition, index);
                        assert_eq!(other, None, "it has an owner");
                    }
                }
            }
            Some(Event::Revoked(partitions) | Event::Lost(partitions)) => {
                for partition in partitions {
                    if self.owners.get(&partition) == Some(&index) {
                        self.owners.remove(&partition);
                    }
                }
            }
            Some(Event::Tasks(_) | Event::Statuses(..) | Event::Endpoints(_)) | None => {}
        }
    }

    /// Without further faults everybody has what the coordinator gave.
    fn settle(&mut self) {
        self.fault_percent = 0;
        if self.members.iter().all(Option::is_none) {
            self.start(0);
        }
        for _ in 0..20_000 {
            let is_settled = self.owners.len() == TOPICS.len() * PARTITIONS as usize
                && self.coordinator.members.values().all(|known| {
                    known.assigned == known.target && known.epoch == self.coordinator.epoch
                });
            let members = self.members.iter().flatten();
            let all_know = members
                .into_iter()
                .all(|member| self.coordinator.members.contains_key(member.generation().0));
            if is_settled && all_know {
                return self.check();
            }
            let index = self.random.below(MEMBERS);
            match self.random.below(4) {
                0 => self.request(index),
                1 => self.deliver(index),
                2 => self.act(index),
                _ => self.now_ms += 50,
            }
        }
        panic!("no end comes: {:#?} {:#?}", self.coordinator, self.members);
    }

    fn check(&self) {
        for (index, member) in self.members.iter().enumerate() {
            let Some(member) = member else { continue };
            let owned = self.owners.iter().filter(|(_, owner)| **owner == index);
            let owned: BTreeSet<&TopicPartition> = owned.map(|(name, _)| name).collect();
            assert_eq!(owned, member.held.iter().collect(), "member {index}");
            let known = &self.coordinator.members[member.generation().0];
            assert_eq!(owned.len(), known.target.len());
        }
    }
}

/// Lives so many lives.
fn simulate<P: Simulated>(lives: u64) {
    let mut assigned_count = 0;
    let seeds = trials::seeds(0..lives);
    let wanted_count = lives as usize * 35;
    for seed in seeds {
        let lived = std::panic::catch_unwind(|| {
            let mut world = World::<P>::new(seed);
            for _ in 0..1_500 {
                world.step();
            }
            world.settle();
            world.assigned_count
        });
        match lived {
            Ok(count) => assigned_count += count,
            Err(_) => panic!("seed {seed}"),
        }
    }
    assert!(
        assigned_count > wanted_count,
        "only {assigned_count} partitions were assigned"
    );
}

#[test]
fn no_partition_has_two_owners_and_in_the_end_each_has_one() {
    simulate::<ConsumerGroup>(300);
}

#[test]
fn no_task_is_active_twice_and_in_the_end_each_is_somewhere() {
    simulate::<StreamsGroup>(300);
}
