//! ConsumerGroupHeartbeat: how a member joins, stays, gets partitions and leaves (KIP-848).

use super::assignor::Assignor;
use super::config::ConsumerGroupConfig;
use super::draft::{Before, Draft, Refusal};
use super::member::{ConsumerMember, LEFT_STATIC_MEMBER_EPOCH};
use super::partitions::Partitions;
use super::records;
use super::soft::SoftChange;
use super::subscription::Subscription;
use super::topic_regex::TopicRegex;
use model::{ErrorCode, Uuid};
use std::sync::Arc;

/// The epoch of a member that joins.
const JOINING_EPOCH: i32 = 0;
/// The epoch of a member that leaves for good.
const LEAVING_EPOCH: i32 = -1;

/// A member says that it lives, and what has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerGroupHeartbeat<'a> {
    /// The group.
    pub group_id: &'a str,
    /// Empty only in version 0, for a member without an id.
    pub member_id: &'a str,
    /// 0 to join, -1 to leave, -2 for a static member that will be back.
    pub member_epoch: i32,
    /// Set by static members (`group.instance.id`).
    pub instance_id: Option<&'a str>,
    /// `client.rack`.
    pub rack_id: Option<&'a str>,
    /// How long the member may take to give partitions up; -1 for no change.
    pub rebalance_timeout_ms: i32,
    /// `None` for no change.
    pub subscribed_topic_names: Option<Vec<&'a str>>,
    /// Versions from 1; `None` for no change, empty for none.
    pub subscribed_topic_regex: Option<TopicRegex<'a>>,
    /// The assignor that the member would like; `None` for no change.
    pub server_assignor: Option<&'a str>,
    /// What the member has; `None` for no change.
    pub owned_partitions: Option<Vec<(Uuid, Vec<i32>)>>,
    /// `client.id` of the request's header.
    pub client_id: &'a str,
    /// The peer's address as Kafka shows it, with a slash before: `/127.0.0.1`.
    pub client_host: &'a str,
    /// Versions from 1: the member brings its id.
    pub requires_member_id: bool,
    /// A random id for a member without one.
    pub random_member_id: &'a str,
}

impl Default for ConsumerGroupHeartbeat<'_> {
    /// Of a member that brings its id: it joins, and tells nothing else yet.
    fn default() -> Self {
        Self {
            group_id: "",
            member_id: "",
            member_epoch: JOINING_EPOCH,
            instance_id: None,
            rack_id: None,
            rebalance_timeout_ms: -1,
            subscribed_topic_names: None,
            subscribed_topic_regex: None,
            server_assignor: None,
            owned_partitions: None,
            client_id: "",
            client_host: "",
            requires_member_id: true,
            random_member_id: "",
        }
    }
}

/// The answer to [`ConsumerGroupHeartbeat`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerGroupHeartbeatResponse {
    /// The member's id.
    pub member_id: Arc<str>,
    /// The member's epoch.
    pub member_epoch: i32,
    /// When to send the next heartbeat; 0 for a member that left.
    pub heartbeat_interval_ms: i32,
    /// What the member is to have, by topic; `None` for no change.
    pub assignment: Option<Vec<(Uuid, Vec<i32>)>>,
}

