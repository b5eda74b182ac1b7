//! What the APIs of access control entries share.

use super::Served;

/// Kafka's words without an authorizer.
pub(super) const NO_AUTHORIZER: &str = "No Authorizer is configured.";

/// Whether no number of an entry or filter is the one that stands for "unknown".
pub(super) fn is_known(
    resource_type: i8,
    pattern_type: i8,
    operation: i8,
    permission_type: i8,
) -> bool {
    ![resource_type, pattern_type, operation, permission_type].contains(&0)
}

/// The end of a connection that sends what is unknown.
pub(super) fn unknown() -> Served {
    Served::Close("an access control entry is of an unknown kind".to_owned())
}
