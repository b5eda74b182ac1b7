//! Broker keys: the SASL mechanism OAUTHBEARER.

use crate::definition::{ANY, ConfigDefinition, boolean, class, int, list, long, password, string};

#[rustfmt::skip]
pub(super) const OAUTHBEARER: &[ConfigDefinition] = &[
    string("sasl.oauthbearer.assertion.algorithm").default("RS256")
        .one_of_any_case(&["ES256", "RS256"]).medium()
        .doc("Signature algorithm of the assertion sent to the token endpoint: RS256 or ES256."),
    string("sasl.oauthbearer.assertion.claim.aud").medium()
        .doc("Audience claim of the assertion."),
    int("sasl.oauthbearer.assertion.claim.exp.seconds").default("300").between(0, 86400).low()
        .doc("Seconds from its creation until the assertion expires."),
    string("sasl.oauthbearer.assertion.claim.iss").medium()
        .doc("Issuer claim of the assertion."),
    boolean("sasl.oauthbearer.assertion.claim.jti.include").default("false").medium()
        .doc("Whether the assertion carries a random identifier claim."),
    int("sasl.oauthbearer.assertion.claim.nbf.seconds").default("60").between(0, 3600).low()
        .doc("Seconds before its creation from which the assertion counts as valid, against \
              clocks that differ."),
    string("sasl.oauthbearer.assertion.claim.sub").medium()
        .doc("Subject claim of the assertion."),
    string("sasl.oauthbearer.assertion.file").medium()
        .doc("File with an assertion that was made beforehand."),
    string("sasl.oauthbearer.assertion.private.key.file").medium()
        .doc("File with the private key, as PEM text, that signs the assertion."),
    password("sasl.oauthbearer.assertion.private.key.passphrase").medium()
        .doc("Passphrase of the private key that signs the assertion."),
    string("sasl.oauthbearer.assertion.template.file").medium()
        .doc("File with the constant headers and claims of the assertion."),
    string("sasl.oauthbearer.client.credentials.client.id").medium()
        .doc("Client id of the client credentials grant."),
    password("sasl.oauthbearer.client.credentials.client.secret").medium()
        .doc("Client secret of the client credentials grant."),
    int("sasl.oauthbearer.clock.skew.seconds").default("30").low()
        .doc("Seconds by which the clocks of the token's issuer and of this server may differ."),
    list("sasl.oauthbearer.expected.audience").default("").list_of(ANY).high()
        .doc("Audiences of which a token must name one; empty means no check."),
    string("sasl.oauthbearer.expected.issuer").high()
        .doc("Issuer that a token must name; unset means no check."),
    long("sasl.oauthbearer.jwks.endpoint.refresh.ms").default("3600000").low()
        .doc("Milliseconds between two fetches of the provider's key set."),
    long("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms").default("10000").low()
        .doc("Longest pause between two attempts to fetch the provider's key set, in \
              milliseconds."),
    long("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms").default("100").low()
        .doc("First pause between two attempts to fetch the provider's key set, in milliseconds."),
    string("sasl.oauthbearer.jwks.endpoint.url").medium()
        .doc("Address of the provider's key set, over HTTPS or as a file."),
    class("sasl.oauthbearer.jwt.retriever.class")
        .default("org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever").medium()
        .doc("Class that obtains tokens."),
    class("sasl.oauthbearer.jwt.validator.class")
        .default("org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator").medium()
        .doc("Class that checks tokens."),
    string("sasl.oauthbearer.scope").medium()
        .doc("Scope asked for when a token is obtained."),
    string("sasl.oauthbearer.scope.claim.name").default("scope").low()
        .doc("Name of the claim that holds the scope."),
    string("sasl.oauthbearer.sub.claim.name").default("sub").low()
        .doc("Name of the claim that holds the subject."),
    string("sasl.oauthbearer.token.endpoint.url").medium()
        .doc("Address at which tokens are obtained."),
];
