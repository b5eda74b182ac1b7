//! What tests share that know no server: seeds and case counts of random tests, from one place, directories for
//! what they write, and a process of its own for a test that needs one.
//!
//! ```text
//!   RIVERRUN_SEED ──┐
//!   RIVERRUN_CASES ─┴─> property(64)  ──> proptest's configuration
//!                       seeds(0..300) ──> the seeds of a simulation
//!                       seed(7)       ──> the one seed of a test that draws from a stream
//!   RIVERRUN_TRIALS <── the names of the tests that asked, for `cargo xtask hunt`
//!   TMPDIR, /dev/shm ──> directory()      a directory, in memory where there is room
//! ```
//!
//! Invariants:
//! - Without these variables a test tries the same cases everywhere.
//! - With `RIVERRUN_SEED` it tries others, and the same ones for the same number.
//! - A test that draws random numbers asks here, so that `cargo xtask hunt` knows it.

#![forbid(unsafe_code)]

mod alone;
mod directory;

pub use alone::alone;
pub use directory::{Directory, directory};

use std::fs::OpenOptions;
use std::io::Write as _;
use std::ops::Range;
use std::str::FromStr;
use std::thread;

use proptest::test_runner::{Config, RngSeed};

/// A number that moves every random test to other cases.
pub const SEED_VARIABLE: &str = "RIVERRUN_SEED";
/// How many times as many cases are tried, 1 unless it is set.
pub const CASES_VARIABLE: &str = "RIVERRUN_CASES";
/// A file that takes a line with the name of each test that draws random numbers.
pub const TRIALS_VARIABLE: &str = "RIVERRUN_TRIALS";

/// The seed of property tests when nobody asks for another one.
const DEFAULT_SEED: u64 = 20;

/// The configuration of a property test of `cases` cases.
///
/// # Panics
/// When a variable is set to something else than a number.
pub fn property(cases: u32) -> Config {
    note();
    let factor = u32::try_from(factor()).expect("RIVERRUN_CASES is not that large");
    Config {
        cases: cases.saturating_mul(factor),
        rng_seed: RngSeed::Fixed(number(SEED_VARIABLE).unwrap_or(DEFAULT_SEED)),
        failure_persistence: None,
        ..Config::default()
    }
}

/// The seeds of a simulation: these, or as many that `RIVERRUN_SEED` leads to.
///
/// # Panics
/// When a variable is set to something else than a number.
pub fn seeds(defaults: Range<u64>) -> Range<u64> {
    note();
    moved(&defaults, number(SEED_VARIABLE), factor())
}

/// The seed of a test that draws all its cases from one stream.
///
/// # Panics
/// When the variable is set to something else than a number.
pub fn seed(default: u64) -> u64 {
    seeds(default..default + 1).start
}

fn moved(defaults: &Range<u64>, seed: Option<u64>, factor: u64) -> Range<u64> {
    // Spread, so that neighbouring numbers do not try one another's seeds.
    let distance = seed.map_or(0, |seed| seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 8 << 4);
    let start = defaults.start.saturating_add(distance);
    let count = (defaults.end - defaults.start).saturating_mul(factor);
    start..start.saturating_add(count)
}

fn factor() -> u64 {
    number(CASES_VARIABLE).unwrap_or(1).max(1)
}

fn number<N: FromStr>(variable: &str) -> Option<N> {
    let text = std::env::var(variable).ok()?;
    match text.parse() {
        Ok(number) => Some(number),
        Err(_) => panic!("{variable} is a number, not `{text}`"),
    }
}

/// Notes the name of the running test, which is that of its thread.
fn note() {
    let Some(path) = std::env::var_os(TRIALS_VARIABLE) else {
        return;
    };
    let thread = thread::current();
    let Some(name) = thread.name() else {
        return;
    };
    let file = OpenOptions::new().append(true).create(true).open(&path);
    let written = file.and_then(|mut file| file.write_all(format!("{name}\n").as_bytes()));
    if let Err(error) = written {
        panic!("{} cannot be written: {error}", path.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_stay_as_they_are_unless_another_is_asked_for() {
        assert_eq!(moved(&(3..9), None, 1), 3..9);
        assert_eq!(moved(&(3..9), None, 10), 3..63);
        let one = moved(&(3..9), Some(1), 1);
        let other = moved(&(3..9), Some(2), 1);
        assert_eq!(one.end - one.start, 6);
        assert!(one.start > 9 && other.start > 9);
        assert!(
            one.end <= other.start || other.end <= one.start,
            "{one:?} {other:?}"
        );
    }
}
