//! What leaders and operators ask of partitions: in-sync replicas, reassignments, directories, producer ids.

use super::script::check;
use expect_test::expect;

/// In the order in which Apache Kafka looks at a request.
#[test]
fn in_sync_replicas_are_refused_by_a_code() {
    check(
        "brokers 1 2 3
         register 4
         topic t 1,2,3,4
         isr t-0 1,2 epoch=9
         isr t-0 1,2 by=2
         isr u-0 1 by=1
         isr t-7 1 by=1
         isr t-0 1,2
         isr t-0 1,2 partition-epoch=0
         isr t-0 1,2 partition-epoch=2
         isr t-0 1,2 leader-epoch=1
         heartbeat 1 fence
         heartbeat 1
         isr t-0 2,1 leader-epoch=0
         isr t-0 2,1 by=1
         isr t-0 2,1,1
         isr t-0 1
         isr t-0 2,5
         isr t-0 2,1 recovering
         isr t-0 2 recovering
         isr t-0 2,4
         isr t-0 2,1@2
         isr t-0 2,1@1
         isr t-0 2,1",
        expect![[r#"
            brokers 1 2 3
              broker 1 epoch 1 directories [1, 101]
              broker 2 epoch 3 directories [2, 102]
              broker 3 epoch 5 directories [3, 103]
            register 4 -> epoch 7
              broker 4 epoch 7 fenced directories [4, 104]
              4: Registered
            topic t 1,2,3,4
              t-0 leader 1 epoch 0.0 isr [1, 2, 3]
            isr t-0 1,2 epoch=9 -> STALE_BROKER_EPOCH: Expected broker epoch 1, but got broker epoch 9
            isr t-0 1,2 by=2 -> INVALID_REQUEST
            isr u-0 1 by=1 -> UNKNOWN_TOPIC_ID
            isr t-7 1 by=1 -> UNKNOWN_TOPIC_OR_PARTITION
            isr t-0 1,2 -> NONE
              t-0 leader 1 epoch 0.1 isr [1, 2]
            isr t-0 1,2 partition-epoch=0 -> INVALID_UPDATE_VERSION
            isr t-0 1,2 partition-epoch=2 -> NOT_CONTROLLER
            isr t-0 1,2 leader-epoch=1 -> NOT_CONTROLLER
            heartbeat 1 fence -> caught up, fenced
              broker 1 epoch 1 fenced directories [1, 101]
              t-0 leader 2 epoch 1.2 isr [2]
              1: Fenced(Wanted)
            heartbeat 1 -> caught up
              broker 1 epoch 1 directories [1, 101]
              1: Unfenced
            isr t-0 2,1 leader-epoch=0 -> FENCED_LEADER_EPOCH
            isr t-0 2,1 by=1 -> INVALID_REQUEST
            isr t-0 2,1,1 -> INVALID_REQUEST
            isr t-0 1 -> INVALID_REQUEST
            isr t-0 2,5 -> INVALID_REQUEST
            isr t-0 2,1 recovering -> INVALID_REQUEST
            isr t-0 2 recovering -> INVALID_REQUEST
            isr t-0 2,4 -> INELIGIBLE_REPLICA
            isr t-0 2,1@2 -> INELIGIBLE_REPLICA
            isr t-0 2,1@1 -> NONE
              t-0 leader 2 epoch 1.3 isr [2, 1]
            isr t-0 2,1 -> NONE
        "#]],
    );
}

#[test]
fn who_shuts_down_does_not_come_to_be_in_sync() {
    check(
        "brokers 1 2 3
         topic t 1,2
         topic u 2,3
         heartbeat 2 stop
         isr t-0 1,2",
        expect![[r#"
            brokers 1 2 3
              broker 1 epoch 1 directories [1, 101]
              broker 2 epoch 3 directories [2, 102]
              broker 3 epoch 5 directories [3, 103]
            topic t 1,2
              t-0 leader 1 epoch 0.0 isr [1, 2]
            topic u 2,3
              u-0 leader 2 epoch 0.0 isr [2, 3]
            heartbeat 2 stop -> caught up, has to wait
              broker 2 epoch 3 shutting down directories [2, 102]
              t-0 leader 1 epoch 0.1 isr [1]
              u-0 leader 3 epoch 1.1 isr [3]
              2: ShutdownBegun
            isr t-0 1,2 -> INELIGIBLE_REPLICA
        "#]],
    );
}

/// What a fetch that was under way says of a replica whose directory has failed since. Otherwise the reassignment would
/// end with a replica that has nothing to lead with, and take the partition from the one that leads it.
#[test]
fn a_replica_joins_from_no_directory_that_has_failed() {
    check(
        "brokers 1 2 3
         topic t 1,3
         move t-0 2,3
         assign 2 2 t-0
         heartbeat 2 offline=2
         isr t-0 1
         isr t-0 1,2
         assign 2 102 t-0
         isr t-0 1,2",
        expect![[r#"
            brokers 1 2 3
              broker 1 epoch 1 directories [1, 101]
              broker 2 epoch 3 directories [2, 102]
              broker 3 epoch 5 directories [3, 103]
            topic t 1,3
              t-0 leader 1 epoch 0.0 isr [1, 3]
            move t-0 2,3
              t-0 leader 1 epoch 0.1 isr [1, 3] replicas [2, 3, 1] adding [2] removing [1]
            assign 2 2 t-0 -> NONE
              t-0 leader 1 epoch 0.2 isr [1, 3] adding [2] removing [1]
            heartbeat 2 offline=2 -> caught up
              broker 2 epoch 3 directories [102]
            isr t-0 1 -> NONE
              t-0 leader 1 epoch 0.3 isr [1] adding [2] removing [1]
            isr t-0 1,2 -> INELIGIBLE_REPLICA
            assign 2 102 t-0 -> NONE
              t-0 leader 1 epoch 0.4 isr [1] adding [2] removing [1]
            isr t-0 1,2 -> NEW_LEADER_ELECTED
              t-0 leader 2 epoch 1.5 isr [2] replicas [2, 3]
        "#]],
    );
}

/// The leader that has asked is told that another one leads.
#[test]
fn a_reassignment_ends_with_what_a_leader_asks_for() {
    check(
        "brokers 1 2 3
         topic t 1,2
         move t-0 3,2
         isr t-0 1,2,3
         move t-0 1
         isr t-0 3,2,1
         back t-0
         move t-0 2,3
         back t-0
         move t-0 2,1,3
         back t-0
         move t-0 3,1
         isr t-0 1,3",
        expect![[r#"
            brokers 1 2 3
              broker 1 epoch 1 directories [1, 101]
              broker 2 epoch 3 directories [2, 102]
              broker 3 epoch 5 directories [3, 103]
            topic t 1,2
              t-0 leader 1 epoch 0.0 isr [1, 2]
            move t-0 3,2
              t-0 leader 1 epoch 0.1 isr [1, 2] replicas [3, 2, 1] adding [3] removing [1]
            isr t-0 1,2,3 -> NEW_LEADER_ELECTED
              t-0 leader 3 epoch 1.2 isr [2, 3] replicas [3, 2]
            move t-0 1
              t-0 leader 3 epoch 1.3 isr [2, 3] replicas [1, 2, 3] adding [1] removing [2, 3]
            isr t-0 3,2,1 -> NEW_LEADER_ELECTED
              t-0 leader 1 epoch 2.4 isr [1] replicas [1]
            back t-0 -> NO_REASSIGNMENT_IN_PROGRESS: No partition reassignment is in progress.
            move t-0 2,3
              t-0 leader 1 epoch 2.5 isr [1] replicas [2, 3, 1] adding [2, 3] removing [1]
            back t-0
              t-0 leader 1 epoch 3.6 isr [1] replicas [1]
            move t-0 2,1,3
              t-0 leader 1 epoch 3.7 isr [1] replicas [2, 1, 3] adding [2, 3]
            back t-0
              t-0 leader 1 epoch 4.8 isr [1] replicas [1]
            move t-0 3,1
              t-0 leader 1 epoch 4.9 isr [1] replicas [3, 1] adding [3]
            isr t-0 1,3 -> NONE
              t-0 leader 1 epoch 4.10 isr [1, 3]
        "#]],
    );
}

/// Min ISR of a topic and of all; a replica that leaves a small ISR stays eligible, and no longer once it is large
/// enough.
#[test]
fn eligible_leaders_are_kept_while_too_few_are_in_sync() {
    check(
        "level eligible.leader.replicas.version 1
         brokers 1 2 3
         topic t 1,2,3
         topic u 1,2,3
         topic v 3
         config * min.insync.replicas=2
         config u min.insync.replicas=1
         isr t-0 1
         isr u-0 1
         isr t-0 1,3
         isr t-0 1
         heartbeat 1 fence
         heartbeat 3 fence
         at 9000
         heartbeat 2
         register 1 crashed
         unregister 3",
        expect![[r#"
            level eligible.leader.replicas.version 1
            brokers 1 2 3
              broker 1 epoch 2 directories [1, 101]
              broker 2 epoch 4 directories [2, 102]
              broker 3 epoch 6 directories [3, 103]
            topic t 1,2,3
              t-0 leader 1 epoch 0.0 isr [1, 2, 3]
            topic u 1,2,3
              u-0 leader 1 epoch 0.0 isr [1, 2, 3]
            topic v 3
              v-0 leader 3 epoch 0.0 isr [3]
            config * min.insync.replicas=2
            config u min.insync.replicas=1
            isr t-0 1 -> NONE
              t-0 leader 1 epoch 0.1 isr [1] elr [2, 3]
            isr u-0 1 -> NONE
              u-0 leader 1 epoch 0.1 isr [1]
            isr t-0 1,3 -> NONE
              t-0 leader 1 epoch 0.2 isr [1, 3]
            isr t-0 1 -> NONE
              t-0 leader 1 epoch 0.3 isr [1] elr [3]
            heartbeat 1 fence -> caught up, fenced
              broker 1 epoch 2 fenced directories [1, 101]
              t-0 leader 3 epoch 1.4 isr [3] elr [1]
              u-0 leader -1 epoch 1.2 isr [] elr [1] last known [1]
              1: Fenced(Wanted)
            heartbeat 3 fence -> caught up, fenced
              broker 3 epoch 6 fenced directories [3, 103]
              t-0 leader -1 epoch 2.5 isr [] elr [1, 3] last known [3]
              v-0 leader -1 epoch 1.1 isr [] elr [3] last known [3]
              3: Fenced(Wanted)
            at 9000
            heartbeat 2 -> caught up
            register 1 crashed -> epoch 28
              broker 1 epoch 28 fenced directories [1, 101]
              t-0 leader -1 epoch 2.6 isr [] elr [3] last known [3]
              u-0 leader -1 epoch 1.3 isr [] last known [1]
              1: Registered
            unregister 3
              broker 3 is gone
              t-0 leader -1 epoch 2.7 isr [] last known [3]
              v-0 leader -1 epoch 1.2 isr [] last known [3]
              3: Unregistered
        "#]],
    );
}

/// No id is given twice, whoever leads.
#[test]
fn producer_ids_follow_one_another() {
    check(
        "brokers 1 2
         producer-ids 1
         producer-ids 2
         producer-ids 1 epoch=99
         refuse producer-ids 1
         producer-ids 1
         lead
         producer-ids 2",
        expect![[r#"
            brokers 1 2
              broker 1 epoch 1 directories [1, 101]
              broker 2 epoch 3 directories [2, 102]
            producer-ids 1 -> 1000 from 0 on
            producer-ids 2 -> 1000 from 1000 on
            producer-ids 1 epoch=99 -> STALE_BROKER_EPOCH: Expected broker epoch 1, but got broker
                epoch 99
            refuse producer-ids 1
            producer-ids 1 -> 1000 from 2000 on
            lead
            producer-ids 2 -> 1000 from 3000 on
        "#]],
    );
}

#[test]
fn replicas_are_assigned_to_directories_one_by_one() {
    check(
        "brokers 1 2
         topic t 1,2 1,2
         topic u 2
         assign 1 1 t-0 t-1
         assign 1 1 t-0 t-1
         assign 1 101 t-0 t-7 w-0 u-0
         assign 1 7 t-0
         assign 1 101 t-1 epoch=99
         assign 3 3 t-0",
        expect![[r#"
            brokers 1 2
              broker 1 epoch 1 directories [1, 101]
              broker 2 epoch 3 directories [2, 102]
            topic t 1,2 1,2
              t-0 leader 1 epoch 0.0 isr [1, 2]
              t-1 leader 1 epoch 0.0 isr [1, 2]
            topic u 2
              u-0 leader 2 epoch 0.0 isr [2]
            assign 1 1 t-0 t-1 -> NONE
              t-0 leader 1 epoch 0.1 isr [1, 2]
              t-1 leader 1 epoch 0.1 isr [1, 2]
            assign 1 1 t-0 t-1 -> NONE
            assign 1 101 t-0 t-7 w-0 u-0 -> NONE, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID,
                NOT_LEADER_OR_FOLLOWER
              t-0 leader 1 epoch 0.2 isr [1, 2]
            assign 1 7 t-0 -> NONE
              t-0 leader 2 epoch 1.4 isr [2]
            assign 1 101 t-1 epoch=99 -> STALE_BROKER_EPOCH: Expected broker epoch 1, but got broker
                epoch 99
            assign 3 3 t-0 -> STALE_BROKER_EPOCH: No broker registration found for broker id 3
        "#]],
    );
}

/// Whoever leads without all records has the records of the partition from here on.
#[test]
fn an_unclean_leader_leaves_no_other_eligible() {
    check(
        "level eligible.leader.replicas.version 1
         brokers 1 2 3
         topic t 1,2,3
         config * min.insync.replicas=2
         isr t-0 1,2
         heartbeat 2 fence
         heartbeat 1 fence
         config t unclean.leader.election.enable=true
         tick",
        expect![[r#"
            level eligible.leader.replicas.version 1
            brokers 1 2 3
              broker 1 epoch 2 directories [1, 101]
              broker 2 epoch 4 directories [2, 102]
              broker 3 epoch 6 directories [3, 103]
            topic t 1,2,3
              t-0 leader 1 epoch 0.0 isr [1, 2, 3]
            config * min.insync.replicas=2
            isr t-0 1,2 -> NONE
              t-0 leader 1 epoch 0.1 isr [1, 2]
            heartbeat 2 fence -> caught up, fenced
              broker 2 epoch 4 fenced directories [2, 102]
              t-0 leader 1 epoch 0.2 isr [1] elr [2]
              2: Fenced(Wanted)
            heartbeat 1 fence -> caught up, fenced
              broker 1 epoch 2 fenced directories [1, 101]
              t-0 leader -1 epoch 1.3 isr [] elr [1, 2] last known [1]
              1: Fenced(Wanted)
            config t unclean.leader.election.enable=true
            tick
              ElectUncleanLeaders: 1 records
              t-0 leader 3 epoch 2.4 isr [3] recovering
        "#]],
    );
}
