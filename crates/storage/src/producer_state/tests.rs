use expect_test::{Expect, expect};
use model::{LeaderEpoch, Offset};
use proptest::prelude::*;
use record::{EndTransactionMarker, TransactionResult};

use super::*;
use crate::stored_batch::StoredBatch;

/// Producers of one partition, told what to do line by line:
///
/// ```text
///   p1 e0 s0 n3        a batch of 3 records from sequence 0 on
///   p1 e0 s3 n1 txn    the same in a transaction
///   p1 e1 commit c7    a marker of coordinator epoch 7; `abort` likewise; `tv2` for the rules of
///                      transaction version 2
///   hw 4               the high watermark
///   verify p1 e0 s5    asks for a proof; `bump` if the producer's epoch may rise
///   offsets p1 e0 txn  records of the group coordinator, without a sequence
///   expire 100
/// ```
#[derive(Default)]
struct Script {
    state: ProducerState,
    next_offset: Offset,
    guard: Option<VerificationGuard>,
    requires_verification: bool,
}

impl Script {
    fn number(words: &[&str], prefix: char) -> Option<i64> {
        let word = words.iter().find(|word| {
            let digits = word.strip_prefix(prefix).unwrap_or_default();
            !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
        })?;
        word[1..].parse().ok()
    }

    fn batch(&self, words: &[&str]) -> StoredBatch {
        let number = |prefix| Self::number(words, prefix);
        let count = number('n').unwrap_or(1);
        let is_marker = words.iter().any(|word| matches!(*word, "commit" | "abort"));
        let is_transactional = is_marker || words.contains(&"txn");
        StoredBatch {
            position: 0,
            size_bytes: 100,
            base_offset: self.next_offset,
            last_offset: self.next_offset + count - 1,
            partition_leader_epoch: LeaderEpoch(0),
            crc: 0,
            attributes: record::Attributes(0)
                .with_transactional(is_transactional)
                .with_control(is_marker),
            max_timestamp: number('t').unwrap_or(self.next_offset.0),
            producer_id: ProducerId(number('p').unwrap()),
            producer_epoch: ProducerEpoch(number('e').unwrap() as i16),
            base_sequence: number('s').map_or(-1, |sequence| sequence as i32),
        }
    }

    fn append(&mut self, words: &[&str], origin: AppendOrigin) -> String {
        let batch = self.batch(words);
        let result = |word: &str| match word {
            "commit" => Some(TransactionResult::Commit),
            "abort" => Some(TransactionResult::Abort),
            _ => None,
        };
        let marker = words.iter().find_map(|word| result(word));
        let marker = marker.map(|result| EndTransactionMarker {
            result,
            coordinator_epoch: Self::number(words, 'c').unwrap_or(0) as i32,
        });
        let rules = AppendRules {
            origin,
            verification: self.guard,
            is_verification_required: self.requires_verification,
            is_epoch_raised_by_marker: words.contains(&"tv2"),
        };
        let mut append = ProducerAppend::default();
        match self.state.check(&batch, marker, &rules, &mut append) {
            Err(error) => error.to_string(),
            Ok(BatchCheck::Duplicate(batch)) => {
                format!(
                    "duplicate of {}..={}",
                    batch.base_offset(),
                    batch.last_offset
                )
            }
            Ok(BatchCheck::New) => {
                self.next_offset = batch.last_offset + 1;
                let aborted = self.state.apply(&mut append, self.next_offset);
                let aborted = aborted.iter().map(|one| {
                    let (first, last) = (one.first_offset, one.last_offset);
                    format!(
                        ", aborted {first}..={last} stable {}",
                        one.last_stable_offset
                    )
                });
                let aborted: String = aborted.collect();
                format!("{}..={}{aborted}", batch.base_offset, batch.last_offset)
            }
        }
    }

