//! The producer against a whole server over real sockets, and against what is no server.

mod bad_input;
mod deliveries;
mod faults;
mod hostile;

use riverrun_client::producer::{Producer, ProducerConfig, ProducerRecord};
use std::net::SocketAddr;
use std::time::Duration;

/// How long a close may take in a test: far more than it needs.
const LIMIT: Duration = Duration::from_secs(30);

/// A producer of the server at `address`, with `keys` beside the defaults.
#[track_caller]
fn producer(address: SocketAddr, keys: &[(&str, &str)]) -> Producer {
    let address = address.to_string();
    let mut config = ProducerConfig::with_bootstrap_servers(&address).unwrap();
    for (key, value) in keys {
        config.set(key, value).unwrap();
    }
    Producer::new(config).unwrap()
}

/// Sends a value to partition 0 and waits for its offset.
async fn send(
    producer: &Producer,
    topic: &str,
    value: &str,
) -> Result<i64, riverrun_client::Error> {
    let record = ProducerRecord::new(topic)
        .partition(0)
        .value(value.as_bytes());
    let written = producer.send(record).await?.await?;
    Ok(written.offset.expect("the server tells offsets"))
}
