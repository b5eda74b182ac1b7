//! Pieces of a request, put together again, beside a model of the request.

use super::super::tests::batch;
use super::*;
use proptest::prelude::*;
use record::Compression;
use std::collections::BTreeMap;

/// What a request has for a partition, mention by mention: the number of its records, or an error.
type Mentions = Vec<(usize, Option<ErrorCode>)>;

/// A mention of a partition: topic, index, and what its records are.
type Mention = (u8, i32, Option<ErrorCode>);

fn mention() -> impl Strategy<Value = Mention> {
    let errors = vec![ErrorCode::InvalidRecord, ErrorCode::CorruptMessage];
    let error = prop::option::weighted(0.3, prop::sample::select(errors));
    (0..4_u8, 0..5, error)
}

/// A frame with the names of the topics, and a batch of so many records for each mention.
struct Frame {
    bytes: Vec<u8>,
    names: Vec<Range<usize>>,
    batches: Vec<Range<usize>>,
}

fn frame(mentions: usize) -> Frame {
    let mut bytes = b"head".to_vec();
    let mut append = |part: &[u8]| {
        bytes.extend_from_slice(part);
        bytes.len() - part.len()..bytes.len()
    };
    let names = (0..4).map(|topic| append(format!("topic-{topic}").as_bytes()));
    let names = names.collect();
    let batches = (0..mentions).map(|at| append(&batch(at + 1, 1, Compression::None)));
    let batches = batches.collect();
    Frame {
        bytes,
        names,
        batches,
    }
}

/// What is appended of a partition, and which error its answer has whatever becomes of that.
fn model(mentions: &Mentions) -> (Result<usize, ErrorCode>, Option<ErrorCode>) {
    let valid = mentions.iter().rposition(|(_, error)| error.is_none());
    let invalid = mentions.iter().rev().find_map(|(_, error)| *error);
    match valid {
        Some(at) => (Ok(mentions[at].0), invalid),
        None if mentions.len() == 1 => (Err(mentions[0].1.unwrap()), None),
        None => (Err(mentions[0].1.unwrap()), invalid),
    }
}

fn check(mentions: &[Mention], piece: usize, is_long: bool) {
    let frame = frame(mentions.len());
    let mut outline = Outline::default();
    let mut expected: BTreeMap<u8, BTreeMap<i32, Mentions>> = BTreeMap::new();
    for (at, (topic, index, error)) in mentions.iter().enumerate() {
        let name = &frame.bytes[frame.names[usize::from(*topic)].clone()];
        let topic_asked = ProduceRequestTopic {
            name: std::str::from_utf8(name).unwrap(),
            id: Uuid::ZERO,
        };
        let records = &frame.bytes[frame.batches[at].clone()];
        let parsed = error.map_or_else(|| Ok(ParsedHeader::parse(records).unwrap()), Err);
        outline.push(&frame.bytes, &topic_asked, (*index, records), parsed);
        let of_topic = expected.entry(*topic).or_default();
        of_topic.entry(*index).or_default().push((at + 1, *error));
    }
    outline.is_long |= is_long;
    outline.join_repetitions(&frame.bytes);
    assert_eq!(outline.topic_count(&frame.bytes), expected.len());

    let count = outline.partition_count();
    let mut parts = Parts::default();
    let mut found = Vec::new();
    let mut topics_open = 0;
    for start in (0..count).step_by(piece) {
        let part = start..count.min(start + piece);
        outline.fill(part, &frame.bytes, &mut parts, |_, _| None);
        let mut of_piece = parts.partitions.iter();
        for topic in &parts.topics {
            let name = frame.names.iter().position(|one| *one == topic.name);
            if let Some(listed) = topic.begins_with {
                topics_open += 1;
                assert_eq!(listed, expected[&(name.unwrap() as u8)].len());
            }
            assert_eq!(topics_open, 1, "a topic begins once, and before the next");
            topics_open -= usize::from(topic.ends);
            for part in of_piece.by_ref().take(topic.partition_count) {
                let batch = part.batch_of(&parts.batches);
                let records = batch.map(|batch| batch.record_count() as usize);
                if let Ok(records) = records {
                    assert_eq!(part.records, frame.batches[records - 1]);
                }
                let told = (records, part.repetition_error);
                found.push(((name.unwrap() as u8, part.index), told));
            }
        }
        assert!(of_piece.next().is_none());
    }
    assert_eq!(topics_open, 0);
    let expected = expected.iter().flat_map(|(topic, partitions)| {
        let partitions = partitions.iter();
        partitions.map(|(index, mentions)| ((*topic, *index), model(mentions)))
    });
    assert_eq!(found, expected.collect::<Vec<_>>());
}

proptest! {
    #![proptest_config(trials::property(256))]

    #[test]
    fn pieces_are_the_request(
        mentions in prop::collection::vec(mention(), 0..40),
        piece in 1..12_usize,
        is_long: bool,
    ) {
        check(&mentions, piece, is_long);
    }
}

#[test]
fn an_entry_takes_less_than_half_of_the_smallest_batch() {
    let smallest = batch(1, 0, Compression::None).len();
    assert!(size_of::<OutlinedPartition>() <= smallest / 2);
}

#[test]
fn headers_of_a_long_request_are_read_with_their_pieces() {
    let frame = frame(1);
    let records = &frame.bytes[frame.batches[0].clone()];
    let topic = ProduceRequestTopic {
        name: "",
        id: Uuid::ZERO,
    };
    let mut outline = Outline::default();
    for index in 0..=PIECE_PARTITIONS as i32 {
        let batch = Ok(ParsedHeader::parse(records).unwrap());
        assert!(!outline.is_long, "before {index}");
        outline.push(&frame.bytes, &topic, (index, records), batch);
    }
    assert!(outline.is_long && outline.is_split());
    assert!(outline.batches.is_empty());
    let pieces: Vec<_> = outline.pieces().collect();
    assert_eq!(
        pieces,
        [0..PIECE_PARTITIONS, PIECE_PARTITIONS..PIECE_PARTITIONS + 1]
    );
}
