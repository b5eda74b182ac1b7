//! Where the metadata say that a partition is which is moved.

use super::{Move, MoveError};
use crate::logs::Logs;
use controller::AssignReplicasToDirectories;
use controller::directories::DirectoryAssignment;
use model::{ErrorCode, Uuid};

impl Move {
    /// Tells the controller where the partition is, and waits until the metadata say so. A partition
    /// that has lost its leader with the directory that it was about to be in has one again.
    pub(super) fn place(&self, logs: &Logs, directory: Uuid) -> Result<(), MoveError> {
        if !logs
            .node
            .image()
            .metadata_version()
            .supports_directory_assignment()
        {
            return Ok(());
        }
        let request = AssignReplicasToDirectories {
            broker_id: logs.node.id,
            broker_epoch: logs.node.broker_epoch(),
            assignments: vec![DirectoryAssignment {
                directory,
                topic_id: self.partition.topic_id(),
                partition_id: self.partition.index(),
            }],
        };
        let told = logs.node.runtime.block_on(logs.controller.request(request));
        let refusal = match told {
            Ok(Ok(results)) => results.into_iter().find(|code| !is_told(*code)),
            Ok(Err(error)) => return Err(MoveError::Place(error.to_string())),
            Err(code) => Some(code),
        };
        refusal.map_or(Ok(()), |code| Err(MoveError::Place(code.to_string())))
    }
}

/// Nothing is left to be told of a partition that has been deleted.
const fn is_told(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::None | ErrorCode::UnknownTopicId | ErrorCode::UnknownTopicOrPartition
    )
}
