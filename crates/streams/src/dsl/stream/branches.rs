//! Branches: each record goes to the first branch whose predicate is true of it.

use super::{KStream, Stateless};
use crate::dsl::graph::GraphTraits;
use crate::dsl::{GraphNode, Written};
use crate::processor::{FnNode, Outputs, TaskContext};
use crate::record::{Data, Record};
use crate::topology::{NodeFactory, Topology, stateless_factory};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A branch of `split`: its name, which follows that of the split, and what is done with it at once.
pub struct Branched<K, V> {
    name: Option<String>,
    then: Then<K, V>,
}

/// A function that takes a branch.
type Take<K, V, T> = Box<dyn FnOnce(KStream<K, V>) -> T>;

/// What is done with a branch at once.
enum Then<K, V> {
    /// It is among the streams that the split gives.
    Give,
    /// What the function makes of it is among them.
    Chain(Take<K, V, KStream<K, V>>),
    /// The function has it.
    Consume(Take<K, V, ()>),
}

impl<K, V> fmt::Debug for Branched<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Branched")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl<K, V> Default for Branched<K, V> {
    fn default() -> Self {
        Self {
            name: None,
            then: Then::Give,
        }
    }
}

impl<K, V> Branched<K, V> {
    /// A branch of this name.
    pub fn named(name: impl Into<String>) -> Self {
        Self::default().with_name(name)
    }

    /// What the split gives is what `chain` makes of the branch.
    pub fn with_function(chain: impl FnOnce(KStream<K, V>) -> KStream<K, V> + 'static) -> Self {
        Self {
            name: None,
            then: Then::Chain(Box::new(chain)),
        }
    }

    /// `consumer` has the branch, and the split does not give it.
    pub fn with_consumer(consumer: impl FnOnce(KStream<K, V>) + 'static) -> Self {
        Self {
            name: None,
            then: Then::Consume(Box::new(consumer)),
        }
    }

    /// Names the branch.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }
}

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
        let node = Stateless {
            prefix: "KSTREAM-BRANCH-",
            name,
            traits: GraphTraits::default(),
        };
        let serdes = (self.key_serde.clone(), self.value_serde.clone());
        let split = self.below(node, serdes, split_factory(Arc::clone(&predicates)));
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
        branched: Branched<K, V>,
    ) -> Self {
        let ordinal = self.predicates.lock().len() + 1;
        self.add(Arc::new(predicate), branched, ordinal)
    }

    /// A branch of all other records; the end of the split. The streams by name: the split's, then the branch's or
    /// its number.
    pub fn default_branch(self, branched: Branched<K, V>) -> BTreeMap<String, KStream<K, V>> {
        self.add(Arc::new(|_, _| true), branched, 0).branches
    }

    /// The end of the split: other records are dropped. The streams by name: the split's, then the branch's or its
    /// number.
    pub fn no_default_branch(self) -> BTreeMap<String, KStream<K, V>> {
        self.branches
    }

    fn add(mut self, predicate: Predicate<K, V>, branched: Branched<K, V>, ordinal: usize) -> Self {
        // A number is drawn, though the name has another one.
        self.stream.builder.new_name("KSTREAM-BRANCHCHILD-");
        let suffix = branched.name.unwrap_or_else(|| ordinal.to_string());
        let name: Arc<str> = Arc::from(format!("{}{suffix}", self.name));
        self.predicates.lock().push(predicate);
        let factory = stateless_factory(
            |context: &mut _, record: Record<K, V>, outputs: &Outputs<K, V>| {
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
        let given = match branched.then {
            Then::Give => Some(branch),
            Then::Chain(chain) => Some(chain(branch)),
            Then::Consume(consume) => {
                consume(branch);
                None
            }
        };
        if let Some(given) = given {
            self.branches.insert(name.to_string(), given);
        }
        self
    }
}

/// Makes the node that gives each record to the first branch whose predicate is true of it. All branches are there when
/// it is made.
fn split_factory<K: Data, V: Data>(predicates: Arc<Mutex<Vec<Predicate<K, V>>>>) -> NodeFactory {
    Arc::new(move |instantiation| {
        let predicates = predicates.lock().clone();
        let process =
            move |context: &mut TaskContext, record: Record<K, V>, outputs: &Outputs<K, V>| {
                let branch = predicates
                    .iter()
                    .position(|predicate| predicate(&record.key, &record.value));
                // What belongs to no branch does not count as dropped.
                match branch {
                    Some(branch) => outputs.forward_to_index(context, branch, record),
                    None => Ok(()),
                }
            };
        let node = FnNode {
            process,
            outputs: instantiation.outputs::<K, V>()?,
        };
        Ok(instantiation.node::<K, V>(node))
    })
}
