//! `riverrun cluster`: who is in the cluster, what its controllers agree on, where its logs are.

use super::health::{HealthArguments, health};
use super::reassign::{DrainArguments, ReassignArguments, drain, reassign};
use crate::connect::{ConnectionArguments, Failure, Stdout, run, succeeded};
use crate::output::{Cell, Row};
use crate::time::date;
use clap::{Args, Subcommand};
use metadata::MetadataVersion;
use model::BrokerId;
use riverrun_client::admin::{Admin, FeatureUpdate, QuorumReplica, UpgradeKind};
use std::process::ExitCode;

/// The arguments of `cluster`.
#[derive(Debug, Args)]
pub(crate) struct ClusterArguments {
    #[command(subcommand)]
    command: ClusterCommand,
    #[command(flatten)]
    connection: ConnectionArguments,
}

#[derive(Debug, Subcommand)]
enum ClusterCommand {
    /// Show the cluster's id and its brokers
    #[command(visible_alias = "describe")]
    Info,
    /// Show the features and their levels
    Features,
    /// Change feature levels, all of them or none
    SetFeatures {
        /// The features with their levels, such as group.version=1 or metadata.version=4.3; 0 disables
        /// a feature
        #[arg(required = true, value_name = "FEATURE=LEVEL", value_parser = feature)]
        features: Vec<(String, i16)>,
        /// Allow a safe downgrade
        #[arg(long)]
        downgrade: bool,
        /// Allow an unsafe downgrade (may lose metadata)
        #[arg(long, requires = "downgrade")]
        r#unsafe: bool,
        /// Validate only
        #[arg(long)]
        dry_run: bool,
    },
    /// Unregister a broker that was removed permanently
    Unregister {
        /// The broker's id
        broker: BrokerId,
    },
    /// Show the quorum of controllers
    Quorum,
    /// Show brokers, log directories and partitions that need attention; fails if there are any
    Health(HealthArguments),
    /// Balance replicas over brokers and racks with the fewest moves; shows the plan unless `--execute`
    Reassign(ReassignArguments),
    /// Move all replicas and leaderships of a broker to others before it leaves
    Drain(DrainArguments),
    /// Show the log directories of the brokers and what they hold
    LogDirs {
        /// Show one line per partition
        #[arg(long)]
        partitions: bool,
    },
}

/// Runs the command.
pub(crate) fn main(arguments: &ClusterArguments) -> ExitCode {
    let connection = &arguments.connection;
    let command = async |output| {
        let admin = connection.admin()?;
        match &arguments.command {
            ClusterCommand::SetFeatures {
                features,
                downgrade,
                r#unsafe,
                dry_run,
            } => {
                let kind = match (downgrade, r#unsafe) {
                    (_, true) => UpgradeKind::UnsafeDowngrade,
                    (true, false) => UpgradeKind::SafeDowngrade,
                    (false, false) => UpgradeKind::Upgrade,
                };
                set_features(&admin, features, kind, *dry_run).await
            }
            ClusterCommand::Unregister { broker } => {
                admin.unregister_broker(*broker).await?;
                crate::tell(&format!("broker {broker} is unregistered"));
                Ok(())
            }
            ClusterCommand::Info => show_cluster(&admin, output).await,
            ClusterCommand::Features => features(&admin, output).await,
            ClusterCommand::Quorum => quorum(&admin, output).await,
            ClusterCommand::Health(arguments) => health(&admin, arguments, output).await,
            ClusterCommand::Reassign(arguments) => reassign(&admin, arguments, output).await,
            ClusterCommand::Drain(arguments) => drain(&admin, arguments, output).await,
            ClusterCommand::LogDirs { partitions } => log_dirs(&admin, *partitions, output).await,
        }
    };
    run(command, connection.output)
}

/// `FEATURE=LEVEL`; a level of `metadata.version` may be a release.
fn feature(text: &str) -> Result<(String, i16), String> {
    let (name, level) = text
        .split_once('=')
        .ok_or_else(|| format!("`{text}`: write it as FEATURE=LEVEL"))?;
    let (name, level) = (name.trim(), level.trim());
    let is_release = name == MetadataVersion::FEATURE;
    let level = match MetadataVersion::from_name(level) {
        Some(version) if is_release => version.level(),
        _ => level.parse().map_err(|_| match is_release {
            true => format!("`{level}` is not a release known here; use 3.3 to 4.3, or a level"),
            false => format!("`{level}` is not a valid level; use a whole number"),
        })?,
    };
    Ok((name.to_owned(), level))
}

