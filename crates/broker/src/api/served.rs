//! Which APIs are served, in which versions, and on which kind of listener: what ApiVersions
//! advertises and what `docs/compat.md` is generated from.
//!
//! A version that does not work yet is not in the table, so no client tries it.

use wire::ApiKey;

/// An API that works, and its versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServedApi {
    /// Which API.
    pub api: ApiKey,
    /// The lowest version served.
    pub min_version: i16,
    /// The highest version served.
    pub max_version: i16,
}

const fn all(api: ApiKey, min_version: i16, max_version: i16) -> ServedApi {
    ServedApi {
        api,
        min_version,
        max_version,
    }
}

/// Every API served, by number.
pub const SERVED: &[ServedApi] = &[
    all(ApiKey::Produce, 3, 13),
    all(ApiKey::Fetch, 4, 18),
    all(ApiKey::ListOffsets, 1, 11),
    all(ApiKey::Metadata, 0, 13),
    all(ApiKey::OffsetCommit, 2, 10),
    all(ApiKey::OffsetFetch, 1, 10),
    all(ApiKey::FindCoordinator, 0, 6),
    all(ApiKey::JoinGroup, 0, 9),
    all(ApiKey::Heartbeat, 0, 4),
    all(ApiKey::LeaveGroup, 0, 5),
    all(ApiKey::SyncGroup, 0, 5),
    all(ApiKey::DescribeGroups, 0, 6),
    all(ApiKey::ListGroups, 0, 5),
    all(ApiKey::ApiVersions, 0, 4),
    all(ApiKey::CreateTopics, 2, 7),
    all(ApiKey::DeleteTopics, 1, 6),
    all(ApiKey::DeleteRecords, 0, 2),
    all(ApiKey::InitProducerId, 0, 5),
    all(ApiKey::OffsetForLeaderEpoch, 2, 4),
    all(ApiKey::AddPartitionsToTxn, 0, 5),
    all(ApiKey::AddOffsetsToTxn, 0, 4),
    all(ApiKey::EndTxn, 0, 5),
    all(ApiKey::WriteTxnMarkers, 1, 2),
    all(ApiKey::TxnOffsetCommit, 0, 5),
    all(ApiKey::DescribeAcls, 1, 3),
    all(ApiKey::CreateAcls, 1, 3),
    all(ApiKey::DeleteAcls, 1, 3),
    all(ApiKey::DescribeConfigs, 1, 4),
    all(ApiKey::AlterConfigs, 0, 2),
    all(ApiKey::AlterReplicaLogDirs, 1, 2),
    all(ApiKey::DescribeLogDirs, 1, 5),
    all(ApiKey::CreatePartitions, 0, 3),
    all(ApiKey::DeleteGroups, 0, 2),
    all(ApiKey::ElectLeaders, 0, 2),
    all(ApiKey::IncrementalAlterConfigs, 0, 1),
    all(ApiKey::AlterPartitionReassignments, 0, 1),
    all(ApiKey::ListPartitionReassignments, 0, 0),
    all(ApiKey::OffsetDelete, 0, 0),
    all(ApiKey::DescribeClientQuotas, 0, 1),
    all(ApiKey::AlterClientQuotas, 0, 1),
    all(ApiKey::DescribeUserScramCredentials, 0, 0),
    all(ApiKey::AlterUserScramCredentials, 0, 0),
    all(ApiKey::Vote, 0, 2),
    all(ApiKey::BeginQuorumEpoch, 0, 1),
    all(ApiKey::EndQuorumEpoch, 0, 1),
    all(ApiKey::DescribeQuorum, 0, 2),
    all(ApiKey::AlterPartition, 2, 3),
    all(ApiKey::UpdateFeatures, 0, 2),
    all(ApiKey::Envelope, 0, 0),
    all(ApiKey::FetchSnapshot, 0, 1),
    all(ApiKey::DescribeCluster, 0, 2),
    all(ApiKey::DescribeProducers, 0, 0),
    all(ApiKey::BrokerRegistration, 0, 4),
    all(ApiKey::BrokerHeartbeat, 0, 2),
    all(ApiKey::UnregisterBroker, 0, 0),
    all(ApiKey::DescribeTransactions, 0, 0),
    all(ApiKey::ListTransactions, 0, 2),
    all(ApiKey::AllocateProducerIds, 0, 0),
    all(ApiKey::ConsumerGroupHeartbeat, 0, 1),
    all(ApiKey::ConsumerGroupDescribe, 0, 1),
    all(ApiKey::ControllerRegistration, 0, 0),
    all(ApiKey::AssignReplicasToDirs, 0, 0),
    all(ApiKey::ListConfigResources, 0, 1),
    all(ApiKey::DescribeTopicPartitions, 0, 0),
    all(ApiKey::AddRaftVoter, 0, 1),
    all(ApiKey::RemoveRaftVoter, 0, 0),
    all(ApiKey::UpdateRaftVoter, 0, 0),
];

