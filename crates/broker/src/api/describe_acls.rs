//! DescribeAcls: v1–3. Access control entries (KIP-140).
//!
//! - There is no authorizer, and as in Kafka without one every request has SECURITY_DISABLED as
//!   its answer. Entries that Kafka has written stay in the metadata as they are.
//! - The number 0 in a filter, "unknown", closes the connection.

use super::access_control::{is_known, unknown};
use super::{Request, Served};
use crate::net::ResponseBuffer;
use model::{DecodeError, ErrorCode};
use wire::messages::{DescribeAclsRequest, DescribeAclsResponse};

pub(crate) fn serve(
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: DescribeAclsRequest<'_> = request.decode()?;
    if !is_known(
        message.resource_type_filter,
        message.pattern_type_filter,
        message.operation,
        message.permission_type,
    ) {
        return Ok(unknown());
    }
    let response = DescribeAclsResponse {
        error_code: ErrorCode::SecurityDisabled.code(),
        error_message: Some("No Authorizer is configured on the broker"),
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}
