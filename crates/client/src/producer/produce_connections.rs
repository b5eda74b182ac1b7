//! The connections to the leaders, and what is on its way to them.
//!
//! A request is written at once when its broker is connected; otherwise it waits until the one
//! attempt to connect ends. Answers of a broker come in the order of its requests, so only the
//! oldest one of each is watched.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use model::{BrokerId, Uuid};
use record::Compression;
use tokio::task::JoinHandle;
use wire::ApiKey;

use super::request::{TOPIC_IDS_FROM, ZSTD_FROM, write_produce};
use super::sender::{Request, RequestKey};
use crate::Error;
use crate::cluster::{Brokers, Connection, Deadline, Lane, Metadata, Pending, Response, Sent};

/// What happened to a request.
#[derive(Debug)]
pub(super) enum ProduceEvent {
    /// Its answer came, or with `acks=0` it has been written.
    Answered(RequestKey, Response),
    /// It was not sent, or its answer did not come.
    Lost(RequestKey, Error),
    /// The broker is connected: what waits for it can be sent by [`ProduceConnections::send`].
    Connected(VecDeque<RequestKey>),
}

/// What every request of the producer says.
#[derive(Debug, Clone)]
pub(super) struct ProduceSettings {
    pub(super) transactional_id: Option<Arc<str>>,
    pub(super) acks: i16,
    pub(super) request_timeout_ms: u64,
    pub(super) compression: Compression,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct ProduceConnections {
    settings: ProduceSettings,
    brokers: Brokers,
    connections: BTreeMap<BrokerId, ProduceConnection>,
    /// What is to be told next.
    events: VecDeque<ProduceEvent>,
}

#[derive(Debug, Default)]
struct ProduceConnection {
    connection: Option<Connection>,
    connecting: Option<JoinHandle<Result<Connection, Error>>>,
    /// What waits for the connection, in order.
    queued: VecDeque<RequestKey>,
    /// What waits for an answer, in order.
    pending: VecDeque<(RequestKey, Pending)>,
}

impl ProduceConnections {
    pub(super) const fn new(brokers: Brokers, settings: ProduceSettings) -> Self {
        Self {
            settings,
            brokers,
            connections: BTreeMap::new(),
            events: VecDeque::new(),
        }
    }

    /// Sends a request, at once or when its broker is connected.
    pub(super) fn send(&mut self, key: RequestKey, request: &mut Request, metadata: &Metadata) {
        let link = self.connections.entry(request.node).or_default();
        let Some(connection) = link
            .connection
            .take_if(|connection| !connection.is_closed())
        else {
            link.connection = None;
            link.queued.push_back(key);
            if link.connecting.is_none() {
                link.connecting = Some(connect(&self.brokers, request.node, &self.settings));
            }
            return;
        };
        match transmit(&connection, request, metadata, &self.settings) {
            Ok(pending) => link.pending.push_back((key, pending)),
            Err(error) => self.events.push_back(ProduceEvent::Lost(key, error)),
        }
        link.connection = Some(connection);
    }

    /// The broker wants no more requests for so long (KIP-219).
    pub(super) fn hold_ms(&self, node: BrokerId, throttle_ms: u64) {
        let connection = self
            .connections
            .get(&node)
            .and_then(|link| link.connection.as_ref());
        if let Some(connection) = connection {
            connection.hold_ms(throttle_ms);
        }
    }

    /// The next thing that happened.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<ProduceEvent> {
        if let Some(event) = self.events.pop_front() {
            return Poll::Ready(event);
        }
        for link in self.connections.values_mut() {
            if let Some(connecting) = &mut link.connecting
                && let Poll::Ready(connected) = Pin::new(connecting).poll(context)
            {
                link.connecting = None;
                let queued = std::mem::take(&mut link.queued);
                match connected.unwrap_or(Err(Error::Closed("producer"))) {
                    Ok(connection) => {
                        link.connection = Some(connection);
                        return Poll::Ready(ProduceEvent::Connected(queued));
                    }
                    Err(error) => {
                        let lost = queued
                            .iter()
                            .map(|key| ProduceEvent::Lost(*key, error.clone()));
                        self.events.extend(lost);
                    }
                }
                if let Some(event) = self.events.pop_front() {
                    return Poll::Ready(event);
                }
            }
            let answered = match link.pending.front_mut() {
                Some((_, pending)) => Pin::new(pending).poll(context),
                None => Poll::Pending,
            };
            if let Poll::Ready(answer) = answered
                && let Some((key, _)) = link.pending.pop_front()
            {
                return Poll::Ready(match answer {
                    Ok(answer) => ProduceEvent::Answered(key, answer),
                    Err(error) => ProduceEvent::Lost(key, error),
                });
            }
        }
        Poll::Pending
    }
}

fn connect(
    brokers: &Brokers,
    node: BrokerId,
    settings: &ProduceSettings,
) -> JoinHandle<Result<Connection, Error>> {
    let (brokers, timeout_ms) = (brokers.clone(), settings.request_timeout_ms);
    tokio::spawn(async move {
        let deadline = Deadline::after_ms(timeout_ms, "request.timeout.ms");
        brokers.connection(node, Lane::Main, deadline).await
    })
}

/// Encodes a request around its batches and hands it to the connection. The request keeps the ids by
/// which it names topics.
fn transmit(
    connection: &Connection,
    request: &mut Request,
    metadata: &Metadata,
    settings: &ProduceSettings,
) -> Result<Pending, Error> {
    let topics = request.batches.iter().map(|batch| batch.outcome().topic());
    let topic_ids = topics.map(|topic| metadata.topic(topic).map_or(Uuid::ZERO, |topic| topic.id));
    request.topic_ids = topic_ids.collect();
    let has_ids = !request.topic_ids.iter().any(|id| id.is_zero());
    let at_most = if has_ids {
        TOPIC_IDS_FROM
    } else {
        TOPIC_IDS_FROM - 1
    };
    let version = connection.version_up_to(ApiKey::Produce, at_most.min(request.version_max))?;
    if settings.compression == Compression::Zstd && version < ZSTD_FROM {
        return Err(Error::Unsupported {
            address: connection.address().to_string(),
            api: "Produce",
            detail: format!(
                " in version {ZSTD_FROM}, which `compression.type` = `zstd` needs: it has {version}"
            ),
        });
    }
    let mut message = connection.request(ApiKey::Produce, version);
    let timeout_ms = i32::try_from(settings.request_timeout_ms).unwrap_or(i32::MAX);
    write_produce(
        &mut message,
        settings.transactional_id.as_deref(),
        settings.acks,
        timeout_ms,
        &request.batches,
        &request.topic_ids,
    );
    if version < TOPIC_IDS_FROM {
        request.topic_ids.clear();
    }
    if settings.acks == 0 {
        message = message.without_answer();
    }
    match connection.try_send(message, connection.request_deadline())? {
        Sent::Pending(pending) => Ok(pending),
        Sent::Full => Err(Error::Disconnected {
            address: connection.address().to_string(),
            reason: "its queue is full; lower `max.in.flight.requests.per.connection`".to_owned(),
        }),
    }
}
