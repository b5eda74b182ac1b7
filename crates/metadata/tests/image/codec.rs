//! The generated codecs of the records against their schema, interpreted.

use codegen::Schema;
use interpreter::{Codec, Random, verify};
use std::path::Path;

macro_rules! table {
    ($($message:ident)*) => { &[$(interpreter::codec!($message in metadata::messages)),*] };
}

const CODECS: &[Codec] = metadata::for_each_message!(table);

fn check(mut verify: impl FnMut(&codegen::Message, Codec, &mut Random)) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema");
    let schema: Schema = codegen::parse_folder(&folder).expect("the schema parses");
    let mut random = Random::new(trials::seed(1));
    for (message, codec) in verify::with_messages(&schema, CODECS) {
        for _ in 0..50 {
            verify(message, codec, &mut random);
        }
    }
}

#[test]
fn random_records_encode_to_the_bytes_they_came_from() {
    check(verify::round_trip);
}

#[test]
fn no_part_of_a_record_is_a_record() {
    check(verify::truncation);
}

#[test]
fn a_damaged_record_never_panics() {
    check(|message, codec, random| verify::damage_is_refused(message, codec, 5, random));
}
