//! The known key that is written most like an unknown one.

use crate::broker::BROKER;
use crate::quota::BROKER_QUOTA;

/// The known key nearest to `key`, if one is near enough to be meant. `others` are keys outside of
/// the tables.
pub(super) fn nearest_key(key: &str, others: &[&str]) -> Option<String> {
    let (prefix, base) = match key
        .strip_prefix("listener.name.")
        .and_then(|rest| rest.split_once('.'))
    {
        Some((_, base)) => key.split_at(key.len() - base.len()),
        None => ("", key),
    };
    let written = normalised(base);
    let limit = 1 + written.len() / 6;
    let in_tables = BROKER.iter().chain(BROKER_QUOTA.iter());
    let candidates = in_tables
        .filter(|definition| !definition.internal)
        .map(|definition| definition.name)
        .chain(others.iter().copied());
    candidates
        .filter(|name| name.len().abs_diff(written.len()) <= limit)
        .map(|name| (edit_distance(&written, name), name))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, name)| format!("{prefix}{name}"))
}

/// Other separators and capital letters are the usual slips.
fn normalised(key: &str) -> String {
    key.to_lowercase().replace(['_', '-'], ".")
}

/// Insertions, deletions, replacements and swaps of neighbours that turn one text into the other.
fn edit_distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.chars().collect();
    let right: Vec<char> = right.chars().collect();
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=right.len()).collect();
    for (row, from) in left.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, to) in right.iter().enumerate() {
            let replaced = last[column] + usize::from(from != to);
            let mut distance = replaced.min(last[column + 1] + 1).min(current[column] + 1);
            let is_swap =
                row > 0 && column > 0 && left[row - 1] == *to && right[column - 1] == *from;
            if is_swap {
                distance = distance.min(before_last[column - 1] + 1);
            }
            current.push(distance);
        }
        before_last = std::mem::replace(&mut last, current);
    }
    last[right.len()]
}

#[cfg(test)]
mod tests {
    use super::{edit_distance, nearest_key};

    #[test]
    fn distance_counts_edits() {
        for (left, right, expected) in [
            ("", "", 0),
            ("abc", "", 3),
            ("abc", "acb", 1),
            ("kitten", "sitting", 3),
            ("a", "b", 1),
        ] {
            assert_eq!(edit_distance(left, right), expected, "{left} {right}");
            assert_eq!(edit_distance(right, left), expected, "{right} {left}");
        }
    }

    #[test]
    fn slips_of_the_pen_are_recognised() {
        for (written, meant) in [
            ("log.retention.hour", Some("log.retention.hours")),
            ("num.partition", Some("num.partitions")),
            ("advertised.listener", Some("advertised.listeners")),
            (
                "auto.create.topic.enable",
                Some("auto.create.topics.enable"),
            ),
            ("LOG_DIRS", Some("log.dirs")),
            ("super.user", Some("super.users")),
            (
                "listener.name.internal.ssl.keystore.loaction",
                Some("listener.name.internal.ssl.keystore.location"),
            ),
            ("my.own.key", None),
            ("x", None),
        ] {
            assert_eq!(
                nearest_key(written, &["super.users"]).as_deref(),
                meant,
                "{written}"
            );
        }
    }
}
