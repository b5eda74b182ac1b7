//! Mistakes that can be planted into the wiring of a cluster's nodes, to see that the world finds them. The
//! product's own code is the same with them and without.

use crate::judge::Promise;

/// A mistake, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PlantedInCluster {
    /// The nodes as they should be.
    #[default]
    Nothing,
    /// Produce is answered when the leader has the records.
    AnswersEarly,
    /// Consumers read to the end of the leader's log.
    ReadsToTheEnd,
    /// A new follower begins at its log's end, and takes all that is there for replicated.
    TrustsItsLog,
    /// A new follower cuts its log at its high watermark (as before KIP-101).
    CutsAtHighWatermark,
    /// What a leader says of where logs part is not followed.
    NeverCuts,
    /// A follower goes on fetching as before when its leader leads in a new epoch.
    FollowsLeadersNotEpochs,
    /// A broker that starts says that it was shut down cleanly, whatever has happened.
    ClaimsCleanShutdown,
    /// A broker deletes what its metadata do not know before it has read them.
    DeletesStraysEarly,
    /// A log comes back without its producers.
    ForgetsProducers,
    /// Brokers that are not heard of are not fenced.
    FencesNobody,
    /// A broker is unfenced, and leads, before it has followed the metadata.
    LeadsByOldMetadata,
    /// A log whose machine has stopped comes back with holes.
    OverlooksGaps,
    /// A coordinator answers when its own log has what it has seen.
    CoordinatorAnswersEarly,
    /// A coordinator that takes over replays what it knows to be replicated, and no more.
    LoadsToHighWatermark,
    /// A coordinator goes on to answer when its partition is led by another broker.
    CoordinatorServesOn,
    /// The first batch of a transaction is appended without a word to its coordinator.
    AsksNoCoordinator,
    /// Records are deleted at the leader alone, and followers are not told.
    DeletesAlone,
    /// A broker that starts takes its logs to start where their files do.
    ForgetsLogStarts,
    /// A new leader tells where its log ends before it knows how far that was replicated.
    ListsOldEnds,
    /// Where an epoch ends is told as the offset of its last record.
    TellsLastOffsets,
    /// A leader that is replaced leads on, in the epoch of the next one.
    LeadsOn,
    /// A marker of an old epoch, of the producer or of its coordinator, is taken as one of now.
    TakesOldMarkers,
}

impl PlantedInCluster {
    /// The promises that it breaks: one of them is what it is found through.
    pub const fn breaks(self) -> &'static [Promise] {
        use Promise as P;
        match self {
            Self::Nothing => &[],
            Self::AnswersEarly => &[
                P::OffsetIsOneRecords,
                P::AcknowledgedIsKept,
                P::AcknowledgedIsUnchanged,
            ],
            Self::ReadsToTheEnd => &[P::AbortedIsUnread, P::ReadStays],
            Self::TrustsItsLog | Self::CutsAtHighWatermark => &[
                P::LogMatching,
                P::LeaderCompleteness,
                P::LeaderCandidateCompleteness,
            ],
            Self::NeverCuts | Self::FollowsLeadersNotEpochs => &[P::AllComesToRest, P::LogMatching],
            Self::ClaimsCleanShutdown | Self::DeletesStraysEarly => {
                &[P::LeaderCompleteness, P::LeaderCandidateCompleteness]
            }
            Self::ForgetsProducers => &[P::NothingIsTwice, P::OffsetIsOneRecords, P::OrderIsKept],
            Self::FencesNobody => &[P::SilentBrokerIsFenced],
            Self::LeadsByOldMetadata => &[
                P::LeaderCompleteness,
                P::LeaderCandidateCompleteness,
                P::EpochHasOneLeader,
                // Two leaders of an epoch write what they are sent.
                P::LogMatching,
                P::ReadStays,
            ],
            Self::OverlooksGaps => &[P::LogMatching],
            Self::CoordinatorAnswersEarly => &[
                P::AllComesToRest,
                P::OffsetsNeverGoBack,
                P::CommittedIsWhole,
                P::AbortedIsUnread,
            ],
            // A group whose only offset was lost is nobody's any more.
            Self::LoadsToHighWatermark => &[
                P::OffsetsNeverGoBack,
                P::GroupHasOneCoordinator,
                P::AllComesToRest,
            ],
            Self::CoordinatorServesOn => &[
                P::GroupHasOneCoordinator,
                P::OffsetsNeverGoBack,
                P::AllComesToRest,
            ],
            Self::AsksNoCoordinator => &[
                P::AllComesToRest,
                P::CommittedIsWhole,
                P::AbortedIsUnread,
                P::WholeOrNotAtAll,
            ],
            Self::DeletesAlone | Self::ForgetsLogStarts => &[P::DeletionIsKept],
            Self::ListsOldEnds => &[P::EndNeverGoesBack],
            Self::TellsLastOffsets => &[P::ReadIsOfItsEpoch],
            Self::LeadsOn => &[P::EpochHasOneLeader],
            Self::TakesOldMarkers => &[
                P::AbortedIsUnread,
                P::CommittedIsWhole,
                P::WholeOrNotAtAll,
                P::AllComesToRest,
            ],
        }
    }

    /// The mistakes that some hundred worlds find.
    pub const ALL: [Self; 22] = [
        Self::AnswersEarly,
        Self::ReadsToTheEnd,
        Self::TrustsItsLog,
        Self::CutsAtHighWatermark,
        Self::NeverCuts,
        Self::FollowsLeadersNotEpochs,
        Self::ClaimsCleanShutdown,
        Self::DeletesStraysEarly,
        Self::ForgetsProducers,
        Self::FencesNobody,
        Self::LeadsByOldMetadata,
        Self::OverlooksGaps,
        Self::CoordinatorAnswersEarly,
        Self::LoadsToHighWatermark,
        Self::CoordinatorServesOn,
        Self::AsksNoCoordinator,
        Self::DeletesAlone,
        Self::ForgetsLogStarts,
        Self::ListsOldEnds,
        Self::TellsLastOffsets,
        Self::LeadsOn,
        Self::TakesOldMarkers,
    ];
}
