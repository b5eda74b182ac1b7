//! Broker keys: sockets, threads and listeners of the server.

use crate::definition::{ANY, ConfigDefinition, SECURITY_PROTOCOLS, int, list, long, string};

#[rustfmt::skip]
pub(super) const NETWORK: &[ConfigDefinition] = &[
    list("advertised.listeners").filled_list_of(ANY).high()
        .doc("Addresses that clients and other brokers are told to use, in the form of \
              `listeners`. Unset means that `listeners` itself is handed out."),
    int("connection.failed.authentication.delay.ms").default("100").at_least(0).low()
        .doc("Wait before a connection whose authentication failed is closed, in milliseconds; \
              it slows down guessing. Must be shorter than `connections.max.idle.ms`."),
    long("connections.max.idle.ms").default("600000").medium()
        .doc("A connection that is silent for this long, in milliseconds, is closed by the \
              server."),
    list("early.start.listeners").list_of(ANY).high()
        .doc("Listeners that accept connections before the authorizer has loaded its rules. \
              Unset means the controller listeners."),
    string("inter.broker.listener.name").medium()
        .doc("Listener over which brokers talk to each other. Unset means the one named after \
              `security.inter.broker.protocol`; only one of the two may be given."),
    string("listener.security.protocol.map")
        .default("SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT")
        .low().per_broker()
        .doc("Security protocol of each listener, as `NAME:PROTOCOL` pairs. Protocols are \
              PLAINTEXT, SSL, SASL_PLAINTEXT and SASL_SSL."),
    list("listeners").default("PLAINTEXT://:9092").filled_list_of(ANY).high().per_broker()
        .doc("Addresses the server binds, as `NAME://host:port` separated by commas. An empty \
              host binds every interface."),
    int("max.connection.creation.rate").default("2147483647").at_least(0).medium().cluster_wide()
        .doc("New connections that the server accepts in a second; a listener can have its own \
              limit under its prefix."),
    int("max.connections").default("2147483647").at_least(0).medium().cluster_wide()
        .doc("Connections that the server holds open at one time; a listener can have its own \
              limit under its prefix."),
    int("max.connections.per.ip").default("2147483647").at_least(0).medium().cluster_wide()
        .doc("Connections that one client address may hold open. Zero is allowed only when \
              `max.connections.per.ip.overrides` names exceptions."),
    string("max.connections.per.ip.overrides").default("").medium().cluster_wide()
        .doc("Exceptions to `max.connections.per.ip`, as `host:count` pairs separated by commas."),
    int("num.io.threads").default("8").at_least(1).high().cluster_wide()
        .doc("Threads that carry out requests, disk access included."),
    int("num.network.threads").default("3").at_least(1).high().cluster_wide()
        .doc("Threads of each listener that read requests from sockets and write answers to \
              them."),
    long("queued.max.request.bytes").default("-1").medium()
        .doc("Bytes of requests that may wait in memory before reading from sockets pauses; -1 \
              sets no bound."),
    int("queued.max.requests").default("500").at_least(1).high()
        .doc("Requests that may wait in memory before reading from sockets pauses."),
    int("request.timeout.ms").default("30000").high()
        .doc("How long the server, as a client of other nodes, waits for an answer before it \
              retries or gives up, in milliseconds."),
    string("security.inter.broker.protocol").default("PLAINTEXT")
        .one_of(SECURITY_PROTOCOLS).medium()
        .doc("Security protocol between brokers; it selects the listener of the same name. Leave \
              it out when `inter.broker.listener.name` is given."),
    long("socket.connection.setup.timeout.max.ms").default("30000").medium()
        .doc("Upper bound, in milliseconds, of the connection setup timeout, which doubles after \
              each failed attempt."),
    long("socket.connection.setup.timeout.ms").default("10000").medium()
        .doc("How long the server waits for a connection that it opens to another node to be \
              established, in milliseconds."),
    int("socket.listen.backlog.size").default("50").at_least(1).medium()
        .doc("Connections that may wait in the kernel to be accepted; the operating system can \
              impose a lower bound."),
    int("socket.receive.buffer.bytes").default("102400").high()
        .doc("Receive buffer of each server socket in bytes; -1 leaves the choice to the \
              operating system."),
    int("socket.request.max.bytes").default("104857600").at_least(1).high()
        .doc("Largest request, in bytes, that the server reads from a socket; a larger one \
              closes the connection."),
    int("socket.send.buffer.bytes").default("102400").high()
        .doc("Send buffer of each server socket in bytes; -1 leaves the choice to the operating \
              system."),
];