    fn line(&mut self, line: &str) -> String {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |prefix| Self::number(&words, prefix);
        match words[0] {
            "hw" => {
                self.state.advance_high_watermark(words[1].parse().unwrap());
                "done".to_owned()
            }
            "expire" => {
                self.state.expire(words[1].parse().unwrap(), 10);
                format!("{} left", self.state.producers().len())
            }
            "require" => {
                self.requires_verification = true;
                "done".to_owned()
            }
            "verify" => {
                let bump = words.contains(&"bump");
                let (id, epoch) = (number('p').unwrap(), number('e').unwrap() as i16);
                let sequence = number('s').map_or(-1, |sequence| sequence as i32);
                self.guard = self.state.start_verification(
                    ProducerId(id),
                    ProducerEpoch(epoch),
                    sequence,
                    bump,
                    0,
                );
                self.guard.map_or("open already".to_owned(), |guard| {
                    format!("proof {}", guard.number)
                })
            }
            "marker" | "offsets" => self.append(&words[1..], AppendOrigin::Coordinator),
            "replay" => self.append(&words[1..], AppendOrigin::Replication),
            _ => self.append(&words, AppendOrigin::Client),
        }
    }
}

fn check(script: &str, expected: Expect) {
    let mut state = Script::default();
    let mut shown = String::new();
    for line in script
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        let outcome = state.line(line);
        let unstable = state.state.first_unstable_offset();
        let unstable = unstable.map_or(String::new(), |at| format!("  (unstable {at})"));
        shown.push_str(&format!("{line:24} -> {outcome}{unstable}\n"));
    }
    expected.assert_eq(&shown);
}

