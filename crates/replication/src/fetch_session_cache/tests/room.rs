//! How many partitions all sessions may have, and who gives way.

use super::*;

/// A cache of three slots and four partitions.
fn small() -> Broker {
    Broker::of(FetchSessionCache::with_limits(3, 4, 1..=i32::MAX))
}

#[test]
fn sessions_have_no_more_partitions_than_the_cache_keeps() {
    check_with(
        small(),
        "fetch 0.0 a-0 a-1 a-2 a-3 a-4
        fetch 0.0 a-0 a-1 a-2
        fetch 0.0 b-0 b-1
        fetch 0.0 b-0
        fetch 1.1
        fetch 2.1 b-1
        fetch 2.2
        fetch 0.0 b-0
        fetch 3.1 b-0 !b-0 b-1
        fetch 1.2 !a-0
        fetch 0.0 c-0",
        &expect![[r#"
            0.0 a-0 a-1 a-2 a-3 a-4: 0: a-0 a-1 a-2 a-3 a-4
            0.0 a-0 a-1 a-2: 1: a-0 a-1 a-2
            0.0 b-0 b-1: 0: b-0 b-1
            0.0 b-0: 2: b-0
            1.1: (a-0 a-1 a-2) 1:
            2.1 b-1: FETCH_SESSION_ID_NOT_FOUND
            2.2: FETCH_SESSION_ID_NOT_FOUND
            0.0 b-0: 3: b-0
            3.1 b-0 !b-0 b-1: (b-1) 3: b-1
            1.2 !a-0: () 1:
            0.0 c-0: 4: c-0
        "#]],
    );
}

#[test]
fn as_many_sessions_give_way_as_a_larger_one_needs() {
    check_with(
        small(),
        "fetch 0.0 a-0
        fetch 0.0 b-0
        now 120001
        fetch 1.1
        fetch 2.1
        fetch 0.0 c-0 c-1
        fetch 0.0 d-0 d-1 d-2 d-3 d-4
        fetch 0.0 d-0 d-1 d-2
        fetch 1.2
        fetch 0.0 follower d-0 d-1 d-2 d-3
        fetch 2.2
        fetch 3.1
        now 250000
        fetch 0.0 e-0",
        &expect![[r#"
            0.0 a-0: 1: a-0
            0.0 b-0: 2: b-0
            1.1: (a-0) 1:
            2.1: (b-0) 2:
            0.0 c-0 c-1: 3: c-0 c-1
            0.0 d-0 d-1 d-2 d-3 d-4: 0: d-0 d-1 d-2 d-3 d-4
            0.0 d-0 d-1 d-2: 0: d-0 d-1 d-2
            1.2: () 1:
            0.0 follower d-0 d-1 d-2 d-3: 4: d-0 d-1 d-2 d-3
            2.2: FETCH_SESSION_ID_NOT_FOUND
            3.1: FETCH_SESSION_ID_NOT_FOUND
            0.0 e-0: 5: e-0
        "#]],
    );
}

#[test]
fn a_session_that_most_partitions_have_left_ends() {
    let mut broker = Broker::new(1);
    let names = |range: std::ops::Range<i32>| range.map(|index| ('a', index)).collect::<Vec<_>>();
    let mut fetch = Fetch::parse(&["0.0"]);
    fetch.partitions = names(0..300);
    broker.fetch(&fetch).unwrap();
    fetch.session.session_id = 1;
    fetch.partitions.clear();
    let mut forget = |epoch, range| {
        fetch.session.session_epoch = epoch;
        fetch.forgotten = names(range);
        broker.fetch(&fetch).map(|(id, ..)| id)
    };
    assert_eq!(forget(1, 0..150), Ok(1));
    assert_eq!(forget(2, 150..151), Err(ErrorCode::FetchSessionIdNotFound));
    assert_eq!((broker.cache.len(), broker.cache.partition_count()), (0, 0));
}

#[test]
fn sessions_that_end_are_left_for_the_caller_to_free() {
    let mut broker = Broker::new(1);
    let mut removed_by = |fetch: &[&str]| {
        let _ = broker.fetch(&Fetch::parse(fetch));
        let removed = broker.cache.take_removed();
        removed.iter().map(FetchSession::len).collect::<Vec<_>>()
    };
    assert_eq!(removed_by(&["0.0", "a-0", "a-1"]), [0; 0]);
    // There is no room for another one.
    assert_eq!(removed_by(&["0.0", "b-0"]), [1]);
    assert_eq!(removed_by(&["1.0", "a-0", "a-1", "a-2"]), [2]);
    assert_eq!(removed_by(&["0.0", "follower", "b-0"]), [3]);
    assert_eq!(removed_by(&["3.-1"]), [1]);
    assert_eq!(removed_by(&["3.-1"]), [0; 0]);
}
