//! Groups that go over to the other type when a batch of the log does not hold all that this
//! takes, and a broker that stops in the middle of it.

use super::script::{Phase, Script, check};
use crate::Decision;
use expect_test::expect;
use proptest::prelude::*;

/// Members that speak the classic protocol.
const CLASSIC: [&str; 5] = ["v", "w", "x", "y", "z"];
const PARTITION_COUNT: usize = 7;

impl Script {
    /// Notes where the log may end when the broker stops while it carries out a decision.
    pub(super) fn note_crash_points<R>(&mut self, decision: &Decision<R>) {
        let start = self.log.len();
        let mut ends = vec![0];
        while let Some(end) = ends.last().filter(|end| **end < decision.records.len()) {
            ends.push(decision.batch_end(*end, self.config.batch_bytes_max));
        }
        if ends.len() > 1 {
            self.crash_points = ends.into_iter().map(|end| start + end).collect();
        }
    }

    /// The broker stopped after one of the batches of the last decision that wrote any, and starts
    /// again.
    pub(super) fn crash(&mut self, at: usize) {
        let end = self.crash_points[at % self.crash_points.len()];
        self.crash_points = vec![end];
        self.log.truncate(end);
        self.has_crashed = true;
        self.epochs.clear();
        self.reload();
    }

    /// Lets those who live do what clients do, and a second pass by.
    fn run(&mut self, classic: &[&str], has_consumer: bool) {
        let share = |at: usize| {
            let own = (0..PARTITION_COUNT).filter(|index| index % classic.len() == at);
            let own: Vec<String> = own.map(|index| index.to_string()).collect();
            format!(" {}=t:{}", classic[at], own.join(","))
        };
        for name in classic {
            let Some(client) = self.idle_client(name) else {
                continue;
            };
            self.execute(&match client.phase {
                Phase::Join => format!("join g {name} version=3"),
                Phase::Sync => {
                    let shares: Vec<String> = (0..classic.len()).map(share).collect();
                    format!("sync g {name}{}", shares.concat())
                }
                Phase::Heartbeat => format!("heartbeat g {name}"),
            });
        }
        if has_consumer {
            self.execute("beat g a ack");
        }
        self.execute("tick 1000");
    }

    /// Whether exactly those who live are members, and every partition is somebody's.
    fn is_whole(&self, classic: &[&str], has_consumer: bool) -> bool {
        let Some(group) = self.shard.groups.get("g") else {
            return classic.is_empty() && !has_consumer;
        };
        let idle = classic.iter().map(|name| self.idle_client(name));
        let ids: Option<Vec<String>> = idle
            .map(|client| {
                let client = client.filter(|client| client.phase == Phase::Heartbeat)?;
                Some(client.member_id)
            })
            .collect();
        let Some(mut ids) = ids else { return false };
        let Some(consumer) = group.consumer_type() else {
            ids.sort();
            return !has_consumer
                && group.state_name() == if ids.is_empty() { "Empty" } else { "Stable" }
                && group
                    .membership
                    .members
                    .keys()
                    .map(|id| &**id)
                    .eq(ids.iter().map(|id| &**id));
        };
        ids.extend(has_consumer.then(|| "a".to_owned()));
        ids.sort();
        let members = consumer.members().values();
        let owned: usize = members.map(|member| member.assigned.iter().count()).sum();
        let is_owned = owned == if ids.is_empty() { 0 } else { PARTITION_COUNT };
        is_owned
            && ["Stable", "Empty"].contains(&consumer.state_name())
            && consumer
                .members()
                .keys()
                .map(|id| &**id)
                .eq(ids.iter().map(|id| &**id))
    }

    fn come_to_rest(&mut self, classic: &[&str], has_consumer: bool) {
        self.execute("config delay=0 interval=1000");
        // By then the sessions of those who are gone have ended.
        let mut seconds_left = 200;
        while !self.is_whole(classic, has_consumer) {
            seconds_left -= 1;
            assert!(seconds_left > 0, "the group comes to rest:\n{}", self.out);
            self.run(classic, has_consumer);
        }
        for _ in 0..5 {
            self.run(classic, has_consumer);
            assert!(
                self.is_whole(classic, has_consumer),
                "the group stays at rest:\n{}",
                self.out
            );
        }
        self.out.clear();
        self.execute("fetch g t-0 t-1");
        assert_eq!(
            self.out, "fetch g t-0 t-1\n  t-0=10\n  t-1=11\n",
            "offsets stay"
        );
    }
}

