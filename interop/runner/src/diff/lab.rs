//! The pair of servers under comparison: what both can do, how a request is put into bytes and an
//! answer taken out of them.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use codegen::{Message, Schema};
use interpreter::{Mark, Random, Struct, Value, decode, encode_marked};
use model::Reader;
use wire::{ApiKey, RequestHeader, ResponseHeader};

use super::body::{body, fit};
use super::difference::Exceptions;
use super::leaf::leaf;
use super::side::{ANSWER_LIMIT, Outcome, Side};

/// The reason of [`Lab::read`] when no answer has come.
pub(super) const NO_ANSWER: &str = "no answer";
/// The connection for questions that are not part of a sequence.
const ASIDE: usize = 9;
/// The topic of transactions, which only one of the two may have.
const TRANSACTION_TOPIC: &str = "__transaction_state";
/// The topic whose configuration is changed to see how far a server's metadata has come.
const BARRIER_TOPIC: &str = "barrier";
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Versions by API.
type Offers = BTreeMap<String, (i16, i16)>;

/// Apache Kafka, and the server that is compared with it.
pub(super) struct Lab {
    pub(super) sides: [Side; 2],
    pub(super) exceptions: Exceptions,
    schema: Schema,
    /// What each server offers.
    offered: [Offers; 2],
    /// What both offer.
    offers: Offers,
    /// What has been compared, by API.
    pub(super) tally: BTreeMap<ApiKey, Tally>,
    /// How often each API and version has been sent.
    coverage: BTreeMap<(String, i16), usize>,
    /// How often each API and version has been sent damaged.
    damaged: BTreeMap<(ApiKey, i16), usize>,
    correlation_id: i32,
    barrier_count: usize,
}

/// What has been compared of one API.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) requests: usize,
    pub(super) damaged: usize,
    /// Requests that both servers have answered.
    pub(super) answers: usize,
    /// Differences that the exceptions cover.
    pub(super) excepted: usize,
    /// Answers of the other server that were asked for again, since their error passes.
    pub(super) asked_again: [usize; 2],
    /// Equal answers in which a flipped bit was noticed.
    pub(super) noticed: usize,
    /// Those in which it was not.
    pub(super) unnoticed: usize,
}

/// A request on its way: what is needed to read its answer.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) api: ApiKey,
    pub(super) version: i16,
    pub(super) correlation_id: i32,
    /// With stand-ins for what servers name.
    pub(super) body: Struct,
    /// What a report says beside the body.
    pub(super) note: String,
}

impl Lab {
    /// Asks both servers for what they offer.
    pub(super) fn new(schema: Schema, sides: [Side; 2], exceptions: Exceptions) -> Result<Self> {
        let mut lab = Self {
            sides,
            exceptions,
            schema,
            offered: [Offers::new(), Offers::new()],
            offers: Offers::new(),
            tally: BTreeMap::new(),
            coverage: BTreeMap::new(),
            damaged: BTreeMap::new(),
            correlation_id: 100,
            barrier_count: 0,
        };
        lab.offered = [lab.offered_by(0)?, lab.offered_by(1)?];
        let [kafka, other] = &lab.offered;
        for (name, (first, last)) in kafka {
            if let Some((other_first, other_last)) = other.get(name) {
                let range = (*first.max(other_first), *last.min(other_last));
                lab.offers.insert(name.clone(), range);
            }
        }
        ensure!(!lab.offers.is_empty(), "the servers share no API");
        for (name, (first, last)) in lab.offers.clone() {
            for version in first..=last {
                lab.coverage.insert((name.clone(), version), 0);
            }
        }
        let create = body!({ Topics: [{ Name: BARRIER_TOPIC, NumPartitions: 1, ReplicationFactor: 1 }], TimeoutMs: 10_000 });
        for side in 0..2 {
            lab.ask(side, ApiKey::CreateTopics, 5, &create)?;
            lab.load_coordinators(side)?;
            lab.name_transaction_topic(side)?;
        }
        Ok(lab)
    }

