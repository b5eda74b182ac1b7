//! Places in partitions, as they were typed, to offsets.

use crate::connect::Failure;
use crate::place::Place;
use crate::time;
use model::TopicPartition;
use regex_lite::Regex;
use riverrun_client::Error;
use riverrun_client::admin::{Admin, GroupFilter, IsolationLevel, OffsetSpec};
use std::collections::BTreeMap;

/// The topics of these names. A name with a character that no topic has is a regular expression for
/// whole names, which stands for every topic that it matches, in their order.
pub(crate) async fn topics_named(admin: &Admin, names: &[String]) -> Result<Vec<String>, Failure> {
    if !names.iter().any(|name| is_pattern(name)) {
        return Ok(names.to_vec());
    }
    let listed = admin.list_topics().await?;
    let existing: Vec<&str> = listed.iter().map(|topic| topic.name.as_str()).collect();
    let mut chosen = Vec::new();
    for name in names {
        let matching = match is_pattern(name) {
            true => matching(name, &existing, "topic")?,
            false => vec![name.clone()],
        };
        chosen.extend(
            matching
                .into_iter()
                .filter(|one| !chosen.contains(one))
                .collect::<Vec<_>>(),
        );
    }
    Ok(chosen)
}

/// The names that the patterns match, of those that there are; all for no patterns.
pub(crate) fn filter_names<T>(
    patterns: &[String],
    items: Vec<T>,
    name: impl Fn(&T) -> &str,
) -> Result<Vec<T>, Error> {
    let regexes: Vec<Regex> = patterns
        .iter()
        .map(|pattern| regex_of(pattern))
        .collect::<Result<_, _>>()?;
    let is_wanted =
        |item: &T| regexes.is_empty() || regexes.iter().any(|regex| regex.is_match(name(item)));
    Ok(items.into_iter().filter(is_wanted).collect())
}

/// The groups of these names, all for `None`. A name that no group has, with a character that names
/// seldom have, is a regular expression for whole names.
pub(crate) async fn groups_named(
    admin: &Admin,
    names: Option<&[String]>,
) -> Result<Vec<String>, Failure> {
    if let Some(names) = names.filter(|names| !names.iter().any(|name| is_pattern(name))) {
        return Ok(names.to_vec());
    }
    let listed = admin.list_groups(&GroupFilter::default()).await?;
    let mut existing: Vec<&str> = listed.iter().map(|group| group.id.as_str()).collect();
    existing.sort_unstable();
    let Some(names) = names else {
        return Ok(existing.into_iter().map(str::to_owned).collect());
    };
    let mut chosen: Vec<String> = Vec::new();
    for name in names {
        let is_group = existing.contains(&name.as_str());
        let matching = match is_pattern(name) && !is_group {
            true => matching(name, &existing, "group")?,
            false => vec![name.clone()],
        };
        for one in matching {
            if !chosen.contains(&one) {
                chosen.push(one);
            }
        }
    }
    Ok(chosen)
}

/// Whether the text is no name of a topic.
pub(crate) fn is_pattern(text: &str) -> bool {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    !text.chars().all(is_legal)
}

/// The names that a pattern matches: at least one.
fn matching(pattern: &str, names: &[&str], what: &str) -> Result<Vec<String>, Error> {
    let regex = regex_of(pattern)?;
    let matching = names.iter().filter(|name| regex.is_match(name));
    let matching: Vec<String> = matching.map(|name| (*name).to_owned()).collect();
    match matching.is_empty() {
        true => Err(Error::Invalid(format!("`{pattern}` matches no {what}"))),
        false => Ok(matching),
    }
}

/// A regular expression for whole names.
fn regex_of(pattern: &str) -> Result<Regex, Error> {
    Regex::new(&format!("^(?:{pattern})$")).map_err(|error| {
        Error::Invalid(format!(
            "`{pattern}` is not a valid regular expression: {error}"
        ))
    })
}

/// The partitions of a topic, or those of them that were asked for.
pub(crate) async fn partitions_of(
    admin: &Admin,
    topic: &str,
    wanted: &[i32],
) -> Result<Vec<TopicPartition>, Failure> {
    let mut answers = admin.describe_topics(&[topic]).await;
    let Some(described) = answers.remove(topic) else {
        return Err(Error::Invalid(format!("no broker tells of topic `{topic}`")).into());
    };
    let existing: Vec<i32> = described?.partitions.iter().map(|one| one.index).collect();
    if let Some(missing) = wanted.iter().find(|index| !existing.contains(index)) {
        return Err(Error::Invalid(format!(
            "topic `{topic}` has no partition {missing}; it has {}",
            existing.len()
        ))
        .into());
    }
    let chosen = if wanted.is_empty() { &existing } else { wanted };
    Ok(chosen
        .iter()
        .map(|index| TopicPartition::new(topic, *index))
        .collect())
}

