//! A test that needs a process of its own, in a program that has other tests.

use std::process::Command;

/// Set in the process of its own.
const IS_ALONE: &str = "RIVERRUN_TEST_IS_ALONE";

/// Runs `check` in a process where no other test runs: this program once more, with `test` alone. Tests
/// that count what a whole process allocates need that; `test` is the path of the test that asks for it.
///
/// # Panics
/// When the check fails there, or no test has that path.
pub fn alone(test: &str, check: impl FnOnce()) {
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
