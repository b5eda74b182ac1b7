//! An application that sends records and waits for none of them: the client has several batches under way.

use crate::client_config;
use crate::report::{Command, Mistake, Report, Sent, Settings};
use crate::reporter::Reporter;
use riverrun_client::Error;
use riverrun_client::producer::{Producer, ProducerConfig, ProducerRecord, RecordMetadata};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;

/// How long the mistake of [`Mistake::SendsAnew`] has patience.
const PATIENCE_MS: u64 = 600;

/// A producer of these settings, with more that the role asks for.
pub(crate) fn producer_of(
    settings: &Settings,
    reporter: &Reporter,
    life: u64,
) -> Result<Producer, Error> {
    let mut config = ProducerConfig {
        client: client_config(settings, reporter, life),
        ..ProducerConfig::default()
    };
    for (key, value) in &settings.pairs {
        config.set(key, value)?;
    }
    Producer::new(config)
}

/// A record as the client takes it.
pub(crate) fn record_of(sent: &Sent) -> ProducerRecord<'_> {
    ProducerRecord::new(sent.topic)
        .partition(sent.partition)
        .timestamp(sent.timestamp_ms)
        .key(sent.key.as_bytes())
        .value(sent.value.as_bytes())
}

/// What became of a record.
pub(crate) fn tell_delivery(
    reporter: &Reporter,
    sent: Sent,
    result: Result<RecordMetadata, Error>,
) {
    reporter.report(match result {
        Ok(written) if (&*written.topic, written.partition) != (sent.topic, sent.partition) => {
            let reason = format!("{sent:?} is said to be in {written:?}");
            Report::Broken { reason }
        }
        Ok(written) => Report::Acknowledged {
            sent,
            offset: written.offset,
        },
        Err(error) => Report::Refused {
            sent,
            reason: error.to_string(),
        },
    });
}

pub(crate) async fn live(
    reporter: Reporter,
    settings: Settings,
    mut commands: UnboundedReceiver<Command>,
) {
    for life in 0.. {
        let producer = match producer_of(&settings, &reporter, life) {
            Ok(producer) => producer,
            Err(error) => {
                let reason = error.to_string();
                return reporter.report(Report::Broken { reason });
            }
        };
        loop {
            match commands.recv().await {
                None => return,
                Some(Command::Send(records)) => {
                    for sent in records {
                        send(&producer, &reporter, &settings, life, sent).await;
                    }
                }
                Some(Command::Restart { close_ms }) => {
                    if let Some(ms) = close_ms {
                        // What it could not deliver in time was told by record.
                        let _ = producer.close(Duration::from_millis(ms)).await;
                    }
                    reporter.report(Report::Done);
                    break;
                }
                Some(Command::Pause { ms }) => {
                    tokio::time::sleep(Duration::from_millis(ms)).await;
                    reporter.report(Report::Done);
                }
                Some(Command::Transaction { .. }) => reporter.report(Report::Done),
            }
        }
    }
}

async fn send(
    producer: &Producer,
    reporter: &Reporter,
    settings: &Settings,
    life: u64,
    sent: Sent,
) {
    reporter.report(Report::Sending {
        life,
        sent: sent.clone(),
    });
    if settings.mistake == Some(Mistake::SendsAnew) {
        let (producer, reporter) = (producer.clone(), reporter.clone());
        tokio::spawn(async move { send_anew(&producer, &reporter, sent).await });
        return;
    }
    let (told, record) = (reporter.clone(), sent.clone());
    let taken = producer
        .send_with(record_of(&sent), move |result| {
            tell_delivery(&told, record, result);
        })
        .await;
    if let Err(error) = taken {
        tell_delivery(reporter, sent, Err(error));
    }
}

/// The mistake: whoever waits too long sends another record with the same value.
async fn send_anew(producer: &Producer, reporter: &Reporter, sent: Sent) {
    let patience = Duration::from_millis(PATIENCE_MS);
    loop {
        let delivery = match producer.send(record_of(&sent)).await {
            Ok(delivery) => delivery,
            Err(error) => return tell_delivery(reporter, sent, Err(error)),
        };
        if let Ok(result) = tokio::time::timeout(patience, delivery).await {
            return tell_delivery(reporter, sent, result);
        }
    }
}
