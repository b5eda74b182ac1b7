//! Client quotas: limits by user, client id or address.

use crate::shared_map::SharedMap;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Whom quotas are about: entity types (`user`, `client-id`, `ip`) with a name each, or `None` for
/// the default.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct QuotaEntity(pub BTreeMap<String, Option<String>>);

/// The quotas of an entity by key, such as `producer_byte_rate`.
pub type Quotas = BTreeMap<String, f64>;

/// All quotas. An entity without quotas has no entry.
pub type ClientQuotasImage = SharedMap<QuotaEntity, Arc<Quotas>>;

/// Sets a quota, or removes it.
pub(crate) fn set(
    image: &mut ClientQuotasImage,
    entity: &QuotaEntity,
    key: &str,
    value: Option<f64>,
) {
    let Some(quotas) = image.get_mut(entity) else {
        if let Some(value) = value {
            image.insert(
                entity.clone(),
                Arc::new(Quotas::from([(key.to_owned(), value)])),
            );
        }
        return;
    };
    let quotas = Arc::make_mut(quotas);
    match value {
        Some(value) => {
            quotas.insert(key.to_owned(), value);
        }
        None => {
            quotas.remove(key);
            if quotas.is_empty() {
                image.remove(entity);
            }
        }
    }
}
