//! Several members against the coordinator's own state machine, in any order of requests, answers
//! and polls: no partition has two owners at a time, and in the end each has one.

use super::super::GroupMembershipOperation;
use super::super::assignors::{Assignor, Topics};
use super::{
    Event, GroupRequest, JoinAnswer, JoinRequest, JoinedMember, Membership, MembershipSettings,
    Response, SyncRequest,
};
use coordinator::group::{
    GroupConfig, GroupShard, Heartbeat, JoinGroup, JoinGroupResponse, JoinProtocol, LeaveGroup,
    LeavingMember, RecordOrigin, SyncAssignment, SyncGroup, SyncGroupResponse,
};
use coordinator::{CoordinatorRecord, Decision, GroupResponse, Reply, Token};
use model::{BrokerId, ErrorCode, Now, Offset, ProducerId, TopicPartition, Uuid};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const MEMBERS: usize = 4;

struct Simulation {
    shard: GroupShard,
    log_end_offset: i64,
    now_ms: i64,
    uuids: u128,
    partition_count: usize,
    assignors: Vec<Assignor>,
    members: Vec<Option<Membership>>,
    /// The requests that wait at the coordinator.
    parked: BTreeMap<Token, usize>,
    /// Answers on their way to each member.
    inbox: Vec<VecDeque<Response>>,
    owners: BTreeMap<TopicPartition, usize>,
}

impl Simulation {
    fn new(assignors: &[Assignor]) -> Self {
        let mut shard = GroupShard::new(GroupConfig {
            initial_rebalance_delay_ms: 0,
            ..GroupConfig::default()
        });
        shard.start(Now::at_ms(0));
        Self {
            shard,
            log_end_offset: 0,
            now_ms: 0,
            uuids: 1,
            partition_count: 5,
            assignors: assignors.to_vec(),
            members: (0..MEMBERS).map(|_| None).collect(),
            parked: BTreeMap::new(),
            inbox: vec![VecDeque::new(); MEMBERS],
            owners: BTreeMap::new(),
        }
    }

    fn topics(&self) -> Topics {
        Topics::from([("t".to_owned(), vec![Vec::new(); self.partition_count])])
    }

    fn start(&mut self, index: usize) {
        if self.members[index].is_some() {
            return;
        }
        let settings = MembershipSettings {
            group_instance_id: None,
            session_timeout_ms: 10_000,
            heartbeat_interval_ms: 1_000,
            max_poll_interval_ms: 300_000,
            retry_backoff_ms: 10,
            retry_backoff_max_ms: 100,
            assignors: self.assignors.clone(),
            rack_id: None,
        };
        let mut member = Membership::new(settings, self.now_ms);
        member.subscribe(BTreeSet::from(["t".to_owned()]));
        self.members[index] = Some(member);
    }

    /// The member ends without a word: whoever gets its partitions waits for its session.
    fn crash(&mut self, index: usize) {
        self.members[index] = None;
        self.inbox[index].clear();
        self.parked.retain(|_, member| *member != index);
        self.owners.retain(|_, member| *member != index);
    }

    fn leave(&mut self, index: usize) {
        if let Some(member) = &mut self.members[index] {
            self.owners.retain(|_, owner| *owner != index);
            member.leave(GroupMembershipOperation::Default);
            self.parked.retain(|_, owner| *owner != index);
            self.inbox[index].clear();
            self.request(index);
            self.members[index] = None;
            self.inbox[index].clear();
        }
    }

    /// Carries the member's next request to the coordinator.
    fn request(&mut self, index: usize) {
        let Some(member) = &mut self.members[index] else {
            return;
        };
        let Some(request) = member.poll_request(self.now_ms) else {
            return;
        };
        let (member_id, generation_id) = member.generation();
        let member_id = member_id.to_owned();
        let now = Now::at_ms(self.now_ms);
        match request {
            GroupRequest::FindCoordinator => {
                self.inbox[index].push_back(Response::Coordinator(Ok(BrokerId(1))))
            }
            GroupRequest::DescribeTopics(_) => {
                let topics = self.topics();
                self.inbox[index].push_back(Response::Topics(topics));
            }
            GroupRequest::Join(join) => self.join(index, &member_id, &join),
            GroupRequest::Sync(sync) => self.sync(index, (&member_id, generation_id), &sync),
            GroupRequest::Heartbeat => {
                let request = Heartbeat {
                    group_id: "g",
                    generation_id,
                    member_id: &member_id,
                    group_instance_id: None,
                };
                let error = self.shard.heartbeat(&request, now);
                let error = error.err().unwrap_or(ErrorCode::None);
                self.inbox[index].push_back(Response::Heartbeat(error));
            }
            GroupRequest::Leave { .. } => {
                let request = LeaveGroup {
                    group_id: "g",
                    members: vec![LeavingMember {
                        member_id: &member_id,
                        group_instance_id: None,
                    }],
                };
                let decision = self.shard.leave_group(&request, now);
                self.append(decision.records);
                self.release(decision.released);
                self.inbox[index].push_back(Response::Leave);
            }
        }
    }

