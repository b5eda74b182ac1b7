//! A sequence of requests under way: each goes to both servers, and their answers are compared.
//!
//! The functions return Kafka's answer in its comparable form, whose stand-ins can go into the
//! next request. A difference in an error code, or between an answer and none, ends the sequence,
//! meant or not, as the servers may differ in their state from there on.

use std::collections::VecDeque;
use std::thread;
use std::time::{Duration, Instant};

use interpreter::{Mark, Random, Struct, Value};
use wire::ApiKey;

use super::difference::{Difference, compare, condition_fields};
use super::lab::{Lab, NO_ANSWER, Request};
use super::names::Names;
use super::normal::normalize;
use super::side::{ANSWER_LIMIT, Outcome};

/// Errors that pass by themselves: 5 leader not available, 14 coordinator load in progress,
/// 15 coordinator not available, 51 concurrent transactions.
const TRANSIENT: [i64; 4] = [5, 14, 15, 51];
/// What an answer begins with; the lab itself tells when it is wrong.
const CORRELATION_ID_BYTES: usize = 4;
/// Differences after which a sequence is given up.
const MAX_FOUND: usize = 30;
/// How long a transient error is asked away.
const TRANSIENT_LIMIT: Duration = Duration::from_secs(3);
const RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// APIs that change metadata; the next request must see the change on both sides.
const METADATA_CHANGES: [ApiKey; 8] = [
    ApiKey::CreateTopics,
    ApiKey::DeleteTopics,
    ApiKey::CreatePartitions,
    ApiKey::AlterConfigs,
    ApiKey::IncrementalAlterConfigs,
    ApiKey::AlterClientQuotas,
    ApiKey::AlterUserScramCredentials,
    ApiKey::AlterPartitionReassignments,
];

/// Why a sequence ends early.
#[derive(Debug)]
pub(super) enum Stop {
    /// Not both servers offer the API in the versions asked for.
    NotOffered(ApiKey),
    /// The answers differ, which has been noted unless Kafka itself has failed.
    Differs,
    /// The comparison itself cannot go on.
    Failed(anyhow::Error),
}

impl From<anyhow::Error> for Stop {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

/// Kafka's answer; a struct without fields when there is none on either side.
pub(super) type Answer = Result<Struct, Stop>;

/// What the outcome of a request may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expect {
    /// An answer, asked for again while its error is a transient one.
    SettledAnswer,
    /// An answer.
    Answer,
    /// An answer, none, or the end of the connection.
    Anything,
    /// The same, unless Kafka itself fails.
    AnythingSound,
}

/// A request in bytes, and where its values of variable length are.
pub(super) type MarkedFrame = (Vec<u8>, Vec<Mark>);

/// A difference, and the request that showed it.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) sequence: String,
    pub(super) step: usize,
    pub(super) api: ApiKey,
    pub(super) version: i16,
    pub(super) request: String,
    pub(super) difference: Difference,
}

/// A sequence under way.
pub(super) struct Session<'a> {
    pub(super) random: Random,
    /// Starts the names of everything the sequence makes.
    pub(super) prefix: String,
    pub(super) found: Vec<Found>,
    lab: &'a mut Lab,
    step: usize,
    made_count: usize,
    pending: VecDeque<(usize, Request)>,
    /// Where answers are damaged; apart from `random`, so that the requests stay as they are.
    damage: Random,
}

impl<'a> Session<'a> {
    pub(super) fn new(lab: &'a mut Lab, prefix: String, random: Random) -> Self {
        lab.reset();
        Self {
            damage: Random::new(random.clone().bits()),
            random,
            prefix,
            found: Vec::new(),
            lab,
            step: 0,
            made_count: 0,
            pending: VecDeque::new(),
        }
    }

    /// How many requests have been compared.
    pub(super) const fn step(&self) -> usize {
        self.step
    }

    /// A name that no other sequence uses.
    pub(super) fn new_name(&mut self, what: &str) -> String {
        self.made_count += 1;
        format!("{}-{what}-{}", self.prefix, self.made_count)
    }

    /// The APIs that both servers offer.
    pub(super) fn offers(&self) -> Vec<(ApiKey, i16, i16)> {
        self.lab.offers().collect()
    }

    /// The message of a request.
    pub(super) fn request_message(&self, api: ApiKey) -> codegen::Message {
        self.lab.message(api, "Request").clone()
    }

    /// Sends a request in some version and compares the answers.
    pub(super) fn call(&mut self, api: ApiKey, body: &Value) -> Answer {
        self.call_within(api, (0, i16::MAX), body)
    }

