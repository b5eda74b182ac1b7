//! What the application's calls and the background tasks of a consumer have in common.

use super::assignors::Topics;
use super::committed_offset::Offsets;
use super::config::{ConsumerConfig, GroupProtocol, IsolationLevel};
use super::fetcher::{FetchSettings, Fetcher, ScanRules};
use super::heartbeat_membership::{HeartbeatMembership, HeartbeatSettings};
use super::member::Member;
use super::membership::{Membership, MembershipSettings};
use super::streams_group::StreamsMember;
use super::turns::Turns;
use super::unresponsive_brokers::{Source, UnresponsiveBrokers};
use crate::Error;
use crate::cluster::{Brokers, BrokersOptions, Deadline, Metadata, Random};
use crate::config::Seed;
use model::{BrokerId, ErrorCode, TopicPartition};
use parking_lot::Mutex;
use regex_lite::Regex;
use std::collections::BTreeSet;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Shared by a consumer and its tasks.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) config: ConsumerConfig,
    /// What it is in a streams group.
    pub(super) streams: Option<StreamsMember>,
    pub(super) brokers: Brokers,
    /// Never held across an await.
    pub(super) state: Mutex<State>,
    /// Wakes a poll: records, events or errors are there.
    pub(super) application: Notify,
    /// Wakes the task that fetches.
    pub(super) fetching: Notify,
    /// Wakes the task of the membership.
    pub(super) joining: Notify,
    /// Commits one after the other, in the order of the calls.
    pub(super) commits: Turns,
    started: Instant,
}

/// The pure cores, and what is subscribed to.
#[derive(Debug)]
pub(super) struct State {
    pub(super) fetcher: Fetcher,
    /// With `group.id`.
    pub(super) membership: Option<Member>,
    pub(super) subscription: Subscription,
    /// Whether committed offsets are being asked for.
    pub(super) asks_committed: bool,
    /// What went wrong in the background, for the application.
    pub(super) error: Option<Error>,
    /// What does not answer.
    pub(super) troubles: UnresponsiveBrokers,
    /// The positions that were committed last at an interval, if nothing was committed since.
    pub(super) auto_committed: Offsets,
    /// Whether a commit of an interval has yet to end.
    pub(super) is_auto_committing: bool,
    /// The last generation of this subscription, kept when it is lost: by it a coordinator refuses
    /// the offsets that a producer commits for a member that was replaced.
    pub(super) last_member: Option<(String, i32)>,
    /// What the coordinator said when it refused the member last.
    pub(super) refusal: Option<String>,
}

impl State {
    /// Whether partitions come from a group, so that only its members may commit.
    pub(super) const fn is_subscribed(&self) -> bool {
        !matches!(
            self.subscription,
            Subscription::None | Subscription::Partitions
        )
    }

    /// Keeps in mind who the member is.
    pub(super) fn note_member(&mut self) {
        let member = self.membership.as_ref().map(Member::generation);
        if let Some((member_id, generation_id)) = member.filter(|(_, id)| *id >= 0) {
            self.last_member = Some((member_id.to_owned(), generation_id));
        }
    }
}

/// What the application wants to read.
#[derive(Debug)]
pub(super) enum Subscription {
    /// Nothing yet.
    None,
    /// These topics, as a member of the group.
    Topics(BTreeSet<String>),
    /// The topics whose whole name it matches, as a member of the group.
    Pattern(Regex),
    /// The topics that the coordinator finds to match it.
    RemotePattern,
    /// What the active tasks of a streams group read.
    Tasks,
    /// These partitions, whatever others read.
    Partitions,
}

impl Shared {
    pub(super) fn new(config: ConsumerConfig) -> Result<Self, Error> {
        config.check()?;
        let membership = member_of(&config)?;
        Self::with(config, membership, None)
    }

