//! What the coordinator says beside tasks: how the group stands, and where its members answer.

use super::super::super::script::settings;
use super::check;
use expect_test::expect;

#[test]
fn statuses_are_told_when_they_change() {
    check(
        settings(),
        "start
         found
         status 1
         done
         wait 5000
         status 1
         wait 5000
         ok 1
         done",
        expect![[r#"
            start -> find
            found -> epoch 0 endpoints=-1 topology owns none
            status 1 => statuses [MissingInternalTopics]
            done
            wait 5000 -> epoch 1
            status 1
            wait 5000 -> epoch 1
            ok 1 => statuses []
            done
        "#]],
    );
}

#[test]
fn a_slower_coordinator_is_told_with_its_status() {
    check(
        settings(),
        "start
         found
         status 1
         done
         wait 5000
         slower 1
         done",
        expect![[r#"
            start -> find
            found -> epoch 0 endpoints=-1 topology owns none
            status 1 => statuses [MissingInternalTopics]
            done
            wait 5000 -> epoch 1
            slower 1 => statuses once in 20000
            done
        "#]],
    );
}

#[test]
fn endpoints_are_told_when_they_come_and_their_epoch_goes_back() {
    check(
        settings(),
        "start
         found
         endpoints 1 8 in
         wait 5000
         endpoints 1 9 in other
         wait 5000
         status 1
         wait 5000
         endpoints 1 10
         wait 5000
         done
         done
         done
         refuse FENCED_MEMBER_EPOCH
         wait 100
         done",
        expect![[r#"
            start -> find
            found -> epoch 0 endpoints=-1 topology owns none
            endpoints 1 8 in => endpoints one:7070 active in-0 standby in-1
            wait 5000 -> epoch 1 endpoints=8
            endpoints 1 9 in other
            wait 5000 -> epoch 1 endpoints=9
            status 1
            wait 5000 -> epoch 1
            endpoints 1 10
            wait 5000 -> epoch 1 endpoints=10
            done => endpoints
            done => statuses []
            done
            refuse FENCED_MEMBER_EPOCH => tasks none
            wait 100
            done -> epoch 0 endpoints=-1 topology owns none
        "#]],
    );
}

#[test]
fn of_statuses_that_come_while_the_application_is_busy_the_newest_counts() {
    check(
        settings(),
        "start
         found
         status 1
         wait 5000
         ok 1
         wait 5000
         status 1
         done
         done",
        expect![[r#"
            start -> find
            found -> epoch 0 endpoints=-1 topology owns none
            status 1 => statuses [MissingInternalTopics]
            wait 5000 -> epoch 1
            ok 1
            wait 5000 -> epoch 1
            status 1
            done => statuses [MissingInternalTopics]
            done
        "#]],
    );
}

#[test]
fn tasks_that_come_with_a_status_are_taken_after_it() {
    check(
        settings(),
        "start
         found
         status 1 standby 0_0
         done
         done",
        expect![[r#"
            start -> find
            found -> epoch 0 endpoints=-1 topology owns none
            status 1 standby 0_0 => statuses [MissingInternalTopics]
            done => tasks standby 0_0
            done -> epoch 1 owns standby 0_0
        "#]],
    );
}