    /// [`Session::call`] with a version of a range.
    pub(super) fn call_within(&mut self, api: ApiKey, range: (i16, i16), body: &Value) -> Answer {
        let request = self.request(api, range, body)?;
        self.exchange(0, &request)
    }

    /// Sends a request on the connection of `client`; [`Session::receive`] takes the answers.
    pub(super) fn send(
        &mut self,
        client: usize,
        api: ApiKey,
        range: (i16, i16),
        body: &Value,
    ) -> Result<(), Stop> {
        let request = self.request(api, range, body)?;
        self.send_both(client, &request)?;
        self.pending.push_back((client, request));
        Ok(())
    }

    /// Compares the answers to the oldest request that `client` still waits for.
    pub(super) fn receive(&mut self, client: usize) -> Answer {
        let mut pending = self.pending.iter();
        let at = pending.position(|(waiting, _)| *waiting == client);
        let at = at.expect("a request was sent before");
        let (_, request) = self.pending.remove(at).expect("found just above");
        let outcomes = self.receive_both(client, ANSWER_LIMIT);
        self.settle(client, &request, outcomes, Expect::Answer)
    }

    /// Sends a request on the connection of `client` and compares the answers.
    pub(super) fn call_as(
        &mut self,
        client: usize,
        api: ApiKey,
        range: (i16, i16),
        body: &Value,
    ) -> Answer {
        let request = self.request(api, range, body)?;
        self.exchange(client, &request)
    }

    /// Sends a request that has no answer, and compares whether it has none: the next frame on the
    /// connection must answer the request after it.
    pub(super) fn call_without_answer(&mut self, api: ApiKey, body: &Value) -> Result<(), Stop> {
        let request = self.request(api, (0, i16::MAX), body)?;
        let probe = self.lab.request(ApiKey::ApiVersions, 0, &Value::Null);
        let mut outcomes = [Outcome::Silent, Outcome::Silent];
        for (side, outcome) in outcomes.iter_mut().enumerate() {
            let mut frames = self.lab.frame(side, &request);
            frames.extend(self.lab.frame(side, &probe));
            let side = &mut self.lab.sides[side];
            side.send(0, &frames)?;
            let first = side.receive(0, ANSWER_LIMIT);
            let is_probe = matches!(&first, Outcome::Answer(frame)
                if frame.starts_with(&probe.correlation_id.to_be_bytes()));
            if !is_probe {
                if matches!(first, Outcome::Answer(_)) {
                    side.receive(0, ANSWER_LIMIT);
                }
                *outcome = first;
            }
        }
        self.settle(0, &request, outcomes, Expect::Anything)
            .map(drop)
    }

    /// Sends a request until both answers, asked for side by side, are as `done` says; they are
    /// not compared.
    pub(super) fn wait(
        &mut self,
        api: ApiKey,
        version: i16,
        body: &Value,
        done: &dyn Fn(&Struct) -> bool,
    ) -> Result<(), Stop> {
        let offered = self
            .lab
            .version_of(api, (version, version), &mut self.random);
        if offered.is_none() {
            return Err(Stop::NotOffered(api));
        }
        let request = self.lab.request(api, version, body);
        for side in 0..2 {
            let body = Value::Struct(self.lab.sides[side].names.translate(&request.body));
            self.lab.ask_until(side, api, version, &body, done)?;
        }
        Ok(())
    }

    /// Sends the frame of `request` as `damage` leaves it and compares what comes back, which is
    /// read as an answer of `answer_version`. The connection is given up afterwards.
    pub(super) fn raw(
        &mut self,
        request: &Request,
        answer_version: i16,
        damage: &dyn Fn(MarkedFrame) -> Vec<u8>,
        limit: Duration,
    ) -> Answer {
        let mut note = String::new();
        for side in 0..2 {
            let frame = damage(self.lab.marked_frame(side, request));
            note = format!("{} as {frame:02x?}", request.note);
            self.lab.sides[side].send(0, &frame)?;
        }
        let outcomes = self.receive_both(0, limit);
        let read_as = Request {
            version: answer_version,
            note,
            ..request.clone()
        };
        let expect = match &*request.note {
            "" => Expect::Anything,
            _ => Expect::AnythingSound,
        };
        self.lab.tally.entry(request.api).or_default().damaged += 1;
        let answer = self.settle(0, &read_as, outcomes, expect);
        self.lab
            .sides
            .iter_mut()
            .for_each(|side| side.disconnect(0));
        answer
    }