    /// Of a member of a streams group.
    pub(super) fn of_streams_group(
        config: ConsumerConfig,
        streams: StreamsMember,
    ) -> Result<Self, Error> {
        config.check()?;
        let settings = heartbeat_settings(&config)?;
        let topology = streams.topology.clone();
        let member = HeartbeatMembership::of_streams_group(settings, topology, 0);
        let member = Member::Streams(Box::new(member));
        Self::with(config, Some(member), Some(streams))
    }

    fn with(
        config: ConsumerConfig,
        membership: Option<Member>,
        streams: Option<StreamsMember>,
    ) -> Result<Self, Error> {
        let options = BrokersOptions {
            allow_auto_topic_creation: config.allow_auto_create_topics,
            metadata_max_idle_ms: None,
        };
        let brokers = Brokers::new(&config.client, options)?;
        brokers.want_only([]);
        let started = Instant::now();
        let state = State {
            fetcher: Fetcher::new(fetch_settings(&config)),
            membership,
            subscription: Subscription::None,
            asks_committed: false,
            error: None,
            troubles: UnresponsiveBrokers::new(ms(config.client.request_timeout_ms)),
            auto_committed: Offsets::new(),
            is_auto_committing: false,
            last_member: None,
            refusal: None,
        };
        Ok(Self {
            config,
            streams,
            brokers,
            state: Mutex::new(state),
            application: Notify::new(),
            fetching: Notify::new(),
            joining: Notify::new(),
            commits: Turns::default(),
            started,
        })
    }

