//! `EmitStrategy`: when windowed aggregations give results (KIP-825).

/// When a windowed aggregation gives results.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EmitStrategy {
    pub(crate) on_window_close: bool,
}

impl EmitStrategy {
    /// At every change of a window. This is the default.
    pub const fn on_window_update() -> Self {
        Self {
            on_window_close: false,
        }
    }

    /// Once for each window, when it takes no more records. The store keeps windows by time. It must keep them until
    /// they close: a jump of time loses what is older than its retention, so choose one that is long enough
    /// ([`Materialized::with_retention`](super::Materialized::with_retention)).
    pub const fn on_window_close() -> Self {
        Self {
            on_window_close: true,
        }
    }
}
