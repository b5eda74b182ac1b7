//! AlterUserScramCredentials and DescribeUserScramCredentials (KIP-554).
//!
//! The client sends the salted password; what is kept are the two keys that RFC 5802 derives from
//! it. Credentials are kept, and nobody authenticates with them yet.

use crate::decision::{ApiError, Decision};
use hmac::{Hmac, Mac as _};
use metadata::{MetadataImage, MetadataRecord, ScramCredential, ScramKey};
use model::ErrorCode;
use sha2::{Digest as _, Sha256, Sha512};
use std::collections::BTreeMap;
use std::fmt;

const ITERATIONS_MIN: i32 = 4096;
const ITERATIONS_MAX: i32 = 16384;
/// Longer than any salt: every node keeps it, and every snapshot has it.
const SALT_BYTES_MAX: usize = 4096;

/// A credential that shall be set.
#[derive(Clone, PartialEq, Eq)]
pub struct ScramUpsertion {
    /// Whose, and of which mechanism.
    pub key: ScramKey,
    /// How often the password was hashed.
    pub iterations: i32,
    /// The salt.
    pub salt: Vec<u8>,
    /// The password after salt and iterations.
    pub salted_password: Vec<u8>,
}

impl fmt::Debug for ScramUpsertion {
    /// Passwords do not reach logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ScramUpsertion({:?})", self.key)
    }
}

/// What became of each user of a request.
pub type ScramResults = Vec<(String, Result<(), ApiError>)>;

/// Decides over credentials. A user may occur once in the whole request.
pub fn alter_scram_credentials(
    image: &MetadataImage,
    deletions: &[ScramKey],
    upsertions: &[ScramUpsertion],
) -> Decision<ScramResults> {
    let mut records: BTreeMap<&str, MetadataRecord> = BTreeMap::new();
    let mut refused: BTreeMap<&str, ApiError> = BTreeMap::new();
    let is_supported = image.metadata_version().supports_scram();
    let deleted = deletions
        .iter()
        .map(|key| (key.user.as_str(), deletion(image, key)));
    let upserted = upsertions
        .iter()
        .map(|one| (one.key.user.as_str(), upsertion(one)));
    for (user, outcome) in deleted.chain(upserted) {
        if refused.contains_key(user) {
            continue;
        }
        let words = "A user credential cannot be altered twice in the same request";
        if records.remove(user).is_some() {
            refused.insert(user, ApiError::new(ErrorCode::DuplicateResource, words));
            continue;
        }
        let words = "The current metadata.version does not support SCRAM";
        let unsupported = || ApiError::new(ErrorCode::UnsupportedVersion, words);
        let outcome = is_supported.then_some(outcome).ok_or_else(unsupported);
        match outcome.and_then(|outcome| outcome) {
            Ok(record) => drop(records.insert(user, record)),
            Err(error) => drop(refused.insert(user, error)),
        }
    }
    let altered = records.keys().map(|user| ((*user).to_owned(), Ok(())));
    let refused = refused
        .into_iter()
        .map(|(user, error)| (user.to_owned(), Err(error)));
    let results = altered.chain(refused).collect();
    Decision::atomic(records.into_values().collect(), results)
}

fn check_user_and_mechanism(key: &ScramKey) -> Result<Mechanism, ApiError> {
    if key.user.is_empty() {
        return Err(unacceptable("Username must not be empty"));
    }
    Mechanism::from_id(key.mechanism).ok_or_else(|| {
        ApiError::new(
            ErrorCode::UnsupportedSaslMechanism,
            "Unknown SCRAM mechanism",
        )
    })
}

fn unacceptable(words: &str) -> ApiError {
    ApiError::new(ErrorCode::UnacceptableCredential, words)
}

fn deletion(image: &MetadataImage, key: &ScramKey) -> Result<MetadataRecord, ApiError> {
    check_user_and_mechanism(key)?;
    if !image.scram.contains_key(key) {
        let words = "Attempt to delete a user credential that does not exist";
        return Err(ApiError::new(ErrorCode::ResourceNotFound, words));
    }
    Ok(MetadataRecord::RemoveUserScramCredential(key.clone()))
}

