//! The brokers: connections, faults, and who answers what.

use super::groups::Groups;
use super::logs::Logs;
use super::network::{self, HOST};
use super::transactions::Transactions;
use crate::cluster::Random;
use model::{BrokerId, ErrorCode, Message, Reader};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::sync::watch;
use tokio::time::Instant;
use wire::messages::api_versions_response::{ApiVersion, FinalizedFeatureKey};
use wire::messages::{ApiVersionsResponse, FindCoordinatorRequest, FindCoordinatorResponse};
use wire::{ApiKey, RequestHeader, ResponseHeader};

/// How many requests are kept in mind.
const HEARD: usize = 40;

/// What befalls a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is not heard, and the connection ends.
    Lose,
    /// It is done, and the connection ends instead of an answer.
    LoseAnswer,
    /// It waits at the broker until it is released.
    HoldRequest,
    /// It is done, and the answer waits until it is released.
    HoldAnswer,
    /// It waits at the broker for so many milliseconds.
    Delay(u64),
    /// It is refused, where the API has a code for that.
    Refuse(ErrorCode),
}

/// What is served, up to which version.
const SERVED: &[(ApiKey, i16, i16)] = &[
    (ApiKey::Produce, 3, 13),
    (ApiKey::Fetch, 4, 17),
    (ApiKey::ListOffsets, 1, 7),
    (ApiKey::Metadata, 9, 13),
    (ApiKey::OffsetCommit, 2, 9),
    (ApiKey::OffsetFetch, 1, 9),
    (ApiKey::FindCoordinator, 0, 4),
    (ApiKey::JoinGroup, 0, 9),
    (ApiKey::Heartbeat, 0, 4),
    (ApiKey::LeaveGroup, 0, 5),
    (ApiKey::SyncGroup, 0, 5),
    (ApiKey::ApiVersions, 0, 4),
    (ApiKey::InitProducerId, 0, 4),
    (ApiKey::OffsetForLeaderEpoch, 2, 4),
    (ApiKey::AddPartitionsToTxn, 0, 3),
    (ApiKey::AddOffsetsToTxn, 0, 3),
    (ApiKey::EndTxn, 0, 5),
    (ApiKey::TxnOffsetCommit, 0, 5),
    (ApiKey::ConsumerGroupHeartbeat, 0, 1),
];

/// A cluster; clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Cluster(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    world: Mutex<World>,
    /// Counts what may let somebody go on who waits.
    changes: watch::Sender<u64>,
    /// Counts the times that all connections were cut.
    cuts: watch::Sender<u64>,
    started: Instant,
}

/// What the brokers hold and do.
#[derive(Debug)]
pub(crate) struct World {
    pub(super) random: Random,
    pub(super) nodes: i32,
    pub(super) logs: Logs,
    pub(super) groups: Groups,
    pub(super) transactions: Transactions,
    /// What is to befall requests.
    script: Vec<Planned>,
    /// The last requests, for whoever looks for a fault.
    heard: VecDeque<String>,
    /// Of a hundred requests so many meet some fault.
    pub(crate) fault_percent: u64,
    /// The most that a request takes on its way.
    pub(crate) latency_ms: u64,
}

/// A fault that befalls the next requests of an API, so many times.
#[derive(Debug)]
struct Planned {
    api: ApiKey,
    /// Of this client; of any for none.
    client: Option<&'static str>,
    fault: Fault,
    left: u32,
}

/// What comes of a request.
pub(super) enum Outcome {
    Response(Vec<u8>),
    /// When the condition is met, ask again; at the latest then.
    Wait(Instant),
    /// The request gets no answer.
    Silence,
}

/// A request as the broker reads it.
pub(super) struct Call<'a> {
    pub(super) node: i32,
    pub(super) api: ApiKey,
    pub(super) version: i16,
    pub(super) body: &'a [u8],
    pub(super) client_id: &'a str,
    pub(super) now_ms: i64,
    pub(super) since: Instant,
    pub(super) refusal: Option<ErrorCode>,
}

impl<'a> Call<'a> {
    pub(super) fn read<M: Message<'a>>(&self) -> M {
        M::from_bytes(self.body, self.version).expect("a client's request")
    }

    pub(super) fn answer<'m, M: Message<'m>>(&self, message: &M) -> Outcome {
        Outcome::Response(message.to_bytes(self.version))
    }
}

impl Cluster {
    pub(super) fn start(seed: u64, nodes: i32) -> Self {
        let world = World {
            random: Random::from_seed(seed),
            nodes,
            logs: Logs::default(),
            groups: Groups::new(),
            transactions: Transactions::default(),
            script: Vec::new(),
            heard: VecDeque::new(),
            fault_percent: 0,
            latency_ms: 2,
        };
        let cluster = Self(Arc::new(Shared {
            world: Mutex::new(world),
            changes: watch::Sender::new(0),
            cuts: watch::Sender::new(0),
            started: Instant::now(),
        }));
        network::enter(&cluster, seed);
        tokio::spawn(cluster.clone().keep_time());
        cluster
    }

