//! Who the client is: SaslHandshake names the mechanism, SaslAuthenticate carries what both sides say
//! (KIP-43, KIP-152).

use super::{Greeting, malformed};
use crate::duplex::Duplex;
use crate::{Error, Exchange, ServedVersions};
use model::{ErrorCode, Message as _};
use wire::ApiKey;
use wire::messages::{
    SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest, SaslHandshakeResponse,
};

/// Correlation ids of these requests; no other has them.
const FIRST_CORRELATION_ID: i32 = 1 << 6;
/// What both sides can have to say is said in fewer rounds.
const ROUNDS_MAX: i32 = 64;
/// Before it, tokens follow the handshake outside of any request.
const HANDSHAKE_VERSION: i16 = 1;

/// Lets `exchange` speak with the broker until it has nothing more to say.
pub(super) async fn run<S: Duplex>(
    greeting: &mut Greeting<'_, S>,
    versions: &ServedVersions,
    mechanism: &str,
    mut exchange: Box<dyn Exchange>,
) -> Result<(), Error> {
    let address = greeting.address;
    let version = versions.version_of(ApiKey::SaslHandshake, HANDSHAKE_VERSION, address)?;
    if version < HANDSHAKE_VERSION {
        return Err(Error::Unsupported {
            address: address.to_owned(),
            api: "SaslHandshake",
            detail: format!(" in version {HANDSHAKE_VERSION}"),
        });
    }
    let handshake = SaslHandshakeRequest { mechanism };
    let body = greeting
        .ask(&handshake, version, FIRST_CORRELATION_ID)
        .await?;
    let response = SaslHandshakeResponse::from_bytes(&body, version)
        .map_err(|error| malformed(address, format!("SaslHandshake: {error}")))?;
    let code = ErrorCode::from_code(response.error_code);
    if code != ErrorCode::None {
        let offered: Vec<&str> = response.mechanisms.iter().collect();
        return Err(Error::Refused {
            subject: format!("SASL mechanism `{mechanism}` at {address}"),
            code,
            message: Some(format!("it offers {}", offered.join(", "))),
        });
    }
    let version = versions.version_of(ApiKey::SaslAuthenticate, i16::MAX, address)?;
    let mut said = exchange
        .respond(None)
        .map_err(|why| untrusted(address, &why))?;
    for round in 1..ROUNDS_MAX {
        let Some(auth_bytes) = said else {
            return Ok(());
        };
        let request = SaslAuthenticateRequest {
            auth_bytes: &auth_bytes,
        };
        let body = greeting
            .ask(&request, version, FIRST_CORRELATION_ID + round)
            .await?;
        let response = SaslAuthenticateResponse::from_bytes(&body, version)
            .map_err(|error| malformed(address, format!("SaslAuthenticate: {error}")))?;
        let code = ErrorCode::from_code(response.error_code);
        if code != ErrorCode::None {
            return Err(Error::Refused {
                subject: format!("authentication by `{mechanism}` at {address}"),
                code,
                message: response.error_message.map(str::to_owned),
            });
        }
        said = exchange
            .respond(Some(response.auth_bytes))
            .map_err(|why| untrusted(address, &why))?;
    }
    Err(untrusted(address, "it asks without end"))
}

fn untrusted(address: &str, why: &str) -> Error {
    malformed(address, format!("authentication: {why}"))
}
