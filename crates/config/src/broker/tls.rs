//! Broker keys: TLS and principals.

use crate::definition::{ANY, ConfigDefinition, boolean, class, list, password, string};

#[rustfmt::skip]
pub(super) const TLS: &[ConfigDefinition] = &[
    class("principal.builder.class")
        .default("org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder")
        .medium().per_broker()
        .doc("Class that derives the principal of a connection from its authentication."),
    string("security.providers").low()
        .doc("Classes of additional security providers."),
    boolean("ssl.allow.dn.changes").default("false").low()
        .doc("Whether a renewed certificate may carry another distinguished name."),
    boolean("ssl.allow.san.changes").default("false").low()
        .doc("Whether a renewed certificate may carry other alternative names."),
    list("ssl.cipher.suites").default("").list_of(ANY).medium().per_broker()
        .doc("Cipher suites that may be negotiated; empty means the defaults."),
    string("ssl.client.auth").default("none")
        .one_of(&["required", "requested", "none"]).medium().per_broker()
        .doc("Whether clients present a certificate: `required`, `requested` (may be left out) \
              or `none`."),
    list("ssl.enabled.protocols").default("TLSv1.2,TLSv1.3").list_of(ANY).medium().per_broker()
        .doc("TLS versions that may be negotiated."),
    string("ssl.endpoint.identification.algorithm").default("https").low().per_broker()
        .doc("How a server's certificate is checked against its host name: `https`, or empty for \
              no check."),
    class("ssl.engine.factory.class").low().per_broker()
        .doc("Class that builds the TLS engines."),
    password("ssl.key.password").medium().per_broker()
        .doc("Password of the private key."),
    string("ssl.keymanager.algorithm").default("SunX509").medium().per_broker()
        .doc("Algorithm of the key manager."),
    password("ssl.keystore.certificate.chain").medium().per_broker()
        .doc("Certificate chain as PEM text, instead of a key store file."),
    password("ssl.keystore.key").medium().per_broker()
        .doc("Private key as PEM text, instead of a key store file."),
    string("ssl.keystore.location").medium().per_broker()
        .doc("File of the key store with this server's certificate and key."),
    password("ssl.keystore.password").medium().per_broker()
        .doc("Password of the key store file."),
    string("ssl.keystore.type").default("JKS").medium().per_broker()
        .doc("Format of the key store: JKS, PKCS12 or PEM."),
    string("ssl.principal.mapping.rules").default("DEFAULT").low()
        .doc("Rules that turn a certificate's distinguished name into a user name; the first \
              that matches wins."),
    string("ssl.protocol").default("TLSv1.3").medium().per_broker()
        .doc("TLS version that contexts are made for."),
    string("ssl.provider").medium().per_broker()
        .doc("Security provider of TLS connections."),
    string("ssl.secure.random.implementation").low().per_broker()
        .doc("Random number generator of TLS."),
    string("ssl.trustmanager.algorithm").default("PKIX").medium().per_broker()
        .doc("Algorithm of the trust manager."),
    password("ssl.truststore.certificates").medium().per_broker()
        .doc("Trusted certificates as PEM text, instead of a trust store file."),
    string("ssl.truststore.location").medium().per_broker()
        .doc("File of the trust store with the certificates that are trusted."),
    password("ssl.truststore.password").medium().per_broker()
        .doc("Password of the trust store file."),
    string("ssl.truststore.type").default("JKS").medium().per_broker()
        .doc("Format of the trust store: JKS, PKCS12 or PEM."),
];
