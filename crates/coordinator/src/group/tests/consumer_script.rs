//! Commands of scripts about consumer groups. A topic is a letter, and the letter is its id.
//!
//! `topics t=3` tells the shard of the cluster's topics; `beat g a` is a heartbeat of the member
//! `a`, which joins with `epoch=0`. The member remembers what it was told; with `ack` it says that
//! this is what it has.

use super::super::consumer::ConsumerRecord;
use super::super::{ConsumerGroupConfig, ConsumerGroupHeartbeat, MigrationPolicy, TopicRegex};
use super::script::Script;
use super::words::Words;
use metadata::{MetadataImage, MetadataRecord};
use model::{Offset, Uuid};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

/// The type of the records that say what a member has told.
const TOLD: [u8; 2] = [0, 5];

/// A member as it knows itself.
#[derive(Debug, Default, Clone)]
pub(super) struct Consumer {
    pub(super) epoch: i32,
    /// What it was told to have, and has once it says so.
    pub(super) assignment: Vec<(Uuid, Vec<i32>)>,
    pub(super) has_acknowledged: bool,
    pub(super) instance_id: Option<String>,
}

pub(super) fn topic_id(name: &str) -> Uuid {
    Uuid::from_u128(name.bytes().fold(0, |id, byte| id << 8 | u128::from(byte)))
}

fn topic_name(id: Uuid) -> String {
    let bytes = id.to_bytes();
    let name = bytes.into_iter().skip_while(|byte| *byte == 0);
    name.map(char::from).collect()
}

/// `t:0,1 u:0`
pub(super) fn partitions_text(topics: &[(Uuid, Vec<i32>)]) -> String {
    let topics = topics.iter().map(|(id, indexes)| {
        let indexes: Vec<String> = indexes.iter().map(ToString::to_string).collect();
        format!("{}:{}", topic_name(*id), indexes.join(","))
    });
    let topics: Vec<String> = topics.collect();
    if topics.is_empty() {
        "-".to_owned()
    } else {
        topics.join(" ")
    }
}

fn parse_partitions(text: &str) -> Vec<(Uuid, Vec<i32>)> {
    let topics = text.split(';').filter_map(|topic| topic.split_once(':'));
    topics
        .map(|(name, indexes)| {
            let indexes = indexes
                .split(',')
                .map(|index| index.parse().expect("an index"));
            (topic_id(name), indexes.collect())
        })
        .collect()
}

impl Script {
    pub(super) fn configure_consumers(&mut self, words: &Words<'_>) -> ConsumerGroupConfig {
        let default = ConsumerGroupConfig::default();
        let mut times = default.times;
        times.assignment_interval_ms = words.number("interval", 0);
        times.session_timeout_ms = words.number("consumer-session", times.session_timeout_ms);
        ConsumerGroupConfig {
            times,
            size_max: words.number("consumers", default.size_max),
            migration_policy: match words.value("migration") {
                Some("disabled") => MigrationPolicy::Disabled,
                Some("upgrade") => MigrationPolicy::Upgrade,
                Some("downgrade") => MigrationPolicy::Downgrade,
                _ => MigrationPolicy::Bidirectional,
            },
            ..default
        }
    }

    /// The cluster has these topics and no others; an id may follow the name, which stands for it
    /// otherwise.
    pub(super) fn set_topics(&mut self, words: &Words<'_>) {
        let mut image = MetadataImage::default();
        for (name, count) in &words.pairs {
            let (name, id) = match name.split_once(':') {
                Some((name, id)) => (name, Uuid::from_u128(id.parse().expect("an id"))),
                None => (*name, topic_id(name)),
            };
            let topic = MetadataRecord::Topic {
                name: name.to_owned(),
                topic_id: id,
            };
            image.replay(&topic).expect("a new topic");
            for index in 0..count.parse().expect("a number of partitions") {
                let partition = MetadataRecord::Partition {
                    topic_id: id,
                    partition_id: index,
                    partition: metadata::Partition::default(),
                };
                image.replay(&partition).expect("a new partition");
            }
        }
        self.image_count += 1;
        image.provenance.last_offset = Offset(self.image_count);
        self.image = Arc::new(image);
        self.shard.set_metadata(Arc::clone(&self.image));
    }

