//! Nodes that an application writes, with stores and punctuation.

use super::{Example, stream};
use riverrun_streams::Failure;
use riverrun_streams::dsl::StreamsBuilder;
use riverrun_streams::processor::{
    FixedKeyProcessor, FixedKeyProcessorContext, FixedKeyRecord, Processor, ProcessorContext,
    PunctuationType, Schedule, StoreHandle,
};
use riverrun_streams::record::Record;
use riverrun_streams::serde::DefaultSerde as _;
use riverrun_streams::state::{KeyValueStore, Stores};
use riverrun_streams::topology::Consumed;
use std::sync::Arc;

pub(crate) const EXAMPLES: &[&[Example]] = &[&[
    Example {
        operator: "process",
        build: |b| {
            add_store(b, "seen");
            stream(b, "in")
                .process(Distinct::default, &["seen"])
                .to("out");
        },
        ran: &["in a x 0 -> a=x@0", "in a x 1 ->", "in a y 2 -> a=y@2"],
    },
    Example {
        operator: "process_values",
        // The key stays, so nothing below it needs a repartition.
        build: |b| stream(b, "in").process_values(|| Double, &[]).to("out"),
        ran: &["in a x 0 -> a=xx@0"],
    },
    Example {
        operator: "process_named, process_values_named",
        build: |b| {
            add_store(b, "seen");
            stream(b, "in")
                .process_named("distinct", Distinct::default, &["seen"])
                .process_values_named("double", || Double, &[])
                .to("out");
        },
        ran: &["in a x 0 -> a=xx@0", "in a x 1 ->"],
    },
    Example {
        operator: "process (punctuation)",
        build: |b| {
            stream(b, "in")
                .process::<String, String, _>(Ticks::default, &[])
                .to("out")
        },
        ran: &[
            "in a x 0 ->",
            "in a y 1 ->",
            "tick 100 -> seen=2@100",
            "tick 100 -> seen=2@200",
        ],
    },
    Example {
        operator: "add_global_store",
        build: |b| {
            let supplier = Stores::in_memory_key_value_store("names");
            let store = Stores::key_value_store_builder(supplier, String::serde(), String::serde());
            let store = store.with_logging_disabled();
            b.add_global_store(Arc::new(store), "names", Consumed::default(), Fill::default);
            stream(b, "in")
                .process::<String, String, _>(Look::default, &[])
                .to("out");
        },
        ran: &["names a anna 0 ->", "in a x 1 -> a=anna@1"],
    },
]];

type Texts = KeyValueStore<String, String>;

fn add_store(builder: &StreamsBuilder, name: &str) {
    let supplier = Stores::persistent_key_value_store(name);
    let store = Stores::key_value_store_builder(supplier, String::serde(), String::serde());
    builder.add_state_store(Arc::new(store));
}

/// Forwards a record unless its key had this value before.
#[derive(Default)]
struct Distinct {
    seen: Option<StoreHandle<Texts>>,
}

impl Processor<String, String, String, String> for Distinct {
    fn init(&mut self, context: &mut ProcessorContext<'_, String, String>) -> Result<(), Failure> {
        self.seen = Some(context.store("seen")?);
        Ok(())
    }

    fn process(
        &mut self,
        context: &mut ProcessorContext<'_, String, String>,
        record: Record<String, String>,
    ) -> Result<(), Failure> {
        let seen = self.seen.as_ref().expect("`init` comes first");
        // The guard of `borrow` ends before `forward`: a child may use the same store.
        let before = seen.borrow().get(&record.key)?;
        if before.as_ref() == Some(&record.value) {
            return Ok(());
        }
        seen.borrow()
            .put(context.task(), &record.key, Some(&record.value))?;
        context.forward(record)
    }
}

/// Writes each value twice.
struct Double;

impl FixedKeyProcessor<String, String, String> for Double {
    fn process(
        &mut self,
        context: &mut FixedKeyProcessorContext<'_, '_, String, String>,
        record: FixedKeyRecord<String, String>,
    ) -> Result<(), Failure> {
        let twice = record.value().repeat(2);
        context.forward(record.with_value(twice))
    }
}

/// Says every 100 ms of the clock how many records came.
#[derive(Default)]
struct Ticks {
    seen: u64,
}

impl Processor<String, String, String, String> for Ticks {
    fn init(&mut self, context: &mut ProcessorContext<'_, String, String>) -> Result<(), Failure> {
        context.schedule(100, PunctuationType::WallClockTime);
        Ok(())
    }

    fn process(
        &mut self,
        _: &mut ProcessorContext<'_, String, String>,
        _: Record<String, String>,
    ) -> Result<(), Failure> {
        self.seen += 1;
        Ok(())
    }

    fn punctuate(
        &mut self,
        context: &mut ProcessorContext<'_, String, String>,
        _: Schedule,
        now_ms: i64,
    ) -> Result<(), Failure> {
        context.forward(Record::new(
            "seen".to_owned(),
            self.seen.to_string(),
            now_ms,
        ))
    }
}

/// Fills the global store.
#[derive(Default)]
struct Fill {
    names: Option<StoreHandle<Texts>>,
}

impl Processor<String, String, (), ()> for Fill {
    fn init(&mut self, context: &mut ProcessorContext<'_, (), ()>) -> Result<(), Failure> {
        self.names = Some(context.store("names")?);
        Ok(())
    }

    fn process(
        &mut self,
        context: &mut ProcessorContext<'_, (), ()>,
        record: Record<String, String>,
    ) -> Result<(), Failure> {
        let names = self.names.as_ref().expect("`init` comes first");
        names
            .borrow()
            .put(context.task(), &record.key, Some(&record.value))?;
        Ok(())
    }
}

/// Looks into the global store, which it need not be connected to.
#[derive(Default)]
struct Look {
    names: Option<StoreHandle<Texts>>,
}

impl Processor<String, String, String, String> for Look {
    fn init(&mut self, context: &mut ProcessorContext<'_, String, String>) -> Result<(), Failure> {
        self.names = Some(context.store("names")?);
        Ok(())
    }

    fn process(
        &mut self,
        context: &mut ProcessorContext<'_, String, String>,
        record: Record<String, String>,
    ) -> Result<(), Failure> {
        let names = self.names.as_ref().expect("`init` comes first");
        let name = names.borrow().get(&record.key)?.unwrap_or_default();
        context.forward(record.with_value(name))
    }
}