impl ConsumerGroupHeartbeat<'_> {
    pub(in crate::group) const fn joins(&self) -> bool {
        self.member_epoch == JOINING_EPOCH
    }

    pub(in crate::group) const fn leaves(&self) -> bool {
        self.member_epoch == LEAVING_EPOCH || self.member_epoch == LEFT_STATIC_MEMBER_EPOCH
    }

    /// Whether the request tells everything of the member, as after an error.
    const fn is_full(&self) -> bool {
        self.rebalance_timeout_ms != -1
            && (self.subscribed_topic_names.is_some() || self.subscribed_topic_regex.is_some())
            && self.owned_partitions.is_some()
    }

    /// Checks what needs no group to be checked.
    pub(in crate::group) fn validate(&self, config: &ConsumerGroupConfig) -> Result<(), Refusal> {
        let refuse = |message: &str| Err(Refusal::new(ErrorCode::InvalidRequest, message));
        let is_empty = |text: Option<&str>| text.is_some_and(|text| text.trim().is_empty());
        let must_name_itself =
            self.requires_member_id || self.member_epoch > 0 || self.member_epoch == LEAVING_EPOCH;
        if must_name_itself && self.member_id.trim().is_empty() {
            return refuse("MemberId can't be empty.");
        }
        if self.group_id.trim().is_empty() {
            return refuse("GroupId can't be empty.");
        }
        if is_empty(self.instance_id) {
            return refuse("InstanceId can't be empty.");
        }
        if is_empty(self.rack_id) {
            return refuse("RackId can't be empty.");
        }
        if self.joins() {
            if self.rebalance_timeout_ms == -1 {
                return refuse("RebalanceTimeoutMs must be provided in first request.");
            }
            if self
                .owned_partitions
                .as_ref()
                .is_none_or(|owned| !owned.is_empty())
            {
                return refuse("TopicPartitions must be empty when (re-)joining.");
            }
            if self.subscribed_topic_names.is_none() && self.subscribed_topic_regex.is_none() {
                return refuse(
                    "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
                );
            }
        } else if self.member_epoch == LEFT_STATIC_MEMBER_EPOCH {
            if self.instance_id.is_none() {
                return refuse("InstanceId can't be null.");
            }
        } else if self.member_epoch < LEAVING_EPOCH {
            return refuse("MemberEpoch is invalid.");
        }
        let offered = &config.assignors;
        match self.server_assignor {
            Some(name) if !offered.iter().any(|one| one.name() == name) => {
                let names: Vec<&str> = offered.iter().map(|one| Assignor::name(*one)).collect();
                let message = format!(
                    "ServerAssignor {name} is not supported. Supported assignors: {}.",
                    names.join(", ")
                );
                Err(Refusal::new(ErrorCode::UnsupportedAssignor, message))
            }
            _ => Ok(()),
        }
    }
}

impl Draft<'_> {
    /// Decides about the heartbeat of a member that does not leave.
    pub(in crate::group) fn heartbeat(
        &mut self,
        request: &ConsumerGroupHeartbeat<'_>,
    ) -> Result<ConsumerGroupHeartbeatResponse, Refusal> {
        let member_id = match request.member_id {
            "" => request.random_member_id,
            member_id => member_id,
        };
        self.check_room(member_id)?;
        let owned = request
            .owned_partitions
            .as_ref()
            .map(|owned| owned_partitions(owned));
        let before = match request.instance_id {
            None => {
                let before = self.dynamic_member(member_id, request.joins())?;
                check_epoch(&before.member, request.member_epoch, owned.as_ref())?;
                before
            }
            Some(instance_id) if request.joins() => {
                self.joining_static_member(member_id, instance_id, false)?
            }
            Some(instance_id) => {
                let before = self.static_member(member_id, instance_id)?;
                check_epoch(&before.member, request.member_epoch, owned.as_ref())?;
                before
            }
        };
        self.check_regex(&before, request)?;
        let updated = self.with_request(&before.member, request);
        let changes = self.update_member(&before, &updated, true);
        let target = self.update_target(&before, &updated, changes.group_epoch);
        let has_changed = changes.has_subscription_changed;
        let updated = self.reconcile(updated, &target, has_changed, owned.as_ref())?;

        let own = self.config.of_group(self.group_id);
        let id = Arc::clone(&updated.id);
        self.changes
            .push(SoftChange::Session(Arc::clone(&id), own.session_timeout_ms));
        let is_told = request.joins()
            || request.is_full()
            || !updated
                .assigned
                .has_same_partitions(&before.member.assigned);
        Ok(ConsumerGroupHeartbeatResponse {
            member_id: id,
            member_epoch: updated.member_epoch,
            heartbeat_interval_ms: own.heartbeat_interval_ms,
            assignment: is_told.then(|| assignment(&updated)),
        })
    }

    /// The member as the request changes it.
    fn with_request(
        &self,
        member: &ConsumerMember,
        request: &ConsumerGroupHeartbeat<'_>,
    ) -> ConsumerMember {
        let mut updated = member.clone();
        replace_text(&mut updated.instance_id, request.instance_id);
        replace_text(&mut updated.rack_id, request.rack_id);
        replace_text(&mut updated.server_assignor, request.server_assignor);
        if request.rebalance_timeout_ms != -1 {
            updated.rebalance_timeout_ms = request.rebalance_timeout_ms;
        }
        if request.subscribed_topic_names.is_some() || request.subscribed_topic_regex.is_some() {
            let known = &member.subscription;
            let regex = request.subscribed_topic_regex.as_ref();
            let regex = regex.map_or(&*known.regex, |regex| regex.text);
            let subscription = match &request.subscribed_topic_names {
                Some(names) => Subscription::new(names.iter().copied(), regex),
                None => Subscription::new(known.topics.iter().map(|name| &**name), regex),
            };
            updated.subscription = self.group.share_subscription(subscription);
        }
        if *updated.client_id != *request.client_id {
            updated.client_id = Arc::from(request.client_id);
        }
        if *updated.client_host != *request.client_host {
            updated.client_host = Arc::from(request.client_host);
        }
        updated.classic = None;
        updated
    }

    /// The static member of an instance, which the request has to come from.
    pub(super) fn static_member(
        &self,
        member_id: &str,
        instance_id: &str,
    ) -> Result<Before, Refusal> {
        let member = self.group.static_member(instance_id).ok_or_else(|| {
            let message = format!("Instance id {instance_id} is unknown.");
            Refusal::new(ErrorCode::UnknownMemberId, message)
        })?;
        if *member.id != *member_id {
            let message = format!(
                "Static member {member_id} with instance id {instance_id} was fenced by member {}.",
                member.id
            );
            return Err(Refusal::new(ErrorCode::FencedInstanceId, message));
        }
        Ok(Before {
            member: member.clone(),
            replaced: None,
        })
    }

    /// A static member that joins: it takes the place of the one that left under its instance id.
    pub(super) fn joining_static_member(
        &mut self,
        member_id: &str,
        instance_id: &str,
        uses_classic_protocol: bool,
    ) -> Result<Before, Refusal> {
        let group = self.group;
        let Some(existing) = group.static_member(instance_id) else {
            return self.dynamic_member(member_id, true);
        };
        let has_left = existing.member_epoch == LEFT_STATIC_MEMBER_EPOCH;
        if !uses_classic_protocol && !existing.uses_classic_protocol() && !has_left {
            let message = format!(
                "Static member {member_id} with instance id {instance_id} cannot join the group because \
                 the instance id is owned by member {}.",
                existing.id
            );
            return Err(Refusal::new(ErrorCode::UnreleasedInstanceId, message));
        }
        let member = ConsumerMember {
            id: Arc::from(member_id),
            member_epoch: JOINING_EPOCH,
            previous_member_epoch: 0,
            ..existing.clone()
        };
        let tombstones = records::member_tombstones(self.group_id, &existing.id);
        self.records.extend(tombstones);
        self.records.push(records::member(self.group_id, &member));
        let target = group.target(&existing.id, None);
        self.records
            .push(records::target(self.group_id, member_id, &target));
        self.records.push(records::current(self.group_id, &member));
        if *existing.id != *member_id {
            self.changes
                .push(SoftChange::Forget(Arc::clone(&existing.id)));
        }
        Ok(Before {
            member,
            replaced: Some(Arc::clone(&existing.id)),
        })
    }
}