async fn set_features(
    admin: &Admin,
    features: &[(String, i16)],
    kind: UpgradeKind,
    dry_run: bool,
) -> Result<(), Failure> {
    let updates = features.iter().map(|(name, level)| {
        (
            name.clone(),
            FeatureUpdate {
                level: *level,
                kind,
            },
        )
    });
    admin.update_features(&updates.collect(), dry_run).await?;
    let done = if dry_run { "could be" } else { "is" };
    for (name, level) in features {
        crate::tell(&format!("{name} {done} {level}"));
    }
    Ok(())
}

async fn show_cluster(admin: &Admin, mut output: Stdout) -> Result<(), Failure> {
    let cluster = admin.describe_cluster().await?;
    output.heading(&format!("Cluster {}", cluster.cluster_id))?;
    let rows: Vec<Row> = cluster
        .brokers
        .iter()
        .map(|broker| {
            let row = Row::new()
                .with("broker", broker.id)
                .with("address", broker.endpoint.as_ref().map(ToString::to_string))
                .with("rack", broker.rack.clone())
                .with("fenced", broker.is_fenced)
                .with("controller", cluster.controller == Some(broker.id));
            if output.is_json() {
                row.with("clusterId", cluster.cluster_id.as_str())
            } else {
                row
            }
        })
        .collect();
    output.table(&rows)?;
    Ok(output.flush()?)
}

async fn features(admin: &Admin, mut output: Stdout) -> Result<(), Failure> {
    let features = admin.describe_features().await?;
    let mut names: Vec<&String> = features
        .supported
        .keys()
        .chain(features.finalized.keys())
        .collect();
    names.sort();
    names.dedup();
    let rows: Vec<Row> = names
        .into_iter()
        .map(|name| {
            let supported = features.supported.get(name);
            let finalized = features.finalized.get(name).map(|levels| levels.max);
            let release = finalized.filter(|_| name == MetadataVersion::FEATURE);
            let release = release.and_then(MetadataVersion::from_level);
            Row::new()
                .with("feature", name.as_str())
                .with("finalized", finalized)
                .with("supportedMin", supported.map(|levels| levels.min))
                .with("supportedMax", supported.map(|levels| levels.max))
                .with("release", release.map(MetadataVersion::name))
        })
        .collect();
    output.table(&rows)?;
    Ok(output.flush()?)
}

async fn quorum(admin: &Admin, mut output: Stdout) -> Result<(), Failure> {
    let quorum = admin.describe_quorum().await?;
    output.heading(&format!(
        "Leader {}, epoch {}, high watermark {}",
        quorum.leader_id, quorum.leader_epoch, quorum.high_watermark
    ))?;
    let leader_end = quorum
        .voters
        .iter()
        .find(|voter| voter.id == quorum.leader_id)
        .map_or(quorum.high_watermark, |leader| leader.log_end_offset);
    let row = |replica: &QuorumReplica, role: &str| {
        Row::new()
            .with("node", replica.id)
            .with("role", role)
            .with("directoryId", replica.directory_id.map(|id| id.to_string()))
            .with("logEndOffset", replica.log_end_offset)
            .with("lag", leader_end - replica.log_end_offset)
            .with(
                "lastCaughtUp",
                replica.last_caught_up_timestamp_ms.map(date),
            )
    };
    let mut rows = Vec::new();
    for voter in &quorum.voters {
        let is_leader = voter.id == quorum.leader_id;
        rows.push(row(voter, if is_leader { "leader" } else { "voter" }));
    }
    rows.extend(quorum.observers.iter().map(|one| row(one, "observer")));
    output.table(&rows)?;
    Ok(output.flush()?)
}

async fn log_dirs(admin: &Admin, partitions: bool, mut output: Stdout) -> Result<(), Failure> {
    let (described, outcome) = succeeded(admin.describe_log_dirs(None).await?);
    let mut rows = Vec::new();
    for (broker, directories) in described {
        for directory in directories {
            if partitions {
                rows.extend(directory.replicas.iter().map(|(partition, replica)| {
                    Row::new()
                        .with("broker", broker)
                        .with("path", directory.path.as_str())
                        .with("topic", partition.topic.as_str())
                        .with("partition", partition.partition)
                        .with("sizeBytes", replica.size_bytes)
                        .with("offsetLag", replica.offset_lag)
                }));
                continue;
            }
            let used: i64 = directory.replicas.values().map(|one| one.size_bytes).sum();
            rows.push(
                Row::new()
                    .with("broker", broker)
                    .with("path", directory.path)
                    .with("partitions", directory.replicas.len() as i64)
                    .with("sizeBytes", used)
                    .with("usableBytes", directory.usable_bytes)
                    .with("totalBytes", directory.total_bytes)
                    .with("cordoned", directory.is_cordoned)
                    .with(
                        "error",
                        directory
                            .error
                            .map_or(Cell::Missing, |error| error.to_string().into()),
                    ),
            );
        }
    }
    output.table(&rows)?;
    output.flush()?;
    outcome
}
