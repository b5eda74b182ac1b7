//! The cluster, its log directories, its quorum and its features.

use super::{admin, run};
use model::TopicPartition;
use riverrun_client::admin::{FeatureUpdate, NewTopic, UpgradeKind};
use std::collections::BTreeMap;
use testkit::{TestServer, batch};

#[test]
fn a_cluster_is_described() {
    let server = TestServer::start(&[]);
    run(async {
        let admin = admin(server.address(), &[]);
        let cluster = admin.describe_cluster().await.unwrap();
        assert!(!cluster.cluster_id.is_empty());
        assert_eq!(cluster.brokers.len(), 1);
        let broker = &cluster.brokers[0];
        assert_eq!(cluster.controller, Some(broker.id));
        let port = server.address().port();
        assert_eq!(broker.endpoint.as_ref().unwrap().port, port);
        assert!(!broker.is_fenced);

        let quorum = admin.describe_quorum().await.unwrap();
        assert_eq!(quorum.leader_id, broker.id);
        assert_eq!(quorum.voters.len(), 1);
        assert!(quorum.high_watermark > 0);
    });
    server.stop();
}

#[test]
fn log_directories_show_what_is_in_them() {
    let server = TestServer::start(&[]);
    let mut producer = server.connect();
    run(async {
        let admin = admin(server.address(), &[]);
        let created = admin
            .create_topics(&[NewTopic::new("t").partitions(2)])
            .await;
        assert!(created["t"].is_ok());
        let records = batch(&["some", "records"]);
        producer.produce("t", 1, &records).assert_accepted();
        let described = admin.describe_log_dirs(None).await.unwrap();
        let directories = described.values().next().unwrap().as_ref().unwrap();
        assert_eq!(directories.len(), 1);
        let directory = &directories[0];
        assert_eq!(directory.error, None);
        assert!(directory.total_bytes.unwrap() > directory.usable_bytes.unwrap());
        let size = |index| directory.replicas[&TopicPartition::new("t", index)].size_bytes;
        assert_eq!((size(0), size(1)), (0, records.len() as i64));
    });
    server.stop();
}

#[test]
fn features_are_described_and_checked() {
    let server = TestServer::start(&[]);
    run(async {
        let admin = admin(server.address(), &[]);
        let features = admin.describe_features().await.unwrap();
        let finalized = features.finalized["metadata.version"];
        assert!(finalized.max <= features.supported["metadata.version"].max);
        let update = FeatureUpdate {
            level: 32_000,
            kind: UpgradeKind::Upgrade,
        };
        let updates = BTreeMap::from([("metadata.version".to_owned(), update)]);
        let refused = admin.update_features(&updates, true).await;
        assert!(refused.is_err(), "no such level is known");
    });
    server.stop();
}
