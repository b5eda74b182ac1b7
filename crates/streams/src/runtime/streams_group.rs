//! A thread as a member of a streams group (KIP-1071): what it tells of the topology, and what it makes of what the
//! coordinator says.

use super::StreamsConfig;
use super::metadata::Hosts;
use super::news::News;
use super::news::Told;
use super::thread_setup::ThreadSetup;
use super::topics::ApplicationTopics;
use crate::error::StreamsError;
use crate::formats::group::{AssignedPartition, AssignmentError, HostPartitions};
use crate::processor::TaskId;
use parking_lot::Mutex;
use riverrun_client::TopicPartition;
use riverrun_client::consumer::{
    CopartitionGroup, StreamsEndpoint, StreamsListener, StreamsMember, StreamsStatus,
    StreamsStatusCode, StreamsSubtopology, StreamsTasks, StreamsTopic, StreamsTopology, TaskSet,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// What a thread of the process tells the coordinator.
pub(super) fn member(
    setup: &ThreadSetup,
    news: mpsc::UnboundedSender<News>,
    status: Arc<GroupStatus>,
) -> StreamsMember {
    StreamsMember {
        topology: topology(&setup.topics, &setup.config),
        process_id: setup.process_id.to_string(),
        user_endpoint: setup
            .config
            .application_server
            .as_ref()
            .map(|server| (server.host.clone(), server.port)),
        client_tags: setup.config.client_tags.clone(),
        listener: Arc::new(Listener {
            news,
            status,
            hosts: Arc::clone(&setup.hosts),
        }),
    }
}

/// The topology in the coordinator's terms. Every member must tell the same, those on Kafka Streams too, so everything
/// has the order and the fields that Kafka Streams gives it.
fn topology(topics: &ApplicationTopics, config: &StreamsConfig) -> StreamsTopology {
    let mut subtopologies: Vec<StreamsSubtopology> = topics
        .inputs
        .iter()
        .map(|(number, inputs)| subtopology(topics, config, *number, inputs))
        .collect();
    subtopologies.sort_by(|one, other| one.id.cmp(&other.id));
    StreamsTopology {
        epoch: 0,
        subtopologies,
    }
}

fn subtopology(
    topics: &ApplicationTopics,
    config: &StreamsConfig,
    number: i32,
    inputs: &BTreeSet<String>,
) -> StreamsSubtopology {
    let source_topics: Vec<String> = inputs
        .iter()
        .filter(|topic| !topics.is_repartition(topic))
        .cloned()
        .collect();
    let repartition_source_topics: Vec<StreamsTopic> = inputs
        .iter()
        .filter_map(|topic| {
            let (partitions, configs) = topics.repartitions.get(topic)?;
            let configs = configs.iter().chain(&config.overrides.topic);
            Some(internal(topic, partitions.unwrap_or(0), configs, config))
        })
        .collect();
    let changelogs = topics.changelogs.get(&number).into_iter().flatten();
    let of_inputs = topics.input_changelogs.get(&number).into_iter().flatten();
    let mut state_changelog_topics: Vec<StreamsTopic> = changelogs
        .chain(of_inputs)
        .map(|(topic, configs)| internal(topic, 0, configs.iter(), config))
        .collect();
    state_changelog_topics.sort_by(|one, other| one.name.cmp(&other.name));
    let outputs = topics.outputs.get(&number).into_iter().flatten();
    let is_own = |group: &&BTreeSet<String>| group.iter().all(|topic| inputs.contains(topic));
    let copartition_groups = topics
        .copartitioned
        .iter()
        .filter(is_own)
        .map(|group| CopartitionGroup {
            source_topics: places(source_topics.iter(), group),
            source_topic_patterns: Vec::new(),
            repartition_source_topics: places(
                repartition_source_topics.iter().map(|topic| &topic.name),
                group,
            ),
        })
        .collect();
    StreamsSubtopology {
        id: number.to_string(),
        source_topics,
        source_topic_patterns: Vec::new(),
        state_changelog_topics,
        sink_topics: outputs
            .filter(|topic| topics.is_repartition(topic))
            .cloned()
            .collect(),
        repartition_source_topics,
        copartition_groups,
    }
}

fn internal<'a>(
    name: &str,
    partition_count: i32,
    configs: impl Iterator<Item = (&'a String, &'a String)>,
    config: &StreamsConfig,
) -> StreamsTopic {
    StreamsTopic {
        name: name.to_owned(),
        partition_count,
        replication_factor: config.replication_factor.unwrap_or(-1),
        configs: configs
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
    }
}

