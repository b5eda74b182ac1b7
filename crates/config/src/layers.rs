//! The layers of a broker's configuration, and what is in force over all of them.
//!
//! ```text
//!   per broker     set while it runs, for this broker      wins
//!   cluster-wide   set while it runs, for all brokers
//!   static         as given at start
//!   default        the table's                             loses
//! ```

use std::collections::BTreeMap;

use crate::definition::ConfigDefinition;
use crate::synonyms;
use crate::value::ValueError;

/// Values by key, as given.
pub type ConfigMap = BTreeMap<String, String>;

/// What is given for a broker, layer by layer; defaults are in the tables.
#[derive(Debug, Clone, Copy)]
pub struct BrokerLayers<'a> {
    /// As given at start.
    pub static_values: &'a ConfigMap,
    /// Set while the cluster runs, for every broker.
    pub cluster_wide: &'a ConfigMap,
    /// Set while the cluster runs, for this broker.
    pub per_broker: &'a ConfigMap,
}

/// No values at all.
pub static NO_VALUES: ConfigMap = ConfigMap::new();

impl<'a> BrokerLayers<'a> {
    /// A broker for which nothing is set beyond what was given at start.
    pub fn of_static(static_values: &'a ConfigMap) -> Self {
        Self {
            static_values,
            cluster_wide: &NO_VALUES,
            per_broker: &NO_VALUES,
        }
    }

    /// The values in force, without defaults. A value set while the broker runs replaces every
    /// static value that says the same in another unit.
    pub fn effective(&self) -> ConfigMap {
        let mut effective = self.static_values.clone();
        for layer in [self.cluster_wide, self.per_broker] {
            for (name, value) in layer {
                for replaced in synonyms::replaced_by(name) {
                    effective.remove(replaced);
                }
                effective.insert(name.clone(), value.clone());
            }
        }
        effective
    }
}

/// What a topic without a value of its own has for `definition`, given the broker's `effective`
/// values; none for null.
pub fn topic_default(
    definition: &ConfigDefinition,
    effective: &ConfigMap,
) -> Result<Option<String>, ValueError> {
    for synonym in synonyms::of_topic_key(definition.name) {
        if let Some(text) = effective.get(synonym.name) {
            return synonym.convert(text).map(Some);
        }
    }
    Ok(definition.default_text().map(str::to_owned))
}

/// What a group without a value of its own has for `definition`; none for null.
pub fn group_default(definition: &ConfigDefinition, effective: &ConfigMap) -> Option<String> {
    synonyms::of_group_key(definition.name)
        .and_then(|name| effective.get(name).cloned())
        .or_else(|| definition.default_text().map(str::to_owned))
}
