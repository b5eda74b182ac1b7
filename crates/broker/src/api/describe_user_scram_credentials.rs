//! DescribeUserScramCredentials: v0. Which SCRAM credentials there are (KIP-554).
//!
//! - Without users, or with an empty list, every user is described.
//! - Salts and keys are never told.

use super::{Request, Served};
use crate::api::cluster_node::ClusterNode;
use crate::net::ResponseBuffer;
use controller::scram_credentials::describe_scram_credentials;
use model::DecodeError;
use wire::messages::describe_user_scram_credentials_response::{
    CredentialInfo, DescribeUserScramCredentialsResult,
};
use wire::messages::{DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse};

pub(crate) fn serve(
    server: &ClusterNode,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: DescribeUserScramCredentialsRequest<'_> = request.decode()?;
    let users: Vec<String> = message.users.as_ref().map_or_else(Vec::new, |users| {
        users.iter().map(|user| user.name.to_owned()).collect()
    });
    let described = describe_scram_credentials(&server.node.image(), &users);
    let results = described.iter().map(|(user, result)| match result {
        Ok(credentials) => DescribeUserScramCredentialsResult {
            user,
            credential_infos: credentials
                .iter()
                .map(|(mechanism, iterations)| CredentialInfo {
                    mechanism: *mechanism,
                    iterations: *iterations,
                })
                .collect(),
            ..Default::default()
        },
        Err(error) => DescribeUserScramCredentialsResult {
            user,
            error_code: error.code.code(),
            error_message: error.message.as_deref(),
            ..Default::default()
        },
    });
    let response = DescribeUserScramCredentialsResponse {
        results: results.collect(),
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}
