//! Keys of windows and sessions: the examples of Kafka Streams 4.3.1, their order, and their ranges.

use super::super::session_key::SessionKey;
use super::*;
use crate::formats::fuzz::hex;
use proptest::prelude::*;

#[test]
fn window_keys_are_those_of_kafka_streams() {
    let key = WindowKey {
        key: b"k",
        window_start_ms: 1000,
        sequence_number: 3,
    };
    assert_eq!(key.to_store_key(), hex("6b 00000000000003e8 00000003"));
    assert_eq!(key.to_topic_key(), hex("6b 00000000000003e8"));
    assert_eq!(
        key.to_time_first_key(),
        hex("00 00000000000003e8 6b 00000003")
    );
    assert_eq!(
        key.to_key_first_key(),
        hex("01 6b 00000000000003e8 00000003")
    );
    assert_eq!(window_end_ms(1000, 500), 1500);
    assert_eq!(window_end_ms(1000, i64::MAX), i64::MAX);
}

#[test]
fn session_keys_are_those_of_kafka_streams() {
    let key = SessionKey {
        key: b"k",
        end_ms: 2000,
        start_ms: 1000,
    };
    let times = "00000000000007d0 00000000000003e8";
    assert_eq!(key.to_store_key(), hex(&format!("6b {times}")));
    assert_eq!(key.to_time_first_key(), hex(&format!("00 {times} 6b")));
    assert_eq!(key.to_key_first_key(), hex(&format!("01 6b {times}")));
}

#[test]
fn keys_of_another_form_are_refused() {
    assert_eq!(WindowKey::read(&[0; 11]), Err(FormatError::Truncated));
    assert_eq!(WindowKey::read_topic(&[0; 7]), Err(FormatError::Truncated));
    assert_eq!(SessionKey::read(&[0; 15]), Err(FormatError::Truncated));
    assert_eq!(WindowKey::read_time_first(&[]), Err(FormatError::Truncated));
    let other = WindowKey::read_time_first(&[1; 20]);
    assert_eq!(other, Err(FormatError::UnknownFlag(1)));
    let other = SessionKey::read_key_first(&[0; 20]);
    assert_eq!(other, Err(FormatError::UnknownFlag(0)));
}

/// Few different ones, so that beginnings of one another are frequent.
fn key() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![Just(0u8), Just(1), Just(0x61), Just(0xff)];
    proptest::collection::vec(byte, 0..5)
}

fn time() -> impl Strategy<Value = i64> {
    prop_oneof![0..4i64, 0x0100_0000_0000..0x0200_0000_0000i64, 0..i64::MAX]
}

fn window_of(key: &[u8], window_start_ms: i64, sequence_number: i32) -> WindowKey<'_> {
    WindowKey {
        key,
        window_start_ms,
        sequence_number,
    }
}

fn session_of(key: &[u8], start_ms: i64, end_ms: i64) -> SessionKey<'_> {
    SessionKey {
        key,
        end_ms,
        start_ms,
    }
}

