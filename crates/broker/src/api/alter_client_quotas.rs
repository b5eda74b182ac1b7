//! AlterClientQuotas: v0–1. Limits of users, client ids and addresses (KIP-546, KIP-612).
//!
//! - Quotas are kept and described; none is enforced yet.
//! - A host of an `ip` entity must be an address or have one; a slow name server makes it unknown.
//! - `ValidateOnly` changes nothing and answers the same.

use super::{Request, Served};
use crate::api::cluster_node::ClusterNode;
use crate::net::ResponseBuffer;
use controller::client_quotas::{QuotaAlteration, QuotaResults};
use controller::{AlterClientQuotas, ApiError};
use metadata::QuotaEntity;
use model::{DecodeError, ErrorCode};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use wire::messages::alter_client_quotas_response::{EntityData, EntryData};
use wire::messages::{AlterClientQuotasRequest, AlterClientQuotasResponse};

/// How many hosts are looked up at the same time.
const LOOKUPS_AT_ONCE: usize = 16;

/// How long all lookups of a request may take; a host that is not known by then counts as unknown.
const LOOKUP_TIME: Duration = Duration::from_secs(3);

pub(crate) async fn serve(
    server: &ClusterNode,
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
    let alter = AlterClientQuotas {
        alterations,
        unknown_hosts: names_without_address(&entities).await,
        validate_only: message.validate_only,
    };
    let decided = server.controller.request(alter);
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

/// The hosts of `ip` entities that are no address and have none, as far as it is known in time.
async fn names_without_address(entities: &BTreeSet<QuotaEntity>) -> BTreeSet<String> {
    let hosts = entities
        .iter()
        .filter_map(|entity| entity.0.get("ip")?.as_ref());
    let mut without: BTreeSet<String> = hosts
        .filter(|host| host.parse::<IpAddr>().is_err())
        .cloned()
        .collect();
    let mut waiting = without.clone().into_iter();
    let mut lookups = JoinSet::new();
    let deadline = Instant::now() + LOOKUP_TIME;
    loop {
        let room = LOOKUPS_AT_ONCE.saturating_sub(lookups.len());
        for host in waiting.by_ref().take(room) {
            lookups.spawn(async move {
                let is_found = tokio::net::lookup_host((host.as_str(), 0)).await.is_ok();
                is_found.then_some(host)
            });
        }
        match timeout_at(deadline, lookups.join_next()).await {
            Ok(Some(Ok(Some(host)))) => {
                without.remove(&host);
            }
            Ok(Some(_)) => {}
            Ok(None) | Err(_) => return without,
        }
    }
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
