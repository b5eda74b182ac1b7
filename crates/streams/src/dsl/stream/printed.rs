//! `Printed`: how `print` shows records.

use crate::record::Data;
use std::fmt;
use std::sync::Arc;

type Show<K, V> = Arc<dyn Fn(&K, &V) -> String + Send + Sync>;
type Write = Arc<dyn Fn(&str) + Send + Sync>;

/// How `print` shows records: each is a line `[LABEL]: KEY, VALUE`.
pub struct Printed<K, V> {
    pub(super) write: Write,
    pub(super) show: Show<K, V>,
    pub(super) label: Option<String>,
    pub(super) name: Option<String>,
}

impl<K, V> fmt::Debug for Printed<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Printed")
            .field("label", &self.label)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl<K: Data, V: Data> Printed<K, V> {
    /// Lines go to `write`, which is given them without their ends.
    ///
    /// ```
    /// use riverrun_streams::dsl::{Printed, StreamsBuilder};
    ///
    /// let builder = StreamsBuilder::new();
    /// let stream = builder.stream::<String, i64>("in");
    /// stream.print(Printed::to(|line| println!("{line}")).with_label("in"));
    /// ```
    pub fn to(write: impl Fn(&str) + Send + Sync + 'static) -> Self
    where
        K: fmt::Debug,
        V: fmt::Debug,
    {
        Self {
            write: Arc::new(write),
            show: Arc::new(|key, value| format!("{key:?}, {value:?}")),
            label: None,
            name: None,
        }
    }

    /// What stands in front of each record; the stream's name otherwise.
    #[must_use]
    pub fn with_label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// How key and value are shown.
    #[must_use]
    pub fn with_key_value_mapper(
        mut self,
        mapper: impl Fn(&K, &V) -> String + Send + Sync + 'static,
    ) -> Self {
        self.show = Arc::new(mapper);
        self
    }

    /// Names the node.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }
}
