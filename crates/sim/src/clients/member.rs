//! A member of a classic group: it joins, takes its partitions, commits their offsets, and may stop
//! listening for a while.

use super::{Client, Desk, KnownTopics};
use crate::judge::OffsetKey;
use crate::protocol::{Answer, Ask};
use crate::schedule::{STEADY, STEADY_PARTITIONS, Task};
use model::{ErrorCode, Uuid};
use std::collections::{BTreeMap, VecDeque};

const GROUP: &str = "members";
/// How often a member says that it lives, or commits.
const BEAT_MS: i64 = 400;

#[derive(Debug, Default)]
pub(crate) struct Member {
    pauses: VecDeque<i64>,
    topics: KnownTopics,
    member_id: String,
    generation: i32,
    stage: Stage,
    turn: usize,
    is_waiting: bool,
    sent: Option<Sent>,
    asked_at_ms: i64,
    /// When it last said that it lives, and was told that all is well.
    heard_at_ms: Option<i64>,
    /// The committed offsets that it knows of.
    seen: BTreeMap<OffsetKey, i64>,
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
enum Stage {
    #[default]
    Joining,
    /// With what each member gets, for the leader.
    Syncing(Vec<(String, Vec<u8>)>),
    Stable(Vec<i32>),
}

#[derive(Debug, Clone)]
enum Sent {
    Commit(OffsetKey, i64),
    Look(OffsetKey),
}

impl Member {
    fn rejoin(&mut self, error: ErrorCode, desk: &mut Desk<'_>) {
        match error {
            ErrorCode::UnknownMemberId | ErrorCode::FencedInstanceId => self.member_id.clear(),
            _ => {}
        }
        if let (ErrorCode::UnknownMemberId, Some(heard_at_ms)) = (error, self.heard_at_ms.take()) {
            desk.judge.expelled(GROUP, heard_at_ms);
        }
        self.stage = Stage::Joining;
        desk.judge.assigned(GROUP, desk.client, None);
        desk.retry();
    }

    fn key(&self, partition: i32, topic_id: Uuid) -> OffsetKey {
        (GROUP.to_owned(), topic_id, partition)
    }

    /// The next thing that a member does which has its partitions.
    fn live(&mut self, assigned: &[i32], desk: &mut Desk<'_>) {
        self.turn += 1;
        let place = self.turn / 3 % assigned.len().max(1);
        let partition = assigned.get(place).copied();
        let topic_id = match (self.turn % 3, partition) {
            (0, _) | (_, None) => None,
            (_, Some(_)) => self.topics.find(STEADY[0], desk),
        };
        match (self.turn % 3, partition, topic_id) {
            (1, Some(partition), Some(topic_id)) => {
                let key = self.key(partition, topic_id);
                self.sent = Some(Sent::Look(key));
                desk.ask(Ask::FetchOffset {
                    group: GROUP.to_owned(),
                    topic_id,
                    partition,
                });
            }
            (2, Some(partition), Some(topic_id)) => {
                let key = self.key(partition, topic_id);
                let offset = desk.judge.next_offset(&key);
                desk.judge.committing(key.clone(), offset, None);
                self.sent = Some(Sent::Commit(key, offset));
                desk.ask(Ask::CommitOffset {
                    group: GROUP.to_owned(),
                    generation: self.generation,
                    member_id: self.member_id.clone(),
                    topic_id,
                    partition,
                    offset,
                });
            }
            (1 | 2, Some(_), None) => {}
            _ => {
                desk.ask(Ask::Heartbeat {
                    group: GROUP.to_owned(),
                    generation: self.generation,
                    member_id: self.member_id.clone(),
                });
            }
        }
    }

