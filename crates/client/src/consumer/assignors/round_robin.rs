//! `roundrobin`: the partitions of all topics in order, each to the next member that subscribes.

use super::problem::{PartitionIndex, Problem};

pub(super) fn assign(problem: &Problem<'_>) -> Vec<Vec<PartitionIndex>> {
    let mut lists = vec![Vec::new(); problem.members.len()];
    let mut circle = problem.serving_order().into_iter().cycle();
    for topic in 0..problem.topics.len() {
        for partition in problem.topics[topic].partitions.clone() {
            // Somebody subscribes: a topic that nobody wants is not part of the problem.
            let member = circle.find(|member| problem.subscribes(*member, topic));
            lists[member.expect("the circle never ends")].push(partition);
        }
    }
    lists
}
