//! Log directories that have failed, reported to the controller: it takes the leadership from their partitions
//! (KIP-858).
//!
//! The places of partitions in such a directory are noted first. A start takes partitions without a place for
//! new ones where every directory of the last registration is there, and that no longer names this one. A
//! controller of another node that does not answer hears of the failure all the same, as soon as it does.

use crate::logs::{Logs, new_partitions};
use crate::scheduling::log_rate_limit::LogRateLimit;
use controller::ChangeDirectories;
use model::Uuid;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// The pause between two attempts.
const REPORT_PAUSE: Duration = Duration::from_secs(1);
/// So long the controller of another node is asked to note places before it hears of the failure.
const PLACES_MAX: Duration = Duration::from_secs(5);

/// Failed directories that the controller does not know yet.
#[derive(Debug, Default)]
pub(crate) struct DirectoryFailures {
    unreported: Mutex<Vec<Uuid>>,
    changed: Notify,
    /// Lines about refusals.
    refusals: LogRateLimit,
}

impl DirectoryFailures {
    pub(crate) fn note(&self, directory: Uuid) {
        self.unreported.lock().push(directory);
        self.changed.notify_one();
    }
}

/// Reports directories as they fail, for ever. What the controller does not take is reported again.
pub(crate) async fn report_all(logs: Arc<Logs>) {
    let failures = &logs.directory_failures;
    loop {
        let unreported = failures.unreported.lock().clone();
        if unreported.is_empty() {
            failures.changed.notified().await;
            continue;
        }
        if report(&logs, &unreported).await {
            let mut left = failures.unreported.lock();
            left.retain(|one| !unreported.contains(one));
        } else {
            tokio::time::sleep(REPORT_PAUSE).await;
        }
    }
}

/// Whether the controller has taken it.
async fn report(logs: &Logs, directories: &[Uuid]) -> bool {
    let noting = new_partitions::note_places(logs);
    match logs.controller.is_remote() {
        true => drop(tokio::time::timeout(PLACES_MAX, noting).await),
        false => noting.await,
    }
    let has_unnoted = |id: &Uuid| logs.new_partitions.has_unnoted_in(logs, *id);
    if !logs.controller.is_remote() && directories.iter().any(has_unnoted) {
        return false;
    }
    let request = ChangeDirectories {
        broker_id: logs.node.id,
        broker_epoch: logs.node.broker_epoch(),
        offline: directories.to_vec(),
        cordoned: None,
    };
    match logs.controller.request(request).await {
        Ok(Ok(_)) => true,
        Ok(Err(error)) => {
            if let Some(not_logged) = logs.directory_failures.refusals.due() {
                tracing::error!(%error, not_logged, "the controller refuses that a log directory has failed; it is reported again");
            }
            false
        }
        Err(_) => false,
    }
}
