//! Kafka's error codes: every code of 4.3 with its name, its message and what a client may do.
//!
//! The codes are dense from -1 to 133, so a lookup from the wire is one bounds check and one load
//! from a table: constant time, no hashing, no allocation.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a client may do after an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retriability {
    /// Repeating the request cannot help.
    Fatal,
    /// The same request may succeed later.
    Retriable,
    /// The request may succeed once the client has refreshed its metadata.
    RefreshMetadata,
    /// The request may succeed once the client has looked up its coordinator again.
    RefreshCoordinator,
}

macro_rules! error_codes {
    ($($code:literal $variant:ident $name:literal $retriability:ident $message:literal;)*) => {
        /// An error code of the Kafka protocol, as in every `ErrorCode` field of a response.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(i16)]
        pub enum ErrorCode {
            $(#[doc = $message] $variant = $code,)*
        }

        impl ErrorCode {
            /// Every error code, in the order of its number.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Kafka's name of the code, such as `OFFSET_OUT_OF_RANGE`.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Kafka's message of the code; what an `ErrorMessage` field says by default.
            pub const fn message(self) -> &'static str {
                match self { $(Self::$variant => $message,)* }
            }

            /// What a client may do about it.
            pub const fn retriability(self) -> Retriability {
                match self { $(Self::$variant => Retriability::$retriability,)* }
            }
        }
    };
}

