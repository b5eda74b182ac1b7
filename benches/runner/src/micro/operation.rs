//! The table of operations: what is measured, by which class of Kafka's side, and the goal.
//!
//! A further operation is an entry here, a file in `benches/micro/src/operations` and a class in
//! `benches/java`.

/// Something both sides can do.
#[derive(Debug)]
pub(super) struct Operation {
    /// Its name on both sides and in reports.
    pub(super) name: &'static str,
    /// What it is, for people.
    pub(super) about: &'static str,
    /// The class of package `riverrun.bench` whose method `run` JMH measures.
    pub(super) class: &'static str,
    /// The value of that class's parameter `partitions`, where it has one.
    pub(super) partitions: Option<u32>,
    /// The value of that class's parameter `kind`, where it has one.
    pub(super) kind: Option<&'static str>,
    /// The most nanoseconds that riverrun should take; 0 for no goal, neither for what it allocates.
    pub(super) goal_ns: f64,
    /// How many times longer Kafka should take; 0 for no goal.
    pub(super) goal_ratio: f64,
}

/// Messages are to be this many times faster than on the virtual machine.
const MESSAGE_RATIO: f64 = 10.0;

/// Raw extraction copies nothing, and is to be this many times faster than on the virtual machine.
const RAW_RATIO: f64 = 5.0;

/// What a follower's fetch may take about which the leader has nothing to say, whatever it follows.
const QUIET_FETCH_NS: f64 = 100.0;
/// What each partition may take that has changed: 90 us for 5,000.
const CHANGED_PARTITION_NS: f64 = (90_000.0 - QUIET_FETCH_NS) / 5000.0;

/// Every operation, in the order of the report.
///
/// A goal is 1.5 times what a sketch of the function alone, written before the real one, has taken
/// on a machine of two cores.
pub(super) const OPERATIONS: &[Operation] = &[
    Operation {
        name: "error-lookup",
        about: "four error codes looked up",
        class: "ErrorLookup",
        partitions: None,
        kind: None,
        goal_ns: 1.5 * 2.2,
        goal_ratio: 0.0,
    },
    Operation {
        name: "varint-size",
        about: "size of a varint, one at a time",
        class: "VarintSize",
        partitions: None,
        kind: None,
        goal_ns: 1.5 * 0.55,
        goal_ratio: 0.0,
    },
    Operation {
        name: "varint-size-bulk",
        about: "size of a varint, in bulk",
        class: "VarintSizeBulk",
        partitions: None,
        kind: None,
        goal_ns: 1.5 * 0.06,
        goal_ratio: 0.0,
    },
    produce_response("produce-response/1", 1, 6.0),
    produce_response("produce-response/16", 16, 46.0),
    produce_response("produce-response/128", 128, 349.0),
    produce_request("produce-request/1", 1, 6.0),
    produce_request("produce-request/16", 16, 48.0),
    produce_request("produce-request/128", 128, 370.0),
    fetch_response("fetch-response/1", 1, 3.4),
    fetch_response("fetch-response/16", 16, 27.0),
    fetch_response("fetch-response/128", 128, 203.0),
    raw("raw-aggregation/0", "aggregation-0", 0.9),
    raw("raw-aggregation/1", "aggregation-1", 1.2),
    raw("raw-plain-value/0", "plain-value-0", 0.9),
    raw("raw-plain-value/1", "plain-value-1", 1.2),
    raw("raw-timestamped-value/0", "timestamped-value-0", 0.9),
    raw("raw-timestamped-value/1", "timestamped-value-1", 1.2),
    raw("raw-timestamp/0", "timestamp-0", 0.9),
    raw("raw-timestamp/1", "timestamp-1", 1.2),
    raw("raw-headers/0", "headers-0", 0.6),
    raw("raw-headers/1", "headers-1", 3.4),
    replica_fetch("replica-fetch-none/100", "none", 100, 0),
    replica_fetch("replica-fetch-none/500", "none", 500, 0),
    replica_fetch("replica-fetch-none/1000", "none", 1000, 0),
    replica_fetch("replica-fetch-none/5000", "none", 5000, 0),
    replica_fetch("replica-fetch-none/50000", "none", 50000, 0),
    replica_fetch("replica-fetch-some/100", "some", 100, 1),
    replica_fetch("replica-fetch-some/500", "some", 500, 5),
    replica_fetch("replica-fetch-some/1000", "some", 1000, 10),
    replica_fetch("replica-fetch-some/5000", "some", 5000, 50),
    replica_fetch("replica-fetch-some/50000", "some", 50000, 500),
    replica_fetch("replica-fetch-all/100", "all", 100, 100),
    replica_fetch("replica-fetch-all/500", "all", 500, 500),
    replica_fetch("replica-fetch-all/1000", "all", 1000, 1000),
    replica_fetch("replica-fetch-all/5000", "all", 5000, 5000),
    replica_fetch("replica-fetch-all/50000", "all", 50000, 50000),
    replica_fetch("replica-fetch-none-topics/100", "none-topics", 100, 0),
    replica_fetch("replica-fetch-none-topics/500", "none-topics", 500, 0),
    replica_fetch("replica-fetch-none-topics/1000", "none-topics", 1000, 0),
    replica_fetch("replica-fetch-none-topics/5000", "none-topics", 5000, 0),
    replica_fetch("replica-fetch-none-topics/50000", "none-topics", 50000, 0),
    replica_fetch("replica-fetch-some-topics/100", "some-topics", 100, 1),
    replica_fetch("replica-fetch-some-topics/500", "some-topics", 500, 5),
    replica_fetch("replica-fetch-some-topics/1000", "some-topics", 1000, 10),
    replica_fetch("replica-fetch-some-topics/5000", "some-topics", 5000, 50),
    replica_fetch("replica-fetch-some-topics/50000", "some-topics", 50000, 500),
    replica_fetch("replica-fetch-all-topics/100", "all-topics", 100, 100),
    replica_fetch("replica-fetch-all-topics/500", "all-topics", 500, 500),
    replica_fetch("replica-fetch-all-topics/1000", "all-topics", 1000, 1000),
    replica_fetch("replica-fetch-all-topics/5000", "all-topics", 5000, 5000),
    replica_fetch("replica-fetch-all-topics/50000", "all-topics", 50000, 50000),
    replica_answer("replica-answer-none/100", "none", 100),
    replica_answer("replica-answer-none/500", "none", 500),
    replica_answer("replica-answer-none/1000", "none", 1000),
    replica_answer("replica-answer-none/5000", "none", 5000),
    replica_answer("replica-answer-none/50000", "none", 50000),
    replica_answer("replica-answer-some/100", "some", 100),
    replica_answer("replica-answer-some/500", "some", 500),
    replica_answer("replica-answer-some/1000", "some", 1000),
    replica_answer("replica-answer-some/5000", "some", 5000),
    replica_answer("replica-answer-some/50000", "some", 50000),
    replica_answer("replica-answer-all/100", "all", 100),
    replica_answer("replica-answer-all/500", "all", 500),
    replica_answer("replica-answer-all/1000", "all", 1000),
    replica_answer("replica-answer-all/5000", "all", 5000),
    replica_answer("replica-answer-all/50000", "all", 50000),
    replica_answer("replica-answer-none-topics/100", "none-topics", 100),
    replica_answer("replica-answer-none-topics/500", "none-topics", 500),
    replica_answer("replica-answer-none-topics/1000", "none-topics", 1000),
    replica_answer("replica-answer-none-topics/5000", "none-topics", 5000),
    replica_answer("replica-answer-none-topics/50000", "none-topics", 50000),
    replica_answer("replica-answer-some-topics/100", "some-topics", 100),
    replica_answer("replica-answer-some-topics/500", "some-topics", 500),
    replica_answer("replica-answer-some-topics/1000", "some-topics", 1000),
    replica_answer("replica-answer-some-topics/5000", "some-topics", 5000),
    replica_answer("replica-answer-some-topics/50000", "some-topics", 50000),
    replica_answer("replica-answer-all-topics/100", "all-topics", 100),
    replica_answer("replica-answer-all-topics/500", "all-topics", 500),
    replica_answer("replica-answer-all-topics/1000", "all-topics", 1000),
    replica_answer("replica-answer-all-topics/5000", "all-topics", 5000),
    replica_answer("replica-answer-all-topics/50000", "all-topics", 50000),
];

