//! `riverrun cluster reassign` and `drain`: a plan, its execution with a throttle, and its progress.

use super::places::topics_named;
use super::reassignment_plan::{Assignment, Racks, TooFewBrokers, balanced, drained};
use super::throttles::{remove_throttles, set_throttles};
use crate::connect::{Failure, Stdout, succeeded};
use crate::output::Row;
use clap::Args;
use model::{BrokerId, TopicPartition};
use riverrun_client::Error;
use riverrun_client::admin::Admin;
use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::time::Duration;

/// The pause between two looks at what is under way.
const LOOK_PAUSE: Duration = Duration::from_millis(500);
/// How many characters a bar has.
const BAR_WIDTH: usize = 40;

/// The arguments of `cluster reassign`.
#[derive(Debug, Args)]
pub(crate) struct ReassignArguments {
    /// The topics; a regular expression stands for those that it matches, none for all topics
    #[arg(value_name = "TOPIC")]
    topics: Vec<String>,
    /// The brokers that are to have the replicas; by default all that are not fenced
    #[arg(long, value_delimiter = ',', value_name = "BROKERS")]
    to: Vec<BrokerId>,
    /// Do it; without this the plan is shown only
    #[arg(long)]
    execute: bool,
    /// The most that brokers copy for this, in bytes a second
    #[arg(long, value_name = "BYTES", requires = "execute", value_parser = clap::value_parser!(i64).range(1..))]
    throttle: Option<i64>,
    /// Wait until all that is under way is done, show how far it is, and remove the throttle
    #[arg(long)]
    progress: bool,
    /// Cancel all reassignments that are under way, of these topics if some are named
    #[arg(long, conflicts_with_all = ["to", "execute", "throttle", "progress"])]
    cancel: bool,
}

/// The arguments of `cluster drain`.
#[derive(Debug, Args)]
pub(crate) struct DrainArguments {
    /// The broker's id
    broker: BrokerId,
    /// The most that brokers copy for this, in bytes a second
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(i64).range(1..))]
    throttle: Option<i64>,
    /// Show the plan only
    #[arg(long)]
    dry_run: bool,
}

/// Shows a balanced plan, or does what is asked for.
pub(crate) async fn reassign(
    admin: &Admin,
    arguments: &ReassignArguments,
    output: Stdout,
) -> Result<(), Failure> {
    if arguments.cancel {
        return cancel(admin, &arguments.topics, output).await;
    }
    // Whoever only asks how far it is plans nothing.
    if arguments.progress && !arguments.execute {
        return follow(admin).await;
    }
    let current = assignment(admin, &arguments.topics).await?;
    let racks = racks(admin, &arguments.to).await?;
    let plan = balanced(&current, &racks).map_err(refused)?;
    show(&current, &plan, output)?;
    if !arguments.execute {
        if !plan.is_empty() {
            crate::tell("this is a plan: add `--execute` to do it");
        }
        return Ok(());
    }
    execute(admin, &current, &plan, arguments.throttle).await?;
    match (arguments.progress, plan.is_empty()) {
        (true, false) => follow(admin).await,
        (_, true) => Ok(()),
        (false, false) => {
            crate::tell(
                "`riverrun cluster reassign --progress` waits for it, and removes the throttle",
            );
            Ok(())
        }
    }
}

/// Moves all that a broker has to others, and waits for that.
pub(crate) async fn drain(
    admin: &Admin,
    arguments: &DrainArguments,
    output: Stdout,
) -> Result<(), Failure> {
    let broker = arguments.broker;
    let current = assignment(admin, &[]).await?;
    let mut racks = racks(admin, &[]).await?;
    racks.remove(&broker);
    let registered = admin.describe_cluster().await?.brokers;
    let is_registered = registered.iter().any(|one| one.id == broker);
    if !is_registered && !current.values().any(|on| on.contains(&broker)) {
        let ids: Vec<String> = racks.keys().map(ToString::to_string).collect();
        let text = format!(
            "broker {broker} is not in the cluster and has no replicas; the brokers are {}",
            ids.join(", ")
        );
        return Err(Error::Invalid(text).into());
    }
    let plan = drained(&current, &racks, broker).map_err(refused)?;
    show(&current, &plan, output)?;
    if arguments.dry_run {
        return Ok(());
    }
    if !plan.is_empty() {
        execute(admin, &current, &plan, arguments.throttle).await?;
        follow(admin).await?;
    }
    let left = assignment(admin, &[]).await?;
    let left = left.values().filter(|on| on.contains(&broker)).count();
    if left > 0 {
        let text = format!("broker {broker} still has {left} replicas: run the command again");
        return Err(Error::Invalid(text).into());
    }
    crate::tell(&format!(
        "broker {broker} has no replicas: stop it, then `riverrun cluster unregister {broker}`"
    ));
    Ok(())
}

fn refused(error: TooFewBrokers) -> Failure {
    Error::Invalid(error.to_string()).into()
}