/// Where in `names` those of a group stand.
fn places<'a>(names: impl Iterator<Item = &'a String>, group: &BTreeSet<String>) -> Vec<i16> {
    let in_group = names.enumerate().filter(|(_, name)| group.contains(*name));
    in_group
        .filter_map(|(place, _)| i16::try_from(place).ok())
        .collect()
}

/// Hands over what the coordinator says while the thread polls.
struct Listener {
    news: mpsc::UnboundedSender<News>,
    status: Arc<GroupStatus>,
    hosts: Arc<Hosts>,
}

impl StreamsListener for Listener {
    fn assigned(&self, tasks: &StreamsTasks) {
        let told = told(tasks);
        // Who listens no more ends.
        let _ = self.news.send(News::Told(told));
    }

    fn statuses(&self, statuses: &[StreamsStatus], heartbeat_interval: Duration) {
        self.status
            .hear(statuses, heartbeat_interval, Instant::now());
    }

    fn endpoints(&self, endpoints: &[StreamsEndpoint]) {
        let of = |partitions: fn(&StreamsEndpoint) -> &[TopicPartition]| {
            let hosts = endpoints.iter().map(|endpoint| HostPartitions {
                host: &endpoint.host,
                port: i32::from(endpoint.port),
                partitions: partitions(endpoint).iter().map(told_partition).collect(),
            });
            hosts.collect::<Vec<_>>()
        };
        let (active, standby) = (of(|one| &one.active), of(|one| &one.standby));
        self.hosts.hear(&active, &standby);
    }
}

fn told_partition(partition: &TopicPartition) -> AssignedPartition<'_> {
    AssignedPartition {
        topic: &partition.topic,
        partition: partition.partition,
    }
}

fn told(tasks: &StreamsTasks) -> Told {
    let mut unknown = None;
    let mut ids = |tasks: &TaskSet| {
        let mut ids = BTreeSet::new();
        for (id, partitions) in tasks {
            // A number has one way to be written, or two names would be of one task.
            let number: Option<i32> = id.parse().ok();
            let Some(subtopology) = number.filter(|number| number.to_string() == *id) else {
                let partition = partitions.first().copied().unwrap_or_default();
                unknown.get_or_insert_with(|| format!("{id}_{partition}"));
                continue;
            };
            ids.extend(partitions.iter().map(|partition| TaskId {
                subtopology,
                partition: *partition,
            }));
        }
        ids
    };
    let (active, mut standby) = (ids(&tasks.active), ids(&tasks.standby));
    // Which of those that follow are to process later, the coordinator knows.
    standby.extend(ids(&tasks.warmup));
    Told {
        active,
        standby,
        unknown,
        error: AssignmentError::None,
        next_rebalance_ms: None,
    }
}

/// How the group of a thread stands. In a group of the classic protocol nothing is ever wrong.
#[derive(Debug, Default)]
pub(super) struct GroupStatus(Mutex<Standing>);

#[derive(Debug, Default)]
struct Standing {
    /// The coordinator's words on what keeps tasks from processing.
    not_ready: Option<String>,
    missing: Option<Missing>,
    /// Topics that do not go together.
    wrong: Option<String>,
    shuts_down: bool,
}

/// Source topics that are missing.
#[derive(Debug)]
struct Missing {
    since: Instant,
    /// How long they may be: the coordinator may have looked before they came.
    limit: Duration,
    detail: String,
}

