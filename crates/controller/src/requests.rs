//! Requests to the active controller as values, so that they can cross a thread or a socket.
//!
//! ```text
//!   CreateTopics ─ into ─> ControllerRequest ── decide ──> Decision<ControllerResponse>
//!                                                               │ answered once committed
//!   Vec<TopicResult<…>> <─ of ─ ControllerResponse <────────────┘
//! ```
//!
//! Each request is decided by the function of its own file; here is only what it carries.

use crate::alter_configs::{AlterOptions, AlteredResource, alter_configs};
use crate::alter_partition::{AlteredPartitions, WantedIsr, alter_partition};
use crate::brokers::{
    NewRegistration, RegistrationState, register_broker, unfence_broker, unregister_broker,
};
use crate::client_quotas::{QuotaAlteration, QuotaResults, alter_client_quotas};
use crate::context::{ControllerContext, Random};
use crate::controllers::register_controller;
use crate::create_partitions::{GrowingTopic, create_partitions};
use crate::create_topics::{CreatedTopic, NewTopic, create_topics};
use crate::decision::{ApiError, Decision, PartitionResults, TopicResult};
use crate::delete_topics::{DeletedTopic, TopicAccess, TopicToDelete, delete_topics};
use crate::directories::{
    DirectoryAssignment, assign_replicas_to_directories, change_directories, replicas_found,
};
use crate::elect_leaders::{ElectionType, TopicElection, elect_leaders};
use crate::heartbeats::{BrokerHeartbeat, BrokerStanding, heartbeat};
use crate::producer_ids::{ProducerIdBlock, allocate_producer_ids};
use crate::reassign_partitions::{TopicReassignment, reassign_partitions};
use crate::scram_credentials::{ScramResults, ScramUpsertion, alter_scram_credentials};
use crate::sessions::Sessions;
use crate::update_features::{FeatureUpdate, UpdatedFeatures, update_features};
use metadata::{ControllerRegistration, MetadataImage, ScramKey};
use model::MonotonicTime;
use model::{BrokerEpoch, BrokerId, ErrorCode, Offset, Uuid};
use std::collections::BTreeSet;

/// What a request is decided over.
pub struct DecisionContext<'a, 'r> {
    /// The newest image, with what is decided and not committed yet.
    pub image: &'a MetadataImage,
    /// The controller.
    pub controller: &'a ControllerContext<'a>,
    /// The offset after the last record of the image.
    pub next_offset: Offset,
    /// The level of `kraft.version`, which is the quorum's.
    pub kraft_version: i16,
    /// Which brokers are heard of.
    pub sessions: &'a Sessions,
    /// The time by which sessions run out.
    pub now: MonotonicTime,
    /// Where random ids come from.
    pub random: &'a mut Random<'r>,
}

impl std::fmt::Debug for DecisionContext<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DecisionContext")
            .field("controller", &self.controller)
            .field("kraft_version", &self.kraft_version)
            .finish_non_exhaustive()
    }
}

/// A request to the controller.
pub trait Request: Into<ControllerRequest> {
    /// What the controller answers.
    type Response;

    /// The answer to this kind of request; `None` for that to another one.
    fn response_of(response: ControllerResponse) -> Option<Self::Response>;
}

