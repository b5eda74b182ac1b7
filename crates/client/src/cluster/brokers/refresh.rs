//! The task that keeps the metadata fresh.

use super::super::metadata::Wanted;
use super::super::{Connection, Deadline, Response};
use super::{Lane, Shared};
use crate::Error;
use crate::config::{Endpoint, MetadataRecoveryStrategy};
use model::{BrokerId, ErrorCode, Uuid};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use wire::ApiKey;
use wire::messages::metadata_request::MetadataRequestTopic;
use wire::messages::{MetadataRequest, MetadataResponse};

/// The first version in which no topics can be asked for; before it, an empty list means all.
const NO_TOPICS_FROM: i16 = 1;

/// Refreshes the metadata whenever it is due, for ever.
pub(super) async fn run(shared: Arc<Shared>) {
    let mut failures = 0;
    loop {
        wait_until_due(&shared).await;
        let asked_at = Instant::now();
        match refresh(&shared).await {
            Ok(()) => failures = 0,
            Err(error) => {
                tracing::debug!(%error, "no metadata");
                shared.note_failure(asked_at, error);
                shared.change(super::Metadata::request_refresh);
                failures += 1;
                let delay_ms = shared.retry_delay_ms(failures);
                tokio::time::sleep(Duration::from_millis(delay_ms)).await;
            }
        }
    }
}

async fn wait_until_due(shared: &Shared) {
    loop {
        let backoff_ms = shared.config.retry_backoff_ms;
        let due_at_ms = shared.metadata.borrow().refresh_at_ms(backoff_ms);
        if due_at_ms <= shared.now_ms() {
            return;
        }
        let due_at = shared.started + Duration::from_millis(due_at_ms);
        tokio::select! {
            biased;
            () = tokio::time::sleep_until(due_at) => {}
            () = shared.wake.notified() => {}
        }
    }
}

/// Asks one broker for metadata and takes its answer.
async fn refresh(shared: &Shared) -> Result<(), Error> {
    let deadline = Deadline::after_ms(shared.config.request_timeout_ms, "request.timeout.ms");
    let connection = any_connection(shared, whole_round(shared)).await?;
    let now_ms = shared.now_ms();
    let wanted = shared.change(|metadata| metadata.begin_refresh(now_ms));
    let answer = ask(shared, &connection, &wanted, deadline).await?;
    let response: MetadataResponse<'_> = answer.read()?;
    let code = ErrorCode::from_code(response.error_code);
    if code == ErrorCode::RebootstrapRequired {
        shared.rebootstrap();
    }
    if !code.is_none() {
        return Err(Error::Refused {
            subject: format!("Metadata at {}", answer.address()),
            code,
            message: None,
        });
    }
    if response.brokers.is_empty() {
        return Err(Error::Malformed {
            address: answer.address().to_string(),
            reason: "metadata without a single broker".to_owned(),
        });
    }
    shared.update(&response, &wanted);
    Ok(())
}

/// Enough time for an attempt at each address.
fn whole_round(shared: &Shared) -> Deadline {
    let config = &shared.config;
    let attempt_ms = config.connection_setup_timeout_max_ms + config.request_timeout_ms;
    let known = shared.metadata.borrow().brokers().count() + config.bootstrap_servers.len();
    let setting = "socket.connection.setup.timeout.ms";
    Deadline::after_ms(attempt_ms.saturating_mul(known as u64), setting)
}

async fn ask(
    shared: &Shared,
    connection: &Connection,
    wanted: &Wanted,
    deadline: Deadline,
) -> Result<Response, Error> {
    let version = connection.version_of(ApiKey::Metadata)?;
    let topics: Option<Vec<MetadataRequestTopic<'_>>> = match wanted {
        Wanted::All if version < NO_TOPICS_FROM => Some(Vec::new()),
        Wanted::All => None,
        Wanted::Topics(names) => {
            let topic = |name| MetadataRequestTopic {
                topic_id: Uuid::ZERO,
                name: Some(name),
            };
            Some(names.iter().map(|name| topic(&**name)).collect())
        }
    };
    let request = MetadataRequest {
        topics: topics.map(Into::into),
        allow_auto_topic_creation: shared.options.allow_auto_topic_creation,
        ..MetadataRequest::default()
    };
    connection.call_version(version, &request, deadline).await
}

