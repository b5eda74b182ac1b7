//! That there is no file descriptor left is told once a minute for each thing that is put off or
//! refused, however often it is; and whether it lasts.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long nothing more is said of the same thing; and what has not happened for so long is over.
const INTERVAL: Duration = Duration::from_secs(60);

/// What has been met so far.
#[derive(Debug, Default)]
pub(crate) struct FileShortage(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// From the first to the last time, without an interval between two.
    span: Option<(Instant, Instant)>,
    told: BTreeMap<&'static str, Told>,
}

#[derive(Debug)]
struct Told {
    at: Instant,
    unlogged_count: u64,
}

impl FileShortage {
    /// Notes that something could not be done. Returns whether it is to be told, then with how
    /// often it was not told since the last time.
    pub(crate) fn note(&self, what: &'static str, now: Instant) -> Option<u64> {
        let mut state = self.0.lock();
        let going_on = state.span.filter(|(_, last)| now < *last + INTERVAL);
        let first = going_on.map_or(now, |(first, _)| first);
        state.span = Some((first, now));
        match state.told.get_mut(what) {
            Some(told) if now < told.at + INTERVAL => {
                told.unlogged_count += 1;
                None
            }
            told => {
                let unlogged_count = told.map_or(0, |told| told.unlogged_count);
                let told = Told {
                    at: now,
                    unlogged_count: 0,
                };
                state.told.insert(what, told);
                Some(unlogged_count)
            }
        }
    }

    /// Whether it has gone on for an interval, and did until now.
    pub(crate) fn is_lasting(&self, now: Instant) -> bool {
        let span = self.0.lock().span;
        span.is_some_and(|(first, last)| now < last + INTERVAL && last >= first + INTERVAL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thing_is_told_once_a_minute_and_what_goes_on_is_lasting() {
        let shortage = FileShortage::default();
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        assert!(!shortage.is_lasting(at(0)));
        assert_eq!(shortage.note("a", at(0)), Some(0));
        assert_eq!(shortage.note("a", at(1)), None);
        assert_eq!(shortage.note("b", at(1)), Some(0));
        assert_eq!(shortage.note("a", at(59)), None);
        assert!(!shortage.is_lasting(at(59)));
        assert_eq!(shortage.note("a", at(60)), Some(2));
        assert!(shortage.is_lasting(at(61)));
        assert!(!shortage.is_lasting(at(120)), "it is over");
        assert_eq!(shortage.note("a", at(200)), Some(0));
        assert!(!shortage.is_lasting(at(201)), "it is new");
    }
}
