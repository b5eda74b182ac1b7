//! Changes of a table as the values of the repartition topic of its grouping.

use crate::formats::change::TableChange;
use crate::headers::Headers;
use crate::record::Change;
use crate::serde::{BoxError, Serde, SerdeRef};
use std::sync::Arc;

/// The serde of changes, whose values `inner` writes.
pub(crate) fn change_serde<V: 'static>(inner: SerdeRef<V>) -> SerdeRef<Change<V>> {
    Arc::new(ChangeSerde(inner))
}

struct ChangeSerde<V>(SerdeRef<V>);

impl<V> ChangeSerde<V> {
    fn bytes(
        &self,
        topic: &str,
        headers: &mut Headers,
        value: Option<&V>,
    ) -> Result<Option<Vec<u8>>, BoxError> {
        let Some(value) = value else { return Ok(None) };
        let mut bytes = Vec::new();
        let is_value = self.0.serialize(topic, headers, value, &mut bytes)?;
        Ok(is_value.then_some(bytes))
    }

    fn value(
        &self,
        topic: &str,
        headers: &Headers,
        bytes: Option<&[u8]>,
    ) -> Result<Option<V>, BoxError> {
        bytes
            .map(|bytes| self.0.deserialize(topic, headers, Some(bytes)))
            .transpose()
    }
}

impl<V> Serde<Change<V>> for ChangeSerde<V> {
    fn serialize(
        &self,
        topic: &str,
        headers: &mut Headers,
        value: &Change<V>,
        out: &mut Vec<u8>,
    ) -> Result<bool, BoxError> {
        let new = self.bytes(topic, headers, value.new.as_ref())?;
        let old = self.bytes(topic, headers, value.old.as_ref())?;
        if new.is_none() && old.is_none() {
            return Err("a change has neither an old nor a new value".into());
        }
        let change = TableChange {
            new: new.as_deref(),
            old: old.as_deref(),
            is_latest: value.is_latest,
        };
        change.write(out);
        Ok(true)
    }

    fn deserialize(
        &self,
        topic: &str,
        headers: &Headers,
        bytes: Option<&[u8]>,
    ) -> Result<Change<V>, BoxError> {
        let change = TableChange::read(bytes.ok_or("a change is null")?)?;
        Ok(Change {
            new: self.value(topic, headers, change.new)?,
            old: self.value(topic, headers, change.old)?,
            is_latest: change.is_latest,
        })
    }
}
