//! An application that sends records in transactions, one after another: it asks again where it may, aborts
//! what failed, and begins another client when its own can go on no more.

use crate::producer::{producer_of, record_of, tell_delivery};
use crate::report::{Command, Mistake, Offset, Report, Sent, Settings, TransactionEnd};
use crate::reporter::Reporter;
use riverrun_client::consumer::{CommittedOffset, GroupMetadata, Offsets};
use riverrun_client::producer::Producer;
use riverrun_client::{Error, TopicPartition};
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;

/// Between two calls of which the first one has failed.
const PAUSE: Duration = Duration::from_millis(50);

/// What is left of a client after a call.
enum Left {
    /// All.
    Open,
    /// The transaction has to be aborted.
    Failed(String),
    /// Nothing: another client takes its place.
    Nothing(String),
}

pub(crate) async fn live(
    reporter: Reporter,
    settings: Settings,
    mut commands: UnboundedReceiver<Command>,
) {
    let mut life = 0;
    let mut producer = None;
    while let Some(command) = commands.recv().await {
        match command {
            Command::Transaction {
                number,
                records,
                offset,
                is_commit,
            } => {
                let current = match producer.take() {
                    Some(current) => current,
                    None => begin(&settings, &reporter, &mut life).await,
                };
                let mut transaction = Transaction {
                    reporter: reporter.clone(),
                    producer: current.clone(),
                    has_asked_for_commit: false,
                };
                let ran = transaction.run(records, offset, is_commit).await;
                let is_unknown = transaction.has_asked_for_commit;
                let (end, reason) = match ran {
                    Ok((end, reason)) => {
                        producer = Some(current);
                        (end, reason)
                    }
                    Err(reason) => {
                        drop(current);
                        // Whoever takes the id next ends what is open.
                        producer = Some(begin(&settings, &reporter, &mut life).await);
                        let end = match is_unknown {
                            true => TransactionEnd::Unknown,
                            false => TransactionEnd::Aborted,
                        };
                        (end, reason)
                    }
                };
                let believes = settings.mistake == Some(Mistake::BelievesCommits);
                let end = match believes && is_unknown {
                    true => TransactionEnd::Committed,
                    false => end,
                };
                reporter.report(Report::Ended {
                    number,
                    end,
                    reason,
                });
            }
            Command::Pause { ms } => tokio::time::sleep(Duration::from_millis(ms)).await,
            Command::Restart { close_ms } => {
                let left: Option<Producer> = producer.take();
                if let (Some(ms), Some(left)) = (close_ms, left) {
                    let _ = left.close(Duration::from_millis(ms)).await;
                }
                producer = Some(begin(&settings, &reporter, &mut life).await);
            }
            Command::Send(_) => {}
        }
        reporter.report(Report::Done);
    }
}

/// Another client that is the one of its transactional id.
async fn begin(settings: &Settings, reporter: &Reporter, life: &mut u64) -> Producer {
    loop {
        *life += 1;
        let producer = match producer_of(settings, reporter, *life) {
            Ok(producer) => producer,
            Err(error) => {
                let reason = error.to_string();
                reporter.report(Report::Broken { reason });
                std::future::pending().await
            }
        };
        loop {
            match producer.init_transactions().await {
                Ok(()) => return producer,
                Err(error) => {
                    let is_over = is_over(&error);
                    let reason = error.to_string();
                    reporter.report(Report::Failed { reason });
                    tokio::time::sleep(PAUSE).await;
                    if is_over {
                        break;
                    }
                }
            }
        }
    }
}

/// Whether the client can only be closed.
const fn is_over(error: &Error) -> bool {
    matches!(error, Error::ProducerFailed(_) | Error::Closed(_))
}

/// A call about the transaction.
enum Call {
    SendOffsets(Offsets, GroupMetadata),
    Commit,
    Abort,
}

struct Transaction {
    reporter: Reporter,
    producer: Producer,
    has_asked_for_commit: bool,
}

impl Transaction {
    /// Runs it to its end; an error ends the client.
    async fn run(
        &mut self,
        records: Vec<Sent>,
        offset: Option<Offset>,
        is_commit: bool,
    ) -> Result<(TransactionEnd, String), String> {
        if let Err(error) = self.producer.begin_transaction() {
            return Err(error.to_string());
        }
        let mut left = Left::Open;
        for sent in records {
            let (told, record) = (self.reporter.clone(), sent.clone());
            let taken = self.producer.send_with(record_of(&sent), move |result| {
                tell_delivery(&told, record, result);
            });
            if let Err(error) = taken.await {
                left = after(&error, true);
                tell_delivery(&self.reporter, sent, Err(error));
                break;
            }
        }
        if let (Left::Open, Some(offset)) = (&left, offset) {
            left = self.send_offset(offset).await;
        }
        if let (Left::Open, true) = (&left, is_commit) {
            self.has_asked_for_commit = true;
            left = self.insist(Call::Commit).await;
            if let Left::Open = left {
                return Ok((TransactionEnd::Committed, String::new()));
            }
        }
        let reason = match left {
            Left::Nothing(reason) => return Err(reason),
            Left::Failed(reason) => reason,
            Left::Open => String::new(),
        };
        match self.insist(Call::Abort).await {
            Left::Open => Ok((TransactionEnd::Aborted, reason)),
            Left::Failed(reason) | Left::Nothing(reason) => Err(reason),
        }
    }

    async fn send_offset(&self, offset: Offset) -> Left {
        let place = TopicPartition::new(&*offset.topic, offset.partition);
        let offsets = Offsets::from([(place, CommittedOffset::new(offset.offset))]);
        let group = GroupMetadata::of_group(offset.group);
        self.insist(Call::SendOffsets(offsets, group)).await
    }

    /// Calls until there is an answer.
    async fn insist(&self, call: Call) -> Left {
        loop {
            let one = &self.producer;
            let called = match &call {
                Call::SendOffsets(offsets, group) => {
                    one.send_offsets_to_transaction(offsets.clone(), group)
                        .await
                }
                Call::Commit => one.commit_transaction().await,
                Call::Abort => one.abort_transaction().await,
            };
            let Err(error) = called else {
                return Left::Open;
            };
            let left = after(&error, false);
            if !matches!(left, Left::Open) {
                return left;
            }
            let reason = error.to_string();
            self.reporter.report(Report::Failed { reason });
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// What an error leaves of a client; a record that is not taken leaves no whole transaction.
fn after(error: &Error, is_of_record: bool) -> Left {
    match error {
        error if is_over(error) => Left::Nothing(error.to_string()),
        Error::TimedOut { .. } | Error::Unreachable { .. } if !is_of_record => Left::Open,
        Error::TransactionFailed(_) => Left::Failed(error.to_string()),
        error if is_of_record => Left::Failed(error.to_string()),
        error => Left::Nothing(error.to_string()),
    }
}
