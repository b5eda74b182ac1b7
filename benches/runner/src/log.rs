//! `cargo xtask bench log`: what `benches/logbench` measures, then Kafka's cleaner (`LogCleaning` of
//! `benches/java`) on two logs of the same records, one after the other in a JVM of their own.

use std::process::Command;

use anyhow::Result;

use harness::java::{Annotations, Java};
use harness::process::{output_of, run_quietly};

/// Kinds of records, by the names that logbench gives them.
const SHAPES: [&str; 3] = ["1-KiB", "100-byte", "1-KiB-lz4"];
/// The heap and the collector that Kafka's start script gives a broker.
const FLAGS: [&str; 3] = ["-Xms1g", "-Xmx1g", "-XX:+UseG1GC"];

pub(super) fn run() -> Result<()> {
    let root = harness::workspace_root();
    let logbench = harness::build(root, "logbench", "release")?;
    let cache = harness::cache(root).join("bench");
    let java = Java::install(&root.join("benches/java"), &cache, Annotations::Process)?;
    let directory = root.join("target/bench/log");
    std::fs::create_dir_all(&directory)?;
    print!("{}", output_of(Command::new(&logbench).arg(&directory))?);
    for shape in SHAPES {
        let logs = [0, 1].map(|index| directory.join(format!("{shape}-{index}")));
        for log in &logs {
            run_quietly(Command::new(&logbench).args(["write", shape]).arg(log))?;
        }
        let mut command = Command::new("java");
        command.args(FLAGS).args(["-cp", java.class_path()]);
        let text = output_of(command.arg("riverrun.bench.LogCleaning").args(&logs))?;
        for (line, when) in text.lines().zip(["first", "second"]) {
            println!("{}", row(shape, when, line)?);
        }
        for log in &logs {
            std::fs::remove_dir_all(log)?;
        }
    }
    Ok(())
}

/// `DIRECTORY BYTES_BEFORE BYTES_AFTER CPU_NANOSECONDS WALL_NANOSECONDS`, as a row of the table.
fn row(shape: &str, when: &str, line: &str) -> Result<String> {
    let words = line.split(' ').skip(1);
    let numbers: Vec<f64> = words.map(str::parse).collect::<Result<_, _>>()?;
    let [before, after, cpu, wall] = numbers[..] else {
        anyhow::bail!("LogCleaning said `{line}`");
    };
    Ok(format!(
        "| Apache Kafka, {shape} records, {when} log of its JVM: CPU per GB, throughput, left | {:.2} s, {:.0} MB/s, \
         {:.2} GB |",
        cpu / before,
        before * 1e3 / wall,
        after / 1e9
    ))
}
