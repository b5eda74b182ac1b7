//! What names a partition, of a topic that may have been made again under its name.

use model::Uuid;

/// A partition: the topic's id and the index.
pub type PartitionKey = (Uuid, i32);
