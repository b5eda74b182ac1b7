//! Faults that can be planted into the wiring of the world's nodes, to see that the judge finds them.
//!
//! The product's own code is the same with them and without; each stands for a mistake that a broker
//! around it could make.

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

    /// Every mistake.
    pub const ALL: [Self; 20] = [
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
    ];
}
