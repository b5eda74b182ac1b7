//! Who leads a partition when brokers come and go.

use super::script::check;
use expect_test::expect;

#[test]
fn leadership_moves_when_brokers_come_and_go() {
    check(
        "brokers 1 2 3
         topic t 1,2,3 2,3,1
         fence 1
         fence 2
         fence 3
         unfence 2
         unfence 3
         unfence 1",
        expect![[r#"
            brokers 1 2 3
              broker 1 epoch 1 directories [1, 101]
              broker 2 epoch 3 directories [2, 102]
              broker 3 epoch 5 directories [3, 103]
            topic t 1,2,3 2,3,1
              t-0 leader 1 epoch 0.0 isr [1, 2, 3]
              t-1 leader 2 epoch 0.0 isr [2, 3, 1]
            fence 1
              broker 1 epoch 1 fenced directories [1, 101]
              t-0 leader 2 epoch 1.1 isr [2, 3]
              t-1 leader 2 epoch 0.1 isr [2, 3]
            fence 2
              broker 2 epoch 3 fenced directories [2, 102]
              t-0 leader 3 epoch 2.2 isr [3]
              t-1 leader 3 epoch 1.2 isr [3]
            fence 3
              broker 3 epoch 5 fenced directories [3, 103]
              t-0 leader -1 epoch 3.3 isr [3]
              t-1 leader -1 epoch 2.3 isr [3]
            unfence 2
              broker 2 epoch 3 directories [2, 102]
            unfence 3
              broker 3 epoch 5 directories [3, 103]
              t-0 leader 3 epoch 4.4 isr [3]
              t-1 leader 3 epoch 3.4 isr [3]
            unfence 1
              broker 1 epoch 1 directories [1, 101]
        "#]],
    );
}

#[test]
fn replicas_that_leave_a_small_isr_stay_eligible() {
    check(
        "elr
         brokers 1 2 3
         topic t 1,2,3
         config t min.insync.replicas=2
         fence 3
         fence 2
         fence 1
         unfence 2
         unfence 1",
        expect![[r#"
            elr
            brokers 1 2 3
              broker 1 epoch 2 directories [1, 101]
              broker 2 epoch 4 directories [2, 102]
              broker 3 epoch 6 directories [3, 103]
            topic t 1,2,3
              t-0 leader 1 epoch 0.0 isr [1, 2, 3]
            config t min.insync.replicas=2
            fence 3
              broker 3 epoch 6 fenced directories [3, 103]
              t-0 leader 1 epoch 0.1 isr [1, 2]
            fence 2
              broker 2 epoch 4 fenced directories [2, 102]
              t-0 leader 1 epoch 0.2 isr [1] elr [2]
            fence 1
              broker 1 epoch 2 fenced directories [1, 101]
              t-0 leader -1 epoch 1.3 isr [] elr [1, 2] last known [1]
            unfence 2
              broker 2 epoch 4 directories [2, 102]
              t-0 leader 2 epoch 2.4 isr [2] elr [1]
            unfence 1
              broker 1 epoch 2 directories [1, 101]
        "#]],
    );
}

#[test]
fn a_crash_takes_the_eligibility() {
    check(
        "elr
         brokers 1 2 3
         topic t 1,2,3
         config t min.insync.replicas=3
         fence 3
         register 3 crashed
         fence 2
         fence 1
         register 1 crashed
         unfence 1
         unfence 2",
        expect![[r#"
            elr
            brokers 1 2 3
              broker 1 epoch 2 directories [1, 101]
              broker 2 epoch 4 directories [2, 102]
              broker 3 epoch 6 directories [3, 103]
            topic t 1,2,3
              t-0 leader 1 epoch 0.0 isr [1, 2, 3]
            config t min.insync.replicas=3
            fence 3
              broker 3 epoch 6 fenced directories [3, 103]
              t-0 leader 1 epoch 0.1 isr [1, 2] elr [3]
            register 3 crashed
              broker 3 epoch 13 fenced directories [3, 103]
              t-0 leader 1 epoch 0.2 isr [1, 2]
            fence 2
              broker 2 epoch 4 fenced directories [2, 102]
              t-0 leader 1 epoch 0.3 isr [1] elr [2]
            fence 1
              broker 1 epoch 2 fenced directories [1, 101]
              t-0 leader -1 epoch 1.4 isr [] elr [1, 2] last known [1]
            register 1 crashed
              broker 1 epoch 19 fenced directories [1, 101]
              t-0 leader -1 epoch 1.5 isr [] elr [2] last known [1]
            unfence 1
              broker 1 epoch 19 directories [1, 101]
            unfence 2
              broker 2 epoch 4 directories [2, 102]
              t-0 leader 2 epoch 2.6 isr [2]
        "#]],
    );
}

#[test]
fn topics_may_prefer_availability() {
    check(
        "brokers 1 2
         topic t 1,2
         config t unclean.leader.election.enable=true
         fence 2
         unfence 2
         fence 1
         unfence 1",
        expect![[r#"
            brokers 1 2
              broker 1 epoch 1 directories [1, 101]
              broker 2 epoch 3 directories [2, 102]
            topic t 1,2
              t-0 leader 1 epoch 0.0 isr [1, 2]
            config t unclean.leader.election.enable=true
            fence 2
              broker 2 epoch 3 fenced directories [2, 102]
              t-0 leader 1 epoch 0.1 isr [1]
            unfence 2
              broker 2 epoch 3 directories [2, 102]
            fence 1
              broker 1 epoch 1 fenced directories [1, 101]
              t-0 leader 2 epoch 1.2 isr [2] recovering
            unfence 1
              broker 1 epoch 1 directories [1, 101]
        "#]],
    );
}

#[test]
fn unclean_elections_wait_for_the_topic_or_for_a_request() {
    check(
        "brokers 1 2
         topic t 1,2 1,2
         topic u 1
         fence 2
         unfence 2
         fence 1
         elect-unclean
         elect preferred t-0
         elect unclean t-0 u-0
         config t unclean.leader.election.enable=true
         elect-unclean
         elect unclean",
        expect![[r#"
            brokers 1 2
              broker 1 epoch 1 directories [1, 101]
              broker 2 epoch 3 directories [2, 102]
            topic t 1,2 1,2
              t-0 leader 1 epoch 0.0 isr [1, 2]
              t-1 leader 1 epoch 0.0 isr [1, 2]
            topic u 1
              u-0 leader 1 epoch 0.0 isr [1]
            fence 2
              broker 2 epoch 3 fenced directories [2, 102]
              t-0 leader 1 epoch 0.1 isr [1]
              t-1 leader 1 epoch 0.1 isr [1]
            unfence 2
              broker 2 epoch 3 directories [2, 102]
            fence 1
              broker 1 epoch 1 fenced directories [1, 101]
              t-0 leader -1 epoch 1.2 isr [1]
              t-1 leader -1 epoch 1.2 isr [1]
              u-0 leader -1 epoch 1.1 isr [1]
            elect-unclean -> false
            elect preferred t-0
              t-0: PREFERRED_LEADER_NOT_AVAILABLE: The preferred leader was not available.
            elect unclean t-0 u-0
              t-0: ok
              u-0: ELIGIBLE_LEADERS_NOT_AVAILABLE: Eligible topic partition leaders are not available.
              t-0 leader 2 epoch 2.3 isr [2] recovering
            config t unclean.leader.election.enable=true
            elect-unclean -> false
              t-1 leader 2 epoch 2.3 isr [2] recovering
            elect unclean
              u-0: ELIGIBLE_LEADERS_NOT_AVAILABLE: Eligible topic partition leaders are not available.
        "#]],
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "a script is read from top to bottom")]
fn preferred_leaders_are_elected() {
    check(
        "brokers 1 2
         topic t 1,2 2,1 1,2
         elect preferred t-0 t-3 u-0
         fence 1
         unfence 1
         elect preferred
         elect preferred t-0",
        expect![[r#"
            brokers 1 2
              broker 1 epoch 1 directories [1, 101]
              broker 2 epoch 3 directories [2, 102]
            topic t 1,2 2,1 1,2
              t-0 leader 1 epoch 0.0 isr [1, 2]
              t-1 leader 2 epoch 0.0 isr [2, 1]
              t-2 leader 1 epoch 0.0 isr [1, 2]
            elect preferred t-0 t-3 u-0
              t-0: ELECTION_NOT_NEEDED: Leader election not needed for topic partition.
              t-3: UNKNOWN_TOPIC_OR_PARTITION: No such partition as t-3
              u-0: UNKNOWN_TOPIC_OR_PARTITION: No such topic as u
            fence 1
              broker 1 epoch 1 fenced directories [1, 101]
              t-0 leader 2 epoch 1.1 isr [2]
              t-1 leader 2 epoch 0.1 isr [2]
              t-2 leader 2 epoch 1.1 isr [2]
            unfence 1
              broker 1 epoch 1 directories [1, 101]
            elect preferred
              t-0: PREFERRED_LEADER_NOT_AVAILABLE: The preferred leader was not available.
              t-2: PREFERRED_LEADER_NOT_AVAILABLE: The preferred leader was not available.
            elect preferred t-0
              t-0: PREFERRED_LEADER_NOT_AVAILABLE: The preferred leader was not available.
        "#]],
    );
    check(
        "brokers 1 2
         topic t 1,2 1,2 1,2 2,1
         fence 1
         unfence 1
         isr t-0 2,1
         isr t-1 2,1
         isr t-2 2,1
         balance 2
         balance 2",
        expect![[r#"
            brokers 1 2
              broker 1 epoch 1 directories [1, 101]
              broker 2 epoch 3 directories [2, 102]
            topic t 1,2 1,2 1,2 2,1
              t-0 leader 1 epoch 0.0 isr [1, 2]
              t-1 leader 1 epoch 0.0 isr [1, 2]
              t-2 leader 1 epoch 0.0 isr [1, 2]
              t-3 leader 2 epoch 0.0 isr [2, 1]
            fence 1
              broker 1 epoch 1 fenced directories [1, 101]
              t-0 leader 2 epoch 1.1 isr [2]
              t-1 leader 2 epoch 1.1 isr [2]
              t-2 leader 2 epoch 1.1 isr [2]
              t-3 leader 2 epoch 0.1 isr [2]
            unfence 1
              broker 1 epoch 1 directories [1, 101]
            isr t-0 2,1
              t-0 leader 2 epoch 1.2 isr [2, 1]
            isr t-1 2,1
              t-1 leader 2 epoch 1.2 isr [2, 1]
            isr t-2 2,1
              t-2 leader 2 epoch 1.2 isr [2, 1]
            balance 2 -> true
              t-0 leader 1 epoch 2.3 isr [2, 1]
              t-1 leader 1 epoch 2.3 isr [2, 1]
            balance 2 -> false
              t-2 leader 1 epoch 2.3 isr [2, 1]
        "#]],
    );
}
