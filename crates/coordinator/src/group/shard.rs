//! One partition of `__consumer_offsets` as a replicated state machine.
//!
//! ```text
//!   records of the log ─> replay … start ┐
//!   request, now ─> join_group, commit_offsets … ─> Decision ─> append ─> replay ─> answer
//!   next_deadline ─> expire(now) ────────────────> Decision ─> append ─> replay ─> answer
//!   the log did not take the records ─> append_failed ─> refusals
//!   the broker leads the partition no longer ─> unload ─> refusals of all parked requests
//! ```

use super::GroupConfig;
use super::ReplayError;
use super::consumer::{RegexResolution, Topics};
use super::effects::Effects;
use super::group::Group;
use super::group_record::GroupRecord;
use super::membership::Membership;
use super::offset_store::{CommittedOffset, PendingTransactions};
use super::opaque_group::OpaqueGroup;
use super::records;
use super::timers::{Timer, Timers};
use crate::group_response::{JoinGroupResponse, SyncGroupResponse};
use crate::{CoordinatorRecord, Decision, GroupResponse, Reply, Token};
use model::{ErrorCode, MonotonicTime, Now, Offset, ProducerId, RetentionClock};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Where a record stands in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordOrigin {
    /// The record's offset.
    pub offset: Offset,
    /// The producer of a transactional batch; -1 for any other batch.
    pub producer_id: ProducerId,
}

/// The groups and offsets of one partition of `__consumer_offsets`.
///
/// Life: [`GroupShard::new`], [`GroupShard::replay`] of the whole log, [`GroupShard::start`]; then
/// requests and [`GroupShard::expire`]; at last [`GroupShard::unload`].
///
/// The contract with the shell:
/// - The records of a decision are appended and replayed before the next call. Its parked token is
///   remembered before its released ones are answered.
/// - The reply and the released answers of a decision are sent when the high watermark has passed
///   all that was appended up to the decision, its own records included; so nobody sees what may
///   yet be lost. Heartbeats and refusals need not wait.
/// - When the log does not take the records, none of them is replayed and the decision goes to
///   [`GroupShard::append_failed`].
/// - When the broker leads the partition no longer, or the log is damaged, the shell answers all
///   who wait for the high watermark with `NotCoordinator`, unloads the shard and answers what
///   that releases. A new leader loads its own from the log.
/// - After every call [`GroupShard::next_deadline`] may have changed, and after an expiry
///   [`GroupShard::take_resolutions`] may have work, which needs no lock.
/// - When the connection of a parked request closes, nothing changes here; its answer is dropped.
#[derive(Debug)]
pub struct GroupShard {
    pub(super) config: GroupConfig,
    pub(super) groups: BTreeMap<Arc<str>, Group>,
    /// Replicated, like the parts of a group that say so.
    pub(super) pending_transactions: PendingTransactions,
    pub(super) timers: Timers,
    /// The topics of the cluster.
    pub(super) topics: Topics,
    /// Regular expressions that the shell has yet to resolve.
    pub(super) resolutions: Vec<RegexResolution>,
    /// By which committed offsets grow old; none while the log is loaded.
    pub(super) retention_clock: Option<RetentionClock>,
    next_token: u64,
}

impl GroupShard {
    /// A shard that has yet to replay its log.
    pub fn new(config: GroupConfig) -> Self {
        Self {
            config,
            groups: BTreeMap::new(),
            pending_transactions: PendingTransactions::default(),
            timers: Timers::default(),
            topics: Topics::default(),
            resolutions: Vec::new(),
            retention_clock: None,
            next_token: 0,
        }
    }

    /// Obeys other settings from the next decision on.
    pub fn set_config(&mut self, config: GroupConfig) {
        self.config = config;
    }

