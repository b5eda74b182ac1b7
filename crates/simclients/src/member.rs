//! An application that is a member of a group: it polls, hands over what it reads, and commits that.

use crate::client_config;
use crate::report::{Command, Mistake, Offset, Report, Role, Settings};
use crate::reporter::Reporter;
use riverrun_client::consumer::{Consumer, ConsumerConfig, Offsets};
use riverrun_client::{Error, TopicPartition};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::mpsc::error::TryRecvError;

const POLL: Duration = Duration::from_millis(150);
/// Between two calls of which the first one has failed.
const PAUSE: Duration = Duration::from_millis(50);
/// One poll in so many is followed by a commit.
const POLLS_PER_COMMIT: u64 = 2;

/// What the application of a client knows.
struct Member<'a> {
    reporter: &'a Reporter,
    group: String,
    mistake: Option<Mistake>,
    consumer: Consumer,
    committed: BTreeMap<TopicPartition, i64>,
    assigned: Option<Vec<i32>>,
    polls: u64,
}

pub(crate) async fn live(
    reporter: Reporter,
    settings: Settings,
    mut commands: UnboundedReceiver<Command>,
) {
    for life in 0.. {
        let (consumer, group) = match consumer_of(&settings, &reporter, life) {
            Ok(made) => made,
            Err(error) => {
                let reason = error.to_string();
                return reporter.report(Report::Broken { reason });
            }
        };
        let mut member = Member {
            reporter: &reporter,
            group,
            mistake: settings.mistake,
            consumer,
            committed: BTreeMap::new(),
            assigned: None,
            polls: 0,
        };
        let close_ms = loop {
            match commands.try_recv() {
                Ok(Command::Restart { close_ms }) => break close_ms,
                Ok(Command::Pause { ms }) => {
                    tokio::time::sleep(Duration::from_millis(ms)).await;
                    reporter.report(Report::Done);
                }
                Ok(Command::Send(_) | Command::Transaction { .. }) => reporter.report(Report::Done),
                Err(TryRecvError::Empty) => member.poll().await,
                Err(TryRecvError::Disconnected) => return,
            }
        };
        reporter.report(Report::Assigned(None));
        if let Some(ms) = close_ms
            && let Err(error) = member.consumer.close(Duration::from_millis(ms)).await
        {
            let reason = error.to_string();
            reporter.report(Report::Failed { reason });
        }
        reporter.report(Report::Done);
    }
}

fn consumer_of(
    settings: &Settings,
    reporter: &Reporter,
    life: u64,
) -> Result<(Consumer, String), Error> {
    let mut config = ConsumerConfig {
        client: client_config(settings, reporter, life),
        ..ConsumerConfig::default()
    };
    for (key, value) in &settings.pairs {
        config.set(key, value)?;
    }
    let group = config.group_id.clone().unwrap_or_default();
    let mut consumer = Consumer::new(config)?;
    if let Role::Member { topic } = &settings.role {
        consumer.subscribe([*topic])?;
    }
    Ok((consumer, group))
}

impl Member<'_> {
    async fn poll(&mut self) {
        let polled = self.consumer.poll(POLL).await;
        self.tell_assignment();
        match polled {
            Ok(mut records) => {
                let is_mistaken = self.mistake == Some(Mistake::CommitsUnread);
                let reporter = self.reporter;
                let read = records.for_each(|record| {
                    // The mistake: a part of what is read is not handed over.
                    if is_mistaken && record.offset % 5 == 4 {
                        return;
                    }
                    let value = String::from_utf8_lossy(record.value.unwrap_or_default());
                    reporter.report(Report::Read {
                        topic: record.topic.to_owned(),
                        partition: record.partition,
                        offset: record.offset,
                        leader_epoch: record.leader_epoch,
                        value: value.into_owned(),
                    });
                });
                if let Err(error) = read {
                    self.fail(&error).await;
                }
            }
            Err(error) => self.fail(&error).await,
        }
        self.polls += 1;
        if self.polls.is_multiple_of(POLLS_PER_COMMIT) {
            self.commit().await;
            self.tell_assignment();
        }
    }

    async fn fail(&self, error: &Error) {
        let reason = error.to_string();
        self.reporter.report(match error {
            // Its tasks have ended, and nobody has ended them.
            Error::Closed(_) => Report::Broken { reason },
            _ => Report::Failed { reason },
        });
        tokio::time::sleep(PAUSE).await;
    }

    fn tell_assignment(&mut self) {
        let assigned = self.consumer.assignment();
        let assigned: Vec<i32> = assigned.iter().map(|one| one.partition).collect();
        if self.assigned.as_ref() != Some(&assigned) {
            self.reporter
                .report(Report::Assigned(Some(assigned.clone())));
            self.assigned = Some(assigned);
        }
    }

    /// Commits what has moved on.
    async fn commit(&mut self) {
        let mut offsets: Offsets = self.consumer.offsets();
        offsets
            .retain(|place, one| one.offset > 0 && self.committed.get(place) != Some(&one.offset));
        if offsets.is_empty() {
            return;
        }
        for (place, one) in &offsets {
            let offset = self.offset_of(place, one.offset);
            self.reporter.report(Report::Committing(offset));
        }
        match self.consumer.commit_offsets(offsets.clone()).await {
            Ok(()) => {
                for (place, one) in offsets {
                    let offset = self.offset_of(&place, one.offset);
                    self.reporter.report(Report::Committed(offset));
                    self.committed.insert(place, one.offset);
                }
            }
            Err(error) => self.fail(&error).await,
        }
    }

    fn offset_of(&self, place: &TopicPartition, offset: i64) -> Offset {
        Offset {
            group: self.group.clone(),
            topic: place.topic.to_string(),
            partition: place.partition,
            offset,
        }
    }
}
