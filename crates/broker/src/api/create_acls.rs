//! CreateAcls: v1–3. New access control entries (KIP-140).
//!
//! - There is no authorizer: each entry has SECURITY_DISABLED as its answer, as in Kafka.
//! - The number 0 in an entry, "unknown", closes the connection.

use super::access_control::{NO_AUTHORIZER, is_known, unknown};
use super::{Request, Served};
use crate::net::ResponseBuffer;
use model::{DecodeError, ErrorCode};
use wire::messages::create_acls_response::AclCreationResult;
use wire::messages::{CreateAclsRequest, CreateAclsResponse};

pub(crate) fn serve(
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: CreateAclsRequest<'_> = request.decode()?;
    if !message.creations.iter().all(|one| {
        is_known(
            one.resource_type,
            one.resource_pattern_type,
            one.operation,
            one.permission_type,
        )
    }) {
        return Ok(unknown());
    }
    let refused = |_| AclCreationResult {
        error_code: ErrorCode::SecurityDisabled.code(),
        error_message: Some(NO_AUTHORIZER),
    };
    let response = CreateAclsResponse {
        results: message.creations.iter().map(refused).collect(),
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}
