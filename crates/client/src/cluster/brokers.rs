//! The brokers of a cluster: how to reach each, and what they say the cluster looks like.
//!
//! A task keeps the metadata fresh. It asks a broker that is connected, else any known one, else
//! those of `bootstrap.servers`: when none of the known brokers answers, it starts again from there
//! (KIP-899), as when a broker says so (KIP-1102). Connections are made when they are needed, and
//! kept by address: a broker that moves is reached where it is, and a bootstrap address that turns
//! out to be a broker's is not connected to twice.

mod coordinators;
mod pool;
mod refresh;
#[cfg(test)]
mod tests;

pub(crate) use coordinators::CoordinatorKind;
pub(crate) use pool::Lane;

use super::connection::options_of;
use super::{Backoff, Broker, Connection, Deadline, Leader, Metadata, Random, Topic};
use crate::Error;
use crate::config::{ClientConfig, Endpoint};
use crate::watch;
use coordinators::Coordinators;
use model::{BrokerId, ErrorCode, Uuid};
use parking_lot::Mutex;
use pool::Pool;
use std::sync::Arc;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// What differs between the clients that use [`Brokers`].
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BrokersOptions {
    /// Whether asking for a topic may create it.
    pub(crate) allow_auto_topic_creation: bool,
    /// How long a topic is asked for after its last use; `None` for ever.
    pub(crate) metadata_max_idle_ms: Option<u64>,
}

/// The brokers of a cluster; clones share them. The task ends with the last clone.
#[derive(Debug, Clone)]
pub(crate) struct Brokers {
    shared: Arc<Shared>,
    _refresh: Arc<RefreshTask>,
}

/// Ends the task that refreshes when nobody needs it.
#[derive(Debug)]
struct RefreshTask(AbortHandle);

impl Drop for RefreshTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[derive(Debug)]
struct Shared {
    config: ClientConfig,
    options: BrokersOptions,
    pool: Pool,
    coordinators: Coordinators,
    metadata: watch::Sender<Arc<Metadata>>,
    /// Wakes the task that refreshes.
    wake: Notify,
    /// Since when attempts to refresh fail and why the last one did, until one succeeds.
    last_failure: Mutex<Option<(Instant, Error)>>,
    random: Mutex<Random>,
    /// Zero of the metadata's clock.
    started: Instant,
}

impl Brokers {
    /// The brokers that `config` leads to. Connects to none yet. Must be called within a runtime.
    ///
    /// # Errors
    /// [`Error::Configuration`] when `config` contradicts itself.
    pub(crate) fn new(config: &ClientConfig, options: BrokersOptions) -> Result<Self, Error> {
        config.check()?;
        let metadata = Metadata::new(config.metadata_max_age_ms, options.metadata_max_idle_ms);
        let shared = Arc::new(Shared {
            config: config.clone(),
            options,
            pool: Pool::new(options_of(config), Random::of(config.seed, 1)),
            coordinators: Coordinators::default(),
            metadata: watch::Sender::new(Arc::new(metadata)),
            wake: Notify::new(),
            last_failure: Mutex::default(),
            random: Mutex::new(Random::of(config.seed, 2)),
            started: Instant::now(),
        });
        let task = tokio::spawn(refresh::run(shared.clone()));
        Ok(Self {
            shared,
            _refresh: Arc::new(RefreshTask(task.abort_handle())),
        })
    }

    /// The configuration.
    pub(crate) fn config(&self) -> &ClientConfig {
        &self.shared.config
    }

    /// The cluster as far as it is known.
    pub(crate) fn metadata(&self) -> Arc<Metadata> {
        self.shared.metadata.borrow().clone()
    }