    fn join(&mut self, index: usize, member_id: &str, join: &JoinRequest) {
        self.uuids += 1;
        let uuid = Uuid::from_u128(self.uuids).to_string();
        let protocols = join.protocols.iter();
        let request = JoinGroup {
            group_id: "g",
            member_id,
            group_instance_id: None,
            client_id: "c",
            client_host: "/h",
            session_timeout_ms: 10_000,
            rebalance_timeout_ms: 300_000,
            protocol_type: "consumer",
            protocols: protocols
                .map(|(name, metadata)| JoinProtocol { name, metadata })
                .collect(),
            requires_known_member_id: true,
            supports_skipping_assignment: true,
            random_uuid: &uuid,
        };
        let decision = self.shard.join_group(&request, Now::at_ms(self.now_ms));
        self.settle(index, decision, GroupResponse::Join);
    }

    fn sync(&mut self, index: usize, (member_id, generation_id): (&str, i32), sync: &SyncRequest) {
        let assignments = sync.assignments.iter();
        let request = SyncGroup {
            group_id: "g",
            generation_id,
            member_id,
            group_instance_id: None,
            protocol_type: Some("consumer"),
            protocol_name: Some(&sync.protocol_name),
            assignments: assignments
                .map(|(member_id, assignment)| SyncAssignment {
                    member_id,
                    assignment,
                })
                .collect(),
        };
        let decision = self.shard.sync_group(&request, Now::at_ms(self.now_ms));
        self.settle(index, decision, GroupResponse::Sync);
    }

    fn settle<R>(
        &mut self,
        index: usize,
        decision: Decision<R>,
        wrap: impl Fn(R) -> GroupResponse,
    ) {
        self.append(decision.records);
        match decision.reply {
            Reply::Now(response) => self.inbox[index].push_back(answer(wrap(response))),
            Reply::Parked(token) => {
                self.parked.insert(token, index);
            }
        }
        self.release(decision.released);
    }

    fn append(&mut self, records: Vec<CoordinatorRecord>) {
        for record in records {
            let origin = RecordOrigin {
                offset: Offset(self.log_end_offset),
                producer_id: ProducerId::NONE,
            };
            self.log_end_offset += 1;
            self.shard
                .replay(origin, &record.key, record.value.as_deref())
                .unwrap();
        }
    }

    fn release(&mut self, released: Vec<(Token, GroupResponse)>) {
        for (token, response) in released {
            if let Some(index) = self.parked.remove(&token) {
                self.inbox[index].push_back(answer(response));
            }
        }
    }

    fn deliver(&mut self, index: usize) {
        let Some(member) = &mut self.members[index] else {
            return;
        };
        if let Some(answer) = self.inbox[index].pop_front() {
            member.handle_answer(answer, self.now_ms);
        }
    }

    /// The application deals with one event.
    fn poll(&mut self, index: usize) {
        let Some(member) = &mut self.members[index] else {
            return;
        };
        member.handle_application_poll(self.now_ms);
        let Some(event) = member.poll_event() else {
            return;
        };
        match event {
            Event::Assigned(partitions) => {
                for partition in partitions {
                    let before = self.owners.insert(partition.clone(), index);
                    assert_eq!(before, None, "`{partition}` had no other owner");
                }
            }
            Event::Revoked(partitions) | Event::Lost(partitions) => {
                for partition in partitions {
                    let owner = self.owners.remove(&partition);
                    assert_eq!(owner, Some(index), "`{partition}` was the member's");
                }
            }
            Event::Tasks(_) | Event::Statuses(..) | Event::Endpoints(_) => {
                panic!("no streams group")
            }
        }
        member.handle_event_done();
    }

