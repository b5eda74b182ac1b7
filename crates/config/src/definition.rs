//! One configuration key as data: its type, default, constraint, and who may change it when.
//!
//! Definitions are constants built by chained `const fn`s, so that a table reads as one line for a
//! key and one for its sentence. Types and default values are Kafka's; `value` parses by them.

use std::fmt;

/// Type of a key's value; the numbers are those of `DescribeConfigs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i8)]
pub enum ConfigType {
    /// `true` or `false`, in any case of letters.
    Boolean = 1,
    /// Text, trimmed.
    String = 2,
    /// 32-bit number.
    Int = 3,
    /// 16-bit number.
    Short = 4,
    /// 64-bit number.
    Long = 5,
    /// Double-precision number.
    Double = 6,
    /// Text values separated by commas.
    List = 7,
    /// Name of one of Kafka's own classes, which stands for what is built in. No class is loaded.
    Class = 8,
    /// Secret text, never shown.
    Password = 9,
}

impl ConfigType {
    /// Number of the type in `DescribeConfigs`; 0 there means a key without a definition.
    pub const fn code(self) -> i8 {
        self as i8
    }

    /// Kafka's name of the type, such as `LONG`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Boolean => "BOOLEAN",
            Self::String => "STRING",
            Self::Int => "INT",
            Self::Short => "SHORT",
            Self::Long => "LONG",
            Self::Double => "DOUBLE",
            Self::List => "LIST",
            Self::Class => "CLASS",
            Self::Password => "PASSWORD",
        }
    }
}

impl fmt::Display for ConfigType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What holds for a key that is not given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultValue {
    /// The key has to be given.
    Required,
    /// No value; Kafka's null.
    Null,
    /// This value, in the form in which a user would write it.
    Text(&'static str),
}

/// How much the usual operator cares about a key, as Kafka grades it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Importance {
    /// Most clusters set it.
    High,
    /// Some clusters set it.
    Medium,
    /// Few clusters set it.
    Low,
}

/// Whether a broker key can change while the broker runs. Keys of topics, groups, client metrics
/// and quotas always can, and are `ClusterWide`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdateMode {
    /// Only with a restart.
    ReadOnly,
    /// For one broker at a time; with a broker's id as the resource name.
    PerBroker,
    /// For one broker or for all of them; an empty resource name means all.
    ClusterWide,
}

/// What a value must satisfy beyond its type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Constraint {
    /// Nothing more.
    Any,
    /// A whole number in `min..=max`.
    Range {
        /// Least value.
        min: i64,
        /// Greatest value.
        max: i64,
    },
    /// A double in `min..=max`.
    RealRange {
        /// Least value.
        min: f64,
        /// Greatest value.
        max: f64,
    },
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// One of these words, in any case of letters.
    OneOfAnyCase(&'static [&'static str]),
    /// A list without empty elements; duplicates are dropped.
    ListOf {
        /// The elements allowed; an empty slice allows any text.
        allowed: &'static [&'static str],
        /// Whether the list may be empty.
        empty_allowed: bool,
    },
    /// Text with at least one character that is not white space.
    NonEmpty,
    /// Any text, the empty one included, but not null.
    NonNull,
    /// A level of gzip: 1 to 9, or -1 for the library's choice.
    GzipLevel,
    /// `id@host:port` elements.
    QuorumVoters,
    /// `host:port` elements.
    BootstrapServers,
    /// `partition:broker` elements, or `*` alone.
    ThrottledReplicas,
    /// `earliest`, `latest` or `by_duration:` with an ISO 8601 duration.
    ShareOffsetReset,
}

/// A configuration key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConfigDefinition {
    /// The key, as users write it.
    pub name: &'static str,
    /// Type of the value.
    pub kind: ConfigType,
    /// Value without one being given.
    pub default: DefaultValue,
    /// What the value must satisfy beyond its type.
    pub constraint: Constraint,
    /// Kafka's grade of importance.
    pub importance: Importance,
    /// Whether the key is left out of documentation and of `DescribeConfigs`.
    pub internal: bool,
    /// When a broker key may change.
    pub update_mode: UpdateMode,
    /// One or two sentences for users.
    pub documentation: &'static str,
}

/// Any text as an element of a list.
pub(crate) const ANY: &[&str] = &[];
pub(crate) const SECURITY_PROTOCOLS: &[&str] = &["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"];
pub(crate) const COMPRESSION_TYPES: &[&str] =
    &["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"];
pub(crate) const TIMESTAMP_TYPES: &[&str] = &["CreateTime", "LogAppendTime"];
pub(crate) const CLEANUP_POLICIES: &[&str] = &["compact", "delete"];

