//! AlterClientQuotas: v0–1. Limits of users, client ids and addresses (KIP-546, KIP-612).
//!
//! - Quotas are kept and described; none is enforced yet.
//! - A host of an `ip` entity must be an address or have one.
//! - `ValidateOnly` changes nothing and answers the same.

use super::{Request, Served};
use crate::Broker;
use crate::net::ResponseBuffer;
use controller::ApiError;
use controller::client_quotas::{QuotaAlteration, QuotaResults, alter_client_quotas};
use metadata::QuotaEntity;
use model::{DecodeError, ErrorCode};
use std::collections::BTreeSet;
use std::net::IpAddr;
use wire::messages::alter_client_quotas_response::{EntityData, EntryData};
use wire::messages::{AlterClientQuotasRequest, AlterClientQuotasResponse};

pub(crate) async fn serve(
    broker: &Broker,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: AlterClientQuotasRequest<'_> = request.decode()?;
    let alterations: Vec<QuotaAlteration> = message
        .entries
        .iter()
        .map(|entry| QuotaAlteration {
            entity: QuotaEntity(
                entry
                    .entity
                    .iter()
                    .map(|one| {
                        (
                            one.entity_type.to_owned(),
                            one.entity_name.map(str::to_owned),
                        )
                    })
                    .collect(),
            ),
            operations: entry
                .ops
                .iter()
                .map(|one| (one.key.to_owned(), (!one.remove).then_some(one.value)))
                .collect(),
        })
        .collect();
    let entities: BTreeSet<QuotaEntity> =
        alterations.iter().map(|one| one.entity.clone()).collect();
    let no_hosts = names_without_address(&entities).await;
    let validate_only = message.validate_only;
    let decided = broker.controller.decide(move |image, _, _| {
        let is_host = |name: &str| !no_hosts.contains(name);
        alter_client_quotas(image, &alterations, &is_host, validate_only)
    });
    let results: QuotaResults = decided.await.unwrap_or_else(|error| {
        let failed = |entity| (entity, Err(ApiError::with_default_message(error)));
        entities.into_iter().map(failed).collect()
    });
    let response = AlterClientQuotasResponse {
        entries: results.iter().map(entry_of).collect(),
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}

/// The hosts of `ip` entities that are no address and have none.
async fn names_without_address(entities: &BTreeSet<QuotaEntity>) -> BTreeSet<String> {
    let mut without = BTreeSet::new();
    for entity in entities {
        let Some(Some(host)) = entity.0.get("ip") else {
            continue;
        };
        let is_address = host.parse::<IpAddr>().is_ok();
        if !is_address && tokio::net::lookup_host((host.as_str(), 0)).await.is_err() {
            without.insert(host.clone());
        }
    }
    without
}

fn entry_of((entity, result): &(QuotaEntity, Result<(), ApiError>)) -> EntryData<'_> {
    let entries = entity.0.iter();
    EntryData {
        error_code: result
            .as_ref()
            .map_or_else(|e| e.code, |()| ErrorCode::None)
            .code(),
        error_message: result
            .as_ref()
            .err()
            .and_then(|error| error.message.as_deref()),
        entity: entries
            .map(|(kind, name)| EntityData {
                entity_type: kind,
                entity_name: name.as_deref(),
            })
            .collect(),
    }
}
