//! Which operations a principal may do, as the bits of `…AuthorizedOperations` fields (KIP-430).
//!
//! Bit n stands for the ACL operation n. Without an authorizer a client may do whatever the kind of
//! resource has.

const READ: i32 = 1 << 3;
const WRITE: i32 = 1 << 4;
const CREATE: i32 = 1 << 5;
const DELETE: i32 = 1 << 6;
const ALTER: i32 = 1 << 7;
const DESCRIBE: i32 = 1 << 8;
const CLUSTER_ACTION: i32 = 1 << 9;
const DESCRIBE_CONFIGS: i32 = 1 << 10;
const ALTER_CONFIGS: i32 = 1 << 11;
const IDEMPOTENT_WRITE: i32 = 1 << 12;

/// Everything that can be done with a topic.
pub(crate) const TOPIC: i32 =
    READ | WRITE | CREATE | DELETE | ALTER | DESCRIBE | DESCRIBE_CONFIGS | ALTER_CONFIGS;
/// Everything that can be done with the cluster.
pub(crate) const CLUSTER: i32 = CREATE
    | ALTER
    | DESCRIBE
    | CLUSTER_ACTION
    | DESCRIBE_CONFIGS
    | ALTER_CONFIGS
    | IDEMPOTENT_WRITE;
/// Everything that can be done with a group.
pub(crate) const GROUP: i32 = READ | DELETE | DESCRIBE | DESCRIBE_CONFIGS | ALTER_CONFIGS;
