//! Properties of random scripts. What always holds is checked by the script itself, after every
//! command; here is what becomes of groups in the end.

use super::super::membership::GroupState;
use super::super::{
    GroupConfig, GroupShard, JoinGroup, JoinProtocol, LeaveGroup, LeavingMember, SyncAssignment,
    SyncGroup,
};
use super::script::{Phase, Script};
use crate::Reply;
use model::{ErrorCode, Now};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// Clients of random scripts. The last two are static members.
const CLIENTS: [&str; 5] = ["a", "b", "c", "s", "t"];

fn client() -> impl Strategy<Value = &'static str> {
    select(&CLIENTS[..])
}

fn join() -> impl Strategy<Value = String> {
    let version = select(vec![3, 8, 9]);
    let session_ms = select(vec![6_000, 10_000, 30_000]);
    let rebalance_ms = select(vec![0, 5_000, 20_000, 60_000]);
    let protocols = select(vec!["range", "range", "range,roundrobin", "roundrobin"]);
    let topics = select(vec!["t", "t", "t", "t,u"]);
    let restarts = prop::bool::weighted(0.2);
    let parts = (
        client(),
        version,
        session_ms,
        rebalance_ms,
        protocols,
        topics,
        restarts,
    );
    parts.prop_map(
        |(name, version, session, rebalance, protocols, topics, restarts)| {
            let instance = match name {
                "s" | "t" => format!(" instance=i{name}"),
                _ => String::new(),
            };
            let member = if restarts { " member=-" } else { "" };
            format!(
                "join g {name} version={version} session={session} rebalance={rebalance} \
             protocols={protocols} topics={topics}{instance}{member}"
            )
        },
    )
}

/// The wall clock is set: by a little, by an hour, and by more than offsets are kept.
pub(super) fn set_clock() -> impl Strategy<Value = String> {
    let ms = select(vec![1_500, 60_000, 3_600_000, 691_200_000]);
    (ms, any::<bool>()).prop_map(|(ms, is_back)| match is_back {
        true => format!("clock -{ms}"),
        false => format!("clock {ms}"),
    })
}

fn command() -> impl Strategy<Value = String> {
    let offset = 0..100;
    let producer = 1..3;
    prop_oneof![
        8 => join(),
        6 => client().prop_map(|name| format!("sync g {name} a=A b=B c=C s=S t=T")),
        2 => client().prop_map(|name| format!("heartbeat g {name}")),
        6 => select(vec![0, 1, 500, 3_000, 5_000, 9_999, 10_000, 60_000])
            .prop_map(|ms| format!("tick {ms}")),
        2 => set_clock(),
        1 => (client(), client()).prop_map(|(one, two)| format!("leave g {one} {two}")),
        1 => Just("leave g instance=is".to_owned()),
        2 => (client(), offset.clone())
            .prop_map(|(name, offset)| format!("commit g {name} t-0={offset} u-1={offset}")),
        1 => offset.clone().prop_map(|offset| format!("commit g - v-0={offset}")),
        1 => (client(), producer.clone(), offset).prop_map(|(name, producer, offset)| {
            format!("txn-commit g {name} producer={producer} t-0={offset}")
        }),
        1 => (producer, select(vec!["commit", "abort"]))
            .prop_map(|(producer, end)| format!("end-txn producer={producer} {end}")),
        1 => select(vec![
            "reload",
            "log broken",
            "log sound",
            "describe g",
            "list",
            "fetch g all stable",
            "delete-offsets g t-0 u-1 v-0",
            "delete-topic u",
            "delete-groups g",
            "tick 600000",
            "tick 1200000",
            "config delay=3000 size=2 retention=600000",
        ])
        .prop_map(str::to_owned),
    ]
}

/// Lets every client do what a client does, and a second pass by.
fn run_clients(script: &mut Script) {
    for name in CLIENTS {
        let Some(client) = script.idle_client(name) else {
            continue;
        };
        let instance = match name {
            "s" | "t" => format!(" instance=i{name}"),
            _ => String::new(),
        };
        script.execute(&match client.phase {
            Phase::Join => format!("join g {name} protocols=range,roundrobin{instance}"),
            Phase::Sync => format!("sync g {name} a=A b=B c=C s=S t=T"),
            Phase::Heartbeat => format!("heartbeat g {name}"),
        });
    }
    script.execute("tick 1000");
}

