//! Random scripts: whatever fails, every request is answered once, in order, and never too early.

use super::*;
use model::Offset;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// What is known of a request that is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    /// For the high watermark to reach this.
    Until(i64),
    /// For somebody else.
    Parked,
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..=5usize).prop_map(Step::Write),
        3 => (0..=5usize).prop_map(Step::WriteSplit),
        3 => Just(Step::Release),
        4 => Just(Step::Park),
        4 => Just(Step::Read),
        3 => Just(Step::WriteAtOnce),
        2 => Just(Step::ReleaseAtOnce),
        2 => Just(Step::ParkAtOnce),
        1 => Just(Step::HasOneReplica),
        2 => Just(Step::WriteInTransaction),
        2 => Just(Step::End),
        6 => (0..4i64).prop_map(Step::Advance),
        2 => (0..3usize).prop_map(Step::Takes),
        2 => Just(Step::TakesAll),
        1 => Just(Step::LogFails),
        1 => Just(Step::Load),
        1 => Just(Step::Unload),
    ]
}

fn asks(step: Step) -> bool {
    matches!(
        step,
        Step::Write(_)
            | Step::WriteSplit(_)
            | Step::Release
            | Step::Park
            | Step::Read
            | Step::WriteAtOnce
            | Step::ReleaseAtOnce
            | Step::ParkAtOnce
            | Step::WriteInTransaction
            | Step::End
    )
}

fn check_random(script: &[Step]) {
    let mut hosted = Hosted::new(Memory::default());
    act(&mut hosted, usize::MAX, Step::Load);
    let mut waiting: BTreeMap<usize, Waits> = BTreeMap::new();
    let mut replayed = 0;
    for (request, step) in script.iter().enumerate() {
        let is_active = hosted.shard().is_ok();
        let parked_before = hosted.parked.clone();
        let at_once = act(&mut hosted, request, *step);
        let end_offset = hosted.log.end_offset;
        if at_once.is_some() {
            // Who has no state yet is refused without one.
            assert!(!is_active || end_offset <= hosted.log.high_watermark);
        } else if asks(*step) {
            let is_parked = hosted.parked.values().any(|parked| parked.0 == request);
            let waits = match is_parked {
                true => Waits::Parked,
                false => Waits::Until(if is_active { end_offset.0 } else { 0 }),
            };
            waiting.insert(request, waits);
        }
        // Who was parked and is no more has an answer that was made now.
        for parked in parked_before.values() {
            if !hosted.parked.values().any(|one| one.0 == parked.0) {
                waiting.insert(parked.0, Waits::Until(end_offset.0));
            }
        }
        let gives_back = matches!(step, Step::LogFails | Step::Unload);
        let mut last_until = i64::MIN;
        for (to, outcome) in answers(&mut hosted) {
            let waits = waiting.remove(&to);
            let Some(Waits::Until(until)) = waits else {
                panic!("{to} is answered though {waits:?}");
            };
            let is_seen = until <= hosted.log.high_watermark.0;
            assert!(is_seen || gives_back, "{to} leaves before {until}");
            // What a crash takes back is told to nobody, but for those who were parked: they are sent away.
            assert!(is_seen || outcome.is_err() || outcome == Ok(0), "{to}");
            assert!(until >= last_until, "{to} leaves out of order");
            last_until = until;
        }
        // Whoever may leave has left.
        let high_watermark = hosted.log.high_watermark;
        for (request, waits) in &waiting {
            let may_leave = matches!(waits, Waits::Until(until) if *until <= high_watermark.0);
            assert!(!may_leave, "{request} is held: {waits:?}");
        }
        if let Ok(shard) = hosted.shard() {
            // What was appended was replayed, and nothing else.
            replayed = shard.texts.len() as i64 - 1;
            assert_eq!(Offset(replayed), end_offset);
        } else {
            assert!(end_offset >= Offset(replayed));
            assert!(waiting.is_empty(), "{waiting:?}");
        }
    }
    hosted.unload();
    for (to, _) in answers(&mut hosted) {
        assert!(waiting.remove(&to).is_some(), "{to} is answered twice");
    }
    assert!(waiting.is_empty(), "{waiting:?}");
}

proptest! {
    #![proptest_config(trials::property(512))]

    #[test]
    fn every_request_is_answered_once_and_not_before_the_high_watermark(
        script in prop::collection::vec(steps(), 0..40),
    ) {
        check_random(&script);
    }
}
