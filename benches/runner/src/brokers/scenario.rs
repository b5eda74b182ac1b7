//! The scenarios: the load of each, what is reported, and the goals.

use super::peer::Kind;

/// One load on one server.
#[derive(Debug)]
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) load: Load,
    /// The congestion control of a network between the load generator and the server; `None` when
    /// they share a host.
    pub(super) over: Option<&'static str>,
    /// How many times as long as others its window is: for high percentiles of a low rate.
    pub(super) length: f64,
    pub(super) floor: Floor,
    pub(super) metrics: &'static [Metric],
}

impl Scenario {
    /// Whether the command line means this one by `name`.
    pub(super) fn is_called(&self, name: &str) -> bool {
        let rest = self.name.strip_prefix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    }

    /// Whether it runs on three brokers.
    pub(super) fn is_cluster(&self) -> bool {
        matches!(self.load, Load::Cluster(_))
    }

    /// Whether it shows what others let a steady client have, which is not compared with a floor.
    pub(super) fn is_abuse(&self) -> bool {
        self.is_called("abused")
    }
}

/// Whether the floor serves a scenario, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Floor {
    Serves,
    /// It does not, for this reason.
    None(&'static str),
}

/// Where a scenario's numbers come from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Load {
    /// A window of the load generator: its arguments.
    Window(&'static str),
    /// A window over a topic that the scenarios of this kind share.
    Shared(&'static str),
    /// A window over a topic of its own, which is filled and then leaves the page cache.
    Cold(&'static str),
    /// The start of the server.
    Start,
    /// The server's memory after its start and in the windows.
    Memory,
    /// Three brokers.
    Cluster(ClusterLoad),
}

/// What three brokers go through.
#[derive(Clone, Copy, Debug)]
pub(super) enum ClusterLoad {
    /// A window of the load generator: its arguments.
    Window(&'static str),
    /// A broker that was down follows the others.
    CatchUp,
    /// Leaders are killed.
    Failover,
    /// Brokers stop and start in turn.
    Rolling,
}

impl Load {
    /// Whether the load generator runs.
    pub(super) const fn is_window(self) -> bool {
        matches!(self, Self::Window(_) | Self::Shared(_) | Self::Cold(_))
    }
}

/// A number of a scenario.
#[derive(Clone, Copy, Debug)]
pub(super) struct Metric {
    /// Where it stands in the load generator's result.
    pub(super) path: &'static str,
    pub(super) label: &'static str,
    pub(super) unit: &'static str,
    /// From the result's unit to the one shown.
    pub(super) factor: f64,
    /// Whether it is one of those that the README shows.
    pub(super) is_main: bool,
    pub(super) goals: &'static [Goal],
}

/// The most that riverrun's number may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Goal {
    /// The server to whose number the ratio is taken; without one it is the number itself.
    pub(super) against: Option<Kind>,
    pub(super) at_most: f64,
}

impl Metric {
    const fn new(path: &'static str, label: &'static str, unit: &'static str) -> Self {
        Self {
            path,
            label,
            unit,
            factor: 1.0,
            is_main: false,
            goals: &[],
        }
    }

    const fn times(self, factor: f64) -> Self {
        Self { factor, ..self }
    }

    const fn main(self) -> Self {
        Self {
            is_main: true,
            ..self
        }
    }

    const fn goals(self, goals: &'static [Goal]) -> Self {
        Self { goals, ..self }
    }
}

const fn goal(against: Kind, at_most: f64) -> Goal {
    Goal {
        against: Some(against),
        at_most,
    }
}

const FIFTH: &[Goal] = &[goal(Kind::Kafka, 1.0 / 5.0)];
const QUARTER: &[Goal] = &[goal(Kind::Kafka, 1.0 / 4.0)];
const THIRD: &[Goal] = &[goal(Kind::Kafka, 1.0 / 3.0)];
const HALF: &[Goal] = &[goal(Kind::Kafka, 1.0 / 2.0)];
const NO_MORE: &[Goal] = &[goal(Kind::Kafka, 1.0)];
const NONE: &[Goal] = &[Goal {
    against: None,
    at_most: 0.0,
}];
const TWENTIETH: &[Goal] = &[goal(Kind::Kafka, 1.0 / 20.0)];

const PER_GB: Metric = Metric::new("/cpu_seconds_per_gb", "CPU per GB", "s");
const PER_REQUEST: Metric =
    Metric::new("/cpu_seconds_per_million_requests", "CPU per request", "µs");
const THROUGHPUT: Metric = Metric::new("/mb_per_second", "throughput", "MB/s");
const RATE: Metric = Metric::new("/requests_per_second", "requests per second", "k").times(1e-3);
const P50: Metric = Metric::new("/latency/p50_ms", "latency p50", "ms");
const P99: Metric = Metric::new("/latency/p99_ms", "latency p99", "ms");
const P999: Metric = Metric::new("/latency/p999_ms", "latency p99.9", "ms");
const LONGEST: Metric = Metric::new("/latency/max_ms", "latency max", "ms");
const END_P50: Metric = Metric::new("/end_to_end_latency/p50_ms", "end to end p50", "ms");
const END_P99: Metric = Metric::new("/end_to_end_latency/p99_ms", "end to end p99", "ms");
const END_P999: Metric = Metric::new("/end_to_end_latency/p999_ms", "end to end p99.9", "ms");
const RESIDENT: Metric = Metric::new("/resident_mb", "memory", "MB");
const BUSY: Metric = Metric::new("/cores_busy", "cores busy", "");

const BULK: [Metric; 8] = [
    PER_GB
        .main()
        .goals(&[goal(Kind::Kafka, 1.0 / 5.0), goal(Kind::Floor, 1.3)]),
    PER_REQUEST,
    THROUGHPUT,
    P50,
    P99.main().goals(THIRD),
    P999.main().goals(THIRD),
    BUSY,
    RESIDENT,
];

const LZ4: [Metric; 8] = [
    PER_GB
        .main()
        .goals(&[goal(Kind::Kafka, 1.0 / 5.0), goal(Kind::Floor, 1.4)]),
    PER_REQUEST,
    THROUGHPUT,
    P50,
    P99.main().goals(THIRD),
    P999.main().goals(THIRD),
    BUSY,
    RESIDENT,
];

const SMALL: [Metric; 7] = [
    PER_REQUEST
        .main()
        .goals(&[goal(Kind::Kafka, 1.0 / 5.0), goal(Kind::Floor, 1.05)]),
    RATE,
    P50,
    P99.main().goals(THIRD),
    P999.main().goals(THIRD),
    BUSY,
    RESIDENT,
];

const PRODUCE_OVER_NETWORK: [Metric; 5] = [PER_GB.main().goals(FIFTH), THROUGHPUT, P50, P99, BUSY];

const CONSUME: [Metric; 5] = [
    PER_GB
        .main()
        .goals(&[goal(Kind::Kafka, 1.0 / 4.0), goal(Kind::Floor, 1.2)]),
    PER_REQUEST,
    THROUGHPUT,
    BUSY,
    RESIDENT,
];

const CONSUME_FROM_DISK: [Metric; 5] = [
    PER_GB.main().goals(QUARTER),
    THROUGHPUT.main(),
    P50,
    P99,
    BUSY,
];

const DURABLE: [Metric; 6] = [
    RATE.main(),
    PER_REQUEST.main().goals(FIFTH),
    P50.main(),
    P99,
    P999,
    BUSY,
];

const PACED: [Metric; 9] = [
    P50,
    P99.main().goals(THIRD),
    P999.main().goals(THIRD),
    END_P50,
    END_P99.main().goals(THIRD),
    END_P999.main().goals(THIRD),
    PER_GB.main().goals(FIFTH),
    PER_REQUEST,
    RESIDENT,
];

/// Too few requests for higher percentiles.
const SPARSE: [Metric; 6] = [
    P50.main().goals(THIRD),
    P99,
    END_P50,
    PER_REQUEST.main().goals(FIFTH),
    BUSY,
    RESIDENT,
];

const COORDINATORS: [Metric; 6] = [
    PER_REQUEST.main().goals(FIFTH),
    RATE,
    P50,
    P99,
    BUSY,
    RESIDENT,
];

const NO_COORDINATORS: Floor = Floor::None("it has no coordinators");

/// The goal is an absolute one: 20 ms at the 99th percentile on two cores.
const ABUSED: [Metric; 5] = [P50, P99, P999, LONGEST, RESIDENT];

const START: [Metric; 1] = [Metric::new("/start_ms", "time", "ms")
    .main()
    .goals(TWENTIETH)];

const MEMORY: [Metric; 2] = [
    Metric::new("/idle_mb", "idle", "MB")
        .main()
        .goals(TWENTIETH),
    Metric::new("/loaded_mb", "under load", "MB")
        .main()
        .goals(TWENTIETH),
];

const CLUSTER_PRODUCE: [Metric; 7] = [
    PER_GB.main().goals(&[goal(Kind::Kafka, 0.3)]),
    PER_REQUEST,
    THROUGHPUT,
    P50,
    P99,
    BUSY,
    RESIDENT,
];

const CLUSTER_MIXED: [Metric; 7] = [
    P50.main(),
    P99.main().goals(HALF),
    P999,
    END_P50,
    END_P99,
    PER_GB,
    BUSY,
];

const CLUSTER_MEMORY: [Metric; 3] = [RESIDENT.main().goals(TWENTIETH), P50, PER_REQUEST];

const CATCH_UP: [Metric; 5] = [
    Metric::new("/gigabytes", "size", "GB"),
    Metric::new("/seconds", "from the start until in sync", "s").main(),
    Metric::new("/mb_per_second", "rate", "MB/s"),
    Metric::new("/cpu_seconds", "CPU", "s").main(),
    PER_GB,
];

const FAILOVER: [Metric; 2] = [
    Metric::new("/mean_seconds", "kill to next record", "s")
        .main()
        .goals(NO_MORE),
    Metric::new("/longest_seconds", "the longest", "s"),
];

const ROLLING: [Metric; 5] = [
    Metric::new("/errors", "errors", "").main().goals(NONE),
    Metric::new(
        "/producer/longest_pause_ms",
        "longest pause, producer",
        "ms",
    )
    .main(),
    Metric::new(
        "/consumer/longest_pause_ms",
        "longest pause, consumer",
        "ms",
    ),
    Metric::new("/restart_seconds", "a restart until in sync", "s"),
    Metric::new("/producer/retries", "retries, producer", ""),
];

const NO_REPLICAS: Floor = Floor::None("it does not replicate");

const NO_LIMITS: Floor = Floor::None("it has no limits to what a client may ask for");

/// What most scenarios have in common.
const WINDOW: Scenario = Scenario {
    name: "",
    about: "",
    load: Load::Start,
    over: None,
    length: 1.0,
    floor: Floor::Serves,
    metrics: &[],
};

/// Every scenario in the order in which they run.
pub(super) const SCENARIOS: [Scenario; 34] = [
    Scenario {
        name: "start",
        about: "from the process's start to the first acknowledged record, acks all",
        load: Load::Start,
        floor: Floor::None("it has nothing to start"),
        metrics: &START,
        ..WINDOW
    },
    Scenario {
        name: "bulk-produce",
        about: "1 KiB records, 64 KiB batches, 4 connections, 5 requests in flight, acks 1",
        load: Load::Window("produce"),
        metrics: &BULK,
        ..WINDOW
    },
    Scenario {
        name: "bulk-produce-lz4",
        about: "the same with lz4; GB are those before compression",
        load: Load::Window("produce --codec lz4"),
        metrics: &LZ4,
        ..WINDOW
    },
    Scenario {
        name: "bulk-produce-all",
        about: "the same as bulk-produce with acks all",
        load: Load::Window("produce --acks -1"),
        metrics: &BULK,
        ..WINDOW
    },
    Scenario {
        name: "small-produce",
        about: "200 byte records, one a request, 64 connections with one request in flight, acks 1",
        load: Load::Window(
            "produce --partitions 16 --connections 64 --in-flight 1 --record-bytes 200 \
             --batch-bytes 1",
        ),
        metrics: &SMALL,
        ..WINDOW
    },
    Scenario {
        name: "durable-produce",
        about: "1 KiB records, one a request, 64 connections with one request in flight, acks all, \
                flush.messages=1: each is on the disk before its acknowledgement",
        load: Load::Window(
            "produce --connections 64 --in-flight 1 --batch-bytes 1 --acks -1 \
             --config flush.messages=1",
        ),
        floor: Floor::None("it does not sync: what that costs is the disk's"),
        metrics: &DURABLE,
        ..WINDOW
    },
    Scenario {
        name: "mixed",
        about: "20 MB/s, 16 KiB batches on 4 connections, acks all, and a consumer that follows",
        load: Load::Window("paced --acks -1 --batch-bytes 16500 --mb-per-second 20"),
        length: 3.0,
        metrics: &PACED,
        ..WINDOW
    },
    Scenario {
        name: "partitions-1000",
        about: "1,000 partitions, 20 requests a second to 10 partitions each with 1 KiB, acks all, \
                and a consumer that follows them all: a rate that Apache Kafka can serve",
        load: Load::Window(
            "paced --acks -1 --partitions 1000 --partitions-per-request 10 --batch-bytes 1 \
             --mb-per-second 0.2",
        ),
        floor: Floor::None("without fetch sessions it is asked for 1,000 partitions each time"),
        length: 2.0,
        metrics: &SPARSE,
        ..WINDOW
    },
    Scenario {
        name: "consume-1",
        about: "1 consumer of 1 GB in 64 KiB batches in the page cache, again and again",
        load: Load::Shared("consume --consumers 1"),
        metrics: &CONSUME,
        ..WINDOW
    },
    Scenario {
        name: "consume-4",
        about: "the same with 4 consumers, each of all the records",
        load: Load::Shared("consume --consumers 4"),
        metrics: &CONSUME,
        ..WINDOW
    },
    Scenario {
        name: "consume-from-disk",
        about: "1 consumer that reads 1 GB once, of which the page cache holds nothing",
        load: Load::Cold("consume"),
        metrics: &CONSUME_FROM_DISK,
        ..WINDOW
    },
    Scenario {
        name: "coordinators-commits-1",
        about: "offset commits of 4 partitions, one connection with one request in flight",
        load: Load::Window("coordinators --ask commits --connections 1"),
        floor: NO_COORDINATORS,
        metrics: &COORDINATORS,
        ..WINDOW
    },
    Scenario {
        name: "coordinators-commits",
        about: "the same with 64 connections, each with a group of its own",
        load: Load::Window("coordinators --ask commits"),
        floor: NO_COORDINATORS,
        metrics: &COORDINATORS,
        ..WINDOW
    },
    Scenario {
        name: "coordinators-offsets",
        about: "fetches of 4 committed offsets, 64 connections with one request in flight",
        load: Load::Window("coordinators --ask offsets"),
        floor: NO_COORDINATORS,
        metrics: &COORDINATORS,
        ..WINDOW
    },
    Scenario {
        name: "coordinators-heartbeats",
        about: "heartbeats of 64 groups of one member, each on a connection of its own",
        load: Load::Window("coordinators --ask heartbeats"),
        floor: NO_COORDINATORS,
        metrics: &COORDINATORS,
        ..WINDOW
    },
    Scenario {
        name: "coordinators-transactions",
        about: "transactions of one partition: AddPartitionsToTxn, EndTxn and its marker, 16 connections; requests are whole transactions",
        load: Load::Window("coordinators --ask transactions --connections 16"),
        floor: NO_COORDINATORS,
        metrics: &COORDINATORS,
        ..WINDOW
    },
    Scenario {
        name: "network-produce-cubic",
        about: "bulk-produce from another network namespace under cubic",
        load: Load::Window("produce"),
        over: Some("cubic"),
        metrics: &PRODUCE_OVER_NETWORK,
        ..WINDOW
    },
    Scenario {
        name: "network-produce-bbr",
        about: "bulk-produce from another network namespace under BBR",
        load: Load::Window("produce"),
        over: Some("bbr"),
        metrics: &PRODUCE_OVER_NETWORK,
        ..WINDOW
    },
    Scenario {
        name: "network-consume-cubic",
        about: "consume-1 from another network namespace under cubic",
        load: Load::Shared("consume --consumers 1"),
        over: Some("cubic"),
        metrics: &CONSUME,
        ..WINDOW
    },
    Scenario {
        name: "network-consume-bbr",
        about: "consume-1 from another network namespace under BBR",
        load: Load::Shared("consume --consumers 1"),
        over: Some("bbr"),
        metrics: &CONSUME,
        ..WINDOW
    },
    Scenario {
        name: "abused-none",
        about: "500 small requests a second beside 4 clients: nobody else: what the steady producer waits by itself",
        load: Load::Window("abused --partitions 1 --abuse none"),
        floor: NO_LIMITS,
        metrics: &ABUSED,
        ..WINDOW
    },
    Scenario {
        name: "abused-patterns",
        about: "500 small requests a second beside 4 clients: new patterns that take long to match, over topics of long names",
        load: Load::Window("abused --partitions 1 --abuse patterns"),
        floor: NO_LIMITS,
        metrics: &ABUSED,
        ..WINDOW
    },
    Scenario {
        name: "abused-repetition",
        about: "500 small requests a second beside 4 clients: a resource that is named 8,000 times in DescribeConfigs",
        load: Load::Window("abused --partitions 1 --abuse repetition"),
        floor: NO_LIMITS,
        metrics: &ABUSED,
        ..WINDOW
    },
    Scenario {
        name: "abused-empty-partitions",
        about: "500 small requests a second beside 4 clients: requests of 1.5 million partitions without records",
        load: Load::Window("abused --partitions 1 --abuse empty-partitions"),
        floor: NO_LIMITS,
        metrics: &ABUSED,
        ..WINDOW
    },
    Scenario {
        name: "abused-lookups",
        about: "500 small requests a second beside 4 clients: the largest time looked up in a batch that expands to 200 MiB",
        load: Load::Window("abused --partitions 1 --abuse lookups"),
        floor: NO_LIMITS,
        metrics: &ABUSED,
        ..WINDOW
    },
    Scenario {
        name: "abused-expansion",
        about: "500 small requests a second beside 4 clients: batches that expand to 200 MiB",
        load: Load::Window("abused --partitions 1 --abuse expansion"),
        floor: NO_LIMITS,
        metrics: &ABUSED,
        ..WINDOW
    },
    Scenario {
        name: "abused-unread",
        about: "500 small requests a second beside 4 clients: answers of tens of MB that nobody reads",
        load: Load::Window("abused --partitions 1 --abuse unread"),
        floor: NO_LIMITS,
        metrics: &ABUSED,
        ..WINDOW
    },
    Scenario {
        name: "memory",
        about: "resident memory: a second after the start, and the most at the end of a window; \
                Apache Kafka's heap is 1 GB, as its start script sets it (-Xms1g -Xmx1g)",
        load: Load::Memory,
        metrics: &MEMORY,
        ..WINDOW
    },
    Scenario {
        name: "cluster-produce",
        about: "three brokers, replication factor 3, acks all: 1 KiB records, 64 KiB batches, 6 partitions, \
                6 connections, 5 requests in flight; CPU and memory are those of all brokers, a GB is \
                produced once and written three times",
        load: Load::Cluster(ClusterLoad::Window(
            "produce --acks -1 --partitions 6 --connections 6",
        )),
        floor: NO_REPLICAS,
        metrics: &CLUSTER_PRODUCE,
        ..WINDOW
    },
    Scenario {
        name: "cluster-mixed",
        about: "the same brokers: 5 MB/s in 16 KiB batches on 6 connections, acks all, and a consumer that follows",
        load: Load::Cluster(ClusterLoad::Window(
            "paced --acks -1 --partitions 6 --connections 6 --batch-bytes 16500 --mb-per-second 5",
        )),
        length: 3.0,
        floor: NO_REPLICAS,
        metrics: &CLUSTER_MIXED,
        ..WINDOW
    },
    Scenario {
        name: "cluster-memory",
        about: "the same brokers with 1,667 partitions, which are 5,001 replicas, each with a record; 20 requests \
                a second to 10 partitions each, and a consumer that follows: resident memory of all brokers",
        load: Load::Cluster(ClusterLoad::Window(
            "paced --acks -1 --partitions 1667 --connections 3 --partitions-per-request 10 --batch-bytes 1 \
             --mb-per-second 0.2",
        )),
        floor: NO_REPLICAS,
        metrics: &CLUSTER_MEMORY,
        ..WINDOW
    },
    Scenario {
        name: "cluster-catch-up",
        about: "a broker stops, the others take --catch-up-gb of records, and it starts again when its session has run \
                out: until all brokers say that all is in sync; the CPU is that of all brokers, the start included",
        load: Load::Cluster(ClusterLoad::CatchUp),
        floor: NO_REPLICAS,
        metrics: &CATCH_UP,
        ..WINDOW
    },
    Scenario {
        name: "cluster-failover",
        about: "kill -9 of the leader of a partition, until a record is acknowledged by the next one, which a client asks \
                for every millisecond; broker.session.timeout.ms is Kafka's default of 9 s (3 s with --quick)",
        load: Load::Cluster(ClusterLoad::Failover),
        floor: NO_REPLICAS,
        metrics: &FAILOVER,
        ..WINDOW
    },
    Scenario {
        name: "cluster-rolling",
        about: "each broker stops cleanly and starts again under a producer and a consumer of each of 6 partitions, \
                with 50 records a second each, which try again after 10 ms; errors are those that an application would see",
        load: Load::Cluster(ClusterLoad::Rolling),
        floor: NO_REPLICAS,
        metrics: &ROLLING,
        ..WINDOW
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_a_name_means_all_that_begin_so() {
        let called = |name: &str| SCENARIOS.iter().filter(|one| one.is_called(name)).count();
        assert_eq!(called("consume-1"), 1);
        assert_eq!(called("network"), 4);
        assert_eq!(called("abused"), 7);
        assert_eq!(called("coordinators"), 5);
        assert_eq!(called("cluster"), 6);
        assert_eq!(called("bulk-produce"), 3);
        assert_eq!(called("bulk"), 3);
        assert_eq!(called("bul"), 0);
    }
}
