//! Short runs of the fuzzers: frames around random messages, whole and damaged, and noise.

use codegen::{Api, Message, Schema};
use interpreter::verify::damage;
use interpreter::{Random, encode, random_message};
use proptest::prelude::*;
use std::path::Path;
use std::sync::LazyLock;
use wire::fuzz::{fuzz_request_frame, fuzz_response_frame};
use wire::{ApiKey, RequestHeader, ResponseHeader};

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema");
    codegen::parse_folder(&folder).expect("the schema parses")
});

fn message(api: &Api, suffix: &str) -> &'static Message {
    let name = format!("{}{suffix}", api.name);
    let named = SCHEMA.messages.iter().find(|m| m.name == name);
    named.expect("an api has both messages")
}

fn random_version(message: &Message, random: &mut Random) -> i16 {
    let versions: Vec<i16> = (message.versions.first..=message.versions.last).collect();
    *random.choice(&versions)
}

fn request_frame(seed: u64) -> Vec<u8> {
    let random = &mut Random::new(seed);
    let api = random.choice(&SCHEMA.apis);
    let message = message(api, "Request");
    let api_version = random_version(message, random);
    let header = RequestHeader {
        api_key: api.key,
        api_version,
        correlation_id: 1,
        client_id: Some("fuzz"),
    };
    let mut frame = Vec::new();
    header.encode(api_version >= message.flexible_from, &mut frame);
    let body = random_message(message, api_version, true, random);
    frame.extend(encode(message, api_version, &body));
    (0..random.below(4)).for_each(|_| damage(&mut frame, random));
    frame
}

fn response_frame(seed: u64) -> Vec<u8> {
    let random = &mut Random::new(seed);
    let api = random.choice(&SCHEMA.apis);
    let message = message(api, "Response");
    let version = random_version(message, random);
    let mut frame = vec![api.key as u8, version as u8];
    let key = ApiKey::from_number(api.key).expect("the schema is the table's");
    let header = ResponseHeader { correlation_id: 1 };
    header.encode(key.response_header_version(version), &mut frame);
    let body = random_message(message, version, true, random);
    frame.extend(encode(message, version, &body));
    (0..random.below(4)).for_each(|_| damage(&mut frame, random));
    frame
}

proptest! {
    #![proptest_config(trials::property(2000))]

    #[test]
    fn request_frames(seed: u64) {
        fuzz_request_frame(&request_frame(seed));
    }

    #[test]
    fn response_frames(seed: u64) {
        fuzz_response_frame(&response_frame(seed));
    }

    #[test]
    fn noise(key in 0u8..100, version in 0u8..20, bytes: Vec<u8>) {
        let mut request = vec![0, key, 0, version];
        request.extend(&bytes);
        fuzz_request_frame(&request);
        let mut response = vec![key, version];
        response.extend(&bytes);
        fuzz_response_frame(&response);
    }
}
