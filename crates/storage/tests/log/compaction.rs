//! Compaction: what stays of a log, and that a stop at any point of it loses nothing.

use model::{LeaderEpoch, Offset};
use std::path::Path;

use crate::support::compaction::Compacted;
use expect_test::{Expect, expect};
use proptest::prelude::*;
use record::{BatchBuilder, BatchHeader, Batches, Compression, Decompressor};
use storage::sim::{Crash, SimDisk};
use storage::{AppendOptions, Disk};

fn check(script: &str, expected: &Expect) {
    expected.assert_eq(&Compacted::new(|_| {}).run(script));
}

#[test]
fn the_latest_record_of_a_key_stays_with_its_offset() {
    check(
        "put a=1 b=1
         put a=2
         put c=1 c=2
         roll
         put b=2
         roll
         compact
         show",
        &expect![[r#"
            2..=2: a=2@2
            3..=4: c=2@4
            5..=5: b=2@5
        "#]],
    );
}

#[test]
fn the_active_segment_stays_and_counts_for_nothing() {
    check(
        "put a=1
         roll
         put a=2
         compact
         show",
        &expect![[r#"
            0..=0: a=1@0
            1..=1: a=2@1
        "#]],
    );
}

#[test]
fn a_tombstone_goes_after_its_horizon() {
    check(
        "at 10
         put a=1 b=1
         put a-
         put z=1
         roll
         compact
         show
         at 1009
         put x=1
         roll
         compact
         show
         at 1010
         put y=1
         roll
         compact
         show",
        &expect![[r#"
            0..=1: b=1@1
            2..=2 until 1010: a-@2
            3..=3: z=1@3
            0..=1: b=1@1
            2..=2 until 1010: a-@2
            3..=3: z=1@3
            4..=4: x=1@4
            0..=1: b=1@1
            3..=3: z=1@3
            4..=4: x=1@4
            5..=5: y=1@5
        "#]],
    );
}

#[test]
fn a_horizon_that_a_clock_ahead_has_set_is_drawn_in() {
    check(
        "at 1000000
         put a-
         put z=1
         roll
         compact
         show
         at 10
         put x=1
         roll
         compact
         show",
        &expect![[r#"
            0..=0 until 1001000: a-@0
            1..=1: z=1@1
            0..=0 until 1010: a-@0
            1..=1: z=1@1
            2..=2: x=1@2
        "#]],
    );
}

#[test]
fn the_last_batch_of_a_producer_stays_empty() {
    check(
        "idempotent 5 a=1
         idempotent 5 a=2 a=3
         put a=4
         put z=1
         roll
         compact
         show
         idempotent 5 b=1
         roll
         compact
         show",
        &expect![[r#"
            1..=2 of 5: empty
            3..=3: a=4@3
            4..=4: z=1@4
            3..=3: a=4@3
            4..=4: z=1@4
            5..=5 of 5: b=1@5
        "#]],
    );
}

#[test]
fn the_last_batch_of_a_round_stays_empty() {
    check(
        "put a=1
         keyless x
         roll
         compact
         show",
        &expect![[r#"
            0..=0: a=1@0
            1..=1: empty
        "#]],
    );
}

#[test]
fn what_was_aborted_goes_and_its_marker_later() {
    check(
        "put a=1
         transactional 7 a=2 b=2
         transactional 8 c=1
         abort 7
         commit 8
         epoch 7
         transactional 7 d=1
         commit 7
         put z=1
         roll
         compact
         show
         at 10
         put y=1
         roll
         compact
         show
         at 1010
         put x=1
         roll
         compact
         show",
        &expect![[r#"
            0..=0: a=1@0
            3..=3 of 8: c=1@3
            4..=4 of 7: abort
            5..=5 of 8: commit
            6..=6 of 7: d=1@6
            7..=7 of 7: commit
            8..=8: z=1@8
            0..=0: a=1@0
            3..=3 of 8: c=1@3
            4..=4 of 7 until 1010: abort
            5..=5 of 8: commit
            6..=6 of 7: d=1@6
            7..=7 of 7: commit
            8..=8: z=1@8
            9..=9: y=1@9
            0..=0: a=1@0
            3..=3 of 8: c=1@3
            5..=5 of 8: commit
            6..=6 of 7: d=1@6
            7..=7 of 7: commit
            8..=8: z=1@8
            9..=9: y=1@9
            10..=10: x=1@10
        "#]],
    );
}

/// The files of a segment that is deleted meanwhile, its transaction index first, are no sign of damage.
#[test]
fn segments_that_are_deleted_meanwhile_end_a_compaction_and_no_more() {
    check(
        "transactional 7 a=1
         abort 7
         put b=1
         roll
         put b=2
         roll
         compact-while-trimmed-to 3
         compact
         show",
        &expect![[r#"
            to be tried again
            3..=3: b=2@3
        "#]],
    );
}

#[test]
fn what_was_aborted_for_lack_of_files_goes_though_no_index_says_so() {
    check(
        "transactional 7 a=1
         put b=1
         roll
         lack
         abort 7
         plenty
         compact
         show",
        &expect![[r#"
            0..=0 of 7: empty
            1..=1: b=1@1
            2..=2 of 7: abort
        "#]],
    );
}

#[test]
fn an_aborted_transaction_may_end_in_a_later_segment() {
    check(
        "transactional 7 a=1
         roll
         transactional 7 b=1
         roll
         put z=1
         abort 7
         idempotent 7 x=1
         roll
         put y=1
         roll
         compact
         show",
        &expect![[r#"
            2..=2: z=1@2
            3..=3 of 7: abort
            4..=4 of 7: x=1@4
            5..=5: y=1@5
        "#]],
    );
}

#[test]
fn nothing_of_an_open_transaction_is_touched() {
    check(
        "put a=1
         put a=2
         roll
         transactional 7 a=3
         roll
         put a=4
         roll
         compact
         show",
        &expect![[r#"
            1..=1: a=2@1
            2..=2 of 7: a=3@2
            3..=3: a=4@3
        "#]],
    );
}

#[test]
fn records_without_a_key_do_not_stay() {
    check(
        "put a=1
         keyless x
         put z=1
         roll
         compact
         show",
        &expect![[r#"
            0..=0: a=1@0
            2..=2: z=1@2
        "#]],
    );
}

#[test]
fn small_segments_become_one() {
    let mut compacted = Compacted::new(|config| config.segment_bytes = 1 << 20);
    for at in 0..20 {
        compacted.run(&format!("put key{at}=1 same={at}\nroll"));
    }
    assert_eq!(compacted.log.segment_count(), 21);
    let before = compacted.log.size_bytes();
    let table = compacted.table();
    compacted.run("compact");
    assert_eq!(compacted.log.segment_count(), 2);
    assert!(compacted.log.size_bytes() < before);
    assert_eq!(compacted.table(), table);
    compacted.run("reopen");
    assert_eq!(compacted.table(), table);
}

#[test]
fn a_full_map_leaves_the_rest_to_the_next_round() {
    let mut compacted = Compacted::new(|_| {});
    compacted.map_bytes = 24 * 12;
    for round in 0..3 {
        for at in 0..30 {
            compacted.run(&format!("put key{at}={round}"));
        }
    }
    compacted.run("roll");
    let table = compacted.table();
    let mut rounds = 0;
    let end = compacted.log.active_segment_base_offset();
    while compacted
        .checkpoint
        .is_none_or(|checkpoint| checkpoint < end.0)
    {
        compacted.compact().unwrap();
        rounds += 1;
        assert_eq!(compacted.table(), table);
        assert!(rounds <= 90, "each round gets further");
    }
    assert!(rounds > 3);
    let shown = compacted.run("show");
    let kept = shown.matches('@').count();
    assert_eq!(kept, 30, "{shown}");
}

#[test]
fn segments_that_retention_removes_meanwhile_are_no_failure() {
    let mut compacted = Compacted::new(|_| {});
    compacted.run("put a=1\nroll\nput a=2\nput b=1\nroll\nput c=1");
    compacted.log.flush(0).unwrap();
    let candidate = compacted
        .log
        .compaction_candidate(None, Offset(3), 0)
        .unwrap();
    let mut compaction = compacted
        .log
        .begin_compaction(&candidate.cleanable, 0, 4096);
    let mut map = storage::OffsetMap::new(1 << 16, 0.9, 100, [1, 2]);
    compaction.index_keys(&mut map, &mut |_| true).unwrap();
    let group = compaction.next_group(&map).unwrap();
    let cleaned = compaction.clean_group(group, &map, &mut |_| true).unwrap();
    compacted.log.advance_log_start_offset(Offset(1)).unwrap();
    let deleted = compacted.log.delete_old_segments(Offset(4), 0).unwrap();
    assert_eq!(deleted.segments.len(), 1);
    assert!(!compacted.log.replace_segments(cleaned, 0).unwrap());
    assert_eq!(
        compacted.run("show"),
        "1..=1: a=2@1\n2..=2: b=1@2\n3..=3: c=1@3\n"
    );
    assert!(leftovers(&compacted).is_empty());
}

#[test]
fn a_compaction_that_is_stopped_leaves_nothing_behind() {
    let mut compacted = Compacted::new(|_| {});
    compacted.run("put a=1\nput a=2\nroll");
    let candidate = compacted
        .log
        .compaction_candidate(None, Offset(2), 0)
        .unwrap();
    let mut compaction = compacted
        .log
        .begin_compaction(&candidate.cleanable, 0, 4096);
    let mut map = storage::OffsetMap::new(1 << 16, 0.9, 100, [1, 2]);
    compaction.index_keys(&mut map, &mut |_| true).unwrap();
    let group = compaction.next_group(&map).unwrap();
    let stopped = compaction.clean_group(group, &map, &mut |_| false);
    assert!(matches!(stopped, Err(storage::CleanError::Stopped)));
    assert!(leftovers(&compacted).is_empty());
}

/// A log of which a compaction has begun and has cleaned its first group.
fn begun() -> (
    Compacted,
    storage::Compaction<SimDisk>,
    storage::CleanedSegment<SimDisk>,
) {
    let mut compacted = Compacted::new(|_| {});
    compacted.run("put a=1\nroll\nput a=2\nroll\nput c=1");
    compacted.log.flush(0).unwrap();
    let candidate = compacted
        .log
        .compaction_candidate(None, Offset(3), 0)
        .unwrap();
    let mut compaction = compacted
        .log
        .begin_compaction(&candidate.cleanable, 0, 4096);
    let mut map = storage::OffsetMap::new(1 << 16, 0.9, 100, [1, 2]);
    compaction.index_keys(&mut map, &mut |_| true).unwrap();
    let group = compaction.next_group(&map).unwrap();
    let cleaned = compaction.clean_group(group, &map, &mut |_| true).unwrap();
    (compacted, compaction, cleaned)
}

#[test]
fn a_log_is_not_idle_while_it_is_compacted_whatever_its_policy() {
    let (mut compacted, compaction, cleaned) = begun();
    let log = &mut compacted.log;
    assert_eq!(log.idle(0, true).unwrap(), None, "it is to be compacted");
    log.set_config(std::sync::Arc::new(crate::support::small_config()));
    assert_eq!(log.idle(0, true).unwrap(), None, "it is compacted");
    drop(compaction);
    assert_eq!(log.idle(0, true).unwrap(), None, "a segment is to come");
    assert!(log.replace_segments(cleaned, 0).unwrap());
    log.remove_deleted_files(i64::MAX).unwrap();
    assert!(log.idle(0, true).unwrap().is_some());
    assert!(leftovers(&compacted).is_empty());
}

#[test]
fn a_compaction_whose_files_have_vanished_changes_nothing() {
    for extension in ["log.cleaned", "index.cleaned"] {
        let (mut compacted, _compaction, cleaned) = begun();
        let path = Path::new("/topic-0/00000000000000000000").with_extension(extension);
        compacted.disk.remove_file(&path).unwrap();
        assert!(!compacted.log.replace_segments(cleaned, 0).unwrap());
        assert!(!compacted.log.is_failed());
        assert_eq!(compacted.log.segment_count(), 3);
        assert!(leftovers(&compacted).is_empty());
    }
}

#[test]
fn records_that_have_taken_the_place_of_others_meanwhile_stay() {
    let (mut compacted, _compaction, cleaned) = begun();
    // The same segments as before, of another leader.
    compacted.log.truncate_to(Offset(1), 0).unwrap();
    compacted.run("roll\nput b=9\nroll\nput d=1");
    assert_eq!(compacted.log.segment_count(), 3);
    let table = compacted.table();
    assert!(!compacted.log.replace_segments(cleaned, 0).unwrap());
    assert_eq!(compacted.table(), table);
    assert!(leftovers(&compacted).is_empty());
    compacted.compact().unwrap();
    assert_eq!(compacted.table(), table);
}

#[test]
fn a_log_that_has_failed_meanwhile_stays_as_it_is() {
    let (mut compacted, _compaction, cleaned) = begun();
    compacted.log.fail();
    assert!(!compacted.log.replace_segments(cleaned, 0).unwrap());
    assert_eq!(compacted.log.segment_count(), 3);
    assert!(leftovers(&compacted).is_empty());
}

#[test]
fn damage_is_named_and_not_written_anew() {
    let mut compacted = Compacted::new(|_| {});
    compacted.run("put a=1\nput a=2\nroll");
    let path = Path::new("/topic-0/00000000000000000000.log");
    let file = compacted
        .disk
        .open(path, storage::disk::OpenMode::Write)
        .unwrap();
    storage::DiskFile::write_at(&file, b"x", 65).unwrap();
    let failed = compacted.compact().unwrap_err().to_string();
    assert!(
        failed.contains("00000000000000000000.log` is damaged at position 0"),
        "{failed}"
    );
}

/// Files of a compaction that has not come to its end.
fn leftovers(compacted: &Compacted) -> Vec<String> {
    let entries = compacted
        .disk
        .list(Path::new("/topic-0"))
        .unwrap()
        .into_iter();
    entries
        .map(|entry| entry.name)
        .filter(|name| name.ends_with(".cleaned") || name.ends_with(".swap"))
        .collect()
}

/// Three groups of segments with tombstones past their horizon, transactions and superseded
/// records, before their second compaction.
fn before_compaction() -> Compacted {
    let mut compacted = Compacted::new(|config| config.segment_bytes = 400);
    compacted.run(
        "put a=1 b=1 c=1
         put b-
         transactional 7 a=2 d=1
         roll
         abort 7
         put e=1 f=1
         roll
         compact
         at 5000
         put c=2 e=2
         transactional 8 f=2 g=1
         roll
         put h=1
         commit 8
         idempotent 9 a=3 i=1
         roll
         put i=2 h-
         put j=1
         roll
         put k=1",
    );
    compacted.log.flush(5000).unwrap();
    compacted
}

#[test]
fn a_stop_at_any_change_of_a_compaction_loses_nothing() {
    let mut whole = before_compaction();
    let table = whole.table();
    let end_offset = whole.log.log_end_offset();
    let first_change = whole.disk.change_count();
    whole.compact().unwrap();
    let last_change = whole.disk.change_count();
    assert_eq!(whole.table(), table);
    assert!(last_change - first_change > 30);
    for stop_at in first_change..=last_change {
        let crashes = trials::seeds(stop_at * 10..stop_at * 10 + 6)
            .map(Crash::Random)
            .chain([Crash::LosesUnsynced, Crash::KeepsAll]);
        for crash in crashes {
            let mut cut = before_compaction();
            cut.disk.stop_at(Some(stop_at));
            let before = cut.checkpoint;
            if cut.compact().is_err() {
                cut.checkpoint = before;
            }
            cut.crash(crash);
            let context = format!("stopped at {stop_at}, {crash:?}");
            assert_eq!(cut.table(), table, "{context}");
            assert_eq!(cut.log.log_end_offset(), end_offset, "{context}");
            assert!(leftovers(&cut).is_empty(), "{context}");
            cut.compact().unwrap();
            assert_eq!(cut.table(), table, "{context}");
            cut.crash(Crash::LosesUnsynced);
            assert_eq!(cut.table(), table, "{context}");
        }
    }
}

fn line() -> impl Strategy<Value = String> {
    let record = (0..6u8, prop::option::of(0..9u8)).prop_map(|(key, value)| {
        let key = char::from(b'a' + key);
        value.map_or(format!("{key}-"), |value| format!("{key}={value}"))
    });
    let records = prop::collection::vec(record, 1..4).prop_map(|records| records.join(" "));
    prop_oneof![
        4 => records.clone().prop_map(|records| format!("put {records}")),
        3 => (1..3, records.clone()).prop_map(|(id, records)| format!("idempotent {id} {records}")),
        4 => (3..6, records).prop_map(|(id, records)| format!("transactional {id} {records}")),
        2 => (3..6).prop_map(|id| format!("commit {id}")),
        2 => (3..6).prop_map(|id| format!("abort {id}")),
        2 => Just("roll".to_owned()),
        1 => Just("compact".to_owned()),
        1 => Just("reopen".to_owned()),
        1 => (0..3000).prop_map(|time| format!("at {time}")),
    ]
}

proptest! {
    #![proptest_config(trials::property(300))]

    /// Whoever reads all of a compacted log has the same table as before, and producers go on.
    #[test]
    fn compaction_changes_no_table(
        lines in prop::collection::vec(line(), 1..60),
        map_slots in 3u64..40,
        segment_bytes in 200u32..2000,
    ) {
        let mut compacted = Compacted::new(|config| config.segment_bytes = segment_bytes);
        compacted.map_bytes = 24 * map_slots;
        for line in lines {
            let table = compacted.table();
            compacted.run(&line);
            if line == "compact" || line == "reopen" {
                prop_assert_eq!(compacted.table(), table);
            }
        }
        for id in 3..6 {
            compacted.run(&format!("abort {id}"));
        }
        compacted.run("roll");
        let table = compacted.table();
        for _ in 0..3 {
            compacted.run("compact");
            compacted.now_ms += 1000;
            prop_assert_eq!(&compacted.table(), &table);
        }
        compacted.run("reopen");
        prop_assert_eq!(compacted.table(), table);
        compacted.run("idempotent 1 a=1\nidempotent 2 a=1\nidempotent 3 a=1");
    }
}

#[test]
fn a_segment_compacted_twice_leaves_two_files_that_are_removed_each_in_its_time() {
    let mut compacted = Compacted::new(|config| config.file_delete_delay_ms = 1000);
    let deleted = |compacted: &Compacted| {
        let entries = compacted.disk.list(Path::new("/topic-0")).unwrap();
        let names = entries.into_iter().map(|entry| entry.name);
        let mut names: Vec<_> = names
            .filter(|name| name.contains("00000.log") && name.ends_with(".deleted"))
            .collect();
        names.sort();
        names
    };
    let [first, second] = [
        "00000000000000000000.log.deleted",
        "00000000000000000000.log.1.deleted",
    ];
    compacted.run("put a=1\nput a=2\nroll\ncompact\nat 600\nput a=3\nroll\ncompact");
    assert_eq!(deleted(&compacted), [second, first]);
    compacted.log.remove_deleted_files(1000).unwrap();
    assert_eq!(deleted(&compacted), [second]);
    // The first name is free again.
    compacted.run("at 1100\nput a=4\nroll\ncompact");
    assert_eq!(deleted(&compacted), [second, first]);
    compacted.log.remove_deleted_files(1600).unwrap();
    assert_eq!(deleted(&compacted), [first]);
    // What waits when the server stops is removed by the next start.
    compacted.run("at 1700\nput a=5\nroll\ncompact\nreopen");
    assert_eq!(deleted(&compacted), Vec::<String>::new());
}

#[test]
fn few_segments_are_read_at_once_in_search_of_an_old_record() {
    let mut compacted = Compacted::new(|config| {
        config.min_cleanable_dirty_ratio = 1.0;
        config.max_compaction_lag_ms = 100;
    });
    compacted.run("at 1000");
    for _ in 0..100 {
        compacted.run("put a=1\nroll");
    }
    compacted.run("at 5\nput a=1\nroll");
    compacted.log.flush(5).unwrap();
    compacted.run("reopen");
    let mut is_due = || {
        let candidate = compacted.log.compaction_candidate(None, Offset(101), 1050);
        candidate.unwrap().is_due
    };
    assert!(!is_due(), "not all of them have been read");
    assert!(
        (0..4).any(|_| is_due()),
        "the rest is read by the next calls"
    );
}

/// Offset, key and length of the value of each record that is left of a log of two segments; the
/// first batch has values of so many bytes, the lengths are told as multiples of that.
fn left_of_values_of(value_bytes: usize) -> Vec<(i64, Vec<u8>, Option<usize>)> {
    let mut compacted = Compacted::new(|config| config.segment_bytes = 1 << 20);
    let value = vec![0; value_bytes];
    let mut builder = BatchBuilder::new(BatchHeader::default());
    for at in 0..20 {
        let value = (at % 10 != 3).then_some(&value[..]);
        builder.append(0, Some(format!("key-{}", at % 15).as_bytes()), value, &[]);
    }
    let mut batch = builder.into_batch(Compression::Zstd);
    let options = AppendOptions::client(LeaderEpoch(0), 0);
    compacted.log.append_as_leader(&mut batch, options).unwrap();
    compacted.run("put key-7=x key-8- last=x\nroll\ncompact");
    let bytes = compacted.bytes();
    let mut left = Vec::new();
    for batch in Batches::new(&bytes) {
        let mut scratch = Vec::new();
        let batch = batch.unwrap();
        assert!(batch.is_crc_valid());
        let records = batch.records(&mut Decompressor::new(), &mut scratch, 64 << 20);
        left.extend(records.unwrap().map(|record| {
            let record = record.unwrap();
            let length = record.value.map(|value| value.len().div_ceil(value_bytes));
            (record.offset.0, record.key.unwrap().to_vec(), length)
        }));
    }
    left
}

#[test]
fn a_batch_that_expands_to_more_than_is_kept_in_memory_is_compacted_as_any_other() {
    let left = left_of_values_of(10);
    assert!(left.len() < 20 && left.iter().any(|(_, _, length)| length.is_none()));
    assert_eq!(left_of_values_of(1 << 20), left);
}
