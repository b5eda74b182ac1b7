//! What a broker answers clients as the leader of partitions: producers, consumers, and who deletes records.

use super::waiting::WaitingAnswer;
use super::{BrokerNode, SimPartition};
use crate::cluster::judge::{Deleted, Log};
use crate::cluster::message::{Caller, Outbox, PartitionLeader};
use crate::cluster::planted::PlantedInCluster;
use crate::cluster::schedule::{INTERNAL_TOPICS, TOPICS};
use crate::protocol::{self, Fetched};
use model::{ErrorCode, LeaderEpoch, Now, Offset};
use record::{
    ProduceValidator, RecordBatch, TargetCompression, TimestampType, ValidationRules,
    accept_produced,
};
use replication::{Acks, FirstBatch, Isolation, ReadRequest, VerificationGuard};
use std::sync::Arc;

const PRODUCE_VERSION: i16 = 13;
/// How long a producer's batch is waited for.
const PRODUCE_TIMEOUT_MS: i64 = 1_500;

impl BrokerNode {
    /// Who leads what, as this broker knows it.
    pub(super) fn leaders(&self) -> Vec<PartitionLeader> {
        let topics = TOPICS.iter().chain(&INTERNAL_TOPICS);
        let known = topics.filter_map(|name| Some((name, self.image.topics.by_name(name)?)));
        let leaders = known.flat_map(|(name, topic)| {
            let partitions = topic.partitions.iter();
            partitions.map(move |(index, partition)| PartitionLeader {
                topic: name,
                topic_id: topic.id,
                partition: *index,
                leader: partition.leader,
                leader_epoch: partition.leader_epoch,
            })
        });
        leaders.collect()
    }

    pub(super) fn find(&self, log: Log) -> Result<&Arc<SimPartition>, ErrorCode> {
        let found = self.partitions.get(&log);
        found.ok_or_else(|| match self.image.topics.by_id(log.0) {
            Some(_) => ErrorCode::NotLeaderOrFollower,
            None => ErrorCode::UnknownTopicId,
        })
    }

    /// Serves a request of a client, which knows the leader of an epoch.
    pub(super) fn serve_client(
        &mut self,
        caller: Caller,
        ask: protocol::Ask,
        leader_epoch: LeaderEpoch,
        now: Now,
        out: &mut Outbox,
    ) -> Result<(), String> {
        match &ask {
            protocol::Ask::Metadata { topic } => {
                let answer = match self.image.topics.by_name(topic) {
                    Some(topic) => protocol::Answer::Metadata {
                        error: ErrorCode::None,
                        topic_id: topic.id,
                        partition_count: i32::try_from(topic.partition_count()).unwrap_or(0),
                    },
                    None => ask.refused(ErrorCode::UnknownTopicOrPartition),
                };
                out.tell(caller, answer);
            }
            protocol::Ask::Produce { .. } => self.produce(caller, ask, now, out)?,
            protocol::Ask::Fetch {
                topic_id,
                partition,
                offset,
                is_committed,
            } => {
                let log = (*topic_id, *partition);
                let fetched = self.fetch(log, leader_epoch, Offset(*offset), *is_committed);
                out.tell(caller, protocol::Answer::Fetched(fetched));
            }
            protocol::Ask::InitProducerId { .. } => {
                self.serve_producer_id(caller, ask, now, out)?;
            }
            protocol::Ask::EndTransaction { .. } => {
                self.serve_transaction(caller, ask, now, out)?
            }
            protocol::Ask::CommitInTransaction {
                group, producer, ..
            } => {
                let about = (group.clone(), *producer);
                let about = (&*about.0, about.1);
                self.serve_commit_in_transaction(caller, ask, about, now, out)?;
            }
            protocol::Ask::DeleteRecords {
                topic,
                partition,
                offset,
            } => {
                let id = self.image.topics.id_of(topic).unwrap_or_default();
                if let Err(error) =
                    self.delete_records(caller, (id, *partition), Offset(*offset), now, out)?
                {
                    out.tell(caller, ask.refused(error));
                }
            }
            protocol::Ask::CreateTopic { .. }
            | protocol::Ask::DeleteTopic { .. }
            | protocol::Ask::AlterConfig { .. } => {
                out.tell(caller, ask.refused(ErrorCode::InvalidRequest));
            }
            protocol::Ask::CommitOffset { .. }
            | protocol::Ask::FetchOffset { .. }
            | protocol::Ask::Join { .. }
            | protocol::Ask::Sync { .. }
            | protocol::Ask::Heartbeat { .. } => self.serve_group(caller, &ask, now, out)?,
        }
        Ok(())
    }