impl ConfigDefinition {
    /// Whether the value is a secret that no answer may carry.
    pub const fn is_sensitive(&self) -> bool {
        matches!(self.kind, ConfigType::Password)
    }

    /// Whether the key can change only with a restart.
    pub const fn is_read_only(&self) -> bool {
        matches!(self.update_mode, UpdateMode::ReadOnly)
    }

    /// The default as text; none if the key is required or null without a value.
    pub const fn default_text(&self) -> Option<&'static str> {
        match self.default {
            DefaultValue::Text(text) => Some(text),
            DefaultValue::Required | DefaultValue::Null => None,
        }
    }

    const fn new(name: &'static str, kind: ConfigType) -> Self {
        Self {
            name,
            kind,
            default: DefaultValue::Null,
            constraint: Constraint::Any,
            importance: Importance::Medium,
            internal: false,
            update_mode: UpdateMode::ReadOnly,
            documentation: "",
        }
    }

    pub(crate) const fn default(mut self, text: &'static str) -> Self {
        self.default = DefaultValue::Text(text);
        self
    }

    pub(crate) const fn required(mut self) -> Self {
        self.default = DefaultValue::Required;
        self
    }

    pub(crate) const fn constraint(mut self, constraint: Constraint) -> Self {
        self.constraint = constraint;
        self
    }

    pub(crate) const fn at_least(self, min: i64) -> Self {
        self.constraint(Constraint::Range { min, max: i64::MAX })
    }

    pub(crate) const fn between(self, min: i64, max: i64) -> Self {
        self.constraint(Constraint::Range { min, max })
    }

    pub(crate) const fn within(self, min: f64, max: f64) -> Self {
        self.constraint(Constraint::RealRange { min, max })
    }

    pub(crate) const fn one_of(self, allowed: &'static [&'static str]) -> Self {
        self.constraint(Constraint::OneOf(allowed))
    }

    pub(crate) const fn one_of_any_case(self, allowed: &'static [&'static str]) -> Self {
        self.constraint(Constraint::OneOfAnyCase(allowed))
    }

    /// A list that may be empty.
    pub(crate) const fn list_of(self, allowed: &'static [&'static str]) -> Self {
        self.constraint(Constraint::ListOf {
            allowed,
            empty_allowed: true,
        })
    }

    /// A list with at least one element.
    pub(crate) const fn filled_list_of(self, allowed: &'static [&'static str]) -> Self {
        self.constraint(Constraint::ListOf {
            allowed,
            empty_allowed: false,
        })
    }

    pub(crate) const fn high(mut self) -> Self {
        self.importance = Importance::High;
        self
    }

    pub(crate) const fn medium(mut self) -> Self {
        self.importance = Importance::Medium;
        self
    }

    pub(crate) const fn low(mut self) -> Self {
        self.importance = Importance::Low;
        self
    }

    pub(crate) const fn internal(mut self) -> Self {
        self.internal = true;
        self
    }

    pub(crate) const fn per_broker(mut self) -> Self {
        self.update_mode = UpdateMode::PerBroker;
        self
    }

    pub(crate) const fn cluster_wide(mut self) -> Self {
        self.update_mode = UpdateMode::ClusterWide;
        self
    }

    pub(crate) const fn doc(mut self, documentation: &'static str) -> Self {
        self.documentation = documentation;
        self
    }
}

pub(crate) const fn boolean(name: &'static str) -> ConfigDefinition {
    ConfigDefinition::new(name, ConfigType::Boolean)
}

pub(crate) const fn string(name: &'static str) -> ConfigDefinition {
    ConfigDefinition::new(name, ConfigType::String)
}

pub(crate) const fn int(name: &'static str) -> ConfigDefinition {
    ConfigDefinition::new(name, ConfigType::Int)
}

pub(crate) const fn short(name: &'static str) -> ConfigDefinition {
    ConfigDefinition::new(name, ConfigType::Short)
}

pub(crate) const fn long(name: &'static str) -> ConfigDefinition {
    ConfigDefinition::new(name, ConfigType::Long)
}

pub(crate) const fn double(name: &'static str) -> ConfigDefinition {
    ConfigDefinition::new(name, ConfigType::Double)
}

pub(crate) const fn list(name: &'static str) -> ConfigDefinition {
    ConfigDefinition::new(name, ConfigType::List)
}

pub(crate) const fn class(name: &'static str) -> ConfigDefinition {
    ConfigDefinition::new(name, ConfigType::Class)
}

pub(crate) const fn password(name: &'static str) -> ConfigDefinition {
    ConfigDefinition::new(name, ConfigType::Password)
}
