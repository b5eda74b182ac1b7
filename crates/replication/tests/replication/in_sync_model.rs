//! Random lives of a partition with two followers and a controller: what is replicated by the leader's word is on
//! every replica that the controller may elect, and what sessions leave unsaid is as if it had been said.
//!
//! Answers and metadata come late or not at all, followers start again with less than they had, and old fetches
//! arrive after newer ones.

use crate::support::{Served, batch, request};
use metadata::{BrokerRegistration, MetadataImage, MetadataRecord};
use model::{BrokerEpoch, BrokerId, ErrorCode, LeaderEpoch, MonotonicTime, Offset, Uuid};
use proptest::prelude::*;
use replication::{
    Acks, CommittedIsr, FollowerFetch, Isolation, IsrAnswer, IsrProposal, ReadRequest, Replicas,
    Role, SessionTime,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use storage::LogConfig;

const LEADER: BrokerId = BrokerId(1);
const FOLLOWERS: [BrokerId; 2] = [BrokerId(2), BrokerId(3)];
const LAG_MAX_MS: i64 = 100;

#[derive(Debug, Clone)]
enum Step {
    Append,
    /// The session of a follower fetches; its log has grown by some of what it was given before.
    Fetch {
        follower: usize,
        percent: i64,
    },
    /// A fetch of an earlier run of the broker comes late.
    StaleFetch {
        follower: usize,
    },
    Pass {
        ms: i64,
    },
    Check,
    /// The controller gets the request, or it is lost; then the answer is, or is not.
    Ask {
        is_lost: bool,
        is_answered: bool,
    },
    /// Metadata reach the leader.
    Learn,
    Fence {
        follower: usize,
    },
    Unfence {
        follower: usize,
    },
    /// A follower starts again and has lost what it had above a point.
    Restart {
        follower: usize,
        percent: i64,
    },
    /// The leader is elected again.
    Elect,
    SetMinIsr {
        count: u32,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let follower = 0usize..2;
    prop_oneof![
        6 => Just(Step::Append),
        14 => (follower.clone(), prop_oneof![3 => Just(100i64), 1 => 0i64..=100])
            .prop_map(|(follower, percent)| Step::Fetch { follower, percent }),
        1 => follower.clone().prop_map(|follower| Step::StaleFetch { follower }),
        4 => prop_oneof![3 => 1i64..30, 1 => 50i64..150].prop_map(|ms| Step::Pass { ms }),
        3 => Just(Step::Check),
        6 => (prop::bool::weighted(0.2), prop::bool::weighted(0.8))
            .prop_map(|(is_lost, is_answered)| Step::Ask { is_lost, is_answered }),
        6 => Just(Step::Learn),
        1 => follower.clone().prop_map(|follower| Step::Fence { follower }),
        2 => follower.clone().prop_map(|follower| Step::Unfence { follower }),
        1 => (follower, 0i64..=100)
            .prop_map(|(follower, percent)| Step::Restart { follower, percent }),
        1 => Just(Step::Elect),
        1 => (1u32..4).prop_map(|count| Step::SetMinIsr { count }),
    ]
}

/// What the controller has decided, and a broker learns later.
#[derive(Debug, Clone, PartialEq)]
struct Decided {
    leader_epoch: LeaderEpoch,
    partition_epoch: i32,
    isr: Vec<BrokerId>,
    fenced: BTreeSet<BrokerId>,
    broker_epochs: BTreeMap<BrokerId, BrokerEpoch>,
}

impl Decided {
    fn role(&self) -> Role {
        Role::Leader {
            leader_epoch: self.leader_epoch,
            replicas: Some(Arc::new(Replicas {
                leader: LEADER,
                partition_epoch: self.partition_epoch,
                followers: FOLLOWERS.to_vec(),
                isr: self.isr.clone(),
            })),
        }
    }

    /// AlterPartition, as replication.md 2.5 has it.
    fn alter(&mut self, proposal: &IsrProposal) -> IsrAnswer {
        if proposal.leader_epoch > self.leader_epoch
            || proposal.partition_epoch > self.partition_epoch
        {
            return Err(ErrorCode::NotController);
        }
        if proposal.leader_epoch < self.leader_epoch {
            return Err(ErrorCode::FencedLeaderEpoch);
        }
        if proposal.partition_epoch < self.partition_epoch {
            return Err(ErrorCode::InvalidUpdateVersion);
        }
        let is_eligible = |(id, epoch): &(BrokerId, BrokerEpoch)| {
            let is_current = || epoch.is_none() || self.broker_epochs[id] == *epoch;
            *id == LEADER || (!self.fenced.contains(id) && is_current())
        };
        if !proposal.isr.iter().all(is_eligible) {
            return Err(ErrorCode::IneligibleReplica);
        }
        assert!(proposal.isr.iter().any(|(id, _)| *id == LEADER));
        self.isr = proposal.isr.iter().map(|(id, _)| *id).collect();
        self.partition_epoch += 1;
        Ok(CommittedIsr {
            leader_epoch: self.leader_epoch,
            isr: self.isr.clone(),
            partition_epoch: self.partition_epoch,
        })
    }

    fn remove(&mut self, id: BrokerId) {
        if self.isr.contains(&id) {
            self.isr.retain(|one| *one != id);
            self.partition_epoch += 1;
        }
    }
}

/// A follower, and what the leader would know of it if every fetch of its session named the partition.
#[derive(Debug)]
struct FollowerModel {
    id: BrokerId,
    log_end_offset: i64,
    /// Where what it was given ends.
    given_end: i64,
    broker_epoch: BrokerEpoch,
    /// A fetch of an earlier run: its epoch and offset.
    stale: Option<(BrokerEpoch, i64)>,
    session: Arc<SessionTime>,
    /// The log end that the session has found it at; what it finds elsewhere it names.
    found_at: Option<i64>,
    /// As replication.md 1.1 has it.
    leader_end: i64,
    last_fetch: MonotonicTime,
    caught_up: MonotonicTime,
}

impl FollowerModel {
    fn new(id: BrokerId) -> Self {
        Self {
            id,
            log_end_offset: 0,
            given_end: 0,
            broker_epoch: BrokerEpoch(i64::from(id.0) * 100),
            stale: None,
            session: Arc::default(),
            found_at: None,
            leader_end: 0,
            last_fetch: MonotonicTime::from_ms(0),
            caught_up: MonotonicTime::from_ms(0),
        }
    }

    fn note(&mut self, leader_end: i64, fetch_offset: i64, now: MonotonicTime) {
        if fetch_offset >= leader_end {
            self.caught_up = self.caught_up.max(now);
        } else if fetch_offset >= self.leader_end {
            self.caught_up = self.caught_up.max(self.last_fetch);
        }
        self.leader_end = self.leader_end.max(leader_end);
        self.last_fetch = now;
    }
}

struct World {
    served: Served,
    now: MonotonicTime,
    log_end: i64,
    high_watermark: i64,
    controller: Decided,
    /// Not learnt by the leader yet.
    untold: VecDeque<Decided>,
    known: Decided,
    followers: [FollowerModel; 2],
    min_isr: u32,
}

impl World {
    fn new() -> Self {
        let served = Served::new();
        let followers = FOLLOWERS.map(FollowerModel::new);
        let epochs = followers.iter().map(|one| (one.id, one.broker_epoch));
        let controller = Decided {
            leader_epoch: LeaderEpoch(1),
            partition_epoch: 1,
            isr: vec![LEADER, FOLLOWERS[0], FOLLOWERS[1]],
            fenced: BTreeSet::new(),
            broker_epochs: epochs.collect(),
        };
        let leaders = served.host.leaders();
        leaders.set_lag_max_ms(LAG_MAX_MS);
        let mut world = Self {
            served,
            now: MonotonicTime::from_ms(0),
            log_end: 0,
            high_watermark: 0,
            untold: VecDeque::new(),
            known: controller.clone(),
            controller,
            followers,
            min_isr: 1,
        };
        world.take(world.known.clone());
        world
    }

    /// The leader has what the controller has decided.
    fn take(&mut self, decided: Decided) {
        let mut image = MetadataImage::default();
        for (id, epoch) in &decided.broker_epochs {
            let broker = BrokerRegistration {
                id: *id,
                epoch: *epoch,
                incarnation_id: Uuid::from_u128(1),
                endpoints: Vec::new(),
                features: BTreeMap::default(),
                rack: None,
                is_fenced: decided.fenced.contains(id),
                is_in_controlled_shutdown: false,
                is_migrating_zk_broker: false,
                directories: Vec::new(),
                cordoned_directories: None,
            };
            let registered = MetadataRecord::RegisterBroker(broker);
            image.replay(&registered).unwrap();
        }
        self.served.host.leaders().set_cluster(image.cluster);
        let is_new_epoch = decided.leader_epoch > self.known.leader_epoch;
        self.served.partition.take_role(decided.role()).unwrap();
        if is_new_epoch {
            for follower in &mut self.followers {
                let since = match decided.isr.contains(&follower.id) {
                    true => self.now,
                    false => MonotonicTime::MIN,
                };
                follower.caught_up = since;
                follower.last_fetch = since;
                follower.leader_end = self.log_end;
            }
        }
        // Sessions hear of it.
        for follower in &mut self.followers {
            follower.found_at = None;
        }
        self.known = decided;
    }

    fn decide(&mut self, change: impl FnOnce(&mut Decided)) {
        change(&mut self.controller);
        if self.untold.back().unwrap_or(&self.known) != &self.controller {
            self.untold.push_back(self.controller.clone());
        }
    }

    fn fetch(&mut self, at: usize, percent: i64) {
        let follower = &mut self.followers[at];
        let grown = (follower.given_end - follower.log_end_offset) * percent / 100;
        follower.log_end_offset += grown;
        let offset = follower.log_end_offset;
        let is_named = follower.found_at != Some(self.log_end) || grown > 0;
        if !is_named {
            follower.session.note(self.now);
            follower.note(self.log_end, offset, self.now);
            return;
        }
        let broker_epoch = follower.broker_epoch;
        let session = follower.session.clone();
        let read = self.read(at, broker_epoch, offset, Some(&session));
        let follower = &mut self.followers[at];
        follower.session.note(self.now);
        follower.found_at = None;
        if let Some(is_out_of_sync) = read {
            follower.given_end = self.log_end;
            follower.note(self.log_end, offset, self.now);
            follower.found_at = (offset == self.log_end && !is_out_of_sync).then_some(offset);
        }
    }

    /// Whether the follower is out of sync; `None` where it is refused.
    fn read(
        &self,
        at: usize,
        broker_epoch: BrokerEpoch,
        offset: i64,
        session: Option<&Arc<SessionTime>>,
    ) -> Option<bool> {
        let fetch = FollowerFetch {
            broker_id: self.followers[at].id,
            broker_epoch,
            log_start_offset: Offset(0),
            now: self.now,
            session,
            has_waited: false,
            is_throttled: false,
        };
        let request = ReadRequest {
            current_leader_epoch: self.known.leader_epoch,
            isolation: Isolation::LogEnd,
            ..request(offset)
        };
        let read = self.served.partition.read_as_follower(&request, &fetch);
        read.ok().map(|read| read.is_out_of_sync)
    }

    fn ask(&mut self, is_lost: bool, is_answered: bool) {
        let leaders = self.served.host.leaders().clone();
        let asked = leaders.with_proposals(|proposals| proposals.poll_request(self.now));
        let Some(asked) = asked else { return };
        let mut answers = Vec::new();
        if !is_lost {
            for proposal in &asked {
                let mut answer = Err(ErrorCode::None);
                self.decide(|controller| answer = controller.alter(proposal));
                answers.push((proposal.key, answer));
            }
        }
        let answer = match is_answered && !is_lost {
            true => Ok(answers),
            false => Err(ErrorCode::NetworkException),
        };
        let now = self.now;
        let told = leaders.with_proposals(|proposals| proposals.handle_answer(answer, now));
        for (proposal, answer) in told {
            let partition = &self.served.partition;
            partition.apply_isr_answer(proposal.number, &answer);
            // Sessions hear of it.
            for follower in &mut self.followers {
                follower.found_at = None;
            }
        }
    }

    fn restart(&mut self, at: usize, percent: i64) {
        let follower = &mut self.followers[at];
        follower.stale = Some((follower.broker_epoch, follower.log_end_offset));
        follower.log_end_offset = follower.log_end_offset * percent / 100;
        follower.given_end = follower.log_end_offset;
        follower.broker_epoch = BrokerEpoch(follower.broker_epoch.0 + 1);
        follower.session = Arc::default();
        follower.found_at = None;
        let (id, epoch) = (follower.id, follower.broker_epoch);
        self.decide(|controller| {
            controller.broker_epochs.insert(id, epoch);
            controller.remove(id);
        });
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Append => {
                let mut records = batch(0, 1);
                let partition = &self.served.partition;
                partition
                    .append_as_leader(&mut records, None, Acks::Leader, 0)
                    .unwrap();
                self.log_end += 1;
            }
            Step::Fetch { follower, percent } => self.fetch(follower, percent),
            Step::StaleFetch { follower } => {
                if let Some((epoch, offset)) = self.followers[follower].stale.take() {
                    // What it says of the time makes no difference for what is replicated.
                    if self.read(follower, epoch, offset, None).is_some() {
                        let end = self.log_end;
                        self.followers[follower].note(end, offset, self.now);
                        self.followers[follower].found_at = None;
                    }
                }
            }
            Step::Pass { ms } => {
                self.now = self.now.plus_ms(ms);
                self.served.host.leaders().note_time(self.now);
            }
            Step::Check => {
                let partition = &self.served.partition;
                partition.check_followers(self.now, Duration::from_secs(10));
            }
            Step::Ask {
                is_lost,
                is_answered,
            } => self.ask(is_lost, is_answered),
            Step::Learn => {
                if let Some(decided) = self.untold.pop_front() {
                    self.take(decided);
                }
            }
            Step::Fence { follower } => {
                let id = FOLLOWERS[follower];
                self.decide(|controller| {
                    controller.fenced.insert(id);
                    controller.remove(id);
                });
            }
            Step::Unfence { follower } => self.decide(|controller| {
                controller.fenced.remove(&FOLLOWERS[follower]);
            }),
            Step::Restart { follower, percent } => self.restart(follower, percent),
            Step::Elect => self.decide(|controller| {
                controller.leader_epoch = controller.leader_epoch.next();
                controller.partition_epoch += 1;
            }),
            Step::SetMinIsr { count } => {
                self.min_isr = count;
                let partition = &self.served.partition;
                let config = LogConfig {
                    min_insync_replicas: count,
                    ..(*partition.config()).clone()
                };
                partition.set_config(Arc::new(config));
            }
        }
    }

    fn check(&mut self) {
        let offsets = self.served.partition.offsets();
        assert_eq!(offsets.log_end_offset, Offset(self.log_end));
        let before = std::mem::replace(&mut self.high_watermark, offsets.high_watermark.0);
        assert!(before <= offsets.high_watermark.0, "it never goes back");
        // Whom the controller may elect has all that is replicated. One that was lost to a restart leaves first.
        for id in &self.controller.isr {
            let follower = self.followers.iter().find(|one| one.id == *id);
            let end = follower.map_or(self.log_end, |one| one.log_end_offset);
            assert!(
                end >= offsets.high_watermark.0,
                "{id} may be elected, and ends at {end}"
            );
        }
        for (follower, known) in self.followers.iter().zip(self.served.partition.followers()) {
            assert_eq!(known.broker_id, follower.id);
            assert_eq!(
                known.last_caught_up, follower.caught_up,
                "of {}",
                follower.id
            );
        }
    }

    /// Faults are over: everybody is in sync, and everything is replicated.
    fn heal(&mut self) {
        for follower in 0..2 {
            self.step(&Step::Unfence { follower });
        }
        for _ in 0..20 {
            while !self.untold.is_empty() {
                self.step(&Step::Learn);
            }
            for follower in 0..2 {
                self.fetch(follower, 100);
                self.fetch(follower, 100);
            }
            self.step(&Step::Pass { ms: 60 });
            self.step(&Step::Check);
            self.ask(false, true);
            self.check();
        }
        assert_eq!(self.controller.isr.len(), 3, "everybody is in sync");
        assert_eq!(self.high_watermark, self.log_end);
    }
}

proptest! {
    #![proptest_config(trials::property(256))]

    #[test]
    fn what_is_replicated_is_on_every_replica_that_may_be_elected(
        steps in prop::collection::vec(step(), 1..120)
    ) {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
            world.check();
        }
        world.heal();
    }
}
