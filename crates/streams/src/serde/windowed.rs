//! Keys of windows: the key, and the window's times.
//!
//! In topics a key of a time window is `[key][start]`, one of a session `[key][end][start]`, times as i64 with the
//! highest byte first. A time window's end is not written: the serde knows the window's size.

use super::{BoxError, DefaultSerde, Serde, SerdeRef};
use crate::headers::Headers;
use std::sync::Arc;

/// A span of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Window {
    /// Its first millisecond since 1970.
    pub start_ms: i64,
    /// Where it ends: not part of a time window, part of a session.
    pub end_ms: i64,
    kind: WindowKind,
}

/// What a window's end means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WindowKind {
    /// Of a fixed size; its end is not part of it.
    Time,
    /// As long as its records are; its end is the time of its last one.
    Session,
}

impl Window {
    /// A window of fixed size, from `start_ms` until before `end_ms`.
    pub const fn of_time(start_ms: i64, end_ms: i64) -> Self {
        Self {
            start_ms,
            end_ms,
            kind: WindowKind::Time,
        }
    }

    /// A session, from its first record's time to its last one's.
    pub const fn of_session(start_ms: i64, end_ms: i64) -> Self {
        Self {
            start_ms,
            end_ms,
            kind: WindowKind::Session,
        }
    }

    /// What its end means.
    pub const fn kind(&self) -> WindowKind {
        self.kind
    }
}

/// A key in a window.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Windowed<K> {
    /// The key.
    pub key: K,
    /// The window.
    pub window: Window,
}

impl<K> Windowed<K> {
    /// `key` in `window`.
    pub const fn new(key: K, window: Window) -> Self {
        Self { key, window }
    }
}

/// The serde of keys of time windows of `size_ms` milliseconds, whose keys `inner` writes.
pub fn time_windowed<K: 'static>(inner: SerdeRef<K>, size_ms: i64) -> SerdeRef<Windowed<K>> {
    Arc::new(WindowedSerde {
        inner,
        reads: Some(Reads::Time { size_ms }),
    })
}

/// The serde of keys of sessions, whose keys `inner` writes.
pub fn session_windowed<K: 'static>(inner: SerdeRef<K>) -> SerdeRef<Windowed<K>> {
    Arc::new(WindowedSerde {
        inner,
        reads: Some(Reads::Session),
    })
}

/// Writes windows of both kinds; reads one, if it knows which.
struct WindowedSerde<K> {
    inner: SerdeRef<K>,
    reads: Option<Reads>,
}

#[derive(Clone, Copy)]
enum Reads {
    Time { size_ms: i64 },
    Session,
}

const TIME_BYTES: usize = 8;

impl<K> Serde<Windowed<K>> for WindowedSerde<K> {
    fn serialize(
        &self,
        topic: &str,
        headers: &mut Headers,
        windowed: &Windowed<K>,
        out: &mut Vec<u8>,
    ) -> Result<bool, BoxError> {
        if !self.inner.serialize(topic, headers, &windowed.key, out)? {
            return Ok(false);
        }
        if windowed.window.kind == WindowKind::Session {
            out.extend_from_slice(&windowed.window.end_ms.to_be_bytes());
        }
        out.extend_from_slice(&windowed.window.start_ms.to_be_bytes());
        Ok(true)
    }

    fn deserialize(
        &self,
        topic: &str,
        headers: &Headers,
        bytes: Option<&[u8]>,
    ) -> Result<Windowed<K>, BoxError> {
        let bytes = bytes
            .ok_or("it is null, and a windowed key cannot be; read it as `Option<Windowed<_>>`")?;
        let reads = self.reads.ok_or(
            "the kind of the windows is not known; read the keys by `time_windowed` or `session_windowed`",
        )?;
        let (rest, start_ms) = split_time(bytes)?;
        let (key, window) = match reads {
            // A sum beyond the last time there is ends there.
            Reads::Time { size_ms } => (
                rest,
                Window::of_time(start_ms, start_ms.saturating_add(size_ms)),
            ),
            Reads::Session => {
                let (key, end_ms) = split_time(rest)?;
                (key, Window::of_session(start_ms, end_ms))
            }
        };
        let key = self.inner.deserialize(topic, headers, Some(key))?;
        Ok(Windowed { key, window })
    }

    fn is_null(&self, windowed: &Windowed<K>) -> bool {
        self.inner.is_null(&windowed.key)
    }

    fn partitioned_bytes<'a>(&self, serialized: &'a [u8]) -> &'a [u8] {
        let times_bytes = match self.reads {
            Some(Reads::Session) => 2 * TIME_BYTES,
            _ => TIME_BYTES,
        };
        let key_bytes = serialized.len().saturating_sub(times_bytes);
        self.inner.partitioned_bytes(&serialized[..key_bytes])
    }
}

fn split_time(bytes: &[u8]) -> Result<(&[u8], i64), BoxError> {
    let (rest, time) = bytes.split_last_chunk::<TIME_BYTES>().ok_or_else(|| {
        format!(
            "{} bytes are too few for the times of a window",
            bytes.len()
        )
    })?;
    Ok((rest, i64::from_be_bytes(*time)))
}

impl<K: DefaultSerde + 'static> DefaultSerde for Windowed<K> {
    /// Writes keys of windows; which kind of windows to read is for `time_windowed` and `session_windowed` to say.
    fn serde() -> SerdeRef<Self> {
        Arc::new(WindowedSerde {
            inner: K::serde(),
            reads: None,
        })
    }
}
