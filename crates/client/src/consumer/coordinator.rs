//! The coordinator of the consumer's group: who it is, and a connection to it.

use super::shared::Shared;
use crate::Error;
use crate::cluster::{Connection, CoordinatorKind, Deadline};
use model::{BrokerId, ErrorCode};

const KIND: CoordinatorKind = CoordinatorKind::Group;

/// A connection to the coordinator, which is looked up if it is not known.
pub(super) async fn connect(shared: &Shared, deadline: Deadline) -> Result<Connection, Error> {
    let group_id = shared.group_id()?;
    let brokers = &shared.brokers;
    brokers
        .coordinator_connection(KIND, group_id, deadline)
        .await
}

/// Looks the coordinator up, whoever is known as it. The inner error is what the broker that was asked says.
pub(super) async fn look_up(shared: &Shared) -> Result<Result<BrokerId, ErrorCode>, Error> {
    let group_id = shared.group_id()?;
    shared.brokers.forget_coordinator(KIND, group_id);
    let deadline = shared.request_deadline();
    match shared.brokers.coordinator(KIND, group_id, deadline).await {
        Ok(broker) => Ok(Ok(broker.id)),
        Err(Error::Refused { code, .. }) => Ok(Err(code)),
        Err(error) => Err(error),
    }
}

/// The next connection looks the coordinator up if `code` says that another broker is it.
pub(super) fn forget_if_moved(shared: &Shared, code: ErrorCode) {
    let is_moved = matches!(
        code,
        ErrorCode::NotCoordinator | ErrorCode::CoordinatorNotAvailable
    );
    if let (true, Ok(group_id)) = (is_moved, shared.group_id()) {
        shared.brokers.forget_coordinator(KIND, group_id);
    }
}
