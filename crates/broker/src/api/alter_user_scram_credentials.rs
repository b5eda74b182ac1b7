//! AlterUserScramCredentials: v0. Credentials of SCRAM users (KIP-554).
//!
//! - Credentials are kept and described; there is no SASL listener yet to use them.
//! - Clients send the salted password; what is kept are the keys derived from it.

use super::{Request, Served};
use crate::api::cluster_node::ClusterNode;
use crate::net::ResponseBuffer;
use controller::scram_credentials::ScramUpsertion;
use controller::{AlterScramCredentials, ApiError};
use metadata::ScramKey;
use model::{DecodeError, ErrorCode};
use std::collections::BTreeSet;
use wire::messages::alter_user_scram_credentials_response::AlterUserScramCredentialsResult;
use wire::messages::{AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse};

pub(crate) async fn serve(
    server: &ClusterNode,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: AlterUserScramCredentialsRequest<'_> = request.decode()?;
    let key = |user: &str, mechanism| ScramKey {
        mechanism,
        user: user.to_owned(),
    };
    let deletions: Vec<ScramKey> = message
        .deletions
        .iter()
        .map(|one| key(one.name, one.mechanism))
        .collect();
    let upsertions: Vec<ScramUpsertion> = message
        .upsertions
        .iter()
        .map(|one| ScramUpsertion {
            key: key(one.name, one.mechanism),
            iterations: one.iterations,
            salt: one.salt.to_vec(),
            salted_password: one.salted_password.to_vec(),
        })
        .collect();
    let users = deletions
        .iter()
        .chain(upsertions.iter().map(|one| &one.key));
    let users: BTreeSet<String> = users.map(|key| key.user.clone()).collect();
    let decided = server.controller.request(AlterScramCredentials {
        deletions,
        upsertions,
    });
    let results = decided.await.unwrap_or_else(|error| {
        let failed = |user| (user, Err(ApiError::with_default_message(error)));
        users.into_iter().map(failed).collect()
    });
    let results = results
        .iter()
        .map(|(user, result)| AlterUserScramCredentialsResult {
            user,
            error_code: result
                .as_ref()
                .map_or_else(|e| e.code, |()| ErrorCode::None)
                .code(),
            error_message: result
                .as_ref()
                .err()
                .and_then(|error| error.message.as_deref()),
        });
    let response = AlterUserScramCredentialsResponse {
        results: results.collect(),
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}