#[test]
fn sequence_numbers_follow_each_other() {
    check(
        "p1 e0 s0 n3
         p1 e0 s3 n2
         p1 e0 s6 n1
         p1 e0 s4 n1
         p1 e0 s5 n1
         p2 e0 s77 n1
         p2 e0 s78 n1",
        expect![[r#"
            p1 e0 s0 n3              -> 0..=2
            p1 e0 s3 n2              -> 3..=4
            p1 e0 s6 n1              -> sequence 6 of producer 1 follows 4
            p1 e0 s4 n1              -> sequence 4 of producer 1 follows 4
            p1 e0 s5 n1              -> 5..=5
            p2 e0 s77 n1             -> 6..=6
            p2 e0 s78 n1             -> 7..=7
        "#]],
    );
}

#[test]
fn sequence_numbers_wrap() {
    check(
        "p1 e0 s2147483645 n3
         p1 e0 s1 n1
         p1 e0 s0 n1
         p2 e0 s2147483646 n4
         p2 e0 s2147483646 n4
         p2 e0 s2 n1",
        expect![[r#"
            p1 e0 s2147483645 n3     -> 0..=2
            p1 e0 s1 n1              -> sequence 1 of producer 1 follows 2147483647
            p1 e0 s0 n1              -> 3..=3
            p2 e0 s2147483646 n4     -> 4..=7
            p2 e0 s2147483646 n4     -> duplicate of 4..=7
            p2 e0 s2 n1              -> 8..=8
        "#]],
    );
}

#[test]
fn one_of_the_last_five_batches_is_a_duplicate() {
    check(
        "p1 e0 s0 n2
         p1 e0 s2 n1
         p1 e0 s3 n1
         p1 e0 s4 n1
         p1 e0 s5 n1
         p1 e0 s0 n2
         p1 e0 s0 n1
         p1 e0 s6 n1
         p1 e0 s0 n2
         p1 e0 s6 n1",
        expect![[r#"
            p1 e0 s0 n2              -> 0..=1
            p1 e0 s2 n1              -> 2..=2
            p1 e0 s3 n1              -> 3..=3
            p1 e0 s4 n1              -> 4..=4
            p1 e0 s5 n1              -> 5..=5
            p1 e0 s0 n2              -> duplicate of 0..=1
            p1 e0 s0 n1              -> sequence 0 of producer 1 follows 5
            p1 e0 s6 n1              -> 6..=6
            p1 e0 s0 n2              -> sequence 0 of producer 1 follows 6
            p1 e0 s6 n1              -> duplicate of 6..=6
        "#]],
    );
}

#[test]
fn a_higher_epoch_starts_at_zero_and_shuts_out_lower_ones() {
    check(
        "p1 e3 s0 n1
         p1 e4 s1 n1
         p1 e4 s0 n1
         p1 e3 s1 n1
         p1 e3 s0 n1
         replay p1 e3 s9 n1
         p1 e3 s10 n1",
        expect![[r#"
            p1 e3 s0 n1              -> 0..=0
            p1 e4 s1 n1              -> sequence 1 of producer 1 follows -1
            p1 e4 s0 n1              -> 1..=1
            p1 e3 s1 n1              -> epoch 3 of producer 1 is below 4
            p1 e3 s0 n1              -> epoch 3 of producer 1 is below 4
            replay p1 e3 s9 n1       -> 2..=2
            p1 e3 s10 n1             -> 3..=3
        "#]],
    );
}

#[test]
fn open_transactions_hold_the_stable_offset_back_until_their_marker_is_replicated() {
    check(
        "p1 e0 s0 n2 txn
         p2 e0 s0 n1 txn
         p1 e0 s2 n1 txn
         p1 e0 s3 n1
         marker p1 e0 abort c7
         marker p2 e0 commit c7
         hw 5
         hw 6
         p1 e0 s3 n1 txn
         marker p1 e0 abort c7",
        expect![[r#"
            p1 e0 s0 n2 txn          -> 0..=1  (unstable 0)
            p2 e0 s0 n1 txn          -> 2..=2  (unstable 0)
            p1 e0 s2 n1 txn          -> 3..=3  (unstable 0)
            p1 e0 s3 n1              -> producer 1 has an open transaction  (unstable 0)
            marker p1 e0 abort c7    -> 4..=4, aborted 0..=4 stable 2  (unstable 0)
            marker p2 e0 commit c7   -> 5..=5  (unstable 0)
            hw 5                     -> done  (unstable 2)
            hw 6                     -> done
            p1 e0 s3 n1 txn          -> 6..=6  (unstable 6)
            marker p1 e0 abort c7    -> 7..=7, aborted 6..=7 stable 8  (unstable 6)
        "#]],
    );
}

#[test]
fn markers_are_fenced_by_coordinator_and_producer_epoch() {
    check(
        "p1 e5 s0 n1 txn
         marker p1 e4 abort c7
         marker p1 e5 abort c7
         marker p1 e5 abort c6
         p1 e5 s1 n1 txn
         marker p1 e5 commit c8 tv2
         marker p1 e6 commit c8 tv2
         marker p1 e6 commit c8 tv2
         p1 e6 s1 n1 txn
         p1 e6 s0 n1 txn",
        expect![[r#"
            p1 e5 s0 n1 txn          -> 0..=0  (unstable 0)
            marker p1 e4 abort c7    -> epoch 4 of producer 1 is below 5  (unstable 0)
            marker p1 e5 abort c7    -> 1..=1, aborted 0..=1 stable 2  (unstable 0)
            marker p1 e5 abort c6    -> coordinator epoch 6 of producer 1 is below 7  (unstable 0)
            p1 e5 s1 n1 txn          -> 2..=2  (unstable 0)
            marker p1 e5 commit c8 tv2 -> epoch 5 of producer 1 is below 5  (unstable 0)
            marker p1 e6 commit c8 tv2 -> 3..=3  (unstable 0)
            marker p1 e6 commit c8 tv2 -> 4..=4  (unstable 0)
            p1 e6 s1 n1 txn          -> sequence 1 of producer 1 follows -1  (unstable 0)
            p1 e6 s0 n1 txn          -> 5..=5  (unstable 0)
        "#]],
    );
}

#[test]
fn a_first_transactional_batch_needs_its_proof() {
    check(
        "require
         p1 e0 s0 n1 txn
         verify p1 e0 s3
         p2 e0 s0 n1 txn
         p1 e0 s4 n1 txn
         p1 e0 s3 n1 txn
         p1 e0 s4 n1 txn
         verify p1 e0 s5
         verify p3 e0 s4 bump
         p3 e0 s4 n1 txn
         p3 e0 s0 n1 txn
         p4 e0 s7 n1",
        expect![[r#"
            require                  -> done
            p1 e0 s0 n1 txn          -> producer 1 has no verified transaction in this partition
            verify p1 e0 s3          -> proof 0
            p2 e0 s0 n1 txn          -> producer 2 has no verified transaction in this partition
            p1 e0 s4 n1 txn          -> sequence 4 of producer 1 follows 2
            p1 e0 s3 n1 txn          -> 0..=0  (unstable 0)
            p1 e0 s4 n1 txn          -> 1..=1  (unstable 0)
            verify p1 e0 s5          -> open already  (unstable 0)
            verify p3 e0 s4 bump     -> proof 1  (unstable 0)
            p3 e0 s4 n1 txn          -> sequence 4 of producer 3 follows -1  (unstable 0)
            p3 e0 s0 n1 txn          -> 2..=2  (unstable 0)
            p4 e0 s7 n1              -> 3..=3  (unstable 0)
        "#]],
    );
}

#[test]
fn a_marker_voids_the_proof() {
    check(
        "require
         verify p1 e0 s0
         marker p1 e0 abort c1
         p1 e0 s0 n1 txn
         verify p1 e0 s0
         p1 e0 s0 n1 txn",
        expect![[r#"
            require                  -> done
            verify p1 e0 s0          -> proof 0
            marker p1 e0 abort c1    -> 0..=0
            p1 e0 s0 n1 txn          -> producer 1 has no verified transaction in this partition
            verify p1 e0 s0          -> proof 1
            p1 e0 s0 n1 txn          -> 1..=1  (unstable 1)
        "#]],
    );
}

#[test]
fn a_proof_from_before_a_marker_is_asked_for_again() {
    check(
        "require
         verify p1 e0 s0 bump
         p1 e0 s0 n1 txn
         verify p1 e1 s0 bump
         verify p1 e1 s0
         marker p1 e1 commit c1 tv2
         verify p1 e1 s0 bump
         marker p1 e1 commit c1 tv2
         p1 e1 s0 n1 txn
         verify p1 e1 s0 bump
         p1 e1 s0 n1 txn
         marker p1 e2 commit c1 tv2
         p1 e1 s1 n1 txn",
        expect![[r#"
            require                  -> done
            verify p1 e0 s0 bump     -> proof 0
            p1 e0 s0 n1 txn          -> 0..=0  (unstable 0)
            verify p1 e1 s0 bump     -> proof 1  (unstable 0)
            verify p1 e1 s0          -> proof 1  (unstable 0)
            marker p1 e1 commit c1 tv2 -> 1..=1  (unstable 0)
            verify p1 e1 s0 bump     -> proof 2  (unstable 0)
            marker p1 e1 commit c1 tv2 -> 2..=2  (unstable 0)
            p1 e1 s0 n1 txn          -> producer 1 has an earlier transaction that ends at this time  (unstable 0)
            verify p1 e1 s0 bump     -> proof 3  (unstable 0)
            p1 e1 s0 n1 txn          -> 3..=3  (unstable 0)
            marker p1 e2 commit c1 tv2 -> 4..=4  (unstable 0)
            p1 e1 s1 n1 txn          -> producer 1 has no verified transaction in this partition  (unstable 0)
        "#]],
    );
}

#[test]
fn a_producer_goes_on_after_a_transaction_that_hangs() {
    check(
        "p1 e0 s0 n1 txn
         require
         verify p1 e1 s0 bump
         p1 e1 s0 n1 txn
         marker p1 e2 commit c1 tv2",
        expect![[r#"
            p1 e0 s0 n1 txn          -> 0..=0  (unstable 0)
            require                  -> done  (unstable 0)
            verify p1 e1 s0 bump     -> proof 0  (unstable 0)
            p1 e1 s0 n1 txn          -> 1..=1  (unstable 0)
            marker p1 e2 commit c1 tv2 -> 2..=2  (unstable 0)
        "#]],
    );
}

#[test]
fn offsets_of_a_transaction_need_their_proof() {
    check(
        "require
         offsets p1 e0 txn
         verify p1 e0
         offsets p1 e0 txn
         offsets p1 e0 txn
         marker p1 e1 commit c1 tv2
         offsets p1 e0 txn
         offsets p1 e1 txn",
        expect![[r#"
            require                  -> done
            offsets p1 e0 txn        -> producer 1 has no verified transaction in this partition
            verify p1 e0             -> proof 0
            offsets p1 e0 txn        -> 0..=0  (unstable 0)
            offsets p1 e0 txn        -> 1..=1  (unstable 0)
            marker p1 e1 commit c1 tv2 -> 2..=2  (unstable 0)
            offsets p1 e0 txn        -> producer 1 has no verified transaction in this partition  (unstable 0)
            offsets p1 e1 txn        -> producer 1 has no verified transaction in this partition  (unstable 0)
        "#]],
    );
}

#[test]
fn idle_producers_expire_unless_a_transaction_is_open() {
    check(
        "p1 e0 s0 n1 t5
         p2 e0 s0 n1 t5 txn
         p3 e0 s0 n1 t8
         expire 14
         expire 15
         p1 e0 s7 n1 t20",
        expect![[r#"
            p1 e0 s0 n1 t5           -> 0..=0
            p2 e0 s0 n1 t5 txn       -> 1..=1  (unstable 1)
            p3 e0 s0 n1 t8           -> 2..=2  (unstable 1)
            expire 14                -> 3 left  (unstable 1)
            expire 15                -> 2 left  (unstable 1)
            p1 e0 s7 n1 t20          -> 3..=3  (unstable 1)
        "#]],
    );
}

/// Any batch or marker, of few producers.
fn line() -> impl Strategy<Value = String> {
    let kinds = prop_oneof![
        Just("n1"),
        Just("n3"),
        Just("n2 txn"),
        Just("commit c1"),
        Just("abort c2"),
    ];
    (0..3, 0..3, 0..6, kinds).prop_map(|(producer, epoch, sequence, kind)| {
        match kind.starts_with('n') {
            true => format!("p{producer} e{epoch} s{sequence} {kind}"),
            false => format!("p{producer} e{epoch} {kind}"),
        }
    })
}

proptest! {
    #![proptest_config(trials::property(200))]
    #[test]
    fn a_snapshot_knows_all_but_older_batches(lines in prop::collection::vec(line(), 0..40)) {
        let mut script = Script::default();
        for line in &lines {
            script.line(&format!("replay {line}"));
        }
        let state = &script.state;
        let bytes = state.to_snapshot();
        let restored = ProducerState::from_snapshot(&bytes, state.end_offset()).unwrap();
        prop_assert_eq!(&restored.open, &state.open);
        prop_assert_eq!(restored.to_snapshot(), bytes);
        let last = |state: &ProducerState| -> Vec<_> {
            let entries = state.producers().map(|(id, entry)| (id, entry.last_sequence()));
            entries.collect()
        };
        prop_assert_eq!(last(&restored), last(state));
    }

    #[test]
    fn replaying_gives_the_state_that_appending_gave(
        lines in prop::collection::vec(line(), 0..40),
    ) {
        let mut appended = Script::default();
        let mut replayed = Script::default();
        for line in &lines {
            let before = appended.next_offset;
            appended.line(line);
            if appended.next_offset > before {
                replayed.line(&format!("replay {line}"));
            }
        }
        prop_assert_eq!(appended.state, replayed.state);
    }

    #[test]
    fn any_bytes_are_taken(
        count in 0u32..3,
        bytes in prop::collection::vec(any::<u8>(), 0..150),
    ) {
        fuzz_producer_snapshot(&bytes);
        let mut snapshot = vec![0, 1, 0, 0, 0, 0];
        snapshot.extend(count.to_be_bytes());
        snapshot.extend(bytes.iter().cycle().take(46 * count as usize));
        fuzz_producer_snapshot(&snapshot);
    }
}
