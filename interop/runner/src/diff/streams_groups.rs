//! Streams groups (KIP-1071): a member with a topology, and requests that do not fit it.

use interpreter::Value;
use wire::ApiKey;

use super::body::body;
use super::session::{Session, Stop, integer};
use super::topics::{Topic, create};

const MEMBER: &str = "streams-member";

/// What a member says when it joins.
fn join(group: &str, topic: &Topic, source: &str) -> Value {
    body!({
        GroupId: group,
        MemberId: MEMBER,
        MemberEpoch: 0,
        RebalanceTimeoutMs: 30_000,
        Topology: {
            Epoch: 0,
            Subtopologies: [{
                SubtopologyId: "0",
                SourceTopics: [source],
                StateChangelogTopics: [{
                    Name: (format!("{}-changelog", topic.name)),
                    Partitions: 0,
                    ReplicationFactor: 1,
                    TopicConfigs: [{ Key: "cleanup.policy", Value: "compact" }],
                }],
            }],
        },
        ActiveTasks: [],
        StandbyTasks: [],
        WarmupTasks: [],
        ProcessId: "process",
        ClientTags: [],
        TaskOffsets: [],
        TaskEndOffsets: [],
    })
}

fn beat(group: &str, member: &str, epoch: i64) -> Value {
    body!({ GroupId: group, MemberId: member, MemberEpoch: epoch })
}

/// A member joins, says what is wrong, and leaves.
pub(super) fn sequence(session: &mut Session<'_>) -> Result<(), Stop> {
    let topic = create(session, 2, &[])?;
    let group = session.new_name("streams");
    // A source that does not exist keeps the group from being ready, which makes no topics.
    let join = join(&group, &topic, "no-such-topic");
    let answer = session.call(ApiKey::StreamsGroupHeartbeat, &join)?;
    let epoch = integer(&answer, "MemberEpoch");
    for _ in 0..4 {
        let odd = [
            beat(&group, MEMBER, epoch),
            beat(&group, MEMBER, epoch + 4),
            beat(&group, "stranger", 3),
            beat("no-such-group", MEMBER, 3),
            beat("", MEMBER, 3),
            beat(&group, MEMBER, -2),
            join.clone(),
        ];
        let odd = session.random.choice(&odd).clone();
        session.call(ApiKey::StreamsGroupHeartbeat, &odd)?;
        let describe = body!({ GroupIds: [(&group), "no-such-group"] });
        session.call(ApiKey::StreamsGroupDescribe, &describe)?;
    }
    let leave = beat(&group, MEMBER, -1);
    session.call(ApiKey::StreamsGroupHeartbeat, &leave)?;
    session.call(
        ApiKey::StreamsGroupDescribe,
        &body!({ GroupIds: [(&group)] }),
    )?;
    session.call(ApiKey::DeleteGroups, &body!({ GroupsNames: [(&group)] }))?;
    Ok(())
}
