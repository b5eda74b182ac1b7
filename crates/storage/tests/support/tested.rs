//! A log as a list of batches, and the real one beside it: every step is taken by both, and after
//! a crash the real one has to be something the list allows.

use model::{LeaderEpoch, Offset, ProducerEpoch, ProducerId};
use std::path::Path;
use std::sync::Arc;

use record::ValidatedBatch;
use storage::sim::{Crash, SimDisk};
use storage::{AppendOptions, Disk, Log, LogConfig, RecoveryEvent};

use super::{batch, marker, opening, producer_batch, read_all, small_config, transactional_batch};

/// A step of a log's life. Numbers are reduced to what makes sense at the time.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// A batch of so many records, with this time and this much text.
    Append {
        count: usize,
        timestamp_ms: i64,
        padding: usize,
    },
    /// A batch of an idempotent producer.
    AppendIdempotent {
        producer: usize,
        count: usize,
    },
    /// A batch of a transaction.
    AppendTransactional {
        producer: usize,
        count: usize,
    },
    /// The end of a transaction.
    EndTransaction {
        producer: usize,
        is_abort: bool,
    },
    /// Batches as a follower gets them, after a gap that compaction has left.
    Replicate {
        gap: i64,
        count: usize,
    },
    Roll,
    Flush,
    NextEpoch,
    /// To this share of the log, in percent.
    Truncate {
        percent: i64,
    },
    AdvanceStart {
        percent: i64,
    },
    /// Removes segments until this many bytes are left.
    DeleteOld {
        retention_bytes: i64,
    },
    RestartAt {
        ahead: i64,
    },
    CloseIdleFiles,
    CloseAndOpen,
    Crash {
        crash: Crash,
    },
}

/// What has to be read back: offset, time, value. Markers have no value.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ModelRecord {
    offset: i64,
    timestamp_ms: i64,
    value: Option<String>,
    epoch: i32,
}

/// What a batch means to its producer's transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Nothing,
    Records { producer: usize },
    Marker { producer: usize, is_abort: bool },
}

/// Base and last offset of a batch, and its part in a transaction.
type ModelBatch = (i64, i64, Part);

#[derive(Debug, Clone, Default)]
struct Model {
    records: Vec<ModelRecord>,
    batches: Vec<ModelBatch>,
    start: i64,
    end: i64,
}

#[derive(Debug, Clone, Copy, Default)]
struct ModelProducer {
    epoch: i16,
    next_sequence: i32,
    in_transaction: bool,
}

/// A log with its model.
#[derive(Debug)]
pub(crate) struct Tested {
    pub(crate) disk: SimDisk,
    log: Option<Log<SimDisk>>,
    model: Model,
    /// The model before the step that is being taken.
    before: Model,
    /// Records below survive any crash.
    flushed_end: i64,
    /// Set while a step that forgets everything is being taken.
    may_lose_all: bool,
    recovery_point_checkpoint: i64,
    log_start_checkpoint: i64,
    /// Whether the last crash was that of the machine.
    has_machine_stopped: bool,
    epoch: i32,
    producers: [ModelProducer; 3],
    value_count: usize,
    now_ms: i64,
}

impl Tested {
    pub(crate) fn new() -> Self {
        let disk = SimDisk::default();
        let log = Log::create(opening(&disk)).unwrap();
        Self {
            disk,
            log: Some(log),
            model: Model::default(),
            before: Model::default(),
            flushed_end: 0,
            may_lose_all: false,
            recovery_point_checkpoint: 0,
            log_start_checkpoint: 0,
            has_machine_stopped: false,
            epoch: 0,
            producers: [ModelProducer::default(); 3],
            value_count: 0,
            now_ms: 0,
        }
    }

    pub(crate) fn log(&self) -> &Log<SimDisk> {
        self.log.as_ref().unwrap()
    }

    fn log_mut(&mut self) -> &mut Log<SimDisk> {
        self.log.as_mut().unwrap()
    }

