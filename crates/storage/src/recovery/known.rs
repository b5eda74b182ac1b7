//! Whether the files of an idle log are those that it left: looked at before any of them changes.
//!
//! What is acknowledged and durable is not cut in a running server: whoever cuts it gives the same
//! offsets to other records.

use super::{OpenError, Recovery};
use crate::disk::Disk;
use crate::error::StorageError;
use crate::file_name::{FileKind, FileName};
use crate::idle_log::IdleLog;
use crate::segment::{Segment, SegmentReadError};
use crate::stored_batch::ScanError;
use model::Offset;

impl<D: Disk> Recovery<'_, D> {
    /// Compares the segments with what an idle log knows of itself.
    pub(super) fn check_known(&mut self) -> Result<(), OpenError> {
        let Some(known) = self.opening.known else {
            return Ok(());
        };
        let segments = &mut self.recovered.segments;
        let directory = &self.files.directory;
        let changed = |reason: String| Err(StorageError::log_changed(directory, reason).into());
        let (first, last) = match (segments.first(), segments.last()) {
            (Some(first), Some(last)) => (first.base_offset(), last.base_offset()),
            _ => return changed("there is no segment".to_owned()),
        };
        if last != known.active_base_offset {
            let wanted = known.active_base_offset;
            return changed(format!("the last segment is {last}, not {wanted}"));
        }
        let active = segments.last_mut().expect("it has been looked at");
        let path = self.files.path(FileName::new(last, FileKind::Log));
        match active.read_end(self.files) {
            Ok(()) => check_end(&path, active.end_offset(), &known)?,
            Err(SegmentReadError::Storage(error)) => return Err(error.into()),
            Err(SegmentReadError::Scan(ScanError::Io(error))) => {
                return Err(StorageError::new("read", &path, error).into());
            }
            Err(SegmentReadError::Scan(ScanError::Batch { position, error })) => {
                let reason = format!("at position {position}: {error}");
                return Err(StorageError::log_changed(&path, reason).into());
            }
        }
        let sizes = segments.iter().map(Segment::size_bytes);
        let (count, bytes) = (segments.len(), sizes.map(u64::from).sum::<u64>());
        if (count, bytes) != (known.segment_count as usize, known.size_bytes) {
            return changed(format!(
                "{count} segments of {bytes} bytes, not {} of {}",
                known.segment_count, known.size_bytes
            ));
        }
        match first > known.log_start_offset {
            true => changed(format!(
                "it starts at {first}, not {}",
                known.log_start_offset
            )),
            false => Ok(()),
        }
    }

    /// Looks at the last segment of an idle log whose every byte has been checked, since an index
    /// has to be rebuilt.
    pub(super) fn check_known_end(
        &self,
        base_offset: Offset,
        checked: &super::rebuild::Checked,
    ) -> Result<(), OpenError> {
        let Some(known) = self.opening.known else {
            return Ok(());
        };
        let path = self.files.path(FileName::new(base_offset, FileKind::Log));
        match &checked.damage {
            Some(damage) => Err(StorageError::log_changed(&path, damage.to_string()).into()),
            None => check_end(&path, checked.end_offset, &known),
        }
    }
}

fn check_end(path: &std::path::Path, end: Offset, known: &IdleLog) -> Result<(), OpenError> {
    match end == known.log_end_offset {
        true => Ok(()),
        false => {
            let reason = format!("it ends at offset {end}, not {}", known.log_end_offset);
            Err(StorageError::log_changed(path, reason).into())
        }
    }
}
