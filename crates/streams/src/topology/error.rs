//! What is wrong with a topology, in words of its author.

use crate::error::without_modules;

/// Why a topology cannot be built. `Debug` shows the words of `Display`, as that of `StreamsError`.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// Two nodes or stores would have one name.
    #[error("{what} `{name}` is there already; give one of them another name")]
    NameTaken {
        /// Node or state store.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A name breaks Kafka's rules for topics.
    #[error(
        "`{name}` is no valid name: use at most 249 ASCII letters, digits, `.`, `_` and `-`, but not `.` or `..`"
    )]
    InvalidName {
        /// The name.
        name: String,
    },
    /// A node that is named is not there.
    #[error("there is no node `{name}`; add it before what refers to it")]
    NoSuchNode {
        /// The name.
        name: String,
    },
    /// A store that is named is not there.
    #[error("there is no state store `{name}`; add it before you connect a node to it")]
    NoSuchStore {
        /// The name.
        name: String,
    },
    /// A processor or a sink has no parent.
    #[error("node `{name}` has no parent; only sources have none")]
    NoParent {
        /// The node.
        name: String,
    },
    /// Two sources read one topic.
    #[error(
        "topic `{topic}` is read by source `{source_name}` already; read it once and use the stream twice"
    )]
    TopicTaken {
        /// The topic.
        topic: String,
        /// The source.
        source_name: String,
    },
    /// A source reads no topic.
    #[error("source `{name}` reads no topic")]
    NoTopics {
        /// The source.
        name: String,
    },
    /// A node needs a serde that nobody has given.
    #[error(
        "`{operator}` needs a serde for `{what}`, and has none from what comes before it: give it one, by \
         `with_key_serde` or `with_value_serde` of its `Materialized` or `Joined`, or by `Grouped::with`, \
         `StreamJoined::with`, `Produced::with`; the usual types have one in `DefaultSerde`, such as `String::serde()`"
    )]
    NoSerde {
        /// The node or operator.
        operator: String,
        /// The type, without its modules.
        what: String,
    },
    /// Two streams of different builders meet.
    #[error("both sides of `{operator}` must come from one `StreamsBuilder`")]
    OtherBuilder {
        /// The operator.
        operator: String,
    },
    /// Something about one operator.
    #[error("`{operator}`: {problem}")]
    Operator {
        /// The node or operator.
        operator: String,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// `ensure.explicit.internal.resource.naming` is on, and a topic's name is generated (KIP-1111).
    #[error(
        "internal topics would get generated names: {names}; name them by `Grouped`, `Joined`, `StreamJoined`, \
         `Repartitioned` or `Materialized`"
    )]
    GeneratedNames {
        /// The names, with commas.
        names: String,
    },
}

impl std::fmt::Debug for TopologyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl TopologyError {
    /// `operator` has no serde of `T`.
    pub(crate) fn no_serde<T>(operator: &str) -> Self {
        Self::NoSerde {
            operator: operator.to_owned(),
            what: without_modules(std::any::type_name::<T>()),
        }
    }
}
