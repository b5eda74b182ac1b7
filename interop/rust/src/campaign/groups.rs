//! Members of a group that read the numbers, commit, and leave or are gone: offsets never go back,
//! and each member goes on where the group has committed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Result, ensure};
use interpreter::Random;
use riverrun_client::consumer::{Consumer, Offsets};

use super::numbers::{PARTITIONS, TOPIC, places};
use super::{Control, patient, reading};
use crate::lab::{CLOSE, Lab, POLL};

/// Members of each group.
pub(super) const MEMBERS: usize = 2;

#[derive(Debug)]
pub(super) struct Group {
    lab: Lab,
    protocol: &'static str,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The largest offset of each partition that was acknowledged, and that was tried.
    acknowledged: [i64; PARTITIONS],
    attempted: [i64; PARTITIONS],
    /// What the last check found.
    seen: [i64; PARTITIONS],
    commits: u64,
}

/// The settings of a member of either protocol.
pub(super) fn member_settings(protocol: &'static str) -> Vec<(&'static str, &'static str)> {
    let mut settings = patient(&[
        ("group.protocol", protocol),
        ("enable.auto.commit", "false"),
    ]);
    if protocol == "classic" {
        settings.push(("session.timeout.ms", "3000"));
    }
    settings
}

impl Group {
    pub(super) fn new(bootstrap: &str, protocol: &'static str) -> Self {
        Self {
            lab: Lab::new(bootstrap, &format!("campaign-group-{protocol}")),
            protocol,
            state: Mutex::default(),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.lab.name
    }

    pub(super) fn commits(&self) -> u64 {
        self.state().commits
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One member after the other.
    pub(super) async fn work(self: Arc<Self>, control: Arc<Control>, seed: u64) -> Result<()> {
        let mut random = Random::new(seed);
        while !control.ends() {
            let mut settings = member_settings(self.protocol);
            settings.push(("max.poll.records", "200"));
            let mut consumer = self.lab.consumer(&settings)?;
            consumer.subscribe([TOPIC])?;
            let mut next = BTreeMap::new();
            for _ in 0..20 + random.below(150) {
                if control.ends() || !self.turn(&mut consumer, &mut next).await? {
                    break;
                }
            }
            // The others leave their group without a word.
            if control.ends() || random.chance(1, 2) {
                consumer.close(CLOSE).await?;
            }
        }
        Ok(())
    }

    /// One poll and its commit; tells whether the member can go on.
    async fn turn(&self, consumer: &mut Consumer, next: &mut BTreeMap<i32, i64>) -> Result<bool> {
        let polled = consumer.poll(POLL).await;
        let records = match polled.and_then(riverrun_client::consumer::Records::into_owned) {
            Ok(records) => records,
            Err(error) => {
                eprintln!("{}: {error}", self.name());
                return Ok(error.is_retriable());
            }
        };
        for record in &records {
            let partition = record.partition.partition;
            if next.insert(partition, record.offset + 1) != Some(record.offset) {
                self.check_start(partition, record.offset)?;
            }
        }
        if !records.is_empty() {
            self.commit(consumer).await;
        }
        Ok(true)
    }

    /// A member starts at what is committed: not before what was acknowledged, and not after what
    /// was tried.
    fn check_start(&self, partition: i32, offset: i64) -> Result<()> {
        let state = self.state();
        let (acknowledged, attempted) = (
            state.acknowledged[partition as usize],
            state.attempted[partition as usize],
        );
        ensure!(
            (acknowledged..=attempted).contains(&offset),
            "a member starts at {offset} of partition {partition}, where {acknowledged} to \
             {attempted} may be committed"
        );
        Ok(())
    }

    async fn commit(&self, consumer: &mut Consumer) {
        let offsets: Offsets = consumer.offsets();
        let note = |noted: &mut [i64; PARTITIONS]| {
            for (place, offset) in &offsets {
                let noted = &mut noted[place.partition as usize];
                *noted = offset.offset.max(*noted);
            }
        };
        note(&mut self.state().attempted);
        match consumer.commit_offsets(offsets.clone()).await {
            Ok(()) => {
                let mut state = self.state();
                note(&mut state.acknowledged);
                state.commits += 1;
            }
            Err(error) => eprintln!("{}: a commit: {error}", self.name()),
        }
    }

    pub(super) async fn check(&self) -> Result<()> {
        let (acknowledged, seen) = {
            let state = self.state();
            (state.acknowledged, state.seen)
        };
        let committed = reading::committed(&self.lab.admin()?, self.name(), &places()).await?;
        let attempted = self.state().attempted;
        for (index, &offset) in committed.iter().enumerate() {
            let least = acknowledged[index].max(seen[index]);
            ensure!(
                (least..=attempted[index]).contains(&offset),
                "{offset} of partition {index} is committed, where {least} to {} may be",
                attempted[index]
            );
            self.state().seen[index] = offset;
        }
        Ok(())
    }
}
