//! An application that copies lines and counts their words, exactly once.

use std::io::Read as _;
use std::path::Path;

use anyhow::Result;
use riverrun_streams::dsl::{Materialized, StreamsBuilder};
use riverrun_streams::runtime::{KafkaStreams, ProcessingGuarantee, StreamsConfig};

/// How long a member may be silent before another one has its tasks.
const SESSION_TIMEOUT_MS: u64 = 3_000;
/// How long one of a member that is gone may stay open.
const TRANSACTION_TIMEOUT_MS: u64 = 4_000;

/// Runs an instance until the end of standard input, or until it fails.
pub(crate) fn run(servers: &str, state_dir: &str) -> Result<()> {
    let builder = StreamsBuilder::new();
    let lines = builder.stream::<Option<String>, String>("lines");
    lines.to("copies");
    lines
        .flat_map_values(|line| line.split(' ').map(str::to_owned).collect::<Vec<_>>())
        .group_by(|_, word| word.clone())
        .count_with(Materialized::named("counts"))
        .to_stream()
        .to("counts");
    let mut config = StreamsConfig::new("exactly-once", servers)?;
    config.processing_guarantee = ProcessingGuarantee::ExactlyOnceV2;
    config.state_dir = Path::new(state_dir).to_owned();
    config.session_timeout_ms = SESSION_TIMEOUT_MS;
    config.heartbeat_interval_ms = SESSION_TIMEOUT_MS / 10;
    config.transaction_timeout_ms = TRANSACTION_TIMEOUT_MS;
    // Every count is written.
    config.statestore_cache_max_bytes = 0;
    let streams = KafkaStreams::new(builder.build()?, config);
    streams.start()?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    streams.close()?;
    Ok(())
}
