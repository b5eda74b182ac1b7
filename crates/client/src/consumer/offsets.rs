//! Offsets: those that a group committed, and those that partitions have at a time.

use super::committed_offset::{CommittedOffset, Offsets};
use super::coordinator;
use super::fetcher::{ListedOffset, SlotId};
use super::shared::Shared;
use super::turns::Turn;
use crate::Error;
use crate::cluster::{Deadline, Lane};
use model::{BrokerId, ErrorCode, LeaderEpoch, TopicPartition};
use std::collections::BTreeMap;
use wire::ApiKey;
use wire::messages::list_offsets_request::{
    ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic,
};
use wire::messages::list_offsets_response::ListOffsetsResponse;
use wire::messages::offset_commit_request::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::offset_commit_response::OffsetCommitResponse;
use wire::messages::offset_fetch_request::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use wire::messages::offset_fetch_response::OffsetFetchResponse;

/// The highest versions that name topics: ids may be of a topic that was made again.
const COMMIT_VERSION_MAX: i16 = 9;
const FETCH_VERSION_MAX: i16 = 9;
/// The first version of OffsetFetch for several groups.
const GROUPS_FROM: i16 = 8;

/// A record's offset and its timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffsetAndTimestamp {
    /// The offset.
    pub offset: i64,
    /// In ms.
    pub timestamp_ms: i64,
    /// The leader epoch of the record; -1 when that is not known.
    pub leader_epoch: i32,
}

/// Tries `attempt` until it succeeds, fails for good, or the deadline comes.
macro_rules! retry {
    ($shared:expr, $deadline:expr, $attempt:expr) => {{
        let mut failures = 0;
        loop {
            let error = match $attempt.await {
                Ok(result) => break Ok(result),
                Err(error) => error,
            };
            failures += 1;
            let delay_ms = $shared.brokers.retry_delay_ms(failures);
            if !error.is_retriable() || !$deadline.sleep_ms(delay_ms).await {
                break Err(error);
            }
        }
    }};
}

/// A commit that was asked for: its place behind those asked for before it, and whose it is.
#[derive(Debug)]
pub(super) struct Commit {
    offsets: Offsets,
    author: Author,
    turn: Turn,
}

/// Who commits, as of the call.
#[derive(Debug, Clone)]
struct Author {
    member_id: String,
    /// -1 for who is no member.
    generation_id: i32,
    /// What proves later that the partitions were the consumer's all the while; `None` when they
    /// were not even then.
    slots: Option<Vec<SlotId>>,
}

/// What has become of an author whose generation is not the group's.
enum Renewal {
    /// The next generation, in which it still has the partitions.
    Renewed(Author),
    /// The next generation is not known yet.
    Unknown,
    /// It may not have them any more.
    Lost,
}

impl Author {
    /// Who this consumer is at the moment.
    fn of(shared: &Shared, offsets: &Offsets) -> Self {
        let state = shared.state.lock();
        let member = state.membership.as_ref().filter(|_| state.is_subscribed());
        let (member_id, generation_id) = member.map_or(("", -1), |m| m.generation());
        Self {
            member_id: member_id.to_owned(),
            generation_id,
            slots: offsets
                .keys()
                .map(|name| state.fetcher.slot_of(name))
                .collect(),
        }
    }

    fn renewal(&self, shared: &Shared, offsets: &Offsets) -> Renewal {
        let now = Self::of(shared, offsets);
        let is_same_member = now.generation_id >= 0 && now.member_id == self.member_id;
        if !is_same_member || now.slots.is_none() || now.slots != self.slots {
            Renewal::Lost
        } else if now.generation_id == self.generation_id {
            Renewal::Unknown
        } else {
            Renewal::Renewed(now)
        }
    }
}

impl Commit {
    /// Takes the place of a commit of `offsets` among the calls. None are a commit that only waits
    /// for those before it.
    ///
    /// # Errors
    /// [`Error::Refused`] without asking anybody when partitions come from a group that this consumer
    /// is no member of: others may have them.
    pub(super) fn begin(shared: &Shared, offsets: Offsets) -> Result<Self, Error> {
        let author = Author::of(shared, &offsets);
        let is_member = author.generation_id >= 0;
        if !is_member && !offsets.is_empty() && shared.state.lock().is_subscribed() {
            let code = ErrorCode::UnknownMemberId;
            return Err(Error::Refused {
                subject: format!("commit in group `{}`", shared.group_id()?),
                code,
                message: Some(NO_MEMBER.to_owned()),
            });
        }
        // Wherever the group stands after this one, the next interval commits again.
        shared.state.lock().auto_committed.clear();
        let turn = shared.commits.take();
        Ok(Self {
            offsets,
            author,
            turn,
        })
    }

