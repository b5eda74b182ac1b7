//! Sends records and waits for what becomes of them.
//!
//! ```text
//! cargo run -p riverrun-client --example producer -- localhost:9092 orders 1000
//! ```

use std::time::Duration;

use riverrun_client::producer::{Producer, ProducerConfig, ProducerRecord};

#[tokio::main]
#[expect(clippy::print_stdout, reason = "it is a program")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let servers = arguments.next().unwrap_or("localhost:9092".to_owned());
    let topic = arguments.next().unwrap_or("orders".to_owned());
    let count: u32 = arguments.next().unwrap_or("10".to_owned()).parse()?;

    let mut config = ProducerConfig::with_bootstrap_servers(&servers)?;
    config.set("compression.type", "lz4")?;
    let producer = Producer::new(config)?;

    let mut deliveries = Vec::new();
    for number in 0..count {
        let key = (number % 10).to_string();
        let value = format!("order {number}");
        let record = ProducerRecord::new(&topic)
            .key(key.as_bytes())
            .value(value.as_bytes());
        deliveries.push(producer.send(record).await?);
    }
    for delivery in deliveries {
        let written = delivery.await?;
        if let Some(offset) = written.offset.filter(|offset| offset % 100 == 0) {
            println!("{}-{} offset {offset}", written.topic, written.partition);
        }
    }
    producer.close(Duration::from_secs(10)).await?;
    println!("{count} records are written");
    Ok(())
}
