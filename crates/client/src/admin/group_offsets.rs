//! The offsets that groups have committed: listed, altered, deleted.

use super::fan_out::Route;
use super::groups::group_subject;
use super::partitions::{by_topic, partition_subject, version_from};
use super::{Admin, PerKey, checked};
use crate::Error;
use crate::cluster::{Connection, Deadline};
use model::{ErrorCode, TopicPartition};
use std::collections::BTreeMap;
use wire::ApiKey;
use wire::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use wire::messages::offset_delete_request::{
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use wire::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use wire::messages::{
    OffsetCommitRequest, OffsetCommitResponse, OffsetDeleteRequest, OffsetDeleteResponse,
    OffsetFetchRequest, OffsetFetchResponse,
};

/// The last version that names topics; later ones need their ids.
const TOPIC_NAMES_LAST: i16 = 9;
/// The first version that asks for several groups.
const GROUPS_FROM: i16 = 8;
/// The first version that can ask for all partitions.
const ALL_PARTITIONS_FROM: i16 = 2;
/// The first version that can refuse offsets of open transactions.
const STABLE_FROM: i16 = 7;

/// An offset that a group has committed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommittedOffset {
    /// The offset of the next record to read.
    pub offset: i64,
    /// The epoch of the leader of the record before it, if it is known.
    pub leader_epoch: Option<i32>,
    /// What the group wrote beside it.
    pub metadata: String,
}

impl CommittedOffset {
    /// This offset, and nothing beside it.
    pub const fn at(offset: i64) -> Self {
        Self {
            offset,
            leader_epoch: None,
            metadata: String::new(),
        }
    }
}

/// What is said of a partition: its index, offset, epoch, metadata and error.
type Told<'a> = (i32, i64, i32, Option<&'a str>, i16);

impl Admin {
    /// The offsets that a group has committed: of these partitions, `None` where there is none, or
    /// of all that have one. `require_stable` refuses those of transactions that are still open
    /// (KIP-447).
    ///
    /// # Errors
    /// What the coordinator says of the whole group.
    pub async fn list_group_offsets(
        &self,
        group: &str,
        partitions: Option<&[TopicPartition]>,
        require_stable: bool,
    ) -> Result<PerKey<TopicPartition, Option<CommittedOffset>>, Error> {
        let call = |connection: Connection, deadline: Deadline| async move {
            fetch(&connection, group, partitions, require_stable, deadline).await
        };
        self.ask(Route::Coordinator(group.to_owned()), call).await
    }

    /// Commits offsets for a group, which must have no members.
    ///
    /// # Errors
    /// What the coordinator says of the whole call.
    pub async fn alter_group_offsets(
        &self,
        group: &str,
        offsets: &BTreeMap<TopicPartition, CommittedOffset>,
    ) -> Result<PerKey<TopicPartition, ()>, Error> {
        let call = |connection: Connection, deadline: Deadline| async move {
            commit(&connection, group, offsets, deadline).await
        };
        self.ask(Route::Coordinator(group.to_owned()), call).await
    }

    /// Deletes offsets of a group, of topics that none of its members is subscribed to.
    ///
    /// # Errors
    /// What the coordinator says of the whole group.
    pub async fn delete_group_offsets(
        &self,
        group: &str,
        partitions: &[TopicPartition],
    ) -> Result<PerKey<TopicPartition, ()>, Error> {
        let topics = &by_topic(partitions);
        let call = |connection: Connection, deadline: Deadline| async move {
            let partition = |index: &i32| OffsetDeleteRequestPartition {
                partition_index: *index,
            };
            let request = OffsetDeleteRequest {
                group_id: group,
                topics: topics
                    .iter()
                    .map(|(topic, indexes)| OffsetDeleteRequestTopic {
                        name: topic,
                        partitions: indexes.iter().map(partition).collect(),
                    })
                    .collect(),
            };
            let answer = connection.call(&request, deadline).await?;
            let response: OffsetDeleteResponse<'_> = answer.read()?;
            checked(response.error_code, group_subject(group), None)?;
            let mut results = PerKey::new();
            for topic in response.topics.iter() {
                for partition in topic.partitions.iter() {
                    let key = TopicPartition::new(topic.name, partition.partition_index);
                    let checked = checked(partition.error_code, partition_subject(&key), None);
                    results.insert(key, checked);
                }
            }
            Ok(results)
        };
        self.ask(Route::Coordinator(group.to_owned()), call).await
    }
}

