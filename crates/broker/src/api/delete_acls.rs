//! DeleteAcls: v1–3. Access control entries go (KIP-140).
//!
//! - There is no authorizer: each filter has SECURITY_DISABLED as its answer, as in Kafka.
//! - The number 0 in a filter, "unknown", closes the connection.

use super::access_control::{NO_AUTHORIZER, is_known, unknown};
use super::{Request, Served};
use crate::net::ResponseBuffer;
use model::{DecodeError, ErrorCode};
use wire::messages::delete_acls_response::DeleteAclsFilterResult;
use wire::messages::{DeleteAclsRequest, DeleteAclsResponse};

pub(crate) fn serve(
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: DeleteAclsRequest<'_> = request.decode()?;
    if !message.filters.iter().all(|one| {
        is_known(
            one.resource_type_filter,
            one.pattern_type_filter,
            one.operation,
            one.permission_type,
        )
    }) {
        return Ok(unknown());
    }
    let refused = |_| DeleteAclsFilterResult {
        error_code: ErrorCode::SecurityDisabled.code(),
        error_message: Some(NO_AUTHORIZER),
        ..Default::default()
    };
    let response = DeleteAclsResponse {
        filter_results: message.filters.iter().map(refused).collect(),
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}
