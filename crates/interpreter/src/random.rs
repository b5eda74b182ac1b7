//! Random messages, mostly small, that visit the borders: empty and null, the largest numbers,
//! lengths around those where a varint grows, and tagged fields of the future.

use crate::value::{Struct, Value, default_value};
use codegen::{Field, FieldType, Message, StructType};

/// A seeded source of random numbers (SplitMix64).
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// A source; the same seed yields the same numbers.
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// 64 random bits.
    pub const fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is not zero.
    pub const fn below(&mut self, end: usize) -> usize {
        (self.bits() % end as u64) as usize
    }

    /// True in `part` of `whole` cases.
    pub const fn chance(&mut self, part: usize, whole: usize) -> bool {
        self.below(whole) < part
    }

    /// One of `choices`, which are not empty.
    pub fn choice<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }

    /// `length` random bytes.
    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.bits() as u8).collect()
    }
}

/// A random value of `message` in `version`; `unknown_tags` adds tagged fields that the schema
/// does not know to some structs of a flexible version.
pub fn random_message(
    message: &Message,
    version: i16,
    unknown_tags: bool,
    random: &mut Random,
) -> Struct {
    let mut generator = Generator {
        message,
        version,
        unknown_tags: unknown_tags && version >= message.flexible_from,
        random,
    };
    generator.fields(message.root(), 0)
}

/// The lengths around which a compact length takes one byte more.
const BORDER_LENGTHS: [usize; 5] = [126, 127, 128, 129, 255];

/// The longest string that the protocol can carry.
const MAX_STRING_BYTES: usize = 0x7fff;

struct Generator<'a> {
    message: &'a Message,
    version: i16,
    unknown_tags: bool,
    random: &'a mut Random,
}

impl Generator<'_> {
    fn fields(&mut self, one: &StructType, depth: usize) -> Struct {
        let mut value = Struct::default();
        for field in &one.fields {
            if field.versions.contains(self.version) {
                let field_value = self.field(field, depth);
                value.fields.push((field.name.clone(), field_value));
            }
        }
        if self.unknown_tags && self.random.chance(1, 6) {
            let known = one.fields.iter().filter_map(|field| field.tag).max();
            let mut tag = known.map_or(0, |tag| tag + 1);
            for _ in 0..1 + self.random.below(2) {
                tag += *self.random.choice(&[0, 1, 100, 10_000]);
                let length = self.random.below(20);
                value.unknown.push((tag, self.random.bytes(length)));
                tag += 1;
            }
        }
        value
    }

    fn field(&mut self, field: &Field, depth: usize) -> Value {
        if field.nullable.contains(self.version) && self.random.chance(1, 5) {
            return Value::Null;
        }
        let settled = if field.tag.is_some() { 3 } else { 1 };
        if self.random.chance(settled, 8) {
            let value = default_value(self.message, field, self.version);
            if value != Value::Null || field.nullable.contains(self.version) {
                return value;
            }
        }
        if !field.array {
            return self.one(&field.kind, depth);
        }
        let count = self.array_length(&field.kind, depth);
        Value::Array((0..count).map(|_| self.one(&field.kind, depth)).collect())
    }

    fn array_length(&mut self, kind: &FieldType, depth: usize) -> usize {
        let fixed = matches!(kind, FieldType::Integer(_) | FieldType::Uuid);
        match self.random.below(40) {
            0..8 => 0,
            8..24 => 1,
            24..34 => 2,
            39 if fixed => *self.random.choice(&BORDER_LENGTHS),
            39 if depth == 0 => *self.random.choice(&BORDER_LENGTHS) / 4,
            _ if depth < 2 => 3,
            _ => 1,
        }
    }

    fn one(&mut self, kind: &FieldType, depth: usize) -> Value {
        match kind {
            FieldType::Bool => Value::Bool(self.random.chance(1, 2)),
            FieldType::Integer(width) => Value::Integer(self.integer(width)),
            FieldType::Float64 => Value::Float(match self.random.below(4) {
                0 => *self.random.choice(&[1.5, -0.25, f64::MAX, f64::INFINITY]),
                _ => (self.random.bits() >> 11) as f64 / 1000.0,
            }),
            FieldType::Uuid => {
                let mut bytes = [0; 16];
                bytes.copy_from_slice(&self.random.bytes(16));
                Value::Uuid(bytes)
            }
            FieldType::String => Value::String(self.text()),
            FieldType::Bytes | FieldType::Records => {
                let length = match self.random.below(20) {
                    0..3 => 0,
                    3 => *self.random.choice(&BORDER_LENGTHS),
                    4 if depth == 0 => 20_000 + self.random.below(1_000),
                    _ => self.random.below(40),
                };
                Value::Bytes(self.random.bytes(length))
            }
            FieldType::Struct(name) => {
                let one = self.message.struct_named(name);
                let one = one.expect("a field's struct is in its message");
                Value::Struct(self.fields(one, depth + 1))
            }
        }
    }

    fn integer(&mut self, width: &str) -> i64 {
        let (min, max) = match width {
            "i8" => (i64::from(i8::MIN), i64::from(i8::MAX)),
            "i16" => (i64::from(i16::MIN), i64::from(i16::MAX)),
            "u16" => (0, i64::from(u16::MAX)),
            "i32" => (i64::from(i32::MIN), i64::from(i32::MAX)),
            _ => (i64::MIN, i64::MAX),
        };
        match self.random.below(10) {
            0 => min,
            1 => max,
            2..5 => (*self.random.choice(&[-1, 0, 1, 100])).clamp(min, max),
            _ => {
                let bits = self.random.bits() as i64;
                if max == i64::MAX {
                    bits
                } else {
                    min + bits.rem_euclid(max - min + 1)
                }
            }
        }
    }

    fn text(&mut self) -> String {
        let length = match self.random.below(200) {
            0..20 => 0,
            20..30 => *self.random.choice(&BORDER_LENGTHS),
            30 => MAX_STRING_BYTES,
            _ => 1 + self.random.below(16),
        };
        let letters = if self.random.chance(1, 3) {
            &['é', 'ß', '中', '😀', 'a', '\u{0}', '\u{ffff}'][..]
        } else {
            &['a', 'b', '-', '.', '_', '7', 'Z', ' '][..]
        };
        let mut text = String::new();
        while text.len() < length {
            let letter = *self.random.choice(letters);
            if text.len() + letter.len_utf8() <= length {
                text.push(letter);
            } else {
                text.push('x');
            }
        }
        text
    }
}
