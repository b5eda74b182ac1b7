//! Transactions of which some are aborted, by a Java program of ours that tells of them as Kafka's
//! verifiable tools do (`interop/java/src/riverrun/interop/cluster/VerifiableTransactions.java`).

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::checker::{Fate, Sent};
use super::teller::{END_LIMIT, TICK, Teller};

/// The program; dropping it kills it.
#[derive(Debug)]
pub(crate) struct Transactor {
    teller: Teller,
    number: usize,
    sent: Vec<Sent>,
    committed: usize,
}

impl Transactor {
    /// Starts one whose values begin with its number.
    pub(crate) fn start(command: &mut Command, number: usize, log: PathBuf) -> Result<Self> {
        Ok(Self {
            teller: Teller::start("VerifiableTransactions", command, log)?,
            number,
            sent: Vec::new(),
            committed: 0,
        })
    }

    fn listen(&mut self, deadline: Instant) -> Result<()> {
        for event in self.teller.told(deadline)? {
            let transaction = event["number"].as_u64();
            let outcome = event["outcome"].as_str().context("an outcome")?;
            self.committed += usize::from(outcome == "committed");
            for (index, value) in event["values"].as_array().into_iter().flatten().enumerate() {
                self.sent.push(Sent {
                    producer: self.number,
                    value: value.as_str().context("a value is text")?.to_owned(),
                    transaction,
                    fate: match outcome {
                        "committed" => Fate::Acknowledged(Some(place(&event["places"][index])?)),
                        "aborted" => Fate::Aborted,
                        _ => Fate::Unknown,
                    },
                });
            }
        }
        Ok(())
    }

    /// Waits until so many more transactions are committed.
    pub(crate) fn await_more(&mut self, count: usize, limit: Duration) -> Result<()> {
        self.listen(Instant::now())?;
        let wanted = self.committed + count;
        let deadline = Instant::now() + limit;
        while self.committed < wanted {
            if self.teller.is_ended || Instant::now() >= deadline {
                let committed = self.committed;
                let what = format!("{committed} of {wanted} transactions in {limit:?}");
                bail!(self.teller.failure(&what));
            }
            self.listen(deadline.min(Instant::now() + TICK))?;
        }
        Ok(())
    }

    /// Ends it after the transaction that is under way, and returns what became of each value.
    pub(crate) fn stop(mut self) -> Result<Vec<Sent>> {
        self.teller.ask_to_end()?;
        let deadline = Instant::now() + END_LIMIT;
        while !self.teller.is_ended {
            if Instant::now() >= deadline {
                bail!(self.teller.failure("it does not end"));
            }
            self.listen(deadline.min(Instant::now() + TICK))?;
        }
        Ok(self.sent)
    }
}

fn place(place: &Value) -> Result<(i32, i64)> {
    let partition = place[0].as_i64().context("a partition")?;
    let offset = place[1].as_i64().context("an offset")?;
    Ok((i32::try_from(partition)?, offset))
}
