//! The streams applications of `cargo xtask bench macro streams`, and what fills their topics.
//!
//! ```text
//!   fill          topics, and the records of an input or of a changelog   fill.rs, random.rs
//!   run           one application until it has taken all records          application.rs, workload.rs
//! ```
//!
//! `StreamsApplication` of `benches/java` is the same application on Kafka Streams, and says the same lines.

#![expect(
    clippy::print_stdout,
    reason = "lines tell the runner where the application is"
)]
#![expect(
    clippy::print_stderr,
    reason = "a command's failure goes to standard error"
)]

mod application;
mod fill;
mod random;
mod workload;

use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};

const USAGE: &str = "\
usage: streamsbench fill HOST:PORT words|windows|changelog TOPIC PARTITIONS RECORDS KEYS BYTES
       streamsbench topic HOST:PORT TOPIC PARTITIONS
       streamsbench run HOST:PORT words|windows|restore memory|persistent APPLICATION STATE_DIR WARM TOTAL";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("streamsbench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        [
            "fill",
            servers,
            kind,
            topic,
            partitions,
            records,
            keys,
            bytes,
        ] => fill::run(
            servers,
            topic,
            fill::Shape {
                kind: kind.parse()?,
                partition_count: number(partitions)?,
                record_count: number(records)?,
                key_count: number(keys)?,
                value_bytes: number(bytes)?,
            },
        ),
        ["topic", servers, topic, partitions] => {
            fill::create_topic(servers, topic, number(partitions)?)
        }
        [
            "run",
            servers,
            workload,
            store,
            application_id,
            state_dir,
            warm,
            total,
        ] => application::run(&application::Setup {
            servers,
            workload: workload.parse()?,
            is_persistent: match store {
                "persistent" => true,
                "memory" => false,
                _ => bail!("no store `{store}`"),
            },
            application_id,
            state_dir,
            warm_count: number(warm)?,
            total_count: number(total)?,
        }),
        _ => bail!("{USAGE}"),
    }
}

fn number<N: std::str::FromStr>(text: &str) -> Result<N>
where
    N::Err: std::error::Error + Send + Sync + 'static,
{
    text.parse()
        .with_context(|| format!("`{text}` is no number"))
}
