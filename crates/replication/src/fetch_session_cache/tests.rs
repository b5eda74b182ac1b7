//! Scripts of fetches against a cache, one line each, and what is answered to each.
//!
//! ```text
//! now 120001                             sets the time
//! set a-0 records hw=7 start=2           what reads of a partition find from here on
//! fetch 1.3 ids follower a-0 b-1 !c-0    session 1, epoch 3; asks two partitions, forgets one
//! fetch 1.3 | only a-0                   the response has room for some partitions only
//! ```
//!
//! Sessions have the ids 1, 2, 3 ... in the order of their creation. Topics are named by one
//! letter. An answer is an error, or a session id and the partitions that the response lists; for
//! an incremental fetch it begins with the partitions that were read.

mod room;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use expect_test::{Expect, expect};
use model::{LeaderEpoch, Offset, Uuid};
use proptest::prelude::*;

use super::*;
use crate::fetch_session::{PartitionSlot, ReadOutcome, SessionPartition, SessionTopic};
use crate::progress::Progress;

type Name = (char, i32);

/// A follower, with the epoch of its broker.
const REPLICA: (BrokerId, BrokerEpoch) = (BrokerId(2), BrokerEpoch(7));

fn name(word: &str) -> Name {
    let (topic, partition) = word.split_once('-').unwrap();
    (topic.chars().next().unwrap(), partition.parse().unwrap())
}

fn show(names: impl IntoIterator<Item = Name>) -> String {
    let words: Vec<String> = names.into_iter().map(|(t, p)| format!("{t}-{p}")).collect();
    words.join(" ")
}

fn name_of(partition: &SessionPartition) -> Name {
    let topic = match &partition.topic {
        SessionTopic::Id(id) => char::from(id.to_bytes()[15]),
        SessionTopic::Name(name) => name.chars().next().unwrap(),
    };
    (topic, partition.partition)
}

const QUIET: ReadOutcome = ReadOutcome {
    error: ErrorCode::None,
    high_watermark: Offset(0),
    log_start_offset: Offset(0),
    has_records: false,
    has_diverging_epoch: false,
    has_preferred_read_replica: false,
};

fn outcome(words: &[&str]) -> ReadOutcome {
    let mut outcome = QUIET;
    for word in words {
        match word.split_once('=').unwrap_or((word, "")) {
            ("records", _) => outcome.has_records = true,
            ("diverging", _) => outcome.has_diverging_epoch = true,
            ("preferred", _) => outcome.has_preferred_read_replica = true,
            ("hw", value) => outcome.high_watermark = value.parse().unwrap(),
            ("start", value) => outcome.log_start_offset = value.parse().unwrap(),
            ("error", value) => {
                outcome = ReadOutcome::error(ErrorCode::from_code(value.parse().unwrap()));
            }
            other => panic!("unknown word {other:?}"),
        }
    }
    outcome
}

fn request(fetch_offset: Offset) -> FetchPartition {
    FetchPartition {
        current_leader_epoch: LeaderEpoch::NONE,
        fetch_offset,
        last_fetched_epoch: LeaderEpoch::NONE,
        log_start_offset: Offset::NONE,
        max_bytes: 1000,
    }
}

/// One fetch as a script says it.
struct Fetch {
    session: SessionRequest,
    is_follower: bool,
    partitions: Vec<Name>,
    forgotten: Vec<Name>,
    /// The partitions that fit into the response; all if `None`.
    only: Option<Vec<Name>>,
}

impl Fetch {
    fn parse(words: &[&str]) -> Self {
        let (session_id, session_epoch) = words[0].split_once('.').unwrap();
        let mut fetch = Self {
            session: SessionRequest {
                session_id: session_id.parse().unwrap(),
                session_epoch: session_epoch.parse().unwrap(),
                uses_topic_ids: false,
                replica: None,
            },
            is_follower: false,
            partitions: Vec::new(),
            forgotten: Vec::new(),
            only: None,
        };
        for word in &words[1..] {
            match (*word, &mut fetch.only) {
                ("|", _) => {}
                ("only", only) => *only = Some(Vec::new()),
                ("ids", _) => fetch.session.uses_topic_ids = true,
                ("follower", _) => {
                    fetch.is_follower = true;
                    fetch.session.replica = Some(REPLICA);
                }
                (word, Some(only)) => only.push(name(word)),
                (word, None) => match word.strip_prefix('!') {
                    Some(word) => fetch.forgotten.push(name(word)),
                    None => fetch.partitions.push(name(word)),
                },
            }
        }
        fetch
    }
}

