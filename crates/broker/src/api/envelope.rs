//! Envelope: v0. A request that a client has sent to a broker, which forwards it to the controller (KIP-590).
//!
//! - It is served as if it had come here: by the client's address, in the name of its principal, which nobody
//!   is asked about without an authorizer. Its answer goes back as it is.
//! - In this order: a principal that cannot be read is PRINCIPAL_DESERIALIZATION_FAILURE, an address that is
//!   none INVALID_REQUEST, a header that cannot be read or a version that is not served UNSUPPORTED_VERSION, an
//!   API that is not forwarded INVALID_REQUEST (another envelope among them), a body that cannot be read
//!   UNSUPPORTED_VERSION.

use super::{Request, Served, Server, elements_max, forwarded_body, served};
use crate::api::cluster_node::ClusterNode;
use crate::net::{ConnectionContext, ResponseBuffer};
use model::{DecodeError, ErrorCode, InvalidStrings, Message, Reader};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use wire::messages::{DefaultPrincipalData, EnvelopeRequest, EnvelopeResponse};
use wire::{ApiKey, RequestHeader};

/// The size of a frame, which an answer within an envelope does not have.
const FRAME_SIZE_BYTES: usize = 4;

pub(crate) async fn serve(
    server: &Arc<ClusterNode>,
    context: &ConnectionContext,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: EnvelopeRequest<'_> = request.decode()?;
    let forwarded = match client(context, &message) {
        Ok(client) => serve_forwarded(server, client, message.request_data).await,
        Err(error) => Err(error),
    };
    let response = match &forwarded {
        Ok(answer) => EnvelopeResponse {
            response_data: answer.head.get(FRAME_SIZE_BYTES..),
            error_code: 0,
        },
        Err(error) => EnvelopeResponse {
            response_data: None,
            error_code: error.code(),
        },
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}

/// The connection as if the client had reached this listener itself.
fn client(
    context: &ConnectionContext,
    message: &EnvelopeRequest<'_>,
) -> Result<ConnectionContext, ErrorCode> {
    let principal = message
        .request_principal
        .and_then(<[u8]>::split_first_chunk);
    let principal = principal.and_then(|(version, bytes)| {
        let version = i16::from_be_bytes(*version);
        DefaultPrincipalData::from_bytes(bytes, (version == 0).then_some(version)?).ok()
    });
    principal.ok_or(ErrorCode::PrincipalDeserializationFailure)?;
    let address = message.client_host_address;
    let address = match (<[u8; 4]>::try_from(address), <[u8; 16]>::try_from(address)) {
        (Ok(bytes), _) => IpAddr::from(bytes),
        (_, Ok(bytes)) => IpAddr::from(bytes),
        _ => return Err(ErrorCode::InvalidRequest),
    };
    Ok(ConnectionContext {
        listener: context.listener.clone(),
        local: context.local,
        peer: SocketAddr::new(address, context.peer.port()),
        client_id: None,
        waits_for_room: false,
    })
}

/// Checks that a request within an envelope can be served.
///
/// # Errors
/// What whoever has forwarded it is told: at once, as others have forwarded theirs over the same connection.
fn check(server: &ClusterNode, frame: &[u8]) -> Result<(), ErrorCode> {
    let mut reader = Reader::new(frame);
    let header = RequestHeader::decode(&mut reader);
    let header = header.map_err(|_| ErrorCode::UnsupportedVersion)?;
    let api = ApiKey::from_number(header.api_key).ok_or(ErrorCode::UnsupportedVersion)?;
    let facts = api.facts();
    if !(facts.min_version..=facts.max_version).contains(&header.api_version) {
        return Err(ErrorCode::UnsupportedVersion);
    }
    if !served::is_decided_by_controller(api) || !served::is_served(api, header.api_version, true) {
        return Err(ErrorCode::InvalidRequest);
    }
    let request = Request {
        api,
        version: header.api_version,
        correlation_id: header.correlation_id,
        body: reader.remaining(),
        invalid: &InvalidStrings::default(),
        elements_max: elements_max(server, frame.len()),
        waits_for_room: false,
    };
    match forwarded_body::check(&request) {
        // Strings that are no text are replaced when it is served.
        Ok(()) | Err(DecodeError::InvalidUtf8) => Ok(()),
        Err(_) => Err(ErrorCode::UnsupportedVersion),
    }
}

/// The answer to a request within an envelope, as a frame.
async fn serve_forwarded(
    server: &Arc<ClusterNode>,
    mut client: ConnectionContext,
    frame: &[u8],
) -> Result<ResponseBuffer, ErrorCode> {
    check(server, frame)?;
    let mut answer = ResponseBuffer::default();
    let mut frame = frame.to_vec();
    let serving = super::serve(
        Server::Controller(server),
        &mut client,
        &mut frame,
        &mut answer,
    );
    // A request within a request: its future has a place of its own.
    match Box::pin(serving).await {
        Served::Answered => Ok(answer),
        Served::Close(reason) | Served::Refuse(reason) => {
            tracing::debug!(peer = %client.peer, reason, "a request that was forwarded is refused");
            Err(ErrorCode::UnsupportedVersion)
        }
    }
}