    /// Applies a record of the log: while loading, and after a decision's records were appended.
    /// Types it does not know are skipped.
    ///
    /// # Errors
    /// A [`ReplayError`] when the record cannot be read. While loading, one that is damaged may be
    /// skipped; one of a later version may not.
    pub fn replay(
        &mut self,
        origin: RecordOrigin,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), ReplayError> {
        let record = GroupRecord::parse(origin.offset, key, value);
        match record.map_err(|error| error.of_value(value))? {
            GroupRecord::Offset {
                group_id,
                topic,
                partition,
                offset: Some(offset),
            } => self.put_offset(origin.producer_id, group_id, topic, partition, offset),
            GroupRecord::Offset {
                group_id,
                topic,
                partition,
                offset: None,
            } => self.remove_offset(group_id, topic, partition),
            GroupRecord::Classic {
                group_id,
                stored: Some(stored),
            } => {
                let group = self.group_mut(group_id);
                group.metadata = Some(stored.bytes.into());
                group.membership.adopt_empty(&stored.group);
            }
            GroupRecord::Classic {
                group_id,
                stored: None,
            } => self.change_existing(group_id, |group| {
                group.metadata = None;
                group.offsets.is_simple_group = false;
            }),
            GroupRecord::Consumer { group_id, record } if record.has_value() => {
                let group = self.group_mut(group_id);
                group.offsets.is_simple_group = false;
                record.apply(group.consumer.get_or_insert_default());
            }
            GroupRecord::Consumer { group_id, record } => {
                self.change_existing(group_id, |group| {
                    group.consumer.take_if(|consumer| {
                        record.apply(consumer);
                        consumer.is_void()
                    });
                });
            }
            GroupRecord::Modern { group_id, key_type } => {
                if value.is_some() {
                    let group = self.group_mut(group_id);
                    group.offsets.is_simple_group = false;
                    OpaqueGroup::insert_into(&mut group.modern, key_type, key);
                } else {
                    self.change_existing(group_id, |group| {
                        group.modern.take_if(|modern| modern.remove(key));
                    });
                }
            }
            GroupRecord::Unknown => {}
        }
        Ok(())
    }

    /// Applies the end of a transaction: a control batch of the log.
    pub fn replay_transaction_end(&mut self, producer_id: ProducerId, is_commit: bool) {
        for (group_id, offsets) in self.pending_transactions.take(producer_id) {
            self.change_existing(&group_id, |group| {
                for (topic, partitions) in offsets.topics() {
                    for (partition, offset) in partitions.iter() {
                        group.offsets.close(topic, *partition, producer_id);
                        if is_commit {
                            group.offsets.settle(topic, *partition, offset.clone());
                        }
                    }
                }
            });
        }
    }

    /// Whether the open transaction of a producer holds offsets of no more partitions than `max`. Looks at
    /// no more than `max` groups.
    pub fn has_at_most_pending(&self, producer_id: ProducerId, max: usize) -> bool {
        self.pending_transactions.has_at_most(producer_id, max)
    }

    /// Ends loading: the sessions of all members start anew.
    pub fn start(&mut self, now: Now) {
        let stored: Vec<Arc<str>> = self
            .groups
            .values()
            .filter(|group| group.metadata.is_some())
            .map(|group| Arc::clone(&group.id))
            .collect();
        let mut outcome = Outcome::default();
        for group_id in stored {
            self.act(&group_id, now, &mut outcome, |group, effects| {
                let value = group.metadata.as_deref().unwrap_or_default();
                if let Ok(value) = records::parse_group(value) {
                    *group.membership = Membership::restored(&value);
                    group.membership.resume(effects);
                }
            });
        }
        let consumers = self
            .groups
            .values()
            .filter(|group| group.consumer_type().is_some());
        let consumers: Vec<Arc<str>> = consumers.map(|group| Arc::clone(&group.id)).collect();
        for group_id in consumers {
            self.resume_consumer_group(&group_id, now, &mut outcome);
        }
        debug_assert!(outcome.records.is_empty() && outcome.released.is_empty());
        let interval_ms = self.config.offsets_retention_check_interval_ms.max(1);
        self.timers
            .schedule(now.monotonic.plus_ms(interval_ms), Timer::Retention);
        self.retention_clock = Some(RetentionClock::new(now));
    }