/// Whether the group is stable, its members are the clients, and each has what is its own.
fn is_at_rest(script: &Script) -> bool {
    let Some(group) = script.shard.groups.get("g").map(|group| &group.membership) else {
        return false;
    };
    let has_its_own = |name: &str| {
        script.idle_client(name).is_some_and(|client| {
            group.members.contains_key(&*client.member_id)
                && client.phase == Phase::Heartbeat
                && client.generation_id == group.generation_id
                && client.assignment == name.to_uppercase()
        })
    };
    group.state == GroupState::Stable
        && group.members.len() == CLIENTS.len()
        && CLIENTS.into_iter().all(has_its_own)
}

proptest! {
    #![proptest_config(trials::property(48))]

    #[test]
    fn groups_keep_their_invariants(commands in vec(command(), 1..80)) {
        let mut script = Script::new();
        script.execute("config delay=1000 retention=600000");
        for command in &commands {
            script.execute(command);
        }
    }
}

proptest! {
    #![proptest_config(trials::property(12))]

    #[test]
    fn groups_come_to_rest_when_their_clients_behave(commands in vec(command(), 1..40)) {
        let mut script = Script::new();
        for command in &commands {
            script.execute(command);
        }
        script.execute("config delay=3000");
        script.execute("log sound");
        // By then the session of any client that is forgotten has ended, even that of a new one.
        let mut seconds_left = 420;
        while !is_at_rest(&script) {
            seconds_left -= 1;
            assert!(seconds_left > 0, "the group comes to rest");
            run_clients(&mut script);
        }
        for _ in 0..40 {
            run_clients(&mut script);
            assert!(is_at_rest(&script), "the group stays at rest");
        }
    }
}

/// Quadratic work would show: twenty thousand members join, sync and leave one by one.
#[test]
fn large_groups_cost_little_for_each_member() {
    const MEMBER_COUNT: usize = 20_000;
    let mut shard = GroupShard::new(GroupConfig {
        batch_bytes_max: usize::MAX,
        ..GroupConfig::default()
    });
    shard.start(Now::at_ms(0));
    for index in 0..MEMBER_COUNT {
        let request = JoinGroup {
            group_id: "g",
            member_id: "",
            group_instance_id: None,
            client_id: "client",
            client_host: "/127.0.0.1",
            session_timeout_ms: 10_000,
            rebalance_timeout_ms: 60_000,
            protocol_type: "consumer",
            protocols: vec![JoinProtocol {
                name: "range",
                metadata: &[],
            }],
            requires_known_member_id: false,
            supports_skipping_assignment: true,
            random_uuid: &index.to_string(),
        };
        assert!(matches!(
            shard.join_group(&request, Now::at_ms(0)).reply,
            Reply::Parked(_)
        ));
    }
    assert_eq!(
        shard.expire(Now::at_ms(3_000)).released.len(),
        0,
        "the initial delay goes on"
    );
    assert_eq!(shard.expire(Now::at_ms(6_000)).released.len(), MEMBER_COUNT);
    let members = &shard.groups["g"].membership.members;
    let member_ids: Vec<String> = members.keys().map(ToString::to_string).collect();
    for member_id in member_ids.iter().rev() {
        let request = SyncGroup {
            group_id: "g",
            generation_id: 1,
            member_id,
            group_instance_id: None,
            protocol_type: None,
            protocol_name: None,
            assignments: vec![SyncAssignment {
                member_id,
                assignment: b"all",
            }],
        };
        let _ = shard.sync_group(&request, Now::at_ms(6_000));
    }
    for member_id in &member_ids {
        let members = vec![LeavingMember {
            member_id,
            group_instance_id: None,
        }];
        let request = LeaveGroup {
            group_id: "g",
            members,
        };
        let reply = shard.leave_group(&request, Now::at_ms(7_000)).reply;
        assert_eq!(reply, Reply::Now(Ok(vec![ErrorCode::None])));
    }
    assert!(
        shard.groups.is_empty(),
        "nothing was replayed, so nothing is left"
    );
}
