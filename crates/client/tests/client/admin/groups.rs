//! Groups and their offsets.

use super::{admin, run};
use model::{ErrorCode, TopicPartition};
use riverrun_client::Error;
use riverrun_client::admin::{
    CommittedOffset, GroupFilter, MembersToRemove, NewTopic, TransactionFilter,
};
use std::collections::BTreeMap;
use testkit::TestServer;

#[test]
#[expect(clippy::too_many_lines, reason = "a script is read from top to bottom")]
fn offsets_of_a_group_are_altered_listed_and_deleted() {
    let server = TestServer::start(&[]);
    run(async {
        let admin = admin(server.address(), &[]);
        let created = admin
            .create_topics(&[NewTopic::new("t").partitions(2)])
            .await;
        assert!(created["t"].is_ok());
        let zero = TopicPartition::new("t", 0);
        let one = TopicPartition::new("t", 1);
        let offsets = BTreeMap::from([
            (zero.clone(), CommittedOffset::at(5)),
            (
                one.clone(),
                CommittedOffset {
                    offset: 7,
                    leader_epoch: Some(0),
                    metadata: "note".to_owned(),
                },
            ),
        ]);
        let altered = admin.alter_group_offsets("g", &offsets).await.unwrap();
        assert_eq!(altered.len(), 2);
        assert!(altered.values().all(Result::is_ok));

        let listed = admin.list_group_offsets("g", None, false).await.unwrap();
        let expect = |key: &TopicPartition| Ok(Some(offsets[key].clone()));
        assert_eq!(
            (&listed[&zero], &listed[&one]),
            (&expect(&zero), &expect(&one))
        );
        let missing = TopicPartition::new("t", 9);
        let some = [zero.clone(), missing.clone()];
        let listed = admin
            .list_group_offsets("g", Some(&some), true)
            .await
            .unwrap();
        assert_eq!(
            (&listed[&zero], &listed[&missing]),
            (&expect(&zero), &Ok(None))
        );

        let groups = admin.list_groups(&GroupFilter::default()).await.unwrap();
        assert_eq!(groups.len(), 1);
        assert_eq!(
            (&*groups[0].id, groups[0].state.as_deref()),
            ("g", Some("Empty"))
        );
        let filter = GroupFilter {
            states: vec!["Stable".to_owned()],
            types: Vec::new(),
        };
        assert_eq!(admin.list_groups(&filter).await, Ok(Vec::new()));

        let deleted = admin
            .delete_group_offsets("g", std::slice::from_ref(&one))
            .await
            .unwrap();
        assert_eq!(deleted[&one], Ok(()));
        let listed = admin.list_group_offsets("g", None, false).await.unwrap();
        assert_eq!(listed.keys().collect::<Vec<_>>(), [&zero]);

        let deleted = admin.delete_groups(&["g", "none"]).await;
        assert_eq!(deleted["g"], Ok(()));
        let refused = deleted["none"].clone();
        assert!(matches!(
            refused,
            Err(Error::Refused {
                code: ErrorCode::GroupIdNotFound,
                ..
            })
        ));
        assert_eq!(
            admin.list_groups(&GroupFilter::default()).await,
            Ok(Vec::new())
        );
    });
    server.stop();
}

#[test]
fn a_group_without_members_is_described() {
    let server = TestServer::start(&[]);
    run(async {
        let admin = admin(server.address(), &[]);
        let created = admin.create_topics(&[NewTopic::new("t")]).await;
        assert!(created["t"].is_ok());
        let key = TopicPartition::new("t", 0);
        let offsets = BTreeMap::from([(key.clone(), CommittedOffset::at(1))]);
        admin.alter_group_offsets("g", &offsets).await.unwrap()[&key]
            .clone()
            .unwrap();
        let described = admin.describe_groups(&["g", "none"]).await;
        let group = described["g"].as_ref().unwrap();
        assert_eq!((&*group.state, group.members.len()), ("Empty", 0));
        assert!(described["none"].is_err());
        let removed = admin
            .remove_members("g", &MembersToRemove::All)
            .await
            .unwrap();
        assert!(removed.is_empty());
        let instances = MembersToRemove::Instances(vec!["nobody".to_owned()]);
        let removed = admin.remove_members("g", &instances).await.unwrap();
        assert!(removed["nobody"].is_err());
    });
    server.stop();
}

#[test]
fn transactions_are_asked_of_their_coordinators() {
    let server = TestServer::start(&[]);
    run(async {
        let admin = admin(server.address(), &[("default.api.timeout.ms", "20000")]);
        // What is not served is an error that says so, and no transaction is no error.
        match admin.list_transactions(&TransactionFilter::default()).await {
            Ok(listed) => assert_eq!(listed, []),
            Err(error) => assert!(matches!(error, Error::Unsupported { .. }), "{error}"),
        }
        let described = admin.describe_transactions(&["none"]).await;
        assert!(described["none"].is_err());
    });
    server.stop();
}
