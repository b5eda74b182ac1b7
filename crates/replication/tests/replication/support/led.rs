//! A partition that broker 1 leads, driven by a script: its followers fetch, the controller answers, time goes on.

use super::{Served, batch, request};
use expect_test::Expect;
use metadata::{BrokerRegistration, MetadataImage, MetadataRecord};
use model::{BrokerEpoch, BrokerId, ErrorCode, LeaderEpoch, MonotonicTime, Offset, Uuid};
use replication::{
    Acks, AppendError, CommittedIsr, FollowerFetch, Isolation, IsrAnswer, IsrProposal, ReadRequest,
    Replicas, Role, SessionTime,
};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use storage::LogConfig;

/// The broker of the partition.
pub(crate) const LEADER: BrokerId = BrokerId(1);
/// `replica.lag.time.max.ms`.
pub(crate) const LAG_MAX_MS: i64 = 100;

/// The words of a line, and what it says as `name=value`.
pub(crate) struct Line<'a> {
    pub(crate) words: Vec<&'a str>,
    fields: BTreeMap<&'a str, &'a str>,
}

impl<'a> Line<'a> {
    pub(crate) fn new(line: &'a str) -> Self {
        let (fields, words): (Vec<&str>, Vec<&str>) =
            line.split_whitespace().partition(|word| word.contains('='));
        let fields = fields.into_iter().map(|one| one.split_once('=').unwrap());
        Self {
            words,
            fields: fields.collect(),
        }
    }

    pub(crate) fn number(&self, at: usize) -> i64 {
        self.words.get(at).map_or(-1, |word| word.parse().unwrap())
    }

    pub(crate) fn field(&self, name: &str) -> Option<i64> {
        self.fields.get(name).map(|value| value.parse().unwrap())
    }

    pub(crate) fn ids(&self, name: &str) -> Vec<BrokerId> {
        let ids = self.fields.get(name).copied().unwrap_or_default();
        ids.split(',').filter_map(|id| id.parse().ok()).collect()
    }

    pub(crate) fn has(&self, word: &str) -> bool {
        self.words.contains(&word)
    }
}

/// What the metadata make of broker 1: `lead EPOCH at PE of=FOLLOWERS isr=ISR`, `follow LEADER EPOCH`, `none`.
pub(crate) fn role(line: &Line<'_>) -> Role {
    let leader_epoch = |at| LeaderEpoch(line.number(at) as i32);
    match line.words[0] {
        "lead" => {
            let followers = line.ids("of");
            let replicas = (!followers.is_empty()).then(|| {
                Arc::new(Replicas {
                    leader: LEADER,
                    partition_epoch: line.field("at").unwrap_or(0) as i32,
                    followers,
                    isr: line.ids("isr"),
                })
            });
            Role::Leader {
                leader_epoch: leader_epoch(1),
                replicas,
            }
        }
        "follow" => Role::Follower {
            leader: BrokerId(line.number(1) as i32),
            leader_epoch: leader_epoch(2),
        },
        _ => Role::None,
    }
}

type Waiting<'a> = Pin<Box<dyn Future<Output = String> + 'a>>;

/// The partition, with what is around it.
pub(crate) struct Led {
    pub(crate) served: Served,
    image: MetadataImage,
    sessions: BTreeMap<BrokerId, Arc<SessionTime>>,
    pub(crate) now: MonotonicTime,
    /// The request that the controller has not answered.
    in_flight: Option<Vec<IsrProposal>>,
}

impl Led {
    /// Led in epoch 0, alone, at time 1000; brokers 2 to 4 are there, registered in epochs 20 to 40.
    pub(crate) fn new() -> Self {
        let served = Served::new();
        let mut led = Self {
            served,
            image: MetadataImage::default(),
            sessions: BTreeMap::new(),
            now: MonotonicTime::from_ms(1000),
            in_flight: None,
        };
        let leaders = led.served.host.leaders().clone();
        leaders.set_lag_max_ms(LAG_MAX_MS);
        leaders.note_time(led.now);
        for id in 2..=4 {
            led.register(&Line::new(&format!("broker {id} be={id}0")));
        }
        led
    }

    /// `broker ID be=EPOCH [fenced] [leaving]`.
    fn register(&mut self, line: &Line<'_>) {
        let id = BrokerId(line.number(1) as i32);
        let broker = BrokerRegistration {
            id,
            epoch: BrokerEpoch(line.field("be").unwrap()),
            incarnation_id: Uuid::from_u128(1),
            endpoints: Vec::new(),
            features: BTreeMap::default(),
            rack: None,
            is_fenced: line.has("fenced"),
            is_in_controlled_shutdown: line.has("leaving"),
            is_migrating_zk_broker: false,
            directories: Vec::new(),
            cordoned_directories: None,
        };
        let registered = MetadataRecord::RegisterBroker(broker);
        self.image.replay(&registered).unwrap();
        let leaders = self.served.host.leaders();
        leaders.set_cluster(self.image.cluster.clone());
    }