/// A stable classic group that has committed offsets.
fn classic_group(member_count: usize) -> Script {
    let mut script = Script::new();
    script.execute("config delay=0 interval=0");
    script.execute(&format!("topics t={PARTITION_COUNT}"));
    let names = &CLASSIC[..member_count];
    let mut rounds_left = 20;
    while !script.is_whole(names, false) {
        rounds_left -= 1;
        assert!(rounds_left > 0, "the group gets stable:\n{}", script.out);
        script.run(names, false);
    }
    script.execute(&format!("commit g {} t-0=10 t-1=11", names[0]));
    script
}

/// Those of the members that a number stands for.
fn living(member_count: usize, mask: usize) -> Vec<&'static str> {
    let names = CLASSIC[..member_count].iter().enumerate();
    let alive = names.filter(|(at, _)| mask & (1 << at) != 0);
    alive.map(|(_, name)| *name).collect()
}

proptest! {
    #![proptest_config(trials::property(8))]

    #[test]
    fn a_log_that_ends_anywhere_in_an_upgrade_has_a_group_that_finds_back(
        member_count in 1..=CLASSIC.len(),
        batch_bytes in prop_oneof![Just(1usize), 100..900usize],
        mask in 0..32usize,
        has_consumer in any::<bool>(),
    ) {
        let alive = living(member_count, mask);
        let mut at = 0;
        loop {
            let mut script = classic_group(member_count);
            script.execute(&format!("config interval=0 batch={batch_bytes}"));
            let before = script.log.len();
            script.execute("beat g a epoch=0");
            prop_assert!(script.crash_points[0] == before && script.log.len() > before);
            if at == script.crash_points.len() {
                break;
            }
            script.execute(&format!("crash at={at}"));
            script.come_to_rest(&alive, has_consumer);
            at += 1;
        }
        prop_assert!(at >= 2);
        prop_assert!(batch_bytes > 1 || at > 3 * member_count, "each record is a batch");
    }

    #[test]
    fn a_downgrade_is_in_the_log_as_a_whole_or_does_not_happen(
        member_count in 1..=CLASSIC.len(),
        batch_bytes in 100..2_000usize,
        mask in 0..32usize,
        leaves in any::<bool>(),
        crash_at in 0..20usize,
    ) {
        let mut script = classic_group(member_count);
        script.execute("beat g a epoch=0");
        let mut rounds_left = 20;
        while !script.is_whole(&CLASSIC[..member_count], true) {
            rounds_left -= 1;
            prop_assert!(rounds_left > 0);
            script.run(&CLASSIC[..member_count], true);
        }
        script.execute(&format!("config interval=0 batch={batch_bytes} consumer-session=5000"));
        if leaves {
            script.execute("beat g a epoch=-1");
        } else {
            for name in &CLASSIC[..member_count] {
                script.execute(&format!("heartbeat g {name}"));
            }
            script.execute("beat g a ack");
            script.execute("tick 5000");
        }
        let group = &script.shard.groups["g"];
        prop_assert_eq!(group.is_classic(), group.consumer.is_none());
        if group.is_classic() {
            prop_assert_eq!(script.crash_points.len(), 2, "one batch");
        } else {
            prop_assert!(group.consumer.as_ref().is_some_and(|group| group.member("a").is_none()));
        }
        if crash_at < 10 {
            script.execute(&format!("crash at={crash_at}"));
        }
        let alive = living(member_count, mask);
        script.come_to_rest(&alive, false);
    }
}

