//! Samples of the user data of a group's members, in every version.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use interpreter::Random;
use riverrun_streams::formats::group::{
    AssignedPartition, AssignmentError, HostPartitions, LATEST_OFFSET, LATEST_VERSION,
    MemberAssignment, MemberSubscription, StandbyTask, TaskId, UNKNOWN_OFFSET_SUM,
};

use super::super::sample::{Sample, list, sorted, string, text, text_of};

/// What Kafka Streams has for the latest version of those that did not say it.
const UNKNOWN: i32 = -1;

fn task(random: &mut Random) -> TaskId {
    TaskId {
        subtopology: random.below(3) as i32,
        partition: random.below(4) as i32,
    }
}

pub(super) fn subscription(random: &mut Random) -> Sample {
    let version = 1 + random.below(LATEST_VERSION as usize) as i32;
    let mut process_id = [0; 16];
    process_id.copy_from_slice(&random.bytes(16));
    let offset_sum = |random: &mut Random| match random.below(3) {
        0 => LATEST_OFFSET,
        1 => UNKNOWN_OFFSET_SUM,
        // Older versions do not say it.
        _ if version < 7 => UNKNOWN_OFFSET_SUM,
        _ => random.below(1 << 40) as i64,
    };
    let sums = (0..random.below(5)).map(|_| (task(random), offset_sum(random)));
    let tags = |random: &mut Random| match version {
        11.. => (0..random.below(3))
            .map(|_| (string(random), string(random)))
            .collect(),
        _ => BTreeMap::new(),
    };
    let subscription = MemberSubscription {
        version,
        latest_supported_version: LATEST_VERSION,
        process_id,
        task_offset_sums: sums.collect(),
        user_endpoint: if version < 2 {
            String::new()
        } else {
            string(random)
        },
        unique_field: random.bits() as i8,
        error_code: if version < 9 {
            0
        } else {
            4 * random.below(2) as i32
        },
        client_tags: tags(random),
    };
    let [head, tail] = text_of_subscription(&subscription);
    Sample {
        fields: format!(
            "{version} {LATEST_VERSION} {head} {} {tail}",
            subscription.unique_field
        ),
        shown: shown(&subscription, LATEST_VERSION),
        bytes: subscription.to_bytes(),
    }
}

pub(super) fn read_subscription(bytes: &[u8]) -> Result<String> {
    let subscription = MemberSubscription::read(bytes)?;
    let subscription = subscription.known().context("the version is known")?;
    Ok(shown(&subscription, subscription.latest_supported_version))
}

fn shown(subscription: &MemberSubscription, latest_supported_version: i32) -> String {
    let [head, tail] = text_of_subscription(subscription);
    let version = subscription.version;
    let latest = match version {
        ..3 => UNKNOWN,
        _ => latest_supported_version,
    };
    format!("{version} {latest} {head} {tail}")
}

/// What stands before the unique field, and behind it.
fn text_of_subscription(subscription: &MemberSubscription) -> [String; 2] {
    let id = text(Some(&subscription.process_id));
    let endpoint = text_of(&subscription.user_endpoint);
    let sums = subscription.task_offset_sums.iter();
    let sums = sorted(sums.map(|(task, sum)| format!("{}:{sum}", text_of_task(*task))));
    let tags = subscription.client_tags.iter();
    let tags = sorted(tags.map(|(key, value)| format!("{}:{}", text_of(key), text_of(value))));
    [
        format!("{id} {endpoint} {sums}"),
        format!("{} {tags}", subscription.error_code),
    ]
}

fn text_of_task(task: TaskId) -> String {
    format!("{}:{}", task.subtopology, task.partition)
}

const TOPICS: [&str; 3] = ["orders", "payments", "a"];
const HOSTS: [&str; 2] = ["host-a", "b"];

fn partitions(random: &mut Random) -> Vec<AssignedPartition<'static>> {
    let count = 1 + random.below(3);
    let topic = *random.choice(&TOPICS);
    // Each once, as a set has them.
    let partitions = (0..count).map(|partition| AssignedPartition {
        topic,
        partition: partition as i32,
    });
    partitions.collect()
}

fn hosts(random: &mut Random, is_there: bool) -> Vec<HostPartitions<'static>> {
    let count = if is_there { random.below(3) } else { 0 };
    let hosts = HOSTS[..count].iter().map(|host| HostPartitions {
        host,
        port: random.below(1 << 16) as i32,
        partitions: partitions(random),
    });
    hosts.collect()
}

pub(super) fn assignment(random: &mut Random) -> Sample {
    let version = 1 + random.below(LATEST_VERSION as usize) as i32;
    let standby_tasks = match random.chance(1, 3) {
        true => Vec::new(),
        false => vec![StandbyTask {
            task: task(random),
            partitions: partitions(random),
        }],
    };
    let assignment = MemberAssignment {
        version,
        commonly_supported_version: LATEST_VERSION,
        active_tasks: (0..random.below(4)).map(|_| task(random)).collect(),
        standby_tasks,
        active_hosts: hosts(random, version >= 2),
        standby_hosts: hosts(random, version >= 6),
        error: match version {
            ..4 => AssignmentError::None,
            _ => *random.choice(&[AssignmentError::None, AssignmentError::ShutdownRequested]),
        },
        next_rebalance_ms: match version {
            7.. if random.chance(1, 2) => Some(random.below(1 << 40) as i64),
            _ => None,
        },
    };
    Sample {
        fields: text_of_assignment(&assignment, LATEST_VERSION),
        shown: text_of_assignment(
            &assignment,
            if version < 3 { UNKNOWN } else { LATEST_VERSION },
        ),
        bytes: assignment.to_bytes(),
    }
}

pub(super) fn read_assignment(bytes: &[u8]) -> Result<String> {
    let assignment = MemberAssignment::read(bytes)?;
    let assignment = assignment.known().context("the version is known")?;
    let common = match assignment.version {
        ..3 => UNKNOWN,
        _ => assignment.commonly_supported_version,
    };
    Ok(text_of_assignment(&assignment, common))
}

fn text_of_assignment(assignment: &MemberAssignment<'_>, common: i32) -> String {
    let active = assignment
        .active_tasks
        .iter()
        .map(|task| text_of_task(*task));
    let standby = assignment.standby_tasks.iter().flat_map(|standby| {
        let task = text_of_task(standby.task);
        let partitions = standby.partitions.iter();
        partitions.map(move |partition| format!("{task}:{}", text_of_partition(partition)))
    });
    [
        assignment.version.to_string(),
        common.to_string(),
        list(active),
        sorted(standby),
        text_of_hosts(&assignment.active_hosts),
        text_of_hosts(&assignment.standby_hosts),
        (assignment.error as i32).to_string(),
        assignment.next_rebalance_ms.unwrap_or(i64::MAX).to_string(),
    ]
    .join(" ")
}

fn text_of_hosts(hosts: &[HostPartitions<'_>]) -> String {
    sorted(hosts.iter().flat_map(|host| {
        let address = format!("{}:{}", text_of(host.host), host.port);
        let partitions = host.partitions.iter();
        partitions.map(move |partition| format!("{address}:{}", text_of_partition(partition)))
    }))
}

fn text_of_partition(partition: &AssignedPartition<'_>) -> String {
    format!("{}:{}", text_of(partition.topic), partition.partition)
}
