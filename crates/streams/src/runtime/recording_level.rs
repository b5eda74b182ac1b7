//! How much is measured.

/// `metrics.recording.level`: how much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RecordingLevel {
    /// Of the instance, its threads, and what tasks have dropped.
    #[default]
    Info,
    /// Of each task and node too.
    Debug,
}
