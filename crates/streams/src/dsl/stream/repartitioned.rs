//! A stream that is read from a repartition topic.

use super::KStream;
use crate::dsl::Repartition;
use crate::dsl::graph_builder::JoinRepartition;
use crate::record::Data;
use crate::serde::SerdeRef;
use std::sync::Arc;

impl<K: Data, V: Data> KStream<K, V> {
    /// This stream for a join: read from a repartition topic if its keys may have changed since it was partitioned.
    /// Its topic is named after the stream if the join gives no name.
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
        if name.is_some() {
            return self.below_repartition(repartition);
        }
        let shared = self.builder.join_repartition(self.node);
        let (node, source) = match shared {
            Some(JoinRepartition { node, source }) => (node, source),
            None => {
                let below = self.below_repartition(repartition);
                let (node, source) = (below.node, below.name);
                let shared = JoinRepartition {
                    node,
                    source: Arc::clone(&source),
                };
                self.builder.share_join_repartition(self.node, shared);
                (node, source)
            }
        };
        let sources = [Arc::clone(&source)].into();
        let serdes = (Some(serdes.0), Some(serdes.1));
        Self::new(&self.builder, &source, node, sources, serdes)
    }
}
