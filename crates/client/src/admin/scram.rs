//! SCRAM credentials of users, which brokers keep instead of passwords (KIP-554, RFC 5802).
//!
//! The password does not leave this process: what is sent is its salted hash.

use super::fan_out::Route;
use super::{Admin, PerKey, checked};
use crate::Error;
use crate::cluster::{Connection, Deadline};
use hmac::digest::KeyInit;
use hmac::{Hmac, Mac};
use sha2::{Sha256, Sha512};
use std::collections::BTreeMap;
use wire::messages::alter_user_scram_credentials_request::{
    ScramCredentialDeletion, ScramCredentialUpsertion,
};
use wire::messages::describe_user_scram_credentials_request::UserName;
use wire::messages::{
    AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse,
};

/// Bytes of a salt.
const SALT_BYTES: usize = 32;

/// How a password is hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ScramMechanism {
    /// `SCRAM-SHA-256`
    Sha256,
    /// `SCRAM-SHA-512`
    Sha512,
}

impl ScramMechanism {
    /// Its name in SASL.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "SCRAM-SHA-256",
            Self::Sha512 => "SCRAM-SHA-512",
        }
    }

    const fn number(self) -> i8 {
        match self {
            Self::Sha256 => 1,
            Self::Sha512 => 2,
        }
    }

    const fn of_number(number: i8) -> Option<Self> {
        match number {
            1 => Some(Self::Sha256),
            2 => Some(Self::Sha512),
            _ => None,
        }
    }
}

/// How one of a user's credentials changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScramChange {
    /// The user has this password from here on, hashed so often: 4096 to 16384 times.
    Set {
        /// The password.
        password: String,
        /// How often it is hashed.
        iterations: i32,
    },
    /// The user has none.
    Delete,
}

/// What to change, by user and mechanism. Brokers take one change of a user at a time.
pub type ScramChanges = BTreeMap<(String, ScramMechanism), ScramChange>;

impl Admin {
    /// How often the password of each mechanism is hashed, by user; of all users with `None`. The
    /// credentials themselves stay with the brokers.
    ///
    /// # Errors
    /// What the broker says until `default.api.timeout.ms`.
    pub async fn describe_scram_credentials(
        &self,
        users: Option<&[&str]>,
    ) -> Result<PerKey<String, BTreeMap<ScramMechanism, i32>>, Error> {
        self.ask(Route::Any, |connection, deadline| async move {
            describe(&connection, users, deadline).await
        })
        .await
    }

    /// Sets and deletes credentials.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the system gives no random salt.
    pub async fn alter_scram_credentials(
        &self,
        changes: &ScramChanges,
    ) -> Result<PerKey<String, ()>, Error> {
        let mut salted = Vec::new();
        for ((user, mechanism), change) in changes {
            if let ScramChange::Set {
                password,
                iterations,
            } = change
            {
                let mut salt = [0; SALT_BYTES];
                getrandom::fill(&mut salt)
                    .map_err(|error| Error::Invalid(format!("no random salt: {error}")))?;
                let hash = salted_password(*mechanism, password.as_bytes(), &salt, *iterations);
                salted.push((user.as_str(), *mechanism, *iterations, salt, hash));
            }
        }
        let salted = &salted;
        let users: std::collections::BTreeSet<String> =
            changes.keys().map(|(user, _)| user.clone()).collect();
        let call = |connection: Connection, users: Vec<String>, deadline: Deadline| async move {
            let is_asked = |user: &str| users.iter().any(|asked| asked == user);
            let deletions = changes
                .iter()
                .filter(|((user, _), change)| **change == ScramChange::Delete && is_asked(user));
            let request = AlterUserScramCredentialsRequest {
                deletions: deletions
                    .map(|((name, mechanism), _)| ScramCredentialDeletion {
                        name,
                        mechanism: mechanism.number(),
                    })
                    .collect(),
                upsertions: salted
                    .iter()
                    .filter(|(user, ..)| is_asked(user))
                    .map(
                        |(name, mechanism, iterations, salt, hash)| ScramCredentialUpsertion {
                            name,
                            mechanism: mechanism.number(),
                            iterations: *iterations,
                            salt,
                            salted_password: hash,
                        },
                    )
                    .collect(),
            };
            let answer = connection.call(&request, deadline).await?;
            let response: AlterUserScramCredentialsResponse<'_> = answer.read()?;
            let results = response.results.iter().map(|result| {
                let subject = format!("user `{}`", result.user);
                let checked = checked(result.error_code, subject, result.error_message);
                (result.user.to_owned(), checked)
            });
            Ok(results.collect())
        };
        Ok(self.fan_out(users, |_| Route::Any, call).await)
    }
}

