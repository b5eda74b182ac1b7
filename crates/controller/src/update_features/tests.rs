use super::*;
use crate::test_cluster::{TestCluster, wrapped};
use expect_test::{Expect, expect};
use metadata::ControllerRegistration;
use model::{BrokerId, Uuid};

fn parse(script: &str) -> Vec<FeatureUpdate> {
    let lines = script.split(';').map(str::split_whitespace);
    lines
        .map(|mut words| FeatureUpdate {
            feature: words.next().unwrap().to_owned(),
            level: words.next().unwrap().parse().unwrap(),
            upgrade_type: UpgradeType::from_id(words.next().unwrap().parse().unwrap()),
        })
        .collect()
}

/// `feature level type`, separated by semicolons; kraft.version is 0.
fn update(cluster: &mut TestCluster, script: &str) -> String {
    let context = cluster.context();
    match update_features(&cluster.image, &context, 0, &parse(script), false) {
        Err(error) => {
            assert_eq!(error.code, ErrorCode::InvalidUpdateVersion);
            let message = error.message.unwrap();
            let (_, words) = message.split_once(" had an error: ").unwrap();
            format!("{script}: {words}\n")
        }
        Ok(Decision {
            records, response, ..
        }) => {
            cluster.replay(&records);
            let levels = cluster.image.features.finalized();
            let records = records.len();
            format!("{script}: {records} records, {levels:?} {response:?}\n")
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "reads as a table")]
fn check(scripts: &[&str], expect: Expect) {
    let shown = scripts.iter().map(|script| {
        let mut cluster = TestCluster::new(&[]).with_brokers(&[BrokerId(1), BrokerId(2)]);
        update(&mut cluster, script)
    });
    expect.assert_eq(&wrapped(&shown.collect::<String>()));
}

#[test]
fn levels_are_checked_in_kafkas_words() {
    check(
        &[
            "metadata.version 31 1",
            "metadata.version 6 3",
            "metadata.version -1 1",
            "metadata.version 29 1",
            "metadata.version 29 2",
            "metadata.version 29 3",
            "metadata.version 30 1",
            "metadata.version 30 2",
            "metadata.version 30 0",
            "nosuch 1 1",
            "nosuch 0 1",
            "kraft.version 2 1",
            "kraft.version 0 2",
            "kraft.version 0 1",
            "kraft.version 1 1",
            "group.version 1 1",
            "eligible.leader.replicas.version 1 2",
            "eligible.leader.replicas.version 1 1",
            "eligible.leader.replicas.version 0 2; eligible.leader.replicas.version 1 1",
            "eligible.leader.replicas.version 1 1; nosuch 1 1",
        ],
        expect![[r#"
            metadata.version 31 1: Invalid update version 31 for feature metadata.version. Local
                controller 1 only supports versions 7-30
            metadata.version 6 3: Invalid update version 6 for feature metadata.version. Local
                controller 1 only supports versions 7-30
            metadata.version -1 1: Invalid update version -1 for feature metadata.version. A feature
                version cannot be less than 0.
            metadata.version 29 1: Invalid update version 29 for feature metadata.version. Can't
                downgrade the version of this feature without setting the upgrade type to either safe
                or unsafe downgrade.
            metadata.version 29 2: Unsupported metadata.version downgrade from 30 to 29. Refusing to
                perform the requested downgrade because it might delete metadata information.
            metadata.version 29 3: Unsupported metadata.version downgrade from 30 to 29. Unsafe
                metadata downgrade is not supported in this version.
            metadata.version 30 1: 1 records, {"metadata.version": 30} UpdatedFeatures {
                kraft_version: None }
            metadata.version 30 2: 1 records, {"metadata.version": 30} UpdatedFeatures {
                kraft_version: None }
            metadata.version 30 0: Invalid update version 30 for feature metadata.version. The
                controller does not support the given upgrade type.
            nosuch 1 1: Invalid update version 1 for feature nosuch. Local controller 1 does not
                support this feature.
            nosuch 0 1: Invalid update version 0 for feature nosuch. Feature nosuch not found.
            kraft.version 2 1: Invalid update version 2 for feature kraft.version. Local controller 1
                only supports versions 0-1
            kraft.version 0 2: 0 records, {"metadata.version": 30} UpdatedFeatures { kraft_version:
                None }
            kraft.version 0 1: 1 records, {"metadata.version": 30} UpdatedFeatures { kraft_version:
                None }
            kraft.version 1 1: 1 records, {"metadata.version": 30} UpdatedFeatures { kraft_version:
                Some(1) }
            group.version 1 1: 1 records, {"group.version": 1, "metadata.version": 30} UpdatedFeatures
                { kraft_version: None }
            eligible.leader.replicas.version 1 2: Invalid update version 1 for feature
                eligible.leader.replicas.version. Can't downgrade to a newer version.
            eligible.leader.replicas.version 1 1: 2 records, {"eligible.leader.replicas.version": 1,
                "metadata.version": 30} UpdatedFeatures { kraft_version: None }
            eligible.leader.replicas.version 0 2; eligible.leader.replicas.version 1 1: 2 records,
                {"eligible.leader.replicas.version": 1, "metadata.version": 30} UpdatedFeatures {
                kraft_version: None }
            eligible.leader.replicas.version 1 1; nosuch 1 1: Invalid update version 1 for feature
                nosuch. Local controller 1 does not support this feature.
        "#]],
    );
}

#[test]
fn every_node_must_support_the_level() {
    let mut cluster = TestCluster::new(&[]).with_brokers(&[BrokerId(1), BrokerId(2)]);
    cluster.change_broker(BrokerId(2), |broker| {
        broker.features.remove(ELIGIBLE_LEADER_REPLICAS_FEATURE);
    });
    let enable = "eligible.leader.replicas.version 1 1";
    expect![[r#"
        eligible.leader.replicas.version 1 1: Invalid update version 1 for feature
            eligible.leader.replicas.version. Broker 2 does not support this feature.
    "#]]
    .assert_eq(&wrapped(&update(&mut cluster, enable)));
    cluster.change_broker(BrokerId(2), |broker| {
        let range = VersionRange { min: 2, max: 3 };
        let name = ELIGIBLE_LEADER_REPLICAS_FEATURE.to_owned();
        broker.features.insert(name, range);
    });
    expect![[r#"
        eligible.leader.replicas.version 1 1: Invalid update version 1 for feature
            eligible.leader.replicas.version. Broker 2 only supports versions 2-3
    "#]]
    .assert_eq(&wrapped(&update(&mut cluster, enable)));
}

#[test]
fn features_go_down_where_nothing_is_lost() {
    let mut cluster = TestCluster::new(&[]);
    cluster.replay(&[MetadataRecord::FeatureLevel {
        name: MetadataVersion::FEATURE.to_owned(),
        level: 29,
    }]);
    let mut shown = String::new();
    for script in [
        "metadata.version 23 2",
        "eligible.leader.replicas.version 1 1",
        "metadata.version 22 2",
        "eligible.leader.replicas.version 0 1",
        "eligible.leader.replicas.version 0 2",
        "metadata.version 22 2",
    ] {
        shown += &update(&mut cluster, script);
    }
    expect![[r#"
        metadata.version 23 2: 1 records, {"metadata.version": 23} UpdatedFeatures {
            kraft_version: None }
        eligible.leader.replicas.version 1 1: 2 records, {"eligible.leader.replicas.version": 1,
            "metadata.version": 23} UpdatedFeatures { kraft_version: None }
        metadata.version 22 2: Unsupported metadata.version downgrade from 23 to 22. Refusing to
            perform the requested downgrade because it might delete metadata information.
        eligible.leader.replicas.version 0 1: Invalid update version 0 for feature
            eligible.leader.replicas.version. Can't downgrade the version of this feature without
            setting the upgrade type to either safe or unsafe downgrade.
        eligible.leader.replicas.version 0 2: 1 records, {"metadata.version": 23} UpdatedFeatures
            { kraft_version: None }
        metadata.version 22 2: Unsupported metadata.version downgrade from 23 to 22. Refusing to
            perform the requested downgrade because it might delete metadata information.
    "#]]
    .assert_eq(&wrapped(&shown));
    cluster.replay(&[MetadataRecord::FeatureLevel {
        name: MetadataVersion::FEATURE.to_owned(),
        level: 22,
    }]);
    expect![[r#"
        eligible.leader.replicas.version 1 1: Invalid update version 1 for feature
            eligible.leader.replicas.version. eligible.leader.replicas.version could not be set to
            1 because it depends on metadata.version level 23
    "#]]
    .assert_eq(&wrapped(&update(
        &mut cluster,
        "eligible.leader.replicas.version 1 1",
    )));
}

#[test]
fn eligible_leader_replicas_need_one_min_insync_replicas() {
    let mut cluster = TestCluster::new(&[("min.insync.replicas", "2")]);
    for broker in [1, 2] {
        cluster.replay(&[MetadataRecord::Config {
            resource: ConfigResource::broker(BrokerId(broker)),
            name: MIN_INSYNC_REPLICAS.to_owned(),
            value: Some("3".to_owned()),
        }]);
    }
    // What is not enabled needs nothing.
    update(&mut cluster, "eligible.leader.replicas.version 0 2");
    let of = |resource| cluster.image.configs.value(&resource, MIN_INSYNC_REPLICAS);
    assert_eq!(of(ConfigResource::broker(BrokerId(1))), Some("3"));
    assert_eq!(of(ConfigResource::all_brokers()), None);
    update(&mut cluster, "eligible.leader.replicas.version 1 1");
    let of = |resource| cluster.image.configs.value(&resource, MIN_INSYNC_REPLICAS);
    assert_eq!(of(ConfigResource::all_brokers()), Some("2"));
    assert_eq!(of(ConfigResource::broker(BrokerId(1))), None);
    assert_eq!(of(ConfigResource::broker(BrokerId(2))), None);
    // What is set for the cluster stays.
    cluster.replay(&[MetadataRecord::Config {
        resource: ConfigResource::all_brokers(),
        name: MIN_INSYNC_REPLICAS.to_owned(),
        value: Some("1".to_owned()),
    }]);
    update(&mut cluster, "eligible.leader.replicas.version 1 1");
    let of = |resource| cluster.image.configs.value(&resource, MIN_INSYNC_REPLICAS);
    assert_eq!(of(ConfigResource::all_brokers()), Some("1"));
}

/// The controller that decides knows what it supports itself, whatever it has registered.
#[test]
fn every_other_controller_must_support_the_level() {
    let mut cluster = TestCluster::new(&[]).with_brokers(&[BrokerId(1)]);
    let mut shown = String::new();
    for id in [1, 2] {
        let registered = MetadataRecord::RegisterController(ControllerRegistration {
            id: BrokerId(id),
            incarnation_id: Uuid::from_u128(7),
            is_zk_migration_ready: false,
            endpoints: Vec::new(),
            features: SupportedFeatures::new(),
        });
        cluster.replay(&[registered]);
        shown += &update(&mut cluster, "group.version 1 1");
    }
    // Controllers of earlier metadata versions do not register.
    cluster.replay(&[MetadataRecord::FeatureLevel {
        name: MetadataVersion::FEATURE.to_owned(),
        level: 14,
    }]);
    shown += &update(&mut cluster, "group.version 1 1");
    expect![[r#"
        group.version 1 1: 1 records, {"group.version": 1, "metadata.version": 30} UpdatedFeatures
            { kraft_version: None }
        group.version 1 1: Invalid update version 1 for feature group.version. Controller 2 does
            not support this feature.
        group.version 1 1: 1 records, {"group.version": 1, "metadata.version": 14} UpdatedFeatures
            { kraft_version: None }
    "#]]
    .assert_eq(&wrapped(&shown));
}

#[test]
fn validation_alone_changes_nothing() {
    let cluster = TestCluster::new(&[]).with_brokers(&[BrokerId(1)]);
    let updates =
        parse("group.version 1 1; kraft.version 1 1; eligible.leader.replicas.version 1 1");
    let decided = update_features(&cluster.image, &cluster.context(), 0, &updates, true);
    let kraft_version = Some(1);
    assert_eq!(
        decided,
        Ok(Decision::unchanged(UpdatedFeatures { kraft_version }))
    );
}