/// The replicas of these topics, or of all.
async fn assignment(admin: &Admin, topics: &[String]) -> Result<Assignment, Failure> {
    let names: Vec<String> = match topics {
        [] => {
            let listed = admin.list_topics().await?;
            listed.into_iter().map(|topic| topic.name).collect()
        }
        topics => topics_named(admin, topics).await?,
    };
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (described, outcome) = succeeded(admin.describe_topics(&names).await);
    outcome?;
    let mut assignment = Assignment::new();
    for (name, topic) in described {
        for partition in topic.partitions {
            let key = TopicPartition::new(&*name, partition.index);
            assignment.insert(key, partition.replicas);
        }
    }
    // What is under way is done for whoever plans: who leaves has nothing any more.
    for (partition, under_way) in admin.list_partition_reassignments(None).await? {
        if let Some(replicas) = assignment.get_mut(&partition) {
            replicas.retain(|id| !under_way.removing_replicas.contains(id));
        }
    }
    Ok(assignment)
}

/// The brokers with their racks: those that are named, or all that are alive.
async fn racks(admin: &Admin, named: &[BrokerId]) -> Result<Racks, Failure> {
    let cluster = admin.describe_cluster().await?;
    let alive = cluster.brokers.into_iter().filter(|one| !one.is_fenced);
    let alive: Racks = alive.map(|one| (one.id, one.rack)).collect();
    if named.is_empty() {
        return Ok(alive);
    }
    let find = |id: &BrokerId| match alive.get(id) {
        Some(rack) => Ok((*id, rack.clone())),
        None => {
            let ids: Vec<String> = alive.keys().map(ToString::to_string).collect();
            let text = format!(
                "broker {id} is not in the cluster, or is fenced; the others are {}",
                ids.join(", ")
            );
            Err(Failure::Client(Error::Invalid(text)))
        }
    };
    named.iter().map(find).collect()
}

fn show(current: &Assignment, plan: &Assignment, mut output: Stdout) -> Result<(), Failure> {
    let rows: Vec<Row> = plan
        .iter()
        .map(|(partition, replicas)| {
            Row::new()
                .with("topic", partition.topic.as_str())
                .with("partition", partition.partition)
                .with("replicas", current[partition].clone())
                .with("to", replicas.clone())
        })
        .collect();
    output.list(&rows, "partition has to move")?;
    Ok(output.flush()?)
}

async fn execute(
    admin: &Admin,
    current: &Assignment,
    plan: &Assignment,
    throttle_bytes: Option<i64>,
) -> Result<(), Failure> {
    if let Some(rate_bytes) = throttle_bytes {
        set_throttles(admin, current, plan, rate_bytes).await?;
    }
    let changes = plan.iter();
    let changes = changes.map(|(partition, replicas)| (partition.clone(), Some(replicas.clone())));
    let answers = admin
        .alter_partition_reassignments(&changes.collect())
        .await?;
    let (_, outcome) = succeeded(answers);
    outcome
}

async fn cancel(admin: &Admin, topics: &[String], mut output: Stdout) -> Result<(), Failure> {
    let under_way = admin.list_partition_reassignments(None).await?;
    let named: Option<BTreeSet<String>> = match topics {
        [] => None,
        topics => Some(topics_named(admin, topics).await?.into_iter().collect()),
    };
    let is_meant =
        |one: &TopicPartition| named.as_ref().is_none_or(|all| all.contains(&*one.topic));
    let changes = under_way.into_keys().filter(is_meant);
    let changes = changes.map(|partition| (partition, None));
    let (cancelled, outcome) = succeeded(
        admin
            .alter_partition_reassignments(&changes.collect())
            .await?,
    );
    let rows: Vec<Row> = cancelled
        .iter()
        .map(|(partition, ())| {
            Row::new()
                .with("topic", partition.topic.as_str())
                .with("partition", partition.partition)
                .with("reassignment", "cancelled")
        })
        .collect();
    output.list(&rows, "reassignment is under way")?;
    output.flush()?;
    outcome?;
    remove_throttles(admin).await
}

/// Waits until nothing is under way, tells how far it is, and takes the throttles away.
async fn follow(admin: &Admin) -> Result<(), Failure> {
    let mut most = 0;
    let mut told = String::new();
    loop {
        let left = admin.list_partition_reassignments(None).await?.len();
        most = most.max(left);
        let text = bar(most - left, most);
        if text != told {
            tell_progress(&text, left == 0);
            told = text;
        }
        if left == 0 {
            break;
        }
        tokio::time::sleep(LOOK_PAUSE).await;
    }
    remove_throttles(admin).await
}

/// How far it is, in words that a bar goes before.
fn bar(done: usize, all: usize) -> String {
    let filled = (done * BAR_WIDTH).checked_div(all).unwrap_or(BAR_WIDTH);
    let (done_part, rest) = ("#".repeat(filled), ".".repeat(BAR_WIDTH - filled));
    format!("[{done_part}{rest}] {done} of {all} partitions are done")
}

/// A line that takes the place of the one before, where a terminal shows it.
#[expect(
    clippy::print_stderr,
    reason = "the standard output is for what was asked for"
)]
fn tell_progress(text: &str, is_last: bool) {
    if !std::io::stderr().is_terminal() {
        crate::tell(text);
        return;
    }
    eprint!("\r{text}");
    if is_last {
        eprintln!();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_long_as_what_is_done() {
        let check = |done, all, filled: usize| {
            let text = bar(done, all);
            assert_eq!(text.matches('#').count(), filled, "{text}");
            assert_eq!(text.matches('.').count(), BAR_WIDTH - filled, "{text}");
        };
        check(0, 0, BAR_WIDTH);
        check(0, 3, 0);
        check(1, 2, BAR_WIDTH / 2);
        check(3, 3, BAR_WIDTH);
    }
}
