//! Broker keys: SASL, Kerberos and delegation tokens.

use crate::definition::{
    ANY, ConfigDefinition, class, double, int, list, long, password, short, string,
};

#[rustfmt::skip]
pub(super) const SASL: &[ConfigDefinition] = &[
    long("connections.max.reauth.ms").default("0").medium()
        .doc("Longest time, in milliseconds, that a SASL session lives before its client must \
              authenticate again; zero asks for no second authentication."),
    long("delegation.token.expiry.check.interval.ms").default("3600000").at_least(1).low()
        .doc("Milliseconds between two searches for expired delegation tokens."),
    long("delegation.token.expiry.time.ms").default("86400000").at_least(1).medium()
        .doc("How long a delegation token is valid before it must be renewed, in milliseconds."),
    long("delegation.token.max.lifetime.ms").default("604800000").at_least(1).medium()
        .doc("Longest life of a delegation token, renewals included, in milliseconds."),
    password("delegation.token.secret.key").medium()
        .doc("Secret with which delegation tokens are made and checked; the same on every node."),
    class("sasl.client.callback.handler.class").medium()
        .doc("Class of the client's callback handler."),
    list("sasl.enabled.mechanisms").default("GSSAPI").list_of(ANY).medium().per_broker()
        .doc("SASL mechanisms that the server offers."),
    password("sasl.jaas.config").medium().per_broker()
        .doc("Login settings of a SASL mechanism in the JAAS form; normally given under a \
              listener's and mechanism's prefix."),
    string("sasl.kerberos.kinit.cmd").default("/usr/bin/kinit").medium().per_broker()
        .doc("Path of the `kinit` command."),
    long("sasl.kerberos.min.time.before.relogin").default("60000").medium().per_broker()
        .doc("Milliseconds that the login thread sleeps between two attempts to renew a ticket."),
    list("sasl.kerberos.principal.to.local.rules").default("DEFAULT").list_of(ANY)
        .medium().per_broker()
        .doc("Rules that turn a Kerberos principal into a user name; the first that matches \
              wins."),
    string("sasl.kerberos.service.name").medium().per_broker()
        .doc("Kerberos service name of the server."),
    double("sasl.kerberos.ticket.renew.jitter").default("0.05").medium().per_broker()
        .doc("Random share added to the time of a ticket's renewal."),
    double("sasl.kerberos.ticket.renew.window.factor").default("0.8").medium().per_broker()
        .doc("Share of a ticket's life after which it is renewed."),
    class("sasl.login.callback.handler.class").medium()
        .doc("Class of the login callback handler."),
    class("sasl.login.class").medium()
        .doc("Class that performs the login."),
    int("sasl.login.connect.timeout.ms").low()
        .doc("How long connecting to an external authentication provider may take, in \
              milliseconds."),
    int("sasl.login.read.timeout.ms").low()
        .doc("How long reading from an external authentication provider may take, in \
              milliseconds."),
    short("sasl.login.refresh.buffer.seconds").default("300").medium().per_broker()
        .doc("Seconds before a credential expires that must be left when it is refreshed."),
    short("sasl.login.refresh.min.period.seconds").default("60").medium().per_broker()
        .doc("Seconds that a credential is kept at least before it is refreshed."),
    double("sasl.login.refresh.window.factor").default("0.8").medium().per_broker()
        .doc("Share of a credential's life after which it is refreshed."),
    double("sasl.login.refresh.window.jitter").default("0.05").medium().per_broker()
        .doc("Random share added to the time of a credential's refresh."),
    long("sasl.login.retry.backoff.max.ms").default("10000").low()
        .doc("Longest pause between two attempts to log in at an external provider, in \
              milliseconds."),
    long("sasl.login.retry.backoff.ms").default("100").low()
        .doc("First pause between two attempts to log in at an external provider, in \
              milliseconds."),
    string("sasl.mechanism.inter.broker.protocol").default("GSSAPI").medium().per_broker()
        .doc("SASL mechanism between brokers."),
    class("sasl.server.callback.handler.class").medium()
        .doc("Class of the server's callback handler; given under a listener's and mechanism's \
              prefix."),
    int("sasl.server.max.receive.size").default("524288").medium()
        .doc("Largest token accepted while a connection authenticates, in bytes."),
];
