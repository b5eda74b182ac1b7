//! The generated codecs of requests and responses against their schema, interpreted.

use codegen::Message;
use interpreter::{Codec, Random, verify};
use std::path::Path;

macro_rules! table {
    ($($message:ident)*) => { &[$(interpreter::codec!($message in wire::messages)),*] };
}

pub(crate) const CODECS: &[Codec] = wire::for_each_message!(table);

fn check(times: usize, mut verify: impl FnMut(&Message, Codec, &mut Random)) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema");
    let schema = codegen::parse_folder(&folder).expect("the schema parses");
    let mut random = Random::new(trials::seed(1));
    for (message, codec) in verify::with_messages(&schema, CODECS) {
        for _ in 0..times {
            verify(message, codec, &mut random);
        }
    }
}

#[test]
fn random_messages_encode_to_the_bytes_they_came_from() {
    check(8, verify::round_trip);
}

#[test]
fn no_part_of_a_message_is_a_message() {
    check(2, verify::truncation);
}

#[test]
fn a_damaged_message_never_panics() {
    check(1, |message, codec, random| {
        verify::damage_is_refused(message, codec, 60, random);
    });
}

/// An array's elements take at least a byte, which bounds the loop over a count from a peer.
#[test]
fn no_version_has_an_empty_struct() {
    check(1, |message, _, _| {
        for version in message.versions.first..=message.versions.last {
            for one in message.structs.iter().skip(1) {
                let mut fields = message.structs.iter().flat_map(|s| &s.fields);
                let used = fields.any(|field| {
                    field.versions.contains(version)
                        && field.kind == codegen::FieldType::Struct(one.name.clone())
                });
                let empty = !one.fields.iter().any(|f| f.versions.contains(version));
                let flexible = version >= message.flexible_from;
                assert!(!used || !empty || flexible, "{} {version}", one.name);
            }
        }
    });
}
