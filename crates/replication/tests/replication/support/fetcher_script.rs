//! A fetcher driven by a script: its requests decoded, its leader's answers made of words.
//!
//! ```text
//!   add t0-1 epoch=3 at=10 last=2 start=4 throttled   remove t0-1   throttle t0-1   quota over | under
//!   poll                     the request, if there is one
//!   answer session=7 t0-1 hw=12 start=0 records=2 t0-2 error=6 t1-0 diverging=2@8
//!   offsets t0-1 at=20 t0-2 error=74
//!   done t0-1 at=12 last=3   delayed t0-1   failed t0-1
//!   fail   bytes 00ff   wait 1000   version 13
//! ```

use model::{BrokerEpoch, BrokerId, ErrorCode, LeaderEpoch, Message, MonotonicTime, Offset, Uuid};
use replication::{
    FetchPosition, FetcherRequest, FetcherSettings, FetcherVersions, FollowedPartition,
    ReplicaFetcher, StepAction, StepOutcome, StepToken,
};
use std::collections::BTreeMap;
use std::fmt::Write;
use wire::messages::fetch_response::{EpochEndOffset, FetchableTopicResponse, PartitionData};
use wire::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use wire::messages::{FetchRequest, FetchResponse, ListOffsetsRequest, ListOffsetsResponse};

pub(crate) const SETTINGS: FetcherSettings = FetcherSettings {
    replica_id: BrokerId(1),
    replica_epoch: BrokerEpoch(77),
    max_wait_ms: 500,
    min_bytes: 1,
    max_bytes: 10 << 20,
    partition_max_bytes: 1 << 20,
    backoff_ms: 1000,
};

/// `t3-5` is partition 5 of topic 3.
fn key_of(word: &str) -> (Uuid, i32) {
    let (topic, index) = word[1..].split_once('-').unwrap();
    (
        Uuid::from_u128(topic.parse().unwrap()),
        index.parse().unwrap(),
    )
}

fn name_of(topic_id: Uuid, index: i32) -> String {
    format!("t{}-{index}", u128::from_be_bytes(topic_id.to_bytes()))
}

/// The words of a line, each with what follows it as `name=value` or a flag, up to the next partition.
struct Words<'a>(Vec<(&'a str, BTreeMap<&'a str, &'a str>)>);

impl<'a> Words<'a> {
    fn of(line: &'a str) -> Self {
        let mut all: Vec<(&str, BTreeMap<&str, &str>)> = Vec::new();
        for word in line.split_whitespace() {
            let is_partition = word.starts_with('t') && word.contains('-') && !word.contains('=');
            match all.last_mut() {
                Some((_, fields)) if !is_partition => {
                    let (name, value) = word.split_once('=').unwrap_or((word, ""));
                    fields.insert(name, value);
                }
                _ => all.push((word, BTreeMap::new())),
            }
        }
        Self(all)
    }

    fn partitions(&self) -> &[(&'a str, BTreeMap<&'a str, &'a str>)] {
        &self.0[1..]
    }
}

fn number(fields: &BTreeMap<&str, &str>, name: &str, default: i64) -> i64 {
    fields
        .get(name)
        .map_or(default, |value| value.parse().unwrap())
}

fn position(fields: &BTreeMap<&str, &str>) -> FetchPosition {
    FetchPosition {
        fetch_offset: Offset(number(fields, "at", 0)),
        last_fetched_epoch: LeaderEpoch(number(fields, "last", -1) as i32),
        log_start_offset: Offset(number(fields, "start", 0)),
    }
}

struct Scripted {
    fetcher: ReplicaFetcher<String>,
    now: MonotonicTime,
    asked: Option<FetcherRequest>,
    versions: FetcherVersions,
    tokens: BTreeMap<String, StepToken>,
    buffer: Vec<u8>,
}

/// What a script leads to, line by line.
pub(crate) fn play(script: &str) -> String {
    let mut scripted = Scripted {
        fetcher: ReplicaFetcher::new(SETTINGS),
        now: MonotonicTime::from_ms(0),
        asked: None,
        versions: FetcherVersions {
            fetch: 18,
            list_offsets: 11,
        },
        tokens: BTreeMap::new(),
        buffer: Vec::new(),
    };
    let mut text = String::new();
    let lines = script.lines().map(str::trim);
    for line in lines.filter(|line| !line.is_empty()) {
        let outcome = scripted.act(line);
        writeln!(text, "{line}").unwrap();
        for line in outcome.lines() {
            writeln!(text, "    {line}").unwrap();
        }
    }
    text
}

impl Scripted {
    fn act(&mut self, line: &str) -> String {
        let words = Words::of(line);
        let (verb, fields) = &words.0[0];
        match *verb {
            "poll" => return self.poll(),
            "answer" => return self.answer(fields, words.partitions()),
            "offsets" => return self.offsets(words.partitions()),
            "bytes" => {
                let hex = line.split_whitespace().nth(1).unwrap_or_default();
                let bytes: Vec<u8> = (0..hex.len() / 2)
                    .map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap())
                    .collect();
                return self.take(&bytes);
            }
            "fail" => {
                self.asked = None;
                self.fetcher.handle_failure(self.now);
                return self.deadline();
            }
            "wait" => {
                let ms = line.split_whitespace().nth(1).unwrap().parse().unwrap();
                self.now = self.now.plus_ms(ms);
            }
            "version" => {
                let version = line.split_whitespace().nth(1).unwrap().parse().unwrap();
                self.versions.fetch = version;
            }
            "quota" => self.fetcher.set_over_quota(line.ends_with("over")),
            verb => {
                for (name, fields) in words.partitions() {
                    let outcome = self.partition(verb, name, fields);
                    if !outcome.is_empty() {
                        return outcome;
                    }
                }
            }
        }
        String::new()
    }

