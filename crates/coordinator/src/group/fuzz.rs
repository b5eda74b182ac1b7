//! Any bytes as a log: loading it, and living with what was loaded, must do no harm.

use super::consumer::TopicPattern;
use super::subscription::{read_subscription, subscribed_topics};
use super::{GroupConfig, GroupShard, JoinGroup, JoinProtocol, ListGroups, RecordOrigin};
use model::{Now, Offset, ProducerId, Reader};
use std::collections::BTreeSet;

/// Replays a list of records, each a key and a value with a byte for its length; a length of 255
/// is a tombstone. Then time passes and members come to the groups that were found.
pub fn fuzz_replay(bytes: &[u8]) {
    let mut shard = GroupShard::new(GroupConfig::default());
    let mut reader = Reader::new(bytes);
    let mut offset = 0;
    while let Some((key, value)) = next_record(&mut reader) {
        let producer_id = if key.len() % 3 == 2 { 1 } else { -1 };
        let origin = RecordOrigin {
            offset: Offset(offset),
            producer_id: ProducerId(producer_id),
        };
        // A damaged record is an error, which is as good as none here.
        let _ = shard.replay(origin, key, value);
        offset += 1;
    }
    shard.replay_transaction_end(ProducerId(1), offset % 2 == 0);
    shard.start(Now::at_ms(0));
    let group_ids: Vec<_> = shard
        .list_groups(&ListGroups::default())
        .into_iter()
        .map(|group| group.group_id)
        .collect();
    for group_id in &group_ids {
        let _ = shard.describe_group(group_id);
        let request = JoinGroup {
            group_id,
            member_id: "",
            group_instance_id: Some("i"),
            client_id: "client",
            client_host: "/127.0.0.1",
            session_timeout_ms: 10_000,
            rebalance_timeout_ms: 10_000,
            protocol_type: "consumer",
            protocols: vec![JoinProtocol {
                name: "range",
                metadata: &[],
            }],
            requires_known_member_id: true,
            supports_skipping_assignment: true,
            random_uuid: "uuid",
        };
        let _ = shard.join_group(&request, Now::at_ms(1));
    }
    // Until the last session has ended and expired offsets have been looked for. A log may claim
    // any timeout, so the steps are bounded.
    for _ in 0..100 {
        let Some(at) = shard.next_deadline() else {
            break;
        };
        let _ = shard.expire(Now::at_ms(at.as_ms()));
    }
    shard.unload();
}

/// What a member sends besides its request's own fields: a subscription, then a regular expression
/// over names of topics.
pub fn fuzz_texts(bytes: &[u8]) {
    let mut topics = BTreeSet::new();
    let listed = subscribed_topics(bytes, &mut topics);
    if let Ok(subscription) = read_subscription(bytes) {
        assert_eq!(listed, Ok(()), "the topics come first in a subscription");
        assert!(subscription.topics.iter().all(|name| topics.contains(name)));
    }
    // Longer ones are matched in linear time, too; they only take a fuzzer's.
    let text = std::str::from_utf8(&bytes[..bytes.len().min(200)]);
    if let Ok(pattern) = text
        .map_err(drop)
        .and_then(|text| TopicPattern::parse(text).map_err(drop))
    {
        let _ = pattern.matches("orders-2.eu_1");
    }
}

fn next_record<'a>(reader: &mut Reader<'a>) -> Option<(&'a [u8], Option<&'a [u8]>)> {
    let key_length = reader.i8().ok()?.cast_unsigned();
    let key = reader.take(usize::from(key_length)).ok()?;
    let value = match reader.i8().ok()?.cast_unsigned() {
        u8::MAX => None,
        length => Some(reader.take(usize::from(length)).ok()?),
    };
    Some((key, value))
}