/// Checks that the member is where the coordinator thinks it is. One that is an epoch behind may
/// have missed an answer, if it has nothing that is not its own.
fn check_epoch(
    member: &ConsumerMember,
    epoch: i32,
    owned: Option<&Partitions>,
) -> Result<(), Refusal> {
    let known = member.member_epoch;
    let has_only_its_own = || {
        owned.is_some_and(|owned| {
            let mut owned = owned.iter();
            owned.all(|(topic_id, index, ())| member.assigned.contains(topic_id, index))
        })
    };
    let relation = match epoch {
        JOINING_EPOCH => return Ok(()),
        _ if epoch > known => "greater",
        _ if epoch == known => return Ok(()),
        _ if epoch == member.previous_member_epoch && has_only_its_own() => return Ok(()),
        _ => "smaller",
    };
    let message = format!(
        "The consumer group member has a {relation} member epoch ({epoch}) than the one known by the \
         group coordinator ({known}). The member must abandon all its partitions and rejoin."
    );
    Err(Refusal::new(ErrorCode::FencedMemberEpoch, message))
}

fn replace_text(text: &mut Option<Arc<str>>, new: Option<&str>) {
    if new.is_some() && text.as_deref() != new {
        *text = new.map(Arc::from);
    }
}

fn owned_partitions(owned: &[(Uuid, Vec<i32>)]) -> Partitions {
    let topics = owned.iter();
    let partitions = topics
        .flat_map(|(topic_id, indexes)| indexes.iter().map(move |index| (*topic_id, *index, ())));
    partitions.collect()
}

fn assignment(member: &ConsumerMember) -> Vec<(Uuid, Vec<i32>)> {
    let topics = member.assigned.topics().iter();
    topics
        .map(|topic| {
            let indexes = topic.partitions.iter().map(|(index, _)| *index);
            (topic.topic_id, indexes.collect())
        })
        .collect()
}
