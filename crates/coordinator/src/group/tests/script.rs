//! A script of requests, run against a shard as a broker would.
//!
//! A line that begins at the margin is a command; the lines below it, further in, are what it led
//! to. So one text is both the script and what is expected of it. Names of clients stand for their
//! member ids; `tick` lets time pass. After every command the shard's invariants are checked, and
//! that a shard loaded from the log would stand where this one stands.

use super::super::group::Group;
use super::super::group_record::GroupRecord;
use super::super::{
    DeletedTopic, GroupConfig, GroupShard, Heartbeat, JoinGroup, JoinGroupResponse, JoinProtocol,
    LeaveGroup, LeavingMember, ListGroups, OffsetCommit, OffsetCommitPartition, OffsetCommitTopic,
    OffsetDelete, OffsetDeleteTopic, OffsetFetch, OffsetFetchTopic, PartitionErrors, RecordOrigin,
    RegexResolution, SyncAssignment, SyncGroup, SyncGroupResponse, TxnOffsetCommit,
};
use super::consumer_script::{Consumers, topic_id};
use super::text::{assignment, join_text, metadata_text, record_text, subscription, sync_text};
use super::words::Words;
use crate::{CoordinatorRecord, Decision, GroupResponse, Reply, Token};
use metadata::MetadataImage;
use model::{ErrorCode, LeaderEpoch, MonotonicTime, Now, Offset, ProducerId, Uuid};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;

/// Runs the commands among the lines of `expected` and compares what they lead to.
pub(super) fn check(expected: &expect_test::Expect) {
    let text = expected.data();
    let lines = || text.lines().filter(|line| !line.trim().is_empty());
    let indent = |line: &str| line.len() - line.trim_start().len();
    let margin = lines().map(indent).min().unwrap_or_default();
    let commands: Vec<&str> = lines().filter(|line| indent(line) == margin).collect();
    expected.assert_eq(&run(commands.iter().map(|line| line.trim())));
}

/// What the commands lead to, each line below its command.
pub(super) fn run<'a>(commands: impl Iterator<Item = &'a str>) -> String {
    let mut script = Script::new();
    for command in commands {
        script.execute(command);
    }
    script.out
}

/// A client as it knows itself.
#[derive(Debug, Default, Clone)]
pub(super) struct Client {
    pub(super) member_id: String,
    pub(super) generation_id: i32,
    pub(super) phase: Phase,
    pub(super) assignment: String,
    group_instance_id: Option<String>,
}

/// What a client would do next.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    #[default]
    Join,
    Sync,
    Heartbeat,
}

/// A request that waits.
#[derive(Debug)]
pub(super) struct Parked {
    client: String,
}

/// A record as the log holds it; without a key, the end of a transaction.
#[derive(Debug)]
pub(super) enum Logged {
    Record(RecordOrigin, CoordinatorRecord),
    TransactionEnd(i64, bool),
}

pub(super) struct Script {
    pub(super) shard: GroupShard,
    pub(super) out: String,
    pub(super) config: GroupConfig,
    pub(super) now: Now,
    pub(super) consumers: Consumers,
    /// The cluster's metadata, and how often they have changed.
    pub(super) image: Arc<MetadataImage>,
    pub(super) image_count: i64,
    pub(super) log: Vec<Logged>,
    /// Lengths that the log had, batch by batch, since the last decision.
    pub(super) crash_points: Vec<usize>,
    /// Whether the log has ended in the middle of a decision.
    pub(super) has_crashed: bool,
    clients: BTreeMap<String, Client>,
    pub(super) parked: BTreeMap<Token, Parked>,
    member_count: usize,
    shown_states: BTreeMap<Arc<str>, (String, i32)>,
    pub(super) generations: BTreeMap<Arc<str>, i32>,
    pub(super) epochs: BTreeMap<Arc<str>, i32>,
    /// Whether the log takes no records.
    pub(super) is_broken: bool,
    /// Classic groups whose last record was not taken.
    pub(super) unsaved: BTreeSet<String>,
    /// Regular expressions that are being resolved, and whether that takes until a command says so.
    resolutions: Vec<RegexResolution>,
    resolves_later: bool,
}

