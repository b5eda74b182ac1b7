//! What is different in an image, in words: how scripts of tests show what a decision does.

use metadata::{BrokerRegistration, LeaderRecoveryState, MetadataImage, Partition};
use model::Uuid;

/// As many partitions of a topic that change alike are shown in one line.
const ALIKE_COUNT: usize = 10;

/// Brokers and partitions that differ.
pub(crate) fn changes(before: &MetadataImage, after: &MetadataImage) -> String {
    let mut out = String::new();
    for broker in after.cluster.brokers().values() {
        if before.cluster.broker(broker.id) != Some(broker) {
            out += &render_broker(broker);
        }
    }
    for id in before.cluster.brokers().keys() {
        if after.cluster.broker(*id).is_none() {
            out += &format!("  broker {id} is gone\n");
        }
    }
    for topic in after.topics.iter() {
        let changed = topic.partitions.iter().filter_map(|(id, partition)| {
            let before = before.topics.partition(&topic.name, *id);
            let is_changed = before != Some(partition);
            is_changed.then(|| (*id, render(before.map(|one| &**one), partition)))
        });
        let changed: Vec<(i32, String)> = changed.collect();
        for alike in changed.chunk_by(|one, next| one.1 == next.1) {
            let (first, last) = (&alike[0], &alike[alike.len() - 1]);
            if alike.len() >= ALIKE_COUNT {
                out += &format!("  {}-{} to {} {}\n", topic.name, first.0, last.0, first.1);
                continue;
            }
            for (id, shown) in alike {
                out += &format!("  {}-{id} {shown}\n", topic.name);
            }
        }
    }
    out
}

fn render_broker(broker: &BrokerRegistration) -> String {
    let mut out = format!("  broker {} epoch {}", broker.id, broker.epoch);
    for (is_set, word) in [
        (broker.is_fenced, " fenced"),
        (broker.is_in_controlled_shutdown, " shutting down"),
    ] {
        out += if is_set { word } else { "" };
    }
    let name = |id: &Uuid| u128::from_be_bytes(id.to_bytes()) - 1000;
    let names = |ids: &[Uuid]| ids.iter().map(name).collect::<Vec<_>>();
    out += &format!(" directories {:?}", names(&broker.directories));
    if let Some(cordoned) = &broker.cordoned_directories {
        out += &format!(" cordoned {:?}", names(cordoned));
    }
    out + "\n"
}

/// The replicas too, where they have changed.
fn render(before: Option<&Partition>, partition: &Partition) -> String {
    let mut out = format!(
        "leader {} epoch {}.{} isr {:?}",
        partition.leader, partition.leader_epoch, partition.partition_epoch, partition.isr
    );
    if before.is_some_and(|before| before.replicas != partition.replicas) {
        out += &format!(" replicas {:?}", partition.replicas);
    }
    for (ids, word) in [
        (&partition.adding_replicas, "adding"),
        (&partition.removing_replicas, "removing"),
        (&partition.eligible_leader_replicas, "elr"),
        (&partition.last_known_eligible_leader_replicas, "last known"),
    ] {
        if !ids.is_empty() {
            out += &format!(" {word} {ids:?}");
        }
    }
    if partition.leader_recovery_state == LeaderRecoveryState::Recovering {
        out += " recovering";
    }
    out
}