#[test]
fn a_large_group_goes_over_with_its_epochs_first() {
    check(&expect![[r#"
        config delay=0 interval=0
        topics t=4
        join g x version=3
          parked
          record: g generation=0 /- leader=- at=0
          g PreparingRebalance 0
        tick 0
          x: joined x-1 generation=1 consumer/range leader=x-1 members: x-1[t]
          g CompletingRebalance 1
        sync g x x=t:0,1,2,3
          synced consumer/range t:0,1,2,3
          record: g generation=1 consumer/range leader=x-1 at=0 x-1=t:0,1,2,3
          g Stable 1
        config interval=0 batch=300
        beat g a epoch=0
          a epoch=3 -
          record: g gone
          record: g epoch=2
          record: g assignment epoch=2
          record: g member x-1 [t] classic
          record: g target x-1 t:0,1,2,3
          record: g current x-1 epoch=1 stable t:0,1,2,3
          record: g member a [t]
          record: g epoch=3
          record: g target a t:2,3
          record: g target x-1 t:0,1
          record: g assignment epoch=3
          record: g current a epoch=3 unreleased -
          g gone
        heartbeat g x
          REBALANCE_IN_PROGRESS
    "#]]);
}

#[test]
fn a_large_group_stays_a_consumer_group_that_its_members_are_served_in() {
    check(&expect![[r#"
        config delay=0 interval=0
        topics t=2
        beat g a epoch=0
          a epoch=2 t:0,1
          record: g member a [t]
          record: g epoch=2
          record: g target a t:0,1
          record: g assignment epoch=2
          record: g current a epoch=2 stable t:0,1
        join g x version=3
          joined 1 generation=3 consumer/range leader=
          record: g member 1 [t] classic
          record: g epoch=3
          record: g target 1 t:1
          record: g target a t:0
          record: g assignment epoch=3
          record: g current 1 epoch=3 unreleased -
        join g y version=3
          joined 2 generation=4 consumer/range leader=
          record: g member 2 [t] classic
          record: g epoch=4
          record: g assignment epoch=4
          record: g current 2 epoch=4 stable -
        beat g a ack
          a epoch=2 t:0
          record: g current a epoch=2 unrevoked t:0 without t:1
        config interval=0 batch=300
        beat g a epoch=-1
          a epoch=-1
          record: g current a gone
          record: g target a gone
          record: g member a gone
          record: g epoch=5
        list
          g consumer Assigning consumer
        heartbeat g x
          REBALANCE_IN_PROGRESS
        join g x
          joined 1 generation=5 consumer/range leader=
          record: g target 2 t:0
          record: g assignment epoch=5
          record: g current 1 epoch=5 stable t:1
        sync g x
          synced -/- t:1
        heartbeat g y
          REBALANCE_IN_PROGRESS
        join g y
          joined 2 generation=5 consumer/range leader=
          record: g current 2 epoch=5 stable t:0
        sync g y
          synced -/- t:0
        heartbeat g x
          NONE
        heartbeat g y
          NONE
    "#]]);
}

#[test]
fn the_generation_of_a_static_member_that_ends_a_consumer_group_is_its_epoch() {
    check(&expect![[r#"
        config delay=0 interval=0
        topics t=2
        beat g a epoch=0 instance=i
          a epoch=2 t:0,1
          record: g member a [t] instance=i
          record: g epoch=2
          record: g target a t:0,1
          record: g assignment epoch=2
          record: g current a epoch=2 stable t:0,1
        join g x version=3
          joined 1 generation=3 consumer/range leader=
          record: g member 1 [t] classic
          record: g epoch=3
          record: g target 1 t:1
          record: g target a t:0
          record: g assignment epoch=3
          record: g current 1 epoch=3 unreleased -
        beat g a ack instance=i
          a epoch=2 t:0
          record: g current a epoch=2 unrevoked t:0 without t:1
        beat g a epoch=-2 instance=i
          a epoch=-2
          record: g current a epoch=-2 unrevoked t:0
        heartbeat g x
          REBALANCE_IN_PROGRESS
        join g x
          joined 1 generation=3 consumer/range leader=
          record: g current 1 epoch=3 stable t:1
        sync g x
          synced -/- t:1
        join g z instance=i version=3
          joined 2 generation=3 consumer/range leader=
          record: g current 1 gone
          record: g current a gone
          record: g target 1 gone
          record: g target a gone
          record: g assignment gone
          record: g member 1 gone
          record: g member a gone
          record: g epoch gone
          record: g generation=3 consumer/range leader=1 at=0 1=t:1 2=t:0
          g Stable 3
        sync g z
          synced consumer/range t:0
        heartbeat g x
          NONE
    "#]]);
}

#[test]
fn the_generation_is_none_where_the_assignment_is_out_of_date() {
    check(&expect![[r#"
        config delay=0 interval=0
        topics t=2 u=1
        beat g a epoch=0 instance=i
          a epoch=2 t:0,1
          record: g member a [t] instance=i
          record: g epoch=2
          record: g target a t:0,1
          record: g assignment epoch=2
          record: g current a epoch=2 stable t:0,1
        beat g a epoch=-2 instance=i
          a epoch=-2
          record: g current a epoch=-2 stable t:0,1
        join g z instance=i topics=u version=3
          joined 1 generation=0 consumer/range leader=
          record: g current a gone
          record: g target a gone
          record: g assignment gone
          record: g member a gone
          record: g epoch gone
          record: g generation=2 consumer/range leader=1 at=0 1=t:0,1
          g PreparingRebalance 2
        sync g z
          ILLEGAL_GENERATION
        join g z topics=u
          joined 1 generation=3 consumer/range leader=1 members: 1(i)[u]
          g CompletingRebalance 3
    "#]]);
}
