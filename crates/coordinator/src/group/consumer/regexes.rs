//! Regular expressions that members subscribe to: when they are resolved, and to what.
//!
//! A heartbeat that brings a new one, or that comes after topics were created, asks for all of
//! the group's expressions to be resolved. That is done apart from the shard (`resolution`), since
//! one that nobody has used goes through all topics; the group's epoch moves on when the topics are
//! others than before.

use super::draft::{Before, Draft, Refusal, RegexChange};
use super::heartbeat::ConsumerGroupHeartbeat;
use super::member::ConsumerMember;
use super::records;
use super::resolution::{Matching, RegexResolution};
use super::soft::SoftChange;
use super::subscription::{ResolvedRegex, Subscription};
use super::topic_regex::TopicRegex;
use model::ErrorCode;
use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

/// Expressions are resolved at most this often, whatever happens.
const RESOLVE_INTERVAL_MIN_MS: i64 = 10_000;

impl Draft<'_> {
    /// Refuses what a member asks for that is no regular expression; one that the group has was
    /// looked at before.
    pub(super) fn check_regex(
        &self,
        before: &Before,
        request: &ConsumerGroupHeartbeat<'_>,
    ) -> Result<(), Refusal> {
        let asked = request.subscribed_topic_regex.as_ref();
        let Some(TopicRegex { text, fault }) = asked else {
            return Ok(());
        };
        let is_known = *before.member.subscription.regex == **text
            || self.group.regex_subscriber_count(text) > 0;
        match fault {
            Some(fault) if !is_known => {
                let message = format!(
                    "SubscribedTopicRegex `{text}` is not a valid regular expression: {fault}."
                );
                Err(Refusal::new(ErrorCode::InvalidRegularExpression, message))
            }
            _ => Ok(()),
        }
    }

    /// Looks after the regular expressions when a member has, or may have, another one.
    pub(super) fn update_regex(
        &mut self,
        before: &Before,
        updated: &ConsumerMember,
    ) -> RegexChange {
        let (old, new) = (
            &before.member.subscription.regex,
            &updated.subscription.regex,
        );
        let group = self.group;
        let mut change = RegexChange::None;
        let mut is_new = false;
        if old != new {
            change = RegexChange::Changed;
            if !old.is_empty() && group.regex_subscriber_count(old) == 1 {
                self.records
                    .push(records::regex_tombstone(self.group_id, old));
            }
            if new.is_empty() {
                change = RegexChange::ChangedAndResolved;
            } else if group.regex_subscriber_count(new) == 0 {
                is_new = true;
            } else if group.resolved().contains_key(new) {
                change = RegexChange::ChangedAndResolved;
            }
        }
        if self.has_to_resolve(before, updated, is_new) {
            self.changes.push(SoftChange::Resolve);
        }
        if change != RegexChange::None {
            let gone: Vec<&ConsumerMember> = self.predecessor(before).into_iter().collect();
            let left = group.subscriptions_after(&gone, Some(&updated.subscription));
            self.resolve_nothing_without(&left);
        }
        change
    }

    /// Nobody waits for regular expressions when there are none any more.
    pub(super) fn resolve_nothing_without(&mut self, left: &BTreeSet<&Subscription>) {
        if self.soft.is_resolving() && !left.iter().any(|one| one.has_regex()) {
            self.changes.push(SoftChange::EndResolve);
        }
    }

    fn has_to_resolve(&self, before: &Before, updated: &ConsumerMember, is_new: bool) -> bool {
        let group = self.group;
        let is_used = group.has_regexes();
        if (!is_new && !is_used) || self.soft.is_resolving() {
            return false;
        }
        let last = group.resolved().values().next();
        let age_ms = last.map_or(i64::MAX, |regex| self.age_ms(regex.timestamp_ms));
        if (0..=RESOLVE_INTERVAL_MIN_MS).contains(&age_ms) {
            return false;
        }
        let gone: Vec<&ConsumerMember> = self.predecessor(before).into_iter().collect();
        let subscriptions = group.subscriptions_after(&gone, Some(&updated.subscription));
        let regexes: BTreeSet<&str> = regexes_of(subscriptions.into_iter());
        let version = last.map_or(0, |regex| regex.version);
        let interval_ms = i64::from(self.config.regex_refresh_interval_ms);
        let has_to = is_new
            || regexes.len() != group.resolved().len()
            || version < self.topics.newest_topics_version()
            || !(0..=interval_ms).contains(&age_ms);
        has_to && !regexes.is_empty()
    }

    /// What is to be done for the group's regular expressions to be resolved.
    pub(in crate::group) fn resolution(
        &mut self,
        group_id: Arc<str>,
        wanted: Weak<()>,
    ) -> RegexResolution {
        let subscriptions = self.group.subscriptions().keys();
        let regexes = regexes_of(subscriptions.map(|one| &**one));
        let interval_ms = i64::from(self.config.regex_refresh_interval_ms);
        let interval_ms = interval_ms.max(RESOLVE_INTERVAL_MIN_MS);
        // Every group asks again within the interval, or soon after.
        self.topics
            .forget_matching(self.now.monotonic.plus_ms(interval_ms.saturating_mul(-2)));
        let regexes = regexes.into_iter().map(Arc::from);
        let todo = regexes.map(|regex| self.topics.known_matching(regex, self.now.monotonic));
        let todo = todo.collect();
        RegexResolution::new(group_id, wanted, self.topics.all(), todo)
    }

    /// The group's regular expressions are resolved, but for those that have come meanwhile; those
    /// that nobody subscribes to any more are left out.
    pub(in crate::group) fn take_resolved(&mut self, found: Vec<(Arc<str>, Arc<Matching>)>) {
        let group = self.group;
        let subscriptions = group.subscriptions().keys();
        let regexes = regexes_of(subscriptions.map(|one| &**one));
        let mut after = group.resolved().clone();
        let mut has_changed = false;
        for (regex, matching) in found {
            if !regexes.contains(&*regex) {
                continue;
            }
            let resolved = ResolvedRegex {
                topics: Arc::clone(&matching.names),
                version: matching.version,
                timestamp_ms: self.now.wall_ms,
            };
            self.topics.learn(&regex, matching, self.now.monotonic);
            self.records
                .push(records::regex(self.group_id, &regex, &resolved));
            let topics = Arc::clone(&resolved.topics);
            let known = after.insert(regex, resolved);
            has_changed |= known.map_or(!topics.is_empty(), |known| known.topics != topics);
        }
        let subscriptions = group.subscriptions().keys();
        let names: BTreeSet<&str> = subscriptions
            .flat_map(|one| one.topics(&after))
            .map(|name| &**name)
            .collect();
        let hash = self.topics.hash_of(&names);
        if has_changed || hash != group.metadata_hash {
            self.bump_epoch(hash);
        }
    }
}

fn regexes_of<'s>(subscriptions: impl Iterator<Item = &'s Subscription>) -> BTreeSet<&'s str> {
    let regexes = subscriptions.map(|one| &*one.regex);
    regexes.filter(|regex| !regex.is_empty()).collect()
}
