//! `riverrun cluster health`: what in a cluster needs a human, for people and for probes.

use crate::connect::{Failure, Stdout, succeeded};
use crate::output::Row;
use clap::Args;
use riverrun_client::Error;
use riverrun_client::admin::{
    Admin, ConfigResource, DescribeConfigsOptions, PartitionDescription, TopicDescription,
};
use std::cmp::Ordering;
use std::collections::BTreeMap;

const MIN_ISR: &str = "min.insync.replicas";

/// The arguments of `cluster health`.
#[derive(Debug, Args)]
pub(crate) struct HealthArguments {
    /// Show a line for each topic that needs attention, with the numbers of its partitions
    #[arg(long)]
    by_topic: bool,
}

/// Shows a line for each thing that is wrong, and fails if there is one.
pub(crate) async fn health(
    admin: &Admin,
    arguments: &HealthArguments,
    mut output: Stdout,
) -> Result<(), Failure> {
    let topics = topics(admin).await?;
    let rows = match arguments.by_topic {
        true => by_topic(&topics),
        false => {
            let mut rows = brokers(admin).await?;
            rows.extend(log_directories(admin).await?);
            rows.extend(partitions(&topics));
            rows
        }
    };
    output.table(&rows)?;
    output.flush()?;
    match rows.len() {
        0 if arguments.by_topic => {
            crate::tell("healthy: every partition is in order");
            Ok(())
        }
        0 => {
            crate::tell("healthy: every broker, log directory and partition is in order");
            Ok(())
        }
        count => {
            crate::complain(&need_attention(count));
            Err(Failure::Told)
        }
    }
}

fn need_attention(count: usize) -> String {
    match count {
        1 => "1 thing needs attention".to_owned(),
        _ => format!("{count} things need attention"),
    }
}

fn row(what: &str, name: impl ToString, problem: impl ToString) -> Row {
    Row::new()
        .with("what", what)
        .with("name", name.to_string())
        .with("problem", problem.to_string())
}

async fn brokers(admin: &Admin) -> Result<Vec<Row>, Failure> {
    let cluster = admin.describe_cluster().await?;
    let fenced = cluster.brokers.iter().filter(|broker| broker.is_fenced);
    let mut rows: Vec<Row> = fenced
        .map(|broker| row("broker", broker.id, "fenced: it sends no heartbeats"))
        .collect();
    if cluster.controller.is_none() {
        rows.push(row("cluster", &cluster.cluster_id, "no controller"));
    }
    Ok(rows)
}

async fn log_directories(admin: &Admin) -> Result<Vec<Row>, Failure> {
    let (described, outcome) = succeeded(admin.describe_log_dirs(None).await?);
    outcome?;
    let directories = described
        .into_iter()
        .flat_map(|(broker, directories)| directories.into_iter().map(move |one| (broker, one)));
    let failed = directories.filter_map(|(broker, directory)| {
        let error = directory.error?;
        let name = format!("{broker}:{}", directory.path);
        // The name says which directory; the error would say it once more.
        let problem = match error {
            Error::Refused { code, .. } => format!("{code}: {}", code.message()),
            error => error.to_string(),
        };
        Some(row("log directory", name, problem))
    });
    Ok(failed.collect())
}

/// The partitions of all topics, with the `min.insync.replicas` in force.
async fn topics(admin: &Admin) -> Result<Vec<(TopicDescription, usize)>, Failure> {
    let listed = admin.list_topics().await?;
    let names: Vec<&str> = listed.iter().map(|topic| topic.name.as_str()).collect();
    let (topics, outcome) = succeeded(admin.describe_topics(&names).await);
    outcome?;
    let resources: Vec<ConfigResource> = names.into_iter().map(ConfigResource::topic).collect();
    let options = DescribeConfigsOptions {
        keys: Some(vec![MIN_ISR.to_owned()]),
        ..DescribeConfigsOptions::default()
    };
    let (configs, outcome) = succeeded(admin.describe_configs(&resources, &options).await);
    outcome?;
    let configs = configs.into_iter().filter_map(|(resource, entries)| {
        let value = entries
            .into_iter()
            .find(|entry| entry.name == MIN_ISR)?
            .value?;
        Some((resource.name, value.parse().ok()?))
    });
    let min_isr: BTreeMap<String, usize> = configs.collect();
    let topics = topics.into_iter().map(|(name, topic)| {
        let min = min_isr.get(&name).copied().unwrap_or(1);
        (topic, min)
    });
    Ok(topics.collect())
}

