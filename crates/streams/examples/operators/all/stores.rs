//! Stores of each kind in processors, and punctuation by stream time.

use super::{Example, stream};
use riverrun_streams::Failure;
use riverrun_streams::processor::{
    Processor, ProcessorContext, PunctuationType, Schedule, StoreHandle,
};
use riverrun_streams::record::Record;
use riverrun_streams::serde::{DefaultSerde as _, Window, Windowed};
use riverrun_streams::state::{SessionStore, Stores, VersionedKeyValueStore, WindowStore};
use std::sync::Arc;

pub(crate) const EXAMPLES: &[&[Example]] = &[&[
    Example {
        operator: "process (window store)",
        // The values of the two windows of 60 ms before a record and of its own.
        build: |b| {
            let supplier = Stores::persistent_window_store("last", 600, 60);
            let store = Stores::window_store_builder(supplier, String::serde(), String::serde());
            b.add_state_store(Arc::new(store));
            let kept = stream(b, "in").process::<String, String, _>(Recent::default, &["last"]);
            kept.to("out");
        },
        ran: &[
            "in a x 10 -> a=x@10",
            "in a y 70 -> a=xy@70",
            "in a z 190 -> a=yz@190",
        ],
    },
    Example {
        operator: "process (session store)",
        // A record within 10 ms of a session prolongs it.
        build: |b| {
            let supplier = Stores::in_memory_session_store("sessions", 600);
            let store = Stores::session_store_builder(supplier, String::serde(), i64::serde());
            b.add_state_store(Arc::new(store));
            let counted =
                stream(b, "in").process::<String, String, _>(Visits::default, &["sessions"]);
            counted.to("out");
        },
        ran: &[
            "in a x 0 -> a=1@0",
            "in a y 8 -> a=2@8",
            "in a z 30 -> a=1@30",
        ],
    },
    Example {
        operator: "process (versioned store)",
        // A record may come late: the store knows the value of its own time.
        build: |b| {
            let supplier = Stores::persistent_versioned_key_value_store("prices", 1000);
            let store = Stores::versioned_key_value_store_builder(
                supplier,
                String::serde(),
                String::serde(),
            );
            b.add_state_store(Arc::new(store));
            let before = stream(b, "in").process::<String, String, _>(Before::default, &["prices"]);
            before.to("out");
        },
        ran: &[
            "in a 7 100 -> a=none@100",
            "in a 9 200 -> a=7@200",
            "in a 8 150 -> a=7@150",
        ],
    },
    Example {
        operator: "process (punctuation by stream time)",
        // Records move stream time; the clock does not.
        build: |b| {
            stream(b, "in")
                .process::<String, String, _>(Regularly::default, &[])
                .to("out")
        },
        ran: &[
            "in a x 0 -> seen=1@0",
            "tick 500 ->",
            "in a y 50 ->",
            "in a z 110 -> seen=3@110",
        ],
    },
]];

type Context<'a> = ProcessorContext<'a, String, String>;

/// Forwards the values of the last windows of a key, one after the other.
#[derive(Default)]
struct Recent {
    last: Option<StoreHandle<WindowStore<String, String>>>,
}

impl Processor<String, String, String, String> for Recent {
    fn init(&mut self, context: &mut Context<'_>) -> Result<(), Failure> {
        self.last = Some(context.store("last")?);
        Ok(())
    }

    fn process(
        &mut self,
        context: &mut Context<'_>,
        record: Record<String, String>,
    ) -> Result<(), Failure> {
        let last = self.last.as_ref().expect("`init` comes first");
        let start_ms = record.timestamp_ms / 60 * 60;
        let (key, value) = (&record.key, Some(&record.value));
        last.borrow().put(context.task(), key, value, start_ms)?;
        let mut values = String::new();
        for found in last.borrow().fetch(key, start_ms - 120..=start_ms)? {
            let (_, value) = found?;
            values.push_str(&value);
        }
        context.forward(record.with_value(values))
    }
}

/// Counts the records of a session.
#[derive(Default)]
struct Visits {
    sessions: Option<StoreHandle<SessionStore<String, i64>>>,
}

impl Processor<String, String, String, String> for Visits {
    fn init(&mut self, context: &mut Context<'_>) -> Result<(), Failure> {
        self.sessions = Some(context.store("sessions")?);
        Ok(())
    }

    fn process(
        &mut self,
        context: &mut Context<'_>,
        record: Record<String, String>,
    ) -> Result<(), Failure> {
        let sessions = self.sessions.as_ref().expect("`init` comes first");
        let now_ms = record.timestamp_ms;
        let mut visit = (Window::of_session(now_ms, now_ms), 1);
        // All of them are read before the store is written.
        let near: Vec<_> = sessions
            .borrow()
            .find_sessions(&record.key, now_ms - 10, now_ms + 10)?
            .collect::<Result<_, _>>()?;
        for (session, count) in near {
            let start_ms = session.window.start_ms.min(visit.0.start_ms);
            let end_ms = session.window.end_ms.max(visit.0.end_ms);
            visit = (Window::of_session(start_ms, end_ms), visit.1 + count);
            sessions.borrow().remove(context.task(), &session)?;
        }
        let session = Windowed::new(record.key.clone(), visit.0);
        sessions
            .borrow()
            .put(context.task(), &session, Some(&visit.1))?;
        context.forward(record.with_value(visit.1.to_string()))
    }
}

/// Forwards the value that a key had when a record was made.
#[derive(Default)]
struct Before {
    prices: Option<StoreHandle<VersionedKeyValueStore<String, String>>>,
}

impl Processor<String, String, String, String> for Before {
    fn init(&mut self, context: &mut Context<'_>) -> Result<(), Failure> {
        self.prices = Some(context.store("prices")?);
        Ok(())
    }

    fn process(
        &mut self,
        context: &mut Context<'_>,
        record: Record<String, String>,
    ) -> Result<(), Failure> {
        let prices = self.prices.as_ref().expect("`init` comes first");
        let at_ms = record.timestamp_ms;
        let before = prices.borrow().get_at(&record.key, at_ms)?;
        let price = Some(&record.value);
        prices
            .borrow()
            .put(context.task(), &record.key, price, at_ms)?;
        let before = before.map_or_else(|| "none".to_owned(), |version| version.value);
        context.forward(record.with_value(before))
    }
}

/// Says every 100 ms of stream time how many records came.
#[derive(Default)]
struct Regularly {
    seen: u64,
}

impl Processor<String, String, String, String> for Regularly {
    fn init(&mut self, context: &mut Context<'_>) -> Result<(), Failure> {
        context.schedule(100, PunctuationType::StreamTime);
        Ok(())
    }

    fn process(&mut self, _: &mut Context<'_>, _: Record<String, String>) -> Result<(), Failure> {
        self.seen += 1;
        Ok(())
    }

    fn punctuate(
        &mut self,
        context: &mut Context<'_>,
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