error_codes! {
    -1 UnknownServerError "UNKNOWN_SERVER_ERROR" Fatal
        "The server experienced an unexpected error when processing the request.";
    0 None "NONE" Fatal
        "NONE";
    1 OffsetOutOfRange "OFFSET_OUT_OF_RANGE" Fatal
        "The requested offset is not within the range of offsets maintained by the server.";
    2 CorruptMessage "CORRUPT_MESSAGE" Retriable
        "This message has failed its CRC checksum, exceeds the valid size, has a null key for a compacted topic, or is otherwise corrupt.";
    3 UnknownTopicOrPartition "UNKNOWN_TOPIC_OR_PARTITION" RefreshMetadata
        "This server does not host this topic-partition.";
    4 InvalidFetchSize "INVALID_FETCH_SIZE" Fatal
        "The requested fetch size is invalid.";
    5 LeaderNotAvailable "LEADER_NOT_AVAILABLE" RefreshMetadata
        "There is no leader for this topic-partition as we are in the middle of a leadership election.";
    6 NotLeaderOrFollower "NOT_LEADER_OR_FOLLOWER" RefreshMetadata
        "For requests intended only for the leader, this error indicates that the broker is not the current leader. For requests intended for any replica, this error indicates that the broker is not a replica of the topic partition.";
    7 RequestTimedOut "REQUEST_TIMED_OUT" Retriable
        "The request timed out.";
    8 BrokerNotAvailable "BROKER_NOT_AVAILABLE" Fatal
        "The broker is not available.";
    9 ReplicaNotAvailable "REPLICA_NOT_AVAILABLE" RefreshMetadata
        "The replica is not available for the requested topic-partition. Produce/Fetch requests and other requests intended only for the leader or follower return NOT_LEADER_OR_FOLLOWER if the broker is not a replica of the topic-partition.";
    10 MessageTooLarge "MESSAGE_TOO_LARGE" Fatal
        "The request included a message larger than the max message size the server will accept.";
    11 StaleControllerEpoch "STALE_CONTROLLER_EPOCH" Fatal
        "The controller moved to another broker.";
    12 OffsetMetadataTooLarge "OFFSET_METADATA_TOO_LARGE" Fatal
        "The metadata field of the offset request was too large.";
    13 NetworkException "NETWORK_EXCEPTION" RefreshMetadata
        "The server disconnected before a response was received.";
    14 CoordinatorLoadInProgress "COORDINATOR_LOAD_IN_PROGRESS" Retriable
        "The coordinator is loading and hence can't process requests.";
    15 CoordinatorNotAvailable "COORDINATOR_NOT_AVAILABLE" RefreshCoordinator
        "The coordinator is not available.";
    16 NotCoordinator "NOT_COORDINATOR" RefreshCoordinator
        "This is not the correct coordinator.";
    17 InvalidTopicException "INVALID_TOPIC_EXCEPTION" Fatal
        "The request attempted to perform an operation on an invalid topic.";
    18 RecordListTooLarge "RECORD_LIST_TOO_LARGE" Fatal
        "The request included message batch larger than the configured segment size on the server.";
    19 NotEnoughReplicas "NOT_ENOUGH_REPLICAS" Retriable
        "Messages are rejected since there are fewer in-sync replicas than required.";
    20 NotEnoughReplicasAfterAppend "NOT_ENOUGH_REPLICAS_AFTER_APPEND" Retriable
        "Messages are written to the log, but to fewer in-sync replicas than required.";
    21 InvalidRequiredAcks "INVALID_REQUIRED_ACKS" Fatal
        "Produce request specified an invalid value for required acks.";
    22 IllegalGeneration "ILLEGAL_GENERATION" Fatal
        "Specified group generation id is not valid.";
    23 InconsistentGroupProtocol "INCONSISTENT_GROUP_PROTOCOL" Fatal
        "The group member's supported protocols are incompatible with those of existing members or first group member tried to join with empty protocol type or empty protocol list.";
    24 InvalidGroupId "INVALID_GROUP_ID" Fatal
        "The group id is invalid.";
    25 UnknownMemberId "UNKNOWN_MEMBER_ID" Fatal
        "The coordinator is not aware of this member.";
    26 InvalidSessionTimeout "INVALID_SESSION_TIMEOUT" Fatal
        "The session timeout is not within the range allowed by the broker (as configured by group.min.session.timeout.ms and group.max.session.timeout.ms).";
    27 RebalanceInProgress "REBALANCE_IN_PROGRESS" Fatal
        "The group is rebalancing, so a rejoin is needed.";
    28 InvalidCommitOffsetSize "INVALID_COMMIT_OFFSET_SIZE" Fatal
        "The committing offset data size is not valid.";
    29 TopicAuthorizationFailed "TOPIC_AUTHORIZATION_FAILED" Fatal
        "Topic authorization failed.";
    30 GroupAuthorizationFailed "GROUP_AUTHORIZATION_FAILED" Fatal
        "Group authorization failed.";
    31 ClusterAuthorizationFailed "CLUSTER_AUTHORIZATION_FAILED" Fatal
        "Cluster authorization failed.";
    32 InvalidTimestamp "INVALID_TIMESTAMP" Fatal
        "The timestamp of the message is out of acceptable range.";
    33 UnsupportedSaslMechanism "UNSUPPORTED_SASL_MECHANISM" Fatal
        "The broker does not support the requested SASL mechanism.";
    34 IllegalSaslState "ILLEGAL_SASL_STATE" Fatal
        "Request is not valid given the current SASL state.";
    35 UnsupportedVersion "UNSUPPORTED_VERSION" Fatal
        "The version of API is not supported.";
    36 TopicAlreadyExists "TOPIC_ALREADY_EXISTS" Fatal
        "Topic with this name already exists.";
    37 InvalidPartitions "INVALID_PARTITIONS" Fatal
        "Number of partitions is below 1.";
    38 InvalidReplicationFactor "INVALID_REPLICATION_FACTOR" Fatal
        "Replication factor is below 1 or larger than the number of available brokers.";
    39 InvalidReplicaAssignment "INVALID_REPLICA_ASSIGNMENT" Fatal
        "Replica assignment is invalid.";
    40 InvalidConfig "INVALID_CONFIG" Fatal
        "Configuration is invalid.";
    41 NotController "NOT_CONTROLLER" Retriable
        "This is not the correct controller for this cluster.";
    42 InvalidRequest "INVALID_REQUEST" Fatal
        "This most likely occurs because of a request being malformed by the client library or the message was sent to an incompatible broker. See the broker logs for more details.";
    43 UnsupportedForMessageFormat "UNSUPPORTED_FOR_MESSAGE_FORMAT" Fatal
        "The message format version on the broker does not support the request.";
    44 PolicyViolation "POLICY_VIOLATION" Fatal
        "Request parameters do not satisfy the configured policy.";
    45 OutOfOrderSequenceNumber "OUT_OF_ORDER_SEQUENCE_NUMBER" Fatal
        "The broker received an out of order sequence number.";
    46 DuplicateSequenceNumber "DUPLICATE_SEQUENCE_NUMBER" Fatal
        "The broker received a duplicate sequence number.";
    47 InvalidProducerEpoch "INVALID_PRODUCER_EPOCH" Fatal
        "Producer attempted to produce with an old epoch.";
    48 InvalidTxnState "INVALID_TXN_STATE" Fatal
        "The producer attempted a transactional operation in an invalid state.";
    49 InvalidProducerIdMapping "INVALID_PRODUCER_ID_MAPPING" Fatal
        "The producer attempted to use a producer id which is not currently assigned to its transactional id.";
    50 InvalidTransactionTimeout "INVALID_TRANSACTION_TIMEOUT" Fatal
        "The transaction timeout is larger than the maximum value allowed by the broker (as configured by transaction.max.timeout.ms).";
    51 ConcurrentTransactions "CONCURRENT_TRANSACTIONS" Retriable
        "The producer attempted to update a transaction while another concurrent operation on the same transaction was ongoing.";
    52 TransactionCoordinatorFenced "TRANSACTION_COORDINATOR_FENCED" Fatal
        "Indicates that the transaction coordinator sending a WriteTxnMarker is no longer the current coordinator for a given producer.";
    53 TransactionalIdAuthorizationFailed "TRANSACTIONAL_ID_AUTHORIZATION_FAILED" Fatal
        "Transactional Id authorization failed.";
    54 SecurityDisabled "SECURITY_DISABLED" Fatal
        "Security features are disabled.";
    55 OperationNotAttempted "OPERATION_NOT_ATTEMPTED" Fatal
        "The broker did not attempt to execute this operation. This may happen for batched RPCs where some operations in the batch failed, causing the broker to respond without trying the rest.";
    56 KafkaStorageError "KAFKA_STORAGE_ERROR" RefreshMetadata
        "Disk error when trying to access log file on the disk.";
    57 LogDirNotFound "LOG_DIR_NOT_FOUND" Fatal
        "The user-specified log directory is not found in the broker config.";
    58 SaslAuthenticationFailed "SASL_AUTHENTICATION_FAILED" Fatal
        "SASL Authentication failed.";
    59 UnknownProducerId "UNKNOWN_PRODUCER_ID" Fatal
        "This exception is raised by the broker if it could not locate the producer metadata associated with the producerId in question. This could happen if, for instance, the producer's records were deleted because their retention time had elapsed. Once the last records of the producerId are removed, the producer's metadata is removed from the broker, and future appends by the producer will return this exception.";
    60 ReassignmentInProgress "REASSIGNMENT_IN_PROGRESS" Fatal
        "A partition reassignment is in progress.";
    61 DelegationTokenAuthDisabled "DELEGATION_TOKEN_AUTH_DISABLED" Fatal
        "Delegation Token feature is not enabled.";
    62 DelegationTokenNotFound "DELEGATION_TOKEN_NOT_FOUND" Fatal
        "Delegation Token is not found on server.";
    63 DelegationTokenOwnerMismatch "DELEGATION_TOKEN_OWNER_MISMATCH" Fatal
        "Specified Principal is not valid Owner/Renewer.";
    64 DelegationTokenRequestNotAllowed "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED" Fatal
        "Delegation Token requests are not allowed on PLAINTEXT/1-way SSL channels and on delegation token authenticated channels.";
    65 DelegationTokenAuthorizationFailed "DELEGATION_TOKEN_AUTHORIZATION_FAILED" Fatal
        "Delegation Token authorization failed.";
    66 DelegationTokenExpired "DELEGATION_TOKEN_EXPIRED" Fatal
        "Delegation Token is expired.";
    67 InvalidPrincipalType "INVALID_PRINCIPAL_TYPE" Fatal
        "Supplied principalType is not supported.";
    68 NonEmptyGroup "NON_EMPTY_GROUP" Fatal
        "The group is not empty.";
    69 GroupIdNotFound "GROUP_ID_NOT_FOUND" Fatal
        "The group id does not exist.";
    70 FetchSessionIdNotFound "FETCH_SESSION_ID_NOT_FOUND" Retriable
        "The fetch session ID was not found.";
    71 InvalidFetchSessionEpoch "INVALID_FETCH_SESSION_EPOCH" Retriable
        "The fetch session epoch is invalid.";
    72 ListenerNotFound "LISTENER_NOT_FOUND" RefreshMetadata
        "There is no listener on the leader broker that matches the listener on which metadata request was processed.";
    73 TopicDeletionDisabled "TOPIC_DELETION_DISABLED" Fatal
        "Topic deletion is disabled.";
    74 FencedLeaderEpoch "FENCED_LEADER_EPOCH" RefreshMetadata
        "The leader epoch in the request is older than the epoch on the broker.";
    75 UnknownLeaderEpoch "UNKNOWN_LEADER_EPOCH" Retriable
        "The leader epoch in the request is newer than the epoch on the broker.";
    76 UnsupportedCompressionType "UNSUPPORTED_COMPRESSION_TYPE" Fatal
        "The requesting client does not support the compression type of given partition.";
    77 StaleBrokerEpoch "STALE_BROKER_EPOCH" Fatal
        "Broker epoch has changed.";
    78 OffsetNotAvailable "OFFSET_NOT_AVAILABLE" Retriable
        "The leader high watermark has not caught up from a recent leader election so the offsets cannot be guaranteed to be monotonically increasing.";
    79 MemberIdRequired "MEMBER_ID_REQUIRED" Fatal
        "The group member needs to have a valid member id before actually entering a consumer group.";
    80 PreferredLeaderNotAvailable "PREFERRED_LEADER_NOT_AVAILABLE" RefreshMetadata
        "The preferred leader was not available.";
    81 GroupMaxSizeReached "GROUP_MAX_SIZE_REACHED" Fatal
        "The group has reached its maximum size.";
    82 FencedInstanceId "FENCED_INSTANCE_ID" Fatal
        "The broker rejected this static consumer since another consumer with the same group.instance.id has registered with a different member.id.";
    83 EligibleLeadersNotAvailable "ELIGIBLE_LEADERS_NOT_AVAILABLE" RefreshMetadata
        "Eligible topic partition leaders are not available.";
    84 ElectionNotNeeded "ELECTION_NOT_NEEDED" RefreshMetadata
        "Leader election not needed for topic partition.";
    85 NoReassignmentInProgress "NO_REASSIGNMENT_IN_PROGRESS" Fatal
        "No partition reassignment is in progress.";
    86 GroupSubscribedToTopic "GROUP_SUBSCRIBED_TO_TOPIC" Fatal
        "Deleting offsets of a topic is forbidden while the consumer group is actively subscribed to it.";
    87 InvalidRecord "INVALID_RECORD" Fatal
        "This record has failed the validation on broker and hence will be rejected.";
    88 UnstableOffsetCommit "UNSTABLE_OFFSET_COMMIT" Retriable
        "There are unstable offsets that need to be cleared.";
    89 ThrottlingQuotaExceeded "THROTTLING_QUOTA_EXCEEDED" Retriable
        "The throttling quota has been exceeded.";
    90 ProducerFenced "PRODUCER_FENCED" Fatal
        "There is a newer producer with the same transactionalId which fences the current one.";
    91 ResourceNotFound "RESOURCE_NOT_FOUND" Fatal
        "A request illegally referred to a resource that does not exist.";
    92 DuplicateResource "DUPLICATE_RESOURCE" Fatal
        "A request illegally referred to the same resource twice.";
    93 UnacceptableCredential "UNACCEPTABLE_CREDENTIAL" Fatal
        "Requested credential would not meet criteria for acceptability.";
    94 InconsistentVoterSet "INCONSISTENT_VOTER_SET" Fatal
        "Indicates that the either the sender or recipient of a voter-only request is not one of the expected voters.";
    95 InvalidUpdateVersion "INVALID_UPDATE_VERSION" Fatal
        "The given update version was invalid.";
    96 FeatureUpdateFailed "FEATURE_UPDATE_FAILED" Fatal
        "Unable to update finalized features due to an unexpected server error.";
    97 PrincipalDeserializationFailure "PRINCIPAL_DESERIALIZATION_FAILURE" Fatal
        "Request principal deserialization failed during forwarding. This indicates an internal error on the broker cluster security setup.";
    98 SnapshotNotFound "SNAPSHOT_NOT_FOUND" Fatal
        "Requested snapshot was not found.";
    99 PositionOutOfRange "POSITION_OUT_OF_RANGE" Fatal
        "Requested position is not greater than or equal to zero, and less than the size of the snapshot.";
    100 UnknownTopicId "UNKNOWN_TOPIC_ID" RefreshMetadata
        "This server does not host this topic ID.";
    101 DuplicateBrokerRegistration "DUPLICATE_BROKER_REGISTRATION" Fatal
        "This broker ID is already in use.";
    102 BrokerIdNotRegistered "BROKER_ID_NOT_REGISTERED" Fatal
        "The given broker ID was not registered.";
    103 InconsistentTopicId "INCONSISTENT_TOPIC_ID" RefreshMetadata
        "The log's topic ID did not match the topic ID in the request.";
    104 InconsistentClusterId "INCONSISTENT_CLUSTER_ID" Fatal
        "The clusterId in the request does not match that found on the server.";
    105 TransactionalIdNotFound "TRANSACTIONAL_ID_NOT_FOUND" Fatal
        "The transactionalId could not be found.";
    106 FetchSessionTopicIdError "FETCH_SESSION_TOPIC_ID_ERROR" Retriable
        "The fetch session encountered inconsistent topic ID usage.";
    107 IneligibleReplica "INELIGIBLE_REPLICA" Fatal
        "The new ISR contains at least one ineligible replica.";
    108 NewLeaderElected "NEW_LEADER_ELECTED" Fatal
        "The AlterPartition request successfully updated the partition state but the leader has changed.";
    109 OffsetMovedToTieredStorage "OFFSET_MOVED_TO_TIERED_STORAGE" Fatal
        "The requested offset is moved to tiered storage.";
    110 FencedMemberEpoch "FENCED_MEMBER_EPOCH" Fatal
        "The member epoch is fenced by the group coordinator. The member must abandon all its partitions and rejoin.";
    111 UnreleasedInstanceId "UNRELEASED_INSTANCE_ID" Fatal
        "The instance ID is still used by another member in the consumer group. That member must leave first.";
    112 UnsupportedAssignor "UNSUPPORTED_ASSIGNOR" Fatal
        "The assignor or its version range is not supported by the consumer group.";
    113 StaleMemberEpoch "STALE_MEMBER_EPOCH" Fatal
        "The member epoch is stale. The member must retry after receiving its updated member epoch via the ConsumerGroupHeartbeat API.";
    114 MismatchedEndpointType "MISMATCHED_ENDPOINT_TYPE" Fatal
        "The request was sent to an endpoint of the wrong type.";
    115 UnsupportedEndpointType "UNSUPPORTED_ENDPOINT_TYPE" Fatal
        "This endpoint type is not supported yet.";
    116 UnknownControllerId "UNKNOWN_CONTROLLER_ID" Fatal
        "This controller ID is not known.";
    117 UnknownSubscriptionId "UNKNOWN_SUBSCRIPTION_ID" Fatal
        "Client sent a push telemetry request with an invalid or outdated subscription ID.";
    118 TelemetryTooLarge "TELEMETRY_TOO_LARGE" Fatal
        "Client sent a push telemetry request larger than the maximum size the broker will accept.";
    119 InvalidRegistration "INVALID_REGISTRATION" Fatal
        "The controller has considered the broker registration to be invalid.";
    120 TransactionAbortable "TRANSACTION_ABORTABLE" Fatal
        "The server encountered an error with the transaction. The client can abort the transaction to continue using this transactional ID.";
    121 InvalidRecordState "INVALID_RECORD_STATE" Fatal
        "The record state is invalid. The acknowledgement of delivery could not be completed.";
    122 ShareSessionNotFound "SHARE_SESSION_NOT_FOUND" Retriable
        "The share session was not found.";
    123 InvalidShareSessionEpoch "INVALID_SHARE_SESSION_EPOCH" Retriable
        "The share session epoch is invalid.";
    124 FencedStateEpoch "FENCED_STATE_EPOCH" Fatal
        "The share coordinator rejected the request because the share-group state epoch did not match.";
    125 InvalidVoterKey "INVALID_VOTER_KEY" Fatal
        "The voter key doesn't match the receiving replica's key.";
    126 DuplicateVoter "DUPLICATE_VOTER" Fatal
        "The voter is already part of the set of voters.";
    127 VoterNotFound "VOTER_NOT_FOUND" Fatal
        "The voter is not part of the set of voters.";
    128 InvalidRegularExpression "INVALID_REGULAR_EXPRESSION" Fatal
        "The regular expression is not valid.";
    129 RebootstrapRequired "REBOOTSTRAP_REQUIRED" Fatal
        "Client metadata is stale. The client should rebootstrap to obtain new metadata.";
    130 StreamsInvalidTopology "STREAMS_INVALID_TOPOLOGY" Fatal
        "The supplied topology is invalid.";
    131 StreamsInvalidTopologyEpoch "STREAMS_INVALID_TOPOLOGY_EPOCH" Fatal
        "The supplied topology epoch is invalid.";
    132 StreamsTopologyFenced "STREAMS_TOPOLOGY_FENCED" Fatal
        "The supplied topology epoch is outdated.";
    133 ShareSessionLimitReached "SHARE_SESSION_LIMIT_REACHED" Retriable
        "The limit of share sessions has been reached.";
}