    /// The bootstrap servers.
    pub(super) fn address() -> String {
        format!("{HOST}:1")
    }

    /// Looks at the brokers, or changes them.
    pub(super) fn with<T>(&self, look: impl FnOnce(&mut World) -> T) -> T {
        let result = look(&mut self.0.world.lock());
        self.0.changes.send_modify(|count| *count += 1);
        result
    }

    /// `fault` befalls the next `count` requests of `api`.
    pub(super) fn fail(&self, api: ApiKey, fault: Fault, count: u32) {
        self.fail_of(None, api, fault, count);
    }

    /// `fault` befalls the next `count` requests of `api` of a client.
    pub(super) fn fail_of(
        &self,
        client: Option<&'static str>,
        api: ApiKey,
        fault: Fault,
        left: u32,
    ) {
        let planned = Planned {
            api,
            client,
            fault,
            left,
        };
        self.with(|world| world.script.push(planned));
    }

    /// What was to befall requests of `api` does so no more, and those that are held go on.
    pub(super) fn release(&self, api: ApiKey) {
        self.with(|world| world.script.retain(|one| one.api != api));
    }

    /// The last requests.
    pub(super) fn heard(&self) -> String {
        let heard = &self.0.world.lock().heard;
        heard.iter().map(|line| format!("{line}\n")).collect()
    }

    /// Ends every connection.
    pub(super) fn cut(&self) {
        self.0.cuts.send_modify(|count| *count += 1);
    }

    /// Waits until `is_met`.
    pub(super) async fn until(&self, mut is_met: impl FnMut(&mut World) -> bool) {
        let mut changes = self.0.changes.subscribe();
        while !is_met(&mut self.0.world.lock()) {
            changes.changed().await.expect("the cluster lives");
        }
    }

    /// Waits until a request of `api` is held.
    pub(super) async fn until_held(&self, api: ApiKey) {
        let is_taken = |one: &Planned| one.api == api && one.left == 0;
        self.until(|world| world.script.iter().any(is_taken)).await;
    }

    pub(super) fn now_ms(&self) -> i64 {
        self.0.started.elapsed().as_millis() as i64
    }

    async fn keep_time(self) {
        loop {
            tokio::time::sleep(Duration::from_millis(20)).await;
            let now_ms = self.now_ms();
            let has_news = self.0.world.lock().groups.expire(now_ms);
            if has_news {
                self.0.changes.send_modify(|count| *count += 1);
            }
        }
    }

