//! Processors and transformers with stores and punctuation, and stores as the application wants them.

use super::{Table, Text, check, shown, stream, table, write};
use bytes::Bytes;
use riverrun_streams::Failure;
use riverrun_streams::dsl::{Materialized, Named};
use riverrun_streams::dsl::{TransformContext, ValueTransformer};
use riverrun_streams::headers::Headers;
use riverrun_streams::processor::{
    FixedKeyProcessor, FixedKeyProcessorContext, FixedKeyRecord, Processor, ProcessorContext,
    PunctuationType, Schedule, StoreHandle,
};
use riverrun_streams::record::Record;
use riverrun_streams::serde::DefaultSerde as _;
use riverrun_streams::state::{KeyValueStore, Stores, WindowStore};
use std::collections::BTreeMap;
use std::sync::Arc;

type Seen = KeyValueStore<Text, Text>;

/// Says of records whether they came before, and what time it is.
#[derive(Default)]
struct Dedup {
    seen: Option<StoreHandle<Seen>>,
    by_clock: Option<Schedule>,
    calls: u32,
}

impl Processor<Text, Text, Text, Text> for Dedup {
    fn init(&mut self, context: &mut ProcessorContext<'_, Text, Text>) -> Result<(), Failure> {
        self.seen = Some(context.store("seen")?);
        context.schedule(50, PunctuationType::StreamTime);
        self.by_clock = Some(context.schedule(60, PunctuationType::WallClockTime));
        Ok(())
    }

    fn process(
        &mut self,
        context: &mut ProcessorContext<'_, Text, Text>,
        record: Record<Text, Text>,
    ) -> Result<(), Failure> {
        if record.key.is_none() {
            let later = record.timestamp_ms + 1;
            return context.forward(
                record
                    .with_key(Some("none".to_owned()))
                    .with_timestamp(later),
            );
        }
        let key = super::joined(&record.key, &record.value);
        let store = self.seen.as_ref().expect("init was called");
        let old = store
            .borrow()
            .put_if_absent(context.task(), &key, Some(&record.value))?;
        if old.is_none() {
            return context.forward(record);
        }
        let again = Some(format!("{} again", shown(Some(&record.value))));
        let mut headers = Headers::new();
        headers.add("d", Bytes::from_static(b"up"));
        context.forward(record.with_value(again).with_headers(headers))
    }

    fn punctuate(
        &mut self,
        context: &mut ProcessorContext<'_, Text, Text>,
        schedule: Schedule,
        now_ms: i64,
    ) -> Result<(), Failure> {
        if Some(schedule) != self.by_clock {
            let now = Some(now_ms.to_string());
            return context.forward(Record::new(Some("stream".to_owned()), now, now_ms));
        }
        let now = format!("{now_ms}/{}", context.current_stream_time_ms());
        context.forward(Record::new(Some("wall".to_owned()), Some(now), 7))?;
        self.calls += 1;
        if self.calls == 2 {
            context.cancel(schedule);
        }
        Ok(())
    }
}

/// Writes behind values how many rows a store has.
#[derive(Default)]
struct Stamp {
    seen: Option<StoreHandle<Seen>>,
}

impl FixedKeyProcessor<Text, Text, Text> for Stamp {
    fn init(
        &mut self,
        context: &mut FixedKeyProcessorContext<'_, '_, Text, Text>,
    ) -> Result<(), Failure> {
        self.seen = Some(context.store("seen")?);
        Ok(())
    }

    fn process(
        &mut self,
        context: &mut FixedKeyProcessorContext<'_, '_, Text, Text>,
        record: FixedKeyRecord<Text, Text>,
    ) -> Result<(), Failure> {
        let rows = self
            .seen
            .as_ref()
            .expect("init was called")
            .borrow()
            .all()?
            .count();
        let stamped = format!("{} #{rows}", shown(Some(record.value())));
        context.forward(record.clone().with_value(Some(stamped)))?;
        match record.value().as_deref() {
            Some("3") => context.forward(record.with_timestamp(1)),
            _ => Ok(()),
        }
    }
}