    /// Takes a step; `Err` when the disk has stopped.
    #[expect(clippy::too_many_lines, reason = "a script is read from top to bottom")]
    pub(crate) fn step(&mut self, step: &Step) -> Result<(), String> {
        self.now_ms += 10;
        self.before = self.model.clone();
        let now_ms = self.now_ms;
        match *step {
            Step::Append {
                count,
                timestamp_ms,
                padding,
            } => {
                let values = self.values(count, padding);
                self.append(
                    batch(timestamp_ms, &refs(&values)),
                    timestamp_ms,
                    Some(values),
                    Part::Nothing,
                )
            }
            Step::AppendIdempotent { producer, count } => {
                let values = self.values(count, 0);
                let state = self.producers[producer];
                if state.in_transaction {
                    return Ok(());
                }
                let id = producer as i64;
                let sequence = state.next_sequence;
                let records = producer_batch(id, state.epoch, sequence, &refs(&values));
                self.producers[producer].next_sequence += count as i32;
                self.append(records, 0, Some(values), Part::Nothing)
            }
            Step::AppendTransactional { producer, count } => {
                let values = self.values(count, 0);
                let state = self.producers[producer];
                let id = producer as i64;
                let sequence = state.next_sequence;
                let records = transactional_batch(id, state.epoch, sequence, &refs(&values));
                self.producers[producer].next_sequence += count as i32;
                self.producers[producer].in_transaction = true;
                self.append(records, 0, Some(values), Part::Records { producer })
            }
            Step::EndTransaction { producer, is_abort } => {
                let state = self.producers[producer];
                self.producers[producer].in_transaction = false;
                let part = Part::Marker { producer, is_abort };
                let records = marker(producer as i64, state.epoch, is_abort);
                self.append(records, 0, None, part)
            }
            Step::Replicate { gap, count } => self.replicate(gap, count),
            Step::Roll => {
                self.log_mut().roll_segment(now_ms).map_err(shown)?;
                Ok(())
            }
            Step::Flush => {
                self.log_mut().flush(now_ms).map_err(shown)?;
                self.flushed_end = self.model.end;
                // The checkpoint is written now and then, so it may be older.
                if now_ms % 20 == 0 {
                    self.recovery_point_checkpoint = self.log().recovery_point().0;
                }
                Ok(())
            }
            Step::NextEpoch => {
                self.epoch += 1;
                let (epoch, end) = (self.epoch, self.model.end);
                self.log_mut()
                    .assign_leader_epoch(LeaderEpoch(epoch), Offset(end))
                    .map_err(shown)
            }
            Step::Truncate { percent } => self.truncate(percent),
            Step::AdvanceStart { percent } => {
                let span = self.model.end - self.model.start;
                let offset = self.model.start + span * percent / 100;
                self.log_start_checkpoint = self.log_start_checkpoint.max(offset);
                self.model.start = offset;
                let advanced = self.log_mut().advance_log_start_offset(Offset(offset));
                assert!(advanced.map_err(shown)?.is_some());
                Ok(())
            }
            Step::DeleteOld { retention_bytes } => self.delete_old(retention_bytes),
            Step::RestartAt { ahead } => self.restart(ahead),
            Step::CloseIdleFiles => {
                self.log_mut().close_idle_files();
                Ok(())
            }
            Step::CloseAndOpen => {
                self.log_mut().close(now_ms).map_err(shown)?;
                self.flushed_end = self.model.end;
                self.recovery_point_checkpoint = self.log().recovery_point().0;
                // All that is closed is durable.
                self.disk.crash(Crash::LosesUnsynced);
                self.open(true);
                Ok(())
            }
            Step::Crash { crash } => {
                self.crash(crash);
                Ok(())
            }
        }
    }

    /// Crashes, opens the log again, and compares it with what it may be.
    pub(crate) fn crash(&mut self, crash: Crash) {
        self.disk.crash(crash);
        self.has_machine_stopped = crash != Crash::KeepsAll;
        self.open(false);
    }

