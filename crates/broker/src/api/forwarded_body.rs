//! The body of a request that the controller decides, and goes to it as it came: whether it can be read.
//!
//! - What cannot be read is told to its client alone. At the controller it would hold up what others forward over
//!   the same connection.
//! - APIs of which this build knows nothing more than their bytes are the controller's to read.

use super::Request;
use model::DecodeError;
use wire::ApiKey;
use wire::messages::{
    AddRaftVoterRequest, AlterClientQuotasRequest, AlterConfigsRequest,
    AlterPartitionReassignmentsRequest, AlterUserScramCredentialsRequest, CreateAclsRequest,
    CreatePartitionsRequest, CreateTopicsRequest, DeleteAclsRequest, DeleteTopicsRequest,
    DescribeQuorumRequest, ElectLeadersRequest, IncrementalAlterConfigsRequest,
    ListPartitionReassignmentsRequest, RemoveRaftVoterRequest, UnregisterBrokerRequest,
    UpdateFeaturesRequest,
};

/// Matches over the APIs, each with the type of its request.
macro_rules! decoded {
    ($request:ident: $($api:ident => $message:ty,)+) => {
        match $request.api {
            $(ApiKey::$api => $request.decode::<$message>().map(drop),)+
            _ => Ok(()),
        }
    };
}

/// Checks that the body of a request can be read.
///
/// # Errors
/// Why it cannot.
pub(super) fn check(request: &Request<'_>) -> Result<(), DecodeError> {
    decoded!(request:
        AddRaftVoter => AddRaftVoterRequest<'_>,
        AlterClientQuotas => AlterClientQuotasRequest<'_>,
        AlterConfigs => AlterConfigsRequest<'_>,
        AlterPartitionReassignments => AlterPartitionReassignmentsRequest<'_>,
        AlterUserScramCredentials => AlterUserScramCredentialsRequest<'_>,
        CreateAcls => CreateAclsRequest<'_>,
        CreatePartitions => CreatePartitionsRequest<'_>,
        CreateTopics => CreateTopicsRequest<'_>,
        DeleteAcls => DeleteAclsRequest<'_>,
        DeleteTopics => DeleteTopicsRequest<'_>,
        DescribeQuorum => DescribeQuorumRequest<'_>,
        ElectLeaders => ElectLeadersRequest<'_>,
        IncrementalAlterConfigs => IncrementalAlterConfigsRequest<'_>,
        ListPartitionReassignments => ListPartitionReassignmentsRequest<'_>,
        RemoveRaftVoter => RemoveRaftVoterRequest<'_>,
        UnregisterBroker => UnregisterBrokerRequest,
        UpdateFeatures => UpdateFeaturesRequest<'_>,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::served;
    use model::InvalidStrings;

    #[test]
    fn every_request_that_is_forwarded_and_served_here_is_read_before() {
        let invalid = InvalidStrings::default();
        for one in served::SERVED {
            if !served::is_decided_by_controller(one.api) {
                continue;
            }
            let request = Request {
                api: one.api,
                version: one.max_version,
                correlation_id: 0,
                body: &[],
                invalid: &invalid,
                elements_max: 10,
                waits_for_room: false,
            };
            assert!(check(&request).is_err(), "{}", one.api);
        }
    }
}