    fn partition(&mut self, verb: &str, name: &str, fields: &BTreeMap<&str, &str>) -> String {
        let key = key_of(name);
        let outcome = match verb {
            "add" => {
                let is_news = self.fetcher.add(FollowedPartition {
                    replica: name.to_owned(),
                    topic_id: key.0,
                    topic: name.split_once('-').unwrap().0.into(),
                    index: key.1,
                    leader_epoch: LeaderEpoch(number(fields, "epoch", 0) as i32),
                    position: position(fields),
                    is_throttled: fields.contains_key("throttled"),
                });
                return if is_news {
                    String::new()
                } else {
                    "as before".to_owned()
                };
            }
            "remove" => {
                let removed = self.fetcher.remove(key);
                return if removed.is_some() {
                    String::new()
                } else {
                    "not here".to_owned()
                };
            }
            "throttle" => {
                self.fetcher.set_throttled(key, true);
                return String::new();
            }
            "lag" => return format!("{:?}", self.fetcher.lag(key)),
            "done" if fields.is_empty() => StepOutcome::Done(None),
            "done" => StepOutcome::Done(Some(position(fields))),
            "delayed" if fields.is_empty() => StepOutcome::Delayed(None),
            "delayed" => StepOutcome::Delayed(Some(position(fields))),
            "failed" => StepOutcome::Failed,
            verb => panic!("no `{verb}`"),
        };
        self.fetcher.complete(self.tokens[name], outcome, self.now);
        match self.fetcher.failed_count() {
            0 => String::new(),
            count => format!("{count} of {} failed", self.fetcher.len()),
        }
    }

    fn deadline(&self) -> String {
        match self.fetcher.next_deadline() {
            None => String::new(),
            Some(deadline) => format!("looks again in {} ms", deadline.ms_since(self.now)),
        }
    }

    fn poll(&mut self) -> String {
        self.buffer.clear();
        let request = self
            .fetcher
            .poll_request(self.now, self.versions, &mut self.buffer);
        match request {
            None => {
                assert!(self.buffer.is_empty() || self.asked.is_some());
                return format!("nothing\n{}", self.deadline());
            }
            Some(FetcherRequest::Fetch) => {}
            Some(FetcherRequest::ListOffsets) => {
                self.asked = request;
                return self.show_list_offsets();
            }
        }
        self.asked = request;
        let request = FetchRequest::from_bytes(&self.buffer, self.versions.fetch).unwrap();
        let mut text = format!("fetch in {}/{}", request.session_id, request.session_epoch);
        if request.max_wait_ms != SETTINGS.max_wait_ms {
            write!(text, " for {} ms", request.max_wait_ms).unwrap();
        }
        for topic in request.topics.iter() {
            for asked in topic.partitions.iter() {
                let name = name_of(topic.topic_id, asked.partition);
                let (offset, epoch) = (asked.fetch_offset, asked.current_leader_epoch);
                let (last, start) = (asked.last_fetched_epoch, asked.log_start_offset);
                write!(
                    text,
                    " {name}@{offset} in {epoch} last {last} start {start},"
                )
                .unwrap();
                assert_eq!(asked.partition_max_bytes, SETTINGS.partition_max_bytes);
            }
        }
        for topic in request.forgotten_topics_data.iter() {
            for index in topic.partitions.iter() {
                write!(text, " without {},", name_of(topic.topic_id, index)).unwrap();
            }
        }
        text.trim_end_matches(',').to_owned()
    }