    /// Commits when all commits before this one have ended.
    ///
    /// # Errors
    /// What the coordinator says, for good or until the deadline.
    pub(super) async fn send(mut self, shared: &Shared, deadline: Deadline) -> Result<(), Error> {
        if deadline.bound(self.turn.come()).await.is_none() {
            return Err(Error::of(deadline.error("OffsetCommit", "the coordinator")));
        }
        if self.offsets.is_empty() {
            return Ok(());
        }
        loop {
            let (author, offsets) = (&self.author, &self.offsets);
            let committed = retry!(
                shared,
                deadline,
                commit_once(shared, author, offsets, deadline)
            );
            if !committed.as_ref().is_err_and(is_of_another_generation) {
                return committed;
            }
            // What the member has kept all the while it may commit in its next generation. A
            // heartbeat brings that, unless the member is lost.
            loop {
                match self.author.renewal(shared, &self.offsets) {
                    Renewal::Renewed(author) => break self.author = author,
                    Renewal::Lost => return committed,
                    Renewal::Unknown => {
                        if !deadline.sleep_ms(shared.brokers.retry_delay_ms(1)).await {
                            return committed;
                        }
                    }
                }
            }
        }
    }
}

const fn is_of_another_generation(error: &Error) -> bool {
    matches!(
        error,
        Error::Refused {
            code: ErrorCode::StaleMemberEpoch | ErrorCode::IllegalGeneration,
            ..
        }
    )
}

async fn commit_once(
    shared: &Shared,
    author: &Author,
    offsets: &Offsets,
    deadline: Deadline,
) -> Result<(), Error> {
    let group_id = shared.group_id()?;
    let within = deadline.earlier(shared.request_deadline());
    let connection = coordinator::connect(shared, within).await?;
    let Author {
        member_id,
        generation_id,
        ..
    } = author;
    let generation_id = *generation_id;
    let mut topics: BTreeMap<&str, Vec<OffsetCommitRequestPartition<'_>>> = BTreeMap::new();
    for (name, offset) in offsets {
        let topic = topics.entry(&name.topic).or_default();
        topic.push(OffsetCommitRequestPartition {
            partition_index: name.partition,
            committed_offset: offset.offset,
            committed_leader_epoch: offset.leader_epoch,
            committed_metadata: Some(&offset.metadata),
        });
    }
    let topics = topics
        .iter()
        .map(|(name, partitions)| OffsetCommitRequestTopic {
            name,
            partitions: partitions.into(),
            ..OffsetCommitRequestTopic::default()
        });
    let is_member = generation_id >= 0;
    let request = OffsetCommitRequest {
        group_id,
        generation_id_or_member_epoch: generation_id,
        member_id,
        group_instance_id: shared
            .config
            .group_instance_id
            .as_deref()
            .filter(|_| is_member),
        topics: topics.collect(),
        ..OffsetCommitRequest::default()
    };
    let version = connection.version_up_to(ApiKey::OffsetCommit, COMMIT_VERSION_MAX)?;
    let answer = connection.call_version(version, &request, within).await?;
    let response: OffsetCommitResponse<'_> = answer.read()?;
    for topic in response.topics.iter() {
        for partition in topic.partitions.iter() {
            let code = ErrorCode::from_code(partition.error_code);
            if !code.is_none() {
                let name = TopicPartition::new(topic.name, partition.partition_index);
                refuse_commit(shared, code, generation_id);
                return Err(Error::Refused {
                    subject: format!("commit of `{name}` in group `{group_id}`"),
                    code,
                    message: advice(code).map(str::to_owned),
                });
            }
        }
    }
    Ok(())
}

fn refuse_commit(shared: &Shared, code: ErrorCode, generation_id: i32) {
    coordinator::forget_if_moved(shared, code);
    let mut state = shared.state.lock();
    if let Some(membership) = state.membership.as_mut() {
        membership.handle_commit_error(code, generation_id);
    }
    drop(state);
    shared.joining.notify_one();
}

/// What to do about the commit of a consumer that is subscribed and no member.
const NO_MEMBER: &str = "the consumer is no member of its group, others may have its partitions; poll, \
    and commit what is assigned then; if this happens while it reads, poll more often, or raise \
    `max.poll.interval.ms` or lower `max.poll.records`";

