//! Samples of keys.

use anyhow::Result;
use interpreter::Random;
use riverrun_streams::formats::session_key::SessionKey;
use riverrun_streams::formats::window_key::WindowKey;

use super::super::sample::{Sample, some, text, time};

fn window_with(random: &mut Random, write: fn(&WindowKey<'_>) -> Vec<u8>) -> Sample {
    let key = some(random);
    let key = WindowKey {
        key: &key,
        window_start_ms: time(random),
        sequence_number: random.below(1 << 31) as i32,
    };
    Sample::new(text_of_window(&key), write(&key))
}

fn text_of_window(key: &WindowKey<'_>) -> String {
    let WindowKey {
        key,
        window_start_ms,
        sequence_number,
    } = key;
    format!("{} {window_start_ms} {sequence_number}", text(Some(key)))
}

pub(super) fn window(random: &mut Random) -> Sample {
    window_with(random, |key| key.to_store_key())
}

pub(super) fn read_window(bytes: &[u8]) -> Result<String> {
    Ok(text_of_window(&WindowKey::read(bytes)?))
}

pub(super) fn time_first_window(random: &mut Random) -> Sample {
    window_with(random, |key| key.to_time_first_key())
}

pub(super) fn read_time_first_window(bytes: &[u8]) -> Result<String> {
    Ok(text_of_window(&WindowKey::read_time_first(bytes)?))
}

pub(super) fn key_first_window(random: &mut Random) -> Sample {
    window_with(random, |key| key.to_key_first_key())
}

pub(super) fn read_key_first_window(bytes: &[u8]) -> Result<String> {
    Ok(text_of_window(&WindowKey::read_key_first(bytes)?))
}

pub(super) fn window_of_topic(random: &mut Random) -> Sample {
    let key = some(random);
    let key = WindowKey {
        key: &key,
        // Kafka Streams' windows end after they start.
        window_start_ms: time(random).min(i64::MAX - 1),
        sequence_number: 0,
    };
    Sample::new(text_of_topic_key(&key), key.to_topic_key())
}

pub(super) fn read_window_of_topic(bytes: &[u8]) -> Result<String> {
    Ok(text_of_topic_key(&WindowKey::read_topic(bytes)?))
}

fn text_of_topic_key(key: &WindowKey<'_>) -> String {
    format!("{} {}", text(Some(key.key)), key.window_start_ms)
}

fn session_with(random: &mut Random, write: fn(&SessionKey<'_>) -> Vec<u8>) -> Sample {
    let key = some(random);
    let start_ms = time(random);
    let key = SessionKey {
        key: &key,
        end_ms: start_ms.saturating_add(random.below(1 << 30) as i64),
        start_ms,
    };
    Sample::new(text_of_session(&key), write(&key))
}

fn text_of_session(key: &SessionKey<'_>) -> String {
    format!("{} {} {}", text(Some(key.key)), key.end_ms, key.start_ms)
}

pub(super) fn session(random: &mut Random) -> Sample {
    session_with(random, |key| key.to_store_key())
}

pub(super) fn read_session(bytes: &[u8]) -> Result<String> {
    Ok(text_of_session(&SessionKey::read(bytes)?))
}

pub(super) fn time_first_session(random: &mut Random) -> Sample {
    session_with(random, |key| key.to_time_first_key())
}

pub(super) fn read_time_first_session(bytes: &[u8]) -> Result<String> {
    Ok(text_of_session(&SessionKey::read_time_first(bytes)?))
}

pub(super) fn key_first_session(random: &mut Random) -> Sample {
    session_with(random, |key| key.to_key_first_key())
}

pub(super) fn read_key_first_session(bytes: &[u8]) -> Result<String> {
    Ok(text_of_session(&SessionKey::read_key_first(bytes)?))
}
