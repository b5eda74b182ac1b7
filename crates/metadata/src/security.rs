//! Access control entries, SCRAM credentials and delegation tokens, kept as they were recorded.

use crate::shared_map::SharedMap;
use model::Uuid;
use std::fmt;
use std::sync::Arc;

/// An access control entry. The numbers are those of Kafka's protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessControlEntry {
    /// The id of the entry.
    pub id: Uuid,
    /// 2 topic, 3 group, 4 cluster, 5 transactional id, 6 delegation token, 7 user.
    pub resource_type: i8,
    /// The resource's name, or the prefix of it.
    pub resource_name: String,
    /// 3 literal, 4 prefixed.
    pub pattern_type: i8,
    /// The principal, such as `User:alice`.
    pub principal: String,
    /// The host, or `*`.
    pub host: String,
    /// The operation.
    pub operation: i8,
    /// 2 deny, 3 allow.
    pub permission_type: i8,
}

/// The access control entries by id.
pub type AclsImage = SharedMap<Uuid, Arc<AccessControlEntry>>;

/// Whose SCRAM credential, and of which mechanism: 1 SHA-256, 2 SHA-512.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScramKey {
    /// The mechanism's number.
    pub mechanism: i8,
    /// The user's name.
    pub user: String,
}

/// A SCRAM credential.
#[derive(Clone, PartialEq, Eq)]
pub struct ScramCredential {
    /// The salt.
    pub salt: Vec<u8>,
    /// The stored key.
    pub stored_key: Vec<u8>,
    /// The server key.
    pub server_key: Vec<u8>,
    /// How often the password was hashed.
    pub iterations: i32,
}

impl fmt::Debug for ScramCredential {
    /// Keys do not reach logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ScramCredential({} iterations)", self.iterations)
    }
}

/// The SCRAM credentials.
pub type ScramImage = SharedMap<ScramKey, Arc<ScramCredential>>;

/// A delegation token. The times are milliseconds since the epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DelegationToken {
    /// The token's id.
    pub token_id: String,
    /// The principal that the token stands for.
    pub owner: String,
    /// The principal that asked for it.
    pub requester: String,
    /// Who may renew it.
    pub renewers: Vec<String>,
    /// When it was issued.
    pub issue_timestamp: i64,
    /// When it ends at the latest.
    pub max_timestamp: i64,
    /// When it ends unless renewed.
    pub expiration_timestamp: i64,
}

/// The delegation tokens by id.
pub type DelegationTokensImage = SharedMap<String, Arc<DelegationToken>>;