impl Script {
    pub(super) fn new() -> Self {
        let config = GroupConfig::default();
        let mut shard = GroupShard::new(config.clone());
        shard.start(Now::at_ms(0));
        Self {
            shard,
            out: String::new(),
            config,
            now: Now::at_ms(0),
            consumers: Consumers::new(),
            image: Arc::default(),
            image_count: 0,
            log: Vec::new(),
            crash_points: vec![0],
            has_crashed: false,
            clients: BTreeMap::new(),
            parked: BTreeMap::new(),
            member_count: 0,
            shown_states: BTreeMap::new(),
            generations: BTreeMap::new(),
            epochs: BTreeMap::new(),
            is_broken: false,
            unsaved: BTreeSet::new(),
            resolutions: Vec::new(),
            resolves_later: false,
        }
    }

    /// Runs one command, writes what it led to, and checks what must always hold.
    pub(super) fn execute(&mut self, command: &str) {
        writeln!(self.out, "{command}").expect("a string");
        let words = Words::of(command);
        let group_id = words.plain.get(1).copied().unwrap_or_default();
        let group_id = group_id.trim_matches('"');
        let client = words.plain.get(2).copied().unwrap_or_default();
        match words.plain[0] {
            "config" => self.configure(&words),
            "tick" => self.tick(group_id.parse().expect("milliseconds")),
            // The wall clock is set.
            "clock" => self.now.wall_ms += group_id.parse::<i64>().expect("milliseconds"),
            "log" => self.is_broken = words.flag("broken"),
            "reload" => self.reload(),
            "crash" => self.crash(words.number("at", 0)),
            "join" => self.join(group_id, client, &words),
            "sync" => self.sync(group_id, client, &words),
            "heartbeat" => self.heartbeat(group_id, client, &words),
            "leave" => self.leave(group_id, &words),
            "commit" => self.commit(group_id, client, &words),
            "txn-commit" => self.commit_transactional(group_id, client, &words),
            "end-txn" => self.end_transaction(&words),
            "fetch" => self.fetch(group_id, &words),
            "delete-offsets" => self.delete_offsets(group_id, &words),
            "delete-groups" => self.delete_groups(&words.plain[1..]),
            "delete-topic" => self.delete_topic(group_id, &words),
            "append" => self.append_raw(group_id, &words),
            "topics" => self.set_topics(&words),
            "regexes" => self.resolves_later = words.flag("later"),
            "resolve" => self.resolve(),
            "give-up" => self.resolutions.clear(),
            "abandoned" => {
                let all = self.resolutions.iter();
                let abandoned = all.filter(|one| !one.is_wanted()).count();
                assert_eq!(Ok(abandoned), group_id.parse(), "nobody waits for so many");
            }
            "beat" => self.beat(group_id, client, &words),
            "consumers" => self.describe_consumers(group_id),
            "list" => self.list(&words),
            "describe" => self.describe(group_id),
            other => panic!("no command `{other}`"),
        }
        self.show_states();
        self.check_invariants();
    }

    pub(super) fn line(&mut self, text: &str) {
        writeln!(self.out, "  {text}").expect("a string");
    }

    fn configure(&mut self, words: &Words<'_>) {
        let consumer = self.configure_consumers(words);
        let config = &mut self.config;
        config.initial_rebalance_delay_ms = words.number("delay", 3_000);
        config.group_size_max = words.number("size", usize::MAX);
        config.offsets_retention_ms = words.number("retention", 604_800_000);
        config.offset_metadata_length_max = words.number("metadata", 4_096);
        config.consumer = consumer;
        config.batch_bytes_max = words.number("batch", 1_048_588);
        self.shard.set_config(self.config.clone());
    }

