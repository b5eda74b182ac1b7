//! Nodes that fit no quorum whose only voter is this node: told to the operator, not more than once a minute.
//! Anybody may send what they send, so nothing here is certain.
//!
//! - Some claim to lead it, or want to, and do not vote: they follow another configuration than this node.
//! - Some follow it and have more of the metadata log than this node, which has lost records then. Of those only
//!   nodes that are registered are told, each of them.

use crate::scheduling::log_rate_limit::{LogRateLimit, LogRateLimits};
use controller::metadata_log::is_node;
use metadata::MetadataImage;
use model::{BrokerId, LeaderEpoch};
use raft::FetchRequest;
use std::net::SocketAddr;

/// What was told of such nodes.
#[derive(Debug)]
pub(crate) struct ForeignNodes {
    leading: LogRateLimit,
    ahead: LogRateLimits<BrokerId>,
}

impl Default for ForeignNodes {
    fn default() -> Self {
        Self {
            leading: LogRateLimit::once_a_minute(),
            ahead: LogRateLimits::default(),
        }
    }
}

impl ForeignNodes {
    /// Tells of a node that would lead `epoch`.
    pub(super) fn tell(&self, peer: SocketAddr, id: BrokerId, epoch: LeaderEpoch) {
        if let Some(not_logged) = self.leading.due() {
            tracing::warn!(
                %peer,
                %id,
                %epoch,
                not_logged,
                "a node that is no voter claims to lead the quorum; this controller votes alone, and goes on to lead: \
                 look at the `controller.quorum.voters` of that node"
            );
        }
    }

    /// Tells of a node that has fetched the metadata log up to an offset that this node does not have.
    pub(super) fn tell_ahead(
        &self,
        peer: SocketAddr,
        image: &MetadataImage,
        cluster_id: Option<&str>,
        fetch: &FetchRequest,
    ) {
        let Some((id, not_logged)) = self.ahead_due(image, cluster_id, fetch) else {
            return;
        };
        tracing::error!(
            %peer,
            %id,
            epoch = %fetch.leader_epoch,
            offset = fetch.fetch_offset.0,
            not_logged,
            "a node says that it has more of the metadata log than this controller, which votes alone; if that is so, \
             records are lost here, or an older copy of the directory has been restored: stop this controller and \
             restore its newest directory"
        );
    }

    /// The node, and how often it was not told of, if it is to be: a registered one that names its cluster, as all
    /// nodes do.
    fn ahead_due(
        &self,
        image: &MetadataImage,
        cluster_id: Option<&str>,
        fetch: &FetchRequest,
    ) -> Option<(BrokerId, u64)> {
        let id = cluster_id.and(fetch.replica)?.id;
        let not_logged = is_node(image, id).then(|| self.ahead.due(id)).flatten()?;
        Some((id, not_logged))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metadata::{BrokerRegistration, MetadataRecord};
    use model::{BrokerEpoch, Offset, Uuid};
    use raft::ReplicaKey;

    fn image(ids: &[i32]) -> MetadataImage {
        let mut image = MetadataImage::default();
        for id in ids {
            let registered = MetadataRecord::RegisterBroker(BrokerRegistration {
                id: BrokerId(*id),
                epoch: BrokerEpoch(8),
                incarnation_id: Uuid::from_u128(9),
                endpoints: Vec::new(),
                features: Default::default(),
                rack: None,
                is_fenced: true,
                is_in_controlled_shutdown: false,
                is_migrating_zk_broker: false,
                directories: Vec::new(),
                cordoned_directories: None,
            });
            image.replay(&registered).expect("it fits");
        }
        image
    }

    #[test]
    fn only_registered_nodes_that_name_their_cluster_are_told_as_ahead_and_none_hides_another() {
        let (nodes, image) = (ForeignNodes::default(), image(&[2, 3]));
        let due = |id: Option<i32>, cluster_id| {
            let fetch = FetchRequest {
                replica: id.map(|id| ReplicaKey {
                    id: BrokerId(id),
                    directory_id: Uuid::ZERO,
                }),
                leader_epoch: LeaderEpoch(99_999),
                fetch_offset: Offset(0),
                last_fetched_epoch: LeaderEpoch(0),
                high_watermark: Offset::MAX,
                max_wait_ms: 0,
                max_bytes: 1,
            };
            let due = nodes.ahead_due(&image, cluster_id, &fetch);
            due.map(|(id, not_logged)| (id.0, not_logged))
        };
        assert_eq!(due(Some(4_242), Some("cluster")), None);
        assert_eq!(due(Some(2), None), None);
        assert_eq!(due(None, Some("cluster")), None);
        assert_eq!(due(Some(2), Some("cluster")), Some((2, 0)));
        assert_eq!(due(Some(2), Some("cluster")), None);
        assert_eq!(due(Some(3), Some("cluster")), Some((3, 0)));
    }
}
