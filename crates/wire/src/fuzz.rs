//! Entries for fuzzers: a frame from a peer goes through header and body as a server or a client
//! would take it.
//!
//! Whatever the bytes are, nothing panics; a body that decodes is as long as it says when it is
//! encoded, and what was encoded decodes to a body that encodes to the same bytes.

use crate::messages;
use crate::{ApiKey, RequestHeader, ResponseHeader};
use model::{Message as _, Reader};

macro_rules! bodies {
    ($($api:ident $request:ident $response:ident;)*) => {
        #[inline]
        fn fuzz_request_body(api: ApiKey, version: i16, bytes: &[u8]) {
            match api {
                $(ApiKey::$api => fuzz_body!($request, version, bytes),)*
            }
        }

        #[inline]
        fn fuzz_response_body(api: ApiKey, version: i16, bytes: &[u8]) {
            match api {
                $(ApiKey::$api => fuzz_body!($response, version, bytes),)*
            }
        }
    };
}

macro_rules! fuzz_body {
    ($message:ident, $version:expr, $bytes:expr) => {
        if let Ok(message) = messages::$message::from_bytes($bytes, $version) {
            let encoded = message.to_bytes($version);
            assert_eq!(encoded.len(), message.size($version), "the size is exact");
            let again = messages::$message::from_bytes(&encoded, $version)
                .expect("what was encoded decodes");
            assert_eq!(again.to_bytes($version), encoded, "encoding is stable");
        }
    };
}

for_each_api!(bodies);

/// A request frame, without its size, as a server reads it.
// Inlined into the fuzzer, so that other crates do not pay for compiling every body.
#[inline]
pub fn fuzz_request_frame(frame: &[u8]) {
    let mut reader = Reader::new(frame);
    let Ok(header) = RequestHeader::decode(&mut reader) else {
        return;
    };
    if let Some(api) = ApiKey::from_number(header.api_key) {
        fuzz_request_body(api, header.api_version, reader.remaining());
    }
}

/// A response frame, without its size, as a client reads it. The first two bytes choose the API
/// and the version that the client had asked for.
#[inline]
pub fn fuzz_response_frame(bytes: &[u8]) {
    let [number, version, frame @ ..] = bytes else {
        return;
    };
    let Some(api) = ApiKey::from_number(i16::from(*number)) else {
        return;
    };
    let version = i16::from(*version);
    let mut reader = Reader::new(frame);
    if ResponseHeader::decode(&mut reader, api.response_header_version(version)).is_ok() {
        fuzz_response_body(api, version, reader.remaining());
    }
}
