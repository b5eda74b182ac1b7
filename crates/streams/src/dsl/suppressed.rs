//! `Suppressed`: how long changes of a table are held back, and how many may be.

use crate::serde::Windowed;
use std::collections::BTreeMap;
use std::fmt;

/// Which changes of a table are held back, and for how long.
pub struct Suppressed<K> {
    pub(crate) until: Until<K>,
    pub(crate) buffer: BufferLimits,
    pub(crate) name: Option<String>,
}

/// When changes are given on.
pub(crate) enum Until<K> {
    /// When the window of the key, which ends then, takes no more records.
    WindowCloses(fn(&K) -> i64),
    /// So many milliseconds after the first change of the key.
    TimeLimit(i64),
}

impl<K> Clone for Until<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Until<K> {}

impl<K> Clone for Suppressed<K> {
    fn clone(&self) -> Self {
        Self {
            until: self.until,
            buffer: self.buffer.clone(),
            name: self.name.clone(),
        }
    }
}

impl<K> fmt::Debug for Suppressed<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Suppressed")
            .field("buffer", &self.buffer)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl<K> Suppressed<Windowed<K>> {
    /// Of each window the final result only: when it takes no more records.
    pub fn until_window_closes(buffer: StrictBufferConfig) -> Self {
        Self {
            until: Until::WindowCloses(|windowed| windowed.window.end_ms),
            buffer: buffer.0,
            name: None,
        }
    }
}

impl<K> Suppressed<K> {
    /// The newest change of each key, `time_limit_ms` after the first that was held back.
    pub fn until_time_limit(time_limit_ms: i64, buffer: impl Into<BufferLimits>) -> Self {
        Self {
            until: Until::TimeLimit(time_limit_ms),
            buffer: buffer.into(),
            name: None,
        }
    }

    /// Names the node, and so the buffer and its changelog.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }
}

/// How much a buffer holds.
#[derive(Debug, Clone, Copy)]
pub struct BufferConfig;

impl BufferConfig {
    /// At most so many keys; then the oldest changes are given on early.
    pub fn max_records(records: usize) -> EagerBufferConfig {
        EagerBufferConfig(BufferLimits::new(WhenFull::EmitEarly).with_max_records(records))
    }

    /// At most so many bytes of keys, values and what is known of their records; then the oldest changes are given on
    /// early.
    pub fn max_bytes(bytes: usize) -> EagerBufferConfig {
        EagerBufferConfig(BufferLimits::new(WhenFull::EmitEarly).with_max_bytes(bytes))
    }

    /// As much as memory has room for.
    pub fn unbounded() -> StrictBufferConfig {
        StrictBufferConfig(BufferLimits::new(WhenFull::ShutDown))
    }
}

/// How much a buffer holds that gives the oldest changes on early when it is full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EagerBufferConfig(BufferLimits);

/// How much a buffer holds that never gives changes on early: it is without bound, or the application ends when it is
/// full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StrictBufferConfig(BufferLimits);

/// How much a buffer holds, and what happens when it is full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BufferLimits {
    pub(crate) max_records: Option<usize>,
    pub(crate) max_bytes: Option<usize>,
    pub(crate) when_full: WhenFull,
    /// Configuration of the changelog topic; none when changes are not logged.
    pub(crate) logging: Option<BTreeMap<String, String>>,
}

/// What happens when a buffer is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhenFull {
    EmitEarly,
    ShutDown,
}

impl From<EagerBufferConfig> for BufferLimits {
    fn from(config: EagerBufferConfig) -> Self {
        config.0
    }
}

impl From<StrictBufferConfig> for BufferLimits {
    fn from(config: StrictBufferConfig) -> Self {
        config.0
    }
}

impl BufferLimits {
    const fn new(when_full: WhenFull) -> Self {
        Self {
            max_records: None,
            max_bytes: None,
            when_full,
            logging: Some(BTreeMap::new()),
        }
    }

    const fn with_max_records(mut self, records: usize) -> Self {
        self.max_records = Some(records);
        self
    }

    const fn with_max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = Some(bytes);
        self
    }

    /// Whether a buffer of so many keys and bytes holds too much.
    pub(crate) fn are_exceeded_by(&self, records: usize, bytes: usize) -> bool {
        self.max_records.is_some_and(|max| records > max)
            || self.max_bytes.is_some_and(|max| bytes > max)
    }
}

macro_rules! buffer_config {
    ($Config:ident) => {
        impl $Config {
            /// At most so many keys.
            #[must_use]
            pub fn with_max_records(self, records: usize) -> Self {
                Self(self.0.with_max_records(records))
            }

            /// At most so many bytes of keys, values and what is known of their records.
            #[must_use]
            pub fn with_max_bytes(self, bytes: usize) -> Self {
                Self(self.0.with_max_bytes(bytes))
            }

            /// As much as memory has room for.
            #[must_use]
            pub fn with_no_bound(self) -> StrictBufferConfig {
                StrictBufferConfig(BufferLimits {
                    max_records: None,
                    max_bytes: None,
                    when_full: WhenFull::ShutDown,
                    ..self.0
                })
            }

            /// The application ends when the buffer is full.
            #[must_use]
            pub fn shut_down_when_full(self) -> StrictBufferConfig {
                StrictBufferConfig(BufferLimits {
                    when_full: WhenFull::ShutDown,
                    ..self.0
                })
            }

            /// The oldest changes are given on early when the buffer is full.
            #[must_use]
            pub fn emit_early_when_full(self) -> EagerBufferConfig {
                EagerBufferConfig(BufferLimits {
                    when_full: WhenFull::EmitEarly,
                    ..self.0
                })
            }

            /// What is held back is logged to a topic with this configuration. Logging is on by default.
            #[must_use]
            pub fn with_logging_enabled(self, configs: BTreeMap<String, String>) -> Self {
                Self(BufferLimits {
                    logging: Some(configs),
                    ..self.0
                })
            }

            /// What is held back is not logged: it is lost with its process.
            #[must_use]
            pub fn with_logging_disabled(self) -> Self {
                Self(BufferLimits {
                    logging: None,
                    ..self.0
                })
            }
        }
    };
}

buffer_config!(EagerBufferConfig);
buffer_config!(StrictBufferConfig);