/// What to do about an error of a commit.
const fn advice(code: ErrorCode) -> Option<&'static str> {
    match code {
        ErrorCode::UnknownMemberId
        | ErrorCode::IllegalGeneration
        | ErrorCode::StaleMemberEpoch
        | ErrorCode::FencedMemberEpoch => Some(
            "the group has rebalanced without this consumer; poll more often, or raise \
             `max.poll.interval.ms` or lower `max.poll.records`",
        ),
        ErrorCode::RebalanceInProgress => {
            Some("the group rebalances; poll, and commit what is still assigned")
        }
        ErrorCode::FencedInstanceId => Some("another consumer has the same `group.instance.id`"),
        _ => None,
    }
}

/// The committed offsets of those of `names` that have one.
///
/// # Errors
/// What the coordinator says, for good or until the deadline.
pub(super) async fn committed(
    shared: &Shared,
    names: &[TopicPartition],
    deadline: Deadline,
) -> Result<Offsets, Error> {
    retry!(shared, deadline, committed_once(shared, names, deadline))
}

async fn committed_once(
    shared: &Shared,
    names: &[TopicPartition],
    deadline: Deadline,
) -> Result<Offsets, Error> {
    let group_id = shared.group_id()?;
    let within = deadline.earlier(shared.request_deadline());
    let connection = coordinator::connect(shared, within).await?;
    let version = connection.version_up_to(ApiKey::OffsetFetch, FETCH_VERSION_MAX)?;
    let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for name in names {
        topics.entry(&name.topic).or_default().push(name.partition);
    }
    let mut request = OffsetFetchRequest {
        // An offset that an open transaction may replace is not settled yet (KIP-447).
        require_stable: true,
        ..OffsetFetchRequest::default()
    };
    if version >= GROUPS_FROM {
        let topics = topics
            .iter()
            .map(|(name, indexes)| OffsetFetchRequestTopics {
                name,
                partition_indexes: indexes.into(),
                ..OffsetFetchRequestTopics::default()
            });
        let group = OffsetFetchRequestGroup {
            group_id,
            topics: Some(topics.collect()),
            ..OffsetFetchRequestGroup::default()
        };
        request.groups = vec![group].into();
    } else {
        let topics = topics
            .iter()
            .map(|(name, indexes)| OffsetFetchRequestTopic {
                name,
                partition_indexes: indexes.into(),
            });
        request.group_id = group_id;
        request.topics = Some(topics.collect());
    }
    let answer = connection.call_version(version, &request, within).await?;
    let response: OffsetFetchResponse<'_> = answer.read()?;
    read_committed(&response).map_err(|(subject, code)| {
        coordinator::forget_if_moved(shared, code);
        Error::Refused {
            subject: format!("committed offset{subject} of group `{group_id}`"),
            code,
            message: None,
        }
    })
}

/// The offsets of either layout, or what is refused and why.
fn read_committed(response: &OffsetFetchResponse<'_>) -> Result<Offsets, (String, ErrorCode)> {
    let group_code = response
        .groups
        .iter()
        .next()
        .map_or(0, |group| group.error_code);
    for code in [response.error_code, group_code] {
        let code = ErrorCode::from_code(code);
        if !code.is_none() {
            return Err(("s".to_owned(), code));
        }
    }
    let mut offsets = Offsets::new();
    let mut add = |topic: &str, index: i32, code: i16, offset: CommittedOffset| {
        let name = TopicPartition::new(topic, index);
        match ErrorCode::from_code(code) {
            ErrorCode::None => {
                if offset.offset >= 0 {
                    offsets.insert(name, offset);
                }
                Ok(())
            }
            code => Err((format!(" of `{name}`"), code)),
        }
    };
    for topic in response.topics.iter() {
        for partition in topic.partitions.iter() {
            let offset = CommittedOffset {
                offset: partition.committed_offset,
                leader_epoch: partition.committed_leader_epoch,
                metadata: partition.metadata.unwrap_or_default().to_owned(),
            };
            add(
                topic.name,
                partition.partition_index,
                partition.error_code,
                offset,
            )?;
        }
    }
    for topic in response
        .groups
        .iter()
        .flat_map(|group| group.topics.iter().collect::<Vec<_>>())
    {
        for partition in topic.partitions.iter() {
            let offset = CommittedOffset {
                offset: partition.committed_offset,
                leader_epoch: partition.committed_leader_epoch,
                metadata: partition.metadata.unwrap_or_default().to_owned(),
            };
            add(
                topic.name,
                partition.partition_index,
                partition.error_code,
                offset,
            )?;
        }
    }
    Ok(offsets)
}

