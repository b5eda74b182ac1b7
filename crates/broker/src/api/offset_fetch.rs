//! OffsetFetch: v1–10. The offsets that a group has stored.
//!
//! - Versions from 8 ask for several groups at once (KIP-709); from 10 they name topics by id.
//! - A partition, or all offsets of a group, that is asked for again is answered once.
//! - Null topics (from version 2) ask for all offsets of the group.
//! - A partition without an offset is answered with -1 and no error, whether it exists or not.

use super::{Request, Served, Turn};
use crate::api::broker::Broker;
use crate::coordinators::runtime::{Borrowed, PendingResponse};
use crate::net::ResponseBuffer;
use coordinator::Decision;
use coordinator::group::{FetchedOffset, FetchedTopic, GroupShard, OffsetFetch, OffsetFetchTopic};
use metadata::MetadataImage;
use model::{DecodeError, ErrorCode, LeaderEpoch, Offset, Uuid};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use wire::messages::offset_fetch_request::OffsetFetchRequestGroup;
use wire::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use wire::messages::{OffsetFetchRequest, OffsetFetchResponse};

/// So many groups are looked at before others may have their turn, if each names its partitions.
const GROUPS_AT_A_TIME: usize = 64;

/// The topics of one group of a request: name, id, partitions.
type AskedTopics<'f> = Option<Vec<(&'f str, Uuid, Vec<i32>)>>;

/// What a request has asked for so far: metadata that are stored with an offset may be thousands of
/// times as long as what names them, so each is answered once.
#[derive(Default)]
struct Seen<'f> {
    partitions: BTreeMap<(&'f str, &'f str, Uuid), BTreeSet<i32>>,
    /// Groups of which all offsets are asked for.
    all_of: BTreeSet<&'f str>,
}

impl<'f> Seen<'f> {
    fn is_first_of_all(&mut self, group_id: &'f str) -> bool {
        self.all_of.insert(group_id)
    }

    /// The topic with those of its partitions that were not asked for before; none when all were.
    fn topic_of(
        &mut self,
        group_id: &'f str,
        (name, id, indexes): (&'f str, Uuid, impl Iterator<Item = i32>),
    ) -> Option<(&'f str, Uuid, Vec<i32>)> {
        let mut count = 0;
        let indexes = indexes.inspect(|_| count += 1);
        let seen = self.partitions.entry((group_id, name, id)).or_default();
        let new: Vec<i32> = indexes.filter(|index| seen.insert(*index)).collect();
        (count == 0 || !new.is_empty()).then_some((name, id, new))
    }
}

/// What one group answers.
struct Fetched<'f> {
    group_id: &'f str,
    error: ErrorCode,
    topics: Vec<FetchedTopic>,
}

pub(crate) async fn serve(
    broker: &Broker,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: OffsetFetchRequest<'_> = request.decode()?;
    if request.version >= 8 {
        serve_groups(broker, request, &message, out).await;
    } else {
        serve_one(broker, request, &message, out).await;
    }
    Ok(Served::Answered)
}

/// Fetches offsets of groups, and lets others have their turn in between if what is kept meanwhile
/// is in proportion to the request.
async fn fetch_groups<'f>(
    broker: &Broker,
    version: i16,
    message: &OffsetFetchRequest<'f>,
) -> Vec<Fetched<'f>> {
    let groups: Vec<OffsetFetchRequestGroup<'f>> = message.groups.iter().collect();
    let at_a_time = match groups.iter().all(|group| group.topics.is_some()) {
        true => GROUPS_AT_A_TIME,
        false => groups.len(),
    };
    let mut seen = Seen::default();
    let mut fetched = Vec::with_capacity(groups.len());
    let mut turn = Turn::begin();
    for groups in groups.chunks(at_a_time.max(1)) {
        turn.share().await;
        // All are asked before the first answer is waited for.
        let mut fetching = Vec::with_capacity(groups.len());
        for group in groups {
            let asked = match &group.topics {
                Some(topics) => {
                    let topics = topics.iter();
                    let asked = topics.filter_map(|t| {
                        let topic = (t.name, t.topic_id, t.partition_indexes.iter());
                        seen.topic_of(group.group_id, topic)
                    });
                    Some(asked.collect())
                }
                None if seen.is_first_of_all(group.group_id) => None,
                None => continue,
            };
            let member = (group.member_id, group.member_epoch);
            let stable = message.require_stable;
            let begun = Fetching::begin(broker, group.group_id, member, asked, stable, version);
            fetching.push(begun.await);
        }
        for one in fetching {
            fetched.push(one.end().await);
        }
    }
    fetched
}