/// Puts behind keys how many windows they have.
#[derive(Default)]
struct Windower {
    windows: Option<StoreHandle<WindowStore<Text, Text>>>,
}

impl Processor<Text, Text, Text, Text> for Windower {
    fn init(&mut self, context: &mut ProcessorContext<'_, Text, Text>) -> Result<(), Failure> {
        self.windows = Some(context.store("ws")?);
        Ok(())
    }

    fn process(
        &mut self,
        context: &mut ProcessorContext<'_, Text, Text>,
        record: Record<Text, Text>,
    ) -> Result<(), Failure> {
        let handle = self.windows.clone().expect("init was called");
        let start_ms = record.timestamp_ms / 10 * 10;
        let value = record.value.is_some().then_some(&record.value);
        handle
            .borrow()
            .put(context.task(), &record.key, value, start_ms)?;
        let windows = handle.borrow().fetch(&record.key, 0..=1000)?.count();
        let key = Some(format!("{}{windows}", shown(Some(&record.key))));
        context.forward(record.with_key(key))
    }
}

#[test]
fn of_processors() {
    check("process-dedup", |b| {
        let supplier = Stores::persistent_key_value_store("seen");
        b.add_state_store(Arc::new(Stores::key_value_store_builder(
            supplier,
            Text::serde(),
            Text::serde(),
        )));
        stream(b, "a")
            .process_named::<Text, Text, _>("dedup", Dedup::default, &["seen"])
            .process_values(Stamp::default, &["seen"])
            .to("out");
    });
    check("process-window-store", |b| {
        let supplier = Stores::persistent_window_store("ws", 100, 10);
        b.add_state_store(Arc::new(Stores::window_store_builder(
            supplier,
            Text::serde(),
            Text::serde(),
        )));
        let counted = stream(b, "a")
            .process::<Text, Text, _>(Windower::default, &["ws"])
            .group_by_key()
            .count();
        write(&counted);
    });
}

/// Appends each value of a key to the ones before it.
#[derive(Default)]
struct Counted {
    before: Option<StoreHandle<KeyValueStore<String, String>>>,
}

impl ValueTransformer<String, String, String> for Counted {
    fn init(&mut self, context: &mut TransformContext<'_>) -> Result<(), Failure> {
        self.before = Some(context.store("n")?);
        Ok(())
    }

    fn transform(
        &mut self,
        context: &mut TransformContext<'_>,
        key: &String,
        value: Option<&String>,
    ) -> Result<Option<String>, Failure> {
        let Some(value) = value else {
            return Ok(None);
        };
        let store = self.before.clone().expect("init was called");
        let before = store.borrow().get(key)?.unwrap_or_default();
        let now = before + value;
        store.borrow().put(context.task(), key, Some(&now))?;
        Ok(Some(now))
    }
}

#[test]
fn of_transformers() {
    check("transform-with-store", |b| {
        let supplier = Stores::in_memory_key_value_store("n");
        b.add_state_store(Arc::new(Stores::key_value_store_builder(
            supplier,
            String::serde(),
            String::serde(),
        )));
        let settings = (
            Named::new("tn"),
            Materialized::named("tv").with_value_serde(String::serde()),
        );
        let transformed: Table =
            table(b, "a").transform_values_with(Counted::default, &["n"], settings);
        let outer = transformed.outer_join(&table(b, "b"), super::both);
        write(&outer.filter(|_, value| !value.contains("skip")));
    });
}

#[test]
fn as_the_application_wants_them() {
    check("cached-off", |b| {
        let configs = [("retention.ms", "77"), ("cleanup.policy", "compact,delete")];
        let configs: BTreeMap<String, String> = configs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let kept = Materialized::named("co")
            .with_caching_disabled()
            .with_logging_enabled(configs);
        let reduced = stream(b, "a").group_by_key().reduce_with(
            |p, q| match q.as_deref() {
                Some("2") => None,
                _ => super::joined(p, q),
            },
            kept,
        );
        super::write_nullable(&reduced);
    });
}
