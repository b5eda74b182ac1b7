//! What can go wrong between a caller and a broker.

use model::ErrorCode;

/// An error of a connection, or of a request on it. The texts name the broker's address, and settings
/// by the names that the caller has for them ([`SettingNames`](crate::SettingNames)).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Nothing could be connected to.
    #[error("no broker answers at {address} within {waited_ms} ms: {reason}")]
    Unreachable {
        /// The address that was tried.
        address: String,
        /// How long it was tried, in ms.
        waited_ms: u64,
        /// What the last attempt met, and what to look at.
        reason: String,
    },
    /// The broker took longer than the deadline of the request.
    #[error("{operation}: no answer from {address} within {waited_ms} ms (`{setting}`)")]
    TimedOut {
        /// What was asked for.
        operation: String,
        /// The broker.
        address: String,
        /// How long it was waited, in ms.
        waited_ms: u64,
        /// The setting that bounds it.
        setting: &'static str,
    },
    /// The connection ended before the answer.
    #[error("{address} closed the connection: {reason}")]
    Disconnected {
        /// The broker.
        address: String,
        /// What the connection met.
        reason: String,
    },
    /// What answered does not speak Kafka's protocol, or not as it should.
    #[error("{address} sent what is no answer of Kafka's protocol: {reason}")]
    Malformed {
        /// The broker.
        address: String,
        /// What was wrong with it.
        reason: String,
    },
    /// The two sides have no version of the API in common.
    #[error("{address} does not support {api}{detail}")]
    Unsupported {
        /// The broker.
        address: String,
        /// The API.
        api: &'static str,
        /// The versions on both sides.
        detail: String,
    },
    /// The broker refused to be spoken to, with an error of the protocol.
    #[error("{subject}: {code}{}", message.as_deref().map(|text| format!(": {text}")).unwrap_or_default())]
    Refused {
        /// What was refused, and by whom.
        subject: String,
        /// The protocol's error.
        code: ErrorCode,
        /// The broker's own words, where it sent some.
        message: Option<String>,
    },
}