    fn values(&mut self, count: usize, padding: usize) -> Vec<String> {
        let first = self.value_count;
        self.value_count += count;
        let padding = "x".repeat(padding);
        (first..first + count)
            .map(|at| format!("value {at} {padding}"))
            .collect()
    }

    fn append(
        &mut self,
        mut records: ValidatedBatch<'static>,
        timestamp_ms: i64,
        values: Option<Vec<String>>,
        part: Part,
    ) -> Result<(), String> {
        let base_offset = self.model.end;
        let count = values.as_ref().map_or(1, Vec::len) as i64;
        self.note(base_offset, timestamp_ms, values, part);
        let options = AppendOptions::client(LeaderEpoch(self.epoch), self.now_ms);
        let appended = self
            .log_mut()
            .append_as_leader(&mut records, options)
            .map_err(shown)?;
        assert_eq!(appended.base_offset, Offset(base_offset));
        assert_eq!(appended.last_offset, Offset(base_offset + count - 1));
        assert!(!appended.is_duplicate);
        Ok(())
    }

    fn note(
        &mut self,
        base_offset: i64,
        timestamp_ms: i64,
        values: Option<Vec<String>>,
        part: Part,
    ) {
        let values: Vec<Option<String>> = match values {
            Some(values) => values.into_iter().map(Some).collect(),
            None => vec![None],
        };
        let mut offset = base_offset;
        for value in values {
            self.model.records.push(ModelRecord {
                offset,
                timestamp_ms,
                value,
                epoch: self.epoch,
            });
            offset += 1;
        }
        self.model.batches.push((base_offset, offset - 1, part));
        self.model.end = offset;
    }

    fn replicate(&mut self, gap: i64, count: usize) -> Result<(), String> {
        let mut bytes = Vec::new();
        let mut base_offset = self.model.end + gap;
        for _ in 0..2 {
            let values = self.values(count, 0);
            let mut records = batch(5, &refs(&values));
            records.stamp(Offset(base_offset), LeaderEpoch(self.epoch), None);
            self.note(base_offset, 5, Some(values), Part::Nothing);
            base_offset += count as i64;
            bytes.extend_from_slice(records.bytes());
        }
        // What a fetch cuts off.
        bytes.extend_from_slice(&batch(5, &["cut"]).bytes()[..40]);
        let (epoch, now_ms) = (self.epoch, self.now_ms);
        let appended = self
            .log_mut()
            .append_as_follower(&bytes, LeaderEpoch(epoch), now_ms);
        assert_eq!(
            appended.map_err(shown)?.last_offset + 1,
            Offset(self.model.end)
        );
        Ok(())
    }

    fn truncate(&mut self, percent: i64) -> Result<(), String> {
        let span = self.model.end - self.model.start;
        let offset = self.model.start + span * percent / 100;
        if offset >= self.model.end {
            return Ok(());
        }
        self.flushed_end = self.flushed_end.min(offset);
        // A batch that holds the offset goes as a whole.
        let kept: Vec<_> = self
            .model
            .batches
            .iter()
            .copied()
            .filter(|b| b.1 < offset)
            .collect();
        let end = kept.last().map_or(i64::MIN, |last| last.1 + 1);
        self.model.batches = kept;
        self.model.records.retain(|record| record.offset < end);
        self.model.end = offset;
        let now_ms = self.now_ms;
        assert!(
            self.log_mut()
                .truncate_to(Offset(offset), now_ms)
                .map_err(shown)?
        );
        self.recovery_point_checkpoint = self.log().recovery_point().0;
        self.refresh_producers();
        Ok(())
    }

    fn delete_old(&mut self, retention_bytes: i64) -> Result<(), String> {
        let config = LogConfig {
            retention_bytes,
            ..small_config()
        };
        let (end, now_ms) = (self.model.end, self.now_ms);
        self.log_mut().set_config(Arc::new(config));
        let deleted = self
            .log_mut()
            .delete_old_segments(Offset(end), now_ms)
            .map_err(shown)?;
        self.model.start = self.model.start.max(deleted.log_start_offset.0);
        assert_eq!(deleted.log_start_offset, Offset(self.model.start));
        self.log_start_checkpoint = self.model.start;
        self.log_mut().set_config(Arc::new(small_config()));
        self.log_mut()
            .remove_deleted_files(now_ms - 100)
            .map_err(shown)
    }