    fn tick(&mut self, ms: i64) {
        let until = self.now.monotonic.plus_ms(ms);
        let next = |shard: &GroupShard| shard.next_deadline().filter(|at| *at <= until);
        while let Some(at) = next(&self.shard) {
            self.wait_until(at.max(self.now.monotonic));
            let decision = self.shard.expire(self.now);
            self.apply(decision, |()| None);
            self.resolutions.extend(self.shard.take_resolutions());
            if !self.resolves_later {
                self.resolve();
            }
            self.show_states();
        }
        self.wait_until(until);
    }

    /// Resolves regular expressions with the topics that there were when it began.
    fn resolve(&mut self) {
        for mut resolution in std::mem::take(&mut self.resolutions) {
            while resolution.step() {}
            let decision = self.shard.regexes_resolved(resolution, self.now);
            self.apply(decision, |()| None);
        }
    }

    fn wait_until(&mut self, at: MonotonicTime) {
        self.now.wall_ms += at.ms_since(self.now.monotonic);
        self.now.monotonic = at;
    }

    pub(super) fn reload(&mut self) {
        let shard = std::mem::replace(&mut self.shard, GroupShard::new(self.config.clone()));
        let released = shard.unload();
        self.answer(released);
        assert!(self.parked.is_empty(), "unloading answers all");
        self.generations.clear();
        self.unsaved.clear();
        self.shard = self.loaded();
        self.shard.set_metadata(Arc::clone(&self.image));
        self.shard.start(self.now);
    }

    /// A shard that has replayed the log and not started.
    pub(super) fn loaded(&self) -> GroupShard {
        let mut shard = GroupShard::new(self.config.clone());
        for logged in &self.log {
            match logged {
                Logged::Record(origin, record) => shard
                    .replay(*origin, &record.key, record.value.as_deref())
                    .expect("a sound record"),
                Logged::TransactionEnd(producer_id, is_commit) => {
                    shard.replay_transaction_end(ProducerId(*producer_id), *is_commit);
                }
            }
        }
        shard
    }

    fn join(&mut self, group_id: &str, name: &str, words: &Words<'_>) {
        let known = self.clients.get(name).cloned().unwrap_or_default();
        let member_id = words.value("member").unwrap_or(&known.member_id);
        let member_id = if member_id == "-" { "" } else { member_id };
        if member_id.is_empty() {
            self.member_count += 1;
        }
        let instance_id = words
            .value("instance")
            .or(known.group_instance_id.as_deref());
        let topics: Vec<&str> = words.value("topics").unwrap_or("t").split(',').collect();
        let metadata = match words.value("metadata") {
            Some(text) => text.as_bytes().to_vec(),
            None => subscription(&topics),
        };
        let protocols = words.value("protocols").unwrap_or("range").split(',');
        let version: i16 = words.number("version", 9);
        let request = JoinGroup {
            group_id,
            member_id,
            group_instance_id: instance_id,
            client_id: name,
            client_host: "/host",
            session_timeout_ms: words.number("session", 10_000),
            rebalance_timeout_ms: words.number("rebalance", 60_000),
            protocol_type: words.value("type").unwrap_or("consumer"),
            protocols: protocols
                .filter(|name| !name.is_empty())
                .map(|name| JoinProtocol {
                    name,
                    metadata: &metadata,
                })
                .collect(),
            requires_known_member_id: version >= 4,
            supports_skipping_assignment: version >= 9,
            random_uuid: &self.member_count.to_string(),
        };
        let decision = self.shard.join_group(&request, self.now);
        let instance_id = instance_id.map(str::to_owned);
        let client = self.clients.entry(name.to_owned()).or_default();
        client.group_instance_id = instance_id;
        if let Reply::Parked(token) = decision.reply {
            self.park(token, name);
        }
        let name = name.to_owned();
        self.apply(decision, |response| Some(Answer::Join(name, response)));
    }

