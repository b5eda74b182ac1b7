//! Damaged bodies of every API and version: cut off, lengths that are wrong, null where it may not
//! be, strings that are not UTF-8, garbage among the tagged fields. Headers and sizes stay right.
//!
//! Each API has its turn, each version the one that was sent damaged least. A body is as
//! [`anything`] fills it in, or a specimen where that could do harm when it is read in spite of
//! the damage.

use std::time::Duration;

use interpreter::{Mark, MarkKind, Random, Value};
use wire::ApiKey;

use super::anything;
use super::body::body;
use super::session::{MarkedFrame, Session, Stop};
use super::topics::{Topic, create};

/// How long to wait for an answer.
const LIMIT: Duration = Duration::from_secs(3);

/// What is done to a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Damage {
    /// Its end is missing.
    Truncated,
    /// Bytes follow it.
    Trailing,
    /// A value is null.
    Null,
    /// A string is not UTF-8.
    Utf8,
    /// A length is negative, and not that of null.
    Negative,
    /// A length is one more than all that follows.
    BeyondEnd,
    /// A length is as large as it can be.
    Huge,
    /// A length is one more than it should be, which shifts what follows.
    OneMore,
    /// A length is one less.
    OneLess,
    /// A tagged field that nobody knows, which is to be skipped.
    UnknownTag,
    /// A tag that occurs twice.
    RepeatedTag,
    /// A tagged field that goes on beyond the end.
    EndlessTag,
    /// A varint of more bytes than its number has.
    Overlong,
}

const DAMAGES: [Damage; 13] = [
    Damage::Truncated,
    Damage::Trailing,
    Damage::Null,
    Damage::Utf8,
    Damage::Negative,
    Damage::BeyondEnd,
    Damage::Huge,
    Damage::OneMore,
    Damage::OneLess,
    Damage::UnknownTag,
    Damage::RepeatedTag,
    Damage::EndlessTag,
    Damage::Overlong,
];

/// Damaged requests of some thirty APIs, and a whole request after each.
pub(super) fn sequence(session: &mut Session<'_>) -> Result<(), Stop> {
    let topic = create(session, 1, &[])?;
    let group = session.new_name("group");
    let mut apis: Vec<ApiKey> = session.offers().into_iter().map(|(api, ..)| api).collect();
    apis.retain(|api| {
        !anything::LEFT_OUT.contains(api) || specimen(session, *api, &topic).is_some()
    });
    for _ in 0..30 {
        let api = session.api_to_damage(&apis);
        let is_harmless = !anything::LEFT_OUT.contains(&api);
        let body = if is_harmless {
            Some(anything::filled(session, api, &topic, &group))
        } else {
            specimen(session, api, &topic)
        };
        let Some(body) = body else {
            continue;
        };
        damage_one(session, api, &body, is_harmless)?;
        let question = body!({ Topics: [{ Name: (&topic.name) }] });
        session.call(ApiKey::Metadata, &question)?;
    }
    Ok(())
}

fn damage_one(
    session: &mut Session<'_>,
    api: ApiKey,
    body: &Value,
    is_harmless: bool,
) -> Result<(), Stop> {
    let mut request = session.request_to_damage(api, body)?;
    let (frame, marks) = session.marked_frame(&request);
    let places = |damage: Damage| {
        let indices = 0..marks.len();
        let fitting = indices.filter(|index| fits(damage, &marks[*index], is_harmless));
        fitting.collect::<Vec<_>>()
    };
    let header_end = marks.iter().map(|mark| mark.length.start).min();
    let possible = DAMAGES.into_iter().filter(|damage| match damage {
        Damage::Truncated => header_end.is_some_and(|end| end < frame.len()),
        Damage::Trailing => true,
        damage => !places(*damage).is_empty(),
    });
    let possible: Vec<Damage> = possible.collect();
    let damage = *session.random.choice(&possible);
    let places = places(damage);
    let place = match damage {
        Damage::Truncated | Damage::Trailing => 0,
        _ => *session.random.choice(&places),
    };
    let seed = session.random.bits();
    request.note = format!("{damage:?}");
    let damaged =
        |(frame, marks): MarkedFrame| damaged(frame, &marks, damage, place, &mut Random::new(seed));
    match session.raw(&request, request.version, &damaged, LIMIT) {
        // A difference is noted; what follows is as comparable as before.
        Ok(_) | Err(Stop::Differs) => Ok(()),
        Err(stop) => Err(stop),
    }
}

