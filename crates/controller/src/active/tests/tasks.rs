//! What the controller does by itself, and when.

use super::script::{check, check_with};
use expect_test::expect;

const BALANCE: &str = "leader.imbalance.check.interval.seconds";
const UNCLEAN: &str = "unclean.leader.election.interval.ms";
const IDLE: &str = "metadata.max.idle.interval.ms";
const SESSION: &str = "broker.session.timeout.ms";

/// A thousand at a time, so that others have their turn.
#[test]
fn leaders_are_balanced_again_at_once_while_there_are_more() {
    check(
        "brokers 1 2
         topic t 1,2*1001
         heartbeat 1 fence
         heartbeat 1
         isr t-0+ 2,1
         at 299999
         note 1
         note 2
         tick
         next
         at 300000
         tick
         next",
        expect![[r#"
            brokers 1 2
              broker 1 epoch 1 directories [1, 101]
              broker 2 epoch 3 directories [2, 102]
            topic t 1,2*1001
              t-0 to 1000 leader 1 epoch 0.0 isr [1, 2]
            heartbeat 1 fence -> caught up, fenced
              broker 1 epoch 1 fenced directories [1, 101]
              t-0 to 1000 leader 2 epoch 1.1 isr [2]
              1: Fenced(Wanted)
            heartbeat 1 -> caught up
              broker 1 epoch 1 directories [1, 101]
              1: Unfenced
            isr t-0+ 2,1 -> NONE
              t-0 to 1000 leader 2 epoch 1.2 isr [2, 1]
            at 299999
            note 1
            note 2
            tick
            next -> BalanceLeaders at 300000
            at 300000
            tick
              BalanceLeaders: 1000 records
              BalanceLeaders: 1 records
              ElectUncleanLeaders: 0 records
              t-0 to 1000 leader 1 epoch 2.3 isr [2, 1]
            next -> Fence(1) at 308999
        "#]],
    );
}

#[test]
fn leaders_are_balanced_by_those_who_want_that() {
    let off = [
        ("auto.leader.rebalance.enable", "false"),
        (IDLE, "0"),
        (SESSION, "1000000"),
    ];
    check_with(
        &off,
        "brokers 1 2
         topic t 1,2
         heartbeat 1 fence
         heartbeat 1
         isr t-0 2,1
         next
         at 300000
         tick
         elect preferred",
        &expect![[r#"
            brokers 1 2
              broker 1 epoch 1 directories [1, 101]
              broker 2 epoch 3 directories [2, 102]
            topic t 1,2
              t-0 leader 1 epoch 0.0 isr [1, 2]
            heartbeat 1 fence -> caught up, fenced
              broker 1 epoch 1 fenced directories [1, 101]
              t-0 leader 2 epoch 1.1 isr [2]
              1: Fenced(Wanted)
            heartbeat 1 -> caught up
              broker 1 epoch 1 directories [1, 101]
              1: Unfenced
            isr t-0 2,1 -> NONE
              t-0 leader 2 epoch 1.2 isr [2, 1]
            next -> ElectUncleanLeaders at 300000
            at 300000
            tick
              ElectUncleanLeaders: 0 records
            elect preferred
              t-0 leader 1 epoch 2.3 isr [2, 1]
        "#]],
    );
}

#[test]
fn leaders_are_balanced_in_intervals() {
    check_with(
        &[(BALANCE, "1"), (IDLE, "0")],
        "brokers 1 2
         topic t 1,2
         heartbeat 1 fence
         heartbeat 1
         at 1000
         tick
         next
         isr t-0 2,1
         at 1999
         tick
         at 2000
         tick",
        &expect![[r#"
            brokers 1 2
              broker 1 epoch 1 directories [1, 101]
              broker 2 epoch 3 directories [2, 102]
            topic t 1,2
              t-0 leader 1 epoch 0.0 isr [1, 2]
            heartbeat 1 fence -> caught up, fenced
              broker 1 epoch 1 fenced directories [1, 101]
              t-0 leader 2 epoch 1.1 isr [2]
              1: Fenced(Wanted)
            heartbeat 1 -> caught up
              broker 1 epoch 1 directories [1, 101]
              1: Unfenced
            at 1000
            tick
              BalanceLeaders: 0 records
            next -> BalanceLeaders at 2000
            isr t-0 2,1 -> NONE
              t-0 leader 2 epoch 1.2 isr [2, 1]
            at 1999
            tick
            at 2000
            tick
              BalanceLeaders: 1 records
              t-0 leader 1 epoch 2.3 isr [2, 1]
        "#]],
    );
}

#[test]
fn unclean_leaders_are_elected_in_intervals_and_again_at_once_while_there_are_more() {
    check_with(
        &[(UNCLEAN, "500"), (IDLE, "0"), (SESSION, "1000000")],
        "brokers 1 2
         topic t 1,2*1001
         heartbeat 2 fence
         heartbeat 2
         heartbeat 1 fence
         at 500
         tick
         next
         config t unclean.leader.election.enable=true
         next
         tick
         next",
        &expect![[r#"
            brokers 1 2
              broker 1 epoch 1 directories [1, 101]
              broker 2 epoch 3 directories [2, 102]
            topic t 1,2*1001
              t-0 to 1000 leader 1 epoch 0.0 isr [1, 2]
            heartbeat 2 fence -> caught up, fenced
              broker 2 epoch 3 fenced directories [2, 102]
              t-0 to 1000 leader 1 epoch 0.1 isr [1]
              2: Fenced(Wanted)
            heartbeat 2 -> caught up
              broker 2 epoch 3 directories [2, 102]
              2: Unfenced
            heartbeat 1 fence -> caught up, fenced
              broker 1 epoch 1 fenced directories [1, 101]
              t-0 to 1000 leader -1 epoch 1.2 isr [1]
              1: Fenced(Wanted)
            at 500
            tick
              ElectUncleanLeaders: 0 records
            next -> ElectUncleanLeaders at 1000
            config t unclean.leader.election.enable=true
            next -> ElectUncleanLeaders at 500
            tick
              ElectUncleanLeaders: 1000 records
              ElectUncleanLeaders: 1 records
              t-0 to 1000 leader 2 epoch 2.3 isr [2] recovering
            next -> ElectUncleanLeaders at 1000
        "#]],
    );
}

/// For one topic or for all; whoever forbids it hastens nothing, and neither does what the log does not take.
#[test]
fn an_unclean_election_is_hastened_by_whoever_allows_it() {
    check(
        "brokers 1
         topic t 1
         at 7
         config t unclean.leader.election.enable=false
         config t retention.ms=1
         refuse config t unclean.leader.election.enable=true
         next
         config * unclean.leader.election.enable=true
         next
         at 8
         tick
         next",
        expect![[r#"
            brokers 1
              broker 1 epoch 1 directories [1, 101]
            topic t 1
              t-0 leader 1 epoch 0.0 isr [1]
            at 7
            config t unclean.leader.election.enable=false
            config t retention.ms=1
            refuse config t unclean.leader.election.enable=true
            next -> Fence(1) at 9000
            config * unclean.leader.election.enable=true
            next -> ElectUncleanLeaders at 7
            at 8
            tick
              ElectUncleanLeaders: 0 records
            next -> Fence(1) at 9000
        "#]],
    );
}

/// An observer that hears nothing would take the controller for gone.
#[test]
fn a_sign_of_life_is_written_when_nothing_else_is() {
    check_with(
        &[(SESSION, "1000000")],
        "brokers 1
         next
         at 499
         tick
         topic t 1
         at 998
         heartbeat 1
         tick
         at 999
         tick
         next
         at 1400
         refuse topic u 1
         next",
        &expect![[r#"
            brokers 1
              broker 1 epoch 1 directories [1, 101]
            next -> NoOp at 500
            at 499
            tick
            topic t 1
              t-0 leader 1 epoch 0.0 isr [1]
            at 998
            heartbeat 1 -> caught up
            tick
            at 999
            tick
              NoOp: 1 records
            next -> NoOp at 1499
            at 1400
            refuse topic u 1
            next -> NoOp at 1499
        "#]],
    );
}

#[test]
fn sessions_come_before_elections_and_elections_before_signs_of_life() {
    check_with(
        &[(BALANCE, "9"), (UNCLEAN, "9000"), (IDLE, "9000")],
        "brokers 2 1
         topic t 1,2
         at 9000
         tick",
        &expect![[r#"
            brokers 2 1
              broker 1 epoch 3 directories [1, 101]
              broker 2 epoch 1 directories [2, 102]
            topic t 1,2
              t-0 leader 1 epoch 0.0 isr [1, 2]
            at 9000
            tick
              Fence(1): 2 records
              Fence(2): 2 records
              BalanceLeaders: 0 records
              ElectUncleanLeaders: 0 records
              broker 1 epoch 3 fenced directories [1, 101]
              broker 2 epoch 1 fenced directories [2, 102]
              t-0 leader -1 epoch 2.2 isr [2]
              1: Fenced(SessionExpired)
              2: Fenced(SessionExpired)
        "#]],
    );
}

/// Otherwise it would ask for the same again and again.
#[test]
fn a_task_that_the_log_does_not_take_waits_for_a_moment() {
    check(
        "brokers 1 2
         topic t 1,2
         at 9000
         note 2
         refuse tick
         next
         at 9999
         tick
         at 10000
         tick",
        expect![[r#"
            brokers 1 2
              broker 1 epoch 1 directories [1, 101]
              broker 2 epoch 3 directories [2, 102]
            topic t 1,2
              t-0 leader 1 epoch 0.0 isr [1, 2]
            at 9000
            note 2
            refuse tick
            next -> Fence(1) at 10000
            at 9999
            tick
            at 10000
            tick
              Fence(1): 2 records
              broker 1 epoch 1 fenced directories [1, 101]
              t-0 leader 2 epoch 1.1 isr [2]
              1: Fenced(SessionExpired)
        "#]],
    );
}

/// There is nobody to fence, no leadership to move, and nobody who would miss a sign of life.
#[test]
fn a_node_that_is_its_whole_cluster_does_nothing_by_itself() {
    check_with(
        &[],
        "next
         brokers 1
         keep 1
         next
         brokers 2
         next
         unregister 2
         next",
        &expect![[r#"
            next -> nothing
            brokers 1
              broker 1 epoch 1 directories [1, 101]
            keep 1
            next -> nothing
            brokers 2
              broker 2 epoch 3 directories [2, 102]
            next -> NoOp at 500
            unregister 2
              broker 2 is gone
              2: Unregistered
            next -> nothing
        "#]],
    );
}
