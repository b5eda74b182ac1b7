//! The controller of a cluster: the product's decisions over the product's metadata log. It decides nothing
//! here.

use super::message::{Answer, Ask, Caller, Outbox, QuorumContent};
use super::planted::PlantedInCluster;
use crate::random::Random;
use config::{ConfigMap, ServerConfig};
use controller::bootstrap::bootstrap_records;
use controller::metadata_log::{
    DirectoryOptions, LocalVoter, MetadataLog, MetadataLogOptions, find_log_directories,
};
use controller::{BrokerContacts, Controller, ControllerContext, ControllerRequest, Decided};
use metadata::{MetadataImage, MetadataVersion, VoterEndpoint};
use model::{BrokerId, ErrorCode, MonotonicTime, Now, Uuid};
use raft::{FetchContent, FetchRequest, FetchSnapshotRequest, ReplicaKey, Request, Wanted};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use storage::disk::Disk;
use storage::sim::SimDisk;

/// The id of the controller's node.
pub(super) const CONTROLLER_ID: BrokerId = BrokerId(100);
/// The id of every cluster.
pub(super) const CLUSTER_ID: &str = "AAAAAAAAAAAAAAAAAAAAAg";
/// How long a fetch of the metadata log waits for news.
const FETCH_WAIT_MS: i32 = 500;
const FETCH_BYTES: usize = 4_000;

/// A controller that runs.
#[derive(Debug)]
pub(super) struct ControllerNode {
    controller: Controller<Caller, SimDisk>,
    contacts: BrokerContacts,
    config: Arc<ServerConfig>,
    random: Random,
    planted: PlantedInCluster,
    /// Fetches that wait for news, until when.
    waiting: Vec<(Caller, BrokerId, Request, MonotonicTime)>,
}

/// The configuration of the controller, or of a broker.
pub(super) fn server_config(node: i32, min_isr: i32) -> Arc<ServerConfig> {
    let is_controller = node == CONTROLLER_ID.0;
    let id = node.to_string();
    let min_isr = min_isr.to_string();
    let (roles, listeners) = match is_controller {
        true => ("controller", "CONTROLLER://:9093"),
        false => ("broker", "PLAINTEXT://:9092"),
    };
    let mut pairs = vec![
        ("process.roles", roles),
        ("node.id", &*id),
        ("listeners", listeners),
        ("controller.listener.names", "CONTROLLER"),
        ("controller.quorum.voters", "100@localhost:9093"),
        ("min.insync.replicas", &*min_isr),
        ("default.replication.factor", "3"),
        ("broker.session.timeout.ms", "3000"),
        ("broker.heartbeat.interval.ms", "700"),
        ("replica.lag.time.max.ms", "4000"),
        ("leader.imbalance.check.interval.seconds", "7"),
    ];
    if !is_controller {
        pairs.push(("advertised.listeners", "PLAINTEXT://localhost:9092"));
    }
    let given: ConfigMap = pairs
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let mut config = ServerConfig::read(&given).expect("the configuration is sound");
    let metadata_log = &mut config.controller.metadata_log;
    // Small, so that a world has several snapshots and segments of them.
    metadata_log.max_record_bytes_between_snapshots = 6_000;
    metadata_log.segment_bytes = 5_000;
    metadata_log.retention_bytes = 15_000;
    metadata_log.delete_delay_ms = 500;
    Arc::new(config)
}

impl ControllerNode {
    /// Starts on what the disk holds.
    pub(super) fn start(
        disk: &SimDisk,
        config: &Arc<ServerConfig>,
        planted: PlantedInCluster,
        mut random: Random,
        now: Now,
    ) -> Result<Self, String> {
        let directory = PathBuf::from("/metadata");
        let _ = disk.create_directory(&directory);
        let synced = disk.sync_directory(Path::new("/"));
        synced.map_err(|error| error.to_string())?;
        let bootstrap = bootstrap_records(MetadataVersion::LATEST);
        let paths = [directory.clone()];
        let endpoints = vec![VoterEndpoint {
            listener: "CONTROLLER".to_owned(),
            host: "localhost".to_owned(),
            port: 9093,
        }];
        let mut options = DirectoryOptions {
            directories: &paths,
            metadata_directory: &directory,
            node_id: config.node_id,
            new_cluster_id: CLUSTER_ID,
            new_directory_id: &mut || Uuid::from_bytes(random.bytes()),
            new_quorum: None,
            bootstrap_records: &bootstrap,
            now_ms: now.wall_ms,
            is_observer: false,
        };
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let found = find_log_directories(disk, &mut options).map_err(|error| text(&error))?;
        let directory_id = found.prepared().id_of(&directory);
        let loaded = MetadataLog::load(
            disk.clone(),
            MetadataLogOptions {
                directory: directory.clone(),
                local: LocalVoter {
                    id: config.node_id,
                    directory_id: directory_id.unwrap_or_default(),
                    endpoints,
                },
                fixed_voters: Some(vec![config.node_id]),
                bootstrap_records: bootstrap.clone(),
                min_insync_replicas: config.topics.min_insync_replicas,
                config: config.controller.metadata_log,
                now_ms: now.wall_ms,
            },
        )
        .map_err(|error| text(&error))?;
        found
            .prepare(disk, &mut options, Some(&std::collections::BTreeMap::new()))
            .map_err(|error| text(&error))?;
        let opened = loaded.lead(now.wall_ms).map_err(|error| text(&error))?;
        let context = ControllerContext::new(config);
        let controller = Controller::new(opened.log, &context, now);
        Ok(Self {
            contacts: controller.contacts(),
            controller,
            config: config.clone(),
            random,
            planted,
            waiting: Vec::new(),
        })
    }

