//! One life of a log, stopped at each of its changes to the disk in turn.

use crate::support::tested::{Step, Tested};
use storage::sim::Crash;

/// Appends of every kind with rolls, flushes, a truncation, retention and two closings.
fn life() -> Vec<Step> {
    let append = |timestamp_ms| Step::Append {
        count: 3,
        timestamp_ms,
        padding: 60,
    };
    let transactional = Step::AppendTransactional {
        producer: 1,
        count: 2,
    };
    let end = |is_abort| Step::EndTransaction {
        producer: 1,
        is_abort,
    };
    let idempotent = Step::AppendIdempotent {
        producer: 0,
        count: 2,
    };
    vec![
        append(1),
        idempotent.clone(),
        Step::Flush,
        transactional.clone(),
        append(5),
        append(3),
        end(true),
        Step::Flush,
        append(7),
        Step::NextEpoch,
        append(9),
        idempotent.clone(),
        transactional,
        append(11),
        Step::Truncate { percent: 70 },
        append(12),
        Step::Replicate { gap: 2, count: 2 },
        end(false),
        Step::Flush,
        append(13),
        Step::CloseAndOpen,
        idempotent,
        append(14),
        Step::Flush,
        append(15),
        Step::DeleteOld {
            retention_bytes: 1500,
        },
        append(16),
        Step::RestartAt { ahead: 4 },
        append(17),
        Step::CloseAndOpen,
    ]
}

#[test]
fn a_stop_at_any_change_loses_nothing_that_was_flushed() {
    let mut whole = Tested::new();
    let first_change = whole.disk.change_count();
    for step in life() {
        whole.step(&step).unwrap();
        whole.check();
    }
    let last_change = whole.disk.change_count();
    assert!(last_change > 100);
    for stop_at in first_change..last_change {
        let crashes = [
            Crash::LosesUnsynced,
            Crash::KeepsAll,
            Crash::Random(trials::seed(stop_at)),
        ];
        for crash in crashes {
            stopped_life(stop_at, crash);
        }
    }
}

fn stopped_life(stop_at: u64, crash: Crash) {
    let mut tested = Tested::new();
    tested.disk.stop_at(Some(stop_at));
    for step in life() {
        if tested.step(&step).is_err() {
            tested.crash(crash);
        }
    }
    tested.check();
}
