//! Samples of what joins and groupings of tables keep and send.

use anyhow::Result;
use interpreter::Random;
use riverrun_streams::formats::change::TableChange;
use riverrun_streams::formats::combined_key::CombinedKey;
use riverrun_streams::formats::left_or_right_value::LeftOrRightValue;
use riverrun_streams::formats::murmur3::murmur3_128;
use riverrun_streams::formats::outer_join_key::OuterJoinKey;
use riverrun_streams::formats::subscription::{Instruction, Subscription, SubscriptionResponse};

use super::super::sample::{Sample, nullable, some, text, time};

pub(super) fn combined_key(random: &mut Random) -> Sample {
    let keys = [some(random), some(random)];
    let key = CombinedKey {
        foreign_key: &keys[0],
        primary_key: &keys[1],
    };
    Sample::new(text_of_combined_key(&key), key.to_bytes())
}

pub(super) fn read_combined_key(bytes: &[u8]) -> Result<String> {
    Ok(text_of_combined_key(&CombinedKey::read(bytes)?))
}

fn text_of_combined_key(key: &CombinedKey<'_>) -> String {
    let [foreign, primary] = [key.foreign_key, key.primary_key].map(|key| text(Some(key)));
    format!("{foreign} {primary}")
}

pub(super) fn outer_join_key(random: &mut Random) -> Sample {
    let key = some(random);
    let key = OuterJoinKey {
        timestamp_ms: time(random),
        is_left: random.chance(1, 2),
        key: &key,
    };
    Sample::new(text_of_outer_join_key(&key), key.to_bytes())
}

pub(super) fn read_outer_join_key(bytes: &[u8]) -> Result<String> {
    Ok(text_of_outer_join_key(&OuterJoinKey::read(bytes)?))
}

fn text_of_outer_join_key(key: &OuterJoinKey<'_>) -> String {
    let side = side(key.is_left);
    format!("{} {side} {}", key.timestamp_ms, text(Some(key.key)))
}

const fn side(is_left: bool) -> &'static str {
    if is_left { "left" } else { "right" }
}

pub(super) fn left_or_right(random: &mut Random) -> Sample {
    let value = some(random);
    let value = match random.chance(1, 2) {
        true => LeftOrRightValue::Left(&value),
        false => LeftOrRightValue::Right(&value),
    };
    Sample::new(text_of_left_or_right(&value), value.to_bytes())
}

pub(super) fn read_left_or_right(bytes: &[u8]) -> Result<String> {
    Ok(text_of_left_or_right(&LeftOrRightValue::read(bytes)?))
}

fn text_of_left_or_right(value: &LeftOrRightValue<'_>) -> String {
    let (is_left, value) = match value {
        LeftOrRightValue::Left(value) => (true, value),
        LeftOrRightValue::Right(value) => (false, value),
    };
    format!("{} {}", side(is_left), text(Some(value)))
}

pub(super) fn table_change(random: &mut Random) -> Sample {
    let (new, mut old) = (nullable(random), nullable(random));
    if new.is_none() && old.is_none() {
        old = Some(some(random));
    }
    let change = TableChange {
        new: new.as_deref(),
        old: old.as_deref(),
        is_latest: true,
    };
    let mut bytes = Vec::new();
    change.write(&mut bytes);
    let fields = format!("{} {}", text(change.new), text(change.old));
    Sample {
        shown: format!("{fields} true"),
        fields,
        bytes,
    }
}

pub(super) fn read_table_change(bytes: &[u8]) -> Result<String> {
    let change = TableChange::read(bytes)?;
    let (new, old) = (text(change.new), text(change.old));
    Ok(format!("{new} {old} {}", change.is_latest))
}

fn hash(random: &mut Random) -> Option<[u8; 16]> {
    let bytes = some(random);
    random.chance(3, 4).then(|| murmur3_128(&bytes))
}

fn text_of_hash(hash: Option<[u8; 16]>) -> String {
    text(hash.as_ref().map(|hash| &hash[..]))
}

pub(super) fn subscription(random: &mut Random) -> Sample {
    let key = some(random);
    let subscription = Subscription {
        hash: hash(random),
        instruction: *random.choice(&[
            Instruction::DeleteKeyNoPropagate,
            Instruction::DeleteKeyAndPropagate,
            Instruction::PropagateNullIfNoForeignKey,
            Instruction::PropagateOnlyIfForeignKey,
        ]),
        primary_key: &key,
        primary_partition: random.chance(3, 4).then(|| random.below(1 << 31) as i32),
    };
    Sample::new(text_of_subscription(&subscription), subscription.to_bytes())
}

pub(super) fn read_subscription(bytes: &[u8]) -> Result<String> {
    Ok(text_of_subscription(&Subscription::read(bytes)?))
}

fn text_of_subscription(subscription: &Subscription<'_>) -> String {
    let (version, partition) = match subscription.primary_partition {
        Some(partition) => (1, partition.to_string()),
        None => (0, "-".to_owned()),
    };
    let hash = text_of_hash(subscription.hash);
    let instruction = subscription.instruction as u8;
    let key = text(Some(subscription.primary_key));
    format!("{version} {hash} {instruction} {key} {partition}")
}

pub(super) fn response(random: &mut Random) -> Sample {
    let value = nullable(random).filter(|value| !value.is_empty());
    let response = SubscriptionResponse {
        hash: hash(random),
        foreign_value: value.as_deref(),
    };
    Sample::new(text_of_response(&response), response.to_bytes())
}

pub(super) fn read_response(bytes: &[u8]) -> Result<String> {
    Ok(text_of_response(&SubscriptionResponse::read(bytes)?))
}

fn text_of_response(response: &SubscriptionResponse<'_>) -> String {
    format!(
        "{} {}",
        text_of_hash(response.hash),
        text(response.foreign_value)
    )
}

/// Read as its hash.
pub(super) fn murmur3(random: &mut Random) -> Sample {
    let bytes = some(random);
    Sample {
        fields: text(Some(&bytes)),
        shown: text(Some(&murmur3_128(&bytes))),
        bytes,
    }
}

pub(super) fn read_murmur3(bytes: &[u8]) -> Result<String> {
    Ok(text(Some(&murmur3_128(bytes))))
}
