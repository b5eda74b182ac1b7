//! What is measured of streams applications: the workloads, how much of each, and the goals.

/// Partitions of every topic, so tasks of every application.
pub(super) const PARTITIONS: u64 = 4;
/// Words of a line of `words`.
pub(super) const WORDS: u64 = 4;

/// What an application does with which records.
#[derive(Debug)]
pub(super) struct Workload {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// Which application, as both programs name it.
    pub(super) application: &'static str,
    /// `memory` or `persistent`.
    pub(super) store: &'static str,
    /// Which records, as `streamsbench fill` names them.
    pub(super) records: &'static str,
    pub(super) filled_topics: &'static [&'static str],
    pub(super) empty_topics: &'static [&'static str],
}

/// All of them, in the order of a round.
pub(super) const WORKLOADS: [Workload; 5] = [
    Workload {
        name: "streams-words-memory",
        about: "how often each word is in lines of four words, kept in memory",
        application: "words",
        store: "memory",
        records: "words",
        filled_topics: &["words"],
        empty_topics: &["counts"],
    },
    Workload {
        name: "streams-words-persistent",
        about: "the same, kept on disk",
        application: "words",
        store: "persistent",
        records: "words",
        filled_topics: &["words"],
        empty_topics: &["counts"],
    },
    Workload {
        name: "streams-windows-memory",
        about: "sums by key and minute, kept in memory",
        application: "windows",
        store: "memory",
        records: "windows",
        filled_topics: &["windows"],
        empty_topics: &["sums"],
    },
    Workload {
        name: "streams-windows-persistent",
        about: "the same, kept on disk",
        application: "windows",
        store: "persistent",
        records: "windows",
        filled_topics: &["windows"],
        empty_topics: &["sums"],
    },
    Workload {
        name: "streams-restore",
        about: "a store on disk restored from its changelog",
        application: "restore",
        store: "persistent",
        records: "changelog",
        // Each side has a changelog of its own, for applications are told apart by their ids.
        filled_topics: &["riverrun-store-changelog", "kafka-store-changelog"],
        empty_topics: &["none"],
    },
];

/// Names the workloads.
pub(super) fn list() {
    for workload in &WORKLOADS {
        println!("{:26} {}", workload.name, workload.about);
    }
}

/// Whether a name of the command line is one of these.
pub(super) fn knows(name: &str) -> bool {
    WORKLOADS.iter().any(|workload| workload.is_called(name))
}

impl Workload {
    /// Whether a name of the command line means this one.
    pub(super) fn is_called(&self, name: &str) -> bool {
        name.starts_with("streams") && self.name.starts_with(name)
    }

    pub(super) fn is_restore(&self) -> bool {
        self.application == "restore"
    }
}

/// How much there is to do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Amount {
    record_count: u64,
    key_count: u64,
    restored_bytes: u64,
    pub(super) value_bytes: u64,
}

impl Amount {
    /// So many records and keys of the topics that are made, and so many bytes of a store that is restored.
    pub(super) fn new(record_count: u64, key_count: u64, restored_bytes: u64) -> Self {
        Self {
            record_count,
            key_count,
            restored_bytes,
            value_bytes: 200,
        }
    }

    /// Records of each filled topic.
    pub(super) fn records(&self, workload: &Workload) -> u64 {
        match workload.is_restore() {
            true => self.restored_bytes / self.value_bytes,
            false => self.record_count,
        }
    }

    /// Keys of these records, or words.
    pub(super) fn keys(&self, workload: &Workload) -> u64 {
        match workload.is_restore() {
            // Each key is written four times.
            true => (self.records(workload) / 4).max(1),
            false => self.key_count,
        }
    }

    /// What the store's node takes of all records, and how much of it is warm-up.
    pub(super) fn taken(&self, workload: &Workload) -> (u64, u64) {
        let total = match workload.application {
            "words" => self.record_count * WORDS,
            "windows" => self.record_count,
            _ => 0,
        };
        (total / 4, total)
    }
}
