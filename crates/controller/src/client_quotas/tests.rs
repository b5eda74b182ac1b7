use super::*;
use crate::test_cluster::{TestCluster, wrapped};
use expect_test::{Expect, expect};

/// `user=alice,client-id=` is alice with the default of client ids.
fn entity(text: &str) -> QuotaEntity {
    let entries = text.split(',').filter(|one| !one.is_empty());
    QuotaEntity(
        entries
            .map(|one| {
                let (kind, name) = one.split_once('=').unwrap();
                let name = match name {
                    "" => None,
                    "''" => Some(String::new()),
                    name => Some(name.to_owned()),
                };
                (kind.to_owned(), name)
            })
            .collect(),
    )
}

/// `ENTITY KEY=VALUE …` with `KEY-` to remove.
fn alteration(text: &str) -> QuotaAlteration {
    let mut words = text.split(' ');
    let entity = entity(words.next().unwrap());
    let operations = words.map(|word| match word.split_once('=') {
        Some((key, value)) => (key.to_owned(), Some(value.parse().unwrap())),
        None => (word.trim_end_matches('-').to_owned(), None),
    });
    QuotaAlteration {
        entity,
        operations: operations.collect(),
    }
}

fn is_host(name: &str) -> bool {
    name != "nowhere"
}

fn alter(cluster: &mut TestCluster, request: &str) -> String {
    let alterations: Vec<_> = request.split("; ").map(alteration).collect();
    let decision = alter_client_quotas(&cluster.image, &alterations, &is_host, false);
    let checked = alter_client_quotas(&cluster.image, &alterations, &is_host, true);
    assert_eq!(checked.records, []);
    assert_eq!(checked.response, decision.response);
    cluster.replay(&decision.records);
    let results = decision.response.iter().map(|(_, result)| match result {
        Ok(()) => "ok".to_owned(),
        Err(error) => format!("{error}"),
    });
    let results: Vec<String> = results.collect();
    let count = decision.records.len();
    format!("{request} -> {count}: {}\n", results.join("; "))
}

#[expect(clippy::needless_pass_by_value, reason = "reads as a table")]
fn check(requests: &[&str], expect: Expect) {
    let mut cluster = TestCluster::new(&[]);
    let shown: String = requests
        .iter()
        .map(|one| alter(&mut cluster, one))
        .collect();
    expect.assert_eq(&wrapped(&shown));
}