    /// Has the topics of groups and transactions made, and waits until every partition's
    /// coordinator answers.
    fn load_coordinators(&mut self, side: usize) -> Result<()> {
        /// Names enough that every partition has some.
        const NAMES: usize = 30;
        let coordinators = [(0, ApiKey::Heartbeat), (1, ApiKey::DescribeTransactions)];
        for (kind, api) in coordinators {
            if !self.is_offered(side, api) {
                continue;
            }
            let find = body!({ Key: "loading", KeyType: kind });
            self.ask_until(side, ApiKey::FindCoordinator, 1, &find, &is_loaded)?;
            for index in 0..NAMES {
                let name = format!("loading-{index}");
                let question = match api {
                    ApiKey::Heartbeat => body!({ GroupId: (&name), MemberId: "nobody" }),
                    _ => body!({ TransactionalIds: [(&name)] }),
                };
                self.ask_until(side, api, 0, &question, &is_loaded)?;
            }
        }
        Ok(())
    }

    /// The id of a topic that one side lacks must not number the ids after it.
    fn name_transaction_topic(&mut self, side: usize) -> Result<()> {
        let question =
            body!({ Topics: [{ Name: TRANSACTION_TOPIC }], AllowAutoTopicCreation: false });
        let answer = self.ask(side, ApiKey::Metadata, 12, &question)?;
        let id = leaf(&answer, "Topics[0].TopicId");
        if id != Value::Uuid([0; 16]) {
            self.sides[side].fix(id, Value::string("«transaction topic»"));
        }
        Ok(())
    }

    fn offered_by(&mut self, side: usize) -> Result<Offers> {
        let answer = self.ask(side, ApiKey::ApiVersions, 0, &body!({}))?;
        let mut offers = Offers::new();
        for one in answer.field("ApiKeys").map_or(&[][..], Value::elements) {
            let number = |name| {
                let field = one.as_struct().and_then(|one| one.field(name));
                let number = field.and_then(Value::as_integer).unwrap_or(-1);
                i16::try_from(number).unwrap_or(-1)
            };
            let Some(api) = ApiKey::from_number(number("ApiKey")) else {
                continue;
            };
            let facts = api.facts();
            let first = number("MinVersion").max(facts.min_version);
            let last = number("MaxVersion").min(facts.max_version);
            offers.insert(facts.name.to_owned(), (first, last));
        }
        Ok(offers)
    }

    fn is_offered(&self, side: usize, api: ApiKey) -> bool {
        self.offered[side].contains_key(api.facts().name)
    }