    /// A request in the version of `range` that has been sent least.
    pub(super) fn request(
        &mut self,
        api: ApiKey,
        range: (i16, i16),
        body: &Value,
    ) -> Result<Request, Stop> {
        let version = self.lab.version_of(api, range, &mut self.random);
        let version = version.ok_or(Stop::NotOffered(api))?;
        let request = self.lab.request(api, version, body);
        for side in &mut self.lab.sides {
            side.names.add_literals(&request.body);
        }
        Ok(request)
    }

    /// The API of `apis` that has been damaged least.
    pub(super) fn api_to_damage(&mut self, apis: &[ApiKey]) -> ApiKey {
        let sent = |api: &ApiKey| self.lab.damaged_count(*api);
        let least = apis.iter().map(sent).min().unwrap_or_default();
        let least: Vec<ApiKey> = apis.iter().copied().filter(|a| sent(a) == least).collect();
        *self.random.choice(&least)
    }

    /// A request in the version that has been damaged least.
    pub(super) fn request_to_damage(&mut self, api: ApiKey, body: &Value) -> Result<Request, Stop> {
        let version = self.lab.version_to_damage(api, &mut self.random);
        let version = version.ok_or(Stop::NotOffered(api))?;
        self.request(api, (version, version), body)
    }

    /// The bytes of a request as Kafka would get them.
    pub(super) fn marked_frame(&self, request: &Request) -> MarkedFrame {
        self.lab.marked_frame(0, request)
    }

    /// Waits until both servers have applied all metadata changes.
    pub(super) fn barrier(&mut self) -> Result<(), Stop> {
        Ok(self.lab.barrier()?)
    }

    fn exchange(&mut self, client: usize, request: &Request) -> Answer {
        self.send_both(client, request)?;
        let outcomes = self.receive_both(client, ANSWER_LIMIT);
        let answer = self.settle(client, request, outcomes, Expect::SettledAnswer);
        if METADATA_CHANGES.contains(&request.api) {
            self.barrier()?;
        }
        answer
    }

    /// The next frame of each side; one limit holds for both.
    fn receive_both(&mut self, client: usize, limit: Duration) -> [Outcome; 2] {
        /// What the second side has at least.
        const REST: Duration = Duration::from_millis(100);
        let deadline = Instant::now() + limit;
        [0, 1].map(|side| {
            let left = deadline.saturating_duration_since(Instant::now());
            self.lab.sides[side].receive(client, left.max(REST))
        })
    }

    fn send_both(&mut self, client: usize, request: &Request) -> Result<(), Stop> {
        for side in 0..2 {
            let frame = self.lab.frame(side, request);
            self.lab.sides[side].send(client, &frame)?;
        }
        Ok(())
    }

    /// Compares outcomes, after asking again where that is expected.
    fn settle(
        &mut self,
        client: usize,
        request: &Request,
        mut outcomes: [Outcome; 2],
        expect: Expect,
    ) -> Answer {
        self.step += 1;
        let deadline = Instant::now() + TRANSIENT_LIMIT;
        loop {
            let answers = [0, 1].map(|side| self.normal(side, request, &outcomes[side]));
            let transient = [0, 1].map(|side| is_transient(&answers[side].0));
            let is_settled = expect != Expect::SettledAnswer || transient == [false, false];
            if is_settled || Instant::now() >= deadline {
                self.try_damage(request, &outcomes, &answers);
                return self.conclude(request, answers, expect);
            }
            thread::sleep(RETRY_INTERVAL);
            for side in 0..2 {
                if transient[side] {
                    self.lab.tally.entry(request.api).or_default().asked_again[side] += 1;
                    let frame = self.lab.frame(side, request);
                    self.lab.sides[side].send(client, &frame)?;
                    outcomes[side] = self.lab.sides[side].receive(client, ANSWER_LIMIT);
                }
            }
        }
    }

    /// The comparable form of one side's answer, and that side's names with those it brought.
    fn normal(
        &self,
        side: usize,
        request: &Request,
        outcome: &Outcome,
    ) -> (Result<Struct, String>, Names) {
        let mut names = self.lab.sides[side].names.clone();
        let answer = self.lab.read(request, outcome);
        let message = format!("{}Response", request.api.facts().name);
        let answer = answer.map(|answer| normalize(&message, &answer, &mut names));
        (answer, names)
    }

