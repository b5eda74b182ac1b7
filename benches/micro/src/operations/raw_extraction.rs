//! Raw extraction: parts of stored values with headers, a batch of values one after another.

use crate::Operation;
use record::Header;
use riverrun_streams::formats::raw;
use riverrun_streams::formats::stored_value::{AggregationWithHeaders, ValueTimestampHeaders};
use std::hint::black_box;

const COUNT: usize = 256;

/// What is taken from each value.
#[derive(Clone, Copy)]
pub(super) enum Part {
    Aggregation,
    PlainValue,
    TimestampedValue,
    Timestamp,
    Headers,
}

pub(super) struct RawExtraction {
    part: Part,
    /// Each as a store keeps it.
    stored: Vec<Box<[u8]>>,
}

impl RawExtraction {
    pub(super) fn new(part: Part, has_header: bool) -> Self {
        let stored = (0..COUNT as u64).map(|number| {
            let number = number.to_be_bytes();
            let header = Header {
                key: b"trace",
                value: Some(&number),
            };
            let headers = has_header.then_some(header);
            let headers = headers.as_slice().iter().copied();
            let mut stored = Vec::new();
            let value = [number, number].concat();
            match part {
                Part::Aggregation => AggregationWithHeaders::write(&value, headers, &mut stored),
                _ => ValueTimestampHeaders::write(
                    &value,
                    1_700_000_000_000 + i64::from_be_bytes(number),
                    headers,
                    &mut stored,
                ),
            }
            stored.into_boxed_slice()
        });
        Self {
            part,
            stored: stored.collect(),
        }
    }

    fn each(&self, extract: impl Fn(&[u8])) {
        for stored in black_box(&self.stored) {
            extract(stored);
        }
    }
}

impl Operation for RawExtraction {
    fn evidence(&mut self) -> Vec<u8> {
        const SOUND: &str = "what was written is sound";
        let of = |stored: &[u8]| match self.part {
            Part::Aggregation => raw::aggregation(stored).expect(SOUND).to_vec(),
            Part::PlainValue => raw::plain_value(stored).expect(SOUND).to_vec(),
            Part::TimestampedValue => raw::timestamped_value(stored).expect(SOUND).to_vec(),
            Part::Timestamp => raw::timestamp(stored).expect(SOUND).to_be_bytes().to_vec(),
            Part::Headers => {
                let headers = raw::headers(stored).expect(SOUND).iter();
                headers
                    .flat_map(|header| [header.key, header.value.unwrap_or_default()].concat())
                    .collect()
            }
        };
        self.stored.iter().flat_map(|stored| of(stored)).collect()
    }

    fn repeat(&mut self, count: u64) {
        for _ in 0..count {
            match self.part {
                Part::Aggregation => self.each(|stored| {
                    black_box(raw::aggregation(stored).ok());
                }),
                Part::PlainValue => self.each(|stored| {
                    black_box(raw::plain_value(stored).ok());
                }),
                Part::TimestampedValue => self.each(|stored| {
                    black_box(raw::timestamped_value(stored).ok());
                }),
                Part::Timestamp => self.each(|stored| {
                    black_box(raw::timestamp(stored).ok());
                }),
                Part::Headers => self.each(|stored| {
                    if let Ok(headers) = raw::headers(stored) {
                        headers.iter().for_each(|header| {
                            black_box(header);
                        });
                    }
                }),
            }
        }
    }

    fn batch(&self) -> u64 {
        COUNT as u64
    }
}