    fn restart(&mut self, ahead: i64) -> Result<(), String> {
        let offset = (self.model.end + ahead).max(1);
        self.may_lose_all = true;
        let now_ms = self.now_ms;
        self.log_mut()
            .restart_at(Offset(offset), now_ms)
            .map_err(shown)?;
        self.may_lose_all = false;
        self.model = Model {
            start: offset,
            end: offset,
            ..Model::default()
        };
        self.flushed_end = offset;
        self.recovery_point_checkpoint = offset;
        self.log_start_checkpoint = offset;
        self.refresh_producers();
        Ok(())
    }

    fn open(&mut self, is_clean: bool) {
        let mut opening = opening(&self.disk);
        opening.is_clean = is_clean;
        opening.has_machine_stopped = self.has_machine_stopped;
        opening.recovery_point = Offset(self.recovery_point_checkpoint);
        opening.log_start_offset = Offset(self.log_start_checkpoint);
        opening.now_ms = self.now_ms;
        if self.disk.status(Path::new("/topic-0")).is_err() {
            // Not even the directory has become durable.
            let flushed_end = self.flushed_end;
            let mut records = self.model.records.iter();
            assert!(records.all(|record| record.offset >= flushed_end));
            let start = self.log_start_checkpoint;
            self.log = Some(Log::create(opening).unwrap());
            self.model = Model {
                start,
                end: start,
                ..Model::default()
            };
            self.refresh_producers();
            return;
        }
        let opened = Log::open(opening).unwrap();
        if is_clean {
            // A log that was truncated within a batch, below its start, starts anew.
            let start = self.model.start;
            let has_records = self
                .model
                .records
                .iter()
                .any(|record| record.offset >= start);
            let is_leftover = |event: &RecoveryEvent| match event {
                RecoveryEvent::LeftoverRemoved { .. } => true,
                _ => !has_records,
            };
            assert!(opened.events.iter().all(is_leftover), "{:?}", opened.events);
            // A log that was truncated within a batch ends where its last batch does.
            let found = opened.log.log_end_offset();
            let batch_end = self.model.batches.last().map_or(0, |last| last.1 + 1);
            assert!(found == Offset(self.model.end) || found >= Offset(batch_end));
        }
        self.log = Some(opened.log);
        self.settle_after_crash();
        self.check();
        self.check_producers();
        self.refresh_producers();
    }

    /// The log may be what it was before the last step or after it, short of what was not flushed.
    fn settle_after_crash(&mut self) {
        let log = self.log.as_ref().unwrap();
        let (start, end) = (log.log_start_offset(), log.log_end_offset());
        let found = read_all(log, start.0);
        if self.may_lose_all {
            self.may_lose_all = false;
            self.flushed_end = 0;
            self.model.start = start.0;
        }
        for mut model in [self.model.clone(), self.before.clone()] {
            model.batches.retain(|batch| batch.1 < end.0);
            let kept_end = model.batches.last().map_or(i64::MIN, |last| last.1 + 1);
            let is_complete = model
                .records
                .iter()
                .all(|record| record.offset < kept_end || record.offset >= self.flushed_end);
            model.records.retain(|record| record.offset < kept_end);
            model.start = start.0;
            model.end = end.0;
            // What is lost is the end: no younger batch is there without the older ones.
            let expected = model.values();
            if is_complete && found == expected {
                self.flushed_end = self.flushed_end.min(end.0);
                self.model = model;
                return;
            }
        }
        panic!(
            "after a crash the log holds {start}..{end} {found:?}, flushed to {}: {:?} {:?}",
            self.flushed_end, self.model, self.before
        );
    }

