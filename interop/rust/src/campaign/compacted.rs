//! Transactions over the few keys of a compacted topic: each key has the value of the last committed
//! transaction that wrote it, or none if that one deleted it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use interpreter::Random;
use riverrun_client::Error;
use riverrun_client::producer::{Producer, ProducerRecord};
use tokio::sync::{Mutex, OwnedMutexGuard};

use super::{Control, Tally, reading};
use crate::lab::{CLOSE, Lab, partitions};

const PARTITIONS: i32 = 2;
const KEYS: usize = 40;
const KEYS_OF_TRANSACTION: usize = 6;
const PAUSE: Duration = Duration::from_millis(15);

#[derive(Debug)]
pub(super) struct Compacted {
    lab: Lab,
    /// Held while a transaction is open.
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    next: u64,
    /// What each key has; deleted keys are not in it.
    values: BTreeMap<usize, u64>,
    tally: Tally,
}

/// What a transaction writes: no value deletes.
type Writes = BTreeMap<usize, Option<u64>>;

impl Compacted {
    pub(super) fn new(bootstrap: &str) -> Self {
        Self {
            lab: Lab::new(bootstrap, "campaign-compacted"),
            state: Arc::default(),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.lab.name
    }

    /// No transaction is open while this is held.
    pub(super) async fn pause(&self) -> OwnedMutexGuard<State> {
        self.state.clone().lock_owned().await
    }

    pub(super) async fn tally(&self) -> Tally {
        self.state.lock().await.tally
    }

    pub(super) async fn create(&self) -> Result<()> {
        let configs = [
            ("cleanup.policy", "compact"),
            // Longer than a check reads, which would else miss a deletion.
            ("delete.retention.ms", "10000"),
        ];
        self.lab.topic("t", PARTITIONS, &configs).await?;
        Ok(())
    }

    /// One producer after the other.
    pub(super) async fn work(self: Arc<Self>, control: Arc<Control>, seed: u64) -> Result<()> {
        let mut random = Random::new(seed);
        let mut state = self.state.lock().await;
        loop {
            // What the last producer has left open ends here.
            let producer = reading::transactional(&self.lab).await?;
            for _ in 0..20 + random.below(100) {
                drop(state);
                if control.ends() {
                    return Ok(producer.close(CLOSE).await?);
                }
                tokio::time::sleep(PAUSE).await;
                state = self.state.lock().await;
                if !self.transact(&producer, &mut state, &mut random).await? {
                    break;
                }
            }
        }
    }

    /// One transaction; tells whether it has ended.
    async fn transact(
        &self,
        producer: &Producer,
        state: &mut State,
        random: &mut Random,
    ) -> Result<bool> {
        let number = state.next;
        state.next += 1;
        let writes: Writes = (0..KEYS_OF_TRANSACTION)
            .map(|_| (random.below(KEYS), (!random.chance(1, 8)).then_some(number)))
            .collect();
        producer.begin_transaction()?;
        let mut written = self.write(producer, &writes).await;
        match random.below(20) {
            0 => {
                state.tally.abandoned += 1;
                return Ok(false);
            }
            1..=4 => written = Err(Error::TransactionAborted),
            _ => {}
        }
        if written.is_ok() {
            written = reading::until_settled(|| producer.commit_transaction()).await;
        }
        match written {
            Ok(()) => {
                state.tally.committed += 1;
                for (key, value) in writes {
                    match value {
                        Some(value) => drop(state.values.insert(key, value)),
                        None => drop(state.values.remove(&key)),
                    }
                }
            }
            Err(error @ Error::ProducerFailed(_)) => return Err(error.into()),
            Err(_) => {
                reading::until_settled(|| producer.abort_transaction()).await?;
                state.tally.aborted += 1;
            }
        }
        Ok(true)
    }

    async fn write(&self, producer: &Producer, writes: &Writes) -> Result<(), Error> {
        let topic = self.lab.named("t");
        for (key, value) in writes {
            let text = key.to_string();
            let value = value.map(|value| format!("{value} {:0>60}", value));
            let record = ProducerRecord {
                value: value.as_ref().map(String::as_bytes),
                ..ProducerRecord::new(&topic)
                    .partition(*key as i32 % PARTITIONS)
                    .key(text.as_bytes())
            };
            drop(producer.send(record).await?);
        }
        Ok(())
    }

    /// Every key has its last committed value.
    pub(super) async fn check(&self) -> Result<()> {
        let state = self.state.lock().await;
        let places = partitions(&self.lab.named("t"), PARTITIONS);
        reading::await_settled(&self.lab.admin()?, &places).await?;
        let mut found: BTreeMap<usize, u64> = BTreeMap::new();
        for place in &places {
            let visit = |record: &riverrun_client::consumer::OwnedRecord| {
                let key = record.key.as_ref().context("a record without a key")?;
                let key: usize = std::str::from_utf8(key)?.parse()?;
                let Some(value) = &record.value else {
                    found.remove(&key);
                    return Ok(());
                };
                let text = std::str::from_utf8(value)?;
                let value = text.split(' ').next().unwrap_or_default().parse()?;
                let before = found.insert(key, value);
                ensure!(
                    before.is_none_or(|before| before < value),
                    "key {key} goes from {before:?} to {value}"
                );
                Ok(())
            };
            reading::read(&self.lab, place, 0, "read_committed", visit).await?;
        }
        let keys: BTreeSet<&usize> = found.keys().chain(state.values.keys()).collect();
        let wrong: Vec<_> = keys
            .into_iter()
            .filter(|key| found.get(key) != state.values.get(key))
            .map(|key| (key, found.get(key), state.values.get(key)))
            .collect();
        ensure!(wrong.is_empty(), "key, found, committed: {wrong:?}");
        Ok(())
    }
}
