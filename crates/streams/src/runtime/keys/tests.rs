//! Each key does what the table says of it, and `docs/streams-reference.md` has the table.

use super::*;
use crate::runtime::StreamsConfig;
use std::collections::BTreeMap;

type Error = Box<dyn std::error::Error>;

const REFERENCE: &str = include_str!("../../../../../docs/streams-reference.md");

fn read(key: &str, value: &str) -> Result<StreamsConfig, ConfigError> {
    let required = [("application.id", "app"), ("bootstrap.servers", "one:9092")];
    StreamsConfig::from_pairs(required.into_iter().chain([(key, value)]))
}

/// Other values than the usual ones, of the keys that are read, but for those with tests of their own.
const OTHERS: [(&str, &str); 45] = [
    ("acceptable.recovery.lag", "5"),
    ("application.id", "other"),
    ("application.server", "one:7070"),
    ("bootstrap.servers", "two:9092"),
    ("buffered.records.per.partition", "5"),
    ("cache.max.bytes.buffering", "5"),
    ("client.id", "anna"),
    ("client.tag.zone", "a"),
    ("commit.interval.ms", "5"),
    ("connections.max.idle.ms", "5"),
    ("default.dsl.store", "in_memory"),
    (
        "default.timestamp.extractor",
        "org.apache.kafka.streams.processor.WallclockTimestampExtractor",
    ),
    ("dsl.store.format", "headers"),
    (
        "dsl.store.suppliers.class",
        "org.apache.kafka.streams.state.BuiltInDslStoreSuppliers$InMemoryDslStoreSuppliers",
    ),
    ("ensure.explicit.internal.resource.naming", "true"),
    ("group.protocol", "Streams"),
    ("max.task.idle.ms", "5"),
    ("max.warmup.replicas", "5"),
    ("metadata.max.age.ms", "5"),
    ("metadata.recovery.rebootstrap.trigger.ms", "5"),
    ("metadata.recovery.strategy", "none"),
    ("metrics.recording.level", "DEBUG"),
    ("num.standby.replicas", "5"),
    ("num.stream.threads", "5"),
    ("poll.ms", "5"),
    ("probing.rebalance.interval.ms", "60000"),
    ("processing.exception.handler.global.enabled", "true"),
    ("processing.guarantee", "exactly_once_v2"),
    ("receive.buffer.bytes", "5"),
    ("reconnect.backoff.max.ms", "5"),
    ("reconnect.backoff.ms", "5"),
    ("repartition.purge.interval.ms", "5"),
    ("replication.factor", "5"),
    ("request.timeout.ms", "5"),
    ("retry.backoff.ms", "5"),
    ("security.protocol", "SSL"),
    ("send.buffer.bytes", "5"),
    ("state.cleanup.delay.ms", "5"),
    ("state.cleanup.dir.max.age.ms", "5"),
    ("state.dir", "/var/lib/app"),
    ("statestore.cache.max.bytes", "5"),
    ("task.timeout.ms", "5"),
    ("topology.optimization", "all"),
    ("upgrade.from", "3.4"),
    ("windowstore.changelog.additional.retention.ms", "5"),
];

/// Which choose a handler, or need another key: see the tests of `settings.rs`.
fn has_own_test(key: &str) -> bool {
    key.ends_with(".exception.handler")
        || [
            "errors.dead.letter.queue.topic.name",
            "rack.aware.assignment.tags",
        ]
        .contains(&key)
}

#[test]
fn keys_are_read_or_told_or_refused() -> Result<(), Error> {
    let untouched = format!("{:?}", StreamsConfig::new("app", "one:9092")?);
    let others: BTreeMap<&str, &str> = OTHERS.into_iter().collect();
    let shown = |key: &str, value: &str| read(key, value).map(|config| format!("{config:?}"));
    for Key {
        name,
        usual,
        treatment,
    } in KEYS
    {
        match treatment {
            Read | Topology | Client => {
                if has_own_test(name) {
                    continue;
                }
                let name = if name == "client.tag." {
                    "client.tag.zone"
                } else {
                    name
                };
                let other = others.get(name).ok_or(name)?;
                assert_ne!(shown(name, other).as_ref(), Ok(&untouched), "{name}");
                // What is done without the key is what Kafka Streams does. The commit interval depends on the
                // guarantee, and clients have defaults of their own.
                let is_comparable = treatment != Client && name != "commit.interval.ms";
                if is_comparable && !usual.is_empty() {
                    assert_eq!(shown(name, usual).as_ref(), Ok(&untouched), "{name}");
                }
            }
            WithoutEffect(why) => {
                assert_eq!(judge(name, usual), Ok(Verdict::Same), "{name}");
                assert_eq!(judge(name, "x"), Ok(Verdict::WithoutEffect(why)), "{name}");
                assert_eq!(shown(name, "x").as_ref(), Ok(&untouched), "{name}");
            }
            Refused(why) => {
                assert_eq!(shown(name, usual).as_ref(), Ok(&untouched), "{name}");
                let refused = shown(name, "x").err().ok_or(name)?.to_string();
                assert!(refused.ends_with(why), "{refused}");
            }
        }
    }
    Ok(())
}

/// The table of the guide: keys of one treatment in one row.
fn table() -> String {
    let mut rows: Vec<(Treatment, Vec<&str>)> = Vec::new();
    for key in &KEYS {
        match rows
            .iter_mut()
            .find(|(treatment, _)| *treatment == key.treatment)
        {
            Some((_, names)) => names.push(key.name),
            None => rows.push((key.treatment, vec![key.name])),
        }
    }
    rows.sort_by_key(|(treatment, _)| match treatment {
        Read => 0,
        Client => 1,
        Topology => 2,
        WithoutEffect(_) => 3,
        Refused(_) => 4,
    });
    let mut table = "| keys | what the library does |\n|--|--|\n".to_owned();
    for (treatment, names) in rows {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        let what = match treatment {
            Read => "reads them".to_owned(),
            Client => "hands them to its clients".to_owned(),
            Topology => "reads them into `topology`".to_owned(),
            WithoutEffect(why) => format!("warns that they have no effect: {why}"),
            Refused(why) => format!("refuses what differs from the default: {why}"),
        };
        table.push_str(&format!("| {} | {what} |\n", names.join(", ")));
    }
    table
}

#[test]
fn the_reference_has_the_table() {
    let table = table();
    assert!(
        REFERENCE.contains(&table),
        "docs/streams-reference.md is to have\n{table}"
    );
}
