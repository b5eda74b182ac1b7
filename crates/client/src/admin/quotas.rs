//! Client quotas: how much users, client ids and addresses may use (KIP-546).

use super::fan_out::Route;
use super::{Admin, PerKey, checked};
use crate::Error;
use crate::cluster::{Connection, Deadline};
use std::collections::BTreeMap;
use wire::messages::alter_client_quotas_request::{
    EntityData as AlteredEntity, EntryData as AlteredEntry, OpData,
};
use wire::messages::describe_client_quotas_request::ComponentData;
use wire::messages::{
    AlterClientQuotasRequest, AlterClientQuotasResponse, DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
};

/// Whom a quota is for: names by `user`, `client-id` or `ip`; `None` is everybody without one of
/// their own.
pub type QuotaEntity = BTreeMap<String, Option<String>>;

/// Limits by key, such as `producer_byte_rate` in bytes a second.
pub type Quotas = BTreeMap<String, f64>;

/// Which names of one type a filter takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuotaMatch {
    /// This one.
    Name(String),
    /// The quota of everybody without one of their own.
    Default,
    /// Any, the default among them.
    Any,
}

/// Which quotas to describe; without parts, all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QuotaFilter {
    /// What is asked of each type: `user`, `client-id`, `ip`.
    pub parts: BTreeMap<String, QuotaMatch>,
    /// Whether quotas that name further types are left out.
    pub is_strict: bool,
}

/// How a quota changes: to a limit, or away with `None`.
pub type QuotaChanges = BTreeMap<QuotaEntity, BTreeMap<String, Option<f64>>>;

impl Admin {
    /// The quotas that the filter takes.
    ///
    /// # Errors
    /// What the broker says until `default.api.timeout.ms`.
    pub async fn describe_client_quotas(
        &self,
        filter: &QuotaFilter,
    ) -> Result<BTreeMap<QuotaEntity, Quotas>, Error> {
        self.ask(Route::Any, |connection, deadline| async move {
            describe(&connection, filter, deadline).await
        })
        .await
    }

    /// Sets and removes quotas, or with `validate_only` just checks that they may be.
    pub async fn alter_client_quotas(
        &self,
        changes: &QuotaChanges,
        validate_only: bool,
    ) -> PerKey<QuotaEntity, ()> {
        let call = |connection: Connection, keys: Vec<QuotaEntity>, deadline: Deadline| async move {
            alter(&connection, &keys, changes, validate_only, deadline).await
        };
        self.fan_out(changes.keys().cloned(), |_| Route::Any, call)
            .await
    }
}

async fn describe(
    connection: &Connection,
    filter: &QuotaFilter,
    deadline: Deadline,
) -> Result<BTreeMap<QuotaEntity, Quotas>, Error> {
    let part = |(entity_type, wanted): (&'_ String, &'_ QuotaMatch)| {
        let (match_type, name) = match wanted {
            QuotaMatch::Name(name) => (0, Some(name.clone())),
            QuotaMatch::Default => (1, None),
            QuotaMatch::Any => (2, None),
        };
        (entity_type.clone(), match_type, name)
    };
    let parts: Vec<(String, i8, Option<String>)> = filter.parts.iter().map(part).collect();
    let request = DescribeClientQuotasRequest {
        components: parts
            .iter()
            .map(|(entity_type, match_type, name)| ComponentData {
                entity_type,
                match_type: *match_type,
                r#match: name.as_deref(),
            })
            .collect(),
        strict: filter.is_strict,
    };
    let answer = connection.call(&request, deadline).await?;
    let response: DescribeClientQuotasResponse<'_> = answer.read()?;
    checked(response.error_code, "client quotas", response.error_message)?;
    let mut described = BTreeMap::new();
    for entry in response.entries.iter().flat_map(|entries| entries.iter()) {
        let entity = entry.entity.iter();
        let entity: QuotaEntity = entity
            .map(|part| {
                let name = part.entity_name.map(str::to_owned);
                (part.entity_type.to_owned(), name)
            })
            .collect();
        let values = entry.values.iter();
        let values = values.map(|value| (value.key.to_owned(), value.value));
        described.insert(entity, values.collect());
    }
    Ok(described)
}

async fn alter(
    connection: &Connection,
    keys: &[QuotaEntity],
    changes: &QuotaChanges,
    validate_only: bool,
    deadline: Deadline,
) -> Result<Vec<(QuotaEntity, Result<(), Error>)>, Error> {
    let entries = keys.iter().map(|entity| AlteredEntry {
        entity: entity
            .iter()
            .map(|(entity_type, name)| AlteredEntity {
                entity_type,
                entity_name: name.as_deref(),
            })
            .collect(),
        ops: changes[entity]
            .iter()
            .map(|(key, value)| OpData {
                key,
                value: value.unwrap_or(0.0),
                remove: value.is_none(),
            })
            .collect(),
    });
    let request = AlterClientQuotasRequest {
        entries: entries.collect(),
        validate_only,
    };
    let answer = connection.call(&request, deadline).await?;
    let response: AlterClientQuotasResponse<'_> = answer.read()?;
    let mut altered = Vec::new();
    for entry in response.entries.iter() {
        let entity = entry.entity.iter();
        let entity: QuotaEntity = entity
            .map(|part| {
                let name = part.entity_name.map(str::to_owned);
                (part.entity_type.to_owned(), name)
            })
            .collect();
        let subject = format!("quota of {}", text_of(&entity));
        let checked = checked(entry.error_code, subject, entry.error_message);
        altered.push((entity, checked));
    }
    Ok(altered)
}

/// Such as `user=alice, client-id=<default>`.
fn text_of(entity: &QuotaEntity) -> String {
    let parts = entity.iter().map(|(entity_type, name)| {
        let name = name.as_deref().unwrap_or("<default>");
        format!("{entity_type}={name}")
    });
    parts.collect::<Vec<_>>().join(", ")
}