    fn sync(&mut self, group_id: &str, name: &str, words: &Words<'_>) {
        let client = self.clients.get(name).cloned().unwrap_or_default();
        let assignments: Vec<(String, Vec<u8>)> = words
            .pairs
            .iter()
            .filter(|(key, _)| !["generation", "protocol", "type", "member"].contains(key))
            .map(|(key, value)| match self.clients.get(*key) {
                Some(client) => (client.member_id.clone(), assignment(value)),
                None => ((*key).to_owned(), assignment(value)),
            })
            .collect();
        let request = SyncGroup {
            group_id,
            generation_id: words.number("generation", client.generation_id),
            member_id: words.value("member").unwrap_or(&client.member_id),
            group_instance_id: client.group_instance_id.as_deref(),
            protocol_type: words.value("type"),
            protocol_name: words.value("protocol"),
            assignments: assignments
                .iter()
                .map(|(member_id, assignment)| SyncAssignment {
                    member_id,
                    assignment,
                })
                .collect(),
        };
        let decision = self.shard.sync_group(&request, self.now);
        if let Reply::Parked(token) = decision.reply {
            self.park(token, name);
        }
        let name = name.to_owned();
        self.apply(decision, |response| Some(Answer::Sync(name, response)));
    }

    fn heartbeat(&mut self, group_id: &str, name: &str, words: &Words<'_>) {
        let client = self.clients.get(name).cloned().unwrap_or_default();
        let request = Heartbeat {
            group_id,
            generation_id: words.number("generation", client.generation_id),
            member_id: words.value("member").unwrap_or(&client.member_id),
            group_instance_id: client.group_instance_id.as_deref(),
        };
        let error = self.shard.heartbeat(&request, self.now).err();
        let error = error.unwrap_or(ErrorCode::None);
        self.learn(name, error);
        self.line(error.name());
    }

    fn leave(&mut self, group_id: &str, words: &Words<'_>) {
        let clients: Vec<Client> = words
            .plain
            .iter()
            .skip(2)
            .map(|name| self.clients.get(*name).cloned().unwrap_or_default())
            .collect();
        let mut members: Vec<LeavingMember<'_>> = clients
            .iter()
            .map(|client| LeavingMember {
                member_id: &client.member_id,
                group_instance_id: client.group_instance_id.as_deref(),
            })
            .collect();
        if members.is_empty() {
            members.push(LeavingMember {
                member_id: words.value("member").unwrap_or_default(),
                group_instance_id: words.value("instance"),
            });
        }
        let decision = self
            .shard
            .leave_group(&LeaveGroup { group_id, members }, self.now);
        self.apply(decision, |reply| Some(Answer::Errors(reply)));
    }

    fn commit(&mut self, group_id: &str, name: &str, words: &Words<'_>) {
        let values = words.partition_values();
        let client = self.committer(name);
        let request = OffsetCommit {
            group_id,
            generation_id: words.number("generation", client.generation_id),
            member_id: &client.member_id,
            group_instance_id: client.group_instance_id.as_deref(),
            retention_time_ms: words.number("retention", -1),
            reports_group_id_not_found: words.number("version", 9) >= 9,
            topics: offsets_to_commit(&values, words),
        };
        let decision = self.shard.commit_offsets(&request, self.now);
        self.apply(decision, |reply| Some(Answer::Partitions(reply)));
    }

    fn commit_transactional(&mut self, group_id: &str, name: &str, words: &Words<'_>) {
        let values = words.partition_values();
        let client = self.committer(name);
        let request = TxnOffsetCommit {
            group_id,
            generation_id: words.number("generation", client.generation_id),
            member_id: &client.member_id,
            group_instance_id: client.group_instance_id.as_deref(),
            topics: offsets_to_commit(&values, words),
        };
        let decision = self.shard.commit_transactional_offsets(&request, self.now);
        let producer_id = words.number("producer", 1);
        self.apply_from(decision, ProducerId(producer_id), |reply| {
            Some(Answer::Partitions(reply))
        });
    }

    /// The client with this name; a consumer without a group if there is none.
    fn committer(&self, name: &str) -> Client {
        if let Some(consumer) = self.consumers.get(name) {
            return Client {
                member_id: name.to_owned(),
                generation_id: consumer.epoch,
                group_instance_id: consumer.instance_id.clone(),
                ..Client::default()
            };
        }
        self.clients.get(name).cloned().unwrap_or(Client {
            generation_id: -1,
            ..Client::default()
        })
    }

