//! The time that a process has run for, as those know it who wait for others.
//!
//! ```text
//!   elapsed   0 ──── 5 ── stopped (SIGSTOP), frozen, starved ── 65 ──── 70
//!   running   0 ──── 5 ─ 7 .................................. 7 ────── 12
//! ```

use model::MonotonicTime;

/// A time that stands while the process does.
///
/// Who waits for a sign of life cannot hear one in that time, and whoever sent one is alive: the time
/// does not count. A pulse tells that the process runs; when none comes the time goes on for as long as
/// a pulse may take, and then stands until the next one. It never goes back.
#[derive(Debug, Default)]
pub(super) struct RunningTime {
    /// By how much it is behind the elapsed time.
    stood_ms: i64,
    /// When the last pulse came.
    pulse_ms: i64,
    /// How many tell of pulses. While nobody does, no pulse is missed.
    tellers: usize,
}

impl RunningTime {
    /// How often a pulse is to be told.
    pub(super) const PULSE_INTERVAL_MS: i64 = 1_000;
    /// How long after a pulse the process is believed to run: a busy machine may delay the next one.
    const PULSE_MAX_MS: i64 = 2_000;

    /// No pulse is expected yet.
    pub(super) const fn new() -> Self {
        Self {
            stood_ms: 0,
            pulse_ms: 0,
            tellers: 0,
        }
    }

    /// The time when this many milliseconds have elapsed.
    pub(super) fn at(&self, elapsed_ms: i64) -> MonotonicTime {
        let known_ms = match self.tellers {
            0 => elapsed_ms,
            _ => elapsed_ms.min(self.pulse_ms.saturating_add(Self::PULSE_MAX_MS)),
        };
        MonotonicTime::from_ms(known_ms.saturating_sub(self.stood_ms))
    }

    /// The process runs.
    pub(super) fn pulse(&mut self, elapsed_ms: i64) {
        let missed_ms = elapsed_ms - self.pulse_ms - Self::PULSE_MAX_MS;
        if self.tellers > 0 && missed_ms > 0 {
            self.stood_ms += missed_ms;
        }
        self.pulse_ms = self.pulse_ms.max(elapsed_ms);
    }

    /// One more is going to tell of pulses.
    pub(super) fn begin_pulses(&mut self, elapsed_ms: i64) {
        self.pulse(elapsed_ms);
        self.tellers += 1;
    }

    /// One of those who told of pulses does so no more.
    pub(super) fn end_pulses(&mut self, elapsed_ms: i64) {
        self.pulse(elapsed_ms);
        self.tellers = self.tellers.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coordinator::Decision;
    use coordinator::group::{ConsumerGroupHeartbeat, GroupConfig, GroupShard, RecordOrigin};
    use model::{Now, Offset, ProducerId};
    use proptest::prelude::*;

    #[test]
    fn time_stands_while_the_process_does() {
        let mut time = RunningTime::new();
        let at = |time: &RunningTime, elapsed_ms: i64| time.at(elapsed_ms).as_ms();
        assert_eq!(at(&time, 700_000), 700_000, "nobody tells of pulses");
        time.begin_pulses(700_000);
        for elapsed_ms in [701_000, 702_900, 704_000] {
            time.pulse(elapsed_ms);
            assert_eq!(at(&time, elapsed_ms), elapsed_ms);
        }
        // Stopped for a minute: whoever looks first sees no more of it than the pulse does.
        assert_eq!(at(&time, 764_000), 706_000);
        time.pulse(764_000);
        assert_eq!(at(&time, 764_000), 706_000);
        assert_eq!(at(&time, 765_000), 707_000);
        time.pulse(765_000);
        time.end_pulses(765_500);
        assert_eq!(at(&time, 865_500), 807_500, "nobody tells of pulses");
        time.begin_pulses(865_500);
        time.begin_pulses(865_500);
        time.end_pulses(866_000);
        assert_eq!(at(&time, 900_000), 810_000, "one still does");
    }

    /// Carries a decision out, as the log would.
    fn apply<R>(shard: &mut GroupShard, decision: Decision<R>) {
        for record in decision.records {
            let origin = RecordOrigin {
                offset: Offset(0),
                producer_id: ProducerId::NONE,
            };
            let value = record.value.as_deref();
            shard
                .replay(origin, &record.key, value)
                .expect("its own record");
        }
    }

    fn member_count(shard: &GroupShard) -> usize {
        let group = shard.describe_consumer_group("g");
        group.map_or(0, |group| group.members.len())
    }

    #[test]
    fn members_outlive_a_coordinator_that_was_stopped_for_longer_than_a_session() {
        let mut shard = GroupShard::new(GroupConfig::default());
        let mut time = RunningTime::new();
        let now = |time: &RunningTime, elapsed_ms: i64| Now {
            monotonic: time.at(elapsed_ms),
            wall_ms: elapsed_ms,
        };
        time.begin_pulses(0);
        shard.start(now(&time, 0));
        let join = ConsumerGroupHeartbeat {
            group_id: "g",
            member_id: "m",
            rebalance_timeout_ms: 300_000,
            subscribed_topic_names: Some(vec!["t"]),
            owned_partitions: Some(Vec::new()),
            ..ConsumerGroupHeartbeat::default()
        };
        let joined = shard.consumer_group_heartbeat(&join, now(&time, 0));
        apply(&mut shard, joined);
        // Twice as long as a session: the timer looks before any heartbeat is read.
        let mut elapsed_ms = 90_000;
        for _ in 0..2 {
            let expired = shard.expire(now(&time, elapsed_ms));
            apply(&mut shard, expired);
            assert_eq!(member_count(&shard), 1);
            time.pulse(elapsed_ms);
        }
        // It runs, and hears nothing.
        for _ in 0..45 {
            elapsed_ms += 1_000;
            time.pulse(elapsed_ms);
            let expired = shard.expire(now(&time, elapsed_ms));
            apply(&mut shard, expired);
        }
        assert_eq!(member_count(&shard), 0);
    }

    proptest! {
        #![proptest_config(trials::property(256))]

        /// Each step: how much later it is, and whether a pulse, a look, or another teller comes.
        #[test]
        fn it_never_goes_back_and_never_leaps(
            steps in proptest::collection::vec((0_i64..5_000, 0..8), 1..100),
        ) {
            let mut time = RunningTime::new();
            time.begin_pulses(0);
            let (mut elapsed_ms, mut last_ms, mut last_pulse_ms) = (0, 0, 0);
            for (later_ms, what) in steps {
                elapsed_ms += later_ms;
                match what {
                    0..4 => time.pulse(elapsed_ms),
                    4 => time.begin_pulses(elapsed_ms),
                    5 if time.tellers > 1 => time.end_pulses(elapsed_ms),
                    _ => {}
                }
                let now_ms = time.at(elapsed_ms).as_ms();
                prop_assert!(now_ms >= last_ms);
                let allowed_ms = RunningTime::PULSE_MAX_MS.min(elapsed_ms - last_pulse_ms);
                if time.pulse_ms == elapsed_ms {
                    prop_assert!(now_ms - last_ms <= allowed_ms);
                    last_pulse_ms = elapsed_ms;
                }
                last_ms = now_ms;
            }
        }
    }
}