const fn produce_response(name: &'static str, partitions: u32, sketch_ns: f64) -> Operation {
    Operation {
        name,
        about: "produce response built and encoded",
        class: "ProduceResponseEncode",
        partitions: Some(partitions),
        kind: None,
        goal_ns: 1.5 * sketch_ns,
        goal_ratio: MESSAGE_RATIO,
    }
}

const fn produce_request(name: &'static str, partitions: u32, sketch_ns: f64) -> Operation {
    Operation {
        name,
        about: "produce request decoded",
        class: "ProduceRequestDecode",
        partitions: Some(partitions),
        kind: None,
        goal_ns: 1.5 * sketch_ns,
        goal_ratio: MESSAGE_RATIO,
    }
}

const fn fetch_response(name: &'static str, partitions: u32, sketch_ns: f64) -> Operation {
    Operation {
        name,
        about: "fetch response encoded",
        class: "FetchResponseEncode",
        partitions: Some(partitions),
        kind: None,
        goal_ns: 1.5 * sketch_ns,
        goal_ratio: MESSAGE_RATIO,
    }
}

/// Part of a value that a store of Kafka Streams keeps with headers.
const fn raw(name: &'static str, kind: &'static str, sketch_ns: f64) -> Operation {
    Operation {
        name,
        about: "part of a stored value taken",
        class: "RawExtraction",
        partitions: None,
        kind: Some(kind),
        goal_ns: 1.5 * sketch_ns,
        goal_ratio: RAW_RATIO,
    }
}

/// A follower's fetcher in a session of so many partitions, of which so many have changed.
const fn replica_fetch(
    name: &'static str,
    kind: &'static str,
    partitions: u32,
    changed: u32,
) -> Operation {
    Operation {
        name,
        about: "follower's request encoded and its answer taken",
        class: "ReplicaFetch",
        partitions: Some(partitions),
        kind: Some(kind),
        goal_ns: QUIET_FETCH_NS + CHANGED_PARTITION_NS * changed as f64,
        goal_ratio: 0.0,
    }
}

/// The leader's half of that, but for what a log is read for.
const fn replica_answer(name: &'static str, kind: &'static str, partitions: u32) -> Operation {
    Operation {
        name,
        about: "follower's session found, what has moved on answered",
        class: "ReplicaAnswer",
        partitions: Some(partitions),
        kind: Some(kind),
        goal_ns: 0.0,
        goal_ratio: 0.0,
    }
}
