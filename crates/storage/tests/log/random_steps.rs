//! Random lives of a log against a list of batches.

use crate::support::tested::{Step, Tested};
use proptest::prelude::*;
use storage::sim::Crash;

fn step() -> impl Strategy<Value = Step> {
    let producer = 0usize..3;
    prop_oneof![
        8 => (1usize..5, 0i64..50, 0usize..150).prop_map(|(count, timestamp_ms, padding)| {
            Step::Append { count, timestamp_ms, padding }
        }),
        2 => (producer.clone(), 1usize..4)
            .prop_map(|(producer, count)| Step::AppendIdempotent { producer, count }),
        2 => (producer.clone(), 1usize..4)
            .prop_map(|(producer, count)| Step::AppendTransactional { producer, count }),
        2 => (producer, any::<bool>())
            .prop_map(|(producer, is_abort)| Step::EndTransaction { producer, is_abort }),
        1 => (0i64..5, 1usize..4).prop_map(|(gap, count)| Step::Replicate { gap, count }),
        1 => Just(Step::Roll),
        2 => Just(Step::Flush),
        1 => Just(Step::NextEpoch),
        1 => (0i64..100).prop_map(|percent| Step::Truncate { percent }),
        1 => (0i64..100).prop_map(|percent| Step::AdvanceStart { percent }),
        1 => (0i64..4000).prop_map(|retention_bytes| Step::DeleteOld { retention_bytes }),
        1 => (-5i64..5).prop_map(|ahead| Step::RestartAt { ahead }),
        1 => Just(Step::CloseIdleFiles),
        1 => Just(Step::CloseAndOpen),
        2 => any::<u64>().prop_map(|seed| Step::Crash { crash: Crash::Random(seed) }),
        1 => Just(Step::Crash { crash: Crash::LosesUnsynced }),
        1 => Just(Step::Crash { crash: Crash::KeepsAll }),
    ]
}

proptest! {
    #![proptest_config(trials::property(100))]

    #[test]
    fn a_log_does_what_a_list_does(steps in prop::collection::vec(step(), 1..60)) {
        let mut tested = Tested::new();
        for step in &steps {
            tested.step(step).unwrap();
            tested.check();
        }
    }

    #[test]
    fn a_log_survives_a_stop_in_any_step(
        steps in prop::collection::vec(step(), 1..40),
        stop_after in 1u64..120,
        seed in any::<u64>(),
    ) {
        let mut tested = Tested::new();
        tested.disk.stop_at(Some(tested.disk.change_count() + stop_after));
        for step in &steps {
            if tested.step(step).is_err() {
                tested.crash(Crash::Random(seed));
            }
            tested.check();
        }
    }
}
