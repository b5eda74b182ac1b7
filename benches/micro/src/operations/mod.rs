//! The operations, one file each; `benches/java` has a class of the same name for each.

mod error_lookup;
mod fetch_response_encode;
mod produce_request_decode;
mod produce_response_encode;
mod varint_size;

use crate::Operation;
use error_lookup::ErrorLookup;
use fetch_response_encode::FetchResponseEncode;
use model::Uuid;
use produce_request_decode::ProduceRequestDecode;
use produce_response_encode::ProduceResponseEncode;
use varint_size::{VarintSize, VarintSizeBulk};

type Make = fn() -> Box<dyn Operation>;

/// Every operation under the name that `cargo xtask bench micro` has for it.
pub(crate) const OPERATIONS: &[(&str, Make)] = &[
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

/// The topic of the messages; the versions measured name it by id.
const TOPIC_ID: Uuid = Uuid::from_u128(0x0123_4567_89ab_cdef_1032_5476_98ba_dcfe);
