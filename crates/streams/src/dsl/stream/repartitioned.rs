//! A stream that is read from a repartition topic.

use super::KStream;
use crate::dsl::Repartition;
use crate::dsl::graph_builder::JoinRepartition;
use crate::record::Data;
use crate::serde::SerdeRef;
use std::sync::Arc;

impl<K: Data, V: Data> KStream<K, V> {
    /// This stream for a join: read from a repartition topic if its keys may have changed since it was partitioned.
    /// A join with a name has a topic of its own. One without a name shares the topic of the stream's last join before
    /// it, if there is one, or has a topic with the name of the stream.
    pub(crate) fn repartitioned_for_join(
        &self,
        name: Option<String>,
        serdes: (SerdeRef<K>, SerdeRef<V>),
    ) -> Self {
        if !self.repartition_required {
            return self.clone();
        }
        let base = name.as_deref().unwrap_or(&self.name);
        let repartition = Repartition::new(&self.builder, base, serdes.clone());
        let shared = match name {
            None => self.builder.join_repartition(self.node),
            Some(_) => None,
        };
        let shared = shared.unwrap_or_else(|| {
            let below = self.below_repartition(repartition);
            let shared = JoinRepartition {
                node: below.node,
                source: below.name,
            };
            self.builder
                .share_join_repartition(self.node, shared.clone());
            shared
        });
        let sources = [Arc::clone(&shared.source)].into();
        let serdes = (Some(serdes.0), Some(serdes.1));
        Self::new(&self.builder, &shared.source, shared.node, sources, serdes)
    }
}
