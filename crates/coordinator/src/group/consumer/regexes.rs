//! Regular expressions that members subscribe to: when they are resolved, and to what.
//!
//! A heartbeat that brings a new one, or that comes after topics were created, asks for all of
//! the group's expressions to be resolved. That is done apart from the heartbeat, since one that
//! nobody has used goes through all topics; the group's epoch moves on when the topics are others
//! than before.

use super::draft::{Before, Draft, Refusal, RegexChange};
use super::member::ConsumerMember;
use super::records;
use super::soft::SoftChange;
use super::subscription::{ResolvedRegex, Subscription};
use super::topic_pattern::TopicPattern;
use model::ErrorCode;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Expressions are resolved at most this often, whatever happens.
const RESOLVE_INTERVAL_MIN_MS: i64 = 10_000;

impl Draft<'_> {
    /// Looks after the regular expressions when a member has, or may have, another one.
    pub(super) fn update_regex(
        &mut self,
        before: &Before,
        updated: &ConsumerMember,
    ) -> Result<RegexChange, Refusal> {
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
                check_regex(new)?;
                is_new = true;
            } else if group.resolved().contains_key(new) {
                change = RegexChange::ChangedAndResolved;
            }
        }
        if self.has_to_resolve(before, updated, is_new) {
            self.changes.push(SoftChange::Resolve);
        }
        Ok(change)
    }

    fn has_to_resolve(&self, before: &Before, updated: &ConsumerMember, is_new: bool) -> bool {
        let group = self.group;
        let is_used = group.subscriptions().keys().any(|one| one.has_regex());
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
        let interval_ms = i64::from(self.config.consumer.regex_refresh_interval_ms);
        let has_to = is_new
            || regexes.len() != group.resolved().len()
            || version < self.topics.newest_topics_version()
            || !(0..=interval_ms).contains(&age_ms);
        has_to && !regexes.is_empty()
    }

    /// Resolves the group's regular expressions.
    pub(super) fn resolve_regexes(&mut self) {
        let group = self.group;
        let subscriptions = group.subscriptions().keys();
        let regexes = regexes_of(subscriptions.map(|one| &**one));
        let interval_ms = i64::from(self.config.consumer.regex_refresh_interval_ms);
        let interval_ms = interval_ms.max(RESOLVE_INTERVAL_MIN_MS);
        // Every group asks again within the interval, or soon after.
        self.topics
            .forget_matching(self.now.monotonic.plus_ms(interval_ms.saturating_mul(-2)));
        let mut after = group.resolved().clone();
        let mut has_changed = false;
        for regex in regexes {
            let resolved = ResolvedRegex {
                topics: self.topics.matching(regex, self.now.monotonic),
                version: self.topics.version(),
                timestamp_ms: self.now.wall_ms,
            };
            self.records
                .push(records::regex(self.group_id, regex, &resolved));
            let known = after.insert(Arc::from(regex), resolved);
            let known = known.map_or_else(|| Arc::from([]), |known| known.topics);
            has_changed |= after
                .get(regex)
                .is_some_and(|resolved| resolved.topics != known);
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

fn check_regex(regex: &str) -> Result<(), Refusal> {
    match TopicPattern::parse(regex) {
        Ok(_) => Ok(()),
        Err(error) => {
            let message = format!(
                "SubscribedTopicRegex `{regex}` is not a valid regular expression: {error}."
            );
            Err(Refusal::new(ErrorCode::InvalidRegularExpression, message))
        }
    }
}
