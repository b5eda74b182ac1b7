//! Names that a server gives: topic ids, member ids, producer ids and the like.
//!
//! The two servers of a pair name the same things differently. What a server names gets a
//! stand-in, numbered by first appearance in its answers; as the answers are put in one order
//! before, the same thing has the same stand-in on both sides. Requests are written with stand-ins
//! and take each server's own names on the way out.

use model::{ProducerEpoch, ProducerId};
use std::collections::{BTreeMap, BTreeSet};

use interpreter::{Struct, Value};
use record::RecordBatchMut;
use record::batch_layout::{HEADER_SIZE_BYTES, PRODUCER_ID_OFFSET};

/// Stand-ins of 64-bit numbers start here; no test uses numbers of its own in this range.
const FIRST_LONG: i64 = 0x6e00_0000_0000_0000;
/// Stand-ins of 32-bit numbers.
const FIRST_INT: i64 = 0x6e00_0000;
/// How many stand-ins of each kind there may be.
const COUNT: i64 = 0x10_0000;

/// What one server calls things, and their stand-ins.
#[derive(Clone, Debug)]
pub(super) struct Names {
    pub(super) port: u16,
    stand_ins: Vec<(Value, Value)>,
    /// Strings of the requests themselves, which need no stand-in when they come back.
    literals: BTreeSet<String>,
    counts: BTreeMap<&'static str, i64>,
}

/// What kind of name it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameKind {
    Member,
    LogDir,
    Uuid,
    Producer,
    FetchSession,
}

impl Names {
    pub(super) fn new(port: u16) -> Self {
        Self {
            port,
            stand_ins: Vec::new(),
            literals: BTreeSet::new(),
            counts: BTreeMap::new(),
        }
    }

    /// Gives a name a stand-in that is not numbered.
    pub(super) fn fix(&mut self, name: &Value, stand_in: &Value) {
        self.stand_ins.push((name.clone(), stand_in.clone()));
    }

    /// The stand-in of a name that is known.
    pub(super) fn known(&self, name: &Value) -> Option<&Value> {
        let mut pairs = self.stand_ins.iter();
        pairs
            .find(|(known, _)| known == name)
            .map(|(_, value)| value)
    }

    /// The stand-in of a name, or the name itself when a request has brought it in.
    pub(super) fn stand_in(&mut self, kind: NameKind, name: &Value) -> Value {
        if name
            .as_str()
            .is_some_and(|name| self.literals.contains(name))
        {
            return name.clone();
        }
        if let Some(known) = self.known(name) {
            return known.clone();
        }
        let label = match kind {
            NameKind::Member => "member",
            NameKind::LogDir => "log-dir",
            NameKind::Uuid => "uuid",
            NameKind::Producer => "producer",
            NameKind::FetchSession => "session",
        };
        let count = self.counts.entry(label).or_default();
        let number = *count;
        *count += 1;
        let value = match kind {
            NameKind::Member | NameKind::LogDir => Value::String(format!("«{label}-{number}»")),
            NameKind::Uuid => {
                let mut bytes = [0xee; 16];
                bytes[8..].copy_from_slice(&number.to_be_bytes());
                Value::Uuid(bytes)
            }
            NameKind::Producer => Value::Integer(FIRST_LONG + number),
            NameKind::FetchSession => Value::Integer(FIRST_INT + number),
        };
        self.stand_ins.push((name.clone(), value.clone()));
        value
    }

    /// Takes note of the strings of a request.
    pub(super) fn add_literals(&mut self, body: &Struct) {
        for (_, value) in body.leaves() {
            if let Some(text) = value.as_str()
                && !text.starts_with('«')
            {
                self.literals.insert(text.to_owned());
            }
        }
    }

    /// The request with this server's names in place of their stand-ins.
    pub(super) fn translate(&self, body: &Struct) -> Struct {
        let fields = body.fields.iter();
        Struct {
            fields: fields
                .map(|(name, value)| (name.clone(), self.translate_value(value)))
                .collect(),
            unknown: body.unknown.clone(),
        }
    }

    fn translate_value(&self, value: &Value) -> Value {
        match value {
            Value::Array(elements) => {
                let elements = elements.iter().map(|element| self.translate_value(element));
                Value::Array(elements.collect())
            }
            Value::Struct(one) => Value::Struct(self.translate(one)),
            Value::Bytes(bytes) => Value::Bytes(self.translate_batches(bytes.clone())),
            value => self.name_of(value).unwrap_or(value).clone(),
        }
    }

    fn name_of(&self, stand_in: &Value) -> Option<&Value> {
        let is_stand_in = match stand_in {
            Value::String(text) => text.starts_with('«'),
            Value::Uuid(bytes) => bytes[..8] == [0xee; 8],
            Value::Integer(number) => [FIRST_INT, FIRST_LONG]
                .iter()
                .any(|first| (*first..first + COUNT).contains(number)),
            _ => false,
        };
        let mut pairs = self.stand_ins.iter();
        let found = pairs.find(|(_, known)| known == stand_in);
        found.filter(|_| is_stand_in).map(|(name, _)| name)
    }

    /// Puts this server's producer ids into record batches; a checksum stays as right or wrong as
    /// it is.
    fn translate_batches(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        let mut rest = bytes.as_mut_slice();
        while rest.len() >= HEADER_SIZE_BYTES {
            let id = &rest[PRODUCER_ID_OFFSET..PRODUCER_ID_OFFSET + 8];
            let id = i64::from_be_bytes(id.try_into().expect("eight bytes"));
            let epoch = &rest[PRODUCER_ID_OFFSET + 8..PRODUCER_ID_OFFSET + 10];
            let epoch = i16::from_be_bytes(epoch.try_into().expect("two bytes"));
            let name = self
                .name_of(&Value::Integer(id))
                .and_then(Value::as_integer);
            let Ok((mut batch, after)) = RecordBatchMut::parse(rest) else {
                break;
            };
            if let Some(name) = name {
                batch.set_producer(ProducerId(name), ProducerEpoch(epoch));
            }
            rest = after;
        }
        bytes
    }
}
