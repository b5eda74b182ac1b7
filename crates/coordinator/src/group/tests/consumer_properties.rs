//! Properties of random scripts about consumer groups: invariants after every command, and rest
//! when everybody behaves.

use super::consumer_script::topic_id;
use super::properties::set_clock;
use super::script::Script;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use std::collections::BTreeSet;

/// Members of random scripts; the last one is static.
const MEMBERS: [&str; 4] = ["a", "b", "c", "s"];

fn member() -> impl Strategy<Value = &'static str> {
    select(&MEMBERS[..])
}

fn instance(name: &str) -> &'static str {
    if name == "s" { " instance=is" } else { "" }
}

fn command() -> impl Strategy<Value = String> {
    let topics = select(vec![
        "topics=t",
        "topics=t",
        "topics=t,u",
        "topics=u",
        "regex=[tu]",
        "topics= regex=t.*",
    ]);
    let assignor = select(vec!["", "", " assignor=range", " assignor=uniform"]);
    prop_oneof![
        6 => (member(), topics.clone(), assignor)
            .prop_map(|(name, topics, assignor)| format!("beat g {name} epoch=0 {topics}{assignor}{}", instance(name))),
        8 => member().prop_map(|name| format!("beat g {name}{}", instance(name))),
        8 => member().prop_map(|name| format!("beat g {name} ack{}", instance(name))),
        2 => (member(), topics).prop_map(|(name, topics)| format!("beat g {name} {topics}{}", instance(name))),
        1 => member().prop_map(|name| format!("beat g {name} epoch=-1{}", instance(name))),
        1 => Just("beat g s epoch=-2 instance=is".to_owned()),
        1 => Just("beat g s2 epoch=0 instance=is".to_owned()),
        2 => member().prop_map(|name| format!("beat g {name} epoch=3{}", instance(name))),
        3 => select(vec![0, 1, 500, 5_000, 10_001, 30_000, 45_000])
            .prop_map(|ms| format!("tick {ms}")),
        2 => set_clock(),
        2 => select(vec!["topics t=4", "topics t=4 u=2", "topics t=6 u=3", "topics u=1", "topics t=1 u=1 tt=2"])
            .prop_map(str::to_owned),
        2 => (member(), 0..100).prop_map(|(name, offset)| format!("commit g {name} topic-id=name t-0={offset}")),
        2 => select(vec!["x", "y"]).prop_map(|name| format!("join g {name} topics=t,u")),
        2 => select(vec!["x", "y"]).prop_map(|name| format!("sync g {name}")),
        2 => select(vec!["x", "y"]).prop_map(|name| format!("heartbeat g {name}")),
        1 => select(vec!["x", "y"]).prop_map(|name| format!("leave g {name}")),
        1 => Just("join g z instance=is topics=t".to_owned()),
        1 => select(vec![
            "reload",
            "log broken",
            "log sound",
            "consumers g",
            "delete-groups g",
            "delete-offsets g t-0",
            "config interval=1000",
            "config interval=0 consumers=2",
            "config interval=0 migration=disabled",
            "config interval=0",
            "config interval=0 batch=500",
        ])
        .prop_map(str::to_owned),
        2 => select(vec!["regexes later", "regexes now", "resolve", "resolve", "give-up"])
            .prop_map(str::to_owned),
        1 => (0..40).prop_map(|at| format!("crash at={at}")),
    ]
}

/// Whether every member has what it is to have, and all partitions of what is subscribed to are
/// with somebody.
fn is_at_rest(script: &Script) -> bool {
    let Some(group) = script
        .shard
        .groups
        .get("g")
        .and_then(|group| group.consumer_type())
    else {
        return false;
    };
    let mut partitions = BTreeSet::new();
    for member in group.members().values() {
        partitions.extend(member.assigned.iter().map(|(id, index, _)| (id, index)));
    }
    let expected: BTreeSet<_> = [("t", 6), ("u", 3)]
        .into_iter()
        .flat_map(|(name, count)| (0..count).map(move |index| (topic_id(name), index)))
        .collect();
    group.state_name() == "Stable"
        && group.members().len() == MEMBERS.len()
        && partitions == expected
}

/// Whether members that subscribe to the same topics have equally many partitions.
fn is_balanced(script: &Script) -> bool {
    let group = script.shard.groups["g"]
        .consumer_type()
        .expect("a consumer group");
    let counts = group
        .members()
        .values()
        .map(|member| member.assigned.iter().count());
    let counts: Vec<usize> = counts.collect();
    counts.iter().max() <= counts.iter().min().map(|min| min + 1).as_ref()
}

proptest! {
    #![proptest_config(trials::property(64))]

    #[test]
    fn consumer_groups_keep_their_invariants(commands in vec(command(), 1..80)) {
        let mut script = Script::new();
        script.execute("config interval=0");
        script.execute("topics t=4");
        for command in &commands {
            script.execute(command);
        }
    }
}

proptest! {
    #![proptest_config(trials::property(16))]

    #[test]
    fn consumer_groups_come_to_rest_when_their_members_behave(commands in vec(command(), 1..50)) {
        let mut script = Script::new();
        script.execute("topics t=4");
        for command in &commands {
            script.execute(command);
        }
        script.execute("config interval=1000");
        script.execute("log sound");
        script.execute("regexes now");
        script.execute("resolve");
        script.execute("topics t=6 u=3");
        // By then whoever is not among the members is forgotten.
        script.execute("leave g x y");
        for _ in 0..14 {
            script.execute("tick 30000");
        }
        for name in MEMBERS {
            script.execute(&format!("beat g {name} epoch=0 topics=t,u regex= assignor=uniform{}", instance(name)));
        }
        let mut rounds_left = 60;
        while !is_at_rest(&script) {
            rounds_left -= 1;
            assert!(rounds_left > 0, "the group comes to rest:\n{}", script.out);
            for name in MEMBERS {
                script.execute(&format!("beat g {name} ack{}", instance(name)));
            }
            script.execute("tick 1000");
        }
        assert!(is_balanced(&script));
        let before = script.shard.groups["g"].consumer.clone();
        for name in MEMBERS {
            script.execute(&format!("beat g {name} ack{}", instance(name)));
        }
        assert_eq!(&before, &script.shard.groups["g"].consumer, "the group stays at rest");
    }
}