    /// A heartbeat of a member of a consumer group.
    #[expect(clippy::too_many_lines, reason = "a script is read from top to bottom")]
    pub(super) fn beat(&mut self, group_id: &str, name: &str, words: &Words<'_>) {
        let mut known = self.consumers.get(name).cloned().unwrap_or_default();
        let epoch = words.number("epoch", known.epoch);
        if let Some(instance_id) = words.value("instance") {
            known.instance_id = Some(instance_id.to_owned());
        }
        let joins = epoch == 0;
        let topics = words
            .value("topics")
            .or(if joins && words.value("regex").is_none() {
                Some("t")
            } else {
                None
            });
        let owned = match words.value("owned") {
            Some(text) => Some(parse_partitions(text)),
            None if joins => Some(Vec::new()),
            None => words.flag("ack").then(|| known.assignment.clone()),
        };
        known.has_acknowledged |= words.flag("ack");
        let request = ConsumerGroupHeartbeat {
            group_id,
            member_id: words.value("member").unwrap_or(name),
            member_epoch: epoch,
            instance_id: known.instance_id.as_deref(),
            rack_id: words.value("rack"),
            rebalance_timeout_ms: words.number("rebalance", if joins { 30_000 } else { -1 }),
            subscribed_topic_names: topics.map(|topics| {
                topics
                    .split(',')
                    .filter(|topic| !topic.is_empty())
                    .collect()
            }),
            subscribed_topic_regex: words.value("regex").map(TopicRegex::read),
            server_assignor: words.value("assignor"),
            owned_partitions: owned,
            client_id: name,
            client_host: "/host",
            requires_member_id: words.number("version", 1) >= 1,
            random_member_id: "random",
        };
        let now = self.now;
        let is_plain = request.member_epoch > 0
            && request.subscribed_topic_names.is_none()
            && request.subscribed_topic_regex.is_none();
        let is_settled = is_plain
            && self
                .shard
                .is_settled(request.group_id, request.member_id, now);
        let decision = self.shard.consumer_group_heartbeat(&request, now);
        if is_settled {
            let mut records = decision.records.iter();
            let soft = &self.shard.groups[request.group_id].soft;
            assert!(
                records.all(|record| record.key.starts_with(&TOLD)) && !soft.is_resolving(),
                "nothing is computed of a group that is settled:\n{}",
                self.out
            );
        }
        let is_lost = self.is_broken && !decision.records.is_empty();
        let mut text = String::new();
        if let crate::Reply::Now(reply) = &decision.reply {
            match reply {
                Ok(response) => {
                    known.epoch = response.member_epoch;
                    text = format!("{} epoch={}", response.member_id, response.member_epoch);
                    if let Some(assignment) = &response.assignment {
                        write!(text, " {}", partitions_text(assignment)).expect("a string");
                        known.has_acknowledged =
                            *assignment == known.assignment && known.has_acknowledged;
                        known.assignment.clone_from(assignment);
                    }
                    if response.member_epoch < 0 {
                        known.assignment.clear();
                    }
                }
                Err(refusal) => {
                    text = refusal.error.name().to_owned();
                    if words.flag("why") {
                        write!(text, ": {}", refusal.message).expect("a string");
                    }
                    // What a client does that is told that it does not belong.
                    known.epoch = 0;
                    known.assignment.clear();
                }
            }
        }
        if !is_lost {
            self.consumers.insert(name.to_owned(), known);
            self.line(&text);
        }
        self.apply(decision, |_| None);
    }