    /// Compares all that can be asked of the log.
    pub(crate) fn check(&self) {
        let (log, model) = (self.log(), &self.model);
        assert_eq!(log.log_start_offset(), Offset(model.start));
        assert_eq!(log.log_end_offset(), Offset(model.end));
        assert_eq!(read_all(log, model.start), model.values());
        let readable = model
            .records
            .iter()
            .filter(|record| record.offset >= model.start);
        for record in readable.clone() {
            let first = log
                .read(Offset(record.offset), 1, Offset::MAX, true)
                .unwrap();
            let bytes = first.slice.as_ref().unwrap().to_vec().unwrap();
            let (found, _) = record::RecordBatch::parse(&bytes).unwrap();
            assert!(
                found.base_offset() <= Offset(record.offset)
                    && found.last_offset() >= Offset(record.offset)
            );
            assert_eq!(found.partition_leader_epoch(), LeaderEpoch(record.epoch));
            assert_eq!(
                log.leader_epochs().epoch_for_offset(Offset(record.offset)),
                Some(LeaderEpoch(record.epoch)),
                "{record:?} {:?}",
                log.leader_epochs()
            );
        }
        let timestamps: Vec<i64> = readable.clone().map(|record| record.timestamp_ms).collect();
        for timestamp_ms in timestamps.iter().flat_map(|at| [at - 1, *at, at + 1]) {
            let expected = readable
                .clone()
                .find(|record| record.timestamp_ms >= timestamp_ms);
            let found = log.offset_for_timestamp(timestamp_ms).unwrap();
            let found = found.map(|found| (found.offset.0, found.timestamp_ms));
            let expected = expected.map(|record| (record.offset, record.timestamp_ms));
            assert_eq!(found, expected, "time {timestamp_ms}");
        }
        self.check_transactions();
    }

    /// Open transactions hold the last stable offset back, and aborted ones are found by any range
    /// that they overlap; so long as nothing of the log's start is gone.
    fn check_transactions(&self) {
        let (log, model) = (self.log(), &self.model);
        if model.start > 0 {
            return;
        }
        let (open, aborted) = model.transactions();
        let mut settled = log.producer_state().clone();
        settled.advance_high_watermark(Offset(model.end));
        assert_eq!(
            settled.first_unstable_offset(),
            settled.first_open_transaction()
        );
        let found = settled.first_open_transaction().map(|offset| offset.0);
        let is_lost = |offset| !model.batches.iter().any(|batch| batch.0 == offset);
        // A transaction whose records a crash has taken may still be known.
        let is_leftover = found.is_some_and(|at| is_lost(at) && open.is_none_or(|open| at < open));
        assert!(found == open || is_leftover, "{found:?} for {open:?}");
        let mut bounds: Vec<i64> = model.batches.iter().map(|batch| batch.0).collect();
        bounds.push(model.end);
        for start in bounds.iter().step_by(3) {
            for end in bounds.iter().rev().step_by(4).filter(|end| *end > start) {
                let found = log
                    .aborted_transactions(Offset(*start), Offset(*end))
                    .unwrap();
                let found = found
                    .iter()
                    .map(|one| (one.producer_id, one.first_offset.0, one.last_offset.0));
                let found: Vec<_> = found.filter(|one| !is_lost(one.1)).collect();
                let overlapping = aborted
                    .iter()
                    .filter(|(_, first, last)| last >= start && first < end);
                let expected: Vec<_> = overlapping.copied().collect();
                assert_eq!(
                    found, expected,
                    "{start}..{end} of {aborted:?} {:?}",
                    model.batches
                );
            }
            self.check_slice(*start, &aborted);
        }
    }