/// A connection to any broker: a live one, else one attempt at each known address, in random order.
///
/// # Errors
/// Why the last address cannot be connected to.
pub(super) async fn any_connection(
    shared: &Shared,
    deadline: Deadline,
) -> Result<Connection, Error> {
    if let Some(live) = shared.pool.any_live() {
        return Ok(live);
    }
    let mut known: Vec<(Endpoint, Option<BrokerId>)> = {
        let metadata = shared.metadata.borrow();
        let brokers = metadata.brokers();
        brokers.map(|b| (b.endpoint.clone(), Some(b.id))).collect()
    };
    let mut bootstrap: Vec<(Endpoint, Option<BrokerId>)> = {
        let servers = shared.config.bootstrap_servers.iter();
        servers.map(|server| (server.clone(), None)).collect()
    };
    shared.shuffle(&mut known);
    shared.shuffle(&mut bootstrap);
    let recovers =
        shared.config.metadata_recovery_strategy == MetadataRecoveryStrategy::Rebootstrap;
    if known.is_empty() {
        known = bootstrap;
    } else if recovers {
        let tried: BTreeSet<Endpoint> = known.iter().map(|(e, _)| e.clone()).collect();
        bootstrap.retain(|(endpoint, _)| !tried.contains(endpoint));
        if shared.is_rebootstrap_due() {
            known.splice(0..0, bootstrap);
        } else {
            known.extend(bootstrap);
        }
    }
    let mut failures: Vec<Error> = Vec::new();
    for (endpoint, id) in known {
        match shared
            .pool
            .connect(&endpoint, id, Lane::Main, deadline)
            .await
        {
            Ok(connection) => return Ok(connection),
            Err(error) => failures.push(error),
        }
        if deadline.has_passed() {
            break;
        }
    }
    Err(combined(failures, deadline))
}

/// One error for the failures of several addresses.
fn combined(mut failures: Vec<Error>, deadline: Deadline) -> Error {
    let last = failures.pop().expect("there is an address to try");
    let Error::Unreachable {
        address, reason, ..
    } = &last
    else {
        return last;
    };
    let mut addresses = vec![address.clone()];
    for failure in &failures {
        if let Error::Unreachable { address, .. } = failure {
            addresses.push(address.clone());
        }
    }
    addresses.sort();
    Error::Unreachable {
        address: addresses.join(", "),
        waited_ms: deadline.waited_ms(),
        reason: reason.clone(),
    }
}

impl Shared {
    fn shuffle<T>(&self, items: &mut [T]) {
        let mut random = self.random.lock();
        for end in (2..=items.len()).rev() {
            items.swap(end - 1, random.below(end));
        }
    }

    fn note_failure(&self, asked_at: Instant, error: Error) {
        let mut last_failure = self.last_failure.lock();
        let since = last_failure.as_ref().map_or(asked_at, |(since, _)| *since);
        *last_failure = Some((since, error));
    }

    /// Whether metadata has failed for so long that the known brokers may all be others' (KIP-1102).
    fn is_rebootstrap_due(&self) -> bool {
        let metadata = self.metadata.borrow();
        let backoff_ms = self.config.retry_backoff_ms;
        let due_at_ms = metadata.refresh_at_ms(backoff_ms);
        let since_ms = due_at_ms.max(metadata.updated_at_ms());
        self.now_ms().saturating_sub(since_ms) >= self.config.rebootstrap_trigger_ms
    }

    /// Forgets the known brokers, so that the next refresh starts from `bootstrap.servers`.
    fn rebootstrap(&self) {
        tracing::info!("the cluster's metadata is stale, starting again from `bootstrap.servers`");
        self.change(super::Metadata::forget_brokers);
        let servers: BTreeSet<&Endpoint> = self.config.bootstrap_servers.iter().collect();
        self.pool.retain(|endpoint| servers.contains(endpoint));
    }

    /// Takes an answer, and tells who waits for it.
    fn update(&self, response: &MetadataResponse<'_>, wanted: &Wanted) {
        let now_ms = self.now_ms();
        let mut endpoints = BTreeSet::new();
        self.metadata.send_modify(|metadata| {
            let metadata = Arc::make_mut(metadata);
            let before = metadata.cluster_id().map(str::to_owned);
            metadata.update(response, wanted, now_ms);
            if let Some(before) = before
                && metadata.cluster_id() != Some(&*before)
            {
                let after = metadata.cluster_id();
                tracing::warn!(before, after, "the brokers belong to another cluster");
            }
            endpoints.extend(metadata.brokers().map(|broker| broker.endpoint.clone()));
        });
        *self.last_failure.lock() = None;
        self.pool.retain(|endpoint| endpoints.contains(endpoint));
    }
}