    /// The time that the pure cores are told.
    pub(super) fn now_ms(&self) -> i64 {
        i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX)
    }

    /// The instant of a time that a pure core told.
    pub(super) fn instant(&self, at_ms: i64) -> Instant {
        // Beyond a day nothing is waited for without another look.
        let at_ms = u64::try_from(at_ms).unwrap_or(0);
        let now_ms = u64::try_from(self.now_ms()).unwrap_or(0);
        self.started + std::time::Duration::from_millis(at_ms.min(now_ms + 86_400_000))
    }

    /// The deadline of a call without a timeout of its own.
    pub(super) fn api_deadline(&self) -> Deadline {
        Deadline::after_ms(self.config.default_api_timeout_ms, "default.api.timeout.ms")
    }

    /// The deadline of one request to a broker.
    pub(super) fn request_deadline(&self) -> Deadline {
        Deadline::after_ms(self.config.client.request_timeout_ms, "request.timeout.ms")
    }

    /// Why the coordinator does not take the member.
    pub(super) fn refusal(&self, code: ErrorCode) -> Error {
        let said = self.state.lock().refusal.clone();
        self.refusal_with(code, said)
    }

    /// The same, with the coordinator's words.
    pub(super) fn refusal_with(&self, code: ErrorCode, said: Option<String>) -> Error {
        super::error::of_member(&self.config, self.streams.is_some(), code, said)
    }

    /// The group, which calls about committed offsets need.
    pub(super) fn group_id(&self) -> Result<&str, Error> {
        self.config.group_id.as_deref().ok_or_else(|| {
            let reason = "committed offsets and subscriptions belong to a group: set `group.id`";
            Error::Invalid(reason.to_owned())
        })
    }

    /// What has not answered for too long, if it is time to say so.
    pub(super) fn trouble(&self, state: &mut State, now_ms: i64) -> Option<Error> {
        let State {
            fetcher, troubles, ..
        } = state;
        match self.brokers.failing() {
            Some((since, error)) => {
                let failing_ms = i64::try_from(since.elapsed().as_millis()).unwrap_or(i64::MAX);
                troubles.handle_failure(Source::Metadata, now_ms - failing_ms, error);
            }
            None => troubles.handle_success(Source::Metadata),
        }
        troubles.take(now_ms, |node| fetcher.needs(node))
    }

    /// Notes whether what was asked for at `asked_at_ms` was answered.
    pub(super) fn note<T>(&self, source: Source, asked_at_ms: i64, answer: &Result<T, Error>) {
        let mut state = self.state.lock();
        match answer {
            Ok(_) => state.troubles.handle_success(source),
            Err(error) => {
                state
                    .troubles
                    .handle_failure(source, asked_at_ms, error.clone());
            }
        }
    }

    /// Asks the metadata for the topics that matter here, and for no others.
    pub(super) fn want_topics(&self) {
        let (wanted, wants_all) = {
            let state = self.state.lock();
            let mut wanted: BTreeSet<String> = state
                .fetcher
                .assigned()
                .map(|name| name.topic.clone())
                .collect();
            if let Subscription::Topics(topics) = &state.subscription {
                wanted.extend(topics.iter().cloned());
            }
            let membership = state.membership.iter();
            wanted.extend(membership.flat_map(Member::watched_topics));
            (
                wanted,
                matches!(
                    state.subscription,
                    Subscription::Pattern(_) | Subscription::RemotePattern
                ),
            )
        };
        self.brokers.want_only(wanted.iter().map(String::as_str));
        self.brokers.want_all(wants_all);
    }

    /// Tells the cores what the metadata says.
    pub(super) fn spread_metadata(&self) {
        let metadata = self.brokers.metadata();
        let mut state = self.state.lock();
        let State {
            fetcher,
            membership,
            subscription,
            error,
            ..
        } = &mut *state;
        let mut needs_refresh = false;
        let assigned: Vec<_> = fetcher.assigned().cloned().collect();
        for name in assigned {
            let id = metadata
                .topic(&name.topic)
                .map_or(model::Uuid::ZERO, |topic| topic.id);
            match metadata.leader(&name.topic, name.partition) {
                Some(leader) => fetcher.handle_leader(&name, id, Some(leader)),
                None => needs_refresh = true,
            }
        }
        if let Subscription::Topics(topics) = subscription {
            for topic in topics
                .iter()
                .filter(|topic| metadata.topic(topic).is_none())
            {
                needs_refresh = true;
                let code = metadata
                    .topic_error(topic)
                    .filter(|code| !code.is_retriable());
                if let Some(code) = code {
                    *error = Some(Error::Refused {
                        subject: format!("topic `{topic}`"),
                        code,
                        message: None,
                    });
                    self.application.notify_one();
                }
            }
        }
        if needs_refresh && metadata.updates() > 0 {
            self.brokers.request_refresh();
        }
        let Some(member) = membership else { return };
        self.tell_member(member, subscription, &metadata);
        drop(state);
        self.joining.notify_one();
    }

    /// Tells the member which topics there are.
    fn tell_member(&self, member: &mut Member, subscription: &Subscription, metadata: &Metadata) {
        match member {
            Member::Classic(member) => {
                if let Subscription::Pattern(pattern) = subscription
                    && metadata.updates() > 0
                {
                    let excludes_internal = self.config.exclude_internal_topics;
                    let topics = metadata.topics().filter(|topic| {
                        let is_excluded = excludes_internal && topic.is_internal;
                        pattern.is_match(&topic.name) && !is_excluded
                    });
                    member.subscribe(topics.map(|topic| topic.name.to_string()).collect());
                }
                let watched: Vec<&String> = member.watched_topics().collect();
                if !watched.is_empty() {
                    let topics = topics_of(metadata, watched.into_iter());
                    member.handle_topics(&topics);
                }
            }
            Member::Consumer(member) => {
                member.handle_names(|id| Some(metadata.topic_by_id(id)?.name.to_string()));
            }
            Member::Streams(member) => {
                member.handle_counts(|topic| {
                    let count = metadata.partition_count(topic).filter(|count| *count > 0)?;
                    i32::try_from(count).ok()
                });
            }
        }
        if member.needs_topics() {
            self.brokers.request_refresh();
        }
        if !matches!(member, Member::Classic(_)) && member.has_events() {
            self.application.notify_one();
        }
    }

    /// The partitions of `names` that are not assigned make an error.
    pub(super) fn not_assigned(name: &TopicPartition) -> Error {
        Error::Invalid(format!(
            "partition `{name}` is not assigned to this consumer"
        ))
    }
}

