//! Replays the log: one record after the other, the records of a transaction all at once.

use crate::image::{MetadataImage, Provenance, ReplayError};
use crate::record::MetadataRecord;

/// Follows the metadata log and keeps the image of what is in effect.
///
/// Between the begin and the end of a metadata transaction (KIP-868) the image stands still; the
/// transaction's records gather in an image of their own, which takes its place at the end and is
/// forgotten at an abort.
#[derive(Debug, Clone, Default)]
pub struct MetadataLoader {
    image: MetadataImage,
    transaction: Option<MetadataImage>,
}

impl MetadataLoader {
    /// Continues from `image`, such as the one of a snapshot.
    pub const fn new(image: MetadataImage) -> Self {
        Self {
            image,
            transaction: None,
        }
    }

    /// What is in effect.
    pub const fn image(&self) -> &MetadataImage {
        &self.image
    }

    /// Whether a transaction has begun and neither ended nor been aborted.
    pub const fn is_in_transaction(&self) -> bool {
        self.transaction.is_some()
    }

    /// Replays a record of the log, which is at `at`.
    ///
    /// # Errors
    /// A [`ReplayError`] when the record does not fit; the loader must not go on after it.
    pub fn replay(&mut self, record: &MetadataRecord, at: Provenance) -> Result<(), ReplayError> {
        match (record, &mut self.transaction) {
            (MetadataRecord::BeginTransaction { .. }, open @ None) => {
                *open = Some(self.image.clone());
            }
            (MetadataRecord::EndTransaction, open @ Some(_)) => {
                self.image = open.take().unwrap_or_default();
            }
            (MetadataRecord::AbortTransaction { .. }, open @ Some(_)) => *open = None,
            (_, Some(image)) => image.replay(record)?,
            (_, None) => self.image.replay(record)?,
        }
        self.advance(at);
        Ok(())
    }

    /// Moves the image on over a batch that holds no records of metadata.
    pub fn advance(&mut self, at: Provenance) {
        if self.transaction.is_none() {
            self.image.provenance = at;
        }
    }
}
