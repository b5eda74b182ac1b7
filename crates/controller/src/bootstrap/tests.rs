use super::*;
use metadata::{MetadataImage, MetadataLoader, Provenance};

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
    let bootstrap = bootstrap_records(MetadataVersion::LATEST);
    let first = first_records(bootstrap.clone(), 2).unwrap();
    let mut expected = bootstrap;
    expected.push(min_insync_replicas("2"));
    assert_eq!(first, expected);
    let records = activation(first.clone(), true, false);
    let mut loader = MetadataLoader::new(MetadataImage::default());
    for record in &records {
        loader.replay(record, Provenance::EMPTY).unwrap();
    }
    assert!(loader.image().features.has_eligible_leader_replicas());
    assert_eq!(records[0], begin());
    assert_eq!(records[1..records.len() - 1], first);
    assert_eq!(records.last(), Some(&MetadataRecord::EndTransaction));

    // The last controller did not come to the end of it.
    let records = activation(first, true, true);
    assert_eq!(records[..2], [abort(), begin()]);
}

#[test]
fn a_log_that_has_begun_goes_on() {
    assert_eq!(activation(Vec::new(), true, false), []);
    assert_eq!(activation(Vec::new(), true, true), [abort()]);
}

#[test]
fn old_metadata_versions_know_no_transactions() {
    let bootstrap = vec![feature("metadata.version", 12)];
    let first = first_records(bootstrap.clone(), 1).unwrap();
    assert_eq!(first, bootstrap);
    assert_eq!(activation(first, false, false), bootstrap);
    for bootstrap in [vec![], vec![feature("metadata.version", 31)]] {
        assert_eq!(first_records(bootstrap, 1), Err(NoMetadataVersion));
    }
}
