//! A log of keyed records that a script writes, compacts and shows.
//!
//! ```text
//!   put a=1 b=2 c-        a batch: two records and a tombstone
//!   idempotent 5 a=1      the same of producer 5; `transactional 5 a=1` in its transaction
//!   commit 5, abort 5     the marker
//!   keyless x             a record without a key
//!   epoch 5               producer 5 starts again in its next epoch
//!   roll, at 1000         a new segment; the time
//!   lack, plenty          no file can be opened from here on; any can
//!   compact, reopen       by the checkpoint of the last compaction; as after a crash
//!   show                  every batch that is there
//! ```

use model::{LeaderEpoch, Offset, ProducerEpoch, ProducerId};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use record::{
    BatchBuilder, BatchHeader, Batches, Compression, ControlRecord, Decompressor, RecordBatch,
    TransactionResult, ValidatedBatch,
};
use storage::sim::{Crash, SimDisk};
use storage::{AppendOptions, CleanError, CleanupPolicy, Log, LogConfig, LogOpening, OffsetMap};

use super::{marker, opening, small_config};

/// A log with what a broker would remember of it.
pub(crate) struct Compacted {
    pub(crate) disk: SimDisk,
    pub(crate) log: Log<SimDisk>,
    pub(crate) now_ms: i64,
    pub(crate) checkpoint: Option<i64>,
    pub(crate) map_bytes: u64,
    config: LogConfig,
    sequences: BTreeMap<i64, (i16, i32)>,
}

impl Compacted {
    pub(crate) fn new(change: impl FnOnce(&mut LogConfig)) -> Self {
        let mut config = LogConfig {
            cleanup_policy: CleanupPolicy {
                delete: false,
                compact: true,
            },
            min_cleanable_dirty_ratio: 0.0,
            delete_retention_ms: 1000,
            ..small_config()
        };
        change(&mut config);
        let disk = SimDisk::default();
        let log = Log::create(LogOpening {
            config: Arc::new(config.clone()),
            ..opening(&disk)
        });
        Self {
            disk,
            log: log.unwrap(),
            now_ms: 0,
            checkpoint: None,
            map_bytes: 1 << 20,
            config,
            sequences: BTreeMap::new(),
        }
    }

    /// Runs a script and returns what it shows.
    pub(crate) fn run(&mut self, script: &str) -> String {
        let mut shown = String::new();
        for line in script
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
        {
            match line.split_once(' ').unwrap_or((line, "")) {
                ("show", _) => shown.push_str(&self.show()),
                ("compact", _) => self.compact().unwrap(),
                ("compact-while-trimmed-to", offset) => {
                    let outcome = self.compact_while_trimmed(offset.parse().ok());
                    shown.push_str(match outcome {
                        Ok(()) => "compacted\n",
                        Err(CleanError::Missing(_) | CleanError::Changed) => "to be tried again\n",
                        Err(error) => panic!("{error}"),
                    });
                }
                ("reopen", _) => self.crash(Crash::KeepsAll),
                ("roll", _) => self.log.roll_segment(self.now_ms).unwrap(),
                ("lack", _) => self.disk.set_out_of_files(true),
                ("plenty", _) => self.disk.set_out_of_files(false),
                ("at", time) => self.now_ms = time.parse().unwrap(),
                ("put", records) => self.append(BatchHeader::default(), records),
                ("keyless", value) => {
                    let mut builder = BatchBuilder::new(BatchHeader::default());
                    builder.append(self.now_ms, None, Some(value.as_bytes()), &[]);
                    self.append_batch(builder.into_batch(Compression::None));
                }
                ("commit", id) => self.end(id.parse().unwrap(), false),
                ("abort", id) => self.end(id.parse().unwrap(), true),
                ("epoch", id) => {
                    let producer = self.sequences.entry(id.parse().unwrap()).or_default();
                    *producer = (producer.0 + 1, 0);
                }
                (kind @ ("idempotent" | "transactional"), rest) => {
                    let (id, records) = rest.split_once(' ').unwrap();
                    self.produce(id.parse().unwrap(), kind == "transactional", records);
                }
                (other, _) => panic!("{other} is no command"),
            }
            self.advance_high_watermark();
        }
        shown
    }

    pub(crate) fn produce(&mut self, id: i64, is_transactional: bool, records: &str) {
        let producer = self.sequences.entry(id).or_default();
        let (epoch, sequence) = *producer;
        producer.1 += records.split_whitespace().count() as i32;
        let header = BatchHeader {
            producer_id: ProducerId(id),
            producer_epoch: ProducerEpoch(epoch),
            base_sequence: sequence,
            is_transactional,
            ..BatchHeader::default()
        };
        self.append(header, records);
    }

    pub(crate) fn append(&mut self, header: BatchHeader, records: &str) {
        let mut builder = BatchBuilder::new(header);
        for record in records.split_whitespace() {
            let (key, value) = match record.split_once('=') {
                Some((key, value)) => (key, Some(value.as_bytes())),
                None => (record.trim_end_matches('-'), None),
            };
            builder.append(self.now_ms, Some(key.as_bytes()), value, &[]);
        }
        self.append_batch(builder.into_batch(Compression::None));
    }

    fn append_batch(&mut self, mut batch: ValidatedBatch<'_>) {
        let options = AppendOptions::client(LeaderEpoch(0), self.now_ms);
        self.log.append_as_leader(&mut batch, options).unwrap();
    }

