//! Inputs that a target begins with: random messages of the schemas, batches, and small files.

use std::path::Path;

use codegen::{Message, Schema};
use interpreter::{Random, encode, random_message};
use record::{BatchBuilder, BatchHeader, Codec, Compression, Compressor, Header};
use wire::{ApiKey, RequestHeader, ResponseHeader};

/// How many random messages of each kind.
const MESSAGES: u64 = 2;

/// The inputs of a target.
pub fn seeds(target: &str) -> Vec<Vec<u8>> {
    match target {
        "batches" | "records" | "produce" | "segment" => batches(),
        "lz4" => streams(Compression::Lz4),
        "snappy" => streams(Compression::Snappy),
        "request-frame" => requests(),
        "response-frame" => responses(),
        "metadata-record" => metadata_records(),
        "group-records" | "transaction-records" => replayed(),
        "group-texts" => vec![
            b"\0\0\0\0\0\x02\0\x01a\0\x01b\xff\xff\xff\xff".to_vec(),
            b"orders-[0-9]+(\\.eu){1,2}|(?i:[[:alpha:]]*)$".to_vec(),
        ],
        "checkpoint" => vec![b"0\n2\norders 0 17\norders 1 0\n".to_vec()],
        // A full answer about nothing, and one that names a partition and a session.
        "fetch-answers" => vec![
            [&[5, 0, 12][..], &[0; 10], &[1, 0]].concat(),
            [&[5, 0, 68][..], &[0; 9], &[9, 2], &[0; 16], &[2], &[0; 35], &[4, 7, 7, 7], &[0; 3]].concat(),
        ],
        "leader-epochs" => vec![b"0\n2\n0 0\n3 17\n".to_vec()],
        "meta-properties" => vec![
            b"#\n#Thu Jan 01 00:00:00 UTC 1970\ncluster.id=a\nversion=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAAAQ\nnode.id=1\n".to_vec(),
        ],
        "partition-metadata" => vec![b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ".to_vec()],
        "quorum-state" => vec![
            br#"{"leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,"currentVoters":[],"data_version":0}"#.to_vec(),
        ],
        name if name.starts_with("stream-") => of_kafka_streams(name),
        "producer-snapshot" => vec![[&[0, 1, 0, 0, 0, 0, 0, 0, 0, 1][..], &[0; 62]].concat()],
        _ => vec![vec![0; 64]],
    }
}

/// What Kafka Streams writes, one of each kind.
fn of_kafka_streams(target: &str) -> Vec<Vec<u8>> {
    let texts: &[&[u8]] = match target {
        "stream-buffer" => &[
            b"\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\x01t\0\0\0\0\0\0\0\x01\0\0\0\x01h\xff\xff\xff\xff\
              \0\0\0\x01o\xff\xff\xff\xfe\0\0\0\x01n\0\0\0\0\0\0\0\x01",
        ],
        "stream-checkpoint" => &[b"0\n1\napp-counts-changelog 0 17\n"],
        "stream-commit-metadata" => &[b"\x02\0\0\0\0\0\0\0\x01\0\0\0\x01\0\0\0\x01w\0\0\0\0\0\0\0\x01"],
        "stream-group-user-data" => &[
            b"\0\0\0\x0b\0\0\0\x0b0123456789abcdef\0\0\0\x03h:1\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x01\
              \xff\xff\x05\0\0\0\0\0\0\0\x01\0\0\0\x01z\0\0\0\x01a",
            b"\0\0\0\x05\0\0\0\x05\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\x01t\
              \0\0\0\x01\0\x01h\0\0\0\x01\0\0\0\x01\0\0\0\0\0\0\0\x01\0\0\0\0",
        ],
        "stream-keys" => &[
            b"\0\0\0\0\0\0\0\0\x09key\0\0\0\0",
            b"\x01key\0\0\0\0\0\0\0\x09\0\0\0\0",
        ],
        "stream-list" => &[
            b"\x01\0\0\0\x02\0\0\0\x01a\xff\xff\xff\xff",
            b"\0\0\0\0\x01\0\0\0\x01\0\0\0\x02\0\0\0\x07",
        ],
        "stream-position" => {
            &[b"\0\0\0\0\x01\0\0\0\x01t\0\0\0\x01\0\0\0\0\0\0\0\0\0\0\0\x09"]
        }
        "stream-subscription" => &[b"\x01\x030123456789abcdefkey\0\0\0\x04", b"\x81\x01key\0\0\0\x04"],
        "stream-table-change" => &[b"\x06newold\x02", b"\x06newold\x01\x05"],
        "stream-value" => &[
            b"\0\0\0\0\0\0\0\0\x09v",
            b"\x0a\x02\x02a\x02\x01\0\0\0\0\0\0\0\x09v",
        ],
        _ => &[
            b"\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x05\xff\xff\xff\xff\
              \0\0\0\0\0\0\0\x01\0\0\0\x01v",
        ],
    };
    texts.iter().map(|text| text.to_vec()).collect()
}

fn batches() -> Vec<Vec<u8>> {
    let mut compressor = Compressor::new();
    let mut all = Vec::new();
    for name in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let mut builder = BatchBuilder::new(BatchHeader::default());
        for timestamp in 0..3 {
            let headers = [Header {
                key: b"h",
                value: Some(b"v"),
            }];
            builder.append(timestamp, Some(b"key"), Some(&[b'v'; 40]), &headers);
        }
        let compression = Compression::from_name(name).expect("a name of Kafka's");
        let mut batch = Vec::new();
        builder.build(Codec::from(compression), &mut compressor, &mut batch);
        all.push(batch);
    }
    all.push(all.concat());
    all
}

