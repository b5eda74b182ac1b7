//! Broker keys: roles, the controller quorum and the metadata log.

use crate::definition::{ANY, ConfigDefinition, Constraint, boolean, int, list, long, string};

#[rustfmt::skip]
pub(super) const CONTROLLER: &[ConfigDefinition] = &[
    int("broker.heartbeat.interval.ms").default("2000").medium()
        .doc("Milliseconds between two heartbeats of this broker to the controller."),
    int("broker.session.timeout.ms").default("9000").medium()
        .doc("A broker without a heartbeat for this long, in milliseconds, is fenced by the \
              controller."),
    list("controller.listener.names").required().filled_list_of(ANY).high()
        .doc("Listeners of the controller, of which the first is used to reach it. On a node \
              that is only a broker they must not be among `listeners`."),
    long("controller.performance.always.log.threshold.ms").default("2000")
        .at_least(0).internal().medium()
        .doc("Controller events that take at least this long, in milliseconds, are always \
              logged."),
    long("controller.performance.sample.period.ms").default("60000").at_least(100)
        .internal().medium()
        .doc("Milliseconds between two log lines about the slowest controller events."),
    int("controller.quorum.append.linger.ms").default("25").at_least(0).medium()
        .doc("How long the quorum's leader gathers records before it writes them, in \
              milliseconds."),
    boolean("controller.quorum.auto.join.enable").default("false").low()
        .doc("Whether a controller that finds itself outside the voters adds itself."),
    list("controller.quorum.bootstrap.servers").default("")
        .constraint(Constraint::BootstrapServers).high()
        .doc("Addresses at which the controller quorum is found, as `host:port` separated by \
              commas. Used with a dynamic quorum."),
    int("controller.quorum.election.backoff.max.ms").default("1000").at_least(0).high()
        .doc("Longest pause after a lost or undecided election, in milliseconds; the actual one \
              is random."),
    int("controller.quorum.election.timeout.ms").default("1000").at_least(0).high()
        .doc("How long a voter waits for votes, in milliseconds, before it starts another \
              election."),
    int("controller.quorum.fetch.max.bytes").default("1048576").at_least(1).low()
        .doc("Bytes of records asked for in one fetch from the quorum's leader."),
    int("controller.quorum.fetch.snapshot.max.bytes").default("1048576").at_least(1).low()
        .doc("Bytes of a snapshot asked for in one fetch from the quorum's leader."),
    int("controller.quorum.fetch.timeout.ms").default("2000").at_least(0).high()
        .doc("A follower that cannot fetch from the leader for this long, in milliseconds, \
              starts an election; a leader that a majority does not fetch from resigns."),
    int("controller.quorum.request.timeout.ms").default("2000").at_least(0).medium()
        .doc("How long a node waits for an answer of another quorum node, in milliseconds."),
    int("controller.quorum.retry.backoff.ms").default("20").at_least(0).low()
        .doc("Wait before a failed quorum request is repeated, in milliseconds."),
    list("controller.quorum.voters").default("").constraint(Constraint::QuorumVoters).high()
        .doc("The voters of a static quorum, as `id@host:port` separated by commas."),
    int("initial.broker.registration.timeout.ms").default("60000").medium()
        .doc("A broker that is not registered with the controller within this time in \
              milliseconds ends itself."),
    long("internal.metadata.delete.delay.millis").default("60000").internal().low()
        .doc("How long the file of a deleted metadata segment or snapshot stays on disk, in \
              milliseconds."),
    int("internal.metadata.log.segment.bytes").internal().low()
        .doc("Segment size of the metadata log without a lower bound, for tests; takes \
              precedence over `metadata.log.segment.bytes`."),
    int("internal.metadata.max.batch.size.in.bytes").default("8388608").internal().low()
        .doc("Largest batch the metadata log accepts, in bytes."),
    string("metadata.log.dir").high()
        .doc("Directory of the metadata log; unset means the first log directory."),
    long("metadata.log.max.record.bytes.between.snapshots").default("20971520").at_least(1).high()
        .doc("Bytes of metadata records after which a new snapshot is written."),
    long("metadata.log.max.snapshot.interval.ms").default("3600000").at_least(0).high()
        .doc("Time in milliseconds after which a new snapshot is written if there are newer \
              records; zero leaves it to the bytes alone."),
    int("metadata.log.segment.bytes").default("1073741824").at_least(8388608).high()
        .doc("Size at which a segment of the metadata log is closed and a new one opened."),
    long("metadata.log.segment.ms").default("604800000").high()
        .doc("Milliseconds after which a segment of the metadata log is closed and a new one \
              opened."),
    int("metadata.max.idle.interval.ms").default("500").at_least(0).low()
        .doc("Milliseconds after which an idle active controller writes a no-op record, which \
              proves it alive; zero writes none."),
    long("metadata.max.retention.bytes").default("104857600").high()
        .doc("Size of the metadata log and its snapshots above which older ones are deleted; -1 \
              sets no limit."),
    long("metadata.max.retention.ms").default("604800000").high()
        .doc("Age in milliseconds after which metadata segments and snapshots are deleted; -1 \
              sets no limit."),
    int("node.id").required().at_least(0).high()
        .doc("Number of this node, unique in the cluster over brokers and controllers."),
    list("process.roles").required().filled_list_of(&["broker", "controller"]).high()
        .doc("Roles of this node: `broker`, `controller` or both."),
    string("sasl.mechanism.controller.protocol").default("GSSAPI").high()
        .doc("SASL mechanism towards the controllers."),
];
