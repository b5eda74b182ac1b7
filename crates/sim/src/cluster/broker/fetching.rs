//! How a broker follows leaders: one fetcher for each, and what it asks for done with the logs.

use super::{BrokerNode, REQUEST_TIMEOUT_MS, SimPartition};
use crate::cluster::message::{Answer, Ask, Channel, Outbox};
use crate::cluster::planted::PlantedInCluster;
use model::{BrokerEpoch, BrokerId, LeaderEpoch, MonotonicTime, Now};
use replication::{
    FetcherRequest, FetcherSettings, FetcherVersions, FollowedPartition, PartitionKey,
    ReplicaFetcher, StepAction, StepOutcome,
};
use std::sync::Arc;

const VERSIONS: FetcherVersions = FetcherVersions {
    fetch: 18,
    list_offsets: 11,
};

/// The fetcher of one leader.
#[derive(Debug)]
pub(super) struct Fetcher {
    fetcher: ReplicaFetcher<Arc<SimPartition>>,
    /// The version of the request that is under way.
    version: i16,
}

impl BrokerNode {
    fn fetcher_settings(&self) -> FetcherSettings {
        let epoch = self.life.broker_epoch();
        FetcherSettings {
            replica_id: self.id,
            replica_epoch: epoch.unwrap_or(BrokerEpoch::NONE),
            max_wait_ms: 500,
            min_bytes: 1,
            max_bytes: 20_000,
            partition_max_bytes: 4_000,
            backoff_ms: 300,
        }
    }

    /// Follows a partition's leader from here on.
    pub(super) fn follow(
        &mut self,
        partition: &Arc<SimPartition>,
        leader: BrokerId,
        leader_epoch: LeaderEpoch,
        now: Now,
    ) -> Result<(), String> {
        if leader.0 < 0 || leader == self.id {
            return Ok(());
        }
        let now_ms = now.wall_ms;
        if self.planted == PlantedInCluster::CutsAtHighWatermark {
            let offset = partition.high_watermark();
            let cut = partition.truncate_as_follower(leader_epoch, offset, now_ms);
            cut.map_err(|error| error.to_string())?;
        }
        let position = partition
            .begin_following(leader_epoch, now_ms)
            .map_err(|error| error.to_string())?;
        self.write_checkpoints()?;
        let settings = self.fetcher_settings();
        let fetcher = self.fetchers.entry(leader).or_insert_with(|| Fetcher {
            fetcher: ReplicaFetcher::new(settings),
            version: VERSIONS.fetch,
        });
        let key = partition.key();
        fetcher.fetcher.add(FollowedPartition {
            replica: partition.clone(),
            topic_id: key.0,
            topic: Arc::from(partition.topic()),
            index: key.1,
            leader_epoch,
            position,
            is_throttled: false,
        });
        Ok(())
    }

    pub(super) fn unfollow(&mut self, key: PartitionKey) {
        for fetcher in self.fetchers.values_mut() {
            fetcher.fetcher.remove(key);
        }
    }

    pub(super) fn drop_idle_fetchers(&mut self) {
        self.fetchers
            .retain(|_, one| !one.fetcher.is_empty() || one.fetcher.is_waiting());
    }

    pub(super) fn poll_fetchers(&mut self, now: Now, out: &mut Outbox) {
        for (leader, one) in &mut self.fetchers {
            let mut bytes = Vec::new();
            let ask = match one
                .fetcher
                .poll_request(now.monotonic, VERSIONS, &mut bytes)
            {
                Some(FetcherRequest::Fetch) => {
                    one.version = VERSIONS.fetch;
                    Ask::ReplicaFetch(bytes)
                }
                Some(FetcherRequest::ListOffsets) => {
                    one.version = VERSIONS.list_offsets;
                    Ask::ReplicaListOffsets(bytes)
                }
                None => continue,
            };
            let channel = Channel::Fetcher(*leader);
            out.ask(leader.0 as usize, channel, ask, REQUEST_TIMEOUT_MS);
        }
    }

    pub(super) fn fetchers_deadline(&self) -> Option<MonotonicTime> {
        let fetchers = self.fetchers.values();
        fetchers.filter_map(|one| one.fetcher.next_deadline()).min()
    }

    pub(super) fn fetcher_answered(
        &mut self,
        leader: BrokerId,
        answer: Option<Answer>,
        now: Now,
    ) -> Result<(), String> {
        let planted = self.planted;
        let Some(one) = self.fetchers.get_mut(&leader) else {
            return Ok(());
        };
        let Some(Answer::Bytes(bytes)) = answer else {
            one.fetcher.handle_failure(now.monotonic);
            return Ok(());
        };
        let version = one.version;
        if one
            .fetcher
            .handle_response(&bytes, version, now.monotonic)
            .is_err()
        {
            return Ok(());
        }
        let mut is_cut = false;
        one.fetcher
            .take_steps(&bytes, usize::MAX, now.monotonic, |step| {
                let is_ignored = planted == PlantedInCluster::NeverCuts
                    && matches!(step.action, StepAction::TruncateToLeader { .. });
                if is_ignored {
                    return StepOutcome::Delayed(None);
                }
                is_cut |= step.action.is_truncation();
                StepOutcome::of(&step.replica.follow(&step.action, now.wall_ms))
            });
        one.fetcher.take_errors(|_, _| {});
        if is_cut {
            self.write_checkpoints()?;
        }
        self.drop_idle_fetchers();
        Ok(())
    }
}