macro_rules! requests {
    ($($name:ident => $response:ty),+ $(,)?) => {
        /// Any request to the controller.
        #[derive(Debug, Clone)]
        pub enum ControllerRequest {
            $(#[doc = concat!("See [`", stringify!($name), "`].")] $name($name),)+
        }

        /// The answer to a request, of the same kind.
        #[derive(Debug, Clone)]
        pub enum ControllerResponse {
            $(#[doc = concat!("To [`", stringify!($name), "`].")] $name($response),)+
        }

        impl ControllerRequest {
            /// Decides over the newest image.
            pub(crate) fn decide(&self, context: &mut DecisionContext<'_, '_>) -> Decision<ControllerResponse> {
                match self {
                    $(Self::$name(request) => {
                        request.decide(context).map(ControllerResponse::$name)
                    })+
                }
            }
        }

        $(impl From<$name> for ControllerRequest {
            fn from(request: $name) -> Self {
                Self::$name(request)
            }
        }

        impl Request for $name {
            type Response = $response;

            fn response_of(response: ControllerResponse) -> Option<Self::Response> {
                match response {
                    ControllerResponse::$name(response) => Some(response),
                    _ => None,
                }
            }
        })+
    };
}

requests! {
    AllocateProducerIds => Result<ProducerIdBlock, ApiError>,
    AlterClientQuotas => QuotaResults,
    AlterConfigs => Vec<Result<(), ApiError>>,
    AlterPartition => Result<AlteredPartitions, ApiError>,
    AlterPartitionReassignments => Vec<PartitionResults>,
    AlterScramCredentials => ScramResults,
    AssignReplicasToDirectories => Result<Vec<ErrorCode>, ApiError>,
    BrokerHeartbeat => Result<BrokerStanding, ApiError>,
    ChangeDirectories => Result<(), ApiError>,
    CreatePartitions => Vec<TopicResult<()>>,
    CreateTopics => Vec<TopicResult<CreatedTopic>>,
    DeleteTopics => Vec<DeletedTopic>,
    ElectLeaders => Vec<PartitionResults>,
    PlaceFoundReplicas => (),
    RegisterBroker => Result<BrokerEpoch, ApiError>,
    RegisterController => Result<(), ApiError>,
    UnfenceBroker => Result<(), ApiError>,
    UnregisterBroker => Result<(), ApiError>,
    UpdateFeatures => Result<UpdatedFeatures, ApiError>,
}

/// AllocateProducerIds: a broker asks for ids that no producer has had.
#[derive(Debug, Clone, Copy)]
pub struct AllocateProducerIds {
    /// The broker that asks.
    pub broker_id: BrokerId,
    /// The epoch of its registration.
    pub broker_epoch: BrokerEpoch,
}

impl AllocateProducerIds {
    fn decide(
        &self,
        context: &DecisionContext<'_, '_>,
    ) -> Decision<Result<ProducerIdBlock, ApiError>> {
        Decision::of(allocate_producer_ids(
            context.image,
            self.broker_id,
            self.broker_epoch,
        ))
    }
}

/// AlterClientQuotas (KIP-546).
#[derive(Debug, Clone)]
pub struct AlterClientQuotas {
    /// In their order.
    pub alterations: Vec<QuotaAlteration>,
    /// Names of hosts among them that have no address, as whoever sends this has found.
    pub unknown_hosts: BTreeSet<String>,
    /// Changes nothing.
    pub validate_only: bool,
}

impl AlterClientQuotas {
    fn decide(&self, context: &DecisionContext<'_, '_>) -> Decision<QuotaResults> {
        let is_host = |name: &str| !self.unknown_hosts.contains(name);
        alter_client_quotas(
            context.image,
            &self.alterations,
            &is_host,
            self.validate_only,
        )
    }
}

/// AlterConfigs and IncrementalAlterConfigs; one result for each resource.
#[derive(Debug, Clone)]
pub struct AlterConfigs {
    /// In their order.
    pub resources: Vec<AlteredResource>,
    /// How they are altered.
    pub options: AlterOptions,
}

impl AlterConfigs {
    fn decide(&self, context: &DecisionContext<'_, '_>) -> Decision<Vec<Result<(), ApiError>>> {
        alter_configs(
            context.image,
            context.controller,
            &self.resources,
            self.options,
        )
    }
}

/// AlterPartition: a leader tells who is in sync.
#[derive(Debug, Clone)]
pub struct AlterPartition {
    /// The broker that leads.
    pub broker_id: BrokerId,
    /// The epoch of its registration.
    pub broker_epoch: BrokerEpoch,
    /// In their order; one result for each.
    pub partitions: Vec<WantedIsr>,
}

impl AlterPartition {
    fn decide(
        &self,
        context: &DecisionContext<'_, '_>,
    ) -> Decision<Result<AlteredPartitions, ApiError>> {
        let broker = (self.broker_id, self.broker_epoch);
        let decided = alter_partition(context.image, context.controller, broker, &self.partitions);
        Decision::of(decided)
    }
}

/// AlterPartitionReassignments (KIP-455).
#[derive(Debug, Clone)]
pub struct AlterPartitionReassignments {
    /// In their order.
    pub topics: Vec<TopicReassignment>,
    /// Whether a partition may get another number of replicas.
    pub allows_other_counts: bool,
}

impl AlterPartitionReassignments {
    fn decide(&self, context: &DecisionContext<'_, '_>) -> Decision<Vec<PartitionResults>> {
        reassign_partitions(
            context.image,
            context.controller,
            &self.topics,
            self.allows_other_counts,
        )
    }
}

/// AlterUserScramCredentials (KIP-554).
#[derive(Debug, Clone)]
pub struct AlterScramCredentials {
    /// Credentials to delete.
    pub deletions: Vec<ScramKey>,
    /// Credentials to set.
    pub upsertions: Vec<ScramUpsertion>,
}

impl AlterScramCredentials {
    fn decide(&self, context: &DecisionContext<'_, '_>) -> Decision<ScramResults> {
        alter_scram_credentials(context.image, &self.deletions, &self.upsertions)
    }
}

/// AssignReplicasToDirs (KIP-858): a broker tells where it has placed replicas.
#[derive(Debug, Clone)]
pub struct AssignReplicasToDirectories {
    /// The broker that tells.
    pub broker_id: BrokerId,
    /// The epoch of its registration.
    pub broker_epoch: BrokerEpoch,
    /// In their order; one result for each.
    pub assignments: Vec<DirectoryAssignment>,
}

impl AssignReplicasToDirectories {
    fn decide(
        &self,
        context: &DecisionContext<'_, '_>,
    ) -> Decision<Result<Vec<ErrorCode>, ApiError>> {
        let broker = (self.broker_id, self.broker_epoch);
        let decided = assign_replicas_to_directories(
            context.image,
            context.controller,
            broker,
            &self.assignments,
        );
        Decision::of(decided)
    }
}

impl BrokerHeartbeat {
    fn decide(
        &self,
        context: &DecisionContext<'_, '_>,
    ) -> Decision<Result<BrokerStanding, ApiError>> {
        let (image, controller, sessions) = (context.image, context.controller, context.sessions);
        Decision::of(heartbeat(image, controller, sessions, context.now, self))
    }
}

/// What a BrokerHeartbeat tells of log directories (KIP-858, KIP-1066), of a broker that sends none.
#[derive(Debug, Clone)]
pub struct ChangeDirectories {
    /// The broker that tells.
    pub broker_id: BrokerId,
    /// The epoch of its registration.
    pub broker_epoch: BrokerEpoch,
    /// Those that have failed.
    pub offline: Vec<Uuid>,
    /// Those that take no new partitions; `None` when nothing is told of it.
    pub cordoned: Option<Vec<Uuid>>,
}

impl ChangeDirectories {
    fn decide(&self, context: &DecisionContext<'_, '_>) -> Decision<Result<(), ApiError>> {
        let broker = (self.broker_id, self.broker_epoch);
        let (offline, cordoned) = (&self.offline, self.cordoned.as_deref());
        let decided =
            change_directories(context.image, context.controller, broker, offline, cordoned);
        Decision::of(decided)
    }
}

/// CreatePartitions.
#[derive(Debug, Clone)]
pub struct CreatePartitions {
    /// In their order.
    pub topics: Vec<GrowingTopic>,
    /// Changes nothing.
    pub validate_only: bool,
}

impl CreatePartitions {
    fn decide(&self, context: &mut DecisionContext<'_, '_>) -> Decision<Vec<TopicResult<()>>> {
        create_partitions(
            context.image,
            &self.topics,
            self.validate_only,
            context.random,
        )
    }
}

/// CreateTopics.
#[derive(Debug, Clone)]
pub struct CreateTopics {
    /// In their order.
    pub topics: Vec<NewTopic>,
    /// Changes nothing.
    pub validate_only: bool,
}

impl CreateTopics {
    fn decide(
        &self,
        context: &mut DecisionContext<'_, '_>,
    ) -> Decision<Vec<TopicResult<CreatedTopic>>> {
        create_topics(
            context.image,
            context.controller,
            &self.topics,
            self.validate_only,
            context.random,
        )
    }
}

/// DeleteTopics.
#[derive(Debug, Clone)]
pub struct DeleteTopics {
    /// In their order.
    pub topics: Vec<TopicToDelete>,
}

impl DeleteTopics {
    fn decide(&self, context: &DecisionContext<'_, '_>) -> Decision<Vec<DeletedTopic>> {
        let access = |_: &str| TopicAccess::Delete;
        delete_topics(context.image, context.controller, &self.topics, &access)
    }
}

/// ElectLeaders (KIP-460).
#[derive(Debug, Clone)]
pub struct ElectLeaders {
    /// Preferred or unclean.
    pub election: ElectionType,
    /// Of which partitions; `None` for all.
    pub topics: Option<Vec<TopicElection>>,
}

impl ElectLeaders {
    fn decide(&self, context: &DecisionContext<'_, '_>) -> Decision<Vec<PartitionResults>> {
        elect_leaders(
            context.image,
            context.controller,
            self.election,
            self.topics.as_deref(),
        )
    }
}

/// Where a broker that starts has found its replicas: told before it registers.
#[derive(Debug, Clone)]
pub struct PlaceFoundReplicas {
    /// The broker that tells.
    pub broker_id: BrokerId,
    /// What was found.
    pub found: Vec<DirectoryAssignment>,
}

impl PlaceFoundReplicas {
    fn decide(&self, context: &DecisionContext<'_, '_>) -> Decision<()> {
        replicas_found(context.image, self.broker_id, &self.found)
    }
}

/// BrokerRegistration (KIP-631); answered with the broker's epoch.
#[derive(Debug, Clone)]
pub struct RegisterBroker {
    /// What the broker says of itself.
    pub registration: NewRegistration,
    /// Whether the broker can tell a clean shutdown.
    pub detects_clean_shutdown: bool,
}

impl RegisterBroker {
    fn decide(&self, context: &DecisionContext<'_, '_>) -> Decision<Result<BrokerEpoch, ApiError>> {
        let broker_id = self.registration.broker_id;
        let state = RegistrationState {
            next_offset: context.next_offset,
            has_live_session: context.sessions.is_live(broker_id, context.now),
            detects_clean_shutdown: self.detects_clean_shutdown,
        };
        Decision::of(register_broker(
            context.image,
            context.controller,
            &self.registration,
            state,
        ))
    }
}

/// ControllerRegistration (KIP-919).
#[derive(Debug, Clone)]
pub struct RegisterController {
    /// What the controller says of itself.
    pub registration: ControllerRegistration,
}

impl RegisterController {
    fn decide(&self, context: &DecisionContext<'_, '_>) -> Decision<Result<(), ApiError>> {
        let (image, controller) = (context.image, context.controller);
        Decision::of(register_controller(image, controller, &self.registration))
    }
}

/// What a broker that has caught up, and sends no heartbeats, asks for: to be unfenced.
#[derive(Debug, Clone, Copy)]
pub struct UnfenceBroker {
    /// The broker.
    pub broker_id: BrokerId,
    /// The epoch of its registration.
    pub broker_epoch: BrokerEpoch,
}

impl UnfenceBroker {
    fn decide(&self, context: &DecisionContext<'_, '_>) -> Decision<Result<(), ApiError>> {
        let (id, epoch) = (self.broker_id, self.broker_epoch);
        Decision::of(unfence_broker(context.image, context.controller, id, epoch))
    }
}

/// UnregisterBroker (KIP-185): forgets a broker.
#[derive(Debug, Clone, Copy)]
pub struct UnregisterBroker {
    /// The broker.
    pub broker_id: BrokerId,
}

impl UnregisterBroker {
    fn decide(&self, context: &DecisionContext<'_, '_>) -> Decision<Result<(), ApiError>> {
        Decision::of(unregister_broker(
            context.image,
            context.controller,
            self.broker_id,
        ))
    }
}

/// UpdateFeatures (KIP-584); `kraft.version` is raised in the quorum before the others.
#[derive(Debug, Clone)]
pub struct UpdateFeatures {
    /// In their order.
    pub updates: Vec<FeatureUpdate>,
    /// Changes nothing.
    pub validate_only: bool,
}

impl UpdateFeatures {
    fn decide(
        &self,
        context: &DecisionContext<'_, '_>,
    ) -> Decision<Result<UpdatedFeatures, ApiError>> {
        Decision::of(update_features(
            context.image,
            context.controller,
            context.kraft_version,
            &self.updates,
            self.validate_only,
        ))
    }
}