    /// Asks first about a transaction that begins in the partition.
    fn produce(
        &mut self,
        caller: Caller,
        ask: protocol::Ask,
        now: Now,
        out: &mut Outbox,
    ) -> Result<(), String> {
        let protocol::Ask::Produce {
            topic_id,
            partition,
            transactional_id: Some(_),
            records,
        } = &ask
        else {
            return self.append(caller, ask, None, now, out);
        };
        let found = self.find((*topic_id, *partition)).cloned();
        let batch = accept_produced(RecordBatch::parse(records), PRODUCE_VERSION);
        let (found, first) = match (found, batch) {
            (Ok(found), Ok(batch)) => {
                let first = FirstBatch {
                    producer_id: batch.producer_id(),
                    producer_epoch: batch.producer_epoch(),
                    base_sequence: batch.base_sequence(),
                };
                (found, first)
            }
            (Err(error), _) => {
                out.tell(caller, ask.refused(error));
                return Ok(());
            }
            (_, Err(invalid)) => {
                out.tell(caller, ask.refused(invalid.error));
                return Ok(());
            }
        };
        self.verify(&found, first, (caller, ask), now, out)
    }

    /// Appends what may be appended; it is answered when every in-sync replica has it.
    pub(super) fn append(
        &mut self,
        caller: Caller,
        ask: protocol::Ask,
        guard: Option<VerificationGuard>,
        now: Now,
        out: &mut Outbox,
    ) -> Result<(), String> {
        let protocol::Ask::Produce {
            topic_id,
            partition,
            records,
            ..
        } = &ask
        else {
            return self.commit_in_transaction(caller, &ask, guard, now, out);
        };
        let partition = match self.find((*topic_id, *partition)) {
            Ok(partition) => partition.clone(),
            Err(error) => {
                out.tell(caller, ask.refused(error));
                return Ok(());
            }
        };
        let rules = rules_of(partition.config().max_message_bytes as usize);
        let mut validator = ProduceValidator::new();
        let mut records = records.clone();
        let validated =
            validator.validate_produce(&mut records, PRODUCE_VERSION, &rules, now.wall_ms);
        let mut batch = match validated {
            Ok(batch) => batch,
            Err(invalid) => {
                out.tell(caller, ask.refused(invalid.error));
                return Ok(());
            }
        };
        let leadership = partition.leadership();
        match partition.append_as_leader(&mut batch, guard, Acks::All, now.wall_ms) {
            Ok(appended) => {
                let end_offset = appended.last_offset + 1;
                let answer = protocol::Answer::Produced {
                    error: ErrorCode::None,
                    base_offset: appended.base_offset.0,
                };
                if self.planted == PlantedInCluster::AnswersEarly {
                    out.tell(caller, answer);
                    return Ok(());
                }
                self.answers.push(WaitingAnswer {
                    caller,
                    answer,
                    deadline: now.monotonic.plus_ms(PRODUCE_TIMEOUT_MS),
                    replicated: Box::pin(async move {
                        partition
                            .wait_until_replicated(leadership, end_offset)
                            .await
                    }),
                    deleted: None,
                });
            }
            Err(error) if error.is_disk_failure() => return Err(error.to_string()),
            Err(error) => out.tell(caller, ask.refused(error.code())),
        }
        Ok(())
    }

    /// Deletes the records before an offset; it is answered when no replica has them that is alive.
    fn delete_records(
        &mut self,
        caller: Caller,
        log: Log,
        offset: Offset,
        now: Now,
        out: &mut Outbox,
    ) -> Result<Result<(), ErrorCode>, String> {
        let partition = match self.find(log) {
            Ok(partition) => partition.clone(),
            Err(error) => return Ok(Err(error)),
        };
        if let Err(error) = partition.check_leader(LeaderEpoch::NONE) {
            return Ok(Err(error));
        }
        if !(Offset::ZERO..=partition.high_watermark()).contains(&offset) {
            return Ok(Err(ErrorCode::OffsetOutOfRange));
        }
        let leadership = partition.leadership();
        match partition.delete_records_before(offset) {
            Ok(_) => {}
            Err(error) if error.is_disk_failure() => return Err(error.to_string()),
            Err(error) => return Ok(Err(error.code())),
        }
        let answer = protocol::Answer::Done {
            error: ErrorCode::None,
        };
        let low_watermark = partition.low_watermark();
        let Some(low_watermark) = low_watermark.filter(|_| !self.deletes_alone()) else {
            out.deleted.extend(self.deleted(log, offset.0));
            out.tell(caller, answer);
            return Ok(Ok(()));
        };
        self.answers.push(WaitingAnswer {
            caller,
            answer,
            deadline: now.monotonic.plus_ms(PRODUCE_TIMEOUT_MS),
            replicated: Box::pin(async move {
                let deleted = partition.wait_for_low_watermark(leadership, &low_watermark, offset);
                deleted.await.map(drop)
            }),
            deleted: Some((log, offset.0)),
        });
        Ok(Ok(()))
    }

