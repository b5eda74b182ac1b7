//! Controlled shutdowns step by step: how far the other brokers must have followed the metadata before
//! one may stop.

use ::controller::brokers::NewRegistration;
use ::controller::create_topics::{NewTopic, PartitionAssignment};
use ::controller::delete_topics::TopicToDelete;
use ::controller::{
    AllocateProducerIds, BrokerHeartbeat, ControllerRequest, CreateTopics, DeleteTopics,
    RegisterBroker, UnregisterBroker, broker_features,
};
use anyhow::{Context as _, Result, bail};
use metadata::MetadataImage;
use model::{BrokerEpoch, BrokerId, MonotonicTime, Uuid};

/// What happens one after the other: a verb, the number of a broker, and with `heartbeat` how many records
/// before the newest one the broker has followed. `topic` has one partition on brokers 1 and 2, or on
/// those that it names; `write` writes anything.
pub(super) const SCRIPTS: &[&str] = &[
    "register 1; register 2; register 3; heartbeat 1; heartbeat 2; heartbeat 3; topic a
     heartbeat 1; heartbeat 2; heartbeat 3; stop 1; stop 1; heartbeat 2; stop 1; heartbeat 3; stop 1",
    "register 1; register 2; register 3; heartbeat 1; heartbeat 2; heartbeat 3; topic a
     heartbeat 1; heartbeat 2; heartbeat 3; stop 1; write 2; stop 1; heartbeat 2 1; heartbeat 3 1; stop 1
     heartbeat 2; heartbeat 3; stop 1",
    "register 1; register 2; register 3; heartbeat 1; heartbeat 2; topic a; heartbeat 1; heartbeat 2; stop 1
     heartbeat 2; heartbeat 3; stop 1; heartbeat 3; stop 1",
    "register 1; register 2; register 3; heartbeat 1; heartbeat 2; heartbeat 3; topic a
     heartbeat 2; heartbeat 3; stop 1; heartbeat 2; fence 3; stop 1",
    "register 1; register 2; register 3; heartbeat 1; heartbeat 2; heartbeat 3; topic a; topic b 2 3
     stop 1; stop 2; stop 3; stop 2; stop 1",
];

/// The steps of a script.
pub(super) fn steps(script: &str) -> impl Iterator<Item = &str> {
    script.split([';', '\n']).map(str::trim)
}

/// The request of a step.
pub(super) fn request(step: &str, image: &MetadataImage) -> Result<ControllerRequest> {
    let words: Vec<&str> = step.split(' ').collect();
    let numbers = words
        .iter()
        .skip(1)
        .filter_map(|word| word.parse::<i32>().ok());
    let numbers: Vec<i32> = numbers.collect();
    let id = BrokerId(numbers.first().copied().unwrap_or_default());
    let broker = image.cluster.broker(id);
    let broker_epoch = broker.map_or(BrokerEpoch::NONE, |broker| broker.epoch);
    let lag = numbers.get(1).copied().unwrap_or_default();
    let heartbeat = BrokerHeartbeat {
        broker_id: id,
        broker_epoch,
        metadata_offset: image.provenance.last_offset - i64::from(lag),
        wants_fence: words[0] == "fence",
        wants_shut_down: words[0] == "stop",
        offline_directories: Vec::new(),
        cordoned_directories: None,
        deadline: MonotonicTime::MAX,
    };
    let request = match words[0] {
        "register" => register(id),
        "topic" => {
            let name = words.get(1).context("a name")?;
            let brokers = if numbers.is_empty() {
                vec![1, 2]
            } else {
                numbers
            };
            create(name, brokers)
        }
        "heartbeat" | "fence" | "stop" => heartbeat.into(),
        "write" => AllocateProducerIds {
            broker_id: id,
            broker_epoch,
        }
        .into(),
        other => bail!("no step {other}"),
    };
    Ok(request)
}

/// What leaves nothing of a script.
pub(super) fn clearance(image: &MetadataImage) -> Vec<ControllerRequest> {
    let topics = image.topics.iter();
    let deletions = topics.map(|topic| DeleteTopics {
        topics: vec![TopicToDelete::by_name(&*topic.name)],
    });
    let brokers = image.cluster.brokers().keys();
    let brokers = brokers.map(|id| UnregisterBroker { broker_id: *id }.into());
    deletions.map(Into::into).chain(brokers).collect()
}

fn register(id: BrokerId) -> ControllerRequest {
    let number = u128::from(id.0.unsigned_abs());
    RegisterBroker {
        registration: NewRegistration {
            broker_id: id,
            incarnation_id: Uuid::from_u128(500 + number),
            endpoints: vec![metadata::Endpoint {
                name: "PLAINTEXT".to_owned(),
                host: "host".to_owned(),
                port: 9092,
                security_protocol: 0,
            }],
            features: broker_features(),
            rack: None,
            directories: vec![Uuid::from_u128(1000 + number)],
            previous_broker_epoch: BrokerEpoch::NONE,
            is_migrating_zk_broker: false,
        },
        detects_clean_shutdown: true,
    }
    .into()
}

fn create(name: &str, brokers: Vec<i32>) -> ControllerRequest {
    let assignment = PartitionAssignment {
        partition_index: 0,
        broker_ids: brokers.into_iter().map(BrokerId).collect(),
    };
    CreateTopics {
        topics: vec![NewTopic {
            assignments: vec![assignment],
            ..NewTopic::of_defaults(name)
        }],
        validate_only: false,
    }
    .into()
}
