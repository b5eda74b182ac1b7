//! DescribeClientQuotas: v0–1. Limits of users, client ids and addresses (KIP-546).
//!
//! - A wrong filter refuses the whole request, without entries.

use super::{Request, Served};
use crate::api::cluster_node::ClusterNode;
use crate::net::ResponseBuffer;
use controller::client_quotas::{QuotaFilter, describe_client_quotas};
use model::DecodeError;
use wire::messages::describe_client_quotas_response::{EntityData, EntryData, ValueData};
use wire::messages::{DescribeClientQuotasRequest, DescribeClientQuotasResponse};

pub(crate) fn serve(
    server: &ClusterNode,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: DescribeClientQuotasRequest<'_> = request.decode()?;
    let filters: Vec<QuotaFilter> = message
        .components
        .iter()
        .map(|one| QuotaFilter {
            entity_type: one.entity_type.to_owned(),
            match_type: one.match_type,
            name: one.r#match.map(str::to_owned),
        })
        .collect();
    let image = server.node.image();
    let described = describe_client_quotas(&image, &filters, message.strict);
    let response = match &described {
        Ok(found) => DescribeClientQuotasResponse {
            entries: Some(
                found
                    .iter()
                    .map(|(entity, quotas)| EntryData {
                        entity: entity
                            .0
                            .iter()
                            .map(|(kind, name)| EntityData {
                                entity_type: kind,
                                entity_name: name.as_deref(),
                            })
                            .collect(),
                        values: quotas
                            .iter()
                            .map(|(key, value)| ValueData { key, value: *value })
                            .collect(),
                    })
                    .collect(),
            ),
            ..Default::default()
        },
        Err(error) => DescribeClientQuotasResponse {
            error_code: error.code.code(),
            error_message: error.message.as_deref(),
            entries: None,
            ..Default::default()
        },
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}
