//! Faults that can be planted into the wiring of the world's nodes, to see that the judge finds them.
//!
//! The product's own code is the same with them and without; each stands for a mistake that a broker
//! around it could make.

use crate::judge::Promise;
use crate::schedule::Schedule;

/// A mistake in a node's wiring, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Planted {
    /// The node as it should be.
    #[default]
    Nothing,
    /// Produce is answered before the records are below the high watermark.
    AnswersEarly,
    /// Syncs of logs succeed and make nothing durable.
    SyncsNothing,
    /// What a checkpoint says of a name holds for the next topic of that name.
    CheckpointsByName,
    /// Logs come back without their idempotent producers.
    ForgetsProducers,
    /// A transaction is complete before its markers are durable.
    LosesMarkers,
    /// Loading a coordinator leaves out the last batch of its log.
    LoadsTooLittle,
    /// A log that could not be made at first is made again, whatever is in it by then.
    MakesLogsAnew,
    /// A metadata log that has once found no room takes nothing any more.
    NeverMendsMetadata,
    /// Metadata are answered before they are durable.
    KeepsMetadataInMemory,
    /// Consumers read to the end of the log.
    ReadsToTheEnd,
    /// Who wants committed records gets them all.
    ReadsUncommitted,
    /// One partition of each transaction gets no marker.
    SkipsMarkers,
    /// A transaction whose completion the log has not taken for a moment is never completed.
    GivesUpCompleting,
    /// A start after a crash takes a gap between offsets for damage.
    TakesGapsForDamage,
    /// A log directory is given up when no file can be opened for a moment.
    TakesLackForFailure,
    /// Timers go by the date.
    TimesByDate,
    /// A client sends a record that is not acknowledged soon as another one.
    SendsAnew,
    /// A transaction counts as committed for its client when that was asked for.
    BelievesCommits,
    /// A member of a group commits what it has not handed over.
    CommitsUnread,
    /// A clean shutdown cuts what it writes of producers short.
    TearsSnapshots,
    /// Batches are written anew with their checksum, and nobody has looked at the one that they came with.
    TakesDamagedBatches,
    /// A topic that is deleted is still served to those who know its id.
    ServesDeletedTopics,
    /// A start hands out the producer ids anew that another run was given.
    HandsOutIdsAgain,
    /// A change of topics is acknowledged though the metadata log has not taken it.
    AcknowledgesRefusals,
    /// Members of groups that are silent stay members.
    ExpelsNobody,
    /// The last stable offset is told without regard to what is durable.
    TellsUnstableOffsets,
}

impl Planted {
    /// Whether it is around a client of the product: only worlds with those can show it.
    const fn is_of_clients(self) -> bool {
        matches!(
            self,
            Self::SendsAnew | Self::BelievesCommits | Self::CommitsUnread
        )
    }

    /// The schedule of a seed in which it is looked for. Modelled clients show what is wrong with a node,
    /// and take less time than the product's.
    pub fn schedule_of(self, seed: u64) -> Schedule {
        let schedule = Schedule::of(seed);
        match self {
            Self::Nothing => schedule,
            planted if planted.is_of_clients() => schedule,
            _ => schedule.without_live(),
        }
    }

    /// The promises that it breaks: one of them is what it is found through.
    pub const fn breaks(self) -> &'static [Promise] {
        use Promise as P;
        match self {
            Self::Nothing => &[],
            Self::AnswersEarly => &[
                P::AcknowledgedIsKept,
                P::AcknowledgedIsUnchanged,
                P::OffsetIsOneRecords,
                P::CommittedIsWhole,
            ],
            Self::SyncsNothing => &[
                P::NodeStarts,
                P::AcknowledgedIsKept,
                P::OffsetIsOneRecords,
                P::ReadStays,
                P::WatermarksNeverGoBack,
                P::OffsetsNeverGoBack,
            ],
            Self::CheckpointsByName => &[P::ReadStays, P::NothingIsDeletedUnasked],
            Self::ForgetsProducers | Self::SendsAnew => {
                &[P::NothingIsTwice, P::OffsetIsOneRecords, P::OrderIsKept]
            }
            Self::LosesMarkers | Self::SkipsMarkers => &[
                P::AllComesToRest,
                P::CommittedIsWhole,
                P::AbortedIsUnread,
                P::WholeOrNotAtAll,
            ],
            Self::LoadsTooLittle => &[
                P::OffsetsNeverGoBack,
                P::LivingMemberStays,
                P::CommittedIsWhole,
                P::AllComesToRest,
            ],
            Self::MakesLogsAnew => &[
                P::AcknowledgedIsKept,
                P::AcknowledgedIsUnchanged,
                P::OffsetIsOneRecords,
                P::ReadStays,
                P::WatermarksNeverGoBack,
            ],
            Self::NeverMendsMetadata | Self::GivesUpCompleting | Self::TakesLackForFailure => {
                &[P::AllComesToRest]
            }
            Self::KeepsMetadataInMemory => &[
                P::NodeStarts,
                P::TopicsAreAsAcknowledged,
                P::QuorumEpochIsLedOnce,
                P::ProducerIdIsGivenOnce,
            ],
            Self::ReadsToTheEnd => &[P::AbortedIsUnread, P::ReadStays],
            Self::ReadsUncommitted => &[P::AbortedIsUnread],
            Self::TakesGapsForDamage => &[
                P::WatermarksNeverGoBack,
                P::AcknowledgedIsKept,
                P::OffsetIsOneRecords,
                P::ReadStays,
                P::LastOfKeyStays,
            ],
            Self::TimesByDate => &[P::LivingMemberStays],
            Self::BelievesCommits => &[P::CommittedIsWhole],
            Self::CommitsUnread => &[P::CommittedIsHandedOver],
            Self::TearsSnapshots => &[P::FilesAreReadable],
            Self::TakesDamagedBatches => &[P::NothingIsMadeUp, P::RecordsAreReadable],
            Self::ServesDeletedTopics => &[P::DeletedTopicIsGone],
            Self::HandsOutIdsAgain => &[P::ProducerIdIsGivenOnce],
            Self::AcknowledgesRefusals => &[P::TopicsAreAsAcknowledged, P::DeletedTopicIsGone],
            Self::ExpelsNobody => &[P::MembersHaveAll],
            Self::TellsUnstableOffsets => &[P::WatermarksAreInOrder],
        }
    }

    /// Every mistake.
    pub const ALL: [Self; 26] = [
        Self::AnswersEarly,
        Self::SyncsNothing,
        Self::CheckpointsByName,
        Self::ForgetsProducers,
        Self::LosesMarkers,
        Self::LoadsTooLittle,
        Self::MakesLogsAnew,
        Self::NeverMendsMetadata,
        Self::KeepsMetadataInMemory,
        Self::ReadsToTheEnd,
        Self::ReadsUncommitted,
        Self::SkipsMarkers,
        Self::GivesUpCompleting,
        Self::TakesGapsForDamage,
        Self::TakesLackForFailure,
        Self::TimesByDate,
        Self::SendsAnew,
        Self::BelievesCommits,
        Self::CommitsUnread,
        Self::TearsSnapshots,
        Self::TakesDamagedBatches,
        Self::ServesDeletedTopics,
        Self::HandsOutIdsAgain,
        Self::AcknowledgesRefusals,
        Self::ExpelsNobody,
        Self::TellsUnstableOffsets,
    ];
}