    fn tick(&mut self, ms: i64) {
        self.now_ms += ms;
        let decision = self.shard.expire(Now::at_ms(self.now_ms));
        self.append(decision.records);
        self.release(decision.released);
        let topics = self.topics();
        for member in self.members.iter_mut().flatten() {
            member.handle_topics(&topics);
        }
    }

    fn apply(&mut self, step: &Step) {
        match *step {
            Step::Start(index) => self.start(index),
            Step::Crash(index) => self.crash(index),
            Step::Leave(index) => self.leave(index),
            Step::Request(index) => self.request(index),
            Step::Deliver(index) => self.deliver(index),
            Step::Poll(index) => self.poll(index),
            Step::Grow => self.partition_count += 1,
            // A live member heartbeats within its session.
            Step::Tick(ms) => {
                self.tick(ms);
                (0..MEMBERS).for_each(|index| self.request(index));
            }
        }
    }
}

fn answer(response: GroupResponse) -> Response {
    match response {
        GroupResponse::Join(response) => joined(response),
        GroupResponse::Sync(SyncGroupResponse {
            error: ErrorCode::None,
            assignment,
            ..
        }) => Response::Sync(Ok(assignment.to_vec())),
        GroupResponse::Sync(response) => Response::Sync(Err(response.error)),
    }
}

fn joined(response: JoinGroupResponse) -> Response {
    match response.error {
        ErrorCode::None => {}
        ErrorCode::MemberIdRequired => {
            return Response::MemberIdRequired(response.member_id.to_string());
        }
        error => return Response::Join(Err(error)),
    }
    let members = response.members.iter().map(|member| JoinedMember {
        member_id: member.member_id.to_string(),
        group_instance_id: None,
        metadata: member.metadata.to_vec(),
    });
    Response::Join(Ok(JoinAnswer {
        generation_id: response.generation_id,
        protocol_name: response
            .protocol_name
            .as_deref()
            .unwrap_or_default()
            .to_owned(),
        leader: response.leader.to_string(),
        skips_assignment: response.skip_assignment,
        member_id: response.member_id.to_string(),
        members: members.collect(),
    }))
}

#[derive(Debug, Clone)]
enum Step {
    Start(usize),
    Crash(usize),
    Leave(usize),
    Request(usize),
    Deliver(usize),
    Poll(usize),
    Grow,
    Tick(i64),
}

fn step() -> impl Strategy<Value = Step> {
    let index = 0..MEMBERS;
    prop_oneof![
        4 => index.clone().prop_map(Step::Start),
        1 => index.clone().prop_map(Step::Crash),
        1 => index.clone().prop_map(Step::Leave),
        20 => index.clone().prop_map(Step::Request),
        20 => index.clone().prop_map(Step::Deliver),
        20 => index.prop_map(Step::Poll),
        1 => Just(Step::Grow),
        4 => (1i64..500).prop_map(Step::Tick),
    ]
}

fn simulate(steps: &[Step], assignors: &[Assignor]) {
    let mut simulation = Simulation::new(assignors);
    for step in steps {
        simulation.apply(step);
    }
    // Everybody who is there goes on, for longer than a session.
    simulation.start(0);
    for _ in 0..600 {
        simulation.tick(100);
        for index in 0..MEMBERS {
            simulation.request(index);
            simulation.deliver(index);
            simulation.poll(index);
        }
    }
    assert_eq!(
        simulation.owners.len(),
        simulation.partition_count,
        "all are assigned"
    );
    let live = simulation.members.iter().flatten().count();
    let least = simulation.partition_count / live;
    for (index, _) in simulation
        .members
        .iter()
        .enumerate()
        .filter(|(_, m)| m.is_some())
    {
        let count = simulation
            .owners
            .values()
            .filter(|owner| **owner == index)
            .count();
        assert!(count >= least, "member {index} has {count} of {least}");
    }
}

proptest! {
    #![proptest_config(trials::property(60))]
    #[test]
    fn cooperative_members_never_share_a_partition(
        steps in proptest::collection::vec(step(), 1..150)
    ) {
        simulate(&steps, &[Assignor::CooperativeSticky]);
    }

    #[test]
    fn eager_members_never_share_a_partition(
        steps in proptest::collection::vec(step(), 1..150)
    ) {
        simulate(&steps, &[Assignor::Sticky, Assignor::Range]);
    }
}