    /// What is decided so far.
    pub(super) const fn image(&self) -> &Arc<MetadataImage> {
        self.controller.log.image()
    }

    /// Takes a request.
    pub(super) fn serve(
        &mut self,
        caller: Caller,
        ask: Ask,
        now: Now,
        out: &mut Outbox,
    ) -> Result<(), String> {
        match ask {
            Ask::Quorum(broker_id, request) => {
                let deadline = now.monotonic.plus_ms(FETCH_WAIT_MS.into());
                self.waiting.push((caller, broker_id, request, deadline));
            }
            Ask::Control(request) => self.control(caller, *request, now, out)?,
            _ => {}
        }
        self.poll(now, out)
    }

    fn control(
        &mut self,
        caller: Caller,
        mut request: ControllerRequest,
        now: Now,
        out: &mut Outbox,
    ) -> Result<(), String> {
        if let ControllerRequest::BrokerHeartbeat(beat) = &mut request {
            self.contacts
                .note(beat.broker_id, beat.broker_epoch, now.monotonic);
            beat.deadline = now.monotonic.plus_ms(1_000);
        }
        let context = ControllerContext::new(&self.config);
        let random = &mut self.random;
        let draw = &mut || random.bytes();
        let decided = self
            .controller
            .decide(&request, caller, &context, now, draw);
        self.decided(decided, now, out)
    }

    fn decided(
        &mut self,
        decided: Decided<Caller>,
        now: Now,
        out: &mut Outbox,
    ) -> Result<(), String> {
        for (caller, response) in decided.answers {
            out.answer(caller, Answer::Control(Ok(Box::new(response))));
        }
        for refused in decided.refused {
            if self.controller.log.has_failed() {
                return Err(refused.error.to_string());
            }
            for caller in refused.askers {
                out.answer(caller, Answer::Control(Err(ErrorCode::KafkaStorageError)));
            }
        }
        let log = &mut self.controller.log;
        if let Some(job) = log.snapshot_due(now.wall_ms) {
            let written = job.run(now.wall_ms);
            let _ = log.complete_snapshot(written, now.wall_ms);
        }
        Ok(())
    }

    /// Does what is due, and answers what has news.
    pub(super) fn poll(&mut self, now: Now, out: &mut Outbox) -> Result<(), String> {
        if self.planted != PlantedInCluster::FencesNobody {
            loop {
                let context = ControllerContext::new(&self.config);
                let is_due = self.controller.next_tick();
                if is_due.is_none_or(|at| at > now.monotonic) {
                    break;
                }
                let Some(decided) = self.controller.tick(&context, now) else {
                    break;
                };
                self.decided(decided, now, out)?;
            }
        }
        let waiting = std::mem::take(&mut self.waiting);
        for (caller, broker_id, request, deadline) in waiting {
            match self.fetched(broker_id, &request, deadline, now) {
                Some(answer) => out.answer(caller, answer),
                None => self.waiting.push((caller, broker_id, request, deadline)),
            }
        }
        Ok(())
    }

    fn fetched(
        &mut self,
        broker_id: BrokerId,
        request: &Request,
        deadline: MonotonicTime,
        now: Now,
    ) -> Option<Answer> {
        match request.wanted {
            Wanted::Log {
                fetch_offset,
                last_fetched_epoch,
                high_watermark,
            } => {
                let fetch = FetchRequest {
                    replica: Some(ReplicaKey {
                        id: broker_id,
                        directory_id: Uuid::ZERO,
                    }),
                    leader_epoch: request.leader_epoch,
                    fetch_offset,
                    last_fetched_epoch,
                    high_watermark,
                    max_wait_ms: FETCH_WAIT_MS,
                    max_bytes: FETCH_BYTES,
                };
                let answer = self.controller.log.handle_fetch(&fetch, now);
                if !answer.is_news(&fetch) && now.monotonic < deadline {
                    return None;
                }
                let content = match answer.content {
                    FetchContent::Nothing => QuorumContent::Records {
                        bytes: Vec::new(),
                        high_watermark: answer.high_watermark.0,
                    },
                    FetchContent::Records(slice) => QuorumContent::Records {
                        bytes: slice.to_vec().unwrap_or_default(),
                        high_watermark: answer.high_watermark.0,
                    },
                    FetchContent::Diverging(end) => QuorumContent::Diverging(end),
                    FetchContent::SnapshotId(id) => QuorumContent::SnapshotId(id),
                };
                Some(Answer::Quorum {
                    error: answer.error,
                    leader: answer.leader,
                    content,
                })
            }
            Wanted::Snapshot { id, position } => {
                let answer =
                    self.controller
                        .log
                        .replica()
                        .handle_fetch_snapshot(&FetchSnapshotRequest {
                            leader_epoch: request.leader_epoch,
                            id,
                            position: position.cast_signed(),
                            max_bytes: FETCH_BYTES,
                        });
                let piece = answer.piece.map(|slice| slice.to_vec().unwrap_or_default());
                Some(Answer::Quorum {
                    error: answer.error,
                    leader: answer.leader,
                    content: QuorumContent::Piece {
                        id,
                        size_bytes: answer.size_bytes,
                        position,
                        bytes: piece.unwrap_or_default(),
                    },
                })
            }
        }
    }

    /// When it has to be asked next.
    pub(super) fn next_deadline(&self) -> Option<MonotonicTime> {
        let waiting = self.waiting.iter().map(|one| one.3);
        let tick = self.controller.next_tick();
        let tick = tick.filter(|_| self.planted != PlantedInCluster::FencesNobody);
        waiting.chain(tick).min()
    }

    /// Stops in order.
    pub(super) fn stop(mut self, now: Now) {
        let _ = self.controller.log.close(now.wall_ms);
    }
}
