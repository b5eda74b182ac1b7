//! What clients ask and nodes answer, as values that own what they say. On the way between them they
//! are Kafka's frames: `requests` and `responses` go through the product's codec.

mod requests;
mod responses;

pub(crate) use self::requests::SESSION_TIMEOUT_MS;
use model::{ErrorCode, Offset, ProducerId, Uuid};

/// A request to a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ask {
    Metadata {
        topic: String,
    },
    Produce {
        topic_id: Uuid,
        partition: i32,
        transactional_id: Option<String>,
        records: Vec<u8>,
    },
    Fetch {
        topic_id: Uuid,
        partition: i32,
        offset: i64,
        is_committed: bool,
    },
    InitProducerId {
        transactional_id: Option<String>,
        /// The producer that goes on after an error.
        expected: Option<ProducerKey>,
    },
    EndTransaction {
        transactional_id: String,
        producer: ProducerKey,
        is_commit: bool,
    },
    CommitInTransaction {
        transactional_id: String,
        producer: ProducerKey,
        group: String,
        topic: String,
        partition: i32,
        offset: i64,
    },
    CommitOffset {
        group: String,
        generation: i32,
        member_id: String,
        topic_id: Uuid,
        partition: i32,
        offset: i64,
    },
    FetchOffset {
        group: String,
        topic_id: Uuid,
        partition: i32,
    },
    CreateTopic {
        name: String,
        partition_count: i32,
        configs: Vec<(String, String)>,
    },
    DeleteTopic {
        name: String,
    },
    DeleteRecords {
        topic: String,
        partition: i32,
        offset: i64,
    },
    AlterConfig {
        topic: String,
        key: String,
        /// None removes it.
        value: Option<String>,
    },
    Join {
        group: String,
        member_id: String,
    },
    Sync {
        group: String,
        generation: i32,
        member_id: String,
        /// What each member gets, from the leader.
        assignments: Vec<(String, Vec<u8>)>,
    },
    Heartbeat {
        group: String,
        generation: i32,
        member_id: String,
    },
}

/// A producer's id with its epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ProducerKey {
    pub(crate) id: i64,
    pub(crate) epoch: i16,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    Metadata {
        error: ErrorCode,
        topic_id: Uuid,
        partition_count: i32,
    },
    Produced {
        error: ErrorCode,
        base_offset: i64,
    },
    Fetched(Fetched),
    Producer {
        error: ErrorCode,
        producer: ProducerKey,
    },
    /// To whatever is only done or refused.
    Done {
        error: ErrorCode,
    },
    Offset {
        error: ErrorCode,
        offset: i64,
    },
    Created {
        error: ErrorCode,
        topic_id: Uuid,
    },
    Joined(Joined),
    Synced {
        error: ErrorCode,
        assignment: Vec<u8>,
    },
    /// The body of a response to a client of the product.
    Body(Vec<u8>),
}

/// What a fetch has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fetched {
    pub(crate) error: ErrorCode,
    pub(crate) high_watermark: i64,
    pub(crate) last_stable_offset: i64,
    pub(crate) log_start_offset: i64,
    /// Producer id and first offset.
    pub(crate) aborted: Vec<(ProducerId, Offset)>,
    pub(crate) records: Vec<u8>,
}

impl Fetched {
    pub(crate) const fn refused(error: ErrorCode) -> Self {
        Self {
            error,
            high_watermark: -1,
            last_stable_offset: -1,
            log_start_offset: -1,
            aborted: Vec::new(),
            records: Vec::new(),
        }
    }
}

/// Where a member of a group is after it has joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Joined {
    pub(crate) error: ErrorCode,
    pub(crate) generation: i32,
    pub(crate) leader: String,
    pub(crate) member_id: String,
    /// All members, for the leader.
    pub(crate) members: Vec<String>,
}

impl Answer {
    /// Why it says no.
    pub(crate) const fn error(&self) -> ErrorCode {
        match self {
            Self::Metadata { error, .. }
            | Self::Produced { error, .. }
            | Self::Producer { error, .. }
            | Self::Done { error }
            | Self::Offset { error, .. }
            | Self::Created { error, .. }
            | Self::Synced { error, .. } => *error,
            Self::Fetched(fetched) => fetched.error,
            Self::Joined(joined) => joined.error,
            Self::Body(_) => ErrorCode::None,
        }
    }

    /// What is said in its place when it may not be said.
    pub(crate) fn refused(mut self, refusal: ErrorCode) -> Self {
        match &mut self {
            Self::Metadata { error, .. }
            | Self::Produced { error, .. }
            | Self::Producer { error, .. }
            | Self::Done { error }
            | Self::Offset { error, .. }
            | Self::Created { error, .. }
            | Self::Synced { error, .. } => *error = refusal,
            Self::Fetched(fetched) => *fetched = Fetched::refused(refusal),
            Self::Joined(joined) => joined.error = refusal,
            Self::Body(_) => {}
        }
        self
    }
}

impl Ask {
    /// The answer that refuses it.
    pub(crate) fn refused(&self, error: ErrorCode) -> Answer {
        let producer = ProducerKey { id: -1, epoch: -1 };
        match self {
            Self::Metadata { .. } => Answer::Metadata {
                error,
                topic_id: Uuid::ZERO,
                partition_count: 0,
            },
            Self::Produce { .. } => Answer::Produced {
                error,
                base_offset: -1,
            },
            Self::Fetch { .. } => Answer::Fetched(Fetched::refused(error)),
            Self::InitProducerId { .. } | Self::EndTransaction { .. } => {
                Answer::Producer { error, producer }
            }
            Self::FetchOffset { .. } => Answer::Offset { error, offset: -1 },
            Self::CreateTopic { .. } => Answer::Created {
                error,
                topic_id: Uuid::ZERO,
            },
            Self::Join { .. } => Answer::Joined(Joined {
                error,
                generation: -1,
                leader: String::new(),
                member_id: String::new(),
                members: Vec::new(),
            }),
            Self::Sync { .. } => Answer::Synced {
                error,
                assignment: Vec::new(),
            },
            Self::CommitInTransaction { .. }
            | Self::CommitOffset { .. }
            | Self::DeleteTopic { .. }
            | Self::DeleteRecords { .. }
            | Self::AlterConfig { .. }
            | Self::Heartbeat { .. } => Answer::Done { error },
        }
    }
}