/// What a fetch is answered: the session id, and the partitions that the response lists. Before
/// them those that were read, if the fetch is incremental.
type Answer = (i32, Option<Vec<Name>>, Vec<Name>);

/// A broker with sessions and nothing else.
struct Broker {
    cache: FetchSessionCache,
    outcomes: BTreeMap<Name, ReadOutcome>,
    progress: BTreeMap<Name, Arc<Progress>>,
    now_ms: i64,
    created_count: u32,
}

impl Broker {
    fn new(slots_max: usize) -> Self {
        Self::of(FetchSessionCache::new(slots_max))
    }

    fn of(cache: FetchSessionCache) -> Self {
        Self {
            cache,
            outcomes: BTreeMap::new(),
            progress: BTreeMap::new(),
            now_ms: 0,
            created_count: 0,
        }
    }

    fn read(&self, name: Name) -> ReadOutcome {
        self.outcomes.get(&name).copied().unwrap_or(QUIET)
    }

    fn progress(&mut self, name: Name) -> Arc<Progress> {
        self.progress.entry(name).or_default().clone()
    }

    /// Changes what reads find and tells whoever watches, as a partition would.
    fn set(&mut self, name: Name, outcome: ReadOutcome) {
        self.outcomes.insert(name, outcome);
        self.progress(name).disturb();
    }

    /// Handles a fetch from beginning to end.
    fn fetch(&mut self, fetch: &Fetch) -> Result<Answer, ErrorCode> {
        let letters: Vec<String> = ('a'..='z').map(String::from).collect();
        let uses_topic_ids = fetch.session.uses_topic_ids;
        let topic = |letter: char| match uses_topic_ids {
            true => TopicRef::Id(Uuid::from_u128(letter as u128)),
            false => TopicRef::Name(&letters[letter as usize - 'a' as usize]),
        };
        let context = self.cache.start(
            fetch.session,
            fetch
                .partitions
                .iter()
                .map(|(t, p)| (topic(*t), *p, request(Offset(0)))),
            fetch.forgotten.iter().map(|(t, p)| (topic(*t), *p)),
            self.now_ms,
        )?;
        match context {
            FetchContext::Sessionless => Ok((0, None, fetch.partitions.clone())),
            FetchContext::Full => {
                let new = NewSession {
                    is_privileged: fetch.is_follower,
                    random: self.created_count,
                };
                let answers: Vec<_> = fetch
                    .partitions
                    .iter()
                    .map(|(t, p)| (topic(*t), *p, request(Offset(0)), self.read((*t, *p))))
                    .collect();
                let session = FetchSession::answered(uses_topic_ids, answers.into_iter());
                let session = match fetch.session.replica {
                    Some(replica) => session.of_follower(replica),
                    None => session,
                };
                let id = self.cache.create(new, session, self.now_ms);
                self.created_count += u32::from(id != 0);
                Ok((id, None, fetch.partitions.clone()))
            }
            FetchContext::Incremental(incremental) => {
                let session = self.cache.session(&incremental)?;
                let taken: Vec<(PartitionSlot, Name)> = session
                    .take_changed()
                    .map(|(slot, partition)| (slot, name_of(partition)))
                    .collect();
                let read = taken.iter().map(|(_, name)| *name).collect();
                let mut listed = Vec::new();
                for (slot, name) in taken {
                    let fits = fetch.only.as_ref().is_none_or(|only| only.contains(&name));
                    let (outcome, progress) = (self.read(name), self.progress(name));
                    let session = self.cache.session(&incremental)?;
                    session.watch(slot, &progress, progress.seen());
                    if fits && session.answer(slot, &outcome) {
                        listed.push(name);
                    }
                }
                Ok((incremental.session_id, Some(read), listed))
            }
        }
    }
}

