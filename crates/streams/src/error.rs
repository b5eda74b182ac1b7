//! What can go wrong, with the place: node, topic, partition and offset.

use std::fmt;
use std::sync::Arc;

/// An error of an application's own code or of a serde, in its own words.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Where a record was when something failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The node of the topology; empty when no node had the record yet.
    pub node: Arc<str>,
    /// The topic that the record came from; empty in a punctuation.
    pub topic: Arc<str>,
    /// Its partition; -1 in a punctuation.
    pub partition: i32,
    /// Its offset; -1 in a punctuation.
    pub offset: i64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.node.is_empty() {
            write!(f, "node `{}`, ", self.node)?;
        }
        if self.topic.is_empty() {
            f.write_str("no record of a topic")
        } else {
            write!(
                f,
                "topic `{}`, partition {}, offset {}",
                self.topic, self.partition, self.offset
            )
        }
    }
}

/// What an application can do about a record that fails.
const GO_ON: &str = "`Handlers::log_and_continue` goes on without such records";

/// What can be done about a record that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// The handler may decide otherwise.
    Handler,
    /// The handler has decided to go on, which a transaction cannot without the record.
    ExactlyOnce,
    /// No handler is asked: every other record would meet the same.
    None,
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Handler => write!(f, "; {GO_ON}"),
            Self::ExactlyOnce => f.write_str("; exactly-once cannot go on without it"),
            Self::None => Ok(()),
        }
    }
}

/// Why a task cannot go on.
///
/// `Debug` shows the words of `Display`: they are what a `main` that returns the error prints.
#[derive(thiserror::Error)]
pub enum StreamsError {
    /// The deserialization handler decided to fail.
    #[error("cannot read a record ({place}): {source}; {GO_ON}")]
    Deserialization {
        /// The record.
        place: Place,
        /// What the serde says.
        source: BoxError,
    },
    /// The processing handler decided to fail.
    #[error("cannot process a record ({place}): {source}{advice}")]
    Processing {
        /// The record, and the node that failed.
        place: Place,
        /// What the node says.
        source: BoxError,
        /// What can be done about it.
        advice: Advice,
    },
    /// The production handler decided to fail.
    #[error("cannot write to topic `{topic}` ({place}): {source}{advice}")]
    Production {
        /// The topic that is written to.
        topic: Arc<str>,
        /// The record that caused it, and the node that writes.
        place: Place,
        /// What the serde or the producer says.
        source: BoxError,
        /// What can be done about it.
        advice: Advice,
    },
    /// A record's timestamp is negative.
    #[error(
        "a record has timestamp {timestamp_ms}, which is negative ({place}); choose another timestamp extractor, \
         such as `LogAndSkipOnInvalidTimestamp`"
    )]
    InvalidTimestamp {
        /// The record.
        place: Place,
        /// Its timestamp.
        timestamp_ms: i64,
    },
    /// A state store failed.
    #[error("state store `{store}`: {source}")]
    Store {
        /// Its name.
        store: Arc<str>,
        /// What it says.
        source: BoxError,
    },
    /// A record of a changelog cannot be put into its store.
    #[error(
        "state store `{store}` cannot be restored (topic `{topic}`, partition {partition}, offset {offset}): {source}"
    )]
    Restore {
        /// The store.
        store: Arc<str>,
        /// The changelog.
        topic: Arc<str>,
        /// Its partition.
        partition: i32,
        /// The record.
        offset: i64,
        /// What the store says.
        source: BoxError,
    },
    /// A node asks for a state store that it is not connected to.
    #[error(
        "node `{node}` is not connected to a state store `{store}`; name the store where you add the node, as in \
         `process(supplier, &[\"{store}\"])`, or call `Topology::connect`"
    )]
    NotConnected {
        /// The node that asks.
        node: Arc<str>,
        /// The name it asks for.
        store: Arc<str>,
    },
    /// A node asks for a state store of another type.
    #[error(
        "state store `{store}` of node `{node}` is no `{}`; ask for the type that it was made with",
        without_modules(kind)
    )]
    OtherStoreType {
        /// The node that asks.
        node: Arc<str>,
        /// The name it asks for.
        store: Arc<str>,
        /// The type it asks for.
        kind: &'static str,
    },
    /// The group or the transaction coordinator takes this member for gone: its tasks are others' now. What was not
    /// committed is given up, and the thread begins again.
    #[error("the thread's tasks are another member's now: {0}")]
    TaskMigrated(String),
    /// Nobody knows whether the last transaction counts, or what a changelog has had: what was not committed is given
    /// up, and the thread begins again.
    #[error("the thread's tasks have to begin again: {0}")]
    TaskCorrupted(String),
    /// A member of the group has asked for the end of all instances.
    #[error("a member of the application has asked for the end of all its instances")]
    ShutdownRequested,
    /// Why an instance has ended, which stays known to it.
    #[error(transparent)]
    Ended(Arc<Self>),
    /// Something that does not belong to one record.
    #[error("{0}")]
    Other(String),
}

impl fmt::Debug for StreamsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a node did not process a record.
///
/// Every error turns into one by `?`; whether the application goes on is for its processing handler to decide.
#[derive(Debug)]
pub struct Failure(pub(crate) FailureKind);

#[derive(Debug)]
pub(crate) enum FailureKind {
    /// The processing handler is asked.
    Processing(BoxError),
    /// The handler was asked, or is not: the task fails.
    Fatal(StreamsError),
}

impl Failure {
    /// The processing handler is asked about `error`: text, or any error.
    pub fn of(error: impl Into<BoxError>) -> Self {
        Self(FailureKind::Processing(error.into()))
    }

    /// The task fails; no handler is asked.
    pub const fn fatal(error: StreamsError) -> Self {
        Self(FailureKind::Fatal(error))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            FailureKind::Processing(error) => error.fmt(f),
            FailureKind::Fatal(error) => error.fmt(f),
        }
    }
}

// `Failure` itself is no `Error`, or this would overlap with the conversion of a type to itself.
impl<E: std::error::Error + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(FailureKind::Processing(error.into()))
    }
}

/// The name of a type as messages show it: `core::option::Option<alloc::string::String>` is `Option<String>`.
pub(crate) fn without_modules(type_name: &str) -> String {
    let of_a_word = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
    type_name
        .split_inclusive(|letter| !of_a_word(letter))
        .filter_map(|word| word.rsplit("::").next())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_shown_without_their_modules() {
        let check = |shown: String, expected: &str| assert_eq!(shown, expected);
        check(
            without_modules(std::any::type_name::<Option<String>>()),
            "Option<String>",
        );
        check(
            without_modules(std::any::type_name::<(i64, Vec<bytes::Bytes>)>()),
            "(i64, Vec<Bytes>)",
        );
        check(without_modules(std::any::type_name::<&[u8]>()), "&[u8]");
    }

    #[test]
    fn a_main_that_returns_an_error_prints_its_words() {
        use crate::runtime::{ConfigError, InvalidStateStore};
        let check = |error: BoxError| assert_eq!(format!("{error:?}"), error.to_string());
        check(Box::new(StreamsError::Other("no topic `in`".to_owned())));
        check(Box::new(InvalidStateStore::Busy));
        check(Box::new(ConfigError::Unknown("none".to_owned())));
    }
}