/// Whether the value at `mark` can be damaged like this. What must not do anything is only damaged
/// so that it cannot be read.
fn fits(damage: Damage, mark: &Mark, is_harmless: bool) -> bool {
    let is_tags = mark.kind == MarkKind::Tags;
    if mark.is_tagged && damage != Damage::Utf8 {
        // The size of the tagged field would be wrong, which Kafka does not look at.
        return false;
    }
    match damage {
        Damage::Truncated | Damage::Trailing => true,
        // Kafka fails at records that are null.
        Damage::Null if mark.kind == MarkKind::Bytes && mark.is_nullable => false,
        Damage::Null => !is_tags && (is_harmless || !mark.is_nullable),
        Damage::Utf8 => mark.kind == MarkKind::String && !mark.content.is_empty(),
        Damage::Negative => !is_tags && !mark.is_flexible && (is_harmless || !mark.is_nullable),
        Damage::BeyondEnd | Damage::Huge => !is_tags,
        Damage::OneMore => !is_tags && is_harmless,
        Damage::OneLess => !is_tags && is_harmless && !mark.content.is_empty(),
        // A tagged field that is there could have the same tag.
        Damage::UnknownTag | Damage::RepeatedTag | Damage::EndlessTag => {
            is_tags && mark.content.is_empty()
        }
        Damage::Overlong => mark.is_flexible,
    }
}

fn damaged(
    mut frame: Vec<u8>,
    marks: &[Mark],
    damage: Damage,
    place: usize,
    random: &mut Random,
) -> Vec<u8> {
    match damage {
        Damage::Truncated => {
            let body = marks.iter().map(|mark| mark.length.start).min();
            let body = body.unwrap_or(frame.len());
            frame.truncate(body + random.below(frame.len() - body));
        }
        Damage::Trailing => frame.extend_from_slice(&[0, 1, 2][..1 + random.below(3)]),
        Damage::Utf8 => {
            let content = marks[place].content.clone();
            let wrong = *random.choice(&[0xff, 0xc0, 0x80, 0xed]);
            frame[content.start + random.below(content.len())] = wrong;
        }
        damage => {
            let mark = &marks[place];
            let (length, keeps_content) = wrong_length(damage, mark, frame.len());
            let end = if keeps_content {
                mark.length.end
            } else {
                mark.content.end
            };
            frame.splice(mark.length.start..end, length);
        }
    }
    let size = u32::try_from(frame.len() - 4).expect("a request is short");
    frame[..4].copy_from_slice(&size.to_be_bytes());
    frame
}

/// The bytes in place of a length, and whether the content stays behind them.
fn wrong_length(damage: Damage, mark: &Mark, frame_size: usize) -> (Vec<u8>, bool) {
    let rest = frame_size - mark.length.end;
    let length_of = |count: i64| length_bytes(mark, count);
    let count = count_of(mark);
    match damage {
        Damage::Null => (length_of(-1), false),
        Damage::Negative => (length_of(-2), true),
        Damage::BeyondEnd => (length_of(rest as i64 + 1), true),
        Damage::Huge if mark.is_flexible => (vec![0xff, 0xff, 0xff, 0xff, 0x0f], true),
        Damage::Huge if mark.kind == MarkKind::String => (length_of(i16::MAX.into()), true),
        Damage::Huge => (length_of(i32::MAX.into()), true),
        Damage::OneMore => (length_of(count + 1), true),
        Damage::OneLess => (length_of(count - 1), true),
        Damage::UnknownTag => (vec![1, 0x63, 2, 7, 7], true),
        Damage::RepeatedTag => (vec![2, 0x63, 1, 7, 0x63, 1, 7], true),
        Damage::EndlessTag => {
            let mut tags = vec![1, 0x63];
            varint(rest as u32 + 1, &mut tags);
            (tags, true)
        }
        // The same number with a group of zeros more than it needs, in six bytes or fewer.
        _ => {
            let mut bytes = Vec::new();
            varint(raw_varint(mark, count), &mut bytes);
            if let Some(last) = bytes.last_mut() {
                *last |= 0x80;
            }
            bytes.push(0);
            (bytes, true)
        }
    }
}

