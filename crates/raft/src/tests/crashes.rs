//! A crash at any change of a leader's disk.

use super::*;
use proptest::prelude::*;

/// Does what a leader does, until the disk stops; returns the values that were acknowledged and those
/// that were staged after them.
fn live(disk: &SimDisk) -> (Vec<String>, Vec<String>) {
    let (mut acknowledged, mut staged) = (Vec::new(), Vec::new());
    let mut options = options(voter());
    options.config.retention_bytes = 0;
    let Ok((mut replica, mut state)) = lead_with(disk, options) else {
        return (acknowledged, staged);
    };
    for number in 0..6 {
        for half in ["a", "b"] {
            let value = format!("{number}{half}");
            let taken = stage(&mut replica, &[&value]);
            staged.push(value);
            if taken.is_err() {
                return (acknowledged, staged);
            }
        }
        if replica.flush(2_000).is_err() {
            return (acknowledged, staged);
        }
        acknowledged.append(&mut staged);
        state.apply(&mut replica);
        assert_eq!(state.values, acknowledged);
        if number % 2 == 1
            && let Some(draft) = replica.begin_snapshot(state.id(), 2_000)
        {
            // A failure here shows at the next append, or does no harm.
            let _ = replica.complete_snapshot(state.write(&draft), 2_000);
        }
    }
    (acknowledged, staged)
}

fn check_crash(stop_at: u64, crash: Crash) {
    let disk = new_disk();
    disk.stop_at(Some(stop_at));
    let (acknowledged, staged) = live(&disk);
    disk.crash(crash);
    let found = lead(&disk);
    let (_, state) = found.unwrap_or_else(|error| panic!("stopped at {stop_at}: {error}"));
    // What shares a flush is there or not, and nothing in between.
    let with_staged: Vec<String> = acknowledged.iter().chain(&staged).cloned().collect();
    assert!(
        state.values == acknowledged || state.values == with_staged,
        "stopped at {stop_at}: {:?}, acknowledged {acknowledged:?}",
        state.values
    );
}

fn all_changes() -> u64 {
    let disk = new_disk();
    let (acknowledged, _) = live(&disk);
    assert_eq!(acknowledged.len(), 12);
    disk.change_count()
}

#[test]
fn a_crash_at_any_change_loses_nothing_that_was_acknowledged() {
    for stop_at in new_disk().change_count()..all_changes() {
        check_crash(stop_at, Crash::LosesUnsynced);
    }
}

/// Appends batches that count together, until the disk stops.
fn append_together(disk: &SimDisk) {
    let large = "v".repeat(700);
    let Ok((mut replica, _)) = lead(disk) else {
        return;
    };
    let mut place = replica.next_place(2_000);
    let mut batches = Vec::new();
    for _ in 0..4 {
        batches.push(batch(place, &[&large]));
        place.base_offset += 1;
    }
    if replica.append(batches, 2_000).is_ok() {
        let _ = replica.flush(2_000);
    }
}

/// A start tells them apart only because each batch is synced before the next is written.
#[test]
fn no_crash_looks_like_damage() {
    let disk = new_disk();
    let start = disk.change_count();
    append_together(&disk);
    for stop_at in start..disk.change_count() {
        for seed in trials::seeds(0..20) {
            let disk = new_disk();
            disk.stop_at(Some(stop_at));
            append_together(&disk);
            disk.crash(Crash::Random(seed));
            let opened = lead(&disk).map(|_| ());
            assert!(opened.is_ok(), "stopped at {stop_at}, {seed}: {opened:?}");
        }
    }
}

proptest! {
    #![proptest_config(trials::property(48))]

    #[test]
    fn a_crash_that_keeps_a_part_loses_nothing_that_was_acknowledged(
        share in 0.0..1.0f64, seed in any::<u64>(),
    ) {
        let start = new_disk().change_count();
        let span = (all_changes() - start) as f64;
        check_crash(start + (span * share) as u64, Crash::Random(seed));
    }
}
