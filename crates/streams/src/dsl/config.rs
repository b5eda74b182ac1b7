//! What an application configures about its topology.

use super::DslStores;
use crate::state::{DslStoreFormat, StoreType};
use crate::topology::{Topology, TopologyError};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// What an application configures about its topology.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TopologyConfig {
    /// `topology.optimization`.
    pub optimization: Optimization,
    /// The stores that operators make.
    pub stores: DslStores,
    /// `ensure.explicit.internal.resource.naming`: no state store, repartition topic or changelog may have a name with
    /// a number, which changes with the application (KIP-1111).
    pub ensure_explicit_internal_resource_naming: bool,
}

impl TopologyConfig {
    /// What is configured, by Kafka Streams' names.
    pub(crate) fn pairs(&self) -> BTreeMap<&'static str, String> {
        let format = match self.stores.format {
            DslStoreFormat::Headers => "HEADERS",
            DslStoreFormat::Plain => "PLAIN",
            DslStoreFormat::Timestamped => "DEFAULT",
        };
        let store_type = match self.stores.store_type {
            StoreType::Persistent => "rocksDB",
            StoreType::InMemory => "in_memory",
        };
        let naming = self.ensure_explicit_internal_resource_naming;
        BTreeMap::from([
            ("topology.optimization", self.optimization.to_string()),
            ("dsl.store.format", format.to_owned()),
            ("default.dsl.store", store_type.to_owned()),
            (
                "ensure.explicit.internal.resource.naming",
                naming.to_string(),
            ),
        ])
    }
}

/// `topology.optimization`: `none`, `all`, or names of optimizations with commas between them.
///
/// ```
/// use riverrun_streams::dsl::Optimization;
///
/// let optimization: Optimization = "merge.repartition.topics".parse()?;
/// assert!(optimization.merge_repartition_topics);
/// assert_eq!("all".parse(), Ok(Optimization::ALL));
/// # Ok::<(), riverrun_streams::dsl::UnknownOptimization>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Optimization {
    /// `reuse.ktable.source.topics`: the topic that a table is read from is the changelog of its store.
    pub reuse_ktable_source_topics: bool,
    /// `merge.repartition.topics`: repartitions of one key are one.
    pub merge_repartition_topics: bool,
    /// `single.store.self.join`: a stream that is joined with itself is kept once.
    pub single_store_self_join: bool,
}

impl Optimization {
    /// Every optimization.
    pub const ALL: Self = Self {
        reuse_ktable_source_topics: true,
        merge_repartition_topics: true,
        single_store_self_join: true,
    };
}

/// As `topology.optimization` has it.
impl fmt::Display for Optimization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::ALL {
            return f.write_str("all");
        }
        let names = [
            (
                self.reuse_ktable_source_topics,
                "reuse.ktable.source.topics",
            ),
            (self.merge_repartition_topics, "merge.repartition.topics"),
            (self.single_store_self_join, "single.store.self.join"),
        ];
        let names = names.iter().filter(|(is_set, _)| *is_set);
        let names: Vec<&str> = names.map(|(_, name)| *name).collect();
        match names.is_empty() {
            true => f.write_str("none"),
            false => f.write_str(&names.join(",")),
        }
    }
}

/// A text that is no `topology.optimization`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownOptimization(String);

impl fmt::Display for UnknownOptimization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is no optimization; use `none`, `all`, or some of `reuse.ktable.source.topics`, \
             `merge.repartition.topics` and `single.store.self.join` with commas between them",
            self.0
        )
    }
}

impl std::error::Error for UnknownOptimization {}

impl FromStr for Optimization {
    type Err = UnknownOptimization;

    fn from_str(text: &str) -> Result<Self, UnknownOptimization> {
        match text {
            "none" => return Ok(Self::default()),
            "all" => return Ok(Self::ALL),
            _ => {}
        }
        let mut optimization = Self::default();
        for name in text.split(',').map(str::trim) {
            *(match name {
                "reuse.ktable.source.topics" => &mut optimization.reuse_ktable_source_topics,
                "merge.repartition.topics" => &mut optimization.merge_repartition_topics,
                "single.store.self.join" => &mut optimization.single_store_self_join,
                _ => return Err(UnknownOptimization(name.to_owned())),
            }) = true;
        }
        Ok(optimization)
    }
}

/// What follows the generated name of a node or store in the name of a store or topic.
const SUFFIXES: [&str; 4] = ["-repartition", "-store", "-topic", "-Buffer"];

/// No state store and no topic of `topology` has one of the `generated` names.
pub(crate) fn check_explicit_names(
    topology: &Topology,
    generated: &BTreeSet<Arc<str>>,
) -> Result<(), TopologyError> {
    let is_generated = |name: &&Arc<str>| {
        let mut bases = SUFFIXES
            .iter()
            .filter_map(|suffix| name.strip_suffix(suffix));
        generated.contains(*name) || bases.any(|base| generated.contains(base))
    };
    let names = topology
        .stores
        .keys()
        .chain(topology.internal_topics.keys());
    let names: Vec<String> = names
        .filter(is_generated)
        .map(|name| format!("`{name}`"))
        .collect();
    match names.is_empty() {
        true => Ok(()),
        false => Err(TopologyError::GeneratedNames {
            names: names.join(", "),
        }),
    }
}