proptest! {
    #![proptest_config(trials::property(512))]

    #[test]
    fn keys_come_back(key: Vec<u8>, first: i64, second: i64, number: i32) {
        let window = window_of(&key, first, number);
        assert_eq!(WindowKey::read(&window.to_store_key()), Ok(window));
        assert_eq!(WindowKey::read_time_first(&window.to_time_first_key()), Ok(window));
        assert_eq!(WindowKey::read_key_first(&window.to_key_first_key()), Ok(window));
        let of_topic = window_of(&key, first, 0);
        assert_eq!(WindowKey::read_topic(&window.to_topic_key()), Ok(of_topic));
        let session = session_of(&key, first, second);
        assert_eq!(SessionKey::read(&session.to_store_key()), Ok(session));
        assert_eq!(SessionKey::read_time_first(&session.to_time_first_key()), Ok(session));
        assert_eq!(SessionKey::read_key_first(&session.to_key_first_key()), Ok(session));
    }

    #[test]
    fn keys_of_one_length_sort_by_key_and_time(
        keys in proptest::collection::vec(proptest::array::uniform2(0..3u8), 2),
        times in proptest::collection::vec((time(), time(), 0..3i32), 2),
    ) {
        let windows = [0, 1].map(|at| window_of(&keys[at], times[at].0, times[at].2));
        let order = |bytes: [Vec<u8>; 2]| bytes[0].cmp(&bytes[1]);
        let by_key = windows[0].cmp(&windows[1]);
        let by_time = windows[0].window_start_ms.cmp(&windows[1].window_start_ms).then(by_key);
        assert_eq!(order(windows.map(|one| one.to_store_key())), by_key);
        assert_eq!(order(windows.map(|one| one.to_key_first_key())), by_key);
        assert_eq!(order(windows.map(|one| one.to_time_first_key())), by_time);
        let sessions = [0, 1].map(|at| session_of(&keys[at], times[at].0, times[at].1));
        let by_key = sessions[0].cmp(&sessions[1]);
        let times = sessions.map(|one| (one.end_ms, one.start_ms));
        let by_time = times[0].cmp(&times[1]).then(by_key);
        assert_eq!(order(sessions.map(|one| one.to_store_key())), by_key);
        assert_eq!(order(sessions.map(|one| one.to_key_first_key())), by_key);
        assert_eq!(order(sessions.map(|one| one.to_time_first_key())), by_time);
    }

    #[test]
    fn ranges_hold_every_window_of_a_fetch(
        key in key(), number in 0..i32::MAX, start in time(),
        from in proptest::option::of(key()), to in proptest::option::of(key()),
        from_ms in time(), to_ms in time(),
    ) {
        let window = window_of(&key, start, number);
        let (from, to) = (from.as_deref(), to.as_deref());
        let holds = |range: KeyRange, stored: Vec<u8>| range.contains(&stored);
        if window.is_within(from, to, from_ms, to_ms) {
            assert!(holds(WindowKey::range(from, to, to_ms), window.to_store_key()));
            assert!(holds(WindowKey::key_first_range(from, to, to_ms), window.to_key_first_key()));
        }
        let is_in_time = (from_ms..=to_ms).contains(&start);
        let range = WindowKey::time_first_range(from_ms, to_ms);
        assert_eq!(holds(range, window.to_time_first_key()), is_in_time);
        let range = WindowKey::range_of_key(&key, from_ms, to_ms);
        assert_eq!(holds(range, window.to_store_key()), is_in_time);
        let range = WindowKey::key_first_range_of_key(&key, from_ms, to_ms);
        assert_eq!(holds(range, window.to_key_first_key()), is_in_time);
    }

    #[test]
    fn ranges_hold_every_session_of_a_fetch(
        key in key(), start in time(), duration in 0..1000i64,
        from in proptest::option::of(key()), to in proptest::option::of(key()),
        earliest_end_ms in time(), latest_start_ms in time(),
    ) {
        let session = session_of(&key, start, start.saturating_add(duration));
        let (from, to) = (from.as_deref(), to.as_deref());
        let holds = |range: KeyRange, stored: Vec<u8>| range.contains(&stored);
        if session.is_within(from, to, earliest_end_ms, latest_start_ms) {
            let range = SessionKey::range(from, to, latest_start_ms);
            assert!(holds(range, session.to_store_key()));
            let range = SessionKey::key_first_range(from, to, latest_start_ms);
            assert!(holds(range, session.to_key_first_key()));
        }
        if session.is_within(None, None, earliest_end_ms, latest_start_ms) {
            let range = SessionKey::range_of_key(&key, earliest_end_ms, latest_start_ms);
            assert!(holds(range, session.to_store_key()));
            let range = SessionKey::key_first_range_of_key(&key, earliest_end_ms, latest_start_ms);
            assert!(holds(range, session.to_key_first_key()));
        }
        let is_in_time = (earliest_end_ms..=latest_start_ms).contains(&session.end_ms);
        let range = SessionKey::time_first_range(earliest_end_ms, latest_start_ms);
        assert_eq!(holds(range, session.to_time_first_key()), is_in_time);
    }
}
