//! What a worker has time for of a batch.

use record::{ParsedHeader, TargetCompression, ValidationRules};

/// A batch is appended off the workers, a few at a time, where it expands to more than this, is
/// longer than this uncompressed, ...
pub(super) const QUICK_BYTES: usize = 1024 * 1024;
/// ... says that it has more records, ...
const QUICK_RECORDS: i32 = 50_000;
/// ... or is longer and has to be compressed by another codec.
pub(super) const QUICK_RECOMPRESSED_BYTES: usize = 16 * 1024;

/// Where a batch is appended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum AppendThread {
    /// On a worker, which others wait for.
    Quick,
    OffWorkers,
}

impl AppendThread {
    /// Bounds what a batch may expand to; says whether it may expand further elsewhere.
    pub(super) fn limit(self, rules: &mut ValidationRules) -> bool {
        let allowed_bytes = rules.decompressed_max_bytes;
        if self == Self::Quick {
            rules.decompressed_max_bytes = allowed_bytes.min(QUICK_BYTES);
        }
        rules.decompressed_max_bytes < allowed_bytes
    }

    /// Whether a batch takes longer than there is time for, as far as its header tells.
    pub(super) fn is_too_long_for(self, batch: &ParsedHeader, rules: &ValidationRules) -> bool {
        let recompresses = match rules.compression {
            TargetCompression::Producer => false,
            TargetCompression::Codec(codec) => batch.compression() != Some(codec.compression),
        };
        let bytes = batch.size_in_bytes();
        self == Self::Quick
            && (bytes > QUICK_BYTES
                || batch.record_count() > QUICK_RECORDS
                || recompresses && bytes > QUICK_RECOMPRESSED_BYTES)
    }
}
