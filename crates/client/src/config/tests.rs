use super::{ClientConfig, Endpoint, MetadataRecoveryStrategy, Setting, Settings};
use crate::Error;

fn refusal(key: &str, value: &str) -> String {
    let error = ClientConfig::default().set(key, value);
    error.expect_err("is refused").to_string()
}

#[test]
fn defaults_are_kafkas() {
    let check = |key: &str, value: &str| {
        assert_eq!(ClientConfig::default().text_of(key).as_deref(), Some(value));
    };
    check("request.timeout.ms", "30000");
    check("reconnect.backoff.ms", "50");
    check("reconnect.backoff.max.ms", "1000");
    check("retry.backoff.ms", "100");
    check("retry.backoff.max.ms", "1000");
    check("socket.connection.setup.timeout.ms", "10000");
    check("socket.connection.setup.timeout.max.ms", "30000");
    check("connections.max.idle.ms", "540000");
    check("metadata.max.age.ms", "300000");
    check("metadata.recovery.strategy", "rebootstrap");
    check("metadata.recovery.rebootstrap.trigger.ms", "300000");
    check("client.dns.lookup", "use_all_dns_ips");
    check("security.protocol", "PLAINTEXT");
    check("bootstrap.servers", "");
}

#[test]
fn every_default_can_be_set_from_its_own_text() {
    let config = ClientConfig::default();
    for key in ClientConfig::keys() {
        let text = config.text_of(key).expect("every key has a value");
        let mut again = ClientConfig::default();
        again.set(key, &text).expect("a default is allowed");
        assert_eq!(again, config, "{key}");
    }
}

#[test]
fn values_are_read_as_kafka_writes_them() {
    let config = ClientConfig::from_pairs([
        ("bootstrap.servers", "one:9092, [::1]:9093,"),
        ("metadata.recovery.strategy", "NONE"),
        ("connections.max.idle.ms", "-1"),
    ])
    .expect("is allowed");
    assert_eq!(
        config.bootstrap_servers,
        [Endpoint::new("one", 9092), Endpoint::new("::1", 9093)]
    );
    assert_eq!(config.bootstrap_text(), "one:9092,[::1]:9093");
    assert_eq!(
        config.metadata_recovery_strategy,
        MetadataRecoveryStrategy::None
    );
    assert_eq!(config.connections_max_idle_ms, -1);
}

#[test]
fn an_unknown_key_is_refused_with_the_nearest_one() {
    let check = |key: &str, expect: &str| {
        assert_eq!(refusal(key, "1"), format!("`{key}` = `1`: {expect}"));
    };
    check(
        "request.timeout",
        "there is no such setting; did you mean `request.timeout.ms`?",
    );
    check(
        "bootstrap.server",
        "there is no such setting; did you mean `bootstrap.servers`?",
    );
    check("colour", "there is no such setting");
    check(&"x".repeat(1_000), "there is no such setting");
}

#[test]
fn a_value_that_is_not_allowed_is_refused_with_what_is() {
    let check = |key: &str, value: &str, expect: &str| {
        assert_eq!(
            refusal(key, value),
            format!("`{key}` = `{value}`: {expect}")
        );
    };
    check("request.timeout.ms", "0", "must be from 1 to 2147483647");
    check(
        "metadata.recovery.strategy",
        "hope",
        "must be one of `none`, `rebootstrap`",
    );
    check("security.protocol", "SSL", "must be one of `PLAINTEXT`");
    check(
        "bootstrap.servers",
        "one:9092,two",
        "`two` is not `host:port`, such as `localhost:9092`",
    );
    let missing = ClientConfig::default().check();
    assert!(matches!(missing, Err(Error::Configuration { key, .. }) if key == "bootstrap.servers"));
}

#[test]
fn endpoints_are_hosts_and_ports() {
    let check = |text: &str, expect: Option<(&str, u16)>| {
        let parsed = Endpoint::parse(text).ok();
        assert_eq!(
            parsed,
            expect.map(|(host, port)| Endpoint::new(host, port)),
            "{text}"
        );
    };
    check("localhost:9092", Some(("localhost", 9092)));
    check("PLAINTEXT://localhost:9092", Some(("localhost", 9092)));
    check("10.0.0.1:1", Some(("10.0.0.1", 1)));
    check("[fe80::1%eth0]:65535", Some(("fe80::1%eth0", 65_535)));
    for text in [
        "",
        ":",
        "localhost",
        ":9092",
        "a:0",
        "a:65536",
        "::1:9092",
        "[::1:9092",
        "a b:1",
    ] {
        check(text, None);
    }
}