    /// `fetch ID OFFSET [be=] [le=] [last=] [start=] [of-session] [waited] [throttled]`.
    fn fetch(&mut self, line: &Line<'_>) -> String {
        let broker_id = BrokerId(line.number(1) as i32);
        let own_epoch = i64::from(broker_id.0) * 10;
        let session = self.sessions.entry(broker_id).or_default();
        let fetch = FollowerFetch {
            broker_id,
            broker_epoch: BrokerEpoch(line.field("be").unwrap_or(own_epoch)),
            log_start_offset: Offset(line.field("start").unwrap_or(0)),
            now: self.now,
            session: line.has("of-session").then_some(&*session),
            has_waited: line.has("waited"),
            is_throttled: line.has("throttled"),
        };
        let request = ReadRequest {
            current_leader_epoch: LeaderEpoch(line.field("le").unwrap_or(-1) as i32),
            last_fetched_epoch: LeaderEpoch(line.field("last").unwrap_or(-1) as i32),
            isolation: Isolation::LogEnd,
            ..request(line.number(2))
        };
        match self.served.partition.read_as_follower(&request, &fetch) {
            Ok(read) => match read.diverging_epoch {
                Some((epoch, end)) => format!("diverges at {end} in {epoch}"),
                None => format!(
                    "{}, hw {}",
                    if read.records.is_some() {
                        "records"
                    } else {
                        "nothing"
                    },
                    read.offsets.high_watermark
                ),
            },
            Err(error) => error.code().to_string(),
        }
    }

    /// `send`: what the controller is asked.
    fn send(&mut self) -> String {
        let leaders = self.served.host.leaders();
        self.in_flight = leaders
            .with_proposals(|proposals| proposals.poll_request(self.now))
            .or(self.in_flight.take());
        let Some(request) = &self.in_flight else {
            return "nothing to ask".to_owned();
        };
        let mut text = String::new();
        for one in request {
            write!(
                text,
                "le={} pe={} isr=",
                one.leader_epoch, one.partition_epoch
            )
            .unwrap();
            let isr = one.isr.iter().map(|(id, epoch)| match epoch.is_none() {
                false => format!("{id}@{epoch}"),
                true => format!("{id}"),
            });
            text.push_str(&isr.collect::<Vec<_>>().join(","));
        }
        text
    }

    /// `answer ok isr= pe= [le=]`, `answer ERROR`, `answer top ERROR`, `answer nothing`.
    fn answer(&mut self, line: &Line<'_>) {
        let error = |at: usize| {
            let mut all = ErrorCode::ALL.iter();
            *all.find(|one| one.name() == line.words[at]).unwrap()
        };
        let request = self.in_flight.take().unwrap();
        let answer: Result<Vec<_>, ErrorCode> = match line.words[1] {
            "top" => Err(error(2)),
            "nothing" => Ok(Vec::new()),
            "ok" => {
                let of = |one: &IsrProposal| CommittedIsr {
                    leader_epoch: line
                        .field("le")
                        .map_or(one.leader_epoch, |epoch| LeaderEpoch(epoch as i32)),
                    isr: line.ids("isr"),
                    partition_epoch: line.field("pe").unwrap() as i32,
                };
                Ok(request.iter().map(|one| (one.key, Ok(of(one)))).collect())
            }
            _ => Ok(request.iter().map(|one| (one.key, Err(error(1)))).collect()),
        };
        let leaders = self.served.host.leaders();
        let told: Vec<(IsrProposal, IsrAnswer)> =
            leaders.with_proposals(|proposals| proposals.handle_answer(answer, self.now));
        for (proposal, answer) in told {
            let partition = &self.served.partition;
            partition.apply_isr_answer(proposal.number, &answer);
        }
    }

    fn pass(&mut self, ms: i64) {
        self.now = self.now.plus_ms(ms);
        self.served.host.leaders().note_time(self.now);
    }

    /// What a line does.
    pub(crate) fn act(&mut self, text: &str) -> String {
        let line = &Line::new(text);
        let number = || line.number(1);
        let id = || BrokerId(number() as i32);
        match line.words[0] {
            "broker" => self.register(line),
            "gone" => self.unregister(id()),
            "pass" => self.pass(number()),
            "fetch" => return self.fetch(line),
            // The session of a follower fetches, and names nothing.
            "fetches" => self.sessions.entry(id()).or_default().note(self.now),
            "forget" => {
                let session = self.sessions.entry(id()).or_default();
                self.served.partition.leave_session(id(), session);
            }
            "check" => {
                let patience = Duration::from_secs(10);
                assert!(self.served.partition.check_followers(self.now, patience));
            }
            "send" => return self.send(),
            "answer" => self.answer(line),
            "min" => self.set_min_insync_replicas(number() as u32),
            _ => return self.ask(line),
        }
        String::new()
    }