impl ErrorCode {
    /// The code's number on the wire.
    pub const fn code(self) -> i16 {
        self as i16
    }

    /// The error of a number from the wire. A number that 4.3 does not know becomes
    /// [`ErrorCode::UnknownServerError`] and is logged once, as a newer peer may well send one.
    #[inline]
    pub fn from_code(code: i16) -> Self {
        match Self::known(code) {
            Some(error) => error,
            None => unknown(code),
        }
    }

    /// The error of a number from the wire, or `None` for a number that 4.3 does not know.
    #[inline]
    pub fn known(code: i16) -> Option<Self> {
        Self::ALL.get(code.wrapping_add(1) as u16 as usize).copied()
    }

    /// Whether this is [`ErrorCode::None`].
    pub const fn is_none(self) -> bool {
        matches!(self, Self::None)
    }

    /// Whether the same request may succeed later.
    pub const fn is_retriable(self) -> bool {
        !matches!(self.retriability(), Retriability::Fatal)
    }
}

#[cold]
fn unknown(code: i16) -> ErrorCode {
    if TOLD.is_first(code) {
        tracing::warn!(
            code,
            "unknown error code on the wire, taken as UNKNOWN_SERVER_ERROR"
        );
    }
    ErrorCode::UnknownServerError
}

static TOLD: ToldCodes = ToldCodes::none();