fn check(slots_max: usize, script: &str, expected: &Expect) {
    check_with(Broker::new(slots_max), script, expected);
}

fn check_with(mut broker: Broker, script: &str, expected: &Expect) {
    let mut log = String::new();
    for line in script
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[0] {
            "now" => broker.now_ms = words[1].parse().unwrap(),
            "set" => broker.set(name(words[1]), outcome(&words[2..])),
            "fetch" => {
                let answer = match broker.fetch(&Fetch::parse(&words[1..])) {
                    Err(error) => error.name().to_owned(),
                    Ok((id, None, listed)) => format!("{id}: {}", show(listed)),
                    Ok((id, Some(read), listed)) => {
                        format!("({}) {id}: {}", show(read), show(listed))
                    }
                };
                writeln!(log, "{}: {}", &line[6..], answer.trim_end()).unwrap();
            }
            other => panic!("unknown command {other}"),
        }
    }
    expected.assert_eq(&log);
}

#[test]
fn only_what_has_changed_is_read_and_listed() {
    check(
        1,
        "fetch 0.0 a-0 a-1 b-0
        fetch 1.1
        fetch 1.2
        set a-1 hw=5
        fetch 1.3
        set b-0 hw=0 start=3
        set a-0
        fetch 1.4
        fetch 1.5",
        &expect![[r#"
            0.0 a-0 a-1 b-0: 1: a-0 a-1 b-0
            1.1: (a-0 a-1 b-0) 1:
            1.2: () 1:
            1.3: (a-1) 1: a-1
            1.4: (a-0 b-0) 1: b-0
            1.5: () 1:
        "#]],
    );
}

#[test]
fn a_partition_with_records_goes_to_the_end_and_is_read_again() {
    check(
        1,
        "fetch 0.0 a-0 a-1 a-2
        set a-0 records hw=1
        set a-2 records hw=1
        fetch 1.1
        set a-1 records hw=1
        fetch 1.2
        fetch 1.3
        set a-1 hw=1
        fetch 1.4",
        &expect![[r#"
            0.0 a-0 a-1 a-2: 1: a-0 a-1 a-2
            1.1: (a-0 a-1 a-2) 1: a-0 a-2
            1.2: (a-1 a-0 a-2) 1: a-1 a-0 a-2
            1.3: (a-1 a-0 a-2) 1: a-1 a-0 a-2
            1.4: (a-1 a-0 a-2) 1: a-0 a-2
        "#]],
    );
}

#[test]
fn errors_and_hints_are_repeated_until_they_pass() {
    check(
        1,
        "set a-0 error=3
        fetch 0.0 a-0 a-1 a-2
        fetch 1.1
        set a-1 preferred
        set a-2 diverging
        fetch 1.2
        fetch 1.3
        set a-0
        set a-1
        set a-2
        fetch 1.4
        fetch 1.5",
        &expect![[r#"
            0.0 a-0 a-1 a-2: 1: a-0 a-1 a-2
            1.1: (a-0 a-1 a-2) 1: a-0
            1.2: (a-0 a-1 a-2) 1: a-0 a-1 a-2
            1.3: (a-0 a-1 a-2) 1: a-0 a-1 a-2
            1.4: (a-0 a-1 a-2) 1: a-0
            1.5: () 1:
        "#]],
    );
}

#[test]
fn requests_add_update_and_forget() {
    check(
        1,
        "fetch 0.0 a-0 a-1
        fetch 1.1
        fetch 1.2 b-0 a-1
        fetch 1.3 !a-0
        set a-0 hw=9
        fetch 1.4 a-0 c-0 !c-0 !d-9
        fetch 1.5 !a-0 !a-1 !b-0
        fetch 1.6",
        &expect![[r#"
            0.0 a-0 a-1: 1: a-0 a-1
            1.1: (a-0 a-1) 1:
            1.2 b-0 a-1: (a-1 b-0) 1: b-0
            1.3 !a-0: () 1:
            1.4 a-0 c-0 !c-0 !d-9: (a-0) 1: a-0
            1.5 !a-0 !a-1 !b-0: 0:
            1.6: FETCH_SESSION_ID_NOT_FOUND
        "#]],
    );
}

#[test]
fn what_did_not_fit_is_read_by_the_next_fetch() {
    check(
        1,
        "fetch 0.0 a-0 a-1 a-2
        fetch 1.1 | only
        set a-0 hw=1
        set a-1 hw=1
        fetch 1.2 | only a-1
        fetch 1.3
        fetch 1.4",
        &expect![[r#"
            0.0 a-0 a-1 a-2: 1: a-0 a-1 a-2
            1.1 | only: (a-0 a-1 a-2) 1:
            1.2 | only a-1: (a-0 a-1 a-2) 1: a-1
            1.3: (a-0 a-2) 1: a-0
            1.4: () 1:
        "#]],
    );
}

#[test]
fn faults() {
    check(
        2,
        "fetch 1.1 a-0
        fetch 0.1 a-0
        fetch 0.-2 a-0
        fetch 0.0 a-0
        fetch 0.0 ids a-0
        fetch 1.2
        fetch 1.-2
        fetch 1.1 ids
        fetch 2.1
        fetch 1.1
        fetch 1.1
        fetch 2.1 ids
        fetch 1.2",
        &expect![[r#"
            1.1 a-0: FETCH_SESSION_ID_NOT_FOUND
            0.1 a-0: FETCH_SESSION_ID_NOT_FOUND
            0.-2 a-0: FETCH_SESSION_ID_NOT_FOUND
            0.0 a-0: 1: a-0
            0.0 ids a-0: 2: a-0
            1.2: INVALID_FETCH_SESSION_EPOCH
            1.-2: INVALID_FETCH_SESSION_EPOCH
            1.1 ids: FETCH_SESSION_TOPIC_ID_ERROR
            2.1: FETCH_SESSION_TOPIC_ID_ERROR
            1.1: (a-0) 1:
            1.1: INVALID_FETCH_SESSION_EPOCH
            2.1 ids: (a-0) 2:
            1.2: () 1:
        "#]],
    );
}

#[test]
fn full_fetches_end_the_session_they_name() {
    check(
        3,
        "fetch 0.0 a-0
        fetch 1.0 a-0
        fetch 1.1
        fetch 2.1
        fetch 2.-1 a-0
        fetch 2.2
        fetch 0.-1 a-0
        fetch 0.0",
        &expect![[r#"
            0.0 a-0: 1: a-0
            1.0 a-0: 2: a-0
            1.1: FETCH_SESSION_ID_NOT_FOUND
            2.1: (a-0) 2:
            2.-1 a-0: 0: a-0
            2.2: FETCH_SESSION_ID_NOT_FOUND
            0.-1 a-0: 0: a-0
            0.0: 3:
        "#]],
    );
}

#[test]
fn epochs_wrap_to_one() {
    assert_eq!(next_session_epoch(0), 1);
    assert_eq!(next_session_epoch(i32::MAX - 1), i32::MAX);
    assert_eq!(next_session_epoch(i32::MAX), 1);
}

#[test]
fn without_room_there_is_no_session() {
    check(
        0,
        "fetch 0.0 a-0",
        &expect![[r#"
        0.0 a-0: 0: a-0
    "#]],
    );
    check(
        1,
        "fetch 0.0 a-0 a-1
        now 120000
        fetch 0.0 a-0 a-1 a-2",
        &expect![[r#"
            0.0 a-0 a-1: 1: a-0 a-1
            0.0 a-0 a-1 a-2: 0: a-0 a-1 a-2
        "#]],
    );
}

#[test]
fn an_unused_session_gives_way_to_any() {
    check(
        1,
        "fetch 0.0 follower a-0 a-1
        now 120001
        fetch 0.0 b-0
        fetch 1.1
        fetch 2.1",
        &expect![[r#"
            0.0 follower a-0 a-1: 1: a-0 a-1
            0.0 b-0: 2: b-0
            1.1: FETCH_SESSION_ID_NOT_FOUND
            2.1: (b-0) 2:
        "#]],
    );
}

#[test]
fn an_old_session_gives_way_to_a_larger_one() {
    check(
        1,
        "fetch 0.0 a-0 a-1
        now 120000
        fetch 1.1
        fetch 0.0 b-0 b-1 b-2
        now 120001
        fetch 1.2
        fetch 0.0 b-0 b-1
        fetch 0.0 b-0 b-1 b-2
        fetch 1.3
        fetch 2.1",
        &expect![[r#"
            0.0 a-0 a-1: 1: a-0 a-1
            1.1: (a-0 a-1) 1:
            0.0 b-0 b-1 b-2: 0: b-0 b-1 b-2
            1.2: () 1:
            0.0 b-0 b-1: 0: b-0 b-1
            0.0 b-0 b-1 b-2: 2: b-0 b-1 b-2
            1.3: FETCH_SESSION_ID_NOT_FOUND
            2.1: (b-0 b-1 b-2) 2:
        "#]],
    );
}

#[test]
fn followers_drive_out_consumers_and_not_the_reverse() {
    check(
        1,
        "fetch 0.0 a-0 a-1 a-2
        fetch 0.0 follower b-0
        fetch 1.1
        now 120000
        fetch 2.1
        now 120001
        fetch 2.2
        fetch 0.0 a-0 a-1 a-2
        fetch 0.0 follower b-0
        fetch 0.0 follower b-0 b-1
        fetch 2.3
        fetch 3.1",
        &expect![[r#"
            0.0 a-0 a-1 a-2: 1: a-0 a-1 a-2
            0.0 follower b-0: 2: b-0
            1.1: FETCH_SESSION_ID_NOT_FOUND
            2.1: FETCH_SESSION_ID_NOT_FOUND
            2.2: FETCH_SESSION_ID_NOT_FOUND
            0.0 a-0 a-1 a-2: 3: a-0 a-1 a-2
            0.0 follower b-0: 4: b-0
            0.0 follower b-0 b-1: 0: b-0 b-1
            2.3: FETCH_SESSION_ID_NOT_FOUND
            3.1: FETCH_SESSION_ID_NOT_FOUND
        "#]],
    );
}

#[test]
fn ids_stay_in_their_range_and_are_unique() {
    let mut cache = FetchSessionCache::with_limits(3, 100, 10..=13);
    let new = |random| NewSession {
        is_privileged: false,
        random,
    };
    let mut create = |random| {
        let partition = (TopicRef::Name("a"), 0, request(Offset(0)), QUIET);
        let session = FetchSession::answered(false, std::iter::once(partition));
        cache.create(new(random), session, 0)
    };
    assert_eq!(
        [create(3), create(3), create(u32::MAX - 1), create(0)],
        [13, 10, 12, 0]
    );
    assert_eq!((cache.len(), cache.partition_count()), (3, 3));
    assert!(!cache.is_empty());
    cache.remove(10);
    assert_eq!(
        (cache.len(), cache.partition_count(), cache.eviction_count()),
        (2, 2, 0)
    );
}

#[test]
fn a_fetch_that_was_overtaken_gets_an_error() {
    let mut broker = Broker::new(1);
    broker.fetch(&Fetch::parse(&["0.0", "a-0"])).unwrap();
    let mut start = |session_epoch| {
        let session = SessionRequest {
            session_id: 1,
            session_epoch,
            uses_topic_ids: false,
            replica: None,
        };
        match broker
            .cache
            .start(session, std::iter::empty(), std::iter::empty(), 0)
        {
            Ok(FetchContext::Incremental(fetch)) => fetch,
            other => panic!("unexpected {other:?}"),
        }
    };
    let (first, second) = (start(1), start(2));
    let error = broker.cache.session(&first).map(|_| ());
    assert_eq!(error, Err(ErrorCode::InvalidFetchSessionEpoch));
    assert!(broker.cache.session(&second).is_ok());
    broker.cache.remove(1);
    let error = broker.cache.session(&second).map(|_| ());
    assert_eq!(error, Err(ErrorCode::FetchSessionIdNotFound));
}

#[test]
fn the_session_of_a_follower_is_its_own() {
    check(
        3,
        "fetch 0.0 follower a-0
        fetch 1.1
        fetch 1.1 follower
        fetch 0.0 a-0
        fetch 2.1 follower
        fetch 2.1",
        &expect![[r#"
            0.0 follower a-0: 1: a-0
            1.1: FETCH_SESSION_ID_NOT_FOUND
            1.1 follower: (a-0) 1:
            0.0 a-0: 2: a-0
            2.1 follower: FETCH_SESSION_ID_NOT_FOUND
            2.1: (a-0) 2:
        "#]],
    );
    let session = FetchSession::new(true);
    assert!(session.follower().is_none());
    let session = session.of_follower(REPLICA);
    assert_eq!(session.follower().unwrap().replica, REPLICA);
}

#[test]
fn what_is_watched_quietly_is_read_next_and_wakes_nobody() {
    use std::pin::pin;
    use std::task::{Context, Waker};
    let (loud, quiet) = (Progress::default(), Progress::default());
    let mut session = FetchSession::new(false);
    let slot = session.add(TopicRef::Name("a"), 0, request(Offset(0)));
    assert_eq!(session.take_changed().count(), 1);
    session.answer(slot, &QUIET);
    session.watch(slot, &loud, loud.seen());
    session.watch_quietly(slot, &quiet, quiet.seen());
    quiet.advance_to(Offset(1));
    let changes = session.changes().clone();
    let woken = pin!(changes.any());
    let mut context = Context::from_waker(Waker::noop());
    assert!(woken.poll(&mut context).is_pending());
    assert_eq!(session.take_changed().count(), 1);
    session.answer(slot, &QUIET);
    assert_eq!(session.take_changed().count(), 0);
    // A partition that has left is watched by nobody.
    session.watch_quietly(slot, &quiet, quiet.seen());
    let forgotten = [(TopicRef::Name("a"), 0)].into_iter();
    session.update(std::iter::empty(), forgotten);
    quiet.advance_to(Offset(2));
    assert_eq!(session.take_changed().count(), 0);
}

#[test]
fn a_mark_that_comes_while_its_partition_is_read_is_kept() {
    let mut session = FetchSession::new(false);
    let slot = session.add(TopicRef::Name("a"), 0, request(Offset(0)));
    assert_eq!(session.take_changed().count(), 1);
    session.mark_changed(slot);
    assert!(session.answer(slot, &QUIET));
    assert_eq!(session.take_changed().count(), 1);
    assert!(!session.answer(slot, &QUIET));
    assert_eq!(session.take_changed().count(), 0);
    session.mark_changed(PartitionSlot(9));
    assert!(!session.answer(PartitionSlot(9), &QUIET));
}

#[test]
fn slots_are_used_again() {
    let mut session = FetchSession::new(true);
    let topic = |n| TopicRef::Id(Uuid::from_u128(n));
    let add = |n| std::iter::once((topic(n), 0, request(Offset(0))));
    let none = || std::iter::empty();
    let first = session.update(add(1), none()).added[0];
    let removed = session
        .update(std::iter::empty(), std::iter::once((topic(1), 0)))
        .removed;
    assert_eq!(removed, [(first, SessionTopic::Id(Uuid::from_u128(1)), 0)]);
    assert!(session.is_empty() && session.partition(first).is_none());
    assert_eq!(session.update(add(2), none()).added, [first]);
    assert_eq!(session.len(), 1);
    let progress = Progress::default();
    session.watch(first, &progress, progress.seen());
    assert!(!session.answer(PartitionSlot(7), &QUIET) && session.answer(first, &QUIET));
    progress.advance_to(Offset(1));
    let taken: Vec<_> = session
        .take_changed()
        .map(|(_, partition)| name_of(partition))
        .collect();
    assert_eq!(taken, [('\u{2}', 0)]);
}

/// A session that reads every partition at every fetch, which is what the cheap one must equal.
#[derive(Default)]
struct Model {
    /// In order; with the high watermark and log start offset that the client knows.
    partitions: Vec<(Name, Offset, Offset)>,
}

impl Model {
    fn fetch(
        &mut self,
        added: &[Name],
        forgotten: &[Name],
        read: impl Fn(Name) -> ReadOutcome,
    ) -> Vec<Name> {
        for name in added {
            if self.partitions.iter().all(|(known, ..)| known != name) {
                self.partitions.push((*name, Offset::NONE, Offset::NONE));
            }
        }
        self.partitions
            .retain(|(name, ..)| !forgotten.contains(name));
        let (mut with_records, mut others, mut listed) = (Vec::new(), Vec::new(), Vec::new());
        for (name, high_watermark, log_start_offset) in self.partitions.drain(..) {
            let outcome = read(name);
            let has_error = outcome.error != ErrorCode::None;
            if outcome.has_records
                || outcome.has_diverging_epoch
                || outcome.has_preferred_read_replica
                || has_error
                || (outcome.high_watermark, outcome.log_start_offset)
                    != (high_watermark, log_start_offset)
            {
                listed.push(name);
            }
            let known_high_watermark = if has_error {
                Offset::NONE
            } else {
                outcome.high_watermark
            };
            let partition = (name, known_high_watermark, outcome.log_start_offset);
            if outcome.has_records {
                &mut with_records
            } else {
                &mut others
            }
            .push(partition);
        }
        self.partitions = [others, with_records].concat();
        listed
    }
}

fn any_name() -> impl Strategy<Value = Name> {
    (prop::char::range('a', 'c'), 0..3)
}

fn any_outcome() -> impl Strategy<Value = ReadOutcome> {
    let quiet = (0i64..3, 0i64..2).prop_map(|(high_watermark, log_start_offset)| ReadOutcome {
        high_watermark: Offset(high_watermark),
        log_start_offset: Offset(log_start_offset),
        ..QUIET
    });
    prop_oneof![
        4 => quiet,
        2 => Just(ReadOutcome { has_records: true, ..QUIET }),
        1 => Just(ReadOutcome { has_diverging_epoch: true, ..QUIET }),
        1 => Just(ReadOutcome { has_preferred_read_replica: true, ..QUIET }),
        1 => Just(ReadOutcome::error(ErrorCode::NotLeaderOrFollower)),
    ]
}

proptest! {
    #![proptest_config(trials::property(128))]

    #[test]
    fn reading_what_has_changed_lists_what_reading_everything_would(
        uses_topic_ids: bool,
        steps in prop::collection::vec(
            (
                prop::collection::vec((any_name(), any_outcome()), 0..4),
                prop::collection::vec(any_name(), 0..3),
                prop::collection::vec(any_name(), 0..2),
            ),
            1..20,
        ),
    ) {
        let mut broker = Broker::new(1);
        let mut model = Model::default();
        let mut fetch = Fetch::parse(&["0.0", "a-0", "z-0"]);
        fetch.session.uses_topic_ids = uses_topic_ids;
        broker.fetch(&fetch).unwrap();
        model.fetch(&fetch.partitions, &[], |_| QUIET);
        fetch.session.session_id = 1;
        for (changes, added, forgotten) in steps {
            for (name, outcome) in changes {
                broker.set(name, outcome);
            }
            let expected = model.fetch(&added, &forgotten, |name| broker.read(name));
            fetch.session.session_epoch += 1;
            fetch.partitions = added;
            fetch.forgotten = forgotten;
            let (_, _, listed) = broker.fetch(&fetch).unwrap();
            prop_assert_eq!(listed, expected);
            prop_assert_eq!(broker.cache.partition_count(), model.partitions.len());
        }
    }
}
