//! Topologies that are put together node by node.

use crate::Topologies;
use riverrun_streams::processor::{
    FixedKeyProcessor, FixedKeyProcessorContext, FixedKeyRecord, Processor, ProcessorContext,
};
use riverrun_streams::record::{Record, RecordContext};
use riverrun_streams::state::{BuiltStore, ChangelogConfig, StoreBuilder, StoreBuilding};
use riverrun_streams::topology::{
    Consumed, NodeHandle, Produced, SourceTopics, StoreSource, Topology, TopologyError,
};
use riverrun_streams::{Failure, StreamsError};
use std::sync::Arc;

/// A processor that does nothing.
pub(crate) struct Nothing;

impl Processor<String, String, String, String> for Nothing {
    fn process(
        &mut self,
        _: &mut ProcessorContext<'_, String, String>,
        _: Record<String, String>,
    ) -> Result<(), Failure> {
        Ok(())
    }
}

/// A processor that fills nothing.
pub(crate) struct Fill;

impl Processor<String, String, (), ()> for Fill {
    fn process(
        &mut self,
        _: &mut ProcessorContext<'_, (), ()>,
        _: Record<String, String>,
    ) -> Result<(), Failure> {
        Ok(())
    }
}

impl FixedKeyProcessor<String, String, String> for Nothing {
    fn process(
        &mut self,
        _: &mut FixedKeyProcessorContext<'_, '_, String, String>,
        _: FixedKeyRecord<String, String>,
    ) -> Result<(), Failure> {
        Ok(())
    }
}

/// A store that is only named.
struct Named(Arc<str>);

impl StoreBuilder for Named {
    fn name(&self) -> &Arc<str> {
        &self.0
    }

    fn changelog(&self) -> Option<ChangelogConfig> {
        None
    }

    fn build(&self, _: &StoreBuilding) -> Result<BuiltStore, StreamsError> {
        Err(StreamsError::Other("the store is only named".to_owned()))
    }
}

/// A state store of this name.
pub(crate) fn store(name: &str) -> Arc<dyn StoreBuilder> {
    Arc::new(Named(Arc::from(name)))
}

type Handle = NodeHandle<String, String>;

fn source(topology: &mut Topology, name: &str, topics: &[&str]) -> Result<Handle, TopologyError> {
    let topics = topics.iter().map(|topic| Arc::from(*topic)).collect();
    topology.add_source(name, SourceTopics::Named(topics), Consumed::default())
}

fn processor(
    topology: &mut Topology,
    name: &str,
    parents: &[&Handle],
) -> Result<Handle, TopologyError> {
    topology.add_processor(name, || Nothing, parents)
}

fn sink(
    topology: &mut Topology,
    name: &str,
    topic: &str,
    parent: &Handle,
) -> Result<(), TopologyError> {
    topology.add_sink(name, topic, Produced::default(), &[parent])
}

pub(crate) fn add(all: &Topologies) {
    add_numbers(all);
    add_orders(all);
    add_others(all);
    for seed in 1..=24 {
        all.nodes(&format!("nodes-random-{seed}"), |topology| {
            random(topology, seed)
        });
    }
}

fn add_numbers(all: &Topologies) {
    all.nodes("nodes-sources-b-before-a", |topology| {
        let b = source(topology, "b", &["from-b"])?;
        let a = source(topology, "a", &["from-a"])?;
        sink(topology, "to-b", "out-b", &b)?;
        sink(topology, "to-a", "out-a", &a)
    });
    all.nodes("nodes-pattern-before-topic", |topology| {
        let pattern = SourceTopics::Pattern(Arc::from("from-.*"));
        let b = topology.add_source("b", pattern, Consumed::default())?;
        let a = source(topology, "a", &["other"])?;
        sink(topology, "to-a", "out-a", &a)?;
        sink(topology, "to-b", "out-b", &b)
    });
    all.nodes("nodes-parents-before-others", |topology| {
        let z = source(topology, "z", &["from-z"])?;
        processor(topology, "a", &[&z])?;
        let m = source(topology, "m", &["from-m"])?;
        processor(topology, "n", &[&m, &z])?;
        let c = source(topology, "c", &["from-c"])?;
        sink(topology, "b", "out", &c)
    });
    all.nodes("nodes-joined-by-store", |topology| {
        let y = source(topology, "y", &["from-y"])?;
        let x = source(topology, "x", &["from-x"])?;
        let w = source(topology, "w", &["from-w"])?;
        processor(topology, "of-y", &[&y])?;
        processor(topology, "of-x", &[&x])?;
        processor(topology, "of-w", &[&w])?;
        topology.add_state_store(store("shared"), &["of-y", "of-w"])?;
        topology.add_state_store(store("alone"), &["of-x"])
    });
}