/// The first offset at or after each timestamp, [`super::fetcher::EARLIEST`] and
/// [`super::fetcher::LATEST`] among them; none where no record is that young.
///
/// # Errors
/// What the leaders say, for good or until the deadline.
pub(super) async fn list(
    shared: &Shared,
    timestamps: &BTreeMap<TopicPartition, i64>,
    deadline: Deadline,
) -> Result<BTreeMap<TopicPartition, OffsetAndTimestamp>, Error> {
    let mut found = BTreeMap::new();
    let mut left = timestamps.clone();
    let mut failures = 0;
    let listed = loop {
        // Who leads is waited for within; that there is no such partition is final.
        let by_leader = match leaders(shared, &left, deadline).await {
            Ok(by_leader) => by_leader,
            Err(error) => break Err(error),
        };
        let error = match list_once(shared, by_leader, &mut left, &mut found, deadline).await {
            Ok(()) => break Ok(found),
            Err(error) => error,
        };
        failures += 1;
        let delay_ms = shared.brokers.retry_delay_ms(failures);
        if !error.is_retriable() || !deadline.sleep_ms(delay_ms).await {
            break Err(error);
        }
    };
    shared.want_topics();
    listed
}

/// What to ask each leader: partitions with their leader epochs and timestamps.
type Queries = BTreeMap<BrokerId, Vec<(TopicPartition, LeaderEpoch, i64)>>;

async fn leaders(
    shared: &Shared,
    timestamps: &BTreeMap<TopicPartition, i64>,
    deadline: Deadline,
) -> Result<Queries, Error> {
    let mut by_leader = Queries::new();
    for (name, timestamp) in timestamps {
        let brokers = &shared.brokers;
        let leader = brokers
            .leader_of(&name.topic, name.partition, deadline)
            .await?;
        let queries = by_leader.entry(leader.id).or_default();
        queries.push((name.clone(), leader.epoch, *timestamp));
    }
    Ok(by_leader)
}

/// Moves from `left` to `found` what the leaders answer.
async fn list_once(
    shared: &Shared,
    by_leader: Queries,
    left: &mut BTreeMap<TopicPartition, i64>,
    found: &mut BTreeMap<TopicPartition, OffsetAndTimestamp>,
    deadline: Deadline,
) -> Result<(), Error> {
    for (leader, queries) in by_leader {
        let within = deadline.earlier(shared.request_deadline());
        for (name, (listed, timestamp_ms)) in list_from(shared, leader, &queries, within).await? {
            if !listed.error.is_none() {
                shared.brokers.request_refresh();
                return Err(Error::Refused {
                    subject: format!("offset of `{name}`"),
                    code: listed.error,
                    message: None,
                });
            }
            left.remove(&name);
            if listed.offset >= 0 {
                let offset = OffsetAndTimestamp {
                    offset: listed.offset,
                    timestamp_ms,
                    leader_epoch: listed.leader_epoch.0,
                };
                found.insert(name, offset);
            }
        }
    }
    Ok(())
}

/// Asks one leader for offsets, by partition, leader epoch and timestamp; what it says of each,
/// with the timestamp.
pub(super) async fn list_from(
    shared: &Shared,
    leader: BrokerId,
    queries: &[(TopicPartition, LeaderEpoch, i64)],
    deadline: Deadline,
) -> Result<BTreeMap<TopicPartition, (ListedOffset, i64)>, Error> {
    let connection = shared
        .brokers
        .connection(leader, Lane::Main, deadline)
        .await?;
    let mut topics: BTreeMap<&str, Vec<ListOffsetsPartition>> = BTreeMap::new();
    for (name, leader_epoch, timestamp) in queries {
        let topic = topics.entry(&name.topic).or_default();
        topic.push(ListOffsetsPartition {
            partition_index: name.partition,
            current_leader_epoch: leader_epoch.0,
            timestamp: *timestamp,
        });
    }
    let topics = topics.iter().map(|(name, partitions)| ListOffsetsTopic {
        name,
        partitions: partitions.into(),
    });
    let request = ListOffsetsRequest {
        replica_id: BrokerId::NONE,
        isolation_level: shared.config.isolation_level.code(),
        topics: topics.collect(),
        timeout_ms: i32::try_from(deadline.remaining_ms()).unwrap_or(i32::MAX),
    };
    let answer = connection.call(&request, deadline).await?;
    let response: ListOffsetsResponse<'_> = answer.read()?;
    let mut found = BTreeMap::new();
    for topic in response.topics.iter() {
        for partition in topic.partitions.iter() {
            let listed = ListedOffset {
                error: ErrorCode::from_code(partition.error_code),
                offset: partition.offset,
                leader_epoch: LeaderEpoch(partition.leader_epoch),
            };
            let name = TopicPartition::new(topic.name, partition.partition_index);
            found.insert(name, (listed, partition.timestamp));
        }
    }
    Ok(found)
}
