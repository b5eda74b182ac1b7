//! What goes between the clients and who drives them, as values.

/// What a client does all its life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// Sends records, several batches at a time.
    Producer,
    /// Sends them in transactions.
    Transactional,
    /// Reads what its group gives it, and commits that.
    Member {
        /// The topic.
        topic: &'static str,
    },
}

/// A mistake in what is around a client, to see that it is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mistake {
    /// A record that is not acknowledged soon is sent again as another one.
    SendsAnew,
    /// A transaction counts as committed when that was asked for.
    BelievesCommits,
    /// What is read is committed before it is handed over, and is not handed over.
    CommitsUnread,
}

/// A client with its application.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What it does.
    pub role: Role,
    /// What its random numbers follow from; no two that are nearer than a thousand may meet.
    pub seed: u64,
    /// Kafka's names and values.
    pub pairs: Vec<(&'static str, String)>,
    /// What is wrong with its application.
    pub mistake: Option<Mistake>,
}

/// A record to send, whose value is no other's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// The topic.
    pub topic: &'static str,
    /// The partition.
    pub partition: i32,
    /// The key.
    pub key: String,
    /// The value.
    pub value: String,
    /// When it was made, in milliseconds since 1970.
    pub timestamp_ms: i64,
}

/// An offset of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offset {
    /// The group.
    pub group: String,
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The offset.
    pub offset: i64,
}

/// Something to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// A producer sends records.
    Send(Vec<Sent>),
    /// A transactional producer sends records as one.
    Transaction {
        /// Its number.
        number: u64,
        /// The records.
        records: Vec<Sent>,
        /// An offset that is committed with it.
        offset: Option<Offset>,
        /// Whether it is to be committed.
        is_commit: bool,
    },
    /// The application does nothing for so long.
    Pause {
        /// Milliseconds.
        ms: u64,
    },
    /// The client is closed in so many milliseconds, or dropped, and another one begun.
    Restart {
        /// None to drop it.
        close_ms: Option<u64>,
    },
}

/// How a transaction has ended, as far as its application knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionEnd {
    /// It counts.
    Committed,
    /// It does not.
    Aborted,
    /// Nobody has said.
    Unknown,
}

/// What an application says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    /// A record is given to the client; records of one life of a client keep their order.
    Sending {
        /// Which life it is.
        life: u64,
        /// The record.
        sent: Sent,
    },
    /// A record is written.
    Acknowledged {
        /// The record.
        sent: Sent,
        /// Where, if the broker has told.
        offset: Option<i64>,
    },
    /// A record is not written, or perhaps.
    Refused {
        /// The record.
        sent: Sent,
        /// Why.
        reason: String,
    },
    /// A transaction has ended.
    Ended {
        /// Its number.
        number: u64,
        /// How.
        end: TransactionEnd,
        /// What has happened on the way.
        reason: String,
    },
    /// A member is about to commit.
    Committing(Offset),
    /// A commit was acknowledged.
    Committed(Offset),
    /// A member has read a record.
    Read {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// The offset.
        offset: i64,
        /// The leader epoch.
        leader_epoch: i32,
        /// The value.
        value: String,
    },
    /// The partitions that a member has; none of a client that is gone.
    Assigned(Option<Vec<i32>>),
    /// A call that failed and may be repeated.
    Failed {
        /// Why.
        reason: String,
    },
    /// The client does what it never may.
    Broken {
        /// What that is.
        reason: String,
    },
    /// A command is carried out.
    Done,
}

/// What comes of the clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// A request leaves.
    Request {
        /// The connection.
        connection: u64,
        /// Its frame, without the size.
        frame: Vec<u8>,
    },
    /// A client has ended a connection.
    Closed {
        /// The connection.
        connection: u64,
    },
    /// An application says something.
    Report {
        /// Whose.
        client: usize,
        /// What.
        report: Report,
    },
}
