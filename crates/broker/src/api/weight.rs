//! What a request may take: known from its first bytes, so that it can wait before it is read.

use super::served;
use crate::api::cluster_node::ClusterNode;
use crate::net::{AnswerSize, Weight};
use crate::scheduling::heavy_work::Lane;
use model::{DecodeError, Message, Reader};
use wire::messages::{
    DescribeTopicPartitionsRequest, EnvelopeRequest, MetadataRequest, OffsetFetchRequest,
};
use wire::{ApiKey, RequestHeader};

/// A request up to this size takes little time, unless it asks for all that there is.
const LIGHT_REQUEST_BYTES: usize = 8 * 1024;
/// A fetch of so many bytes names some two thousand partitions.
pub(super) const LIGHT_FETCH_BYTES: usize = 64 * 1024;
/// A small request for what others have made stands behind others of its kind only.
pub(super) const SMALL_REQUEST_BYTES: usize = 1024;
/// To describe so many partitions takes little time.
const LIGHT_PARTITIONS: usize = 2_000;
/// Strings that are not UTF-8 are read all the same when the request is served: then it may name
/// any number of partitions.
const UNKNOWN: usize = usize::MAX;
/// The description of so many partitions is small.
const SMALL_ANSWER_PARTITIONS: usize = 500;

impl Weight {
    const LIGHT: Self = Self {
        is_quick: false,
        lane: None,
        answer: AnswerSize::Proportional,
        is_for_controller: false,
    };

    const fn light(answer: AnswerSize) -> Self {
        Self {
            answer,
            ..Self::LIGHT
        }
    }

    const fn heavy(lane: Lane, answer: AnswerSize) -> Self {
        Self {
            lane: Some(lane),
            answer,
            ..Self::LIGHT
        }
    }

    /// What a request may take.
    pub(crate) fn of(server: &ClusterNode, frame: &[u8]) -> Self {
        let api = frame.first_chunk().map(|bytes| i16::from_be_bytes(*bytes));
        let Some(api) = api.and_then(ApiKey::from_number) else {
            return Self::LIGHT;
        };
        Self {
            is_for_controller: is_for_controller(api),
            ..Self::of_api(server, api, frame)
        }
    }

    /// What a request to a controller may take.
    pub(crate) fn at_controller(server: &ClusterNode, frame: &[u8]) -> Self {
        let api = frame.first_chunk().map(|bytes| i16::from_be_bytes(*bytes));
        match api.and_then(ApiKey::from_number) {
            // A part of the metadata log, or of a snapshot, which takes no memory. Nobody who follows names more.
            Some(ApiKey::Fetch | ApiKey::FetchSnapshot) => match frame.len() {
                ..=LIGHT_REQUEST_BYTES => Self::LIGHT,
                _ => Self::heavy(Lane::Large, AnswerSize::Proportional),
            },
            // As if what is in it had come here.
            Some(ApiKey::Envelope) => Self::of(server, forwarded(frame).unwrap_or(frame)),
            _ => Self::of(server, frame),
        }
    }

    fn of_api(server: &ClusterNode, api: ApiKey, frame: &[u8]) -> Self {
        let lane = match frame.len() {
            ..=SMALL_REQUEST_BYTES => Lane::Small,
            _ => Lane::Large,
        };
        let is_light = frame.len() <= LIGHT_REQUEST_BYTES;
        match api {
            // It sees to its turns itself: large ones are what there is to do.
            ApiKey::Produce => Self {
                is_quick: true,
                ..Self::LIGHT
            },
            ApiKey::Fetch if frame.len() <= LIGHT_FETCH_BYTES => Self::LIGHT,
            // A partition of the answer takes several times what it takes here.
            ApiKey::Fetch => Self::heavy(lane, AnswerSize::Large),
            // The answer has every setting of all that it names, which may be a thousand times as much.
            ApiKey::DescribeConfigs if lane == Lane::Large => Self::heavy(lane, AnswerSize::Large),
            // What there is of these is as much as others have made.
            ApiKey::DescribeGroups
            | ApiKey::ConsumerGroupDescribe
            | ApiKey::ListGroups
            | ApiKey::DescribeTransactions
            | ApiKey::DescribeProducers
            | ApiKey::DescribeLogDirs
            | ApiKey::DescribeConfigs
            | ApiKey::ListConfigResources
            | ApiKey::DescribeClientQuotas
            | ApiKey::DescribeUserScramCredentials
            | ApiKey::ListPartitionReassignments => Self::heavy(lane, AnswerSize::Unknown),
            // A pattern may take long for each id.
            ApiKey::ListTransactions => Self::heavy(Lane::Large, AnswerSize::Unknown),
            ApiKey::ElectLeaders => Self::heavy(lane, AnswerSize::Large),
            ApiKey::Metadata | ApiKey::DescribeTopicPartitions if is_light => {
                match described_partitions(server, api, frame) {
                    count if count <= SMALL_ANSWER_PARTITIONS => Self::LIGHT,
                    count if count <= LIGHT_PARTITIONS => Self::light(AnswerSize::Unknown),
                    _ => Self::heavy(lane, AnswerSize::Large),
                }
            }
            ApiKey::OffsetFetch if is_light && !asks_for_all_offsets(frame) => {
                Self::light(AnswerSize::Unknown)
            }
            ApiKey::OffsetFetch => Self::heavy(lane, AnswerSize::Unknown),
            _ if is_light => Self::LIGHT,
            ApiKey::Metadata | ApiKey::DescribeTopicPartitions | ApiKey::FindCoordinator => {
                Self::heavy(lane, AnswerSize::Unknown)
            }
            // The answer has every setting of every topic.
            ApiKey::CreateTopics => Self::heavy(lane, AnswerSize::Large),
            _ => Self::heavy(lane, AnswerSize::Proportional),
        }
    }
}

