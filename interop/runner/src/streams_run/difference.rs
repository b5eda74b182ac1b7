//! What differs between the topics of two applications.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anyhow::{Result, ensure};
use riverrun_client::consumer::OwnedRecord;

use crate::streams_topics::Topics;

/// How much of two topics has to be equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// Every record, in order.
    Whole,
    /// The same of join windows, but for the numbers at the ends of their keys: after a restart Kafka Streams starts
    /// anew with 1.
    WholeButNumbers,
    /// Every record of each key, in order.
    ByKey,
    /// The last record of each key, if it has a value.
    Last,
    /// The same of what suppress holds back: it is logged at commits, with the time of the clock.
    LastWithoutTime,
    /// Which keys have a last record with a value: what suppress holds back below a cache tells of the cache's commits.
    LastKeys,
}

/// What a record says.
#[derive(Clone, PartialEq, Eq)]
struct Seen {
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    timestamp_ms: i64,
    headers: Vec<(String, Option<Vec<u8>>)>,
}

impl From<&OwnedRecord> for Seen {
    fn from(record: &OwnedRecord) -> Self {
        let bytes = |bytes: &[u8]| bytes.to_vec();
        Self {
            key: record.key.as_deref().map(bytes),
            value: record.value.as_deref().map(bytes),
            timestamp_ms: record.timestamp_ms,
            headers: record
                .headers
                .iter()
                .map(|(key, value)| (key.clone(), value.as_deref().map(bytes)))
                .collect(),
        }
    }
}

fn shown(bytes: Option<&[u8]>) -> String {
    bytes.map_or_else(
        || "null".to_owned(),
        |bytes| format!("`{}`", bytes.escape_ascii()),
    )
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, value) = (shown(self.key.as_deref()), shown(self.value.as_deref()));
        write!(f, "{key} = {value} at {}", self.timestamp_ms)?;
        for (key, value) in &self.headers {
            write!(f, ", {key}: {}", shown(value.as_deref()))?;
        }
        Ok(())
    }
}

/// Records that have to be equal in order: of a partition, and of a key unless all keys are compared at once.
type Sequences = BTreeMap<(i32, Option<Option<Vec<u8>>>), Vec<Seen>>;

/// Compares how two applications have made their internal topics.
fn compare_configs(topics: &Topics, (one, other): (&str, &str)) -> Result<()> {
    let configs = |id: &str| -> Result<BTreeMap<String, BTreeMap<String, Option<String>>>> {
        let own = topics.with_prefix(&format!("{id}-"))?.into_keys();
        own.map(|name| Ok((name[id.len()..].to_owned(), topics.configs(&name)?)))
            .collect()
    };
    let (ours, theirs) = (configs(one)?, configs(other)?);
    ensure!(
        ours == theirs,
        "{one} has made its topics with {ours:?}, {other} with {theirs:?}"
    );
    Ok(())
}

/// Compares the results, the changelogs and the internal topics' configurations of two applications; returns how many
/// records were compared.
pub(super) fn compare(
    topics: &Topics,
    (one, other): (&str, &str),
    depth_of: impl Fn(&str) -> Depth,
) -> Result<usize> {
    let names = |id: &str| -> Result<BTreeSet<String>> {
        let own = topics.with_prefix(&format!("{id}-"))?.into_keys();
        let compared = own.filter(|name| name.ends_with("-out") || name.ends_with("-changelog"));
        Ok(compared.map(|name| name[id.len()..].to_owned()).collect())
    };
    let (ours, theirs) = (names(one)?, names(other)?);
    ensure!(
        ours == theirs,
        "{one} has the topics {ours:?}, {other} has {theirs:?}"
    );
    compare_configs(topics, (one, other))?;
    let mut count = 0;
    for name in ours {
        let read = |id: &str| topics.read(&format!("{id}{name}"));
        let (ours, theirs) = (read(one)?, read(other)?);
        count += theirs.len();
        let depth = depth_of(&name);
        let difference = difference(&sequences(&ours, depth), &sequences(&theirs, depth));
        if let Some((place, ours, theirs)) = difference {
            anyhow::bail!(
                "{place} of topic {name} differs ({depth:?}):\n{one}: {ours}\n{other}: {theirs}"
            );
        }
    }
    Ok(count)
}

fn sequences(records: &[OwnedRecord], depth: Depth) -> Sequences {
    let mut sequences = Sequences::new();
    let is_timeless = matches!(depth, Depth::LastWithoutTime | Depth::LastKeys);
    let is_last = is_timeless || depth == Depth::Last;
    for record in records {
        let mut seen = Seen::from(record);
        if is_timeless {
            seen.timestamp_ms = 0;
        }
        if depth == Depth::LastKeys {
            seen.value = seen.value.map(|_| Vec::new());
        }
        if depth == Depth::WholeButNumbers
            && let Some(key) = &mut seen.key
        {
            key.truncate(key.len().saturating_sub(size_of::<i32>()));
        }
        let is_whole = matches!(depth, Depth::Whole | Depth::WholeButNumbers);
        let key = (!is_whole).then(|| seen.key.clone());
        let place = (record.partition.partition, key);
        let sequence = sequences.entry(place).or_default();
        if is_last {
            sequence.clear();
        }
        sequence.push(seen);
    }
    if is_last {
        sequences.retain(|_, sequence| sequence.iter().any(|seen| seen.value.is_some()));
    }
    sequences
}

/// The first record that differs: where it is, and both.
fn difference(ours: &Sequences, theirs: &Sequences) -> Option<(String, String, String)> {
    let places: BTreeSet<_> = ours.keys().chain(theirs.keys()).collect();
    for place in places {
        let empty = Vec::new();
        let ours = ours.get(place).unwrap_or(&empty);
        let theirs = theirs.get(place).unwrap_or(&empty);
        let length = ours.len().max(theirs.len());
        let Some(index) = (0..length).find(|index| ours.get(*index) != theirs.get(*index)) else {
            continue;
        };
        let shown = |sequence: &[Seen]| {
            let from = index.saturating_sub(2);
            let near = sequence.iter().enumerate().skip(from).take(5);
            let near = near.map(|(at, seen)| format!("\n    {at}: {seen}"));
            format!("{} records{}", sequence.len(), near.collect::<String>())
        };
        let at = format!("record {index} of partition {}", place.0);
        return Some((at, shown(ours), shown(theirs)));
    }
    None
}