    fn end_transaction(&mut self, words: &Words<'_>) {
        let producer_id = words.number("producer", 1);
        let is_commit = words.flag("commit");
        self.log
            .push(Logged::TransactionEnd(producer_id, is_commit));
        self.shard
            .replay_transaction_end(ProducerId(producer_id), is_commit);
    }

    fn fetch(&mut self, group_id: &str, words: &Words<'_>) {
        let topic_id = Uuid::from_u128(words.number("topic-id", 0));
        let topics = words
            .partitions()
            .into_iter()
            .map(|(name, partition)| OffsetFetchTopic {
                name,
                topic_id,
                partitions: vec![partition],
            });
        let request = OffsetFetch {
            group_id,
            member_id: words.value("member"),
            member_epoch: words.number("epoch", -1),
            require_stable: words.flag("stable"),
            topics: (!words.flag("all")).then(|| topics.collect()),
        };
        match self.shard.fetch_offsets(&request) {
            Ok(topics) => {
                for topic in topics {
                    for fetched in topic.partitions {
                        let mut text =
                            format!("{}-{}={}", topic.name, fetched.index, fetched.offset);
                        if fetched.leader_epoch != LeaderEpoch::NONE {
                            write!(text, " epoch={}", fetched.leader_epoch).expect("a string");
                        }
                        if !fetched.metadata.is_empty() {
                            write!(text, " metadata={}", fetched.metadata).expect("a string");
                        }
                        if fetched.error != ErrorCode::None {
                            write!(text, " {}", fetched.error.name()).expect("a string");
                        }
                        self.line(&text);
                    }
                }
            }
            Err(error) => self.line(error.name()),
        }
    }

    fn delete_offsets(&mut self, group_id: &str, words: &Words<'_>) {
        let topics = words
            .partitions()
            .into_iter()
            .map(|(name, partition)| OffsetDeleteTopic {
                name,
                partitions: vec![partition],
            })
            .collect();
        let decision = self
            .shard
            .delete_offsets(&OffsetDelete { group_id, topics });
        self.apply(decision, |reply| Some(Answer::Partitions(reply)));
    }

    fn delete_groups(&mut self, group_ids: &[&str]) {
        let decision = self.shard.delete_groups(group_ids, self.now);
        self.apply(decision, |errors| Some(Answer::Errors(Ok(errors))));
    }

    fn delete_topic(&mut self, name: &str, words: &Words<'_>) {
        let topic_id = Uuid::from_u128(words.number("topic-id", 0));
        let decision = self
            .shard
            .delete_topic_offsets(&[DeletedTopic { name, topic_id }]);
        self.apply(decision, |()| None);
    }

    /// Puts a record into the log that another broker wrote: of a type and with the strings of
    /// its key.
    fn append_raw(&mut self, key_type: &str, words: &Words<'_>) {
        let key_type: i16 = key_type.parse().expect("the type of a key");
        let mut key = key_type.to_be_bytes().to_vec();
        for text in words
            .plain
            .iter()
            .skip(2)
            .filter(|word| **word != "tombstone")
        {
            model::Writer::string(Some(text), false, &mut key);
        }
        let value = (!words.flag("tombstone")).then(|| vec![0, 0]);
        self.append(vec![CoordinatorRecord { key, value }], ProducerId::NONE);
    }

    fn list(&mut self, words: &Words<'_>) {
        let filter = |key| words.value(key).into_iter().flat_map(|v| v.split(','));
        let request = ListGroups::new(filter("states"), filter("types"));
        for group in self.shard.list_groups(&request) {
            let protocol_type = match &*group.protocol_type {
                "" => "-",
                protocol_type => protocol_type,
            };
            self.line(&format!(
                "{} {} {} {protocol_type}",
                group.group_id, group.group_type, group.state
            ));
        }
    }

