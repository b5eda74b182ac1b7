//! That there is no file descriptor left is told once a minute for each thing that is put off or
//! refused, however often it is; and whether it lasts. Whoever needs one waits a while for others to be closed.

use crate::logs::Logs;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use storage::OpenError;

/// How long nothing more is said of the same thing; and what has not happened for so long is over.
const INTERVAL: Duration = Duration::from_secs(60);

/// So many files are closed when there is no file descriptor left.
const RELEASED_FILES: usize = 64;
/// How often opening a log is tried while there is no file descriptor left.
const OPEN_ATTEMPTS: usize = 20;
/// The pause between two of them.
const OPEN_PAUSE: Duration = Duration::from_millis(200);

/// What has been met so far.
#[derive(Debug, Default)]
pub(crate) struct FileShortage(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// From the first to the last time, without an interval between two.
    span: Option<(Instant, Instant)>,
    told: BTreeMap<&'static str, Reported>,
}

#[derive(Debug)]
struct Reported {
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
                let told = Reported {
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

/// Closes files that nobody uses, for somebody who needs one.
pub(crate) fn release_files(logs: &Logs) {
    logs.host.open_files().release(RELEASED_FILES);
}

/// Opens a log again while there is no file descriptor left: others close theirs meanwhile.
pub(crate) fn open_with_patience<T>(
    logs: &Logs,
    open: impl Fn() -> Result<T, OpenError>,
) -> Result<T, OpenError> {
    for _ in 0..OPEN_ATTEMPTS {
        match open() {
            Err(OpenError::Storage(error)) if error.is_out_of_files() => {
                tracing::warn!(%error, "waits for other files to be closed");
            }
            result => return result,
        }
        // Files stay open for those who use them between two calls.
        release_files(logs);
        std::thread::sleep(OPEN_PAUSE);
    }
    open()
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