    fn joined(&mut self, joined: crate::protocol::Joined, desk: &mut Desk<'_>) {
        match joined.error {
            ErrorCode::None => {
                self.member_id = joined.member_id;
                self.generation = joined.generation;
                let is_leader = joined.leader == self.member_id;
                let count = joined.members.len().max(1);
                let share = |(at, id): (usize, String)| {
                    let partitions = (0..STEADY_PARTITIONS).map(|one| one as u8);
                    let own = partitions.filter(|one| *one as usize % count == at);
                    (id, own.collect::<Vec<u8>>())
                };
                let assignments = match is_leader {
                    true => joined.members.into_iter().enumerate().map(share).collect(),
                    false => Vec::new(),
                };
                self.stage = Stage::Syncing(assignments);
            }
            ErrorCode::MemberIdRequired => self.member_id = joined.member_id,
            error => self.rejoin(error, desk),
        }
    }

    /// A commit was answered, or a heartbeat.
    fn done(&mut self, error: ErrorCode, desk: &mut Desk<'_>) {
        match (error, self.sent.take()) {
            // No sign of life that a member may trust: it is taken while the group waits for its members to join
            // again, tells nothing of that, and who has not joined at the end of the wait is none any more.
            (ErrorCode::None, Some(Sent::Commit(key, offset))) => {
                let seen = self.seen.entry(key.clone()).or_insert(offset);
                *seen = offset.max(*seen);
                desk.judge.offset_known(key, offset);
            }
            (ErrorCode::None, _) => self.heard_at_ms = Some(self.asked_at_ms),
            (
                ErrorCode::RebalanceInProgress
                | ErrorCode::IllegalGeneration
                | ErrorCode::UnknownMemberId
                | ErrorCode::GroupIdNotFound,
                _,
            ) => self.rejoin(error, desk),
            _ => {}
        }
    }
}

impl Client for Member {
    fn take(&mut self, task: Task) {
        if let Task::Pause { ms } = task {
            self.pauses.push_back(ms);
        }
    }

    fn act(&mut self, desk: &mut Desk<'_>) {
        if self.is_waiting {
            return;
        }
        if let Some(ms) = self.pauses.pop_front() {
            desk.wake_in_ms = Some(ms);
            return;
        }
        self.is_waiting = true;
        self.asked_at_ms = desk.judge.now_ms;
        match self.stage.clone() {
            Stage::Joining => {
                desk.ask(Ask::Join {
                    group: GROUP.to_owned(),
                    member_id: self.member_id.clone(),
                });
            }
            Stage::Syncing(assignments) => {
                desk.ask(Ask::Sync {
                    group: GROUP.to_owned(),
                    generation: self.generation,
                    member_id: self.member_id.clone(),
                    assignments,
                });
            }
            Stage::Stable(assigned) => self.live(&assigned, desk),
        }
    }

    fn answered(&mut self, _: i32, ask: &Ask, answer: Answer, desk: &mut Desk<'_>) {
        self.is_waiting = false;
        match answer {
            Answer::Joined(joined) => self.joined(joined, desk),
            Answer::Synced { error, assignment } => match error {
                ErrorCode::None => {
                    let partitions: Vec<i32> = assignment.into_iter().map(i32::from).collect();
                    desk.judge
                        .assigned(GROUP, desk.client, Some(partitions.clone()));
                    // As in Kafka, it is no sign of life.
                    self.heard_at_ms = None;
                    self.stage = Stage::Stable(partitions);
                }
                error => self.rejoin(error, desk),
            },
            Answer::Offset { error, offset } => {
                if let (ErrorCode::None, Some(Sent::Look(key))) = (error, self.sent.take()) {
                    let seen = self.seen.entry(key.clone()).or_insert(-1);
                    desk.judge.offset_fetched(key, offset, false, Some(*seen));
                    *seen = offset.max(*seen);
                }
            }
            Answer::Done { error } => self.done(error, desk),
            answer => {
                self.topics.answered(ask, &answer, desk);
            }
        }
        if matches!(self.stage, Stage::Stable(_)) {
            desk.wake_in_ms = Some(BEAT_MS);
        }
    }

    fn lost(&mut self, desk: &mut Desk<'_>) {
        self.is_waiting = false;
        self.sent = None;
        desk.retry();
    }

    fn is_at_rest(&self) -> bool {
        self.pauses.is_empty() && matches!(self.stage, Stage::Stable(_))
    }
}