    fn describe(&mut self, group_id: &str) {
        match self.shard.describe_group(group_id) {
            Ok(group) => {
                self.line(&format!(
                    "{} {}/{}",
                    group.state, group.protocol_type, group.protocol
                ));
                for member in group.members {
                    let instance_id = member.group_instance_id.as_deref().unwrap_or("-");
                    self.line(&format!(
                        "{} {instance_id} {}{} {} -> {}",
                        member.member_id,
                        member.client_id,
                        member.client_host,
                        metadata_text(&member.metadata),
                        String::from_utf8_lossy(&member.assignment)
                    ));
                }
            }
            Err(message) => self.line(&message),
        }
    }

    fn park(&mut self, token: Token, client: &str) {
        let parked = Parked {
            client: client.to_owned(),
        };
        let before = self.parked.insert(token, parked);
        assert!(before.is_none(), "a token is given once");
    }

    pub(super) fn apply<R>(
        &mut self,
        decision: Decision<R>,
        answer: impl FnOnce(R) -> Option<Answer>,
    ) {
        self.apply_from(decision, ProducerId::NONE, answer);
    }

    /// What a broker does with a decision.
    fn apply_from<R>(
        &mut self,
        decision: Decision<R>,
        producer_id: ProducerId,
        answer: impl FnOnce(R) -> Option<Answer>,
    ) {
        if self.is_broken && !decision.records.is_empty() {
            return self.take_back(decision);
        }
        self.note_crash_points(&decision);
        match decision.reply {
            Reply::Now(reply) => {
                if let Some(answer) = answer(reply) {
                    let text = self.text_of(answer);
                    self.line(&text);
                }
            }
            Reply::Parked(_) => self.line("parked"),
        }
        self.append(decision.records, producer_id);
        self.answer(decision.released);
    }

    /// What a broker does when the log does not take the records of a decision.
    fn take_back<R>(&mut self, decision: Decision<R>) {
        let is_parked = matches!(decision.reply, Reply::Parked(_));
        self.line(if is_parked { "parked" } else { "not appended" });
        for record in &decision.records {
            if let Ok(GroupRecord::Classic { group_id, .. }) =
                GroupRecord::parse(Offset::ZERO, &record.key, None)
            {
                self.unsaved.insert(group_id.to_owned());
            }
        }
        let error = crate::runtime::append_error(ErrorCode::NotEnoughReplicas);
        let released = self.shard.append_failed(decision, error, self.now);
        self.answer(released);
    }

    fn append(&mut self, records: Vec<CoordinatorRecord>, producer_id: ProducerId) {
        for record in records {
            let text = record_text(&record);
            self.line(&text);
            if let Ok(GroupRecord::Classic { group_id, .. }) =
                GroupRecord::parse(Offset::ZERO, &record.key, None)
            {
                self.unsaved.remove(group_id);
            }
            let origin = RecordOrigin {
                offset: Offset(i64::try_from(self.log.len()).expect("a short log")),
                producer_id,
            };
            self.shard
                .replay(origin, &record.key, record.value.as_deref())
                .expect("a sound record");
            self.log.push(Logged::Record(origin, record));
        }
    }

    fn answer(&mut self, mut released: Vec<(Token, GroupResponse)>) {
        // A client that sent several requests goes by the answer to the last.
        released.sort_by_key(|(token, _)| *token);
        let mut lines = Vec::new();
        for (token, response) in released {
            let parked = self
                .parked
                .remove(&token)
                .expect("released once, after it was parked");
            let name = parked.client;
            let answer = match response {
                GroupResponse::Join(response) => Answer::Join(name.clone(), response),
                GroupResponse::Sync(response) => Answer::Sync(name.clone(), response),
            };
            let text = self.text_of(answer);
            lines.push(format!("{name}: {text}"));
        }
        lines.sort();
        lines.iter().for_each(|line| self.line(line));
    }