/// The topics of these names that exist, with the racks of their replicas.
pub(super) fn topics_of<'a>(
    metadata: &Metadata,
    names: impl Iterator<Item = &'a String>,
) -> Topics {
    let rack = |id: &BrokerId| metadata.broker(*id)?.rack.as_deref().map(str::to_owned);
    let known = names.filter_map(|name| Some((name.clone(), metadata.topic(name)?)));
    known
        .map(|(name, topic)| {
            let partitions = topic.partitions.iter();
            let racks = partitions.map(|p| p.replicas.iter().filter_map(rack).collect());
            (name, racks.collect())
        })
        .collect()
}

fn fetch_settings(config: &ConsumerConfig) -> FetchSettings {
    FetchSettings {
        max_bytes: config.fetch_max_bytes,
        partition_max_bytes: config.max_partition_fetch_bytes,
        reset: config.auto_offset_reset,
        retry_backoff_ms: ms(config.client.retry_backoff_ms),
        preferred_replica_ms: ms(config.client.metadata_max_age_ms),
        rules: ScanRules {
            is_read_committed: config.isolation_level == IsolationLevel::ReadCommitted,
            check_crcs: config.check_crcs,
        },
    }
}

/// The member that the consumer is to be, with `group.id`.
fn member_of(config: &ConsumerConfig) -> Result<Option<Member>, Error> {
    if config.group_id.is_none() {
        return Ok(None);
    }
    Ok(Some(match config.group_protocol {
        GroupProtocol::Classic => {
            let settings = MembershipSettings {
                group_instance_id: config.group_instance_id.clone(),
                session_timeout_ms: ms(config.session_timeout_ms),
                heartbeat_interval_ms: ms(config.heartbeat_interval_ms),
                max_poll_interval_ms: ms(config.max_poll_interval_ms),
                retry_backoff_ms: ms(config.client.retry_backoff_ms),
                retry_backoff_max_ms: ms(config.client.retry_backoff_max_ms),
                assignors: config.assignors.clone(),
                rack_id: rack_of(config),
            };
            Member::Classic(Membership::new(settings, 0))
        }
        GroupProtocol::Consumer => {
            let settings = heartbeat_settings(config)?;
            Member::Consumer(HeartbeatMembership::new(settings, 0))
        }
    }))
}

/// What a member is told whose coordinator assigns.
fn heartbeat_settings(config: &ConsumerConfig) -> Result<HeartbeatSettings, Error> {
    Ok(HeartbeatSettings {
        member_id: random_id(config.client.seed)?,
        group_instance_id: config.group_instance_id.clone(),
        max_poll_interval_ms: ms(config.max_poll_interval_ms),
        retry_backoff_ms: ms(config.client.retry_backoff_ms),
        retry_backoff_max_ms: ms(config.client.retry_backoff_max_ms),
        remote_assignor: config.remote_assignor.clone(),
        rack_id: rack_of(config),
    })
}

/// Where the consumer is, if it says so.
fn rack_of(config: &ConsumerConfig) -> Option<String> {
    let rack = &config.client.client_rack;
    (!rack.is_empty()).then(|| rack.clone())
}

/// A random id, as Kafka writes them.
fn random_id(seed: Seed) -> Result<String, Error> {
    #[cfg(test)]
    let seed = Seed(seed.0.or_else(crate::simulated::seed));
    if let Seed(Some(_)) = seed {
        let mut random = Random::of(seed, 4);
        let number = u128::from(random.next()) << 64 | u128::from(random.next());
        return Ok(model::Uuid::from_u128(number).to_string());
    }
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::Invalid(format!("the system gives no random id: {error}")))?;
    Ok(model::Uuid::from_u128(u128::from_be_bytes(bytes)).to_string())
}

fn ms(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
