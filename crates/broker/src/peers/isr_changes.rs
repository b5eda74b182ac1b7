//! Followers of the partitions that this broker leads: whether they are too late, and what the controller is
//! asked because of that, or as they have caught up (AlterPartition).
//!
//! ```text
//!   every half of `replica.lag.time.max.ms` ─> Partition::check_followers ─┐
//!   a follower's fetch, in `api` ──────────────────────────────────────────┴─> proposals
//!   proposals ─> one request at a time ─> controller ─> Partition::apply_isr_answer
//! ```
//!
//! Both cost in proportion to the partitions that have followers.

use crate::logs::Logs;
use crate::scheduling::clock::monotonic;
use crate::scheduling::disk_watch::DiskUse;
use controller::AlterPartition;
use controller::alter_partition::{AlteredPartition, WantedIsr};
use metadata::LeaderRecoveryState;
use model::{ErrorCode, MonotonicTime};
use replication::{CommittedIsr, IsrAnswer, IsrProposal, Partition, PartitionKey};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// How long is waited for a partition that somebody else has. Where that is in vain, the disk may be stuck.
const PATIENCE: Duration = Duration::from_millis(50);
/// How often leaders are told the time.
const PULSE: Duration = Duration::from_secs(1);

/// Asks the controller for what leaders propose, for ever.
pub(crate) async fn ask_for_all(logs: Arc<Logs>) {
    let leaders = logs.host.leaders().clone();
    loop {
        let retry_at = leaders.with_proposals(|proposals| proposals.retry_at());
        let next = leaders.next_request(monotonic);
        let request = match retry_at {
            None => next.await,
            Some(at) => match tokio::time::timeout(until(at), next).await {
                Ok(request) => request,
                Err(_) => continue,
            },
        };
        let answer = ask(&logs, &request).await;
        let told = leaders.with_proposals(|proposals| proposals.handle_answer(answer, monotonic()));
        tell(&logs, told);
    }
}

fn until(at: MonotonicTime) -> Duration {
    let left_ms = at.ms_since(monotonic()).max(0);
    Duration::from_millis(left_ms.unsigned_abs())
}

/// One request; gives what the controller says of the partitions that it names.
async fn ask(
    logs: &Logs,
    proposals: &[IsrProposal],
) -> Result<Vec<(PartitionKey, IsrAnswer)>, ErrorCode> {
    let (id, epoch) = (logs.node.id, logs.node.broker_epoch());
    let wanted = proposals.iter().map(|proposal| WantedIsr {
        topic_id: proposal.key.0,
        partition_id: proposal.key.1,
        leader_epoch: proposal.leader_epoch,
        partition_epoch: proposal.partition_epoch,
        isr: {
            let isr = proposal.isr.iter();
            let isr = isr.map(|(one, known)| (*one, if *one == id { epoch } else { *known }));
            isr.collect()
        },
        leader_recovery_state: Some(LeaderRecoveryState::Recovered),
    });
    let request = AlterPartition {
        broker_id: id,
        broker_epoch: epoch,
        partitions: wanted.collect(),
    };
    let answered = logs.controller.request(request).await?;
    let answered = answered.map_err(|error| {
        tracing::warn!(%error, "the controller refuses the changes of in-sync replicas of this broker; it is asked again");
        error.code
    })?;
    let keys = proposals.iter().map(|proposal| proposal.key);
    let answers = answered.into_iter().map(|answer| answer.map(committed));
    Ok(keys.zip(answers).collect())
}

fn committed(altered: AlteredPartition) -> CommittedIsr {
    CommittedIsr {
        leader_epoch: altered.leader_epoch,
        isr: altered.isr,
        partition_epoch: altered.partition_epoch,
    }
}

/// Tells partitions what the controller says. Nobody waits for those whose disk is stuck.
fn tell(logs: &Arc<Logs>, told: Vec<(IsrProposal, IsrAnswer)>) {
    let mut by_directory: BTreeMap<usize, Vec<(Arc<Partition>, u64, IsrAnswer)>> = BTreeMap::new();
    for (proposal, answer) in told {
        if let Some(partition) = logs.partitions.by_key(proposal.key) {
            log_answer(&partition, &proposal, &answer);
            let of_directory = by_directory.entry(partition.directory_index()).or_default();
            of_directory.push((partition, proposal.number, answer));
        }
    }
    for (directory_index, told) in by_directory {
        let logs = logs.clone();
        tokio::spawn(async move {
            for (partition, number, answer) in told {
                let disk = logs.disks.turn(directory_index, DiskUse::Write).await;
                disk.run(|| partition.apply_isr_answer(number, &answer));
            }
        });
    }
}

fn log_answer(partition: &Partition, proposal: &IsrProposal, answer: &IsrAnswer) {
    match answer {
        Ok(committed) => {
            let (isr, epoch) = (&committed.isr, committed.partition_epoch);
            tracing::info!(%partition, ?isr, epoch, "the in-sync replicas have changed");
        }
        Err(error) => {
            let isr = &proposal.isr;
            tracing::info!(%partition, ?isr, %error, "the controller refuses this change of in-sync replicas");
        }
    }
}

/// Looks for followers that are too late, for ever.
pub(crate) async fn check_all(logs: Arc<Logs>) {
    let lag_max_ms = logs.node.config.replication.replica_lag_time_max_ms;
    let interval = Duration::from_millis((lag_max_ms / 2).max(1).unsigned_abs());
    let mut waited = Duration::ZERO;
    loop {
        let pause = PULSE.min(interval);
        tokio::time::sleep(pause).await;
        let leaders = logs.host.leaders();
        leaders.note_time(monotonic());
        waited += pause;
        if waited < interval {
            continue;
        }
        waited = Duration::ZERO;
        let followed = leaders.followed();
        if followed.is_empty() {
            continue;
        }
        let checked = logs.clone();
        let check = move || check_partitions(&checked, &followed);
        // A panic has been told of.
        let _ = tokio::task::spawn_blocking(check).await;
    }
}

fn check_partitions(logs: &Logs, followed: &[PartitionKey]) {
    let mut slow = BTreeSet::new();
    for key in followed {
        let Some(partition) = logs.partitions.by_key(*key) else {
            continue;
        };
        let directory_index = partition.directory_index();
        let patience = match slow.contains(&directory_index) {
            true => Duration::ZERO,
            false => PATIENCE,
        };
        if !partition.check_followers(monotonic(), patience) {
            slow.insert(directory_index);
        }
    }
}