/// A place in one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    /// The offset, which may be none of the log's.
    pub(crate) offset: i64,
    /// The first record of the log.
    pub(crate) start: i64,
    /// What follows the last one.
    pub(crate) end: i64,
}

impl Position {
    /// The offset of the log that is the nearest.
    pub(crate) fn within(self) -> i64 {
        self.offset.clamp(self.start, self.end)
    }

    /// What is wrong with an offset that the log does not have.
    pub(crate) fn fault(self, partition: &TopicPartition) -> Option<String> {
        let (offset, start, end) = (self.offset, self.start, self.end);
        match offset {
            _ if offset < start => Some(format!(
                "{partition} starts at offset {start}: there is no offset {offset}"
            )),
            _ if offset > end => Some(format!(
                "{partition} ends at offset {end}: there is no offset {offset}"
            )),
            _ => None,
        }
    }
}

/// The offset of `place` in each partition, within its log.
pub(crate) async fn resolve(
    admin: &Admin,
    partitions: &[TopicPartition],
    place: Place,
) -> Result<BTreeMap<TopicPartition, i64>, Failure> {
    let positions = positions(admin, partitions, place).await?;
    Ok(within(&positions))
}

/// Positions as offsets that their logs have.
pub(crate) fn within(
    positions: &BTreeMap<TopicPartition, Position>,
) -> BTreeMap<TopicPartition, i64> {
    let offsets = positions.iter();
    offsets
        .map(|(partition, position)| (partition.clone(), position.within()))
        .collect()
}

/// The position of `place` in each partition.
pub(crate) async fn positions(
    admin: &Admin,
    partitions: &[TopicPartition],
    place: Place,
) -> Result<BTreeMap<TopicPartition, Position>, Failure> {
    let list = async |spec| -> Result<BTreeMap<TopicPartition, i64>, Error> {
        let specs = partitions.iter().map(|partition| (partition.clone(), spec));
        let listed = admin
            .list_offsets(&specs.collect(), IsolationLevel::ReadUncommitted)
            .await;
        listed
            .into_iter()
            .map(|(partition, listed)| Ok((partition, listed?.offset)))
            .collect()
    };
    let starts = list(OffsetSpec::Earliest).await?;
    let ends = list(OffsetSpec::Latest).await?;
    let timestamp_ms = match place {
        Place::Timestamp { timestamp_ms } => Some(timestamp_ms),
        Place::Ago { duration_ms } => Some(time::now_ms() - duration_ms),
        _ => None,
    };
    let timed = match timestamp_ms {
        Some(timestamp_ms) => list(OffsetSpec::AtTimestamp(timestamp_ms)).await?,
        None => BTreeMap::new(),
    };
    // -1 stands for no such record.
    let known = |offsets: &BTreeMap<_, i64>, partition: &TopicPartition| {
        offsets
            .get(partition)
            .copied()
            .filter(|offset| *offset >= 0)
    };
    Ok(partitions
        .iter()
        .map(|partition| {
            let start = known(&starts, partition).unwrap_or(0);
            let end = known(&ends, partition).unwrap_or(start);
            let offset = match place {
                Place::Start => start,
                Place::End => end,
                Place::Offset(offset) => offset,
                // So many records or all that there are.
                Place::BeforeEnd(count) => end.saturating_sub(count).max(start),
                Place::AfterStart(count) => start.saturating_add(count).min(end),
                // No record is as young as that: the end.
                Place::Timestamp { .. } | Place::Ago { .. } => {
                    known(&timed, partition).unwrap_or(end)
                }
            };
            (partition.clone(), Position { offset, start, end })
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_stands_for_the_names_that_it_matches_whole() {
        assert!(!is_pattern("orders.v1_a-b") && is_pattern("or.*") && is_pattern("a|b"));
        let names = ["orders", "other", "my-orders"];
        let matching =
            |pattern| matching(pattern, &names, "topic").map_err(|error| error.to_string());
        assert_eq!(matching("or.*"), Ok(vec!["orders".to_owned()]));
        assert_eq!(matching("o.*").map(|names| names.len()), Ok(2));
        assert_eq!(matching("x+"), Err("`x+` matches no topic".to_owned()));
        assert!(
            matching("(")
                .unwrap_err()
                .contains("`(` is not a valid regular expression")
        );
    }
}
