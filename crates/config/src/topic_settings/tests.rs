//! Settings of topics from the layers that give them.

use super::{CleanupPolicy, TimestampType, TopicCompression, TopicDefaults, TopicSettings};
use crate::layers::{BrokerLayers, ConfigMap, NO_VALUES};

fn map(pairs: &[(&str, &str)]) -> ConfigMap {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

fn settings(broker: &[(&str, &str)], topic: &[(&str, &str)]) -> TopicSettings {
    let static_values = map(broker);
    let defaults = TopicDefaults::of_broker(&BrokerLayers::of_static(&static_values))
        .expect("the broker's values are valid");
    defaults
        .settings(&map(topic))
        .expect("the topic's values are valid")
}

#[test]
fn a_topic_without_values_has_kafkas_defaults() {
    let defaults = settings(&[], &[]);
    assert_eq!(defaults, TopicSettings::kafka_defaults());
    assert_eq!(
        defaults.cleanup_policy,
        CleanupPolicy {
            delete: true,
            compact: false
        }
    );
    assert_eq!(defaults.retention_ms, 604_800_000);
    assert_eq!(defaults.segment_bytes, 1 << 30);
    assert_eq!(defaults.compression, TopicCompression::Producer);
    assert_eq!(defaults.flush_ms, i64::MAX);
}

#[test]
fn milliseconds_win_over_minutes_and_minutes_over_hours() {
    let all = [
        ("log.retention.ms", "3"),
        ("log.retention.minutes", "5"),
        ("log.retention.hours", "9"),
    ];
    assert_eq!(settings(&all, &[]).retention_ms, 3);
    assert_eq!(settings(&all[1..], &[]).retention_ms, 300_000);
    assert_eq!(settings(&all[2..], &[]).retention_ms, 32_400_000);
    assert_eq!(
        settings(&[("log.retention.hours", "-1")], &[]).retention_ms,
        -1
    );
    assert_eq!(settings(&all, &[("retention.ms", "7")]).retention_ms, 7);
    assert_eq!(
        settings(&[("log.roll.hours", "2")], &[]).segment_ms,
        7_200_000
    );
    assert_eq!(
        settings(&[("log.roll.jitter.hours", "1")], &[]).segment_jitter_ms,
        3_600_000
    );
    assert_eq!(
        settings(&[("log.flush.scheduler.interval.ms", "3")], &[]).flush_ms,
        3
    );
}

#[test]
fn the_last_dynamic_layer_wins() {
    let static_values = map(&[("log.retention.ms", "1")]);
    let cluster_wide = map(&[("log.retention.ms", "2"), ("message.max.bytes", "200")]);
    let per_broker = map(&[("log.retention.ms", "3")]);
    let layers = BrokerLayers {
        static_values: &static_values,
        cluster_wide: &cluster_wide,
        per_broker: &per_broker,
    };
    let topic = TopicDefaults::of_broker(&layers)
        .and_then(|defaults| defaults.settings(&NO_VALUES))
        .expect("the values are valid");
    assert_eq!((topic.retention_ms, topic.max_message_bytes), (3, 200));
}

#[test]
fn overrides_are_typed() {
    let topic = settings(
        &[
            ("compression.type", "gzip"),
            ("compression.zstd.level", "7"),
        ],
        &[
            ("cleanup.policy", "compact, delete"),
            ("compression.type", "zstd"),
            ("message.timestamp.type", "LogAppendTime"),
            ("segment.bytes", "2097152"),
            ("internal.segment.bytes", "100"),
            ("min.cleanable.dirty.ratio", "0.25"),
            ("some.key.of.another.version", "x"),
        ],
    );
    assert_eq!(
        topic.cleanup_policy,
        CleanupPolicy {
            delete: true,
            compact: true
        }
    );
    assert_eq!(topic.compression, TopicCompression::Zstd(7));
    assert_eq!(topic.message_timestamp_type, TimestampType::LogAppendTime);
    assert_eq!(topic.segment_bytes, 100);
    assert_eq!(topic.min_cleanable_dirty_ratio, 0.25);
    assert_eq!(
        settings(&[], &[("cleanup.policy", "")]).cleanup_policy,
        CleanupPolicy {
            delete: false,
            compact: false
        }
    );
}

#[test]
fn a_bad_override_is_reported() {
    let defaults =
        TopicDefaults::of_broker(&BrokerLayers::of_static(&NO_VALUES)).expect("defaults are valid");
    let error = defaults
        .settings(&map(&[("retention.ms", "x")]))
        .expect_err("x is no number");
    assert_eq!(
        error.to_string(),
        "Invalid value x for configuration retention.ms: Not a number of type LONG"
    );
}
