//! What heartbeats ask for, and what becomes of their brokers.

use super::script::check;
use expect_test::expect;

/// A registration may stand behind records of the same decision: its epoch is where the first of them does.
#[test]
fn a_broker_has_caught_up_when_it_has_followed_its_registration() {
    check(
        "register 1
         heartbeat 1 followed=0
         heartbeat 1 followed=1
         brokers 2
         topic t 1,2 1,2
         at 9000
         heartbeat 2
         register 1
         heartbeat 1 followed=9
         heartbeat 1 followed=10",
        expect![[r#"
            register 1 -> epoch 1
              broker 1 epoch 1 fenced directories [1, 101]
              1: Registered
            heartbeat 1 followed=0 -> fenced
            heartbeat 1 followed=1 -> caught up
              broker 1 epoch 1 directories [1, 101]
              1: Unfenced
            brokers 2
              broker 2 epoch 3 directories [2, 102]
            topic t 1,2 1,2
              t-0 leader 1 epoch 0.0 isr [1, 2]
              t-1 leader 1 epoch 0.0 isr [1, 2]
            at 9000
            heartbeat 2 -> caught up
            register 1 -> epoch 8
              broker 1 epoch 8 fenced directories [1, 101]
              t-0 leader 2 epoch 1.1 isr [2]
              t-1 leader 2 epoch 1.1 isr [2]
              1: Registered
            heartbeat 1 followed=9 -> fenced
            heartbeat 1 followed=10 -> caught up
              broker 1 epoch 8 directories [1, 101]
              1: Unfenced
        "#]],
    );
}

#[test]
fn what_is_known_of_a_registration_goes_with_the_leadership() {
    check(
        "brokers 1 2
         topic t 1,2 1,2
         at 9000
         heartbeat 2
         register 1
         heartbeat 1 followed=9
         lead
         heartbeat 1 followed=7
         heartbeat 1 followed=8",
        expect![[r#"
            brokers 1 2
              broker 1 epoch 1 directories [1, 101]
              broker 2 epoch 3 directories [2, 102]
            topic t 1,2 1,2
              t-0 leader 1 epoch 0.0 isr [1, 2]
              t-1 leader 1 epoch 0.0 isr [1, 2]
            at 9000
            heartbeat 2 -> caught up
            register 1 -> epoch 8
              broker 1 epoch 8 fenced directories [1, 101]
              t-0 leader 2 epoch 1.1 isr [2]
              t-1 leader 2 epoch 1.1 isr [2]
              1: Registered
            heartbeat 1 followed=9 -> fenced
            lead
            heartbeat 1 followed=7 -> fenced
            heartbeat 1 followed=8 -> caught up
              broker 1 epoch 8 directories [1, 101]
              1: Unfenced
        "#]],
    );
}

#[test]
fn a_broker_is_fenced_as_long_as_it_wants() {
    check(
        "register 1
         heartbeat 1 fence
         heartbeat 1 fence
         heartbeat 1
         topic t 1
         heartbeat 1
         heartbeat 1 fence
         heartbeat 1 fence
         heartbeat 1",
        expect![[r#"
            register 1 -> epoch 1
              broker 1 epoch 1 fenced directories [1, 101]
              1: Registered
            heartbeat 1 fence -> caught up, fenced
            heartbeat 1 fence -> caught up, fenced
            heartbeat 1 -> caught up
              broker 1 epoch 1 directories [1, 101]
              1: Unfenced
            topic t 1
              t-0 leader 1 epoch 0.0 isr [1]
            heartbeat 1 -> caught up
            heartbeat 1 fence -> caught up, fenced
              broker 1 epoch 1 fenced directories [1, 101]
              t-0 leader -1 epoch 1.1 isr [1]
              1: Fenced(Wanted)
            heartbeat 1 fence -> caught up, fenced
            heartbeat 1 -> caught up
              broker 1 epoch 1 directories [1, 101]
              t-0 leader 1 epoch 2.2 isr [1]
              1: Unfenced
        "#]],
    );
}

#[test]
fn a_heartbeat_counts_for_the_registration_that_it_names_and_as_long_as_somebody_waits() {
    check(
        "heartbeat 1
         register 1
         heartbeat 1 epoch=9
         at 6
         heartbeat 1 epoch=9 deadline=5
         heartbeat 1 deadline=5
         heartbeat 1 deadline=6",
        expect![[r#"
            heartbeat 1 -> STALE_BROKER_EPOCH: No broker registration found for broker id 1
            register 1 -> epoch 1
              broker 1 epoch 1 fenced directories [1, 101]
              1: Registered
            heartbeat 1 epoch=9 -> STALE_BROKER_EPOCH: Expected broker epoch 1, but got broker epoch 9
            at 6
            heartbeat 1 epoch=9 deadline=5 -> REQUEST_TIMED_OUT: The request timed out.
            heartbeat 1 deadline=5 -> REQUEST_TIMED_OUT: The request timed out.
            heartbeat 1 deadline=6 -> caught up
              broker 1 epoch 1 directories [1, 101]
              1: Unfenced
        "#]],
    );
}

/// A broker that leads nothing stops at once, and so does one that is fenced, or wants to be.
#[test]
fn a_broker_without_leaderships_stops_at_once() {
    check(
        "brokers 1 2 3
         topic t 1,2,3
         heartbeat 2 stop
         heartbeat 2 stop
         register 4
         heartbeat 4 stop followed=0
         heartbeat 1 fence stop",
        expect![[r#"
            brokers 1 2 3
              broker 1 epoch 1 directories [1, 101]
              broker 2 epoch 3 directories [2, 102]
              broker 3 epoch 5 directories [3, 103]
            topic t 1,2,3
              t-0 leader 1 epoch 0.0 isr [1, 2, 3]
            heartbeat 2 stop -> caught up, fenced, may stop
              broker 2 epoch 3 fenced directories [2, 102]
              t-0 leader 1 epoch 0.1 isr [1, 3]
              2: ShutdownEnded
            heartbeat 2 stop -> caught up, fenced, may stop
            register 4 -> epoch 11
              broker 4 epoch 11 fenced directories [4, 104]
              4: Registered
            heartbeat 4 stop followed=0 -> fenced, may stop
            heartbeat 1 fence stop -> caught up, fenced, may stop
              broker 1 epoch 1 fenced directories [1, 101]
              t-0 leader 3 epoch 1.2 isr [3]
              1: ShutdownEnded
        "#]],
    );
}

/// All who are active have to tell that they have followed what the shutdown has changed, and no more: not who is
/// fenced, and not who shuts down as well.
#[test]
fn a_broker_that_leads_stops_when_all_active_brokers_know_of_its_shutdown() {
    check(
        "brokers 1 2 3 4 5
         topic t 1,2,3
         heartbeat 3 followed=99
         heartbeat 4 fence
         heartbeat 1 stop
         topic u 5
         heartbeat 1 stop
         heartbeat 5 stop
         heartbeat 2 followed=15
         heartbeat 3 followed=14
         heartbeat 1
         heartbeat 3 followed=15
         heartbeat 1",
        expect![[r#"
            brokers 1 2 3 4 5
              broker 1 epoch 1 directories [1, 101]
              broker 2 epoch 3 directories [2, 102]
              broker 3 epoch 5 directories [3, 103]
              broker 4 epoch 7 directories [4, 104]
              broker 5 epoch 9 directories [5, 105]
            topic t 1,2,3
              t-0 leader 1 epoch 0.0 isr [1, 2, 3]
            heartbeat 3 followed=99 -> caught up
            heartbeat 4 fence -> caught up, fenced
              broker 4 epoch 7 fenced directories [4, 104]
              4: Fenced(Wanted)
            heartbeat 1 stop -> caught up, has to wait
              broker 1 epoch 1 shutting down directories [1, 101]
              t-0 leader 2 epoch 1.1 isr [2, 3]
              1: ShutdownBegun
            topic u 5
              u-0 leader 5 epoch 0.0 isr [5]
            heartbeat 1 stop -> caught up, has to wait
            heartbeat 5 stop -> caught up, has to wait
              broker 5 epoch 9 shutting down directories [5, 105]
              u-0 leader -1 epoch 1.1 isr [5]
              5: ShutdownBegun
            heartbeat 2 followed=15 -> caught up
            heartbeat 3 followed=14 -> caught up
            heartbeat 1 -> caught up, has to wait
            heartbeat 3 followed=15 -> caught up
            heartbeat 1 -> caught up, fenced, may stop
              broker 1 epoch 1 fenced shutting down directories [1, 101]
              1: ShutdownEnded
        "#]],
    );
}

/// What a fenced broker follows tells nothing of what it serves by, and the heartbeat that unfences it does not either.
#[test]
fn a_broker_that_was_just_unfenced_has_to_tell_how_far_it_is() {
    check(
        "brokers 1 2
         topic t 1,2
         heartbeat 2 fence
         heartbeat 1 stop
         heartbeat 2
         heartbeat 1
         heartbeat 2
         heartbeat 1",
        expect![[r#"
            brokers 1 2
              broker 1 epoch 1 directories [1, 101]
              broker 2 epoch 3 directories [2, 102]
            topic t 1,2
              t-0 leader 1 epoch 0.0 isr [1, 2]
            heartbeat 2 fence -> caught up, fenced
              broker 2 epoch 3 fenced directories [2, 102]
              t-0 leader 1 epoch 0.1 isr [1]
              2: Fenced(Wanted)
            heartbeat 1 stop -> caught up, has to wait
              broker 1 epoch 1 shutting down directories [1, 101]
              t-0 leader -1 epoch 1.2 isr [1]
              1: ShutdownBegun
            heartbeat 2 -> caught up
              broker 2 epoch 3 directories [2, 102]
              2: Unfenced
            heartbeat 1 -> caught up, has to wait
            heartbeat 2 -> caught up
            heartbeat 1 -> caught up, fenced, may stop
              broker 1 epoch 1 fenced shutting down directories [1, 101]
              1: ShutdownEnded
        "#]],
    );
}

#[test]
fn the_broker_of_the_controllers_process_knows_what_the_controller_knows() {
    check(
        "brokers 1 2
         keep 1
         topic t 2,1
         heartbeat 2 stop
         heartbeat 2 stop",
        expect![[r#"
            brokers 1 2
              broker 1 epoch 1 directories [1, 101]
              broker 2 epoch 3 directories [2, 102]
            keep 1
            topic t 2,1
              t-0 leader 2 epoch 0.0 isr [2, 1]
            heartbeat 2 stop -> caught up, has to wait
              broker 2 epoch 3 shutting down directories [2, 102]
              t-0 leader 1 epoch 1.1 isr [1]
              2: ShutdownBegun
            heartbeat 2 stop -> caught up, fenced, may stop
              broker 2 epoch 3 fenced shutting down directories [2, 102]
              2: ShutdownEnded
        "#]],
    );
}

/// How far the others were is forgotten with the leadership.
#[test]
fn a_controller_that_begins_asks_how_far_all_are() {
    check(
        "brokers 1 2
         topic t 1,2
         heartbeat 1 stop
         heartbeat 2
         lead
         heartbeat 1
         heartbeat 2
         heartbeat 1",
        expect![[r#"
            brokers 1 2
              broker 1 epoch 1 directories [1, 101]
              broker 2 epoch 3 directories [2, 102]
            topic t 1,2
              t-0 leader 1 epoch 0.0 isr [1, 2]
            heartbeat 1 stop -> caught up, has to wait
              broker 1 epoch 1 shutting down directories [1, 101]
              t-0 leader 2 epoch 1.1 isr [2]
              1: ShutdownBegun
            heartbeat 2 -> caught up
            lead
            heartbeat 1 -> caught up, has to wait
            heartbeat 2 -> caught up
            heartbeat 1 -> caught up, fenced, may stop
              broker 1 epoch 1 fenced shutting down directories [1, 101]
              1: ShutdownEnded
        "#]],
    );
}

/// Only a new registration ends it.
#[test]
fn a_broker_that_is_fenced_in_its_shutdown_goes_on_with_it_from_there() {
    check(
        "brokers 1 2
         topic t 2,1
         heartbeat 2 stop
         heartbeat 1
         at 9000
         note 1
         tick
         unfence 2
         heartbeat 2
         heartbeat 1
         heartbeat 2
         heartbeat 2
         heartbeat 2
         at 18000
         register 2
         heartbeat 2
         heartbeat 2",
        expect![[r#"
            brokers 1 2
              broker 1 epoch 1 directories [1, 101]
              broker 2 epoch 3 directories [2, 102]
            topic t 2,1
              t-0 leader 2 epoch 0.0 isr [2, 1]
            heartbeat 2 stop -> caught up, has to wait
              broker 2 epoch 3 shutting down directories [2, 102]
              t-0 leader 1 epoch 1.1 isr [1]
              2: ShutdownBegun
            heartbeat 1 -> caught up
            at 9000
            note 1
            tick
              Fence(2): 1 records
              broker 2 epoch 3 fenced shutting down directories [2, 102]
              2: Fenced(SessionExpired)
            unfence 2
              broker 2 epoch 3 shutting down directories [2, 102]
              2: Unfenced
            heartbeat 2 -> caught up, has to wait
            heartbeat 1 -> caught up
            heartbeat 2 -> caught up, fenced, may stop
              broker 2 epoch 3 fenced shutting down directories [2, 102]
              2: ShutdownEnded
            heartbeat 2 -> caught up
              broker 2 epoch 3 shutting down directories [2, 102]
              2: Unfenced
            heartbeat 2 -> caught up, has to wait
            at 18000
            register 2 -> epoch 13
              broker 2 epoch 13 fenced directories [2, 102]
              2: Registered
            heartbeat 2 -> caught up
              broker 2 epoch 13 directories [2, 102]
              2: Unfenced
            heartbeat 2 -> caught up
        "#]],
    );
}

#[test]
fn a_broker_that_is_unfenced_leads_nothing_in_directories_that_have_failed() {
    check(
        "brokers 1
         topic t 1 1
         assign 1 1 t-0
         assign 1 101 t-1
         heartbeat 1 fence
         heartbeat 1 offline=1 cordoned=101",
        expect![[r#"
            brokers 1
              broker 1 epoch 1 directories [1, 101]
            topic t 1 1
              t-0 leader 1 epoch 0.0 isr [1]
              t-1 leader 1 epoch 0.0 isr [1]
            assign 1 1 t-0 -> NONE
              t-0 leader 1 epoch 0.1 isr [1]
            assign 1 101 t-1 -> NONE
              t-1 leader 1 epoch 0.1 isr [1]
            heartbeat 1 fence -> caught up, fenced
              broker 1 epoch 1 fenced directories [1, 101]
              t-0 leader -1 epoch 1.2 isr [1]
              t-1 leader -1 epoch 1.2 isr [1]
              1: Fenced(Wanted)
            heartbeat 1 offline=1 cordoned=101 -> caught up
              broker 1 epoch 1 directories [101] cordoned [101]
              t-0 leader -1 epoch 3.4 isr [1]
              t-1 leader 1 epoch 2.3 isr [1]
              1: Unfenced
        "#]],
    );
}

#[test]
fn directories_are_told_with_any_heartbeat() {
    check(
        "register 1
         heartbeat 1 fence cordoned=1
         heartbeat 1 cordoned=101,1
         heartbeat 1 cordoned=1,101
         heartbeat 1
         heartbeat 1 cordoned=
         heartbeat 1 offline=7
         topic t 1
         assign 1 101 t-0
         heartbeat 1 stop offline=101
         heartbeat 1 offline=1",
        expect![[r#"
            register 1 -> epoch 1
              broker 1 epoch 1 fenced directories [1, 101]
              1: Registered
            heartbeat 1 fence cordoned=1 -> caught up, fenced
              broker 1 epoch 1 fenced directories [1, 101] cordoned [1]
            heartbeat 1 cordoned=101,1 -> caught up
              broker 1 epoch 1 directories [1, 101] cordoned [101, 1]
              1: Unfenced
            heartbeat 1 cordoned=1,101 -> caught up
            heartbeat 1 -> caught up
            heartbeat 1 cordoned= -> caught up
              broker 1 epoch 1 directories [1, 101] cordoned []
            heartbeat 1 offline=7 -> caught up
            topic t 1
              t-0 leader 1 epoch 0.0 isr [1]
            assign 1 101 t-0 -> NONE
              t-0 leader 1 epoch 0.1 isr [1]
            heartbeat 1 stop offline=101 -> caught up, has to wait
              broker 1 epoch 1 shutting down directories [1] cordoned []
              t-0 leader -1 epoch 1.2 isr [1]
              1: ShutdownBegun
            heartbeat 1 offline=1 -> caught up, fenced, may stop
              broker 1 epoch 1 fenced shutting down directories [1] cordoned []
              1: ShutdownEnded
        "#]],
    );
}

/// A shutdown may have come into the log in part.
#[test]
fn a_broker_that_shuts_down_and_still_leads_gives_that_away() {
    check(
        "brokers 1 2
         topic t 1,2
         half-shutdown 1
         lead
         heartbeat 2
         heartbeat 1 stop
         heartbeat 2
         heartbeat 1 stop",
        expect![[r#"
            brokers 1 2
              broker 1 epoch 1 directories [1, 101]
              broker 2 epoch 3 directories [2, 102]
            topic t 1,2
              t-0 leader 1 epoch 0.0 isr [1, 2]
            half-shutdown 1
              broker 1 epoch 1 shutting down directories [1, 101]
            lead
            heartbeat 2 -> caught up
            heartbeat 1 stop -> caught up, has to wait
              t-0 leader 2 epoch 1.1 isr [2]
            heartbeat 2 -> caught up
            heartbeat 1 stop -> caught up, fenced, may stop
              broker 1 epoch 1 fenced shutting down directories [1, 101]
              1: ShutdownEnded
        "#]],
    );
}
