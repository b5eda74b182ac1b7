//! Broker keys: the server as a whole: roles beside the cluster, limits of requests, authorizer.

use crate::definition::{ANY, ConfigDefinition, Constraint, boolean, int, list, long, string};

#[rustfmt::skip]
pub(super) const SERVER: &[ConfigDefinition] = &[
    string("authorizer.class.name").default("").constraint(Constraint::NonNull).low()
        .doc("Class name of the authorizer; empty means that every request is allowed."),
    boolean("auto.create.topics.enable").default("true").high()
        .doc("Whether a topic comes into being when a client produces to it or asks for its \
              metadata."),
    int("background.threads").default("10").at_least(1).high().cluster_wide()
        .doc("Threads for the chores that run beside requests."),
    int("broker.id").default("-1").high()
        .doc("Older name of `node.id`. When both are given they must agree; -1 means unset."),
    string("broker.rack").medium()
        .doc("Rack, zone or site of this broker, used to spread replicas and to let consumers \
              read from a near replica."),
    list("config.providers").default("").list_of(ANY).low().cluster_wide()
        .doc("Names of the providers that resolve `${provider:path:key}` placeholders in values."),
    boolean("delete.topic.enable").default("true").high()
        .doc("Whether topics may be deleted; when off, requests to delete are refused."),
    int("fetch.max.bytes").default("57671680").at_least(1024).medium()
        .doc("Most bytes that the answer to one fetch carries, whatever the client asks for; at \
              least one batch is always sent."),
    int("max.incremental.fetch.session.cache.slots").default("1000").at_least(0).medium()
        .doc("Incremental fetch sessions that the server remembers at one time, spread over its \
              cache shards."),
    int("max.request.partition.size.limit").default("2000").at_least(1).medium()
        .doc("Most partitions that one request to describe topic partitions is answered for."),
    long("server.max.startup.time.ms").default("9223372036854775807").at_least(0)
        .internal().medium()
        .doc("How long start-up may take, in milliseconds, before the server gives up; meant for \
              tests."),
    boolean("unstable.api.versions.enable").default("false").internal().high()
        .doc("Whether protocol versions still under development are offered to clients."),
    boolean("unstable.feature.versions.enable").default("false").internal().high()
        .doc("Whether feature levels still under development may be used."),
];
