//! Requests about records and topics.

use super::hosting::rules_of;
use super::{Caller, Node, Then};
use crate::halted::Halted;
use crate::partition::SimPartition;
use crate::planted::Planted;
use crate::protocol::{Answer, Ask, Fetched};
use controller::alter_configs::{AlterOptions, AlteredResource, ConfigChange, ConfigOperation};
use controller::create_topics::NewTopic;
use controller::delete_topics::TopicToDelete;
use controller::{AlterConfigs, CreateTopics, DeleteTopics};
use model::{ErrorCode, LeaderEpoch, Now, Offset, Uuid};
use record::{ProduceValidator, RecordBatch, ValidatedBatch, accept_produced};
use replication::{Acks, AppendError, Isolation, ReadRequest, VerificationGuard};
use std::sync::Arc;

const PRODUCE_VERSION: i16 = 13;
const TOPIC_RESOURCE: i8 = 2;
/// Where a batch has its checksum.
const CRC_OFFSET: usize = 17;

impl Node {
    /// Serves a request; the answer is among those to be taken once it may go out.
    pub(crate) fn serve(&mut self, caller: Caller, ask: Ask, now: Now) -> Result<(), Halted> {
        match ask {
            Ask::Produce { .. } => self.produce(caller, ask, now)?,
            Ask::Fetch {
                topic_id,
                partition,
                offset,
                is_committed,
            } => {
                let key = (topic_id, partition);
                let fetched = self.fetch(key, Offset(offset), LeaderEpoch::NONE, is_committed);
                self.answers.push((caller, Answer::Fetched(fetched)));
            }
            Ask::Metadata { topic } => {
                let topic = self.image.topics.by_name(&topic);
                let answer = match topic {
                    Some(topic) => Answer::Metadata {
                        error: ErrorCode::None,
                        topic_id: topic.id,
                        partition_count: i32::try_from(topic.partition_count()).unwrap_or(0),
                    },
                    None => Answer::Metadata {
                        error: ErrorCode::UnknownTopicOrPartition,
                        topic_id: Uuid::ZERO,
                        partition_count: 0,
                    },
                };
                self.answers.push((caller, answer));
            }
            Ask::CreateTopic { .. } | Ask::DeleteTopic { .. } | Ask::AlterConfig { .. } => {
                let mut answer = self.administer(ask, now)?;
                if self.planted == Planted::AcknowledgesRefusals
                    && answer.error() == ErrorCode::KafkaStorageError
                {
                    answer = answer.refused(ErrorCode::None);
                }
                self.tell_controller(now)?;
                self.answers.push((caller, answer));
            }
            Ask::DeleteRecords {
                topic,
                partition,
                offset,
            } => {
                let error = self.delete_records(&topic, partition, Offset(offset))?;
                self.answers.push((caller, Answer::Done { error }));
            }
            Ask::InitProducerId { .. }
            | Ask::EndTransaction { .. }
            | Ask::CommitInTransaction { .. } => self.serve_transaction(caller, ask, now)?,
            _ => self.serve_group(caller, &ask, now)?,
        }
        self.go_on(now)
    }

    pub(super) fn find(&self, topic_id: Uuid, index: i32) -> Result<Arc<SimPartition>, ErrorCode> {
        if self.is_offline {
            return Err(ErrorCode::KafkaStorageError);
        }
        match self.hosting.by_id(topic_id, index) {
            Some(partition) => Ok(partition.clone()),
            None if self.image.topics.by_id(topic_id).is_none() => Err(ErrorCode::UnknownTopicId),
            None => Err(ErrorCode::KafkaStorageError),
        }
    }

