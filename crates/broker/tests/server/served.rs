//! Every API that is advertised, in every version: a request with nothing in it has an answer that
//! can be read, and one with anything in it has such an answer or none.
//!
//! Requests are made, and answers read, by interpreting the schema: not by the codecs that the
//! server itself uses.

use broker::served::{ServedApi, on_listener};
use codegen::{Message, Schema};
use interpreter::{Random, Struct, Value, decode, default_struct, encode, random_message};
use model::Reader;
use std::path::Path;
use std::time::Duration;
use testkit::{Client, TestServer, batch};
use wire::{ApiKey, ResponseHeader};

fn schema() -> Schema {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wire/schema");
    codegen::parse_folder(&folder).unwrap()
}

fn message<'s>(schema: &'s Schema, api: ApiKey, kind: &str) -> &'s Message {
    let name = format!("{api}{kind}");
    let found = schema.messages.iter().find(|one| one.name == name);
    found.unwrap_or_else(|| panic!("no {name} in the schema"))
}

fn versions(api: &ServedApi) -> impl Iterator<Item = (ApiKey, i16)> + use<> {
    let key = api.api;
    (api.min_version..=api.max_version).map(move |version| (key, version))
}

/// The bytes of a request with this body.
fn frame(client: &mut Client, api: ApiKey, version: i16, body: &[u8]) -> Vec<u8> {
    client.frame_of(api as i16, version, api.is_request_flexible(version), body)
}

/// Reads an answer, which must be one of this API and version to the last byte.
#[track_caller]
fn read(schema: &Schema, api: ApiKey, version: i16, frame: &[u8]) -> Struct {
    let mut reader = Reader::new(frame);
    ResponseHeader::decode(&mut reader, api.response_header_version(version)).unwrap();
    decode(
        message(schema, api, "Response"),
        version,
        reader.remaining(),
    )
    .unwrap_or_else(|error| panic!("{api} v{version}: {error:?}"))
}

#[test]
fn the_smallest_request_of_every_version_is_answered_in_that_version() {
    let (schema, server) = (schema(), TestServer::start(&[]));
    for (listener, is_controller) in [("PLAINTEXT", false), ("CONTROLLER", true)] {
        for (api, version) in on_listener(is_controller).flat_map(versions) {
            let mut client = Client::connect(server.address_of(listener));
            let request = message(&schema, api, "Request");
            let mut smallest = default_struct(request, request.root(), version);
            // Without acknowledgement there would be no answer.
            smallest.set("Acks", Value::Integer(1));
            // Access control entries have kinds, of which 0 is none.
            for kind in [
                "ResourceTypeFilter",
                "PatternTypeFilter",
                "Operation",
                "PermissionType",
            ] {
                smallest.set(kind, Value::Integer(1));
            }
            let body = encode(request, version, &smallest);
            println!("{listener} {api} v{version}");
            let frame = frame(&mut client, api, version, &body);
            client.send_bytes(&frame);
            read(&schema, api, version, &client.receive_frame());
        }
    }
    server.assert_serves();
}

/// Puts what exists, and what does not take for ever, where a request has anything.
fn sharpen(value: &mut Struct, random: &mut Random) {
    for (name, value) in &mut value.fields {
        match value {
            Value::Struct(inner) => sharpen(inner, random),
            Value::Array(elements) => {
                for element in elements {
                    if let Value::Struct(inner) = element {
                        sharpen(inner, random);
                    }
                }
            }
            Value::String(text) if random.chance(1, 2) => {
                let known = [
                    "topic",
                    "group",
                    "1",
                    "__consumer_offsets",
                    "retention.ms",
                    "range",
                ];
                (*random.choice(&known)).clone_into(text);
            }
            Value::Integer(number) => match name.as_str() {
                "MaxWaitMs" | "TimeoutMs" | "timeoutMs" => *number = (*number).clamp(-1, 5),
                _ if random.chance(1, 2) => *number = random.below(3) as i64 - 1,
                _ => {}
            },
            _ => {}
        }
    }
}

#[test]
fn any_request_has_a_readable_answer_or_none() {
    let (schema, server) = (schema(), TestServer::start(&[]));
    let mut client = server.connect();
    client.create_topic("topic", 2, &[]);
    client
        .produce("topic", 0, &batch(&["a", "b"]))
        .assert_accepted();
    let mut random = Random::new(trials::seed(7));
    // A server that is told to forget itself serves no more.
    let harmless = on_listener(false).filter(|one| one.api != ApiKey::UnregisterBroker);
    for (api, version) in harmless.flat_map(versions) {
        let request = message(&schema, api, "Request");
        for _ in 0..6 {
            let mut value = random_message(request, version, true, &mut random);
            sharpen(&mut value, &mut random);
            let mut client = server.connect();
            let body = encode(request, version, &value);
            let frame = frame(&mut client, api, version, &body);
            client.send_bytes(&frame);
            client.finish_sending();
            // Members of a group wait for each other: theirs may come later than anyone looks.
            let patience = match api {
                ApiKey::JoinGroup | ApiKey::SyncGroup => Duration::from_millis(20),
                _ => testkit::LIMIT,
            };
            if let Some(frame) = client.receive_frame_if_any(patience) {
                read(&schema, api, version, &frame);
            }
        }
    }
    server.assert_serves();
}