    pub(super) fn accept(&self, node: i32, pipe: DuplexStream) -> io::Result<()> {
        if !(1..=self.0.world.lock().nodes).contains(&node) {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let cluster = self.clone();
        let mut cuts = self.0.cuts.subscribe();
        tokio::spawn(async move {
            tokio::select! {
                biased;
                _ = cuts.changed() => {}
                _ = cluster.serve(node, pipe) => {}
            }
        });
        Ok(())
    }

    async fn serve(&self, node: i32, mut pipe: DuplexStream) -> io::Result<()> {
        loop {
            let size = pipe.read_u32().await?;
            let mut frame = vec![0; size as usize];
            pipe.read_exact(&mut frame).await?;
            let mut reader = Reader::new(&frame);
            let header = RequestHeader::decode(&mut reader).expect("a header");
            let api = ApiKey::from_number(header.api_key).expect("an API");
            let (fault, latency_ms) = {
                let mut world = self.0.world.lock();
                let latency_ms = world.latency_ms + 1;
                let latency_ms = world.random.next() % latency_ms;
                let fault = world.fault_of(api, header.client_id);
                let now_ms = self.now_ms();
                let client = header.client_id.unwrap_or_default();
                let line = format!("{now_ms} ms: {api:?} of {client}: {fault:?}");
                world.heard.push_back(line);
                if world.heard.len() > HEARD {
                    world.heard.pop_front();
                }
                (fault, latency_ms)
            };
            self.0.changes.send_modify(|count| *count += 1);
            tokio::time::sleep(Duration::from_millis(latency_ms)).await;
            if fault == Some(Fault::Lose) {
                return Ok(());
            }
            if fault == Some(Fault::HoldRequest) {
                self.until_released(api).await;
            }
            if let Some(Fault::Delay(delay_ms)) = fault {
                tokio::time::sleep(Duration::from_millis(delay_ms)).await;
            }
            let body = reader.remaining();
            let answer = self.answer(node, api, &header, body, fault).await;
            if fault == Some(Fault::LoseAnswer) {
                return Ok(());
            }
            if fault == Some(Fault::HoldAnswer) {
                self.until_released(api).await;
            }
            if let Some(answer) = answer {
                let mut out = vec![0; 4];
                let response = ResponseHeader {
                    correlation_id: header.correlation_id,
                };
                response.encode(api.response_header_version(header.api_version), &mut out);
                out.extend_from_slice(&answer);
                let size = (out.len() - 4) as u32;
                out[..4].copy_from_slice(&size.to_be_bytes());
                pipe.write_all(&out).await?;
            }
        }
    }

    async fn until_released(&self, api: ApiKey) {
        let is_held = |world: &World| world.script.iter().any(|one| one.api == api);
        self.until(|world| !is_held(world)).await;
    }

    async fn answer(
        &self,
        node: i32,
        api: ApiKey,
        header: &RequestHeader<'_>,
        body: &[u8],
        fault: Option<Fault>,
    ) -> Option<Vec<u8>> {
        let mut changes = self.0.changes.subscribe();
        let mut call = Call {
            node,
            api,
            version: header.api_version,
            body,
            client_id: header.client_id.unwrap_or_default(),
            now_ms: self.now_ms(),
            since: Instant::now(),
            refusal: match fault {
                Some(Fault::Refuse(code)) => Some(code),
                _ => None,
            },
        };
        if matches!(api, ApiKey::JoinGroup | ApiKey::SyncGroup) {
            let later = self.0.world.lock().groups.park(&call);
            self.0.changes.send_modify(|count| *count += 1);
            return Some(later.await.ok()?.to_bytes(&call));
        }
        loop {
            call.now_ms = self.now_ms();
            let outcome = self.0.world.lock().serve(&call);
            match outcome {
                Outcome::Response(bytes) => {
                    self.0.changes.send_modify(|count| *count += 1);
                    return Some(bytes);
                }
                Outcome::Silence => return None,
                Outcome::Wait(until) => {
                    let _ = tokio::time::timeout_at(until, changes.changed()).await;
                }
            }
        }
    }
}

impl World {
    /// What befalls a request that comes now.
    fn fault_of(&mut self, api: ApiKey, client: Option<&str>) -> Option<Fault> {
        let is_meant = |one: &&mut Planned| {
            let is_client = one.client.is_none() || one.client == client;
            one.api == api && one.left > 0 && is_client
        };
        if let Some(planned) = self.script.iter_mut().find(is_meant) {
            planned.left -= 1;
            return Some(planned.fault);
        }
        if api == ApiKey::ApiVersions || self.random.next() % 100 >= self.fault_percent {
            return None;
        }
        match self.random.next() % 2 {
            0 => Some(Fault::Lose),
            _ => Some(Fault::LoseAnswer),
        }
    }

    fn serve(&mut self, call: &Call<'_>) -> Outcome {
        match call.api {
            ApiKey::ApiVersions => api_versions(call, self.transactions.is_implicit),
            ApiKey::FindCoordinator => find_coordinator(call),
            ApiKey::Metadata => self.logs.metadata(call, self.nodes),
            ApiKey::Produce => self.logs.produce(call, &mut self.transactions),
            ApiKey::Fetch => self.logs.fetch(call),
            ApiKey::ListOffsets => self.logs.list_offsets(call),
            ApiKey::OffsetForLeaderEpoch => self.logs.epoch_ends(call),
            ApiKey::OffsetCommit => self.groups.commit(call),
            ApiKey::OffsetFetch => self.groups.fetch(call),
            ApiKey::Heartbeat => self.groups.heartbeat(call),
            ApiKey::LeaveGroup => self.groups.leave(call),
            ApiKey::ConsumerGroupHeartbeat => self.groups.consumer_heartbeat(call, &self.logs),
            _ => {
                let Self {
                    transactions, logs, ..
                } = self;
                transactions.serve(call, logs)
            }
        }
    }
}

fn api_versions(call: &Call<'_>, is_implicit: bool) -> Outcome {
    let levels = is_implicit.then_some(FinalizedFeatureKey {
        name: "transaction.version",
        max_version_level: 2,
        min_version_level: 2,
    });
    let keys = SERVED.iter().map(|(api, first, last)| ApiVersion {
        api_key: *api as i16,
        min_version: *first,
        max_version: *last,
    });
    call.answer(&ApiVersionsResponse {
        api_keys: keys.collect(),
        finalized_features: levels.into_iter().collect(),
        finalized_features_epoch: 1,
        ..ApiVersionsResponse::default()
    })
}

/// The first node coordinates everything.
fn find_coordinator(call: &Call<'_>) -> Outcome {
    use wire::messages::find_coordinator_response::Coordinator;
    let request: FindCoordinatorRequest<'_> = call.read();
    let keys = request.coordinator_keys.iter().map(|key| Coordinator {
        key,
        node_id: BrokerId(1),
        host: HOST,
        port: 1,
        ..Coordinator::default()
    });
    call.answer(&FindCoordinatorResponse {
        node_id: BrokerId(1),
        host: HOST,
        port: 1,
        coordinators: keys.collect(),
        ..FindCoordinatorResponse::default()
    })
}
