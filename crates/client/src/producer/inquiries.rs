//! What is asked of the metadata by calls that do not wait: since when, so that they fail when a call
//! that waits would have.

use std::collections::BTreeMap;
use std::time::Duration;

use model::ErrorCode;
use tokio::time::Instant;

use super::accumulator::Refusal;
use super::delivery::Delivery;
use super::record::ProducerRecord;
use crate::Error;
use crate::cluster::{Brokers, Metadata};

/// The topics that were asked for.
#[derive(Debug)]
pub(super) struct Inquiries {
    patience: Duration,
    open: BTreeMap<String, Inquiry>,
}

#[derive(Debug, Clone, Copy)]
struct Inquiry {
    since: Instant,
    /// The request for metadata whose answer tells.
    refresh: u64,
}

impl Inquiries {
    /// None yet; each is given up after so long.
    pub(super) const fn new(patience_ms: u64) -> Self {
        Self {
            patience: Duration::from_millis(patience_ms),
            open: BTreeMap::new(),
        }
    }

    /// How many topics are asked for.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.open.len()
    }

    /// A topic is known now as far as was asked.
    pub(super) fn forget(&mut self, topic: &str) {
        self.open.remove(topic);
    }

    /// Asks for the topic of a record that cannot be taken yet: `None` while an answer may help.
    ///
    /// # Errors
    /// What the brokers say of the topic or partition: at once if it is final, else when time is over.
    pub(super) fn ask(
        &mut self,
        brokers: &Brokers,
        metadata: &Metadata,
        record: &ProducerRecord<'_>,
        refusal: Refusal,
    ) -> Result<Option<Delivery>, Error> {
        let now = Instant::now();
        let patience = self.patience;
        let is_over = |one: &Inquiry| now.duration_since(one.since) >= patience;
        let asked = self.open.get(record.topic).copied();
        let is_late = asked.as_ref().is_some_and(is_over);
        let error = match refusal {
            Refusal::NoSuchPartition { partition_count } => {
                let index = record.partition.unwrap_or_default();
                // One fresh answer tells whether partitions were added.
                asked
                    .filter(|asked| metadata.has_answered(asked.refresh))
                    .map(|_| Error::no_partition(record.topic, index, partition_count))
            }
            _ => {
                let code = metadata.topic_error(record.topic);
                let code = code.or(is_late.then_some(ErrorCode::UnknownTopicOrPartition));
                let told = code.filter(|code| is_late || !code.is_retriable());
                told.map(|code| Error::Refused {
                    subject: format!("topic `{}`", record.topic),
                    code,
                    message: None,
                })
            }
        };
        if let Some(error) = error {
            self.forget(record.topic);
            return Err(error);
        }
        if asked.is_none() {
            // What nobody asks about any more is not kept; whoever still asks shall hear how it ended.
            let is_kept = |one: &Inquiry| now.duration_since(one.since) < 2 * patience;
            self.open.retain(|_, one| is_kept(one));
            let refresh = metadata.next_refresh();
            let since = now;
            let inquiry = Inquiry { since, refresh };
            self.open.insert(record.topic.to_owned(), inquiry);
        }
        brokers.request_refresh();
        Ok(None)
    }
}
