//! The values in force for every key of a table, read once and then taken by type.
//!
//! A getter that asks for another type than the table's is a mistake in this program, not in the
//! configuration, and panics; tests build every reader from the defaults.

use std::collections::BTreeMap;

use crate::definition::DefaultValue;
use crate::layers::ConfigMap;
use crate::parsing::{default_value, parse};
use crate::table::ConfigTable;
use crate::value::{Password, Value, ValueError};

/// Values by key; a key that is null has none.
#[derive(Debug, Clone)]
pub struct TypedValues {
    values: BTreeMap<&'static str, Value>,
    /// Which keys were asked for: a test compares them with those that have an effect.
    #[cfg(test)]
    read: std::sync::Arc<std::sync::Mutex<std::collections::BTreeSet<String>>>,
}

impl TypedValues {
    /// Reads every key of `table` from `given`, or else from its default. Keys that the table
    /// does not have are skipped. All errors are reported, in order of the keys.
    pub fn read(table: &ConfigTable, given: &ConfigMap) -> Result<Self, Vec<ValueError>> {
        let mut values = BTreeMap::new();
        let mut errors = Vec::new();
        for definition in table.iter() {
            let value = match given.get(definition.name) {
                Some(text) => parse(definition, text).map(Some),
                None => default_value(definition),
            };
            match value {
                Ok(Some(value)) => {
                    values.insert(definition.name, value);
                }
                Ok(None) => {}
                Err(error) => errors.push(error),
            }
        }
        if errors.is_empty() {
            Ok(Self::of(values))
        } else {
            Err(errors)
        }
    }

    /// The defaults of `table`, without the keys that have to be given.
    pub fn defaults(table: &ConfigTable) -> Self {
        let with_default = table
            .iter()
            .filter(|definition| definition.default != DefaultValue::Required);
        let values = with_default.filter_map(|definition| {
            let value = default_value(definition).expect("a default satisfies its constraint")?;
            Some((definition.name, value))
        });
        Self::of(values.collect())
    }

    fn of(values: BTreeMap<&'static str, Value>) -> Self {
        Self {
            values,
            #[cfg(test)]
            read: std::sync::Arc::default(),
        }
    }

    /// The keys that were asked for, of values and of their clones.
    #[cfg(test)]
    pub(crate) fn read_keys(&self) -> std::collections::BTreeSet<&'static str> {
        let read = self
            .read
            .lock()
            .expect("no test panics while it holds the lock");
        let tables = [&crate::BROKER, &crate::TOPIC];
        let definitions = tables.into_iter().flat_map(ConfigTable::iter);
        definitions
            .map(|definition| definition.name)
            .filter(|name| read.contains(*name))
            .collect()
    }

    /// Replaces the value of `name` by `text`, if `table` has the key.
    pub fn set(&mut self, table: &ConfigTable, name: &str, text: &str) -> Result<(), ValueError> {
        if let Some(definition) = table.definition(name) {
            self.values
                .insert(definition.name, parse(definition, text)?);
        }
        Ok(())
    }

    /// The value of `name`; none for null.
    pub fn value(&self, name: &str) -> Option<&Value> {
        #[cfg(test)]
        if let Ok(mut read) = self.read.lock() {
            read.insert(name.to_owned());
        }
        self.values.get(name)
    }

    /// A boolean that is never null.
    pub fn boolean(&self, name: &str) -> bool {
        match self.value(name) {
            Some(Value::Boolean(value)) => *value,
            other => mismatch(name, "boolean", other),
        }
    }

    /// An int that is never null.
    pub fn int(&self, name: &str) -> i32 {
        self.int_or_null(name)
            .unwrap_or_else(|| mismatch(name, "int", None))
    }

    /// An int, or null.
    pub fn int_or_null(&self, name: &str) -> Option<i32> {
        match self.value(name) {
            None => None,
            Some(Value::Int(value)) => Some(*value),
            other => mismatch(name, "int", other),
        }
    }

    /// A short that is never null.
    pub fn short(&self, name: &str) -> i16 {
        match self.value(name) {
            Some(Value::Short(value)) => *value,
            other => mismatch(name, "short", other),
        }
    }

    /// A long that is never null.
    pub fn long(&self, name: &str) -> i64 {
        self.long_or_null(name)
            .unwrap_or_else(|| mismatch(name, "long", None))
    }

    /// A long, or null.
    pub fn long_or_null(&self, name: &str) -> Option<i64> {
        match self.value(name) {
            None => None,
            Some(Value::Long(value)) => Some(*value),
            other => mismatch(name, "long", other),
        }
    }

    /// A double that is never null.
    pub fn double(&self, name: &str) -> f64 {
        match self.value(name) {
            Some(Value::Double(value)) => *value,
            other => mismatch(name, "double", other),
        }
    }

    /// Text of a string or class key, or null.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.value(name) {
            None => None,
            Some(Value::Text(value)) => Some(value),
            other => mismatch(name, "string", other),
        }
    }

    /// The elements of a list; none for null.
    pub fn list(&self, name: &str) -> &[String] {
        match self.value(name) {
            None => &[],
            Some(Value::List(elements)) => elements,
            other => mismatch(name, "list", other),
        }
    }

    /// A secret, or null.
    pub fn password(&self, name: &str) -> Option<&Password> {
        match self.value(name) {
            None => None,
            Some(Value::Password(value)) => Some(value),
            other => mismatch(name, "password", other),
        }
    }
}

fn mismatch(name: &str, kind: &str, value: Option<&Value>) -> ! {
    panic!("the table has `{name}` as another type than {kind}, or null: {value:?}")
}
