//! Branches: each record goes to the first branch whose predicate is true of it.

use super::{KStream, Stateless};
use crate::dsl::graph::GraphTraits;
use crate::dsl::{Branched, GraphNode, Written};
use crate::record::{Data, Record};
use crate::topology::{Topology, stateless_factory};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

type Predicate<K, V> = Arc<dyn Fn(&K, &V) -> bool + Send + Sync>;

/// A stream that is being split.
pub struct BranchedKStream<K, V> {
    stream: KStream<K, V>,
    name: Arc<str>,
    split: KStream<K, V>,
    /// The predicates of the branches, in their order: the node reads them when it is made.
    predicates: Arc<Mutex<Vec<Predicate<K, V>>>>,
    branches: BTreeMap<String, KStream<K, V>>,
}

impl<K, V> fmt::Debug for BranchedKStream<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BranchedKStream")
            .field("name", &self.name)
            .field("branches", &self.branches)
            .finish_non_exhaustive()
    }
}

impl<K: Data, V: Data> KStream<K, V> {
    /// Splits the stream: add branches to what this returns.
    pub fn split(&self) -> BranchedKStream<K, V> {
        self.split_into(None)
    }

    /// As `split`; the node, and so the names of the branches, start with this name.
    pub fn split_named(&self, name: &str) -> BranchedKStream<K, V> {
        self.split_into(Some(name))
    }

    fn split_into(&self, name: Option<&str>) -> BranchedKStream<K, V> {
        let predicates: Arc<Mutex<Vec<Predicate<K, V>>>> = Arc::default();
        let read = Arc::clone(&predicates);
        let node = Stateless {
            prefix: "KSTREAM-BRANCH-",
            name,
            traits: GraphTraits::default(),
        };
        let split = self.stateless(
            node,
            (self.key_serde.clone(), self.value_serde.clone()),
            move |context, record, outputs| {
                let branch = read
                    .lock()
                    .iter()
                    .position(|predicate| predicate(&record.key, &record.value));
                match branch {
                    Some(branch) => outputs.forward_to_index(context, branch, record),
                    None => {
                        context.drop_record();
                        Ok(())
                    }
                }
            },
        );
        BranchedKStream {
            stream: self.clone(),
            name: Arc::clone(&split.name),
            split,
            predicates,
            branches: BTreeMap::new(),
        }
    }
}

impl<K: Data, V: Data> BranchedKStream<K, V> {
    /// A branch of the records that `predicate`, and none before it, is true of.
    #[must_use]
    pub fn branch(
        self,
        predicate: impl Fn(&K, &V) -> bool + Send + Sync + 'static,
        branched: Branched,
    ) -> Self {
        let ordinal = self.branches.len() + 1;
        self.add(Arc::new(predicate), branched, ordinal)
    }

    /// A branch of all other records; the end of the split. The streams by name: the split's, then the branch's or
    /// its number.
    pub fn default_branch(self, branched: Branched) -> BTreeMap<String, KStream<K, V>> {
        self.add(Arc::new(|_, _| true), branched, 0).branches
    }

    /// The end of the split: other records are dropped. The streams by name: the split's, then the branch's or its
    /// number.
    pub fn no_default_branch(self) -> BTreeMap<String, KStream<K, V>> {
        self.branches
    }

    fn add(mut self, predicate: Predicate<K, V>, branched: Branched, ordinal: usize) -> Self {
        // A number is drawn, though the name has another one.
        self.stream.builder.new_name("KSTREAM-BRANCHCHILD-");
        let suffix = branched.name.unwrap_or_else(|| ordinal.to_string());
        let name: Arc<str> = Arc::from(format!("{}{suffix}", self.name));
        self.predicates.lock().push(predicate);
        let factory = stateless_factory(
            |context: &mut _, record: Record<K, V>, outputs: &crate::processor::Outputs<K, V>| {
                outputs.forward(context, record)
            },
        );
        let written_name = Arc::clone(&name);
        let node = GraphNode::new(
            &name,
            GraphTraits::default(),
            move |topology: &mut Topology, written: &Written<'_>| {
                topology
                    .add_processor_node(&written_name, written.parents, Arc::clone(&factory))
                    .map(|_| ())
            },
        );
        let node = self.stream.builder.add(node, &[self.split.node]);
        let branch = KStream {
            name: Arc::clone(&name),
            node,
            ..self.split.clone()
        };
        self.branches.insert(name.to_string(), branch);
        self
    }
}