    pub(super) fn produce(&mut self, caller: Caller, ask: Ask, now: Now) -> Result<(), Halted> {
        let Ask::Produce {
            topic_id,
            partition,
            transactional_id: Some(transactional_id),
            records,
        } = &ask
        else {
            return self.append(caller, ask, None, now);
        };
        let found = self.find(*topic_id, *partition);
        let (found, batch) = match (
            found,
            accept_produced(RecordBatch::parse(records), PRODUCE_VERSION),
        ) {
            (Ok(found), Ok(batch)) => (found, batch),
            (Err(error), _) => return self.refuse(caller, &ask, error),
            (_, Err(invalid)) => return self.refuse(caller, &ask, invalid.error),
        };
        let first = replication::FirstBatch {
            producer_id: batch.producer_id(),
            producer_epoch: batch.producer_epoch(),
            base_sequence: batch.base_sequence(),
        };
        let id = transactional_id.clone();
        self.verify(&id, &found, first, (caller, ask), now)
    }

    #[expect(clippy::unnecessary_wraps, reason = "its callers return what it does")]
    pub(super) fn refuse(
        &mut self,
        caller: Caller,
        ask: &Ask,
        error: ErrorCode,
    ) -> Result<(), Halted> {
        self.answers.push((caller, ask.refused(error)));
        Ok(())
    }

    /// Appends what may be appended.
    pub(super) fn append(
        &mut self,
        caller: Caller,
        ask: Ask,
        guard: Option<VerificationGuard>,
        now: Now,
    ) -> Result<(), Halted> {
        let Ask::Produce {
            topic_id,
            partition,
            ref records,
            ..
        } = ask
        else {
            return self.commit_in_transaction(caller, &ask, guard, now);
        };
        let found = match self.find(topic_id, partition) {
            Ok(found) => found,
            Err(error) => return self.refuse(caller, &ask, error),
        };
        let mut records = records.clone();
        if self.planted == Planted::TakesDamagedBatches {
            sum_anew(&mut records);
        }
        let mut batch = match validated(&found, &mut records, now.wall_ms) {
            Ok(batch) => batch,
            Err(error) => return self.refuse(caller, &ask, error),
        };
        match found.append_as_leader(&mut batch, guard, Acks::All, now.wall_ms) {
            Ok(appended) => {
                let answer = Answer::Produced {
                    error: ErrorCode::None,
                    base_offset: appended.base_offset.0,
                };
                let until = match self.planted {
                    Planted::AnswersEarly => Vec::new(),
                    _ => vec![(found, appended.last_offset + 1)],
                };
                self.wait(until, Then::Answer(caller, answer));
                Ok(())
            }
            Err(error) => {
                let code = self.survive(error)?;
                self.refuse(caller, &ask, code)
            }
        }
    }

    /// The code of an error that the node survives.
    #[expect(clippy::unused_self, reason = "it is the node that halts")]
    pub(super) fn survive(&self, error: AppendError) -> Result<ErrorCode, Halted> {
        match error.is_disk_failure() {
            true => Err(error.into()),
            false => Ok(error.code()),
        }
    }

