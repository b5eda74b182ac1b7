//! The scenarios: the load of each, what is reported, and the goals.

use super::peer::Kind;

/// One load on one server.
#[derive(Debug)]
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) load: Load,
    /// Whether the floor serves it, too.
    pub(super) has_floor: bool,
    pub(super) metrics: &'static [Metric],
}

/// Where a scenario's numbers come from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Load {
    /// A window of the load generator: its arguments.
    Window(&'static str),
    /// A window over a topic that the scenarios of this kind share.
    Shared(&'static str),
    /// The start of the server.
    Start,
    /// The server's memory after its start and in the windows.
    Memory,
}

/// A number of a scenario.
#[derive(Debug)]
pub(super) struct Metric {
    /// Where it stands in the load generator's result.
    pub(super) path: &'static str,
    pub(super) label: &'static str,
    pub(super) unit: &'static str,
    /// From the result's unit to the one shown.
    pub(super) factor: f64,
    pub(super) goals: &'static [Goal],
}

/// The most that a ratio to another server may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Goal {
    pub(super) against: Kind,
    pub(super) at_most: f64,
}

const fn goal(against: Kind, at_most: f64) -> Goal {
    Goal { against, at_most }
}

const fn metric(
    path: &'static str,
    label: &'static str,
    unit: &'static str,
    factor: f64,
    goals: &'static [Goal],
) -> Metric {
    Metric {
        path,
        label,
        unit,
        factor,
        goals,
    }
}

const CPU_PER_GB: &str = "/cpu_seconds_per_gb";
const CPU_PER_REQUEST: &str = "/cpu_seconds_per_million_requests";
const THROUGHPUT: Metric = metric("/mb_per_second", "throughput", "MB/s", 1.0, &[]);
const P50: Metric = metric("/latency/p50_ms", "latency p50", "ms", 1.0, &[]);
const P99: Metric = metric("/latency/p99_ms", "latency p99", "ms", 1.0, &[]);
const P999: Metric = metric("/latency/p999_ms", "latency p99.9", "ms", 1.0, &[]);
const RESIDENT: Metric = metric("/resident_mb", "memory", "MB", 1.0, &[]);
const BUSY: Metric = metric("/cores_busy", "cores busy", "", 1.0, &[]);
const PER_GB: Metric = metric(CPU_PER_GB, "CPU per GB", "s", 1.0, &[]);
const PER_REQUEST: Metric = metric(CPU_PER_REQUEST, "CPU per request", "µs", 1.0, &[]);

const BULK: [Metric; 7] = [
    metric(
        CPU_PER_GB,
        "CPU per GB",
        "s",
        1.0,
        &[goal(Kind::Kafka, 1.0 / 4.0), goal(Kind::Floor, 1.3)],
    ),
    PER_REQUEST,
    THROUGHPUT,
    P50,
    P99,
    BUSY,
    RESIDENT,
];

const SMALL: [Metric; 6] = [
    metric(
        CPU_PER_REQUEST,
        "CPU per request",
        "µs",
        1.0,
        &[goal(Kind::Kafka, 1.0 / 5.0), goal(Kind::Floor, 1.6)],
    ),
    metric(
        "/requests_per_second",
        "requests per second",
        "k",
        1e-3,
        &[],
    ),
    P50,
    P99,
    BUSY,
    RESIDENT,
];

const CONSUME: [Metric; 5] = [
    metric(
        CPU_PER_GB,
        "CPU per GB",
        "s",
        1.0,
        &[goal(Kind::Kafka, 3.0 / 5.0), goal(Kind::Floor, 1.2)],
    ),
    PER_REQUEST,
    THROUGHPUT,
    BUSY,
    RESIDENT,
];

const PACED: [Metric; 9] = [
    P50,
    metric(
        "/latency/p99_ms",
        "latency p99",
        "ms",
        1.0,
        &[goal(Kind::Kafka, 1.0 / 2.0)],
    ),
    P999,
    metric(
        "/end_to_end_latency/p50_ms",
        "end to end p50",
        "ms",
        1.0,
        &[],
    ),
    metric(
        "/end_to_end_latency/p99_ms",
        "end to end p99",
        "ms",
        1.0,
        &[goal(Kind::Kafka, 1.0 / 2.0)],
    ),
    metric(
        "/end_to_end_latency/p999_ms",
        "end to end p99.9",
        "ms",
        1.0,
        &[],
    ),
    PER_GB,
    PER_REQUEST,
    RESIDENT,
];

/// The goal is an absolute one: 20 ms at the 99th percentile on two cores.
const ABUSED: [Metric; 5] = [
    P50,
    P99,
    P999,
    metric("/latency/max_ms", "latency max", "ms", 1.0, &[]),
    RESIDENT,
];

