//! `riverrun cluster health`: what in a cluster needs a human, for people and for probes.

use crate::connect::{Failure, Stdout, succeeded};
use crate::output::Row;
use riverrun_client::Error;
use riverrun_client::admin::{Admin, PartitionDescription};

/// Shows a line for each thing that is wrong, and fails if there is one.
pub(crate) async fn health(admin: &Admin, mut output: Stdout) -> Result<(), Failure> {
    let mut rows = brokers(admin).await?;
    rows.extend(log_directories(admin).await?);
    rows.extend(partitions(admin).await?);
    output.table(&rows)?;
    output.flush()?;
    match rows.len() {
        0 => {
            crate::tell("healthy: every broker, log directory and partition is in order");
            Ok(())
        }
        count => {
            crate::complain(&format!("{count} things need attention"));
            Err(Failure::Told)
        }
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

async fn partitions(admin: &Admin) -> Result<Vec<Row>, Failure> {
    let listed = admin.list_topics().await?;
    let names: Vec<&str> = listed.iter().map(|topic| topic.name.as_str()).collect();
    let (topics, outcome) = succeeded(admin.describe_topics(&names).await);
    outcome?;
    let mut rows = Vec::new();
    for (name, topic) in topics {
        for partition in &topic.partitions {
            if let Some(problem) = problem(partition) {
                let name = format!("{name}-{}", partition.index);
                rows.push(row("partition", name, problem));
            }
        }
    }
    Ok(rows)
}

/// What is wrong with a partition, the worst first.
fn problem(partition: &PartitionDescription) -> Option<String> {
    if partition.leader.is_none() {
        return Some("no leader: it can be neither read nor written".to_owned());
    }
    let (all, in_sync) = (&partition.replicas, &partition.in_sync_replicas);
    if in_sync.len() < all.len() {
        let (in_sync, all) = (in_sync.len(), all.len());
        return Some(format!("{in_sync} of {all} replicas are in sync"));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_of_a_partition_is_told() {
        let mut partition = PartitionDescription {
            index: 0,
            leader: Some(riverrun_client::BrokerId(1)),
            leader_epoch: 0,
            replicas: vec![riverrun_client::BrokerId(1), riverrun_client::BrokerId(2)],
            in_sync_replicas: vec![riverrun_client::BrokerId(1), riverrun_client::BrokerId(2)],
            offline_replicas: Vec::new(),
            eligible_leader_replicas: Vec::new(),
        };
        assert_eq!(problem(&partition), None);
        partition.in_sync_replicas.pop();
        let words = problem(&partition).unwrap_or_default();
        assert_eq!(words, "1 of 2 replicas are in sync");
        partition.leader = None;
        assert!(problem(&partition).is_some_and(|words| words.starts_with("no leader")));
    }
}
