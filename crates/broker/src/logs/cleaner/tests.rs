use super::*;
use std::sync::mpsc;

const LOG: LogKey = (Uuid::from_u128(1), 0);
const OTHER: LogKey = (Uuid::from_u128(1), 1);

#[test]
fn a_log_is_paused_until_the_last_pause_ends() {
    let cleaner = Arc::new(Cleaner::default());
    let first = cleaner.pause_log(LOG);
    let second = cleaner.pause_log(LOG);
    assert!(cleaner.take_up(LOG).is_none());
    assert!(cleaner.take_up(OTHER).is_some());
    drop(first);
    assert!(cleaner.take_up(LOG).is_none(), "the second pause goes on");
    drop(second);
    assert!(cleaner.take_up(LOG).is_some());
}

#[test]
fn a_pause_begins_when_the_compaction_has_ended() {
    let cleaner = Arc::new(Cleaner::default());
    let in_progress = cleaner.take_up(LOG).unwrap();
    assert!(
        cleaner.take_up(LOG).is_none(),
        "one compaction of a log at a time"
    );
    let (sender, paused) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let pause = cleaner.pause_log(LOG);
            sender.send(()).unwrap();
            drop(pause);
        });
        while !cleaner.state.lock().paused.contains_key(&LOG) {
            std::thread::yield_now();
        }
        assert!(paused.try_recv().is_err());
        drop(in_progress);
        paused.recv().unwrap();
    });
}

#[test]
fn what_is_compacted_of_a_log_is_found_when_nobody_else_has_it() {
    let cleaner = Arc::new(Cleaner::default());
    let look = || {
        let state = cleaner.state.lock();
        assert!(
            state.in_progress.contains(&LOG),
            "somebody else may have it"
        );
        Some(7)
    };
    let (in_progress, found) = cleaner.take_up_if_due(LOG, look).unwrap();
    assert_eq!(found, 7);
    let again = || -> Option<i64> { panic!("it is compacted") };
    assert!(cleaner.take_up_if_due(LOG, again).is_none());
    drop(in_progress);
    // Whoever had it last has left nothing to do.
    assert!(cleaner.take_up_if_due(LOG, || None::<i64>).is_none());
    assert!(cleaner.state.lock().in_progress.is_empty());
    let pause = cleaner.pause_log(LOG);
    let paused = || -> Option<i64> { panic!("it is paused") };
    assert!(cleaner.take_up_if_due(LOG, paused).is_none());
    drop(pause);
}

#[test]
fn a_compaction_that_panics_is_over() {
    let cleaner = Arc::new(Cleaner::default());
    let in_progress = cleaner.take_up(LOG).unwrap();
    let outcome = attempt(|| {
        let _in_progress = in_progress;
        panic!("on purpose")
    });
    assert!(matches!(outcome, Outcome::Panicked));
    // Nobody waits for it any more.
    drop(cleaner.pause_log(LOG));
}

#[test]
fn a_log_without_room_lets_others_go_first_for_longer_each_time() {
    let mut state = State::default();
    let start = Instant::now();
    let seconds = Duration::from_secs;
    let pauses = [30, 60, 120, 240, 480, 600, 600].map(seconds);
    let mut now = start;
    for expected in pauses {
        let pause = state.defer(LOG, 15_000, now);
        assert_eq!(pause, expected);
        assert!(state.is_barred(LOG, now));
        assert!(!state.is_barred(OTHER, now));
        now += pause;
        assert!(!state.is_barred(LOG, now), "its turn comes");
    }
    assert_eq!(state.defer(OTHER, 0, now), Duration::from_millis(2));
}