    /// A slice brings every aborted transaction that it has records of.
    fn check_slice(&self, start: i64, aborted: &[(ProducerId, i64, i64)]) {
        let slice = self
            .log()
            .read(Offset(start), 300, Offset::MAX, true)
            .unwrap();
        let brought = self
            .log()
            .aborted_transactions_in(Offset(start), &slice)
            .unwrap();
        let brought: Vec<_> = brought
            .iter()
            .map(|one| (one.producer_id, one.first_offset.0, one.last_offset.0))
            .collect();
        let offsets = super::records_of(&slice, start);
        for (offset, _) in offsets {
            let mut batches = self.model.batches.iter();
            let batch = batches.find(|batch| (batch.0..=batch.1).contains(&offset));
            let Some((_, _, Part::Records { producer })) = batch else {
                continue;
            };
            let needed = aborted.iter().find(|(id, first, last)| {
                *id == ProducerId(*producer as i64) && (*first..*last).contains(&offset)
            });
            assert!(needed.is_none_or(|one| brought.contains(one)), "{offset}");
        }
    }

    /// The producer state is that of a log which is replayed from its first batch.
    fn check_producers(&self) {
        if self.model.start > 0 {
            return;
        }
        let disk = self.disk.fork();
        for entry in disk.list(Path::new("/topic-0")).unwrap() {
            if entry.name.ends_with(".snapshot") {
                disk.remove_file(&Path::new("/topic-0").join(entry.name))
                    .unwrap();
            }
        }
        let mut opening = opening(&disk);
        opening.now_ms = self.now_ms;
        let replayed = Log::open(opening).unwrap().log;
        let shown = |log: &Log<SimDisk>| -> Vec<String> {
            let entries = log.producer_state().producers().map(|(id, entry)| {
                format!(
                    "{id}: epoch {} last {:?} time {} transaction {:?}",
                    entry.producer_epoch(),
                    entry
                        .batches()
                        .last()
                        .map(|batch| (batch.last_sequence, batch.last_offset)),
                    entry.last_timestamp_ms(),
                    entry.transaction_first_offset(),
                )
            });
            entries.collect()
        };
        assert_eq!(shown(self.log()), shown(&replayed));
        let open = |log: &Log<SimDisk>| log.producer_state().first_open_transaction();
        assert_eq!(open(self.log()), open(&replayed));
    }

    /// Producers go on from what the log knows of them.
    fn refresh_producers(&mut self) {
        let log = self.log.as_ref().unwrap();
        for (id, producer) in self.producers.iter_mut().enumerate() {
            let entries = log.producer_state().producers();
            let entry = entries
                .into_iter()
                .find(|(found, _)| *found == ProducerId(id as i64));
            *producer = entry.map_or(ModelProducer::default(), |(_, entry)| ModelProducer {
                epoch: entry.producer_epoch().max(ProducerEpoch(0)).0,
                next_sequence: entry.last_sequence() + 1,
                in_transaction: entry.transaction_first_offset().is_some(),
            });
        }
    }
}

impl Model {
    /// First offset of the transaction that has been open for longest; producer, first and last
    /// offset of each aborted one, by their last offsets.
    fn transactions(&self) -> (Option<i64>, Vec<(ProducerId, i64, i64)>) {
        let mut open: [Option<i64>; 3] = [None; 3];
        let mut aborted = Vec::new();
        for (base_offset, last_offset, part) in &self.batches {
            match *part {
                Part::Nothing => {}
                Part::Records { producer } => {
                    open[producer].get_or_insert(*base_offset);
                }
                Part::Marker { producer, is_abort } => {
                    if let Some(first) = open[producer].take().filter(|_| is_abort) {
                        aborted.push((ProducerId(producer as i64), first, *last_offset));
                    }
                }
            }
        }
        (open.into_iter().flatten().min(), aborted)
    }

    fn values(&self) -> Vec<(i64, String)> {
        let readable = self
            .records
            .iter()
            .filter(|record| record.offset >= self.start);
        readable
            .filter_map(|record| Some((record.offset, record.value.clone()?)))
            .collect()
    }
}

fn refs(values: &[String]) -> Vec<&str> {
    values.iter().map(String::as_str).collect()
}

fn shown(error: impl std::fmt::Display) -> String {
    error.to_string()
}
