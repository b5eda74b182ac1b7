//! What a schema text says, as data.

/// The content of one or more schema files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Schema {
    /// The APIs, by key.
    pub apis: Vec<Api>,
    /// Every message: requests, responses and records.
    pub messages: Vec<Message>,
}

/// An API: a request and its response, which are messages of the same schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Api {
    /// The number in the request header.
    pub key: i16,
    /// Kafka's name of the API, such as `Produce`.
    pub name: String,
    /// What it is for, in a sentence.
    pub purpose: String,
    /// Whether a broker's listener serves it.
    pub broker: bool,
    /// Whether a controller's listener serves it.
    pub controller: bool,
    /// The first version that is not settled yet, if there is one.
    pub unstable_from: Option<i16>,
}

/// A message with versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Such as `ProduceRequest`.
    pub name: String,
    /// The valid versions.
    pub versions: VersionRange,
    /// The first flexible version; beyond the last version when there is none.
    pub flexible_from: i16,
    /// The number that stands for it on disk, if it has one.
    pub id: Option<i16>,
    /// The root struct and then those it uses; the root bears the message's name.
    pub structs: Vec<StructType>,
}

/// A struct of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StructType {
    /// The name, unique within its message.
    pub name: String,
    /// The fields in order.
    pub fields: Vec<Field>,
}

/// A field of a struct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Kafka's name, such as `TopicId`.
    pub name: String,
    /// The type, of the elements if this is an array.
    pub kind: FieldType,
    /// Whether it is an array.
    pub array: bool,
    /// The versions that have the field.
    pub versions: VersionRange,
    /// The versions in which it may be null.
    pub nullable: VersionRange,
    /// The tag, for a tagged field.
    pub tag: Option<u32>,
    /// The value of a version without the field, as text; `None` is the type's zero.
    pub default: Option<String>,
}

/// The type of a field, or of an array's elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldType {
    /// One byte, zero or not.
    Bool,
    /// An integer of 8, 16, 32 or 64 bits, as Rust names it.
    Integer(&'static str),
    /// An IEEE number of 64 bits.
    Float64,
    /// 16 bytes.
    Uuid,
    /// UTF-8.
    String,
    /// Bytes.
    Bytes,
    /// Record batches: bytes that the record layer understands.
    Records,
    /// A struct of the same message.
    Struct(String),
}

/// Versions from `first` to `last`, both inclusive; empty when `first > last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionRange {
    /// The lowest version.
    pub first: i16,
    /// The highest version.
    pub last: i16,
}

impl VersionRange {
    /// No version.
    pub const NONE: Self = Self { first: 1, last: 0 };

    /// Whether `version` is one of them.
    pub const fn contains(self, version: i16) -> bool {
        self.first <= version && version <= self.last
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.first > self.last
    }

    /// The versions in both.
    pub fn intersection(self, other: Self) -> Self {
        Self {
            first: self.first.max(other.first),
            last: self.last.min(other.last),
        }
    }
}

impl Message {
    /// The struct named `name`.
    pub fn struct_named(&self, name: &str) -> Option<&StructType> {
        self.structs.iter().find(|s| s.name == name)
    }

    /// The struct of the message's own fields.
    ///
    /// # Panics
    /// Never for a parsed message, which has a root.
    pub fn root(&self) -> &StructType {
        &self.structs[0]
    }
}
