//! Configurations.

use super::{admin, run};
use model::BrokerId;
use riverrun_client::Error;
use riverrun_client::admin::{
    AlterOperation, ConfigResource, ConfigSource, ConfigType, DescribeConfigsOptions, NewTopic,
    ResourceKind,
};
use std::collections::BTreeMap;
use testkit::TestServer;

fn changes(
    resource: &ConfigResource,
    key: &str,
    operation: AlterOperation,
) -> BTreeMap<ConfigResource, BTreeMap<String, AlterOperation>> {
    let keys = BTreeMap::from([(key.to_owned(), operation)]);
    BTreeMap::from([(resource.clone(), keys)])
}

#[test]
fn configurations_are_described_and_altered() {
    let server = TestServer::start(&[]);
    run(async {
        let admin = admin(server.address(), &[]);
        let created = admin.create_topics(&[NewTopic::new("t")]).await;
        assert!(created["t"].is_ok());
        let topic = ConfigResource::topic("t");
        let key = "retention.ms";
        let options = DescribeConfigsOptions {
            keys: Some(vec![key.to_owned()]),
            includes_synonyms: true,
            includes_documentation: true,
        };
        let set = AlterOperation::Set("1234".to_owned());
        let operations = [
            (None, ("604800000", ConfigSource::Default)),
            (Some(set), ("1234", ConfigSource::Topic)),
            (
                Some(AlterOperation::Delete),
                ("604800000", ConfigSource::Default),
            ),
        ];
        for (operation, (value, source)) in operations {
            if let Some(operation) = operation {
                let changes = changes(&topic, key, operation);
                admin.validate_configs(&changes).await[&topic]
                    .clone()
                    .unwrap();
                admin.alter_configs(&changes).await[&topic].clone().unwrap();
            }
            let described = admin
                .describe_configs(std::slice::from_ref(&topic), &options)
                .await;
            let entries = described[&topic].as_ref().unwrap();
            assert_eq!(entries.len(), 1);
            assert_eq!(entries[0].value.as_deref(), Some(value));
            assert_eq!(
                (entries[0].source, entries[0].kind),
                (source, ConfigType::Long)
            );
            assert_eq!(
                entries[0].synonyms.is_empty(),
                source != ConfigSource::Topic
            );
            assert!(entries[0].documentation.is_some());
        }
        let wrong = changes(&topic, key, AlterOperation::Set("soon".to_owned()));
        let refused = admin.alter_configs(&wrong).await[&topic].clone();
        let refused = refused.expect_err("is no number").to_string();
        assert!(refused.contains("topic `t`"), "{refused}");
    });
    server.stop();
}

#[test]
fn what_a_broker_is_configured_with_is_asked_of_that_broker() {
    let server = TestServer::start(&[]);
    run(async {
        let admin = admin(server.address(), &[]);
        let brokers = admin.describe_cluster().await.unwrap().brokers;
        let broker = ConfigResource::broker(brokers[0].id);
        let options = DescribeConfigsOptions::default();
        let described = admin
            .describe_configs(std::slice::from_ref(&broker), &options)
            .await;
        let entries = described[&broker].as_ref().unwrap();
        let directories = entries.iter().find(|entry| entry.name == "log.dirs");
        let directories = directories.unwrap();
        assert_eq!(directories.source, ConfigSource::StaticBroker);
        assert!(directories.is_read_only);

        let unknown = ConfigResource::broker(BrokerId(77));
        // On a machine that is busy, a call may end before it has heard of any broker.
        for timeout_ms in ["300", "3000", "20000"] {
            let keys = [("default.api.timeout.ms", timeout_ms)];
            let described = super::admin(server.address(), &keys)
                .describe_configs(std::slice::from_ref(&unknown), &options)
                .await;
            let error = described[&unknown]
                .as_ref()
                .expect_err("there is no such broker");
            if error.to_string().contains("broker 77") {
                return;
            }
            assert!(
                matches!(error, Error::TimedOut { .. } | Error::Unreachable { .. }),
                "{error}"
            );
        }
        panic!("nobody tells of the broker");
    });
    server.stop();
}

#[test]
fn resources_with_a_configuration_are_listed() {
    let server = TestServer::start(&[]);
    run(async {
        let admin = admin(server.address(), &[]);
        let created = admin.create_topics(&[NewTopic::new("t")]).await;
        assert!(created["t"].is_ok());
        let listed = admin
            .list_config_resources(&[ResourceKind::Topic])
            .await
            .unwrap();
        assert_eq!(listed, [ConfigResource::topic("t")]);
    });
    server.stop();
}
