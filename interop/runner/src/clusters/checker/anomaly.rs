//! What must not be, each kind by its own name.

use std::fmt;

use super::Place;

/// Something that clients were promised is not so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Anomaly {
    /// A value was acknowledged, and no reader is given it. Replicas that have the place where it was said
    /// to be make it a fault of reading, not of keeping.
    Lost {
        value: String,
        told: Option<Place>,
        on: Vec<i32>,
    },
    /// A value of an idempotent producer is there more than once.
    Duplicated { value: String, places: Vec<Place> },
    /// A value is not where its acknowledgement said.
    Elsewhere {
        value: String,
        told: Place,
        found: Vec<Place>,
    },
    /// One place has held two values: of an acknowledgement, a reader or a consumer.
    TwoValues {
        place: Place,
        one: String,
        other: String,
    },
    /// A reader is given what nobody sent.
    NeverSent { place: Place, value: String },
    /// Two values of one producer are in another order than they were sent.
    Reordered {
        partition: i32,
        first: String,
        second: String,
    },
    /// What an aborted transaction wrote is read by who reads what is committed.
    AbortedRead { place: Place, value: String },
    /// A transaction is seen in part.
    Torn {
        producer: usize,
        transaction: u64,
        there: usize,
        all: usize,
    },
    /// A consumer was given a later record without this one.
    Skipped { reader: String, place: Place },
    /// A consumer was given a record that is not there any more.
    Vanished { reader: String, place: Place },
    /// A reader was given an earlier record again with no cause, or one from before what it had committed.
    WentBack {
        reader: String,
        partition: i32,
        from: i64,
        to: i64,
    },
    /// A reader that was further began again at offset 0.
    SpuriousZero {
        reader: String,
        partition: i32,
        from: i64,
    },
    /// Two replicas have other bytes for the same offset.
    Diverged {
        partition: i32,
        offset: i64,
        nodes: [i32; 2],
    },
    /// A replica that is in sync lacks a record that was acknowledged.
    MissingOnReplica { place: Place, node: i32 },
    /// The batches of a replica do not follow one another, or are damaged.
    BrokenLog {
        node: i32,
        partition: i32,
        reason: String,
    },
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost { value, told, on } => {
                write!(f, "lost: `{value}`, acknowledged at {told:?}, ")?;
                match &on[..] {
                    [] => f.write_str("is nowhere"),
                    on => write!(f, "is not read, though {on:?} have the place"),
                }
            }
            Self::Duplicated { value, places } => write!(f, "duplicated: `{value}` at {places:?}"),
            Self::Elsewhere { value, told, found } => {
                write!(
                    f,
                    "elsewhere: `{value}`, acknowledged at {told:?}, is at {found:?}"
                )
            }
            Self::TwoValues { place, one, other } => {
                write!(f, "two values: {place:?} holds `{one}` and `{other}`")
            }
            Self::NeverSent { place, value } => write!(f, "never sent: `{value}` at {place:?}"),
            Self::Reordered {
                partition,
                first,
                second,
            } => {
                write!(
                    f,
                    "reordered: `{second}` follows `{first}` in partition {partition}"
                )
            }
            Self::AbortedRead { place, value } => write!(f, "aborted read: `{value}` at {place:?}"),
            Self::Torn {
                producer,
                transaction,
                there,
                all,
            } => {
                write!(
                    f,
                    "torn: of transaction {transaction} of producer {producer} {there} of {all} are seen"
                )
            }
            other => other.show_of_reader(f),
        }
    }
}

impl Anomaly {
    /// What one reader, or one replica, has otherwise.
    fn show_of_reader(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Skipped { reader, place } => {
                write!(f, "skipped: {reader} was not given {place:?}")
            }
            Self::Vanished { reader, place } => {
                write!(
                    f,
                    "vanished: {place:?}, which {reader} was given, is not there"
                )
            }
            Self::WentBack {
                reader,
                partition,
                from,
                to,
            } => {
                write!(
                    f,
                    "went back: {reader} from {from} to {to} in partition {partition}"
                )
            }
            Self::SpuriousZero {
                reader,
                partition,
                from,
            } => {
                write!(
                    f,
                    "spurious zero: {reader} was at {from} of partition {partition}"
                )
            }
            Self::Diverged {
                partition,
                offset,
                nodes,
            } => {
                write!(
                    f,
                    "diverged: {nodes:?} at {offset} of partition {partition}"
                )
            }
            Self::MissingOnReplica { place, node } => {
                write!(f, "missing on replica {node}, which is in sync: {place:?}")
            }
            Self::BrokenLog {
                node,
                partition,
                reason,
            } => {
                write!(
                    f,
                    "broken log of partition {partition} on node {node}: {reason}"
                )
            }
            other => write!(f, "{other:?}"),
        }
    }
}