    fn text_of(&mut self, answer: Answer) -> String {
        match answer {
            Answer::Join(name, response) => {
                self.learn(&name, response.error);
                if let Some(client) = self.clients.get_mut(&name) {
                    if response.error == ErrorCode::MemberIdRequired {
                        client.member_id = response.member_id.to_string();
                    } else if response.error == ErrorCode::None {
                        client.member_id = response.member_id.to_string();
                        client.generation_id = response.generation_id;
                        client.phase = Phase::Sync;
                    }
                }
                join_text(&response)
            }
            Answer::Sync(name, response) => {
                self.learn(&name, response.error);
                if response.error == ErrorCode::None
                    && let Some(client) = self.clients.get_mut(&name)
                {
                    client.phase = Phase::Heartbeat;
                    client.assignment = String::from_utf8_lossy(&response.assignment).into_owned();
                }
                sync_text(&response)
            }
            Answer::Errors(Ok(errors)) => {
                let names: Vec<&str> = errors.iter().map(|error| error.name()).collect();
                names.join(" ")
            }
            Answer::Partitions(Ok(topics)) => {
                let names: Vec<&str> = topics.iter().flatten().map(|e| e.name()).collect();
                names.join(" ")
            }
            Answer::Errors(Err(error)) | Answer::Partitions(Err(error)) => {
                format!("all {}", error.name())
            }
        }
    }

    /// What a client makes of an error.
    fn learn(&mut self, name: &str, error: ErrorCode) {
        let Some(client) = self.clients.get_mut(name) else {
            return;
        };
        match error {
            ErrorCode::None => {}
            // Its place was taken, or its session has ended: it comes as a new member.
            ErrorCode::UnknownMemberId | ErrorCode::FencedInstanceId => {
                let group_instance_id = client.group_instance_id.take();
                *client = Client {
                    group_instance_id,
                    ..Client::default()
                };
            }
            _ => client.phase = Phase::Join,
        }
    }

    /// The client with this name, unless one of its requests waits.
    pub(super) fn idle_client(&self, name: &str) -> Option<Client> {
        let waits = self.parked.values().any(|parked| parked.client == name);
        (!waits).then(|| self.clients.get(name).cloned().unwrap_or_default())
    }

    /// Writes the states of classic groups that differ from what was written last.
    fn show_states(&mut self) {
        let state = |group: &Group| {
            (
                group.membership.state.name().to_owned(),
                group.membership.generation_id,
            )
        };
        let groups = self.shard.groups.values();
        let states: BTreeMap<Arc<str>, (String, i32)> = groups
            .filter(|group| group.is_classic())
            .map(|group| (Arc::clone(&group.id), state(group)))
            .collect();
        let shown = std::mem::replace(&mut self.shown_states, states.clone());
        for (id, (state, generation_id)) in &states {
            if shown.get(id) != Some(&(state.clone(), *generation_id)) {
                self.line(&format!("{id} {state} {generation_id}"));
            }
        }
        for id in shown.keys().filter(|id| !states.contains_key(*id)) {
            self.line(&format!("{id} gone"));
        }
    }
}

/// An answer to a client.
pub(super) enum Answer {
    Join(String, JoinGroupResponse),
    Sync(String, SyncGroupResponse),
    Errors(Result<Vec<ErrorCode>, ErrorCode>),
    Partitions(Result<PartitionErrors, ErrorCode>),
}

fn offsets_to_commit<'a>(
    values: &[(&'a str, i32, i64)],
    words: &Words<'a>,
) -> Vec<OffsetCommitTopic<'a>> {
    let topic_id = match words.value("topic-id") {
        Some("name") => values
            .first()
            .map_or(Uuid::ZERO, |(name, ..)| topic_id(name)),
        _ => Uuid::from_u128(words.number("topic-id", 0)),
    };
    let topic = |(name, index, offset): &(&'a str, i32, i64)| OffsetCommitTopic {
        name,
        topic_id,
        partitions: vec![OffsetCommitPartition {
            index: *index,
            offset: Offset(*offset),
            leader_epoch: words.number("epoch", LeaderEpoch::NONE),
            metadata: words.value("metadata"),
        }],
    };
    values.iter().map(topic).collect()
}