/// The unknown codes that were told of, a bit each: a peer may send one with each partition of each answer.
struct ToldCodes([AtomicU64; 1 << 10]);

impl ToldCodes {
    const fn none() -> Self {
        Self([const { AtomicU64::new(0) }; 1 << 10])
    }

    /// Whether a code has not been told of before.
    fn is_first(&self, code: i16) -> bool {
        let number = usize::from(code as u16);
        let told = 1 << (number % 64);
        self.0[number / 64].fetch_or(told, Ordering::Relaxed) & told == 0
    }
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::error::Error for ErrorCode {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_unknown_code_is_told_once() {
        let told = ToldCodes::none();
        let codes = [31_999, i16::MAX, 31_999, i16::MIN, i16::MAX, 31_998];
        let first = codes.map(|code| told.is_first(code));
        assert_eq!(first, [true, true, false, true, false, true]);
    }

    #[test]
    fn every_code_round_trips_and_stands_at_its_index() {
        for (index, &error) in ErrorCode::ALL.iter().enumerate() {
            assert_eq!(error.code() as i32, index as i32 - 1);
            assert_eq!(ErrorCode::from_code(error.code()), error);
            assert_eq!(ErrorCode::known(error.code()), Some(error));
            assert!(!error.message().is_empty());
        }
        assert_eq!(ErrorCode::ALL.last().map(|e| e.code()), Some(133));
    }

    #[test]
    fn every_other_number_is_the_fallback() {
        for code in i16::MIN..=i16::MAX {
            if !(-1..=133).contains(&code) {
                assert_eq!(ErrorCode::known(code), None, "{code}");
                assert_eq!(ErrorCode::from_code(code), ErrorCode::UnknownServerError);
            }
        }
    }

    #[test]
    fn retriability_follows_the_kind_of_error() {
        let check = |error: ErrorCode, expect| assert_eq!(error.retriability(), expect, "{error}");
        check(ErrorCode::None, Retriability::Fatal);
        check(
            ErrorCode::NotLeaderOrFollower,
            Retriability::RefreshMetadata,
        );
        check(ErrorCode::NotCoordinator, Retriability::RefreshCoordinator);
        check(ErrorCode::RequestTimedOut, Retriability::Retriable);
        check(ErrorCode::MessageTooLarge, Retriability::Fatal);
    }
}
