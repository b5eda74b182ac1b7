//! The commands that README prints, in order, against a new server.

use crate::process::{BINARY, Process};
use std::path::Path;
use std::process::{Command, Stdio};

/// The lines of README's block of commands.
fn commands() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let readme = std::fs::read_to_string(path).unwrap();
    let lines = readme.lines();
    let block = lines
        .skip_while(|line| !line.starts_with("The same binary talks to clusters"))
        .take_while(|line| !line.starts_with("Each command prints tables"));
    let commands = block.filter_map(|line| line.strip_prefix("    "));
    commands.map(str::to_owned).collect()
}

#[test]
fn what_readme_prints_works_in_its_order() {
    let directory = trials::directory();
    let process = Process::start(&directory.path().join("riverrun-data"), &[]);
    let folder = Path::new(BINARY).parent().unwrap().display().to_string();
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap());
    let commands = commands();
    assert!(commands.len() > 10, "{commands:?}");
    for command in commands {
        // As many records as a measurement needs are too many for a test.
        let command = command.replace("-n 1000000", "-n 1000");
        let mut shell = Command::new("bash");
        shell.args(["-o", "pipefail", "-c", &command]);
        shell.current_dir(directory.path()).env("PATH", &path);
        shell.env("RIVERRUN_BROKERS", process.address().to_string());
        let output = shell.stdin(Stdio::null()).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}\n{error}");
    }
    process.stop();
}
