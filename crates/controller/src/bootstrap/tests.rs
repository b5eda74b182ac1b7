use super::*;
use crate::test_cluster::TestCluster;
use metadata::{MetadataLoader, Provenance};

fn feature(name: &str, level: i16) -> MetadataRecord {
    MetadataRecord::FeatureLevel {
        name: name.to_owned(),
        level,
    }
}

fn begin() -> MetadataRecord {
    MetadataRecord::BeginTransaction {
        name: Some("Bootstrap records".to_owned()),
    }
}

fn abort() -> MetadataRecord {
    MetadataRecord::AbortTransaction {
        reason: Some("Controller failover".to_owned()),
    }
}

fn min_insync_replicas(value: &str) -> MetadataRecord {
    MetadataRecord::Config {
        resource: ConfigResource::all_brokers(),
        name: MIN_INSYNC_REPLICAS.to_owned(),
        value: Some(value.to_owned()),
    }
}

#[test]
fn a_new_cluster_has_the_features_of_its_metadata_version() {
    assert_eq!(
        bootstrap_records(MetadataVersion::LATEST),
        [
            feature("metadata.version", 30),
            feature(ELIGIBLE_LEADER_REPLICAS_FEATURE, 1),
            feature("group.version", 1),
            feature("share.version", 1),
            feature("streams.version", 1),
            feature("transaction.version", 2),
        ]
    );
    let old = MetadataVersion::from_name("4.0").unwrap();
    assert_eq!(
        bootstrap_records(old),
        [
            feature("metadata.version", 25),
            feature("group.version", 1),
            feature("transaction.version", 2),
        ]
    );
}

#[test]
fn an_empty_log_begins_with_a_transaction() {
    let cluster = TestCluster::new(&[("min.insync.replicas", "2")]);
    let empty = MetadataImage::default();
    let bootstrap = bootstrap_records(MetadataVersion::LATEST);
    let decision = activate(&empty, &cluster.context(), &bootstrap, false).unwrap();
    let mut expected = vec![begin()];
    expected.extend(bootstrap.clone());
    expected.extend([min_insync_replicas("2"), MetadataRecord::EndTransaction]);
    assert_eq!(decision.records, expected);
    let mut loader = MetadataLoader::new(empty.clone());
    for record in &decision.records {
        loader.replay(record, Provenance::EMPTY).unwrap();
    }
    assert!(loader.image().features.has_eligible_leader_replicas());

    // The last controller did not come to the end of it.
    let decision = activate(&empty, &cluster.context(), &bootstrap, true).unwrap();
    assert_eq!(decision.records[..2], [abort(), begin()]);
}

#[test]
fn a_log_that_has_begun_goes_on() {
    let cluster = TestCluster::new(&[]);
    let decision = activate(&cluster.image, &cluster.context(), &[], false).unwrap();
    assert_eq!(decision.records, []);
    let decision = activate(&cluster.image, &cluster.context(), &[], true).unwrap();
    assert_eq!(decision.records, [abort()]);
}

#[test]
fn old_metadata_versions_know_no_transactions() {
    let cluster = TestCluster::new(&[]);
    let bootstrap = [feature("metadata.version", 12)];
    let empty = MetadataImage::default();
    let decision = activate(&empty, &cluster.context(), &bootstrap, false).unwrap();
    assert!(decision.is_atomic);
    assert_eq!(decision.records, bootstrap);
    for bootstrap in [&[][..], &[feature("metadata.version", 31)]] {
        let refused = activate(&empty, &cluster.context(), bootstrap, false);
        assert_eq!(refused, Err(NoMetadataVersion));
    }
}