/// The number that the length in the frame stands for; of null it is -1.
fn count_of(mark: &Mark) -> i64 {
    match mark.kind {
        MarkKind::String | MarkKind::Bytes => mark.content.len() as i64,
        MarkKind::Array | MarkKind::Tags => mark.count as i64,
    }
}

fn raw_varint(mark: &Mark, count: i64) -> u32 {
    let added = i64::from(mark.kind != MarkKind::Tags);
    u32::try_from(count + added).unwrap_or_default()
}

fn length_bytes(mark: &Mark, count: i64) -> Vec<u8> {
    if mark.is_flexible {
        let mut bytes = Vec::new();
        varint(raw_varint(mark, count), &mut bytes);
        bytes
    } else if mark.kind == MarkKind::String {
        let count = i16::try_from(count).unwrap_or(i16::MAX);
        count.to_be_bytes().to_vec()
    } else {
        let count = i32::try_from(count).unwrap_or(i32::MAX);
        count.to_be_bytes().to_vec()
    }
}

fn varint(mut value: u32, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push((value % 0x80) as u8 | 0x80);
        value /= 0x80;
    }
    out.push(value as u8);
}

/// A request that changes nothing when it is read in spite of its damage; `None` when the API
/// has none.
fn specimen(session: &mut Session<'_>, api: ApiKey, topic: &Topic) -> Option<Value> {
    let new = session.new_name("damaged");
    let config = body!({ Name: "retention.ms", Value: "100000000", ConfigOperation: 0 });
    let alter = |config: Value| {
        body!({
            Resources: [{ ResourceType: 2, ResourceName: (&topic.name), Configs: [config] }],
            ValidateOnly: true,
        })
    };
    Some(match api {
        ApiKey::AlterClientQuotas => body!({
            Entries: [{
                Entity: [{ EntityType: "user", EntityName: (&new) }],
                Ops: [{ Key: "producer_byte_rate", Value: 1000.0, Remove: false }],
            }],
            ValidateOnly: true,
        }),
        ApiKey::AlterUserScramCredentials => {
            body!({ Deletions: [{ Name: (&new), Mechanism: 1 }] })
        }
        ApiKey::ConsumerGroupHeartbeat => {
            body!({ GroupId: (&new), MemberId: "nobody", MemberEpoch: 5 })
        }
        ApiKey::UnregisterBroker => body!({ BrokerId: 99 }),
        ApiKey::WriteTxnMarkers => body!({
            Markers: [{
                ProducerId: 1,
                TransactionResult: false,
                Topics: [{ Name: (&new), PartitionIndexes: [0] }],
            }],
        }),
        ApiKey::AlterConfigs => alter(body!({ Name: "retention.ms", Value: "100000000" })),
        ApiKey::IncrementalAlterConfigs => alter(config),
        ApiKey::CreateTopics => body!({
            Topics: [{ Name: (&new), NumPartitions: 1, ReplicationFactor: 1 }],
            ValidateOnly: true,
            TimeoutMs: 1_000,
        }),
        ApiKey::DeleteTopics => {
            body!({ TopicNames: [(&new)], Topics: [{ Name: (&new) }], TimeoutMs: 1_000 })
        }
        ApiKey::DeleteGroups => body!({ GroupsNames: [(&new)] }),
        ApiKey::DescribeConfigs => {
            let keys = body!(["retention.ms"]);
            body!({ Resources: [{ ResourceType: 2, ResourceName: (&topic.name), ConfigurationKeys: keys }] })
        }
        ApiKey::DescribeLogDirs => {
            body!({ Topics: [{ Topic: (&topic.name), Partitions: [0] }] })
        }
        ApiKey::JoinGroup => body!({
            GroupId: "", SessionTimeoutMs: 10_000, RebalanceTimeoutMs: 1_000, MemberId: "nobody",
            ProtocolType: "consumer", Protocols: [{ Name: "range", Metadata: (&b"m"[..]) }],
        }),
        ApiKey::ListConfigResources => body!({ ResourceTypes: [16] }),
        ApiKey::ListGroups => body!({ StatesFilter: ["nonsense"], TypesFilter: ["nonsense"] }),
        ApiKey::ListTransactions => body!({ StateFilters: ["nonsense"] }),
        ApiKey::UpdateFeatures => body!({
            FeatureUpdates: [{ Feature: "no.such.feature", MaxVersionLevel: 1, UpgradeType: 1 }],
            ValidateOnly: true,
            TimeoutMs: 1_000,
        }),
        _ => return None,
    })
}