    /// Flips a bit of the other server's answer, as a bad proxy would, when it equals Kafka's: the
    /// comparison must notice, unless the bit is in what a server may choose.
    fn try_damage(
        &mut self,
        request: &Request,
        outcomes: &[Outcome; 2],
        answers: &[(Result<Struct, String>, Names); 2],
    ) {
        let [(Ok(kafka), _), (Ok(other), _)] = answers else {
            return;
        };
        let Outcome::Answer(frame) = &outcomes[1] else {
            return;
        };
        if !compare(kafka, other).is_empty() || frame.len() <= CORRELATION_ID_BYTES {
            return;
        }
        let body_bytes = frame.len() - CORRELATION_ID_BYTES;
        let mut damaged = frame.clone();
        let at = CORRELATION_ID_BYTES + self.damage.below(body_bytes);
        damaged[at] ^= 1 << self.damage.below(8);
        let (answer, _) = self.normal(1, request, &Outcome::Answer(damaged));
        let is_noticed = match &answer {
            Ok(answer) => !compare(kafka, answer).is_empty(),
            Err(_) => true,
        };
        let tally = self.lab.tally.entry(request.api).or_default();
        tally.noticed += usize::from(is_noticed);
        tally.unnoticed += usize::from(!is_noticed);
    }

    fn conclude(
        &mut self,
        request: &Request,
        answers: [(Result<Struct, String>, Names); 2],
        expect: Expect,
    ) -> Answer {
        let [(kafka, kafka_names), (other, other_names)] = answers;
        self.lab.sides[0].names = kafka_names;
        self.lab.sides[1].names = other_names;
        let differences = match (&kafka, &other) {
            (Ok(kafka), Ok(other)) => compare(kafka, other),
            (Err(kafka), Err(other)) if kafka == other => Vec::new(),
            _ => {
                let text = |answer: &Result<Struct, String>| match answer {
                    Ok(answer) => answer.to_string(),
                    Err(reason) => format!("({reason})"),
                };
                vec![Difference {
                    path: "(outcome)".into(),
                    kafka: text(&kafka),
                    other: text(&other),
                }]
            }
        };
        let tally = self.lab.tally.entry(request.api).or_default();
        tally.requests += 1;
        tally.answers += usize::from(kafka.is_ok() && other.is_ok());
        let states_differ = differences.iter().any(Difference::tells_of_state);
        // What is sent damaged is sent once, so that a passing error cannot be asked away.
        let is_passing = expect == Expect::AnythingSound && is_transient(&kafka);
        let has_failed = has_failed(&kafka) || is_passing;
        if !differences.is_empty() && expect != Expect::Anything && has_failed {
            if expect == Expect::AnythingSound {
                return Ok(Struct::default());
            }
            return Err(Stop::Differs);
        }
        let name = request.api.facts().name;
        let mut fields = condition_fields(&request.body);
        let damage = request.note.split(" as ").next().unwrap_or_default();
        fields.push(("damage".into(), damage.into()));
        let exceptions = &self.lab.exceptions;
        let is_meant = |one: &Difference| exceptions.cover(name, request.version, &fields, one);
        let (meant, unmeant): (Vec<_>, Vec<_>) = differences.into_iter().partition(is_meant);
        tally.excepted += meant.len();
        let found = unmeant.into_iter().map(|difference| Found {
            sequence: self.prefix.clone(),
            step: self.step,
            api: request.api,
            version: request.version,
            request: format!("{}{}", request.body, request.note),
            difference,
        });
        self.found.extend(found);
        if states_differ || self.found.len() > MAX_FOUND {
            return Err(Stop::Differs);
        }
        Ok(kafka.unwrap_or_default())
    }
}

/// Whether Kafka has failed at the request: it gives no answer where there is one, or says that
/// it does not know what went wrong. What another server does then is its own affair.
fn has_failed(kafka: &Result<Struct, String>) -> bool {
    const UNKNOWN_SERVER_ERROR: i64 = -1;
    match kafka {
        Err(reason) => reason == NO_ANSWER,
        Ok(answer) => answer.leaves().iter().any(|(path, value)| {
            path.ends_with("ErrorCode") && value.as_integer() == Some(UNKNOWN_SERVER_ERROR)
        }),
    }
}

fn is_transient(answer: &Result<Struct, String>) -> bool {
    let Ok(answer) = answer else {
        return false;
    };
    answer.leaves().iter().any(|(path, value)| {
        let is_error = path == "ErrorCode" || path.ends_with(".ErrorCode");
        is_error
            && value
                .as_integer()
                .is_some_and(|code| TRANSIENT.contains(&code))
    })
}

/// The integer in a field of an answer; -1 when the version has none.
pub(super) fn integer(answer: &Struct, field: &str) -> i64 {
    answer
        .field(field)
        .and_then(Value::as_integer)
        .unwrap_or(-1)
}

/// A field of an answer; null when the version has none.
pub(super) fn value(answer: &Struct, field: &str) -> Value {
    answer.field(field).cloned().unwrap_or(Value::Null)
}
