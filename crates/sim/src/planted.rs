//! Faults that can be planted into the wiring of the world's nodes, to see that the judge finds them.
//!
//! The product's own code is the same with them and without; each stands for a mistake that a broker
//! around it could make.

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
}

impl Planted {
    /// Every mistake.
    pub const ALL: [Self; 16] = [
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
    ];
}
