//! Suite `cross`: each client writes one set of records, and every client reads what every other
//! wrote. `interop/README.md` defines the records and the sum that tells them apart.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::run::Run;

const SUITE: &str = "cross";

/// The clients, by the names of their suites.
const CLIENTS: [&str; 5] = ["java", "confluent", "kafka-python", "go", "riverrun"];

/// The names of the scenarios.
pub(crate) fn list() -> Vec<String> {
    let writes = CLIENTS.iter().map(|writer| format!("{writer}-writes"));
    let reads = CLIENTS.iter().flat_map(|writer| {
        CLIENTS
            .iter()
            .map(move |reader| format!("{writer}-read-by-{reader}"))
    });
    writes.chain(reads).collect()
}

/// Runs what is asked for; a read needs its write.
pub(crate) fn run(run: &mut Run) -> Result<()> {
    let server = run.start(SUITE, &[])?;
    let bootstrap = server.bootstrap();
    let mut written: BTreeMap<&str, String> = BTreeMap::new();
    for writer in CLIENTS {
        let reads: Vec<_> = CLIENTS
            .iter()
            .map(|reader| (reader, format!("{writer}-read-by-{reader}")))
            .collect();
        let writes = format!("{writer}-writes");
        if !run.options.selects(SUITE, &writes)
            && !reads
                .iter()
                .any(|(_, read)| run.options.selects(SUITE, read))
        {
            continue;
        }
        run.scenario_always(SUITE, &writes, |run| {
            let topics = cross(run, writer, "write", &bootstrap, writer)?;
            if let Some(other) = written.values().next() {
                ensure!(
                    sums(&topics) == sums(other),
                    "another:\n{other}\nwritten:\n{topics}"
                );
            }
            written.insert(writer, topics);
            Ok(())
        });
        for (reader, read) in reads {
            run.scenario(SUITE, &read, |run| {
                let expected = written.get(writer).context("nothing was written")?;
                let topics = cross(run, reader, "read", &bootstrap, writer)?;
                ensure!(*expected == topics, "written:\n{expected}\nread:\n{topics}");
                Ok(())
            });
        }
    }
    run.stop_and_read(SUITE, server)
}

/// Has a client write the records as `writer`, or read those of `writer`.
fn cross(
    run: &mut Run,
    client: &str,
    action: &str,
    bootstrap: &str,
    writer: &str,
) -> Result<String> {
    let mut command = match client {
        "java" => run.java()?.command("riverrun.interop.Cross"),
        "confluent" => with_cross(run.python()?.command("confluent.py")),
        "kafka-python" => with_cross(run.python()?.command("kafka_python.py")),
        "riverrun" => with_cross(run.built("interop-client")?),
        _ => with_cross(run.go()?.command()),
    };
    run.output(SUITE, command.args([action, bootstrap, writer]))
}

/// The counts and sums without the topics' names, which differ by writer.
fn sums(topics: &str) -> Vec<Option<&str>> {
    topics
        .lines()
        .map(|line| line.split_once(' ').map(|(_, sum)| sum))
        .collect()
}

fn with_cross(mut command: Command) -> Command {
    command.arg("cross");
    command
}