async fn describe(
    connection: &Connection,
    users: Option<&[&str]>,
    deadline: Deadline,
) -> Result<PerKey<String, BTreeMap<ScramMechanism, i32>>, Error> {
    let names = users.map(|users| users.iter().map(|name| UserName { name }).collect());
    let request = DescribeUserScramCredentialsRequest { users: names };
    let answer = connection.call(&request, deadline).await?;
    let response: DescribeUserScramCredentialsResponse<'_> = answer.read()?;
    checked(
        response.error_code,
        "SCRAM credentials",
        response.error_message,
    )?;
    let mut described = PerKey::new();
    for result in response.results.iter() {
        let subject = format!("user `{}`", result.user);
        let infos = result
            .credential_infos
            .iter()
            .filter_map(|info| Some((ScramMechanism::of_number(info.mechanism)?, info.iterations)));
        let checked = checked(result.error_code, subject, result.error_message);
        described.insert(result.user.to_owned(), checked.map(|()| infos.collect()));
    }
    Ok(described)
}

/// `Hi(password, salt, iterations)` of RFC 5802.
fn salted_password(
    mechanism: ScramMechanism,
    password: &[u8],
    salt: &[u8],
    iterations: i32,
) -> Vec<u8> {
    match mechanism {
        ScramMechanism::Sha256 => hashed::<Hmac<Sha256>>(password, salt, iterations),
        ScramMechanism::Sha512 => hashed::<Hmac<Sha512>>(password, salt, iterations),
    }
}

fn hashed<M: Mac + KeyInit + Clone>(password: &[u8], salt: &[u8], iterations: i32) -> Vec<u8> {
    let keyed = <M as Mac>::new_from_slice(password).expect("HMAC takes keys of any length");
    let mac = |text: &[u8]| {
        let mut keyed = keyed.clone();
        keyed.update(text);
        keyed.finalize().into_bytes().to_vec()
    };
    let mut last = mac(&[salt, &1_u32.to_be_bytes()].concat());
    let mut all = last.clone();
    for _ in 1..iterations {
        last = mac(&last);
        all.iter_mut()
            .zip(&last)
            .for_each(|(all, last)| *all ^= last);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(mechanism: ScramMechanism, iterations: i32, expect: &str) {
        let hash = salted_password(mechanism, b"password", b"salt", iterations);
        let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, expect);
    }

    /// The vectors of RFC 7914, and of PBKDF2 with SHA-512.
    #[test]
    fn a_password_is_hashed_as_the_standard_says() {
        check(
            ScramMechanism::Sha256,
            1,
            "120fb6cffcf8b32c43e7225256c4f837a86548c92ccc35480805987cb70be17b",
        );
        check(
            ScramMechanism::Sha256,
            4096,
            "c5e478d59288c841aa530db6845c4c8d962893a001ce4e11a4963873aa98134a",
        );
        check(
            ScramMechanism::Sha512,
            4096,
            "d197b1b33db0143e018b12f3d1d1479e6cdebdcc97c5c0f87f6902e072f457b5\
             143f30602641b3d55cd335988cb36b84376060ecd532e039b742a239434af2d5",
        );
    }
}