async fn fetch(
    connection: &Connection,
    group: &str,
    partitions: Option<&[TopicPartition]>,
    require_stable: bool,
    deadline: Deadline,
) -> Result<PerKey<TopicPartition, Option<CommittedOffset>>, Error> {
    let first = match (partitions, require_stable) {
        (_, true) => STABLE_FROM,
        (None, false) => ALL_PARTITIONS_FROM,
        (Some(_), false) => 0,
    };
    version_from(connection, ApiKey::OffsetFetch, first)?;
    let version = connection.version_up_to(ApiKey::OffsetFetch, TOPIC_NAMES_LAST)?;
    let topics = partitions.map(by_topic);
    let mut request = OffsetFetchRequest {
        require_stable,
        ..OffsetFetchRequest::default()
    };
    if version >= GROUPS_FROM {
        let topics = topics.as_ref().map(|topics| {
            let topics = topics.iter();
            topics
                .map(|(topic, indexes)| OffsetFetchRequestTopics {
                    name: topic,
                    partition_indexes: indexes.into(),
                    ..OffsetFetchRequestTopics::default()
                })
                .collect()
        });
        let wanted = OffsetFetchRequestGroup {
            group_id: group,
            topics,
            ..OffsetFetchRequestGroup::default()
        };
        request.groups = vec![wanted].into();
    } else {
        request.group_id = group;
        request.topics = topics.as_ref().map(|topics| {
            let topics = topics.iter();
            topics
                .map(|(topic, indexes)| OffsetFetchRequestTopic {
                    name: topic,
                    partition_indexes: indexes.into(),
                })
                .collect()
        });
    }
    let answer = connection.call_version(version, &request, deadline).await?;
    let response: OffsetFetchResponse<'_> = answer.read()?;
    committed(&response, group)
}

/// The offsets in an answer, before or since it can be about several groups.
fn committed(
    response: &OffsetFetchResponse<'_>,
    group: &str,
) -> Result<PerKey<TopicPartition, Option<CommittedOffset>>, Error> {
    let mut results = PerKey::new();
    checked(response.error_code, group_subject(group), None)?;
    for topic in response.topics.iter() {
        for p in topic.partitions.iter() {
            let (offset, epoch) = (p.committed_offset, p.committed_leader_epoch);
            let told = (p.partition_index, offset, epoch, p.metadata, p.error_code);
            take(topic.name, told, &mut results);
        }
    }
    for group in response.groups.iter() {
        checked(group.error_code, group_subject(group.group_id), None)?;
        for topic in group.topics.iter() {
            for p in topic.partitions.iter() {
                let (offset, epoch) = (p.committed_offset, p.committed_leader_epoch);
                let told = (p.partition_index, offset, epoch, p.metadata, p.error_code);
                take(topic.name, told, &mut results);
            }
        }
    }
    Ok(results)
}

/// Takes what is said of one partition.
fn take(
    topic: &str,
    (index, offset, leader_epoch, metadata, code): Told<'_>,
    results: &mut PerKey<TopicPartition, Option<CommittedOffset>>,
) {
    let key = TopicPartition::new(topic, index);
    let committed = checked(code, partition_subject(&key), None).map(|()| {
        // An offset below zero stands for none.
        (offset >= 0).then(|| CommittedOffset {
            offset,
            leader_epoch: Some(leader_epoch).filter(|epoch| *epoch >= 0),
            metadata: metadata.unwrap_or_default().to_owned(),
        })
    });
    results.insert(key, committed);
}

/// Whether a broker is no coordinator of the group, or not yet.
const fn is_of_coordinator(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::NotCoordinator
            | ErrorCode::CoordinatorNotAvailable
            | ErrorCode::CoordinatorLoadInProgress
    )
}

async fn commit(
    connection: &Connection,
    group: &str,
    offsets: &BTreeMap<TopicPartition, CommittedOffset>,
    deadline: Deadline,
) -> Result<PerKey<TopicPartition, ()>, Error> {
    let version = connection.version_up_to(ApiKey::OffsetCommit, TOPIC_NAMES_LAST)?;
    let mut topics: BTreeMap<&str, Vec<OffsetCommitRequestPartition<'_>>> = BTreeMap::new();
    for (partition, committed) in offsets {
        let commit = OffsetCommitRequestPartition {
            partition_index: partition.partition,
            committed_offset: committed.offset,
            committed_leader_epoch: committed.leader_epoch.unwrap_or(-1),
            committed_metadata: Some(&committed.metadata),
        };
        topics.entry(&partition.topic).or_default().push(commit);
    }
    let request = OffsetCommitRequest {
        group_id: group,
        // Below zero: who commits is not a member.
        generation_id_or_member_epoch: -1,
        topics: topics
            .into_iter()
            .map(|(topic, partitions)| OffsetCommitRequestTopic {
                name: topic,
                partitions: partitions.into(),
                ..OffsetCommitRequestTopic::default()
            })
            .collect(),
        ..OffsetCommitRequest::default()
    };
    let answer = connection.call_version(version, &request, deadline).await?;
    let response: OffsetCommitResponse<'_> = answer.read()?;
    let mut results = PerKey::new();
    for topic in response.topics.iter() {
        for partition in topic.partitions.iter() {
            if is_of_coordinator(ErrorCode::from_code(partition.error_code)) {
                // It is said of each partition, and holds for the whole group: another one is asked,
                // or the same one again.
                checked(partition.error_code, group_subject(group), None)?;
            }
            let key = TopicPartition::new(topic.name, partition.partition_index);
            let checked = checked(partition.error_code, partition_subject(&key), None);
            results.insert(key, checked);
        }
    }
    Ok(results)
}
