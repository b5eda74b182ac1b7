//! An instance of a word count, which shares its group with instances on Kafka Streams (`WordCount.java` of
//! `interop/streams`).
//!
//! `BOOTSTRAP STATE_DIR GUARANTEE PROTOCOL SERVER`. The line `running` of standard input is answered by `done` once it
//! runs, or by what keeps it from that, `where WORD` by `done`, the server of the instance that counts it, and those
//! that stand by. `shut-down-application` asks all instances to end; `ended` is answered once this one
//! has, which is the end then. It ends in order when standard input does.

use anyhow::{Context as _, Result, bail};
use riverrun_streams::StreamsError;
use riverrun_streams::dsl::{Materialized, StreamsBuilder};
use riverrun_streams::runtime::{
    GroupProtocol, KafkaStreams, ProcessingGuarantee, State, StreamsConfig,
};
use riverrun_streams::serde::DefaultSerde as _;
use std::collections::BTreeMap;
use std::time::Duration;

/// Runs the instance.
pub(super) fn run(mut arguments: impl Iterator<Item = String>) -> Result<()> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    let mut next = || arguments.next().context("an argument is missing");
    let builder = StreamsBuilder::new();
    builder
        .stream::<Option<String>, String>("lines")
        .flat_map_values(|line| line.split(' ').map(str::to_owned).collect::<Vec<_>>())
        .group_by(|_, word| word.clone())
        .count_with(Materialized::named("word-counts"))
        .to_stream()
        .to("counts");
    let mut config = StreamsConfig::new("word-count", &next()?)?;
    config.state_dir = next()?.into();
    config.processing_guarantee = match next()?.as_str() {
        "at_least_once" => ProcessingGuarantee::AtLeastOnce,
        "exactly_once_v2" => ProcessingGuarantee::ExactlyOnceV2,
        other => bail!("`{other}` is no guarantee"),
    };
    config.group_protocol = match next()?.as_str() {
        "classic" => GroupProtocol::Classic,
        "streams" => GroupProtocol::Streams,
        other => bail!("`{other}` is no protocol"),
    };
    let server = next()?;
    config.application_server = Some(server.parse()?);
    config.client_tags = BTreeMap::from([("server".to_owned(), server)]);
    config.num_standby_replicas = if config.group_protocol == GroupProtocol::Classic {
        1
    } else {
        0
    };
    config.commit_interval_ms = Some(100);
    config.linger_ms = 0;
    config.heartbeat_interval_ms = 500;
    config.session_timeout_ms = 6_000;
    let streams = KafkaStreams::new(builder.build()?, config);
    streams.start()?;
    for command in std::io::stdin().lines() {
        match command?.as_str() {
            "running" => {
                while streams.state() != State::Running && streams.errors().is_empty() {
                    std::thread::sleep(Duration::from_millis(20));
                }
                match streams.errors().first() {
                    Some(error) => println!("{}", error.replace('\n', "\t")),
                    None => println!("done"),
                }
            }
            "shut-down-application" => {
                streams.shut_down_application();
                println!("done");
            }
            // Who asked hears of it by way of the group, too.
            "ended" => return ended(&streams),
            other => match other.strip_prefix("where ") {
                Some(word) => println!("done {}", servers(&streams, word)?),
                None => println!("no command `{other}`"),
            },
        }
    }
    streams.close()?;
    Ok(())
}

/// Waits until a member has ended the instance.
fn ended(streams: &KafkaStreams) -> Result<()> {
    while !streams.state().has_completed_shutdown() {
        std::thread::sleep(Duration::from_millis(20));
    }
    match streams.close() {
        Err(StreamsError::Ended(why)) if matches!(*why, StreamsError::ShutdownRequested) => {
            println!("done");
            Ok(())
        }
        other => bail!("{:?}: {other:?}", streams.state()),
    }
}

/// The server of the instance that counts `word`, and those of the ones that stand by.
fn servers(streams: &KafkaStreams, word: &str) -> Result<String> {
    let word = word.to_owned();
    let found = streams.query_metadata_for_key("word-counts", &word, &*String::serde())?;
    let Some(found) = found else {
        return Ok("unknown".to_owned());
    };
    let active = found
        .active_host
        .map_or_else(|| "unknown".to_owned(), |host| host.to_string());
    let standby = found.standby_hosts.iter().map(|host| format!(" {host}"));
    Ok(active + &standby.collect::<String>())
}