    /// Tells of each change of the metadata.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Arc<Metadata>> {
        self.shared.metadata.subscribe()
    }

    /// Asks for `topic` from here on, for as long as it is used.
    pub(crate) fn want(&self, topic: &str) {
        let now_ms = self.shared.now_ms();
        if self.shared.change(|metadata| metadata.want(topic, now_ms)) {
            self.shared.wake.notify_one();
        }
    }

    /// Asks for exactly these topics from here on.
    pub(crate) fn want_only<'a>(&self, topics: impl IntoIterator<Item = &'a str>) {
        let now_ms = self.shared.now_ms();
        if self
            .shared
            .change(|metadata| metadata.want_only(topics, now_ms))
        {
            self.shared.wake.notify_one();
        }
    }

    /// Asks for every topic from here on, or only for the wanted ones.
    pub(crate) fn want_all(&self, wants_all: bool) {
        self.shared.change(|metadata| metadata.want_all(wants_all));
        self.shared.wake.notify_one();
    }

    /// Asks for fresh metadata soon: an answer shows that something has changed. At most one
    /// request each `retry.backoff.ms` comes of it.
    pub(crate) fn request_refresh(&self) {
        self.shared.request_refresh();
    }

    /// Takes a leader that an answer told of (KIP-951), by the topic's name and id; what it leads is
    /// retried there at once.
    pub(crate) fn update_leader(
        &self,
        topic: (&str, Uuid),
        partition: i32,
        leader: Leader,
        broker: Option<Broker>,
    ) {
        self.shared.metadata.send_if_modified(|metadata| {
            let metadata = Arc::make_mut(metadata);
            let is_news = metadata.update_leader(topic, partition, leader);
            if let (true, Some(broker)) = (is_news, broker) {
                metadata.update_broker(broker);
            }
            is_news
        });
    }

    /// Fresh metadata: of an answer to a request that is sent from here on.
    ///
    /// # Errors
    /// Why there is none until the deadline.
    pub(crate) async fn refreshed(&self, deadline: Deadline) -> Result<Arc<Metadata>, Error> {
        let next = self.shared.change(|metadata| {
            metadata.request_refresh_now();
            metadata.next_refresh()
        });
        self.shared.wake.notify_one();
        let is_newer = |metadata: &Arc<Metadata>| metadata.has_answered(next);
        self.metadata_where(is_newer, "Metadata", deadline).await
    }

    /// The metadata as soon as `is_met`; who needs a refresh for that must have asked for one.
    ///
    /// # Errors
    /// Why it is not met until the deadline.
    pub(crate) async fn metadata_where(
        &self,
        mut is_met: impl FnMut(&Arc<Metadata>) -> bool,
        operation: &str,
        deadline: Deadline,
    ) -> Result<Arc<Metadata>, Error> {
        let mut changes = self.shared.metadata.subscribe();
        match deadline.bound(changes.wait_for(|m| is_met(m))).await {
            Some(metadata) => {
                let metadata = metadata.expect("the sender lives as long as these brokers");
                Ok(metadata.clone())
            }
            None => Err(self.shared.failure_at(operation, deadline)),
        }
    }

    /// The topic `name`, asked for from here on, as soon as it is known.
    ///
    /// # Errors
    /// What the brokers say of it until the deadline; at once if waiting cannot help.
    pub(crate) async fn topic(&self, name: &str, deadline: Deadline) -> Result<Arc<Topic>, Error> {
        self.want(name);
        let mut changes = self.shared.metadata.subscribe();
        loop {
            let metadata = changes.borrow_and_update().clone();
            if let Some(topic) = metadata.topic(name) {
                return Ok(topic.clone());
            }
            let code = metadata.topic_error(name);
            if let Some(code) = code.filter(|code| !code.is_retriable()) {
                return Err(refused_topic(name, code, None));
            }
            if code.is_some() {
                self.request_refresh();
            }
            if deadline.bound(changes.changed()).await.is_none() {
                return Err(match code {
                    Some(code) => {
                        let waited_ms = deadline.waited_ms();
                        refused_topic(name, code, Some(format!("still so after {waited_ms} ms")))
                    }
                    None => self.shared.failure_at("Metadata", deadline),
                });
            }
        }
    }

    /// The leader of a partition as soon as it has one.
    ///
    /// # Errors
    /// What the brokers say of it until the deadline; at once if waiting cannot help, as for an
    /// index that the topic does not have.
    pub(crate) async fn leader_of(
        &self,
        topic: &str,
        partition: i32,
        deadline: Deadline,
    ) -> Result<Leader, Error> {
        self.topic(topic, deadline).await?;
        let mut changes = self.shared.metadata.subscribe();
        let mut has_refreshed = false;
        loop {
            let metadata = changes.borrow_and_update().clone();
            if let Some(leader) = metadata.leader(topic, partition) {
                return Ok(leader);
            }
            if metadata.partition(topic, partition).is_none() && has_refreshed {
                let count = metadata.partition_count(topic).unwrap_or(0);
                return Err(Error::no_partition(topic, partition, count));
            }
            self.request_refresh();
            if deadline.bound(changes.changed()).await.is_none() {
                return Err(Error::Refused {
                    subject: format!("partition `{topic}-{partition}`"),
                    code: ErrorCode::LeaderNotAvailable,
                    message: Some(format!("still so after {} ms", deadline.waited_ms())),
                });
            }
            has_refreshed = true;
        }
    }

    /// A connection to the broker with this id: a live one, or one attempt to make it, after the
    /// backoff that earlier failures ask for.
    ///
    /// # Errors
    /// [`Error::Unreachable`] when the metadata does not name it, or when the attempt fails; the
    /// metadata is then refreshed, as its partitions may move elsewhere.
    pub(crate) async fn connection(
        &self,
        id: BrokerId,
        lane: Lane,
        deadline: Deadline,
    ) -> Result<Connection, Error> {
        self.shared.connection(id, lane, deadline).await
    }

    /// A connection to any broker, preferably one that is connected already; tries until the
    /// deadline.
    ///
    /// # Errors
    /// Why there is none until the deadline.
    pub(crate) async fn any_broker(&self, deadline: Deadline) -> Result<Connection, Error> {
        let mut failures = 0;
        loop {
            match refresh::any_connection(&self.shared, deadline).await {
                Ok(connection) => return Ok(connection),
                Err(error) => {
                    failures += 1;
                    if !deadline.sleep_ms(self.retry_delay_ms(failures)).await {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// The error at a deadline: what stands in the way of metadata, if anything does.
    pub(crate) fn failure_at(&self, operation: &str, deadline: Deadline) -> Error {
        self.shared.failure_at(operation, deadline)
    }

    /// Since when there is no metadata to be had, and why, until there is.
    pub(crate) fn failing(&self) -> Option<(Instant, Error)> {
        self.shared.last_failure.lock().clone()
    }

    /// How long to wait before something is tried again after `failures` in a row.
    pub(crate) fn retry_delay_ms(&self, failures: u32) -> u64 {
        self.shared.retry_delay_ms(failures)
    }
}

impl Shared {
    fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    /// Changes the metadata without telling who waits for news of the cluster.
    fn change<T>(&self, change: impl FnOnce(&mut Metadata) -> T) -> T {
        let mut result = None;
        self.metadata.send_if_modified(|metadata| {
            result = Some(change(Arc::make_mut(metadata)));
            false
        });
        result.expect("the closure is called once")
    }

    fn request_refresh(&self) {
        self.change(Metadata::request_refresh);
        self.wake.notify_one();
    }

    fn retry_delay_ms(&self, failures: u32) -> u64 {
        let backoff = Backoff {
            base_ms: self.config.retry_backoff_ms,
            max_ms: self.config.retry_backoff_max_ms,
        };
        backoff.delay_ms(failures, self.random.lock().next())
    }

    /// The error at a deadline: what stands in the way of metadata, if anything does.
    fn failure_at(&self, operation: &str, deadline: Deadline) -> Error {
        match self.last_failure.lock().clone() {
            Some((
                _,
                Error::Unreachable {
                    address, reason, ..
                },
            )) => Error::Unreachable {
                address,
                waited_ms: deadline.waited_ms(),
                reason,
            },
            Some((_, error)) => error,
            None => Error::of(deadline.error(operation, self.config.bootstrap_text())),
        }
    }

    async fn connection(
        &self,
        id: BrokerId,
        lane: Lane,
        deadline: Deadline,
    ) -> Result<Connection, Error> {
        let endpoint: Option<Endpoint> = {
            let metadata = self.metadata.borrow();
            metadata.broker(id).map(|broker| broker.endpoint.clone())
        };
        let Some(endpoint) = endpoint else {
            self.request_refresh();
            return Err(Error::Unreachable {
                address: format!("broker {id}"),
                waited_ms: deadline.waited_ms(),
                reason: "the cluster's metadata does not name it: it may be down".to_owned(),
            });
        };
        let connected = self.pool.connect(&endpoint, Some(id), lane, deadline).await;
        if connected.is_err() {
            self.request_refresh();
        }
        connected
    }
}

fn refused_topic(name: &str, code: ErrorCode, message: Option<String>) -> Error {
    Error::Refused {
        subject: format!("topic `{name}`"),
        code,
        message,
    }
}