fn streams(compression: Compression) -> Vec<Vec<u8>> {
    let mut output = Vec::new();
    let text = b"the same words, the same words, the same words";
    Compressor::new().compress(Codec::from(compression), text, &mut output);
    vec![output]
}

fn schema(package: &str) -> Schema {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../crates")
        .join(package)
        .join("schema");
    codegen::parse_folder(&folder).expect("the schema parses")
}

/// Random bodies of a message, each with its version.
fn bodies(message: &Message, random: &mut Random) -> Vec<(i16, Vec<u8>)> {
    let versions: Vec<i16> = (message.versions.first..=message.versions.last).collect();
    let mut one = || {
        let version = *random.choice(&versions);
        let body = random_message(message, version, true, random);
        (version, encode(message, version, &body))
    };
    (0..MESSAGES).map(|_| one()).collect()
}

fn requests() -> Vec<Vec<u8>> {
    let (schema, mut random, mut all) = (schema("wire"), Random::new(1), Vec::new());
    for api in &schema.apis {
        let message = named(&schema, &format!("{}Request", api.name));
        for (api_version, body) in bodies(message, &mut random) {
            let header = RequestHeader {
                api_key: api.key,
                api_version,
                correlation_id: 1,
                client_id: Some("fuzz"),
            };
            let mut frame = Vec::new();
            header.encode(api_version >= message.flexible_from, &mut frame);
            frame.extend(body);
            all.push(frame);
        }
    }
    all
}

fn responses() -> Vec<Vec<u8>> {
    let (schema, mut random, mut all) = (schema("wire"), Random::new(1), Vec::new());
    for api in &schema.apis {
        let key = ApiKey::from_number(api.key).expect("the schema is the table's");
        for (version, body) in bodies(
            named(&schema, &format!("{}Response", api.name)),
            &mut random,
        ) {
            let mut frame = vec![api.key as u8, version as u8];
            let header = ResponseHeader { correlation_id: 1 };
            header.encode(key.response_header_version(version), &mut frame);
            frame.extend(body);
            all.push(frame);
        }
    }
    all
}

fn named<'a>(schema: &'a Schema, name: &str) -> &'a Message {
    let found = schema.messages.iter().find(|message| message.name == name);
    found.expect("an api has both messages")
}

fn metadata_records() -> Vec<Vec<u8>> {
    let (schema, mut random, mut all) = (schema("metadata"), Random::new(1), Vec::new());
    for message in &schema.messages {
        for (version, body) in bodies(message, &mut random) {
            if let Some(Ok(id)) = message.id.map(u8::try_from) {
                all.push([&[1, id, version as u8][..], &body].concat());
            }
        }
    }
    all
}

/// Keys and values as `fuzz_replay` takes them, those of each kind in an input.
fn replayed() -> Vec<Vec<u8>> {
    let (schema, mut random, mut all) = (schema("coordinator"), Random::new(1), Vec::new());
    let framed = |id: i16, body: &[u8]| [&id.to_be_bytes()[..], body].concat();
    for key in &schema.messages {
        let (Some(name), Some(id)) = (key.name.strip_suffix("Key"), key.id) else {
            continue;
        };
        let Some(value) = schema
            .messages
            .iter()
            .find(|one| one.name == format!("{name}Value"))
        else {
            continue;
        };
        let mut input = Vec::new();
        for ((_, key), (version, value)) in bodies(key, &mut random)
            .into_iter()
            .zip(bodies(value, &mut random))
        {
            let (key, value) = (framed(id, &key), framed(version, &value));
            if key.len() < 255 && value.len() < 255 {
                input.push(key.len() as u8);
                input.extend(key);
                input.push(value.len() as u8);
                input.extend(value);
            }
        }
        all.push(input);
    }
    all
}