    /// What is asked of the partition alone.
    fn ask(&self, line: &Line<'_>) -> String {
        let partition = &self.served.partition;
        let show = |result: Result<Offset, AppendError>| match result {
            Ok(offset) => offset.to_string(),
            Err(error) => error.code().to_string(),
        };
        match line.words[0] {
            "append" => {
                let acks = match line.has("all") {
                    true => Acks::All,
                    false => Acks::Leader,
                };
                let appended = partition.append_as_leader(&mut batch(0, 1), None, acks, 0);
                show(appended.map(|one| one.base_offset))
            }
            "delete" => show(partition.delete_records_before(Offset(line.number(1)))),
            "low" => {
                let low_watermark = partition.low_watermark();
                format!("{:?}", low_watermark.map(|one| one.offset()))
            }
            "current" => partition.is_high_watermark_current().to_string(),
            "followers" => {
                let shown = partition.followers().into_iter().map(|one| {
                    let at = match one.last_caught_up.as_ms() {
                        ..0 => "never".to_owned(),
                        at => at.to_string(),
                    };
                    format!("{}: {} caught up {at}", one.broker_id, one.log_end_offset)
                });
                shown.collect::<Vec<_>>().join("; ")
            }
            "looked-after" => {
                let followed = self.served.host.leaders().followed();
                assert!(followed.iter().all(|key| *key == partition.key()));
                (!followed.is_empty()).to_string()
            }
            "rest" => format!("{:?}", partition.rest_synced(0).unwrap()),
            "lead" | "follow" | "none" => match partition.take_role(role(line)).unwrap() {
                true => "elected".to_owned(),
                false => String::new(),
            },
            other => panic!("no action `{other}`"),
        }
    }

    fn unregister(&mut self, broker_id: BrokerId) {
        let removed = MetadataRecord::UnregisterBroker {
            broker_id,
            broker_epoch: BrokerEpoch(i64::from(broker_id.0) * 10),
        };
        self.image.replay(&removed).unwrap();
        let leaders = self.served.host.leaders();
        leaders.set_cluster(self.image.cluster.clone());
    }

    fn set_min_insync_replicas(&self, count: u32) {
        let partition = &self.served.partition;
        partition.set_config(Arc::new(LogConfig {
            min_insync_replicas: count,
            ..(*partition.config()).clone()
        }));
    }

    /// High watermark and log end, in-sync replicas and the epochs.
    pub(crate) fn shown(&self) -> String {
        let partition = &self.served.partition;
        let offsets = partition.offsets();
        let role = partition.role();
        let mut text = format!("{}/{}", offsets.high_watermark, offsets.log_end_offset);
        if let Some(replicas) = role.replicas() {
            let isr: Vec<String> = replicas.isr.iter().map(ToString::to_string).collect();
            write!(text, " [{}] at {}", isr.join(","), replicas.partition_epoch).unwrap();
        }
        text
    }
}

/// Compares what a script shows.
#[expect(clippy::needless_pass_by_value, reason = "as it is written")]
pub(crate) fn check(script: &str, expect: Expect) {
    expect.assert_eq(&played(script));
}

/// Plays a script; a line `wait OFFSET` or `wait-deleted OFFSET` is shown where it ends.
fn played(script: &str) -> String {
    let mut led = Led::new();
    let mut text = String::new();
    let lines = script
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty());
    let mut waits: Vec<(String, Waiting<'static>)> = Vec::new();
    for line in lines {
        let words = Line::new(line);
        let outcome = match words.words[0] {
            "wait" | "wait-deleted" => {
                waits.push((line.to_owned(), led.wait(&words)));
                String::new()
            }
            _ => led.act(line),
        };
        write!(text, "{line:<32} {}", led.shown()).unwrap();
        if !outcome.is_empty() {
            write!(text, ", {outcome}").unwrap();
        }
        waits.retain_mut(|(name, wait)| {
            let ended = wait.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            if let Poll::Ready(outcome) = &ended {
                write!(text, ", {name}: {outcome}").unwrap();
            }
            ended.is_pending()
        });
        text.push('\n');
    }
    text
}

impl Led {
    fn wait(&self, line: &Line<'_>) -> Waiting<'static> {
        let partition = self.served.partition.clone();
        let (offset, leadership) = (line.number(1), partition.leadership());
        let low_watermark = partition.low_watermark();
        let low_watermark = low_watermark.filter(|_| line.words[0] == "wait-deleted");
        Box::pin(async move {
            let ended: Result<Offset, ErrorCode> = match low_watermark {
                Some(low_watermark) => {
                    partition
                        .wait_for_low_watermark(leadership, &low_watermark, Offset(offset))
                        .await
                }
                None => partition
                    .wait_until_replicated(leadership, Offset(offset))
                    .await
                    .map(|()| Offset(offset)),
            };
            match ended {
                Ok(offset) => format!("done at {offset}"),
                Err(error) => error.to_string(),
            }
        })
    }
}