    fn show_list_offsets(&self) -> String {
        let version = self.versions.list_offsets;
        let request = ListOffsetsRequest::from_bytes(&self.buffer, version).unwrap();
        assert_eq!(request.replica_id, SETTINGS.replica_id);
        let mut text = "offsets".to_owned();
        for topic in request.topics.iter() {
            for asked in topic.partitions.iter() {
                let which = match asked.timestamp {
                    -1 => "end",
                    -2 => "start",
                    _ => "time",
                };
                let (index, epoch) = (asked.partition_index, asked.current_leader_epoch);
                write!(text, " {which} of {}-{index} in {epoch},", topic.name).unwrap();
            }
        }
        text.trim_end_matches(',').to_owned()
    }

    /// Answers a fetch; without words, an incremental one in which nothing has changed.
    fn answer(
        &mut self,
        fields: &BTreeMap<&str, &str>,
        partitions: &[(&str, BTreeMap<&str, &str>)],
    ) -> String {
        let zeros = vec![0; 1000];
        let topics = partitions.iter().map(|(name, fields)| {
            let key = key_of(name);
            let error = number(fields, "error", 0) as i16;
            let unknown = if error == 0 { 0 } else { -1 };
            let (epoch, end) = match fields.get("diverging") {
                Some(end) => end.split_once('@').unwrap(),
                None => ("-1", "-1"),
            };
            let records = number(fields, "records", 0) as usize;
            let data = PartitionData {
                partition_index: key.1,
                error_code: error,
                high_watermark: number(fields, "hw", unknown),
                log_start_offset: number(fields, "start", unknown),
                diverging_epoch: EpochEndOffset {
                    epoch: epoch.parse().unwrap(),
                    end_offset: end.parse().unwrap(),
                },
                aborted_transactions: None,
                records: (error == 0).then_some(&zeros[..records]),
                ..PartitionData::default()
            };
            FetchableTopicResponse {
                topic_id: key.0,
                partitions: vec![data].into(),
                ..FetchableTopicResponse::default()
            }
        });
        let response = FetchResponse {
            error_code: number(fields, "error", 0) as i16,
            session_id: number(fields, "session", 0) as i32,
            responses: topics.collect(),
            ..FetchResponse::default()
        };
        let body = response.to_bytes(self.versions.fetch);
        self.take(&body)
    }

    fn offsets(&mut self, partitions: &[(&str, BTreeMap<&str, &str>)]) -> String {
        let topics = partitions.iter().map(|(name, fields)| {
            let answered = ListOffsetsPartitionResponse {
                partition_index: key_of(name).1,
                error_code: number(fields, "error", 0) as i16,
                offset: number(fields, "at", -1),
                ..ListOffsetsPartitionResponse::default()
            };
            ListOffsetsTopicResponse {
                name: name.split_once('-').unwrap().0,
                partitions: vec![answered].into(),
            }
        });
        let response = ListOffsetsResponse {
            topics: topics.collect(),
            ..ListOffsetsResponse::default()
        };
        let body = response.to_bytes(self.versions.list_offsets);
        self.take(&body)
    }

    fn take(&mut self, body: &[u8]) -> String {
        let version = match self.asked.take() {
            Some(FetcherRequest::ListOffsets) => self.versions.list_offsets,
            _ => self.versions.fetch,
        };
        let mut text = String::new();
        if let Err(error) = self.fetcher.handle_response(body, version, self.now) {
            writeln!(text, "{error}").unwrap();
        }
        let (fetcher, tokens) = (&mut self.fetcher, &mut self.tokens);
        fetcher.take_steps(body, usize::MAX, self.now, |step| {
            let name = step.replica.clone();
            tokens.insert(name.clone(), step.token);
            match step.action {
                StepAction::Append(fetched) => {
                    let (at, bytes) = (fetched.fetch_offset, fetched.records.len());
                    let (high_watermark, start) =
                        (fetched.high_watermark, fetched.log_start_offset);
                    let epoch = fetched.leader_epoch;
                    write!(
                        text,
                        "{name} in {epoch} takes {bytes} bytes at {at}, hw {high_watermark}, start {start}"
                    )
                }
                StepAction::TruncateToLeader { end, .. } => {
                    write!(text, "{name} is cut where epoch {} ends at {}", end.0, end.1)
                }
                StepAction::TruncateTo { offset, .. } => write!(text, "{name} is cut at {offset}"),
                StepAction::RestartAt { offset, .. } => {
                    write!(text, "{name} begins anew at {offset}")
                }
            }
            .unwrap();
            text.push_str(if step.is_throttled { ", throttled\n" } else { "\n" });
            StepOutcome::Later
        });
        self.fetcher.take_errors(|name, error: ErrorCode| {
            writeln!(text, "{name}: {error}").unwrap();
        });
        if self.fetcher.failed_count() > 0 {
            writeln!(text, "{} failed", self.fetcher.failed_count()).unwrap();
        }
        text.push_str(&self.deadline());
        text
    }
}