#[test]
fn quotas_are_set_changed_and_removed() {
    check(
        &[
            "user=alice producer_byte_rate=1000 consumer_byte_rate=5",
            "user=alice producer_byte_rate=1000",
            "user=alice producer_byte_rate=2000 request_percentage=12.5",
            "user=alice producer_byte_rate- controller_mutation_rate-",
            "user=,client-id=app producer_byte_rate-",
            "user=,client-id=app producer_byte_rate=1; ip=10.0.0.1 connection_creation_rate=3",
            "ip= connection_creation_rate=4",
        ],
        expect![[r#"
            user=alice producer_byte_rate=1000 consumer_byte_rate=5 -> 2: ok
            user=alice producer_byte_rate=1000 -> 0: ok
            user=alice producer_byte_rate=2000 request_percentage=12.5 -> 2: ok
            user=alice producer_byte_rate- controller_mutation_rate- -> 1: ok
            user=,client-id=app producer_byte_rate- -> 0: ok
            user=,client-id=app producer_byte_rate=1; ip=10.0.0.1 connection_creation_rate=3 -> 2: ok;
                ok
            ip= connection_creation_rate=4 -> 1: ok
        "#]],
    );
}

#[test]
fn what_is_wrong_is_refused_in_kafkas_words() {
    check(
        &[
            " producer_byte_rate=1",
            "group=g producer_byte_rate=1",
            "user='' producer_byte_rate=1",
            "user=a,ip=10.0.0.1 producer_byte_rate=1",
            "ip=nowhere connection_creation_rate=1",
            "ip=10.0.0.1 producer_byte_rate=1",
            "user=a connection_creation_rate=1",
            "user=a producer_byte_rate=0",
            "user=a producer_byte_rate=1.5",
            "user=a producer_byte_rate=1e19",
            "ip= connection_creation_rate=3e9",
            "user=a request_percentage=1e19",
            "user=a producer_byte_rate=1 producer_byte_rate=2",
            "user=b producer_byte_rate=1; user=b producer_byte_rate=2",
            "user=c,client-id=d producer_byte_rate=1 nonsense=1",
        ],
        expect![[r#"
             producer_byte_rate=1 -> 0: INVALID_REQUEST: Invalid empty client quota entity
            group=g producer_byte_rate=1 -> 0: INVALID_REQUEST: Unhandled client quota entity type:
                group
            user='' producer_byte_rate=1 -> 0: INVALID_REQUEST: Empty user not supported
            user=a,ip=10.0.0.1 producer_byte_rate=1 -> 0: INVALID_REQUEST: Invalid quota entity
                combination, IP entity shouldnot be combined with User or ClientId
            ip=nowhere connection_creation_rate=1 -> 0: INVALID_REQUEST: nowhere is not a valid IP or
                resolvable host.
            ip=10.0.0.1 producer_byte_rate=1 -> 0: INVALID_REQUEST: Invalid configuration key
                producer_byte_rate
            user=a connection_creation_rate=1 -> 0: INVALID_REQUEST: Invalid configuration key
                connection_creation_rate
            user=a producer_byte_rate=0 -> 0: INVALID_REQUEST: Quota producer_byte_rate must be
                greater than 0
            user=a producer_byte_rate=1.5 -> 0: INVALID_REQUEST: producer_byte_rate cannot be a
                fractional value.
            user=a producer_byte_rate=1e19 -> 0: INVALID_REQUEST: Proposed value for
                producer_byte_rate is too large for a LONG.
            ip= connection_creation_rate=3e9 -> 0: INVALID_REQUEST: Proposed value for
                connection_creation_rate is too large for an INT.
            user=a request_percentage=1e19 -> 1: ok
            user=a producer_byte_rate=1 producer_byte_rate=2 -> 0: INVALID_REQUEST: Ignoring duplicate
                entity ClientQuotaEntity(entries={user=a})
            user=b producer_byte_rate=1; user=b producer_byte_rate=2 -> 1: INVALID_REQUEST: Ignoring
                duplicate entity ClientQuotaEntity(entries={user=b})
            user=c,client-id=d producer_byte_rate=1 nonsense=1 -> 0: INVALID_REQUEST: Invalid
                configuration key nonsense
        "#]],
    );
}

#[test]
fn a_filter_names_the_types_that_entities_have() {
    let mut cluster = TestCluster::new(&[]);
    for request in [
        "user=alice producer_byte_rate=1",
        "user= producer_byte_rate=2",
        "user=alice,client-id=app producer_byte_rate=3",
        "client-id= producer_byte_rate=4",
        "ip=10.0.0.1 connection_creation_rate=5",
    ] {
        alter(&mut cluster, request);
    }
    let describe = |filters: &[(&str, i8, Option<&str>)], is_strict: bool| {
        let filters: Vec<_> = filters
            .iter()
            .map(|(kind, match_type, name)| QuotaFilter {
                entity_type: (*kind).to_owned(),
                match_type: *match_type,
                name: name.map(str::to_owned),
            })
            .collect();
        match describe_client_quotas(&cluster.image, &filters, is_strict) {
            Ok(found) => {
                let found = found.iter().map(|(_, quotas)| {
                    let values = quotas.values().map(ToString::to_string);
                    values.collect::<Vec<_>>().join(",")
                });
                found.collect::<Vec<_>>().join(" ")
            }
            Err(error) => error.to_string(),
        }
    };
    assert_eq!(describe(&[], false).split(' ').count(), 5);
    assert_eq!(describe(&[], true), "");
    assert_eq!(describe(&[("user", 0, Some("alice"))], true), "1");
    assert_eq!(describe(&[("user", 1, None)], true), "2");
    let mut all: Vec<char> = describe(&[("user", 2, None)], false).chars().collect();
    all.sort_unstable();
    assert_eq!(all.iter().collect::<String>().trim(), "123");
    assert_eq!(
        describe(&[("user", 0, Some("alice")), ("client-id", 2, None)], true),
        "3"
    );
    assert_eq!(describe(&[("ip", 2, None)], false), "5");
    let refused = |filters: &[(&str, i8, Option<&str>)], code: &str| {
        let shown = describe(filters, false);
        assert!(shown.starts_with(code), "{shown}");
    };
    refused(&[("", 2, None)], "INVALID_REQUEST");
    refused(&[("user", 2, None), ("user", 1, None)], "INVALID_REQUEST");
    refused(&[("group", 2, None)], "UNSUPPORTED_VERSION");
    refused(&[("user", 0, None)], "INVALID_REQUEST");
    refused(&[("user", 1, Some("x"))], "INVALID_REQUEST");
    refused(&[("user", 2, Some("x"))], "INVALID_REQUEST");
    refused(&[("user", 3, None)], "INVALID_REQUEST");
    refused(&[("user", 2, None), ("ip", 2, None)], "INVALID_REQUEST");
}