/// Whether requests of an API are the controller's to decide: a broker whose controller is another node passes
/// them on.
pub(crate) const fn is_decided_by_controller(api: ApiKey) -> bool {
    matches!(
        api,
        ApiKey::CreateTopics
            | ApiKey::DeleteTopics
            | ApiKey::CreatePartitions
            | ApiKey::CreateAcls
            | ApiKey::DeleteAcls
            | ApiKey::AlterConfigs
            | ApiKey::IncrementalAlterConfigs
            | ApiKey::CreateDelegationToken
            | ApiKey::RenewDelegationToken
            | ApiKey::ExpireDelegationToken
            | ApiKey::ElectLeaders
            | ApiKey::AlterPartitionReassignments
            | ApiKey::ListPartitionReassignments
            | ApiKey::AlterClientQuotas
            | ApiKey::AlterUserScramCredentials
            | ApiKey::DescribeQuorum
            | ApiKey::UpdateFeatures
            | ApiKey::UnregisterBroker
            | ApiKey::AddRaftVoter
            | ApiKey::RemoveRaftVoter
    )
}

/// Whether `version` of `api` is served on a listener of this kind.
pub fn is_served(api: ApiKey, version: i16, is_controller: bool) -> bool {
    on_listener(is_controller)
        .any(|one| one.api == api && (one.min_version..=one.max_version).contains(&version))
}

/// What to tell whoever sent a version of an API that is not served.
pub(crate) fn why_not_served(api: ApiKey, version: i16, is_controller: bool) -> String {
    if matches!(api, ApiKey::SaslHandshake | ApiKey::SaslAuthenticate) {
        return format!(
            "{api}: the client wants to authenticate (SASL), and connections are not \
             authenticated here; set `security.protocol=PLAINTEXT` in the client"
        );
    }
    let Some(served) = on_listener(is_controller).find(|one| one.api == api) else {
        return format!("{api} is not served on this listener");
    };
    let (min, max) = (served.min_version, served.max_version);
    let advice = match version < min {
        true => "; the client is too old for Kafka 4: use one of Kafka 2.1 or later",
        false => "",
    };
    format!("{api} version {version} is not served here, but {min} to {max}{advice}")
}

/// The APIs of a listener of this kind, by number.
pub fn on_listener(is_controller: bool) -> impl Iterator<Item = &'static ServedApi> {
    SERVED.iter().filter(move |one| {
        let facts = one.api.facts();
        if is_controller {
            facts.controller
        } else {
            facts.broker
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_ascending_and_within_the_protocol() {
        assert!(SERVED.is_sorted_by(|a, b| a.api < b.api));
        for one in SERVED {
            let facts = one.api.facts();
            assert!(facts.min_version <= one.min_version, "{}", facts.name);
            assert!(one.min_version <= one.max_version, "{}", facts.name);
            assert!(one.max_version <= facts.max_version, "{}", facts.name);
        }
    }
}
