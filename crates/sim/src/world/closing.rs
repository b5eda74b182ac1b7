//! The end of a world: a last crash, a scan of all that is there, and a stop after which a start finds the
//! same.

use super::World;
use crate::clients::offset_key;
use crate::node::Caller;
use crate::partition::Observed;
use crate::protocol::{Answer, Ask};
use crate::schedule::{STEADY, TRANSACTIONAL};
use model::{ErrorCode, Offset};
use std::path::{Path, PathBuf};
use storage::Disk;
use storage::inspect::{LogFile, LogFileKind, faults_of};
use storage::sim::Crash;

/// More than any batch of a world.
const DECOMPRESSED_BYTES_MAX: usize = 1 << 24;

/// Whether a log's directory is kept for an operator, or about to be deleted.
fn is_set_aside(name: &str) -> bool {
    name.ends_with("-stray") || name.ends_with("-delete")
}

/// A file of a log, or a snapshot of the metadata, which has batches as a segment has.
fn inspected(name: &str) -> Option<LogFile> {
    let is_snapshot =
        name.ends_with(".checkpoint") && name.starts_with(|first: char| first.is_ascii_digit());
    let snapshot = LogFile {
        kind: LogFileKind::Log,
        offset: Offset::ZERO,
        is_current: true,
    };
    let file = is_snapshot
        .then_some(snapshot)
        .or_else(|| LogFile::named(name))?;
    file.is_current.then_some(file)
}

impl World {
    /// One more crash, after which a start finds all that was promised; then a clean shutdown, after
    /// which a start finds the same.
    pub(super) fn scan_after_crash(&mut self) {
        let crash = match self.schedule.is_durable {
            true => Crash::Random(self.schedule.seed),
            false => Crash::KeepsAll,
        };
        self.crash(crash, 0);
        self.start();
        // What a start does itself has its disk's time, too.
        self.with_node(|node, now| {
            let all = node.observe();
            all.iter().try_for_each(|one| node.flush(one.key, now))
        });
        let Some(node) = &self.node else { return };
        let observed = node.observe();
        self.judge.observed(&observed, true);
        for one in &observed {
            self.scan(one, false);
            self.scan(one, true);
        }
        self.look_at_offsets();
        self.judge.close();
        self.stop(0);
        self.look_at_files();
        self.start();
        self.with_node(|node, now| {
            let all = node.observe();
            all.iter().try_for_each(|one| node.flush(one.key, now))
        });
        let Some(node) = &self.node else { return };
        let after = node.observe();
        self.judge.observed(&after, true);
        self.judge.stopped_and_started(&observed, &after);
    }

    /// Every file of every log is one that `dump-log` finds nothing wrong with.
    fn look_at_files(&mut self) {
        let mut directories = vec![PathBuf::from("/")];
        while let Some(directory) = directories.pop() {
            let entries = match self.disk.list(&directory) {
                Ok(entries) => entries,
                Err(error) => {
                    self.judge.file(&directory, &[error.to_string()]);
                    continue;
                }
            };
            for entry in entries {
                let path = directory.join(&entry.name);
                match entry.is_directory {
                    // What nobody will open again.
                    true if is_set_aside(&entry.name) => {}
                    true => directories.push(path),
                    false => self.look_at_file(&path, &entry.name),
                }
            }
        }
    }

    fn look_at_file(&mut self, path: &Path, name: &str) {
        let Some(file) = inspected(name) else { return };
        let bytes = self.disk.read(path, u64::MAX);
        let segment = self.disk.read(&path.with_extension("log"), u64::MAX).ok();
        match bytes {
            Ok(bytes) => {
                let faults = faults_of(file, &bytes, segment.as_deref(), DECOMPRESSED_BYTES_MAX);
                self.judge.file(path, &faults);
            }
            Err(error) => self.judge.file(path, &[error.to_string()]),
        }
    }

    /// Asks the node itself, with nothing in between.
    fn ask(&mut self, ask: Ask) -> Option<Answer> {
        let caller = Caller {
            client: 0,
            connection: u64::MAX,
            correlation_id: 0,
        };
        let now = self.now_of_node();
        let node = self.node.as_mut()?;
        if let Err(halted) = node.serve(caller, ask, now) {
            self.judge.halted(halted.reason, false);
            return None;
        }
        let answers = node.take_answers();
        answers.into_iter().next_back().map(|(_, answer)| answer)
    }

    fn scan(&mut self, one: &Observed, is_committed: bool) {
        let topic = self
            .node
            .as_ref()
            .and_then(|node| node.image().topics.by_id(one.key.0).cloned());
        if topic.is_none_or(|topic| topic.name.starts_with("__")) {
            return;
        }
        let mut offset = one.offsets.log_start_offset;
        while offset < one.offsets.high_watermark {
            let ask = Ask::Fetch {
                topic_id: one.key.0,
                partition: one.key.1,
                offset: offset.0,
                is_committed,
            };
            let Some(Answer::Fetched(fetched)) = self.ask(ask) else {
                break;
            };
            if fetched.error != ErrorCode::None {
                let detail = format!("{:?} {offset}: {:?}", one.key, fetched.error);
                self.judge.unreadable(detail);
                break;
            }
            let floor = self.judge.floor(one.key);
            let read = (one.key, offset.0);
            let next = self.judge.read(read, &fetched, floor, is_committed, true);
            if next <= offset.0 {
                break;
            }
            offset = Offset(next);
        }
        self.judge
            .scanned(one.key, offset.0, one.offsets.high_watermark.0);
    }

    /// What transactions have committed of offsets.
    fn look_at_offsets(&mut self) {
        let node = self.node.as_ref();
        let Some(topic_id) = node.and_then(|node| node.image().topics.id_of(STEADY[0])) else {
            return;
        };
        let modelled = TRANSACTIONAL.map(|client| offset_key(client, topic_id));
        for key in modelled.into_iter().chain(self.live_offsets()) {
            let ask = Ask::FetchOffset {
                group: key.0.clone(),
                topic_id: key.1,
                partition: key.2,
            };
            match self.ask(ask) {
                Some(Answer::Offset {
                    error: ErrorCode::None,
                    offset,
                }) => self.judge.offset_fetched(key, offset, false, None),
                answer => self.judge.offset_unanswered(&key, &answer),
            }
        }
    }
}
