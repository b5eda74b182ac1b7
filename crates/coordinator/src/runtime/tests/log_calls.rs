//! What a hosted partition asks of its log and when, and what it makes of a log that has moved on unseen.

use super::*;
use model::Offset;

/// Requests that write a text each to a log that takes batches with and without a flush that is due.
fn written(is_flush_due: &[bool]) -> Hosted {
    let mut hosted = Hosted::new(Memory::default());
    act(&mut hosted, 0, Step::Load);
    for (request, is_due) in (1..).zip(is_flush_due) {
        hosted.log.needs_no_flush = !is_due;
        act(&mut hosted, request, Step::Write(1));
    }
    hosted
}

#[test]
fn a_flush_is_due_once_for_all_batches_that_wait_for_it() {
    assert!(!written(&[]).poll_flush());
    assert!(!written(&[false, false]).poll_flush());
    for flushes in [[true, true], [false, true], [true, false]] {
        let mut hosted = written(&flushes);
        assert!(hosted.poll_flush(), "{flushes:?}");
        assert!(!hosted.poll_flush(), "{flushes:?}");
    }
}

#[test]
fn a_flush_that_has_failed_is_due_again() {
    let mut hosted = written(&[true]);
    assert!(hosted.poll_flush());
    hosted.flush_failed(ErrorCode::KafkaStorageError);
    assert_eq!(answers(&mut hosted), [(1, Err(ErrorCode::NotCoordinator))]);
    assert!(hosted.poll_flush());
    assert!(!hosted.poll_flush());
}

/// What makes a partition refuse who waits.
type Refuse = fn(&mut Hosted);

/// The high watermark may have moved before anybody tells.
#[test]
fn who_is_refused_is_only_who_still_has_to_wait() {
    let refusals: [(Refuse, ErrorCode); 3] = [
        (
            |hosted| hosted.log_failed(ErrorCode::KafkaStorageError),
            ErrorCode::NotCoordinator,
        ),
        (
            |hosted| hosted.waited_too_long(at(2).monotonic),
            ErrorCode::CoordinatorNotAvailable,
        ),
        (Hosted::unload, ErrorCode::NotCoordinator),
    ];
    for (refuse, error) in refusals {
        let mut hosted = written(&[true, true]);
        hosted.log.high_watermark = Offset(1);
        refuse(&mut hosted);
        assert_eq!(answers(&mut hosted), [(1, Ok(2)), (2, Err(error))]);
    }
}

/// A leader may be elected with records that are not known to be replicated.
#[test]
fn who_sees_what_was_loaded_waits_for_the_high_watermark_as_well() {
    let log = Memory {
        end_offset: Offset(5),
        high_watermark: Offset(4),
        ..Memory::default()
    };
    let mut hosted = Hosted::new(log);
    act(&mut hosted, 0, Step::Load);
    act(&mut hosted, 1, Step::Read);
    assert_eq!(answers(&mut hosted), []);
    assert_eq!(hosted.awaited_offset(), Some(Offset(5)));
    act(&mut hosted, 2, Step::Advance(0));
    assert_eq!(answers(&mut hosted), [(1, Ok(1))]);
}

#[test]
fn of_a_decision_that_was_split_the_state_is_given_back_what_the_log_has_not_taken() {
    let given_back = |step| {
        let mut hosted = Hosted::new(Memory::default());
        act(&mut hosted, 0, Step::Load);
        act(&mut hosted, 1, Step::Takes(1));
        act(&mut hosted, 2, step);
        act(&mut hosted, 3, Step::WriteAtOnce);
        let shard = hosted.shard().expect("it goes on");
        shard.given_back.join(" ")
    };
    assert_eq!(given_back(Step::WriteSplit(5)), "c d e q");
    assert_eq!(given_back(Step::Write(5)), "q");
}
