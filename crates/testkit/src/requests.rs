//! The requests that most tests need, each in one line.

mod groups;
mod markers;
mod records;
mod topics;
mod transactions;

pub use markers::{CommittedFetch, Marker, OffsetInTransaction};
pub use records::{
    FETCH_VERSION, Fetched, ListedOffset, PRODUCE_VERSION, Produced, fetch_topic,
    list_offset_request,
};
pub use topics::BrokerAddress;
pub use transactions::TransactionalProducer;