/// What a thread does about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Goes on.
    Process,
    /// Keeps its tasks, and processes nothing.
    Wait,
    /// Ends: a member has asked for the end of all.
    ShutDown,
}

impl GroupStatus {
    fn hear(&self, statuses: &[StreamsStatus], heartbeat_interval: Duration, now: Instant) {
        let mut standing = self.0.lock();
        let missing_since = standing.missing.take().map_or(now, |missing| missing.since);
        *standing = Standing::default();
        for StreamsStatus { code, detail } in statuses {
            match code {
                StreamsStatusCode::MissingSourceTopics => {
                    standing.not_ready = Some(detail.clone());
                    standing.missing = Some(Missing {
                        since: missing_since,
                        limit: heartbeat_interval.saturating_mul(2),
                        detail: detail.clone(),
                    });
                }
                StreamsStatusCode::IncorrectlyPartitionedTopics => {
                    standing.wrong = Some(detail.clone());
                }
                StreamsStatusCode::MissingInternalTopics | StreamsStatusCode::AssignmentDelayed => {
                    standing.not_ready = Some(detail.clone());
                }
                StreamsStatusCode::ShutdownApplication => standing.shuts_down = true,
                StreamsStatusCode::StaleTopology | StreamsStatusCode::Other(_) => {
                    tracing::info!(
                        ?code,
                        detail,
                        "the coordinator tells the state of the group"
                    );
                }
            }
        }
        if let Some(detail) = &standing.not_ready {
            tracing::info!(detail, "the group is not ready");
        }
    }