/// What is wrong with a partition, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    Offline,
    UnderMinIsr,
    AtMinIsr,
    UnderReplicated,
}

impl Fault {
    fn of(partition: &PartitionDescription, min_isr: usize) -> Option<Self> {
        let (all, in_sync) = (partition.replicas.len(), partition.in_sync_replicas.len());
        // No partition needs more of them than it has replicas.
        let min_isr = min_isr.min(all);
        if partition.leader.is_none() {
            return Some(Self::Offline);
        }
        if in_sync >= all {
            return None;
        }
        Some(match in_sync.cmp(&min_isr) {
            Ordering::Less => Self::UnderMinIsr,
            Ordering::Equal => Self::AtMinIsr,
            Ordering::Greater => Self::UnderReplicated,
        })
    }

    fn in_words(self, partition: &PartitionDescription) -> String {
        let (all, in_sync) = (partition.replicas.len(), partition.in_sync_replicas.len());
        let count = format!("{in_sync} of {all} replicas are in sync");
        match self {
            Self::Offline => "no leader: it can be neither read nor written".to_owned(),
            Self::UnderMinIsr => {
                format!("{count}, fewer than {MIN_ISR}: writes with acks=all are refused")
            }
            Self::AtMinIsr => format!("{count}, no more than {MIN_ISR}"),
            Self::UnderReplicated => count,
        }
    }
}

fn partitions(topics: &[(TopicDescription, usize)]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (topic, min_isr) in topics {
        for partition in &topic.partitions {
            if let Some(fault) = Fault::of(partition, *min_isr) {
                let name = format!("{}-{}", topic.name, partition.index);
                rows.push(row("partition", name, fault.in_words(partition)));
            }
        }
    }
    rows
}

/// A line for each topic with something wrong: how many of its partitions have which fault, and those that are
/// under-replicated whatever else they are.
fn by_topic(topics: &[(TopicDescription, usize)]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (topic, min_isr) in topics {
        let faults = topic
            .partitions
            .iter()
            .filter_map(|one| Fault::of(one, *min_isr));
        let faults: Vec<Fault> = faults.collect();
        if faults.is_empty() {
            continue;
        }
        let count = |fault| faults.iter().filter(|one| **one == fault).count() as i64;
        rows.push(
            Row::new()
                .with("topic", topic.name.as_str())
                .with("partitions", topic.partitions.len() as i64)
                .with(
                    "underReplicated",
                    faults.len() as i64 - count(Fault::Offline),
                )
                .with("atMinIsr", count(Fault::AtMinIsr))
                .with("underMinIsr", count(Fault::UnderMinIsr))
                .with("offline", count(Fault::Offline)),
        );
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use riverrun_client::BrokerId;

    #[track_caller]
    fn check(leader: Option<i32>, in_sync: usize, min_isr: usize, expected: Option<Fault>) {
        let replicas: Vec<BrokerId> = (1..4).map(BrokerId).collect();
        let partition = PartitionDescription {
            index: 0,
            leader: leader.map(BrokerId),
            leader_epoch: 0,
            in_sync_replicas: replicas[..in_sync].to_vec(),
            replicas,
            offline_replicas: Vec::new(),
            eligible_leader_replicas: Vec::new(),
        };
        let fault = Fault::of(&partition, min_isr);
        assert_eq!(fault, expected);
        let words = fault
            .map(|fault| fault.in_words(&partition))
            .unwrap_or_default();
        let count = format!("{in_sync} of 3 replicas are in sync");
        assert!(
            matches!(fault, None | Some(Fault::Offline)) || words.contains(&count),
            "{words}"
        );
    }

    #[test]
    fn one_thing_is_told_in_the_singular() {
        assert_eq!(need_attention(1), "1 thing needs attention");
        assert_eq!(need_attention(2), "2 things need attention");
    }

    #[test]
    fn the_worst_of_a_partition_is_told() {
        check(Some(1), 3, 2, None);
        check(Some(1), 3, 9, None);
        check(Some(1), 2, 1, Some(Fault::UnderReplicated));
        check(Some(1), 2, 2, Some(Fault::AtMinIsr));
        check(Some(1), 1, 2, Some(Fault::UnderMinIsr));
        check(None, 1, 1, Some(Fault::Offline));
    }
}
