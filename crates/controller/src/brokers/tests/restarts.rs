//! Brokers that stop, crash and start again.

use super::script::check;
use expect_test::expect;

#[test]
fn a_single_node_restarts_cleanly() {
    check(
        "elr
         brokers 1
         topic t 1
         shutdown 1
         fence 1
         register 1
         unfence 1
         unfence 1",
        expect![[r#"
            elr
            brokers 1
              broker 1 epoch 2 directories [1, 101]
            topic t 1
              t-0 leader 1 epoch 0.0 isr [1]
            shutdown 1
              broker 1 epoch 2 shutting down directories [1, 101]
              t-0 leader -1 epoch 1.1 isr [] elr [1] last known [1]
            fence 1
              broker 1 epoch 2 fenced shutting down directories [1, 101]
            register 1
              broker 1 epoch 9 fenced directories [1, 101]
            unfence 1
              broker 1 epoch 9 directories [1, 101]
              t-0 leader 1 epoch 2.2 isr [1]
            unfence 1
        "#]],
    );
}

#[test]
fn a_single_node_restarts_after_a_crash() {
    check(
        "elr
         brokers 1
         topic t 1
         register 1 crashed
         unfence 1",
        expect![[r#"
            elr
            brokers 1
              broker 1 epoch 2 directories [1, 101]
            topic t 1
              t-0 leader 1 epoch 0.0 isr [1]
            register 1 crashed
              broker 1 epoch 6 fenced directories [1, 101]
              t-0 leader -1 epoch 1.1 isr [] last known [1]
            unfence 1
              broker 1 epoch 6 directories [1, 101]
              t-0 leader 1 epoch 2.2 isr [1] recovering
        "#]],
    );
}

#[test]
fn a_single_node_restarts_without_eligible_leader_replicas() {
    check(
        "brokers 1
         topic t 1
         register 1 crashed
         unfence 1",
        expect![[r#"
            brokers 1
              broker 1 epoch 1 directories [1, 101]
            topic t 1
              t-0 leader 1 epoch 0.0 isr [1]
            register 1 crashed
              broker 1 epoch 5 fenced directories [1, 101]
              t-0 leader -1 epoch 1.1 isr [1]
            unfence 1
              broker 1 epoch 5 directories [1, 101]
              t-0 leader 1 epoch 2.2 isr [1]
        "#]],
    );
}

#[test]
fn the_same_incarnation_keeps_its_epoch() {
    check(
        "brokers 1
         topic t 1
         register 1 again live
         register 1 live
         register 1",
        expect![[r#"
            brokers 1
              broker 1 epoch 1 directories [1, 101]
            topic t 1
              t-0 leader 1 epoch 0.0 isr [1]
            register 1 again live
            register 1 live -> DUPLICATE_BROKER_REGISTRATION: Another broker is registered with that
                broker id. If the broker was recently restarted this should self-resolve once the
                heartbeat manager expires the broker's session.
            register 1
              broker 1 epoch 6 fenced directories [1, 101]
              t-0 leader -1 epoch 1.1 isr [1]
        "#]],
    );
}

#[test]
fn shutdown_gives_leaderships_away() {
    check(
        "brokers 1 2
         topic t 1,2 2,1
         shutdown 1
         shutdown 1
         fence 1
         register 1
         unfence 1",
        expect![[r#"
            brokers 1 2
              broker 1 epoch 1 directories [1, 101]
              broker 2 epoch 3 directories [2, 102]
            topic t 1,2 2,1
              t-0 leader 1 epoch 0.0 isr [1, 2]
              t-1 leader 2 epoch 0.0 isr [2, 1]
            shutdown 1
              broker 1 epoch 1 shutting down directories [1, 101]
              t-0 leader 2 epoch 1.1 isr [2]
              t-1 leader 2 epoch 0.1 isr [2]
            shutdown 1
            fence 1
              broker 1 epoch 1 fenced shutting down directories [1, 101]
            register 1
              broker 1 epoch 12 fenced directories [1, 101]
            unfence 1
              broker 1 epoch 12 directories [1, 101]
        "#]],
    );
}

#[test]
fn a_broker_that_shuts_down_leads_nothing_before_it_registers_again() {
    check(
        "brokers 1
         topic t 1
         fence 1
         shutdown 1
         unfence 1
         register 1
         unfence 1",
        expect![[r#"
            brokers 1
              broker 1 epoch 1 directories [1, 101]
            topic t 1
              t-0 leader 1 epoch 0.0 isr [1]
            fence 1
              broker 1 epoch 1 fenced directories [1, 101]
              t-0 leader -1 epoch 1.1 isr [1]
            shutdown 1
              broker 1 epoch 1 fenced shutting down directories [1, 101]
            unfence 1
              broker 1 epoch 1 shutting down directories [1, 101]
            register 1
              broker 1 epoch 9 fenced directories [1, 101]
            unfence 1
              broker 1 epoch 9 directories [1, 101]
              t-0 leader 1 epoch 2.2 isr [1]
        "#]],
    );
}

/// A broker that tells no epoch of its last registration may have crashed, whatever it sends.
#[test]
fn only_who_can_tell_a_clean_shutdown_keeps_its_eligibility() {
    check(
        "elr
         brokers 1 2 3
         topic t 1,2 1,3
         config t min.insync.replicas=2
         fence 2
         fence 3
         register 2
         register 3 old",
        expect![[r#"
            elr
            brokers 1 2 3
              broker 1 epoch 2 directories [1, 101]
              broker 2 epoch 4 directories [2, 102]
              broker 3 epoch 6 directories [3, 103]
            topic t 1,2 1,3
              t-0 leader 1 epoch 0.0 isr [1, 2]
              t-1 leader 1 epoch 0.0 isr [1, 3]
            config t min.insync.replicas=2
            fence 2
              broker 2 epoch 4 fenced directories [2, 102]
              t-0 leader 1 epoch 0.1 isr [1] elr [2]
            fence 3
              broker 3 epoch 6 fenced directories [3, 103]
              t-1 leader 1 epoch 0.1 isr [1] elr [3]
            register 2
              broker 2 epoch 16 fenced directories [2, 102]
            register 3 old
              broker 3 epoch 17 fenced directories [3, 103]
              t-1 leader 1 epoch 0.2 isr [1]
        "#]],
    );
}