    pub(crate) fn end(&mut self, id: i64, is_abort: bool) {
        let epoch = self.sequences.get(&id).map_or(0, |producer| producer.0);
        let mut bytes = marker(id, epoch, is_abort);
        let options = AppendOptions::coordinator(LeaderEpoch(0), self.now_ms);
        self.log.append_as_leader(&mut bytes, options).unwrap();
    }

    pub(crate) fn advance_high_watermark(&mut self) {
        let end = self.log.log_end_offset();
        self.log.producer_state_mut().advance_high_watermark(end);
    }

    /// One whole compaction, as a broker does it.
    pub(crate) fn compact(&mut self) -> Result<(), CleanError> {
        self.compact_while_trimmed(None)
    }

    /// Compacts; meanwhile the records below an offset are deleted, with the segments that are below it.
    fn compact_while_trimmed(&mut self, trimmed_to: Option<i64>) -> Result<(), CleanError> {
        self.log.flush(self.now_ms)?;
        let state = self.log.producer_state();
        let stable = state.first_unstable_offset();
        let stable = stable.unwrap_or(self.log.log_end_offset());
        let candidate = self
            .log
            .compaction_candidate(self.checkpoint.map(Offset), stable, self.now_ms)
            .unwrap();
        let mut compaction = self
            .log
            .begin_compaction(&candidate.cleanable, self.now_ms, 4096);
        let records = compaction.dirty_record_count_max();
        let mut map = OffsetMap::new(self.map_bytes, 0.9, records, [1, 2]);
        let end = compaction.index_keys(&mut map, &mut |_| true)?;
        if let Some(offset) = trimmed_to {
            self.log.advance_log_start_offset(Offset(offset))?;
            self.log
                .delete_old_segments(Offset(offset), self.now_ms)
                .unwrap();
        }
        while let Some(group) = compaction.next_group(&map) {
            let cleaned = compaction.clean_group(group, &map, &mut |_| true)?;
            assert!(self.log.replace_segments(cleaned, self.now_ms)?);
        }
        compaction.sync_directory()?;
        self.checkpoint = Some(end.0);
        Ok(())
    }

    /// Loses what `crash` loses, and opens the log again.
    pub(crate) fn crash(&mut self, crash: Crash) {
        let recovery_point = self.log.recovery_point();
        self.disk.crash(crash);
        let opened = Log::open(LogOpening {
            config: Arc::new(self.config.clone()),
            recovery_point,
            now_ms: self.now_ms,
            ..opening(&self.disk)
        });
        self.log = opened.unwrap().log;
        self.advance_high_watermark();
    }

    /// All that there is.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut buffer = Vec::new();
        let mut offset = self.log.log_start_offset();
        while offset < self.log.log_end_offset() {
            offset = self
                .log
                .read_into(offset, 1 << 20, Offset::MAX, &mut buffer)
                .unwrap();
        }
        buffer
    }

    /// What somebody who reads all committed records keeps: the last value of each key.
    pub(crate) fn table(&self) -> BTreeMap<String, String> {
        let end = self.log.log_end_offset();
        let aborted = self.log.aborted_transactions(Offset(0), end).unwrap();
        let mut table = BTreeMap::new();
        let bytes = self.bytes();
        for batch in Batches::new(&bytes) {
            let batch = batch.unwrap();
            let is_aborted = aborted.iter().any(|one| {
                one.producer_id == batch.producer_id()
                    && batch.is_transactional()
                    && (one.first_offset..one.last_offset).contains(&batch.base_offset())
            });
            if batch.is_control() || is_aborted {
                continue;
            }
            for (_, key, value) in records(&batch) {
                match value {
                    Some(value) => table.insert(key, value),
                    None => table.remove(&key),
                };
            }
        }
        table
    }

    fn show(&self) -> String {
        let mut shown = String::new();
        let bytes = self.bytes();
        for batch in Batches::new(&bytes) {
            let batch = batch.unwrap();
            assert!(batch.is_crc_valid());
            write!(shown, "{}..={}", batch.base_offset(), batch.last_offset()).unwrap();
            if batch.has_producer_id() {
                write!(shown, " of {}", batch.producer_id()).unwrap();
            }
            if let Some(horizon_ms) = batch.delete_horizon_ms() {
                write!(shown, " until {horizon_ms}").unwrap();
            }
            shown.push(':');
            if batch.record_count() == 0 {
                shown.push_str(" empty");
            } else if batch.is_control() {
                shown.push_str(match control(&batch) {
                    TransactionResult::Commit => " commit",
                    TransactionResult::Abort => " abort",
                });
            } else {
                for (offset, key, value) in records(&batch) {
                    let value = value.map_or("-".to_owned(), |value| format!("={value}"));
                    write!(shown, " {key}{value}@{offset}").unwrap();
                }
            }
            shown.push('\n');
        }
        shown
    }
}

fn records(batch: &RecordBatch<'_>) -> Vec<(i64, String, Option<String>)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let mut scratch = Vec::new();
    let mut decompressor = Decompressor::new();
    let records = batch.records(&mut decompressor, &mut scratch, 1 << 20);
    let records = records.unwrap().map(|record| {
        let record = record.unwrap();
        let key = record.key.map_or(String::new(), text);
        (record.offset.0, key, record.value.map(text))
    });
    records.collect()
}

fn control(batch: &RecordBatch<'_>) -> TransactionResult {
    let mut scratch = Vec::new();
    let mut decompressor = Decompressor::new();
    let records = batch.records(&mut decompressor, &mut scratch, 1 << 20);
    let record = records.unwrap().next().unwrap().unwrap();
    match ControlRecord::parse(&record).unwrap() {
        ControlRecord::EndTransaction(marker) => marker.result,
        ControlRecord::Other(..) => panic!("no marker"),
    }
}