    /// The APIs that both servers offer.
    pub(super) fn offers(&self) -> impl Iterator<Item = (ApiKey, i16, i16)> + '_ {
        self.offers.iter().filter_map(|(name, (first, last))| {
            let mut all = ApiKey::all();
            let facts = all.find(|facts| facts.name == name)?;
            Some((facts.key, *first, *last))
        })
    }

    /// The version within `first..=last` that has been sent least; `None` when not both servers
    /// offer one.
    pub(super) fn version_of(
        &self,
        api: ApiKey,
        (first, last): (i16, i16),
        random: &mut Random,
    ) -> Option<i16> {
        let (offered_first, offered_last) = self.offers.get(api.facts().name)?;
        let versions = first.max(*offered_first)..=last.min(*offered_last);
        let sent = |version: &i16| {
            let key = (api.facts().name.to_owned(), *version);
            self.coverage.get(&key).copied().unwrap_or(0)
        };
        let least = versions.clone().map(|version| sent(&version)).min()?;
        let least: Vec<i16> = versions.filter(|version| sent(version) == least).collect();
        Some(*random.choice(&least))
    }

    /// The version that has been sent damaged least, each API at a time.
    pub(super) fn version_to_damage(&mut self, api: ApiKey, random: &mut Random) -> Option<i16> {
        let (first, last) = *self.offers.get(api.facts().name)?;
        let sent = |version: i16| {
            let count = self.damaged.get(&(api, version));
            (count.copied().unwrap_or(0), version)
        };
        let least = (first..=last).map(|version| sent(version).0).min()?;
        let least: Vec<i16> = (first..=last).filter(|v| sent(*v).0 == least).collect();
        let version = *random.choice(&least);
        *self.damaged.entry((api, version)).or_default() += 1;
        Some(version)
    }

    /// How often the API has been sent damaged.
    pub(super) fn damaged_count(&self, api: ApiKey) -> usize {
        let versions = (api, i16::MIN)..=(api, i16::MAX);
        self.damaged.range(versions).map(|(_, count)| count).sum()
    }

    /// The offered versions that have not been sent damaged.
    pub(super) fn not_damaged(&self) -> Vec<String> {
        let versions = self
            .offers()
            .flat_map(|(api, first, last)| (first..=last).map(move |version| (api, version)));
        let whole = versions.filter(|key| !self.damaged.contains_key(key));
        whole
            .map(|(api, version)| format!("{} v{version}", api.facts().name))
            .collect()
    }

    /// The offered versions that no request has had.
    pub(super) fn not_covered(&self) -> Vec<String> {
        let unsent = self.coverage.iter().filter(|(_, count)| **count == 0);
        unsent
            .map(|((name, version), _)| format!("{name} v{version}"))
            .collect()
    }

    pub(super) fn message(&self, api: ApiKey, suffix: &str) -> &Message {
        let name = format!("{}{suffix}", api.facts().name);
        let mut messages = self.schema.messages.iter();
        messages
            .find(|message| message.name == name)
            .expect("the schema has both messages of an api")
    }

    /// A request with a correlation id of its own.
    pub(super) fn request(&mut self, api: ApiKey, version: i16, body: &Value) -> Request {
        let key = (api.facts().name.to_owned(), version);
        *self.coverage.entry(key).or_default() += 1;
        self.correlation_id += 1;
        Request {
            api,
            version,
            correlation_id: self.correlation_id,
            body: fit(self.message(api, "Request"), version, body),
            note: String::new(),
        }
    }

    /// The frame of a request for one side, with its size.
    pub(super) fn frame(&self, side: usize, request: &Request) -> Vec<u8> {
        self.marked_frame(side, request).0
    }

    /// [`Lab::frame`], and where in it the body's values of variable length are.
    pub(super) fn marked_frame(&self, side: usize, request: &Request) -> (Vec<u8>, Vec<Mark>) {
        let header = RequestHeader {
            api_key: request.api as i16,
            api_version: request.version,
            correlation_id: request.correlation_id,
            client_id: Some("diff"),
        };
        let mut frame = vec![0; 4];
        let flexible = request.api.is_request_flexible(request.version);
        header.encode(flexible, &mut frame);
        let body = self.sides[side].names.translate(&request.body);
        let message = self.message(request.api, "Request");
        let (body, marks) = encode_marked(message, request.version, &body);
        let marks = marks.into_iter().map(|mark| mark.shifted(frame.len()));
        let marks = marks.collect();
        frame.extend(body);
        let size = u32::try_from(frame.len() - 4).expect("a request is short");
        frame[..4].copy_from_slice(&size.to_be_bytes());
        (frame, marks)
    }

    /// The answer to a request, or what is wrong with it.
    pub(super) fn read(&self, request: &Request, outcome: &Outcome) -> Result<Struct, String> {
        let frame = match outcome {
            Outcome::Answer(frame) => frame,
            Outcome::Closed => return Err("closed the connection".into()),
            Outcome::Silent => return Err(NO_ANSWER.into()),
        };
        let mut reader = Reader::new(frame);
        let header_version = request.api.response_header_version(request.version);
        let header = ResponseHeader::decode(&mut reader, header_version)
            .map_err(|error| format!("malformed header: {error}"))?;
        if header.correlation_id != request.correlation_id {
            return Err(format!("correlation id {}", header.correlation_id));
        }
        let message = self.message(request.api, "Response");
        decode(message, request.version, reader.remaining())
            .map_err(|error| format!("malformed answer: {error}"))
    }

    /// One server's answer to a request that is not part of a sequence.
    pub(super) fn ask(
        &mut self,
        side: usize,
        api: ApiKey,
        version: i16,
        body: &Value,
    ) -> Result<Struct> {
        let request = self.request(api, version, body);
        let frame = self.frame(side, &request);
        self.sides[side].send(ASIDE, &frame)?;
        let outcome = self.sides[side].receive(ASIDE, ANSWER_LIMIT);
        let answer = self.read(&request, &outcome);
        let label = self.sides[side].label;
        answer.map_err(|reason| anyhow::anyhow!("{label}: {api} v{version}: {reason}"))
    }

    /// Waits until both servers have applied all metadata changes that they have acknowledged.
    ///
    /// Metadata has one order: when a change made now is seen, all before it are. A server may
    /// show a change before it has acted on it, but not before it has acted on the one before.
    pub(super) fn barrier(&mut self) -> Result<()> {
        for _ in 0..2 {
            self.barrier_count += 1;
            let value = (1_000_000_000 + self.barrier_count).to_string();
            for side in 0..2 {
                self.change_is_seen(side, &value)?;
            }
        }
        Ok(())
    }

    fn change_is_seen(&mut self, side: usize, value: &str) -> Result<()> {
        let needs = [ApiKey::IncrementalAlterConfigs, ApiKey::DescribeConfigs];
        if !needs.iter().all(|api| self.is_offered(side, *api)) {
            return Ok(());
        }
        let change = body!({ Resources: [{ ResourceType: 2, ResourceName: BARRIER_TOPIC, Configs: [{ Name: "retention.ms", ConfigOperation: 0, Value: value }] }] });
        self.ask(side, ApiKey::IncrementalAlterConfigs, 1, &change)?;
        let question = body!({ Resources: [{ ResourceType: 2, ResourceName: BARRIER_TOPIC, ConfigurationKeys: ["retention.ms"] }] });
        let deadline = Instant::now() + ANSWER_LIMIT;
        while Instant::now() < deadline {
            let answer = self.ask(side, ApiKey::DescribeConfigs, 1, &question)?;
            let seen = answer
                .leaves()
                .iter()
                .any(|(path, leaf)| path.ends_with(".Value") && leaf.as_str() == Some(value));
            if seen {
                return Ok(());
            }
            thread::sleep(POLL_INTERVAL);
        }
        bail!("{} does not show a changed config", self.sides[side].label)
    }

    /// Asks one server again and again until `done` says that its answer is the one waited for.
    pub(super) fn ask_until(
        &mut self,
        side: usize,
        api: ApiKey,
        version: i16,
        body: &Value,
        done: &dyn Fn(&Struct) -> bool,
    ) -> Result<()> {
        let deadline = Instant::now() + ANSWER_LIMIT;
        let mut last = String::new();
        while Instant::now() < deadline {
            let answer = self.ask(side, api, version, body)?;
            if done(&answer) {
                return Ok(());
            }
            last = answer.to_string();
            thread::sleep(POLL_INTERVAL);
        }
        let label = self.sides[side].label;
        bail!("{label}: {api} v{version} still answers {last}")
    }

    /// Forgets connections and names before another sequence.
    pub(super) fn reset(&mut self) {
        self.sides.iter_mut().for_each(Side::reset);
    }
}

/// Whether no coordinator says that it is loading, not there, or another.
fn is_loaded(answer: &Struct) -> bool {
    let leaves = answer.leaves();
    let mut errors = leaves
        .iter()
        .filter(|(path, _)| path.ends_with("ErrorCode"));
    !errors.any(|(_, code)| matches!(code.as_integer(), Some(14..=16)))
}