    /// That the records before an offset are deleted, as this broker says now.
    pub(super) fn deleted(&self, log: Log, end_offset: i64) -> Option<Deleted> {
        let partition = self.partitions.get(&log)?;
        let cluster = &self.image.cluster;
        let is_alive = |id| cluster.broker(id).is_some_and(|one| !one.is_fenced);
        let followers = partition.followers().into_iter();
        Some(Deleted {
            log,
            end_offset,
            leader_epoch: partition.offsets().leader_epoch,
            followers: followers
                .map(|one| (one.broker_id, is_alive(one.broker_id)))
                .collect(),
        })
    }

    /// Whether followers are not told of records that are deleted.
    pub(super) fn deletes_alone(&self) -> bool {
        self.planted == PlantedInCluster::DeletesAlone
    }

    /// Where a log ends for a consumer.
    pub(super) fn end_offset(
        &self,
        log: Log,
        leader_epoch: LeaderEpoch,
        is_committed: bool,
    ) -> Result<i64, ErrorCode> {
        let partition = self.find(log)?;
        partition.check_leader(leader_epoch)?;
        // Before: until it is known, what is beyond the high watermark may have been seen.
        let is_current = partition.is_high_watermark_current();
        let offsets = partition.offsets();
        match is_current || self.planted == PlantedInCluster::ListsOldEnds {
            true if is_committed => Ok(offsets.last_stable_offset.0),
            true => Ok(offsets.high_watermark.0),
            false => Err(ErrorCode::OffsetNotAvailable),
        }
    }

    /// Where an epoch has ended.
    pub(super) fn epoch_end(
        &self,
        log: Log,
        leader_epoch: LeaderEpoch,
        epoch: LeaderEpoch,
    ) -> Result<(LeaderEpoch, Offset), ErrorCode> {
        let partition = self.find(log)?;
        partition.check_leader(leader_epoch)?;
        let end = partition.end_offset_of_epoch(epoch);
        let end = end.map_err(|_| ErrorCode::KafkaStorageError)?;
        let (epoch, end_offset) = end.unwrap_or((LeaderEpoch::NONE, Offset::NONE));
        Ok(match self.planted {
            PlantedInCluster::TellsLastOffsets => (epoch, end_offset - 1),
            _ => (epoch, end_offset),
        })
    }

    /// Reads for a consumer.
    pub(in crate::cluster) fn fetch(
        &self,
        log: Log,
        leader_epoch: LeaderEpoch,
        offset: Offset,
        is_committed: bool,
    ) -> Fetched {
        let partition = match self.find(log) {
            Ok(partition) => partition,
            Err(error) => return Fetched::refused(error),
        };
        let isolation = match (self.planted, is_committed) {
            (PlantedInCluster::ReadsToTheEnd, _) => Isolation::LogEnd,
            (_, true) => Isolation::LastStableOffset,
            (_, false) => Isolation::HighWatermark,
        };
        let read = partition.read(&ReadRequest {
            current_leader_epoch: leader_epoch,
            fetch_offset: offset,
            last_fetched_epoch: LeaderEpoch::NONE,
            max_bytes: 4_000,
            at_least_one_batch: true,
            isolation,
            is_leader_asked: true,
        });
        let read = match read {
            Ok(read) => read,
            Err(error) => return Fetched::refused(error.code()),
        };
        let Ok(records) = read.records.map(|slice| slice.to_vec()).transpose() else {
            return Fetched::refused(ErrorCode::KafkaStorageError);
        };
        Fetched {
            error: ErrorCode::None,
            high_watermark: read.offsets.high_watermark.0,
            last_stable_offset: read.offsets.last_stable_offset.0,
            log_start_offset: read.offsets.log_start_offset.0,
            aborted: read.aborted_transactions.unwrap_or_default(),
            records: records.unwrap_or_default(),
        }
    }
}

fn rules_of(max_message_bytes: usize) -> ValidationRules {
    ValidationRules {
        max_message_bytes,
        timestamp_type: TimestampType::CreateTime,
        timestamp_before_max_ms: i64::MAX,
        timestamp_after_max_ms: i64::MAX,
        is_compacted: false,
        compression: TargetCompression::Producer,
        decompressed_max_bytes: 1 << 20,
    }
}