    /// What the thread does at `now`.
    ///
    /// # Errors
    /// The topics do not let the application run.
    pub(super) fn verdict(&self, now: Instant) -> Result<Verdict, StreamsError> {
        let standing = self.0.lock();
        if standing.shuts_down {
            return Ok(Verdict::ShutDown);
        }
        if let Some(detail) = &standing.wrong {
            return Err(StreamsError::Other(format!(
                "topics do not have the partitions that the application needs: {detail}"
            )));
        }
        match &standing.missing {
            Some(missing) if now.duration_since(missing.since) >= missing.limit => {
                return Err(StreamsError::Other(format!(
                    "an input topic is missing; create it, and start the application again: {}",
                    missing.detail
                )));
            }
            _ => {}
        }
        Ok(match standing.not_ready {
            Some(_) => Verdict::Wait,
            None => Verdict::Process,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dsl::{Materialized, StreamsBuilder};
    use expect_test::{Expect, expect};

    /// Tells statuses at seconds, of a coordinator that wants to hear of members once in `heartbeat_s`, and shows what
    /// is done about each.
    fn check(heartbeat_s: u64, script: &[(u64, &[StreamsStatusCode])], expected: Expect) {
        let start = Instant::now();
        let status = GroupStatus::default();
        let mut out = String::new();
        for (at_s, codes) in script {
            let now = start + Duration::from_secs(*at_s);
            let statuses: Vec<StreamsStatus> = codes
                .iter()
                .map(|code| StreamsStatus {
                    code: *code,
                    detail: "in detail".to_owned(),
                })
                .collect();
            status.hear(&statuses, Duration::from_secs(heartbeat_s), now);
            let told = match status.verdict(now) {
                Ok(verdict) => format!("{verdict:?}"),
                Err(error) => error.to_string(),
            };
            out.push_str(&format!("{at_s} s {codes:?}: {told}\n"));
        }
        expected.assert_eq(&out);
    }

    #[test]
    fn each_status_has_its_consequence() {
        use StreamsStatusCode::*;
        check(
            60,
            &[
                (0, &[MissingSourceTopics]),
                (119, &[MissingSourceTopics]),
                (120, &[MissingSourceTopics]),
            ],
            expect![[r#"
                0 s [MissingSourceTopics]: Wait
                119 s [MissingSourceTopics]: Wait
                120 s [MissingSourceTopics]: an input topic is missing; create it, and start the application again: in detail
            "#]],
        );
        check(
            5,
            &[
                (0, &[]),
                (1, &[StaleTopology]),
                (2, &[MissingInternalTopics]),
                (3, &[AssignmentDelayed, Other(9)]),
                (4, &[MissingSourceTopics]),
                (5, &[]),
                (6, &[MissingSourceTopics]),
                (15, &[MissingSourceTopics]),
                (16, &[MissingSourceTopics]),
                (17, &[IncorrectlyPartitionedTopics]),
                (18, &[MissingInternalTopics, ShutdownApplication]),
            ],
            expect![[r#"
                0 s []: Process
                1 s [StaleTopology]: Process
                2 s [MissingInternalTopics]: Wait
                3 s [AssignmentDelayed, Other(9)]: Wait
                4 s [MissingSourceTopics]: Wait
                5 s []: Process
                6 s [MissingSourceTopics]: Wait
                15 s [MissingSourceTopics]: Wait
                16 s [MissingSourceTopics]: an input topic is missing; create it, and start the application again: in detail
                17 s [IncorrectlyPartitionedTopics]: topics do not have the partitions that the application needs: in detail
                18 s [MissingInternalTopics, ShutdownApplication]: ShutDown
            "#]],
        );
    }

    #[test]
    fn a_task_has_one_name() {
        let check = |id: &str, expected: Option<&str>| {
            let tasks = StreamsTasks {
                standby: TaskSet::from([(id.to_owned(), BTreeSet::from([3]))]),
                ..StreamsTasks::default()
            };
            let told = told(&tasks);
            assert_eq!(told.unknown.as_deref(), expected);
            assert_eq!(told.standby.is_empty(), expected.is_some());
        };
        check("0", None);
        check("12", None);
        check("-7", None);
        for id in ["00", "+0", "one", "", " 1"] {
            check(id, Some(&format!("{id}_3")));
        }
    }

    /// The topics of a list, a line each.
    fn lines(kind: &str, topics: &[StreamsTopic]) -> String {
        let line = |topic: &StreamsTopic| {
            let configs = topic.configs.iter();
            let configs: String = configs
                .map(|(key, value)| format!(" {key}={value}"))
                .collect();
            let (count, replicas) = (topic.partition_count, topic.replication_factor);
            format!("  {kind} {}: {count} {replicas}{configs}\n", topic.name)
        };
        topics.iter().map(line).collect()
    }

    #[test]
    fn the_topology_is_told_as_kafka_streams_tells_it() -> Result<(), Box<dyn std::error::Error>> {
        let builder = StreamsBuilder::new();
        builder
            .stream::<Option<String>, String>("lines")
            .group_by(|_, word| word.clone())
            .count_with(Materialized::named("word-counts"))
            .to_stream()
            .to("counts");
        let config = StreamsConfig::new("app", "localhost:9092")?;
        let topics = ApplicationTopics::of(&builder.build()?, &config)?;
        let told = topology(&topics, &config);
        let mut out = format!("epoch {}\n", told.epoch);
        for part in &told.subtopologies {
            let (id, reads, writes) = (&part.id, &part.source_topics, &part.sink_topics);
            out.push_str(&format!("{id} reads {reads:?} writes {writes:?}\n"));
            out.push_str(&lines("reads", &part.repartition_source_topics));
            out.push_str(&lines("keeps", &part.state_changelog_topics));
        }
        expect![[r#"
            epoch 0
            0 reads ["lines"] writes ["app-word-counts-repartition"]
            1 reads [] writes []
              reads app-word-counts-repartition: 0 -1 cleanup.policy=delete message.timestamp.type=CreateTime retention.ms=-1 segment.bytes=52428800
              keeps app-word-counts-changelog: 0 -1 cleanup.policy=compact message.timestamp.type=CreateTime
        "#]]
        .assert_eq(&out);
        Ok(())
    }
}