    pub(super) fn describe_consumers(&mut self, group_id: &str) {
        let group = match self.shard.describe_consumer_group(group_id) {
            Ok(group) => group,
            Err(message) => return self.line(&message),
        };
        self.line(&format!(
            "{} epoch={} assignment={} {}",
            group.state, group.group_epoch, group.assignment_epoch, group.assignor
        ));
        for member in group.members {
            let text = |topics: &[(Uuid, Arc<str>, Vec<i32>)]| {
                let topics = topics.iter().map(|(id, _, indexes)| (*id, indexes.clone()));
                partitions_text(&topics.collect::<Vec<_>>())
            };
            self.line(&format!(
                "{} epoch={} {:?} {}{} -> {}",
                member.member_id,
                member.member_epoch,
                member.subscribed_topic_names,
                text(&member.assignment),
                if member.uses_classic_protocol {
                    " classic"
                } else {
                    ""
                },
                text(&member.target_assignment),
            ));
        }
    }
}

/// A record of a consumer group.
#[expect(clippy::too_many_lines, reason = "a script is read from top to bottom")]
pub(super) fn consumer_record_text(group_id: &str, record: &ConsumerRecord<'_>) -> String {
    let gone = |what: &str| format!("{what} gone");
    let text = match record {
        ConsumerRecord::Epoch(Some(value)) => format!("epoch={}", value.epoch),
        ConsumerRecord::Epoch(None) => gone("epoch"),
        ConsumerRecord::PartitionMetadata(true) => "partitions".to_owned(),
        ConsumerRecord::PartitionMetadata(false) => gone("partitions"),
        ConsumerRecord::Member(id, Some(value)) => {
            let topics: Vec<&str> = value.subscribed_topic_names.iter().collect();
            let mut text = format!("member {id} [{}]", topics.join(","));
            for (label, value) in [
                (
                    "regex",
                    value
                        .subscribed_topic_regex
                        .filter(|regex| !regex.is_empty()),
                ),
                ("instance", value.instance_id),
                ("rack", value.rack_id),
                ("assignor", value.server_assignor),
            ] {
                if let Some(value) = value {
                    write!(text, " {label}={value}").expect("a string");
                }
            }
            if value.classic_member_metadata.is_some() {
                text.push_str(" classic");
            }
            text
        }
        ConsumerRecord::Member(id, None) => gone(&format!("member {id}")),
        ConsumerRecord::AssignmentEpoch(Some(value)) => {
            format!("assignment epoch={}", value.assignment_epoch)
        }
        ConsumerRecord::AssignmentEpoch(None) => gone("assignment"),
        ConsumerRecord::Target(id, Some(value)) => {
            let topics = value.topic_partitions.iter();
            let topics = topics.map(|topic| (topic.topic_id, topic.partitions.iter().collect()));
            format!(
                "target {id} {}",
                partitions_text(&topics.collect::<Vec<_>>())
            )
        }
        ConsumerRecord::Target(id, None) => gone(&format!("target {id}")),
        ConsumerRecord::Current(id, Some(value)) => {
            let topics = |topics: &model::Array<
                '_,
                crate::messages::consumer_group_current_member_assignment_value::TopicPartitions<
                    '_,
                >,
            >| {
                let topics = topics.iter();
                let topics =
                    topics.map(|topic| (topic.topic_id, topic.partitions.iter().collect()));
                partitions_text(&topics.collect::<Vec<_>>())
            };
            let state = ["stable", "unrevoked", "unreleased"];
            let state = usize::try_from(value.state)
                .ok()
                .and_then(|at| state.get(at));
            let mut text = format!(
                "current {id} epoch={} {} {}",
                value.member_epoch,
                state.unwrap_or(&"unknown"),
                topics(&value.assigned_partitions)
            );
            if !value.partitions_pending_revocation.is_empty() {
                let pending = topics(&value.partitions_pending_revocation);
                write!(text, " without {pending}").expect("a string");
            }
            text
        }
        ConsumerRecord::Current(id, None) => gone(&format!("current {id}")),
        ConsumerRecord::Regex(regex, Some(value)) => {
            let topics: Vec<&str> = value.topics.iter().collect();
            format!("regex {regex} [{}]", topics.join(","))
        }
        ConsumerRecord::Regex(regex, None) => gone(&format!("regex {regex}")),
    };
    format!("record: {group_id} {text}")
}

/// The members that scripts know, by name.
pub(super) type Consumers = BTreeMap<String, Consumer>;