/// Whether the controller decides about requests of an API.
const fn is_for_controller(api: ApiKey) -> bool {
    matches!(
        api,
        ApiKey::CreateTopics
            | ApiKey::DeleteTopics
            | ApiKey::CreatePartitions
            | ApiKey::AlterConfigs
            | ApiKey::IncrementalAlterConfigs
            | ApiKey::ElectLeaders
            | ApiKey::AlterPartitionReassignments
            | ApiKey::UpdateFeatures
            | ApiKey::AlterClientQuotas
            | ApiKey::AlterUserScramCredentials
            | ApiKey::UnregisterBroker
    )
}

/// The request within an Envelope; `None` of one that is refused.
fn forwarded(frame: &[u8]) -> Option<&[u8]> {
    let mut reader = Reader::new(frame);
    let version = RequestHeader::decode(&mut reader).ok()?.api_version;
    if !served::is_served(ApiKey::Envelope, version, true) {
        return None;
    }
    let message = EnvelopeRequest::read(&mut reader, version).ok()?;
    Some(message.request_data)
}

/// The version of a request that is served.
///
/// # Errors
/// Why it is refused, which takes no time; or that its header has to be replaced.
fn served_version(api: ApiKey, reader: &mut Reader<'_>) -> Result<i16, DecodeError> {
    let version = RequestHeader::decode(reader)?.api_version;
    match served::is_served(api, version, false) {
        true => Ok(version),
        false => Err(DecodeError::UnsupportedVersion),
    }
}

/// Whether an OffsetFetch asks for all offsets of a group, which are as many as it has.
fn asks_for_all_offsets(frame: &[u8]) -> bool {
    let mut reader = Reader::new(frame);
    let asked = served_version(ApiKey::OffsetFetch, &mut reader).and_then(|version| {
        let message = OffsetFetchRequest::read(&mut reader, version)?;
        Ok(match version {
            8.. => message.groups.iter().any(|group| group.topics.is_none()),
            _ => message.topics.is_none(),
        })
    });
    asked.unwrap_or_else(|error| error == DecodeError::InvalidUtf8)
}

/// How many partitions a request of these APIs describes: exactly, or more than takes little time.
fn described_partitions(server: &ClusterNode, api: ApiKey, frame: &[u8]) -> usize {
    let image = server.node.image();
    let mut reader = Reader::new(frame);
    let version = match served_version(api, &mut reader) {
        Ok(version) => version,
        Err(DecodeError::InvalidUtf8) => return UNKNOWN,
        Err(_) => return 0,
    };
    let all = || sum(image.topics.iter().map(|topic| topic.partition_count()));
    if api == ApiKey::DescribeTopicPartitions {
        return match DescribeTopicPartitionsRequest::read(&mut reader, version) {
            Ok(message) if message.topics.is_empty() => all(),
            Ok(message) => sum(message.topics.iter().map(|one| {
                let topic = image.topics.by_name(one.name);
                topic.map_or(1, |topic| topic.partition_count())
            })),
            Err(DecodeError::InvalidUtf8) => UNKNOWN,
            Err(_) => 0,
        };
    }
    let message = match MetadataRequest::read(&mut reader, version) {
        Ok(message) => message,
        Err(DecodeError::InvalidUtf8) => return UNKNOWN,
        Err(_) => return 0,
    };
    match &message.topics {
        None => all(),
        Some(topics) if version == 0 && topics.is_empty() => all(),
        Some(topics) => sum(topics.iter().map(|one| {
            let topic = match one.name {
                Some(name) => image.topics.by_name(name),
                None => image.topics.by_id(one.topic_id),
            };
            topic.map_or(1, |topic| topic.partition_count())
        })),
    }
}

/// The sum, as far as it matters how large it is.
fn sum(counts: impl Iterator<Item = usize>) -> usize {
    let mut sum = 0;
    for count in counts {
        sum += count;
        if sum > LIGHT_PARTITIONS {
            break;
        }
    }
    sum
}