/// Every scenario in the order in which they run.
pub(super) const SCENARIOS: [Scenario; 17] = [
    Scenario {
        name: "start",
        about: "from the process's start to the first acknowledged record, acks all",
        load: Load::Start,
        has_floor: false,
        metrics: &[metric(
            "/start_ms",
            "time",
            "ms",
            1.0,
            &[goal(Kind::Kafka, 1.0 / 20.0)],
        )],
    },
    Scenario {
        name: "bulk-produce",
        about: "1 KiB records, 64 KiB batches, 4 connections, 5 requests in flight, acks 1",
        load: Load::Window("produce"),
        has_floor: true,
        metrics: &BULK,
    },
    Scenario {
        name: "bulk-produce-lz4",
        about: "the same with lz4; GB are those before compression",
        load: Load::Window("produce --codec lz4"),
        has_floor: true,
        metrics: &BULK,
    },
    Scenario {
        name: "bulk-produce-all",
        about: "the same with acks all",
        load: Load::Window("produce --acks -1"),
        has_floor: true,
        metrics: &BULK,
    },
    Scenario {
        name: "small-produce",
        about: "200 byte records, one a request, 64 connections with one request in flight, acks 1",
        load: Load::Window(
            "produce --partitions 16 --connections 64 --in-flight 1 --record-bytes 200 \
             --batch-bytes 1",
        ),
        has_floor: true,
        metrics: &SMALL,
    },
    Scenario {
        name: "mixed",
        about: "20 MB/s, 16 KiB batches on 4 connections, acks all, and a consumer that follows",
        load: Load::Window("paced --acks -1 --batch-bytes 16500 --mb-per-second 20"),
        has_floor: true,
        metrics: &PACED,
    },
    Scenario {
        name: "partitions-1000",
        about: "1,000 partitions, 2 MB/s, 10 partitions a request with 1 KiB each, acks all, and \
                a consumer that follows them all",
        load: Load::Window(
            "paced --acks -1 --partitions 1000 --partitions-per-request 10 --batch-bytes 1 \
             --mb-per-second 2",
        ),
        has_floor: false,
        metrics: &PACED,
    },
    Scenario {
        name: "consume-1",
        about: "1 consumer of 1 GB in 64 KiB batches in the page cache, again and again",
        load: Load::Shared("consume --consumers 1"),
        has_floor: true,
        metrics: &CONSUME,
    },
    Scenario {
        name: "consume-4",
        about: "the same with 4 consumers, each of all the records",
        load: Load::Shared("consume --consumers 4"),
        has_floor: true,
        metrics: &CONSUME,
    },
    Scenario {
        name: "abused-none",
        about: "500 small requests a second beside 4 clients: nobody else: what the steady producer waits by itself",
        load: Load::Window("abused --partitions 1 --abuse none"),
        has_floor: false,
        metrics: &ABUSED,
    },
    Scenario {
        name: "abused-patterns",
        about: "500 small requests a second beside 4 clients: new patterns that take long to match, over topics of long names",
        load: Load::Window("abused --partitions 1 --abuse patterns"),
        has_floor: false,
        metrics: &ABUSED,
    },
    Scenario {
        name: "abused-repetition",
        about: "500 small requests a second beside 4 clients: a resource that is named 8,000 times in DescribeConfigs",
        load: Load::Window("abused --partitions 1 --abuse repetition"),
        has_floor: false,
        metrics: &ABUSED,
    },
    Scenario {
        name: "abused-empty-partitions",
        about: "500 small requests a second beside 4 clients: requests of 1.5 million partitions without records",
        load: Load::Window("abused --partitions 1 --abuse empty-partitions"),
        has_floor: false,
        metrics: &ABUSED,
    },
    Scenario {
        name: "abused-lookups",
        about: "500 small requests a second beside 4 clients: the largest time looked up in a batch that expands to 200 MiB",
        load: Load::Window("abused --partitions 1 --abuse lookups"),
        has_floor: false,
        metrics: &ABUSED,
    },
    Scenario {
        name: "abused-expansion",
        about: "500 small requests a second beside 4 clients: batches that expand to 200 MiB",
        load: Load::Window("abused --partitions 1 --abuse expansion"),
        has_floor: false,
        metrics: &ABUSED,
    },
    Scenario {
        name: "abused-unread",
        about: "500 small requests a second beside 4 clients: answers of tens of MB that nobody reads",
        load: Load::Window("abused --partitions 1 --abuse unread"),
        has_floor: false,
        metrics: &ABUSED,
    },
    Scenario {
        name: "memory",
        about: "resident memory: a second after the start, and the most at the end of a window",
        load: Load::Memory,
        has_floor: true,
        metrics: &[
            metric(
                "/idle_mb",
                "idle",
                "MB",
                1.0,
                &[goal(Kind::Kafka, 1.0 / 20.0)],
            ),
            metric(
                "/loaded_mb",
                "under load",
                "MB",
                1.0,
                &[goal(Kind::Kafka, 1.0 / 20.0)],
            ),
        ],
    },
];
