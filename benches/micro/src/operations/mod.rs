//! The operations, one file each; `benches/java` has a class of the same name for each.

mod error_lookup;
mod fetch_response_encode;
mod produce_request_decode;
mod produce_response_encode;
mod raw_extraction;
mod replica_answer;
mod replica_fetch;
mod varint_size;

use crate::Operation;
use error_lookup::ErrorLookup;
use fetch_response_encode::FetchResponseEncode;
use model::Uuid;
use produce_request_decode::ProduceRequestDecode;
use produce_response_encode::ProduceResponseEncode;
use raw_extraction::{Part, RawExtraction};
use replica_answer::ReplicaAnswer;
use replica_fetch::{Changed, ReplicaFetch};
use varint_size::{VarintSize, VarintSizeBulk};

type Make = fn() -> Box<dyn Operation>;

/// The same operation with these numbers of partitions.
macro_rules! of_partitions {
    ($operation:ident $($name:literal $is_one_topic:literal $changed:ident: $($count:literal)*;)*) => {
        &[$($((
            concat!($name, "/", $count),
            || Box::new($operation::new($count, $is_one_topic, Changed::$changed)),
        ),)*)*]
    };
}

/// Operations of one kind, each under its name.
type Operations = &'static [(&'static str, Make)];

/// Those of a follower's fetcher.
const REPLICA_FETCHES: Operations = of_partitions! { ReplicaFetch
    "replica-fetch-none" true None: 100 500 1000 5000 50000;
    "replica-fetch-some" true OneInAHundred: 100 500 1000 5000 50000;
    "replica-fetch-all" true All: 100 500 1000 5000 50000;
    "replica-fetch-none-topics" false None: 100 500 1000 5000 50000;
    "replica-fetch-some-topics" false OneInAHundred: 100 500 1000 5000 50000;
    "replica-fetch-all-topics" false All: 100 500 1000 5000 50000;
};

/// Those of its leader.
const REPLICA_ANSWERS: Operations = of_partitions! { ReplicaAnswer
    "replica-answer-none" true None: 100 500 1000 5000 50000;
    "replica-answer-some" true OneInAHundred: 100 500 1000 5000 50000;
    "replica-answer-all" true All: 100 500 1000 5000 50000;
    "replica-answer-none-topics" false None: 100 500 1000 5000 50000;
    "replica-answer-some-topics" false OneInAHundred: 100 500 1000 5000 50000;
    "replica-answer-all-topics" false All: 100 500 1000 5000 50000;
};

/// Those of single functions, most of them about a message.
const MESSAGES: Operations = &[
    ("error-lookup", || Box::new(ErrorLookup::new())),
    ("varint-size", || Box::new(VarintSize::new())),
    ("varint-size-bulk", || Box::new(VarintSizeBulk::new())),
    ("produce-response/1", || {
        Box::new(ProduceResponseEncode::new(1))
    }),
    ("produce-response/16", || {
        Box::new(ProduceResponseEncode::new(16))
    }),
    ("produce-response/128", || {
        Box::new(ProduceResponseEncode::new(128))
    }),
    ("produce-request/1", || {
        Box::new(ProduceRequestDecode::new(1))
    }),
    ("produce-request/16", || {
        Box::new(ProduceRequestDecode::new(16))
    }),
    ("produce-request/128", || {
        Box::new(ProduceRequestDecode::new(128))
    }),
    ("fetch-response/1", || Box::new(FetchResponseEncode::new(1))),
    ("fetch-response/16", || {
        Box::new(FetchResponseEncode::new(16))
    }),
    ("fetch-response/128", || {
        Box::new(FetchResponseEncode::new(128))
    }),
];

/// The same extraction from values without headers and with one.
macro_rules! of_headers {
    ($($name:literal $part:ident;)*) => {
        &[$(
            (concat!($name, "/0"), || Box::new(RawExtraction::new(Part::$part, false))),
            (concat!($name, "/1"), || Box::new(RawExtraction::new(Part::$part, true))),
        )*]
    };
}

/// Those of stored values of Kafka Streams.
const STORED_VALUES: Operations = of_headers! {
    "raw-aggregation" Aggregation;
    "raw-plain-value" PlainValue;
    "raw-timestamped-value" TimestampedValue;
    "raw-timestamp" Timestamp;
    "raw-headers" Headers;
};

/// Every operation under the name that `cargo xtask bench micro` has for it.
pub(crate) fn operations() -> impl Iterator<Item = &'static (&'static str, Make)> {
    MESSAGES
        .iter()
        .chain(STORED_VALUES)
        .chain(REPLICA_FETCHES)
        .chain(REPLICA_ANSWERS)
}

/// The topic of the messages; the versions measured name it by id.
const TOPIC_ID: Uuid = Uuid::from_u128(0x0123_4567_89ab_cdef_1032_5476_98ba_dcfe);
