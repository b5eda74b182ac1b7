//! Which brokers are heard of, and what becomes of those that are not.

use super::script::check;
use expect_test::expect;

#[test]
fn brokers_that_are_not_heard_of_are_fenced_one_after_the_other() {
    check(
        "next
         brokers 1 2 3
         topic t 1,2,3
         at 1000
         heartbeat 3
         next
         at 8999
         tick
         at 9000
         tick
         next
         at 10000
         tick
         next",
        expect![[r#"
            next -> nothing
            brokers 1 2 3
              broker 1 epoch 1 directories [1, 101]
              broker 2 epoch 3 directories [2, 102]
              broker 3 epoch 5 directories [3, 103]
            topic t 1,2,3
              t-0 leader 1 epoch 0.0 isr [1, 2, 3]
            at 1000
            heartbeat 3 -> caught up
            next -> Fence(1) at 9000
            at 8999
            tick
            at 9000
            tick
              Fence(1): 2 records
              Fence(2): 2 records
              broker 1 epoch 1 fenced directories [1, 101]
              broker 2 epoch 3 fenced directories [2, 102]
              t-0 leader 3 epoch 2.2 isr [3]
              1: Fenced(SessionExpired)
              2: Fenced(SessionExpired)
            next -> Fence(3) at 10000
            at 10000
            tick
              Fence(3): 2 records
              broker 3 epoch 5 fenced directories [3, 103]
              t-0 leader -1 epoch 3.3 isr [3]
              3: Fenced(SessionExpired)
            next -> BalanceLeaders at 300000
        "#]],
    );
}

/// A controller that is late fences nobody for it. What is noted of another registration counts for nothing, and time
/// does not go back.
#[test]
fn a_heartbeat_counts_from_when_it_is_received() {
    check(
        "brokers 1 2
         at 5000
         note 1
         note 2 epoch=2
         at 4000
         note 1
         at 9000
         tick
         next
         note 2
         next",
        expect![[r#"
            brokers 1 2
              broker 1 epoch 1 directories [1, 101]
              broker 2 epoch 3 directories [2, 102]
            at 5000
            note 1
            note 2 epoch=2
            at 4000
            note 1
            at 9000
            tick
              Fence(2): 1 records
              broker 2 epoch 3 fenced directories [2, 102]
              2: Fenced(SessionExpired)
            next -> Fence(1) at 14000
            note 2
            next -> Fence(1) at 14000
        "#]],
    );
}

/// A heartbeat that is refused is one all the same; one of another registration is not.
#[test]
fn a_refused_heartbeat_is_a_sign_of_life() {
    check(
        "brokers 1
         at 100
         heartbeat 1 epoch=9
         next
         heartbeat 1 deadline=99
         next",
        expect![[r#"
            brokers 1
              broker 1 epoch 1 directories [1, 101]
            at 100
            heartbeat 1 epoch=9 -> STALE_BROKER_EPOCH: Expected broker epoch 1, but got broker epoch 9
            next -> Fence(1) at 9000
            heartbeat 1 deadline=99 -> REQUEST_TIMED_OUT: The request timed out.
            next -> Fence(1) at 9100
        "#]],
    );
}

#[test]
fn a_live_broker_keeps_its_id() {
    check(
        "brokers 1
         at 8999
         register 1
         register 1 again
         at 9000
         live 1
         register 1
         live 1
         register 1
         heartbeat 1 fence
         live 1
         register 1
         at 18000
         live 1
         register 1",
        expect![[r#"
            brokers 1
              broker 1 epoch 1 directories [1, 101]
            at 8999
            register 1 -> DUPLICATE_BROKER_REGISTRATION: Another broker is registered with that broker
                id. If the broker was recently restarted this should self-resolve once the heartbeat
                manager expires the broker's session.
            register 1 again -> epoch 1
            at 9000
            live 1 -> false
            register 1 -> epoch 4
              broker 1 epoch 4 fenced directories [1, 101]
              1: Registered
            live 1 -> false
            register 1 -> epoch 5
              broker 1 epoch 5 fenced directories [1, 101]
              1: Registered
            heartbeat 1 fence -> caught up, fenced
            live 1 -> true
            register 1 -> DUPLICATE_BROKER_REGISTRATION: Another broker is registered with that broker
                id. If the broker was recently restarted this should self-resolve once the heartbeat
                manager expires the broker's session.
            at 18000
            live 1 -> false
            register 1 -> epoch 6
              broker 1 epoch 6 fenced directories [1, 101]
              1: Registered
        "#]],
    );
}

#[test]
fn a_controller_that_begins_gives_time_to_those_who_are_not_fenced() {
    check(
        "brokers 1 2
         register 3
         heartbeat 3 fence
         heartbeat 2 fence
         at 5000
         lead
         live 1
         live 2
         live 3
         register 2
         register 3
         register 1
         next",
        expect![[r#"
            brokers 1 2
              broker 1 epoch 1 directories [1, 101]
              broker 2 epoch 3 directories [2, 102]
            register 3 -> epoch 5
              broker 3 epoch 5 fenced directories [3, 103]
              3: Registered
            heartbeat 3 fence -> caught up, fenced
            heartbeat 2 fence -> caught up, fenced
              broker 2 epoch 3 fenced directories [2, 102]
              2: Fenced(Wanted)
            at 5000
            lead
            live 1 -> true
            live 2 -> false
            live 3 -> false
            register 2 -> epoch 7
              broker 2 epoch 7 fenced directories [2, 102]
              2: Registered
            register 3 -> epoch 8
              broker 3 epoch 8 fenced directories [3, 103]
              3: Registered
            register 1 -> DUPLICATE_BROKER_REGISTRATION: Another broker is registered with that broker
                id. If the broker was recently restarted this should self-resolve once the heartbeat
                manager expires the broker's session.
            next -> Fence(1) at 14000
        "#]],
    );
}

/// It can be no more dead than the controller.
#[test]
fn the_broker_of_the_controllers_process_is_live_until_another_process_begins() {
    check(
        "brokers 1
         keep 1
         next
         brokers 2
         next
         at 20000
         tick
         live 1
         register 1
         end 1
         live 1
         register 1",
        expect![[r#"
            brokers 1
              broker 1 epoch 1 directories [1, 101]
            keep 1
            next -> nothing
            brokers 2
              broker 2 epoch 3 directories [2, 102]
            next -> Fence(2) at 9000
            at 20000
            tick
              Fence(2): 1 records
              broker 2 epoch 3 fenced directories [2, 102]
              2: Fenced(SessionExpired)
            live 1 -> true
            register 1 -> DUPLICATE_BROKER_REGISTRATION: Another broker is registered with that broker
                id. If the broker was recently restarted this should self-resolve once the heartbeat
                manager expires the broker's session.
            end 1
            live 1 -> false
            register 1 -> epoch 6
              broker 1 epoch 6 fenced directories [1, 101]
              1: Registered
        "#]],
    );
}

/// Another broker that begins takes no place of it.
#[test]
fn only_the_own_broker_is_kept() {
    check(
        "brokers 1 2
         keep 1
         end 2
         live 2
         at 9000
         live 1
         end 1
         live 1",
        expect![[r#"
            brokers 1 2
              broker 1 epoch 1 directories [1, 101]
              broker 2 epoch 3 directories [2, 102]
            keep 1
            end 2
            live 2 -> false
            at 9000
            live 1 -> true
            end 1
            live 1 -> false
        "#]],
    );
}

#[test]
fn a_broker_that_was_unfenced_without_a_heartbeat_is_fenced_at_once() {
    check(
        "brokers 1
         register 2
         unfence 2
         tick",
        expect![[r#"
            brokers 1
              broker 1 epoch 1 directories [1, 101]
            register 2 -> epoch 3
              broker 2 epoch 3 fenced directories [2, 102]
              2: Registered
            unfence 2
              broker 2 epoch 3 directories [2, 102]
              2: Unfenced
            tick
              Fence(2): 1 records
              broker 2 epoch 3 fenced directories [2, 102]
              2: Fenced(SessionExpired)
        "#]],
    );
}

#[test]
fn an_unregistered_broker_is_forgotten() {
    check(
        "brokers 1 2
         topic t 1,2 2,1
         unregister 1
         live 1
         heartbeat 1
         next
         register 1
         live 1
         unregister 1
         unregister 1",
        expect![[r#"
            brokers 1 2
              broker 1 epoch 1 directories [1, 101]
              broker 2 epoch 3 directories [2, 102]
            topic t 1,2 2,1
              t-0 leader 1 epoch 0.0 isr [1, 2]
              t-1 leader 2 epoch 0.0 isr [2, 1]
            unregister 1
              broker 1 is gone
              t-0 leader 2 epoch 1.1 isr [2]
              t-1 leader 2 epoch 0.1 isr [2]
              1: Unregistered
            live 1 -> false
            heartbeat 1 -> STALE_BROKER_EPOCH: No broker registration found for broker id 1
            next -> Fence(2) at 9000
            register 1 -> epoch 11
              broker 1 epoch 11 fenced directories [1, 101]
              1: Registered
            live 1 -> false
            unregister 1
              broker 1 is gone
              1: Unregistered
            unregister 1 -> BROKER_ID_NOT_REGISTERED: Broker ID 1 is not currently registered
        "#]],
    );
}

#[test]
fn the_same_process_that_registers_again_goes_on_with_its_shutdown() {
    check(
        "brokers 1 2
         topic t 1,2
         heartbeat 1 stop
         register 1 again
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
            register 1 again -> epoch 1
            heartbeat 2 -> caught up
            heartbeat 1 -> caught up, fenced, may stop
              broker 1 epoch 1 fenced shutting down directories [1, 101]
              1: ShutdownEnded
        "#]],
    );
}