    /// Ends the shard's life with the answers of all requests that are parked.
    pub fn unload(self) -> Vec<(Token, GroupResponse)> {
        let error = ErrorCode::NotCoordinator;
        let mut released = Vec::new();
        for mut group in self.groups.into_values() {
            if group.membership.members.is_empty() {
                continue;
            }
            for member in std::mem::take(&mut group.membership.members).into_values() {
                let join = JoinGroupResponse::error(&member.id, error);
                let sync = SyncGroupResponse::error(error);
                let join = member
                    .join_token
                    .map(|token| (token, GroupResponse::Join(join)));
                let sync = member
                    .sync_token
                    .map(|token| (token, GroupResponse::Sync(sync)));
                released.extend(join.into_iter().chain(sync));
            }
        }
        released
    }

    /// Acts on what is due at `now`: sessions, rebalances, retention of offsets.
    pub fn expire(&mut self, now: Now) -> Decision<()> {
        let mut outcome = Outcome::default();
        for (at, timer) in self.timers.take_due(now.monotonic) {
            match timer {
                Timer::Session(group_id, member_id) => {
                    self.act(&group_id, now, &mut outcome, |group, effects| {
                        let membership = &mut group.membership;
                        membership.session_timer_fired(at, &member_id, effects);
                    });
                }
                Timer::Join(group_id) => {
                    self.act(&group_id, now, &mut outcome, |group, effects| {
                        group.membership.join_deadline_passed(at, effects);
                    });
                }
                Timer::Sync(group_id) => {
                    self.act(&group_id, now, &mut outcome, |group, effects| {
                        group.membership.sync_deadline_passed(at, effects);
                    });
                }
                Timer::ConsumerMember(group_id, member_id) => {
                    self.consumer_timer_fired(at, &group_id, &member_id, now, &mut outcome);
                }
                Timer::Regexes(group_id) => {
                    self.regex_timer_fired(at, &group_id, now, &mut outcome);
                }
                Timer::Retention => self.expire_offsets(now, &mut outcome),
            }
        }
        outcome.into_split_decision(())
    }

    /// When to call [`GroupShard::expire`] next. It may turn out that nothing is due then.
    pub fn next_deadline(&self) -> Option<MonotonicTime> {
        self.timers.next()
    }

    /// The group with this id, made if there is none.
    pub(super) fn group_mut(&mut self, group_id: &str) -> &mut Group {
        let id = match self.groups.get_key_value(group_id) {
            Some((id, _)) => Arc::clone(id),
            None => Arc::from(group_id),
        };
        self.groups
            .entry(Arc::clone(&id))
            .or_insert_with(|| Group::new(id))
    }

    /// Changes a group that exists; it ceases to if nothing is left of it.
    fn change_existing(&mut self, group_id: &str, change: impl FnOnce(&mut Group)) {
        let Some(group) = self.groups.get_mut(group_id) else {
            return;
        };
        change(group);
        if group.is_void() {
            self.groups.remove(group_id);
        }
    }

    /// An offset was stored, by a transaction if it has a producer.
    fn put_offset(
        &mut self,
        producer_id: ProducerId,
        group_id: &str,
        topic: &str,
        partition: i32,
        offset: CommittedOffset,
    ) {
        // Consumers that commit without joining make a group this way.
        let group = self.group_mut(group_id);
        group.offsets.is_simple_group |= !group.has_records();
        if producer_id.is_none() {
            group.offsets.committed.insert(topic, partition, offset);
            return;
        }
        group.offsets.open(topic, partition, producer_id);
        let group_id = Arc::clone(&group.id);
        self.pending_transactions
            .insert(producer_id, &group_id, topic, partition, offset);
    }

