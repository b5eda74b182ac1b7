//! The promises, by name. Who breaks one is told apart by it: a planted mistake has to be found through a promise
//! that it breaks.

use std::fmt;

/// Lists the promises once: their names, what they say, and all of them.
macro_rules! promises {
    ($($name:ident $says:literal)+) => {
        /// A promise to clients, or an invariant of the published models (KIP-966).
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Promise {
            $(#[doc = $says] $name,)+
        }

        impl Promise {
            /// Every promise.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// What it says.
            pub const fn says(self) -> &'static str {
                match self {
                    $(Self::$name => $says,)+
                }
            }
        }
    };
}

promises! {
    // Records.
    AcknowledgedIsKept "no acknowledged record is lost"
    AcknowledgedIsUnchanged "no acknowledged record is changed"
    OffsetIsOneRecords "an offset is one record's, and a record has one"
    NothingIsMadeUp "no record is made up or changed"
    RecordIsInItsPlace "a record is where it was sent"
    NothingIsTwice "no record is there twice"
    OrderIsKept "records of a partition keep their order"
    ReadStays "what was read stays as it was"
    LastOfKeyStays "the last record of each key stays"
    RecordsAreReadable "records can be read"

    // Offsets and epochs of a partition.
    WatermarksAreInOrder "watermarks are in order"
    WatermarksNeverGoBack "watermarks never go back"
    LogStartNeverGoesBack "a log start never goes back"
    NothingIsDeletedUnasked "nothing is deleted that nobody deletes"
    DeletionIsKept "deleted records come back with no replica that was alive, and has not died before it noted that"
    EpochsGrowWithOffsets "leader epochs grow with the offsets"
    LeaderEpochsNeverGoBack "leader epochs never go back"
    EndNeverGoesBack "the end of a log never goes back (ListOffsets)"
    ReadIsOfItsEpoch "what was read is of its epoch (OffsetForLeaderEpoch)"

    // Transactions.
    CommittedIsWhole "a committed transaction is read whole"
    AbortedIsUnread "nothing of an aborted transaction is read"
    WholeOrNotAtAll "a transaction is read whole or not at all"
    TransactionIsInOrder "a transaction is read in order"

    // Groups and their offsets.
    OffsetsNeverGoBack "committed offsets never go back"
    OffsetIsNotMadeUp "no offset is made up"
    AbortedOffsetNeverCounts "no offset of an aborted transaction counts"
    DeletedTopicHasNoOffsets "a deleted topic has no offsets"
    MembersHaveAll "members get all partitions"
    LivingMemberStays "a member that says that it lives stays one"
    CommittedIsHandedOver "what a group has committed it has read"
    GroupHasOneCoordinator "a group has one coordinator"

    // Topics and ids.
    DeletedTopicIsGone "a deleted topic is gone"
    TopicsAreAsAcknowledged "topics and configurations are as acknowledged"
    ProducerIdIsGivenOnce "a producer id is given once"

    // Nodes.
    NodeStarts "a node starts after any crash"
    NodeGoesOn "a node goes on while nothing fails"
    NodeStopsInOrder "a node stops in order"
    CleanShutdownChangesNothing "a clean shutdown changes nothing"
    FilesAreReadable "files are readable by dump-log"
    LogsAreUndamaged "no log is damaged but by its disk"
    QuorumEpochIsLedOnce "no epoch is led twice"
    SilentBrokerIsFenced "a broker that is silent is fenced"
    AllComesToRest "all comes to rest"
    ClientGoesOn "a client goes on"
    WorldEnds "a world ends"
    NothingPanics "nothing panics"

    // The published models.
    ValidControllerIsrAndElr "ValidControllerIsrAndElr"
    ValidControllerState "ValidControllerState"
    LeaderIsInSync "the leader is in sync"
    PartitionEpochsNeverGoBack "epochs never go back"
    EpochHasOneLeader "an epoch has one leader"
    LeaderCompleteness "LeaderCompleteness"
    LeaderCandidateCompleteness "LeaderCandidateCompleteness"
    LogMatching "LogMatching"
}

impl fmt::Display for Promise {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.says())
    }
}
