//! What an application wants of single kinds of clients.

use std::collections::BTreeMap;

/// Settings of the clients of an instance, by Kafka's names without the prefix.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientOverrides {
    /// `consumer.`: of all consumers.
    pub consumer: Pairs,
    /// `main.consumer.`: of those in the group.
    pub main_consumer: Pairs,
    /// `restore.consumer.`: of those that restore stores.
    pub restore_consumer: Pairs,
    /// `global.consumer.`: of that which reads global topics.
    pub global_consumer: Pairs,
    /// `producer.`
    pub producer: Pairs,
    /// `admin.`
    pub admin: Pairs,
    /// `topic.`: configuration of internal topics.
    pub topic: Pairs,
}

/// Keys and values.
pub type Pairs = BTreeMap<String, String>;
