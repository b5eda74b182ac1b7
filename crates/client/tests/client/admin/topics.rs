//! Topics, their partitions and offsets.

use super::{admin, run};
use model::{ErrorCode, TopicPartition};
use riverrun_client::Error;
use riverrun_client::admin::{
    Admin, CreatedTopic, ElectionKind, IsolationLevel, NewPartitions, NewTopic, OffsetSpec,
};
use std::collections::{BTreeMap, BTreeSet};
use testkit::{TestServer, batch, idempotent_batch};

/// The protocol's error of a refusal.
#[track_caller]
fn code<T: std::fmt::Debug>(result: Result<T, Error>) -> ErrorCode {
    match result {
        Err(Error::Refused { code, .. }) => code,
        other => panic!("{other:?} is no refusal"),
    }
}

async fn create(admin: &Admin, topic: NewTopic) -> Result<CreatedTopic, Error> {
    let name = topic.name.clone();
    let mut created = admin.create_topics(&[topic]).await;
    created.remove(&name).expect("every topic has an answer")
}

#[test]
fn topics_are_created_described_grown_and_deleted() {
    let server = TestServer::start(&[]);
    run(async {
        let admin = admin(server.address(), &[]);
        let topic = NewTopic::new("orders").partitions(3).replication_factor(1);
        let created = create(&admin, topic).await.unwrap();
        assert_eq!(created.partition_count, Some(3));
        assert_eq!(created.replication_factor, Some(1));

        let listed = admin.list_topics().await.unwrap();
        assert_eq!(listed.len(), 1);
        assert_eq!((&*listed[0].name, listed[0].partition_count), ("orders", 3));
        assert_eq!(Some(listed[0].id), created.id);

        let growth = NewPartitions {
            total_count: 5,
            assignments: Vec::new(),
        };
        let growth = BTreeMap::from([("orders".to_owned(), growth)]);
        admin.validate_partitions(&growth).await["orders"]
            .clone()
            .unwrap();
        admin.create_partitions(&growth).await["orders"]
            .clone()
            .unwrap();
        let described = admin.describe_topics(&["orders"]).await;
        let orders = described["orders"].as_ref().unwrap();
        assert_eq!(Some(orders.id), created.id);
        let indexes: Vec<i32> = orders.partitions.iter().map(|p| p.index).collect();
        assert_eq!(indexes, [0, 1, 2, 3, 4]);
        assert!(orders.partitions.iter().all(|p| p.leader.is_some()));
        assert_eq!(
            orders.partitions[0].replicas,
            orders.partitions[0].in_sync_replicas
        );

        admin.delete_topics(&["orders"]).await["orders"]
            .clone()
            .unwrap();
        assert_eq!(admin.list_topics().await.unwrap(), []);
    });
    server.stop();
}

#[test]
fn each_topic_of_a_call_has_its_own_answer() {
    let server = TestServer::start(&[]);
    run(async {
        let admin = admin(server.address(), &[]);
        create(&admin, NewTopic::new("taken")).await.unwrap();
        let topics = [
            NewTopic::new("taken"),
            NewTopic::new("new").config("retention.ms", "1000"),
            NewTopic::new("bad/name"),
            NewTopic::new("odd").config("no.such.key", "1"),
        ];
        let mut created = admin.create_topics(&topics).await;
        let mut take = |name: &str| created.remove(name).expect("has an answer");
        assert_eq!(code(take("taken")), ErrorCode::TopicAlreadyExists);
        assert!(take("new").is_ok());
        assert_eq!(code(take("bad/name")), ErrorCode::InvalidTopicException);
        assert_eq!(code(take("odd")), ErrorCode::InvalidConfig);
        assert!(created.is_empty());

        let validated = admin
            .validate_topics(&[NewTopic::new("only-checked")])
            .await;
        assert!(validated["only-checked"].is_ok());
        let names: Vec<String> = admin
            .list_topics()
            .await
            .unwrap()
            .into_iter()
            .map(|t| t.name)
            .collect();
        assert_eq!(names, ["new", "taken"]);
    });
    server.stop();
}

