//! Quotas and credentials of users.

use super::{admin, run};
use riverrun_client::admin::{
    QuotaEntity, QuotaFilter, QuotaMatch, Quotas, ScramChange, ScramMechanism,
};
use std::collections::BTreeMap;
use testkit::TestServer;

fn entity(parts: &[(&str, Option<&str>)]) -> QuotaEntity {
    let owned =
        |(kind, name): &(&str, Option<&str>)| ((*kind).to_owned(), name.map(ToOwned::to_owned));
    parts.iter().map(owned).collect()
}

fn filter(parts: &[(&str, QuotaMatch)], is_strict: bool) -> QuotaFilter {
    QuotaFilter {
        parts: parts
            .iter()
            .map(|(kind, wanted)| ((*kind).to_owned(), wanted.clone()))
            .collect(),
        is_strict,
    }
}

#[test]
fn quotas_are_set_found_and_removed() {
    let server = TestServer::start(&[]);
    run(async {
        let admin = admin(server.address(), &[]);
        let alice = entity(&[("user", Some("alice"))]);
        let both = entity(&[("user", Some("alice")), ("client-id", Some("app"))]);
        let anybody = entity(&[("user", None)]);
        let limits = |key: &str, value: Option<f64>| BTreeMap::from([(key.to_owned(), value)]);
        let changes = BTreeMap::from([
            (alice.clone(), limits("producer_byte_rate", Some(1024.0))),
            (both.clone(), limits("consumer_byte_rate", Some(2048.0))),
            (anybody.clone(), limits("request_percentage", Some(50.0))),
        ]);
        let checked = admin.alter_client_quotas(&changes, true).await;
        assert!(checked.values().all(Result::is_ok), "{checked:?}");
        let all = QuotaFilter::default();
        assert!(admin.describe_client_quotas(&all).await.unwrap().is_empty());
        let altered = admin.alter_client_quotas(&changes, false).await;
        assert!(altered.values().all(Result::is_ok), "{altered:?}");
        assert_eq!(altered.len(), 3);
        let described = admin.describe_client_quotas(&all).await.unwrap();
        let expected = Quotas::from([("producer_byte_rate".to_owned(), 1024.0)]);
        assert_eq!((described.len(), &described[&alice]), (3, &expected));
        for (wanted, found) in [
            (
                filter(&[("user", QuotaMatch::Name("alice".into()))], true),
                vec![&alice],
            ),
            (
                filter(&[("user", QuotaMatch::Default)], false),
                vec![&anybody],
            ),
            (
                filter(&[("client-id", QuotaMatch::Any)], false),
                vec![&both],
            ),
        ] {
            let described = admin.describe_client_quotas(&wanted).await.unwrap();
            assert_eq!(described.keys().collect::<Vec<_>>(), found, "{wanted:?}");
        }
        let removed = BTreeMap::from([(alice.clone(), limits("producer_byte_rate", None))]);
        assert!(admin.alter_client_quotas(&removed, false).await[&alice].is_ok());
        let described = admin.describe_client_quotas(&all).await.unwrap();
        assert!(!described.contains_key(&alice), "{described:?}");
        let wrong = BTreeMap::from([(alice.clone(), limits("no_such_key", Some(1.0)))]);
        let refused = admin.alter_client_quotas(&wrong, false).await;
        let error = refused[&alice].as_ref().unwrap_err().to_string();
        assert!(error.contains("user=alice"), "{error}");
    });
    server.stop();
}

#[test]
fn credentials_are_set_shown_and_deleted() {
    let server = TestServer::start(&[]);
    run(async {
        let admin = admin(server.address(), &[]);
        let key = |mechanism| ("alice".to_owned(), mechanism);
        let set = |iterations| ScramChange::Set {
            password: "secret".to_owned(),
            iterations,
        };
        for (mechanism, iterations) in [
            (ScramMechanism::Sha256, 4096),
            (ScramMechanism::Sha512, 8192),
        ] {
            let changes = BTreeMap::from([(key(mechanism), set(iterations))]);
            let altered = admin.alter_scram_credentials(&changes).await.unwrap();
            assert_eq!(altered["alice"], Ok(()));
        }
        let described = admin.describe_scram_credentials(None).await.unwrap();
        let expected = BTreeMap::from([
            (ScramMechanism::Sha256, 4096),
            (ScramMechanism::Sha512, 8192),
        ]);
        assert_eq!(described["alice"].as_ref().unwrap(), &expected);
        let deleted = BTreeMap::from([(key(ScramMechanism::Sha256), ScramChange::Delete)]);
        assert_eq!(
            admin.alter_scram_credentials(&deleted).await.unwrap()["alice"],
            Ok(())
        );
        let users = ["alice", "nobody"];
        let described = admin
            .describe_scram_credentials(Some(&users))
            .await
            .unwrap();
        assert_eq!(described["alice"].as_ref().unwrap().len(), 1);
        let error = described["nobody"].as_ref().unwrap_err().to_string();
        assert!(error.contains("user `nobody`"), "{error}");
        let weak = BTreeMap::from([(key(ScramMechanism::Sha512), set(10))]);
        let refused = admin.alter_scram_credentials(&weak).await.unwrap();
        let error = refused["alice"].as_ref().unwrap_err().to_string();
        assert!(error.contains("user `alice`"), "{error}");
    });
    server.stop();
}
