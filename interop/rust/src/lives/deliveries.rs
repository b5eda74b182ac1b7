//! The life of a producer whose records expire: its connection breaks and stalls for longer than
//! `delivery.timeout.ms`, and its callbacks send to a topic of dead letters.
//!
//! What is checked: it is known of each record in time what became of it, each callback is called once and
//! may call the producer, what is acknowledged is there once, where it was said to be, nothing is there
//! twice, and every call ends.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use interpreter::Random;
use model::TopicPartition;
use riverrun_client::Error;
use riverrun_client::producer::{Producer, ProducerRecord, RecordMetadata};

use super::relay::Relay;
use super::{Patience, SLACK, below_ms, ensure_invalid, for_each_seed, now, relayed};
use crate::campaign::reading;
use crate::lab::{CLOSE, Lab};

const ROUNDS: usize = 12;
const DELIVERY_TIMEOUT: Duration = Duration::from_millis(1_500);
/// What a producer may take to end in a hurry.
const HURRY: Duration = Duration::from_millis(500);

pub(super) async fn live(lab: Lab) -> Result<()> {
    for_each_seed(4_000..4_006, |seed| {
        let lab = Lab {
            name: lab.named(&seed.to_string()),
            ..lab.clone()
        };
        async move { Life::new(lab, seed).await?.live().await }
    })
    .await
}

/// What callbacks have been told.
#[derive(Debug, Default)]
struct Told {
    /// The value at each offset of the topic that was acknowledged.
    acknowledged: Mutex<BTreeMap<i64, String>>,
    called: AtomicUsize,
    /// Callbacks whose own calls did not do what they should.
    wrong: AtomicUsize,
}

struct Life {
    lab: Lab,
    random: Random,
    topic: String,
    dead: String,
    producer: Producer,
    relay: Arc<Relay>,
    told: Arc<Told>,
    given: usize,
    next_value: u64,
}

impl Life {
    async fn new(lab: Lab, seed: u64) -> Result<Self> {
        let mut random = Random::new(seed);
        let (relayed, relay) = relayed(&lab, random.bits()).await?;
        relay.set_fault_percent((seed % 3 * 5) as usize);
        let timeout = DELIVERY_TIMEOUT.as_millis().to_string();
        let producer = relayed.producer(&[
            ("linger.ms", "5"),
            ("batch.size", "100"),
            ("request.timeout.ms", "700"),
            ("delivery.timeout.ms", &timeout),
            ("max.block.ms", "1000"),
            ("retry.backoff.ms", "20"),
            ("retry.backoff.max.ms", "100"),
            ("reconnect.backoff.max.ms", "100"),
        ])?;
        let (topic, dead) = (lab.topic("t", 1, &[]).await?, lab.topic("d", 1, &[]).await?);
        Ok(Self {
            lab,
            random,
            topic,
            dead,
            producer,
            relay,
            told: Arc::default(),
            given: 0,
            next_value: 0,
        })
    }

    async fn live(mut self) -> Result<()> {
        for _ in 0..ROUNDS {
            if self.random.chance(1, 3) {
                self.relay.stall();
            }
            for _ in 0..self.random.below(6) {
                self.send().await?;
            }
            if self.random.chance(1, 4) {
                self.relay.cut();
            }
            let pause = below_ms(&mut self.random, 1_000);
            tokio::time::sleep(pause).await;
            if self.random.chance(1, 3) {
                let patience = Patience::draw(&mut self.random);
                let flush = self.producer.flush();
                patience.bound("flush", DELIVERY_TIMEOUT, flush).await?;
            }
            self.relay.resume();
        }
        self.end().await?;
        self.check().await
    }

    async fn send(&mut self) -> Result<()> {
        let value = format!("{:06}", self.next_value);
        self.next_value += 1;
        let again = (self.producer.clone(), self.dead.clone());
        let (told, sent) = (self.told.clone(), value.clone());
        let callback = move |result| handle(&told, &again, sent, result);
        let record = ProducerRecord::new(&self.topic).value(value.as_bytes());
        let sent = self.producer.send_with(record, callback);
        let sent = tokio::time::timeout(DELIVERY_TIMEOUT + SLACK, sent).await;
        // The topic may be unknown while nothing gets through.
        if sent.context("a send does not end")?.is_ok() {
            self.given += 1;
        }
        Ok(())
    }

    /// In order or in a hurry.
    async fn end(&mut self) -> Result<()> {
        let is_hurried = self.random.chance(1, 2);
        if is_hurried {
            self.relay.stall();
            for _ in 0..4 {
                self.send().await?;
            }
        } else {
            self.relay.set_fault_percent(0);
        }
        let timeout = if is_hurried { HURRY } else { CLOSE };
        let closed = tokio::time::timeout(timeout + SLACK, self.producer.close(timeout)).await;
        let closed = closed.context("the producer does not end")?;
        ensure!(is_hurried || closed.is_ok(), "{closed:?}");
        let called = self.told.called.load(Ordering::Relaxed);
        ensure!(called == self.given, "{called} of {} callbacks", self.given);
        let wrong = self.told.wrong.load(Ordering::Relaxed);
        ensure!(wrong == 0, "{wrong} callbacks waited, or could not send");
        self.relay.resume();
        Ok(())
    }

    async fn check(&self) -> Result<()> {
        let mut found = BTreeMap::new();
        let place = TopicPartition::new(&self.topic, 0);
        reading::read(&self.lab, &place, 0, "read_uncommitted", |record| {
            let value = record.value.as_deref().context("no value")?;
            found.insert(record.offset, std::str::from_utf8(value)?.to_owned());
            Ok(())
        })
        .await?;
        let acknowledged = self.told.acknowledged();
        for (offset, value) in acknowledged.iter() {
            ensure!(
                found.get(offset) == Some(value),
                "{value} is not at {offset}"
            );
        }
        let values: Vec<&String> = found.values().collect();
        let is_once = values.is_sorted_by(|one, next| one < next);
        ensure!(is_once, "out of order or twice: {values:?}");
        Ok(())
    }
}

impl Told {
    fn acknowledged(&self) -> std::sync::MutexGuard<'_, BTreeMap<i64, String>> {
        self.acknowledged
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The callback of a record, which does all that a callback may.
fn handle(
    told: &Told,
    (producer, dead): &(Producer, String),
    value: String,
    result: Result<RecordMetadata, Error>,
) {
    let flushed = now(producer.flush());
    let refused = ensure_invalid("commit", now(producer.commit_transaction()));
    let letter = ProducerRecord::new(dead).value(value.as_bytes());
    let sent = producer.try_send(letter);
    // Without a connection the topic may be unknown yet; and the producer may be closed.
    let is_sent = matches!(sent, Ok(_) | Err(Error::Closed(_)));
    let is_right = flushed.is_some() && refused.is_ok() && is_sent;
    told.wrong
        .fetch_add(usize::from(!is_right), Ordering::Relaxed);
    if let Ok(written) = result
        && let Some(offset) = written.offset
    {
        told.acknowledged().insert(offset, value);
    }
    told.called.fetch_add(1, Ordering::Relaxed);
}