#[test]
fn what_does_not_exist_is_refused_soon() {
    let server = TestServer::start(&[]);
    run(async {
        let admin = admin(server.address(), &[("retry.backoff.ms", "5")]);
        let unknown = ErrorCode::UnknownTopicOrPartition;
        let mut described = admin.describe_topics(&["no"]).await;
        assert_eq!(code(described.remove("no").unwrap()), unknown);
        let mut deleted = admin.delete_topics(&["no"]).await;
        assert_eq!(code(deleted.remove("no").unwrap()), unknown);
        create(&admin, NewTopic::new("one").partitions(1))
            .await
            .unwrap();
        for key in [TopicPartition::new("no", 0), TopicPartition::new("one", 7)] {
            let asked = BTreeMap::from([(key.clone(), OffsetSpec::Latest)]);
            let mut listed = admin
                .list_offsets(&asked, IsolationLevel::ReadUncommitted)
                .await;
            assert_eq!(code(listed.remove(&key).unwrap()), unknown, "{key}");
        }
    });
    server.stop();
}

#[test]
fn a_description_of_many_partitions_comes_in_pages() {
    let server = TestServer::start(&[("max.request.partition.size.limit", "7")]);
    run(async {
        let admin = admin(server.address(), &[]);
        let names = ["a", "b", "c"];
        for name in names {
            create(&admin, NewTopic::new(name).partitions(10))
                .await
                .unwrap();
        }
        let described = admin.describe_topics(&["c", "a", "b", "missing"]).await;
        for name in names {
            let partitions = &described[name].as_ref().unwrap().partitions;
            let indexes: Vec<i32> = partitions.iter().map(|p| p.index).collect();
            assert_eq!(indexes, (0..10).collect::<Vec<_>>(), "{name}");
        }
        assert!(described["missing"].is_err());
    });
    server.stop();
}

#[test]
fn offsets_are_listed_and_records_deleted() {
    let server = TestServer::start(&[]);
    let mut producer = server.connect();
    run(async {
        let admin = admin(server.address(), &[]);
        create(&admin, NewTopic::new("log").partitions(2))
            .await
            .unwrap();
        producer
            .produce("log", 0, &batch(&["a", "b", "c"]))
            .assert_accepted();
        producer
            .produce("log", 1, &idempotent_batch(7, 0, 0, &["x"]))
            .assert_accepted();
        let zero = TopicPartition::new("log", 0);
        let one = TopicPartition::new("log", 1);
        let specs = [
            (OffsetSpec::Earliest, 0),
            (OffsetSpec::Latest, 3),
            (OffsetSpec::AtTimestamp(0), 0),
            (OffsetSpec::AtTimestamp(i64::MAX), -1),
        ];
        for (spec, offset) in specs {
            let asked = BTreeMap::from([(zero.clone(), spec), (one.clone(), OffsetSpec::Latest)]);
            let listed = admin
                .list_offsets(&asked, IsolationLevel::ReadCommitted)
                .await;
            assert_eq!(listed[&zero].as_ref().unwrap().offset, offset, "{spec:?}");
            assert_eq!(listed[&one].as_ref().unwrap().offset, 1);
        }
        let producers = admin.describe_producers(&[zero.clone(), one.clone()]).await;
        assert_eq!(producers[&zero], Ok(Vec::new()));
        assert_eq!(producers[&one].as_ref().unwrap()[0].producer_id, 7);

        let deleted = admin
            .delete_records(&BTreeMap::from([(zero.clone(), 2)]))
            .await;
        assert_eq!(deleted[&zero], Ok(2));
        let refused = admin
            .delete_records(&BTreeMap::from([(zero.clone(), 9)]))
            .await;
        assert_eq!(code(refused[&zero].clone()), ErrorCode::OffsetOutOfRange);

        let partitions = BTreeSet::from([zero.clone()]);
        let elected = admin
            .elect_leaders(ElectionKind::Preferred, Some(&partitions))
            .await;
        assert_eq!(
            code(elected.unwrap()[&zero].clone()),
            ErrorCode::ElectionNotNeeded
        );
    });
    server.stop();
}

#[test]
fn a_call_can_run_on_any_thread() {
    fn assert_send<T: Send>(_: &T) {}
    let server = TestServer::start(&[]);
    run(async {
        let admin = admin(server.address(), &[]);
        assert_send(&admin.create_topics(&[]));
        assert_send(&admin.describe_topics(&[]));
        assert_send(&admin.list_groups(&riverrun_client::admin::GroupFilter::default()));
        let moved = tokio::spawn(async move { admin.list_topics().await });
        assert_eq!(moved.await.unwrap(), Ok(Vec::new()));
    });
    server.stop();
}
