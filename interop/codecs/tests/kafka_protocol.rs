//! The generated codecs against those of the crate `kafka-protocol`: the same random bytes must
//! mean the same to both, in every version that both have.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use codegen::Message;
use interpreter::{Random, encode, random_message};
use kafka_protocol::protocol::{Decodable, Encodable, Message as _};
use std::path::Path;

/// Decodes bytes in a version and encodes them again; an error says what `kafka-protocol` said.
struct Peer {
    name: &'static str,
    versions: (i16, i16),
    recode: fn(&[u8], i16) -> Result<Vec<u8>, String>,
}

fn recode<M: Decodable + Encodable>(bytes: &[u8], version: i16) -> Result<Vec<u8>, String> {
    let mut bytes = bytes;
    let message = M::decode(&mut bytes, version).map_err(|error| error.to_string())?;
    let mut out = Vec::new();
    message
        .encode(&mut out, version)
        .map_err(|error| error.to_string())?;
    Ok(out)
}

macro_rules! peer {
    // Streams groups are younger than the crate.
    (StreamsGroupHeartbeatRequest) => {
        None
    };
    (StreamsGroupHeartbeatResponse) => {
        None
    };
    (StreamsGroupDescribeRequest) => {
        None
    };
    (StreamsGroupDescribeResponse) => {
        None
    };
    ($message:ident) => {{
        type Message = kafka_protocol::messages::$message;
        Some(Peer {
            name: stringify!($message),
            versions: (Message::VERSIONS.min, Message::VERSIONS.max),
            recode: recode::<Message>,
        })
    }};
}

macro_rules! table {
    ($($message:ident)*) => { [$(peer!($message)),*] };
}

fn check(message: &Message, peer: &Peer, random: &mut Random) -> usize {
    let first = message.versions.first.max(peer.versions.0);
    let last = message.versions.last.min(peer.versions.1);
    for version in first..=last {
        for _ in 0..6 {
            let value = random_message(message, version, false, random);
            let bytes = encode(message, version, &value);
            let recoded = (peer.recode)(&bytes, version);
            assert_eq!(recoded, Ok(bytes), "{} {version}: {value}", message.name);
        }
    }
    (first..=last).count()
}

#[test]
fn the_crate_reads_and_writes_the_same_bytes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/wire/schema");
    let schema = codegen::parse_folder(&folder).expect("the schema parses");
    let mut random = Random::new(trials::seed(7));
    let mut checked = 0;
    for peer in wire::for_each_message!(table).into_iter().flatten() {
        let message = schema.messages.iter().find(|m| m.name == peer.name);
        checked += check(message.unwrap(), &peer, &mut random);
    }
    assert!(checked > 500, "only {checked} versions are common");
}
