//! Tests that count what a whole process allocates. Each is alone in a process: this program once more, with that
//! test and no other.

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;
use std::process::Command;

/// Counts for all threads.
#[global_allocator]
pub(crate) static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Set in the process of its own.
const IS_ALONE: &str = "RIVERRUN_TEST_IS_ALONE";

/// Runs `check` in a process where nothing else allocates; `test` is the path of the test that asks for it.
pub(crate) fn alone(test: &str, check: impl FnOnce()) {
    if std::env::var_os(IS_ALONE).is_some() {
        return check();
    }
    let program = std::env::current_exe().expect("this program has a path");
    let mut command = Command::new(program);
    command.args(["--exact", test, "--nocapture"]);
    let output = command.env(IS_ALONE, "1").output().expect("it starts");
    let shown = [&*output.stdout, &*output.stderr].map(String::from_utf8_lossy);
    assert!(output.status.success(), "{}", shown.concat());
    assert!(shown[0].contains("1 passed"), "there is no test `{test}`");
}
