//! Topics and brokers: made, deleted, described.

use crate::{Client, wait_until};
use model::{BrokerId, ErrorCode, Uuid};
use wire::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use wire::messages::describe_configs_request::DescribeConfigsResource;
use wire::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use wire::messages::metadata_request::MetadataRequestTopic;
use wire::messages::{
    CreateTopicsRequest, CreateTopicsResponse, DeleteTopicsRequest, DeleteTopicsResponse,
    DescribeConfigsRequest, DescribeConfigsResponse, IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse, MetadataRequest, MetadataResponse,
};

/// Where clients are told to find a broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerAddress {
    /// The broker.
    pub node_id: BrokerId,
    /// A name or an address.
    pub host: String,
    /// The port.
    pub port: i32,
}

/// The number of topics among configurable resources.
const TOPIC: i8 = 2;

impl Client {
    /// Makes a topic with one replica and returns its id.
    #[track_caller]
    pub fn create_topic(&mut self, name: &str, partitions: i32, configs: &[(&str, &str)]) -> Uuid {
        let (error, id) = self.try_create_topic(name, partitions, configs);
        assert_eq!(error, ErrorCode::None, "topic {name}");
        id
    }

    /// Makes a topic of one partition unless there is one of this name.
    #[track_caller]
    pub fn create_topic_if_missing(&mut self, name: &str) {
        let (error, _) = self.try_create_topic(name, 1, &[]);
        assert!(
            [ErrorCode::None, ErrorCode::TopicAlreadyExists].contains(&error),
            "topic {name}: {error}"
        );
    }

    /// Asks for a topic with one replica; returns the topic's error and id.
    #[track_caller]
    pub fn try_create_topic(
        &mut self,
        name: &str,
        partitions: i32,
        configs: &[(&str, &str)],
    ) -> (ErrorCode, Uuid) {
        let configs = configs.iter().map(|(name, value)| CreatableTopicConfig {
            name,
            value: Some(value),
        });
        let topic = CreatableTopic {
            name,
            num_partitions: partitions,
            replication_factor: 1,
            configs: configs.collect(),
            ..CreatableTopic::default()
        };
        let request = CreateTopicsRequest {
            topics: vec![topic].into(),
            timeout_ms: 10_000,
            ..CreateTopicsRequest::default()
        };
        let answer = self.call(7, &request);
        let response: CreateTopicsResponse<'_> = answer.read();
        let result = response.topics.iter().next().expect("one topic");
        (ErrorCode::from_code(result.error_code), result.topic_id)
    }

    /// Waits until the topic is there, made or not, and has a leader for each partition.
    #[track_caller]
    pub fn wait_for_topic(&mut self, name: &str) {
        wait_until("the topic is there", || {
            self.topic_error(name) == ErrorCode::None
        });
    }

    /// What Metadata says of a topic; it is made if the server does so.
    #[track_caller]
    pub fn topic_error(&mut self, name: &str) -> ErrorCode {
        let topic = MetadataRequestTopic {
            name: Some(name),
            ..MetadataRequestTopic::default()
        };
        let request = MetadataRequest {
            topics: Some(vec![topic].into()),
            allow_auto_topic_creation: true,
            ..MetadataRequest::default()
        };
        let answer = self.call(9, &request);
        let response: MetadataResponse<'_> = answer.read();
        let topic = response.topics.iter().next().expect("one topic");
        ErrorCode::from_code(topic.error_code)
    }

    /// Deletes a topic by name; returns the topic's error.
    #[track_caller]
    pub fn delete_topic(&mut self, name: &str) -> ErrorCode {
        let request = DeleteTopicsRequest {
            topic_names: vec![name].into(),
            timeout_ms: 10_000,
            ..DeleteTopicsRequest::default()
        };
        let answer = self.call(5, &request);
        let response: DeleteTopicsResponse<'_> = answer.read();
        let result = response.responses.iter().next().expect("one topic");
        ErrorCode::from_code(result.error_code)
    }

    /// Every broker as Metadata tells them.
    #[track_caller]
    pub fn brokers(&mut self) -> Vec<BrokerAddress> {
        let answer = self.call(9, &MetadataRequest::default());
        let response: MetadataResponse<'_> = answer.read();
        let brokers = response.brokers.iter().map(|one| BrokerAddress {
            node_id: one.node_id,
            host: one.host.to_owned(),
            port: one.port,
        });
        brokers.collect()
    }

    /// The names of all topics.
    #[track_caller]
    pub fn topics(&mut self) -> Vec<String> {
        let request = MetadataRequest {
            topics: None,
            ..MetadataRequest::default()
        };
        let answer = self.call(9, &request);
        let response: MetadataResponse<'_> = answer.read();
        let names = response.topics.iter().filter_map(|one| one.name);
        names.map(str::to_owned).collect()
    }

    /// The id of the cluster.
    #[track_caller]
    pub fn cluster_id(&mut self) -> String {
        let answer = self.call(9, &MetadataRequest::default());
        let response: MetadataResponse<'_> = answer.read();
        response.cluster_id.expect("a cluster has an id").to_owned()
    }

    /// Sets values of a topic's configuration.
    #[track_caller]
    pub fn alter_topic(&mut self, topic: &str, values: &[(&str, &str)]) {
        let configs = values.iter().map(|(name, value)| AlterableConfig {
            name,
            config_operation: 0,
            value: Some(value),
        });
        let resource = AlterConfigsResource {
            resource_type: TOPIC,
            resource_name: topic,
            configs: configs.collect(),
        };
        let request = IncrementalAlterConfigsRequest {
            resources: vec![resource].into(),
            ..IncrementalAlterConfigsRequest::default()
        };
        let answer = self.call(1, &request);
        let response: IncrementalAlterConfigsResponse<'_> = answer.read();
        let result = response.responses.iter().next().expect("one topic");
        assert_eq!(result.error_code, 0, "{:?}", result.error_message);
    }

    /// The value of a topic's configuration.
    #[track_caller]
    pub fn topic_config(&mut self, topic: &str, key: &str) -> String {
        let resource = DescribeConfigsResource {
            resource_type: TOPIC,
            resource_name: topic,
            configuration_keys: Some(vec![key].into()),
        };
        let request = DescribeConfigsRequest {
            resources: vec![resource].into(),
            ..DescribeConfigsRequest::default()
        };
        let answer = self.call(4, &request);
        let response: DescribeConfigsResponse<'_> = answer.read();
        let result = response.results.iter().next().expect("one topic");
        assert_eq!(result.error_code, 0, "{:?}", result.error_message);
        let config = result.configs.iter().next().expect("one key");
        config.value.expect("a value").to_owned()
    }
}