async fn serve_groups(
    broker: &Broker,
    request: &Request<'_>,
    message: &OffsetFetchRequest<'_>,
    out: &mut ResponseBuffer,
) {
    let fetched = fetch_groups(broker, request.version, message).await;
    request.room(broker).await;
    let groups = fetched.iter().map(|group| {
        let topics = group.topics.iter().map(|topic| {
            let partitions = topic
                .partitions
                .iter()
                .map(|one| OffsetFetchResponsePartitions {
                    partition_index: one.index,
                    committed_offset: one.offset.0,
                    committed_leader_epoch: one.leader_epoch.0,
                    metadata: Some(&one.metadata),
                    error_code: one.error.code(),
                });
            let partitions = partitions.collect();
            OffsetFetchResponseTopics {
                name: &topic.name,
                topic_id: topic.topic_id,
                partitions,
            }
        });
        OffsetFetchResponseGroup {
            group_id: group.group_id,
            topics: topics.collect(),
            error_code: group.error.code(),
        }
    });
    let response = OffsetFetchResponse {
        groups: groups.collect(),
        ..Default::default()
    };
    request.answer(&response, out);
}

async fn serve_one(
    broker: &Broker,
    request: &Request<'_>,
    message: &OffsetFetchRequest<'_>,
    out: &mut ResponseBuffer,
) {
    let asked: AskedTopics<'_> = message.topics.as_ref().map(|topics| {
        let topics = topics.iter();
        let mut seen = Seen::default();
        let asked = topics.filter_map(|t| {
            let topic = (t.name, Uuid::ZERO, t.partition_indexes.iter());
            seen.topic_of(message.group_id, topic)
        });
        asked.collect()
    });
    let asked_again = asked.clone();
    let (group_id, stable) = (message.group_id, message.require_stable);
    let fetching = Fetching::begin(broker, group_id, (None, -1), asked, stable, request.version);
    let fetched = fetching.await.end().await;
    request.room(broker).await;
    // Version 1 has no place for an error of the whole group: every partition bears it.
    let topics = match (request.version, fetched.error, asked_again) {
        (1, error, Some(asked)) if !error.is_none() => failed_topics(&asked, error),
        _ => fetched.topics,
    };
    let topics = topics.iter().map(|topic| {
        let partitions = topic
            .partitions
            .iter()
            .map(|one| OffsetFetchResponsePartition {
                partition_index: one.index,
                committed_offset: one.offset.0,
                committed_leader_epoch: one.leader_epoch.0,
                metadata: Some(&one.metadata),
                error_code: one.error.code(),
            });
        OffsetFetchResponseTopic {
            name: &topic.name,
            partitions: partitions.collect(),
        }
    });
    let response = OffsetFetchResponse {
        topics: topics.collect(),
        error_code: fetched.error.code(),
        ..Default::default()
    };
    request.answer(&response, out);
}

/// A group whose offsets were asked for.
struct Fetching<'f> {
    group_id: &'f str,
    image: Arc<MetadataImage>,
    /// Whether all offsets of the group are asked for, and are to be named by the ids of topics.
    names_all_by_id: bool,
    /// Topics without a name.
    unknown: Vec<(&'f str, Uuid, Vec<i32>)>,
    asked: Result<Asking, ErrorCode>,
}

type Asking = PendingResponse<Result<Vec<FetchedTopic>, ErrorCode>>;

impl<'f> Fetching<'f> {
    async fn begin(
        broker: &Broker,
        group_id: &'f str,
        member: (Option<&str>, i32),
        asked: AskedTopics<'f>,
        require_stable: bool,
        version: i16,
    ) -> Self {
        let (image, by_id) = (broker.node.image(), version >= 10);
        let (mut known, mut unknown) = (None, Vec::new());
        if let Some(asked) = asked {
            let known = known.insert(Vec::new());
            for (name, id, partitions) in asked {
                let named = if by_id {
                    image.topics.by_id(id).map(|topic| (&*topic.name, id))
                } else {
                    Some((name, image.topics.id_of(name).unwrap_or_default()))
                };
                match named {
                    Some((name, topic_id)) => known.push(OffsetFetchTopic {
                        name,
                        topic_id,
                        partitions,
                    }),
                    None => unknown.push((name, id, partitions)),
                }
            }
        }
        let names_all_by_id = known.is_none() && by_id;
        let fetch = OffsetFetch {
            group_id,
            member_id: member.0,
            member_epoch: member.1,
            require_stable,
            topics: known,
        };
        let asked = ask(broker, &fetch).await;
        Self {
            group_id,
            image,
            names_all_by_id,
            unknown,
            asked,
        }
    }