fn upsertion(upsertion: &ScramUpsertion) -> Result<MetadataRecord, ApiError> {
    let mechanism = check_user_and_mechanism(&upsertion.key)?;
    if upsertion.iterations < ITERATIONS_MIN {
        return Err(unacceptable("Too few iterations"));
    }
    if upsertion.iterations > ITERATIONS_MAX {
        return Err(unacceptable("Too many iterations"));
    }
    if upsertion.salt.len() > SALT_BYTES_MAX {
        return Err(unacceptable("The salt is too long"));
    }
    if upsertion.salted_password.is_empty() {
        // Java has no key of this length.
        return Err(ApiError::with_default_message(
            ErrorCode::UnknownServerError,
        ));
    }
    let (stored_key, server_key) = mechanism.keys(&upsertion.salted_password);
    Ok(MetadataRecord::UserScramCredential {
        key: upsertion.key.clone(),
        credential: ScramCredential {
            salt: upsertion.salt.clone(),
            stored_key,
            server_key,
            iterations: upsertion.iterations,
        },
    })
}

/// The mechanisms that there are.
#[derive(Debug, Clone, Copy)]
enum Mechanism {
    Sha256,
    Sha512,
}

impl Mechanism {
    const fn from_id(id: i8) -> Option<Self> {
        match id {
            1 => Some(Self::Sha256),
            2 => Some(Self::Sha512),
            _ => None,
        }
    }

    /// The stored key and the server key of RFC 5802.
    fn keys(self, salted_password: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let client_key = self.hmac(salted_password, b"Client Key");
        let server_key = self.hmac(salted_password, b"Server Key");
        let stored_key = match self {
            Self::Sha256 => Sha256::digest(client_key).to_vec(),
            Self::Sha512 => Sha512::digest(client_key).to_vec(),
        };
        (stored_key, server_key)
    }

    fn hmac(self, key: &[u8], text: &[u8]) -> Vec<u8> {
        const ANY_LENGTH: &str = "HMAC takes keys of any length";
        match self {
            Self::Sha256 => {
                let mut mac = Hmac::<Sha256>::new_from_slice(key).expect(ANY_LENGTH);
                mac.update(text);
                mac.finalize().into_bytes().to_vec()
            }
            Self::Sha512 => {
                let mut mac = Hmac::<Sha512>::new_from_slice(key).expect(ANY_LENGTH);
                mac.update(text);
                mac.finalize().into_bytes().to_vec()
            }
        }
    }
}

/// Mechanisms of a user, each with its iterations.
pub type ScramDescription = Vec<(i8, i32)>;

/// The credentials of the users, of all users without any named.
pub fn describe_scram_credentials(
    image: &MetadataImage,
    users: &[String],
) -> Vec<(String, Result<ScramDescription, ApiError>)> {
    let mut wanted: BTreeMap<&str, usize> = BTreeMap::new();
    for user in users {
        *wanted.entry(user).or_default() += 1;
    }
    let mut found: BTreeMap<&str, ScramDescription> = BTreeMap::new();
    for (key, credential) in image.scram.iter() {
        if users.is_empty() || wanted.contains_key(key.user.as_str()) {
            let of_user = found.entry(&key.user).or_default();
            of_user.push((key.mechanism, credential.iterations));
        }
    }
    if users.is_empty() {
        let all = found.into_iter();
        return all
            .map(|(user, of_user)| (user.to_owned(), Ok(of_user)))
            .collect();
    }
    let described = wanted.into_iter().map(|(user, times)| {
        let result = match found.remove(user) {
            _ if times > 1 => Err(ApiError::new(
                ErrorCode::DuplicateResource,
                format!(
                    "Cannot describe SCRAM credentials for the same user twice in a single \
                     request: {user}"
                ),
            )),
            Some(of_user) => Ok(of_user),
            None => Err(ApiError::new(
                ErrorCode::ResourceNotFound,
                format!("Attempt to describe a user credential that does not exist: {user}"),
            )),
        };
        (user.to_owned(), result)
    });
    described.collect()
}

#[cfg(test)]
mod tests;