    fn remove_offset(&mut self, group_id: &str, topic: &str, partition: i32) {
        let mut producers = None;
        self.change_existing(group_id, |group| {
            group.offsets.committed.remove(topic, partition);
            producers = group.offsets.open_transactions.remove(topic, partition);
        });
        for producer_id in producers.into_iter().flatten() {
            self.pending_transactions
                .remove(producer_id, group_id, topic, partition);
        }
    }

    /// Lets `action` change the soft state of a group, if there is such a group. It ceases to be
    /// one if nothing is left of it.
    pub(super) fn act<R>(
        &mut self,
        group_id: &str,
        now: Now,
        outcome: &mut Outcome,
        action: impl FnOnce(&mut Group, &mut Effects<'_>) -> R,
    ) -> Option<R> {
        let group = self.groups.get_mut(group_id)?;
        let mut effects = Effects {
            group_id: Arc::clone(&group.id),
            now,
            group_size_max: self.config.group_size_max,
            initial_rebalance_delay_ms: self.config.initial_rebalance_delay_ms,
            batch_bytes_max: self.config.batch_bytes_max,
            timers: &mut self.timers,
            records: &mut outcome.records,
            released: &mut outcome.released,
        };
        let result = action(group, &mut effects);
        if group.is_void() {
            self.groups.remove(group_id);
        }
        Some(result)
    }

    /// A token that was never given before.
    pub(super) const fn next_token(&mut self) -> Token {
        self.next_token += 1;
        Token(self.next_token)
    }
}

/// What a decision has gathered so far.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) records: Vec<CoordinatorRecord>,
    /// Runs of records that must stand in one batch.
    pub(super) indivisible: Vec<Range<usize>>,
    pub(super) released: Vec<(Token, GroupResponse)>,
}

impl Outcome {
    /// A decision whose records must stand together.
    pub(super) fn into_decision<R>(self, reply: R) -> Decision<R> {
        Decision {
            records: self.records,
            is_atomic: true,
            indivisible: self.indivisible,
            reply: Reply::Now(reply),
            released: self.released,
        }
    }

    /// A decision whose records may be split where they are not said to be indivisible.
    pub(super) fn into_split_decision<R>(self, reply: R) -> Decision<R> {
        Decision {
            is_atomic: false,
            ..self.into_decision(reply)
        }
    }

    /// The decision about a JoinGroup that has been answered, or waits under `token`.
    pub(super) fn into_join_decision(
        mut self,
        token: Token,
        reply: Option<JoinGroupResponse>,
    ) -> Decision<JoinGroupResponse> {
        let reply = reply.or_else(|| match self.take(token)? {
            GroupResponse::Join(response) => Some(response),
            GroupResponse::Sync(_) => None,
        });
        self.into_parked_decision(token, reply)
    }

    /// The decision about a SyncGroup that has been answered, or waits under `token`.
    pub(super) fn into_sync_decision(
        mut self,
        token: Token,
        reply: Option<SyncGroupResponse>,
    ) -> Decision<SyncGroupResponse> {
        let reply = reply.or_else(|| match self.take(token)? {
            GroupResponse::Sync(response) => Some(response),
            GroupResponse::Join(_) => None,
        });
        self.into_parked_decision(token, reply)
    }

    /// The answer of a request that the decision itself parked.
    fn take(&mut self, token: Token) -> Option<GroupResponse> {
        let at = self
            .released
            .iter()
            .position(|(other, _)| *other == token)?;
        Some(self.released.swap_remove(at).1)
    }

    fn into_parked_decision<R>(self, token: Token, reply: Option<R>) -> Decision<R> {
        Decision {
            records: self.records,
            is_atomic: true,
            indivisible: self.indivisible,
            reply: reply.map_or(Reply::Parked(token), Reply::Now),
            released: self.released,
        }
    }
}