    async fn end(self) -> Fetched<'f> {
        let answer = match self.asked {
            Ok(asked) => asked.answer().await,
            Err(error) => Err(error),
        };
        let (error, mut topics) = match answer {
            Ok(Ok(topics)) => (ErrorCode::None, topics),
            Ok(Err(error)) | Err(error) => (error, Vec::new()),
        };
        if error.is_none() {
            topics.append(&mut failed_topics(&self.unknown, ErrorCode::UnknownTopicId));
        }
        if self.names_all_by_id {
            // An offset of a topic that is gone has no id to be named by.
            topics.retain_mut(|topic| {
                topic.topic_id = self.image.topics.id_of(&topic.name).unwrap_or_default();
                !topic.topic_id.is_zero()
            });
        }
        Fetched {
            group_id: self.group_id,
            error,
            topics,
        }
    }
}

async fn ask(broker: &Broker, fetch: &OffsetFetch<'_>) -> Result<Asking, ErrorCode> {
    let of_topic = |topic: &OffsetFetchTopic<'_>| {
        size_of_val(topic) + topic.name.len() + size_of_val(&*topic.partitions)
    };
    let is_short = fetch.topics.is_some();
    let bytes = fetch.topics.iter().flatten().map(of_topic).sum();
    let question = Borrowed {
        decide: |shard: &mut GroupShard, _| Decision::reply(shard.fetch_offsets(fetch)),
        keep: || {
            let kept = KeptFetch::of(fetch);
            move |shard: &mut GroupShard, _| Decision::reply(shard.fetch_offsets(&kept.fetch()))
        },
    };
    let groups = &broker.coordinators.groups;
    let room = groups.room_for(fetch.group_id, bytes).await?;
    Ok(room.decide_quickly(&|_| is_short, None, question))
}

/// What is asked for of a group, for as long as somebody wants it.
struct KeptFetch {
    group_id: Box<str>,
    member_id: Option<Box<str>>,
    member_epoch: i32,
    require_stable: bool,
    topics: Option<Vec<KeptTopic>>,
}

/// A topic's name, its id, and partitions of it.
type KeptTopic = (Box<str>, Uuid, Vec<i32>);

impl KeptFetch {
    fn of(fetch: &OffsetFetch<'_>) -> Self {
        let topics = fetch.topics.as_ref().map(|topics| {
            let topics = topics.iter();
            topics
                .map(|topic| {
                    let partitions = topic.partitions.clone();
                    (Box::from(topic.name), topic.topic_id, partitions)
                })
                .collect()
        });
        Self {
            group_id: Box::from(fetch.group_id),
            member_id: fetch.member_id.map(Box::from),
            member_epoch: fetch.member_epoch,
            require_stable: fetch.require_stable,
            topics,
        }
    }

    fn fetch(&self) -> OffsetFetch<'_> {
        let topics = self.topics.as_ref().map(|topics| {
            let topics = topics.iter();
            topics
                .map(|(name, topic_id, partitions)| OffsetFetchTopic {
                    name,
                    topic_id: *topic_id,
                    partitions: partitions.clone(),
                })
                .collect()
        });
        OffsetFetch {
            group_id: &self.group_id,
            member_id: self.member_id.as_deref(),
            member_epoch: self.member_epoch,
            require_stable: self.require_stable,
            topics,
        }
    }
}

fn failed_topics(asked: &[(&str, Uuid, Vec<i32>)], error: ErrorCode) -> Vec<FetchedTopic> {
    let failed = |index: &i32| FetchedOffset {
        index: *index,
        error,
        offset: Offset::NONE,
        leader_epoch: LeaderEpoch::NONE,
        metadata: "".into(),
    };
    asked
        .iter()
        .map(|(name, topic_id, partitions)| FetchedTopic {
            name: (*name).into(),
            topic_id: *topic_id,
            partitions: partitions.iter().map(failed).collect(),
        })
        .collect()
}
