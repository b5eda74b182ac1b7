//! The throttles of a reassignment, in the configuration of topics and brokers as Kafka's tool sets it.
//!
//! ```text
//!   topic   leader.replication.throttled.replicas     0:1,0:2     who has the partition, and is copied from
//!           follower.replication.throttled.replicas   0:3         who is to have it, and copies
//!   broker  leader.replication.throttled.rate         bytes a second, of every broker that takes part
//!           follower.replication.throttled.rate
//! ```

use super::reassignment_plan::Assignment;
use crate::connect::{Failure, succeeded};
use model::BrokerId;
use riverrun_client::admin::{Admin, AlterOperation, ConfigResource};
use std::collections::{BTreeMap, BTreeSet};

const REPLICAS: [&str; 2] = [
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
];
const RATES: [&str; 2] = [
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
];

type Changes = BTreeMap<ConfigResource, BTreeMap<String, AlterOperation>>;

/// Throttles what a plan moves.
pub(crate) async fn set_throttles(
    admin: &Admin,
    current: &Assignment,
    plan: &Assignment,
    rate_bytes: i64,
) -> Result<(), Failure> {
    alter(admin, &throttled(current, plan, rate_bytes)).await
}

/// Takes away the throttles of all topics and brokers.
pub(crate) async fn remove_throttles(admin: &Admin) -> Result<(), Failure> {
    let topics = admin.list_topics().await?;
    let topics = topics
        .into_iter()
        .map(|topic| ConfigResource::topic(topic.name));
    let cluster = admin.describe_cluster().await?;
    let alive = cluster.brokers.iter().filter(|one| !one.is_fenced);
    let brokers = alive.map(|one| ConfigResource::broker(one.id));
    let delete = |keys: [&str; 2]| -> BTreeMap<String, AlterOperation> {
        let keys = keys.into_iter();
        keys.map(|key| (key.to_owned(), AlterOperation::Delete))
            .collect()
    };
    let changes = topics.map(|topic| (topic, delete(REPLICAS)));
    let changes = changes.chain(brokers.map(|broker| (broker, delete(RATES))));
    alter(admin, &changes.collect()).await
}

async fn alter(admin: &Admin, changes: &Changes) -> Result<(), Failure> {
    let (_, outcome) = succeeded(admin.alter_configs(changes).await);
    outcome
}

/// What is configured for a plan.
fn throttled(current: &Assignment, plan: &Assignment, rate_bytes: i64) -> Changes {
    let mut replicas: BTreeMap<&str, [Vec<String>; 2]> = BTreeMap::new();
    let mut brokers: BTreeSet<BrokerId> = BTreeSet::new();
    for (partition, to) in plan {
        let from = &current[partition];
        let coming: Vec<&BrokerId> = to.iter().filter(|id| !from.contains(id)).collect();
        if coming.is_empty() {
            continue;
        }
        let [leaders, followers] = replicas.entry(&*partition.topic).or_default();
        let named = |id: &BrokerId| format!("{}:{id}", partition.partition);
        leaders.extend(from.iter().map(named));
        followers.extend(coming.iter().map(|id| named(id)));
        brokers.extend(from);
        brokers.extend(coming);
    }
    let set = |key: &str, value: String| (key.to_owned(), AlterOperation::Set(value));
    let topics = replicas.into_iter().map(|(topic, replicas)| {
        let values = REPLICAS.iter().zip(replicas);
        let values = values.map(|(key, replicas)| set(key, replicas.join(",")));
        (ConfigResource::topic(topic), values.collect())
    });
    let brokers = brokers.into_iter().map(|id| {
        let rates = RATES.map(|key| set(key, rate_bytes.to_string()));
        (ConfigResource::broker(id), rates.into_iter().collect())
    });
    topics.chain(brokers).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::TopicPartition;

    #[test]
    fn who_is_copied_from_and_who_copies_are_throttled() {
        let on = |index, ids: &[i32]| {
            let ids = ids.iter().copied().map(BrokerId).collect();
            (TopicPartition::new("t", index), ids)
        };
        let current: Assignment = [on(0, &[1, 2]), on(1, &[2, 1])].into();
        // The second one changes the order of its replicas only.
        let plan: Assignment = [on(0, &[1, 3]), on(1, &[1, 2])].into();
        let changes = throttled(&current, &plan, 1_000);
        let shown = changes.iter().flat_map(|(resource, keys)| {
            keys.iter().map(move |(key, operation)| match operation {
                AlterOperation::Set(value) => format!("{resource} {key}={value}"),
                other => format!("{resource} {key} {other:?}"),
            })
        });
        let mut expected = vec![
            "topic `t` follower.replication.throttled.replicas=0:3".to_owned(),
            "topic `t` leader.replication.throttled.replicas=0:1,0:2".to_owned(),
        ];
        for id in 1..4 {
            expected.push(format!(
                "broker `{id}` follower.replication.throttled.rate=1000"
            ));
            expected.push(format!(
                "broker `{id}` leader.replication.throttled.rate=1000"
            ));
        }
        assert_eq!(shown.collect::<Vec<_>>(), expected);
    }
}
