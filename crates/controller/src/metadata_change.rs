//! One step of the metadata, for those who live by them.

use metadata::MetadataDelta;

/// A step of the metadata.
#[derive(Debug, Clone)]
pub struct MetadataChange {
    /// The images before and after, and what is different.
    pub delta: MetadataDelta,
    /// The level of `kraft.version`: the quorum's, hence not in the image.
    pub kraft_version: i16,
}
