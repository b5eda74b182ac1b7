//! The id of a task: a sub-topology, and the partition that it takes of each input topic.

use super::super::FormatError;
use super::super::field_reader::FieldReader;

/// The id of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId {
    /// The number of the sub-topology.
    pub subtopology: i32,
    /// The partition of the input topics.
    pub partition: i32,
}

impl TaskId {
    pub(super) fn read(reader: &mut FieldReader<'_>) -> Result<Self, FormatError> {
        Ok(Self {
            subtopology: reader.i32()?,
            partition: reader.i32()?,
        })
    }

    pub(super) fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.subtopology.to_be_bytes());
        out.extend_from_slice(&self.partition.to_be_bytes());
    }
}