fn add_orders(all: &Topologies) {
    all.nodes("nodes-many-topics-and-stores", |topology| {
        let topics = [
            "delta", "alpha", "charlie", "bravo", "echo", "Zürich", "a.b_c-d",
        ];
        let source = source(topology, "source", &topics)?;
        processor(topology, "processor", &[&source])?;
        let names = "one two three four five six seven eight nine ten eleven";
        for name in names.split(' ') {
            topology.add_state_store(store(name), &["processor"])?;
        }
        Ok(())
    });
    all.nodes("nodes-more-stores-than-buckets", |topology| {
        let source = source(topology, "source", &["in"])?;
        processor(topology, "processor", &[&source])?;
        for number in 0..30 {
            let name = format!("store-{}", number * number);
            topology.add_state_store(store(&name), &["processor"])?;
        }
        Ok(())
    });
    all.nodes("nodes-of-one-bucket", |topology| {
        let last = source(topology, "BBBB", &["BB", "Aa"])?;
        let first = source(topology, "AaBB", &["AaAa", "AaBB", "BBAa"])?;
        processor(topology, "BBAa", &[&last, &first])?;
        processor(topology, "AaAa", &[&first, &last])?;
        for name in ["BB", "Aa"] {
            topology.add_state_store(store(name), &["AaAa", "BBAa"])?;
        }
        Ok(())
    });
    all.nodes("nodes-same-parent-twice", |topology| {
        let source = source(topology, "source", &["in"])?;
        let below = processor(topology, "below", &[&source, &source])?;
        sink(topology, "sink", "out", &below)
    });
}

fn add_others(all: &Topologies) {
    all.nodes("nodes-extracted", |topology| {
        let source = source(topology, "source", &["in"])?;
        let extractor = Arc::new(|key: &String, _: &String, _: &RecordContext| key.clone());
        topology.add_extracted_sink("sink", "to-key", extractor, Produced::default(), &[&source])
    });
    all.nodes("nodes-global-store", |topology| {
        let b = source(topology, "b", &["from-b"])?;
        processor(topology, "of-b", &[&b])?;
        let from = StoreSource {
            source: "a-global",
            topic: "from-everywhere",
            processor: "fill",
        };
        let consumed = Consumed::default();
        topology.add_global_store(store("everywhere"), from, consumed, || Fill)
    });
    all.nodes("nodes-read-only-store", |topology| {
        let from = StoreSource {
            source: "source",
            topic: "in",
            processor: "fill",
        };
        let consumed = Consumed::default();
        topology.add_read_only_state_store(store("read-only"), from, consumed, || Fill)?;
        let other = source(topology, "other", &["from-other"])?;
        processor(topology, "reads", &[&other])?;
        topology.connect("reads", "read-only")
    });
}

/// A generator that is easy to write in every language.
struct Numbers(u32);

impl Numbers {
    const fn below(&mut self, end: u32) -> u32 {
        self.0 = self.0.wrapping_mul(1_103_515_245).wrapping_add(12345);
        (self.0 >> 16) % end
    }
}

/// The order of children depends on the sizes of their trees at the time when each is connected.
fn random(topology: &mut Topology, seed: u32) -> Result<(), TopologyError> {
    let mut numbers = Numbers(seed);
    let sources = 1 + numbers.below(4);
    let nodes = sources + 5 + numbers.below(40);
    let mut handles: Vec<Handle> = Vec::new();
    for node in 0..nodes {
        let name = format!("node-{}", (node * 7919 + seed) % 1000);
        if node < sources {
            handles.push(source(topology, &name, &[&format!("topic-{node}")])?);
            continue;
        }
        let first = numbers.below(node);
        let second = numbers.below(node);
        let one = &handles[first as usize];
        let two = &handles[second as usize];
        let handle = match first == second || numbers.below(3) > 0 {
            true => processor(topology, &name, &[one])?,
            false => processor(topology, &name, &[one, two])?,
        };
        handles.push(handle);
    }
    Ok(())
}