    pub(super) fn fetch(
        &self,
        (topic_id, index): (Uuid, i32),
        offset: Offset,
        current_leader_epoch: LeaderEpoch,
        is_committed: bool,
    ) -> Fetched {
        let partition = match self.find(topic_id, index) {
            Ok(partition) => partition,
            Err(error) => return Fetched::refused(error),
        };
        let isolation = match (is_committed, self.planted) {
            (_, Planted::ReadsToTheEnd) => Isolation::LogEnd,
            (true, Planted::ReadsUncommitted) => Isolation::HighWatermark,
            (true, _) => Isolation::LastStableOffset,
            (false, _) => Isolation::HighWatermark,
        };
        let read = partition.read(&ReadRequest {
            current_leader_epoch,
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
        let records = match read.records.map(|slice| slice.to_vec()).transpose() {
            Ok(records) => records.unwrap_or_default(),
            Err(_) => return Fetched::refused(ErrorCode::KafkaStorageError),
        };
        Fetched {
            error: ErrorCode::None,
            high_watermark: read.offsets.high_watermark.0,
            last_stable_offset: match self.planted {
                Planted::TellsUnstableOffsets => read.offsets.log_end_offset.0,
                _ => read.offsets.last_stable_offset.0,
            },
            log_start_offset: read.offsets.log_start_offset.0,
            aborted: read.aborted_transactions.unwrap_or_default(),
            records,
        }
    }

    fn delete_records(
        &mut self,
        topic: &str,
        index: i32,
        offset: Offset,
    ) -> Result<ErrorCode, Halted> {
        let Some(topic_id) = self.image.topics.id_of(topic) else {
            return Ok(ErrorCode::UnknownTopicOrPartition);
        };
        let partition = match self.find(topic_id, index) {
            Ok(partition) => partition,
            Err(error) => return Ok(error),
        };
        if !(Offset::ZERO..=partition.high_watermark()).contains(&offset) {
            return Ok(ErrorCode::OffsetOutOfRange);
        }
        match partition.delete_records_before(offset) {
            Ok(_) => Ok(ErrorCode::None),
            Err(error) => self.survive(error),
        }
    }

    fn administer(&mut self, ask: Ask, now: Now) -> Result<Answer, Halted> {
        let answer = match ask {
            Ask::CreateTopic {
                name,
                partition_count,
                configs,
            } => {
                let configs = configs.into_iter();
                let topic = NewTopic {
                    num_partitions: partition_count,
                    replication_factor: 1,
                    configs: configs.map(|(key, value)| (key, Some(value))).collect(),
                    ..NewTopic::of_defaults(name)
                };
                let create = CreateTopics {
                    topics: vec![topic],
                    validate_only: false,
                };
                let results = match self.control(create, now)? {
                    Ok(results) => results,
                    Err(error) => {
                        return Ok(Answer::Created {
                            error,
                            topic_id: Uuid::ZERO,
                        });
                    }
                };
                match results.into_iter().next().map(|one| one.result) {
                    Some(Ok(created)) => Answer::Created {
                        error: ErrorCode::None,
                        topic_id: created.topic_id,
                    },
                    Some(Err(error)) => Answer::Created {
                        error: error.code,
                        topic_id: Uuid::ZERO,
                    },
                    None => return Err("a topic without a result".into()),
                }
            }
            Ask::DeleteTopic { name } => {
                let topics = vec![TopicToDelete::by_name(name)];
                let results = self.control(DeleteTopics { topics }, now)?;
                let first = results.map(|all| all.into_iter().next().map(|one| one.result));
                Answer::Done {
                    error: first.map_or_else(|error| error, code_of),
                }
            }
            Ask::AlterConfig { topic, key, value } => {
                let operation = ConfigOperation {
                    operation: i8::from(value.is_none()),
                    name: key,
                    value,
                };
                let resource = AlteredResource {
                    resource_type: TOPIC_RESOURCE,
                    resource_name: topic,
                    change: ConfigChange::Operations(vec![operation]),
                };
                let alter = AlterConfigs {
                    resources: vec![resource],
                    options: AlterOptions::default(),
                };
                let results = self.control(alter, now)?;
                let first = results.map(|all| all.into_iter().next());
                Answer::Done {
                    error: first.map_or_else(|error| error, code_of),
                }
            }
            _ => unreachable!("the caller has sorted them"),
        };
        Ok(answer)
    }
}

fn code_of(result: Option<Result<(), controller::ApiError>>) -> ErrorCode {
    match result {
        Some(Ok(())) => ErrorCode::None,
        Some(Err(error)) => error.code,
        None => ErrorCode::UnknownServerError,
    }
}

/// The mistake of writing the checksum of a batch without a look at the one that it has.
fn sum_anew(batch: &mut [u8]) {
    if let Ok((parsed, _)) = RecordBatch::parse(batch) {
        let crc = parsed.computed_crc().to_be_bytes();
        batch[CRC_OFFSET..CRC_OFFSET + crc.len()].copy_from_slice(&crc);
    }
}

/// The batch as it may be appended.
fn validated<'b>(
    partition: &SimPartition,
    records: &'b mut [u8],
    now_ms: i64,
) -> Result<ValidatedBatch<'b>, ErrorCode> {
    let rules = rules_of(&partition.config());
    let mut validator = ProduceValidator::new();
    let validated = validator.validate_produce(records, PRODUCE_VERSION, &rules, now_ms);
    validated.map_err(|invalid| invalid.error)
}
