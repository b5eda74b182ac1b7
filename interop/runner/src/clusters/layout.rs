//! Of what a cluster is made: which program each node runs, and what all of them are given.

use crate::server::Against;

/// Who is what: the programs of controllers and brokers.
#[derive(Debug)]
pub(crate) struct Mixture {
    /// As `SCENARIO@MIXTURE` names it.
    pub(crate) name: &'static str,
    pub(crate) controllers: Controllers,
    /// The brokers' programs, by turns.
    pub(crate) brokers: &'static [Against],
}

/// Where the controllers are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Controllers {
    /// The first broker is the controller as well.
    FirstBroker,
    /// Nodes of their own, all of them voters.
    Apart(&'static [Against]),
}

use Against::{Kafka, Riverrun};

/// riverrun alone, controller included.
pub(crate) const RIVERRUN: Mixture = Mixture {
    name: "riverrun",
    controllers: Controllers::FirstBroker,
    brokers: &[Riverrun],
};

/// riverrun alone, with a controller that is no broker.
pub(crate) const RIVERRUN_APART: Mixture = Mixture {
    name: "riverrun-apart",
    controllers: Controllers::Apart(&[Riverrun]),
    brokers: &[Riverrun],
};

/// riverrun's brokers with what is advised until riverrun's controllers vote: three of Kafka's.
pub(crate) const KAFKA_CONTROLLERS: Mixture = Mixture {
    name: "kafka-controllers",
    controllers: Controllers::Apart(&[Kafka, Kafka, Kafka]),
    brokers: &[Riverrun],
};

/// Of three brokers one is riverrun's.
pub(crate) const ONE_RIVERRUN: Mixture = Mixture {
    name: "one-riverrun",
    controllers: Controllers::Apart(&[Kafka]),
    brokers: &[Kafka, Riverrun, Kafka],
};

/// Of three brokers two are riverrun's.
pub(crate) const TWO_RIVERRUN: Mixture = Mixture {
    name: "two-riverrun",
    controllers: Controllers::Apart(&[Kafka]),
    brokers: &[Riverrun, Kafka, Riverrun],
};

/// Apache Kafka's brokers, with one of riverrun's, under riverrun's controller.
pub(crate) const RIVERRUN_CONTROLS: Mixture = Mixture {
    name: "riverrun-controls",
    controllers: Controllers::Apart(&[Riverrun]),
    brokers: &[Kafka, Kafka, Riverrun],
};

/// Apache Kafka alone, with one controller.
pub(crate) const KAFKA: Mixture = Mixture {
    name: "kafka",
    controllers: Controllers::Apart(&[Kafka]),
    brokers: &[Kafka],
};

/// Apache Kafka alone, with three controllers.
pub(crate) const KAFKA_QUORUM: Mixture = Mixture {
    name: "kafka-quorum",
    controllers: Controllers::Apart(&[Kafka, Kafka, Kafka]),
    brokers: &[Kafka],
};

/// What a scenario asks of its cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) broker_count: usize,
    /// Log directories of each node.
    pub(crate) log_dir_count: usize,
    /// Whether each broker stands in a rack of its own, `rack-ID`.
    pub(crate) has_racks: bool,
    /// Whether a relay stands before each listener, by which links are cut and slowed. It looks up who connects:
    /// that costs more than it serves where clients have a thousand connections.
    pub(crate) has_relays: bool,
    /// Kafka's configuration names; they win over [`DEFAULTS`].
    pub(crate) properties: &'static [(&'static str, &'static str)],
}

/// Three brokers with a log directory each.
pub(crate) const THREE_BROKERS: Layout = Layout {
    broker_count: 3,
    log_dir_count: 1,
    has_racks: false,
    has_relays: true,
    properties: &[],
};

/// Of a node of a small cluster that lives for a minute.
pub(crate) const DEFAULTS: &[(&str, &str)] = &[
    ("inter.broker.listener.name", "PLAINTEXT"),
    ("auto.create.topics.enable", "false"),
    ("default.replication.factor", "3"),
    ("min.insync.replicas", "2"),
    ("offsets.topic.replication.factor", "3"),
    ("offsets.topic.num.partitions", "4"),
    ("transaction.state.log.replication.factor", "3"),
    ("transaction.state.log.min.isr", "2"),
    ("transaction.state.log.num.partitions", "4"),
    ("group.initial.rebalance.delay.ms", "0"),
    // A broker that is killed is missed after so long. Heartbeats wait as long as the interval between them:
    // with many virtual machines on few processors less would miss others, too.
    ("broker.session.timeout.ms", "8000"),
    ("broker.heartbeat.interval.ms", "2000"),
    ("initial.broker.registration.timeout.ms", "120000"),
    ("controller.quorum.request.timeout.ms", "5000"),
    ("controller.quorum.fetch.timeout.ms", "5000"),
    ("replica.lag.time.max.ms", "10000"),
    ("replica.fetch.backoff.ms", "200"),
    ("num.network.threads", "2"),
    ("num.io.threads", "4"),
    ("log.cleaner.dedupe.buffer.size", "8388608"),
];
