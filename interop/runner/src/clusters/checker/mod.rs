//! What clients were promised against what is there: a pure function of a [`History`].
//!
//! ```text
//!   producers ── Sent ───────┐
//!   readers at the end ──────┤
//!   consumers meanwhile ─────┼──> History ── check ──> Verdict: counts, and every anomaly
//!   the replicas' files ─────┘
//! ```
//!
//! It knows the anomalies that Jepsen looks for in Kafka, by their own names ([`Anomaly`]). What a producer
//! was told nothing of, or an error, may be there or not; everything else is judged.

mod anomaly;
mod deliveries;
mod replicas;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};

pub(crate) use anomaly::Anomaly;
pub(crate) use deliveries::{Deliveries, Delivery};
pub(crate) use replicas::{Batch, ReplicaLog};

/// Where a record is: partition and offset.
pub(crate) type Place = (i32, i64);

/// All that is known of a topic, and what its producers were promised.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    /// Whether each value is there at most once.
    pub(crate) is_idempotent: bool,
    /// Whether an unclean election may have lost what was acknowledged; then it is counted only.
    pub(crate) may_lose: bool,
    /// Records before these offsets of partitions were deleted on purpose.
    pub(crate) deleted_before: BTreeMap<i32, i64>,
    /// In the order in which each producer sent them.
    pub(crate) sent: Vec<Sent>,
    pub(crate) readings: Vec<Reading>,
    pub(crate) consumers: Vec<Deliveries>,
    pub(crate) replicas: Vec<ReplicaLog>,
}

/// A value that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    /// Records of one producer in one partition are in the order in which they were sent.
    pub(crate) producer: usize,
    pub(crate) value: String,
    /// The transaction that it is part of: seen whole or not at all.
    pub(crate) transaction: Option<u64>,
    pub(crate) fate: Fate,
}

/// What a producer was told of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is there for good; where, if that was said.
    Acknowledged(Option<Place>),
    /// Nothing, or an error: it may be there.
    Unknown,
    /// Its transaction was aborted.
    Aborted,
}

/// Which records a reader is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Isolation {
    Uncommitted,
    Committed,
}

impl Isolation {
    /// As consumers are configured.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Uncommitted => "read_uncommitted",
            Self::Committed => "read_committed",
        }
    }
}

/// A topic read from beginning to end when all was quiet: records in the order in which they came.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    pub(crate) isolation: Isolation,
    pub(crate) records: Vec<(Place, String)>,
}

impl Reading {
    /// The offset after the last record of each partition.
    pub(crate) fn ends(&self) -> BTreeMap<i32, i64> {
        let places = self.records.iter().map(|(place, _)| place);
        places
            .map(|(partition, offset)| (*partition, offset + 1))
            .collect()
    }
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) acknowledged: usize,
    pub(crate) lost: usize,
    pub(crate) duplicated: usize,
    pub(crate) anomalies: Vec<Anomaly>,
}

/// Judges a history.
pub(crate) fn check(history: &History) -> Verdict {
    let mut verdict = Verdict::default();
    let acknowledged = |sent: &&Sent| matches!(sent.fate, Fate::Acknowledged(_));
    verdict.acknowledged = history.sent.iter().filter(acknowledged).count();
    let index = Index::new(history);
    index.check_places(&mut verdict);
    for reading in &history.readings {
        index.check_reading(reading, &mut verdict);
    }
    let mut lost = BTreeSet::new();
    let mut duplicated = BTreeSet::new();
    for reading in &history.readings {
        let places = places_by_value(reading);
        index.check_values(reading, &places, (&mut lost, &mut duplicated), &mut verdict);
        index.check_transactions(reading, &places, &mut verdict);
    }
    verdict.lost = lost.len();
    verdict.duplicated = duplicated.len();
    let visible = visible_offsets(history);
    if !history.may_lose {
        for consumer in &history.consumers {
            deliveries::check_kept(consumer, &visible, &mut verdict.anomalies);
        }
    }
    for consumer in &history.consumers {
        deliveries::check(consumer, &visible, &mut verdict.anomalies);
    }
    let required = if history.may_lose {
        BTreeSet::new()
    } else {
        index.acknowledged_places()
    };
    replicas::check(&history.replicas, &required, &mut verdict.anomalies);
    verdict
}

/// What was sent, by value.
struct Index<'a> {
    history: &'a History,
    /// The place of each value in the order of sending.
    by_value: HashMap<&'a str, usize>,
}

impl<'a> Index<'a> {
    fn new(history: &'a History) -> Self {
        let sent = history.sent.iter().enumerate();
        Self {
            history,
            by_value: sent.map(|(order, sent)| (&sent.value[..], order)).collect(),
        }
    }

    fn sent(&self, value: &str) -> Option<(usize, &'a Sent)> {
        let order = *self.by_value.get(value)?;
        Some((order, &self.history.sent[order]))
    }

    fn is_deleted(&self, (partition, offset): Place) -> bool {
        let start = self.history.deleted_before.get(&partition);
        start.is_some_and(|start| offset < *start)
    }

    /// The places that every replica has to have.
    fn acknowledged_places(&self) -> BTreeSet<Place> {
        let fates = self.history.sent.iter().map(|sent| sent.fate);
        let places = fates.filter_map(|fate| match fate {
            Fate::Acknowledged(place) => place,
            Fate::Unknown | Fate::Aborted => None,
        });
        places.filter(|place| !self.is_deleted(*place)).collect()
    }

    /// Whoever tells of a place tells the same of it.
    fn check_places(&self, verdict: &mut Verdict) {
        let mut told: BTreeMap<Place, &str> = BTreeMap::new();
        let mut tell = |place: Place, value: &'a str, verdict: &mut Verdict| {
            let before = *told.entry(place).or_insert(value);
            if before != value {
                let (one, other) = (before.to_owned(), value.to_owned());
                verdict.add(Anomaly::TwoValues { place, one, other });
            }
        };
        for sent in &self.history.sent {
            if let Fate::Acknowledged(Some(place)) = sent.fate
                && !self.history.may_lose
            {
                tell(place, &sent.value, verdict);
            }
        }
        for (place, value) in self.history.readings.iter().flat_map(|one| &one.records) {
            tell(*place, value, verdict);
        }
        if self.history.may_lose {
            return;
        }
        for event in self.history.consumers.iter().flat_map(|one| &one.events) {
            if let Delivery::Record(place, value) = event {
                tell(*place, value, verdict);
            }
        }
    }

    /// What a reader is given goes forward, and was sent.
    fn check_reading(&self, reading: &Reading, verdict: &mut Verdict) {
        let mut last: BTreeMap<i32, i64> = BTreeMap::new();
        let mut order: BTreeMap<(i32, usize), (usize, &str)> = BTreeMap::new();
        for ((partition, offset), value) in &reading.records {
            let (partition, to) = (*partition, *offset);
            if let Some(from) = last.insert(partition, to)
                && to <= from
            {
                let reader = "reader at the end".to_owned();
                verdict.add(Anomaly::WentBack {
                    reader,
                    partition,
                    from,
                    to,
                });
            }
            let Some((sent_as, sent)) = self.sent(value) else {
                let (place, value) = ((partition, to), value.clone());
                verdict.add(Anomaly::NeverSent { place, value });
                continue;
            };
            let key = (partition, sent.producer);
            let before = order.insert(key, (sent_as, value));
            if self.history.is_idempotent
                && let Some((earlier, later)) = before
                && earlier > sent_as
            {
                let (first, second) = (later.to_owned(), value.clone());
                verdict.add(Anomaly::Reordered {
                    partition,
                    first,
                    second,
                });
            }
        }
    }

    /// What is promised is there, once, and where it was said to be; what is aborted is not.
    fn check_values(
        &self,
        reading: &Reading,
        places: &HashMap<&str, Vec<Place>>,
        (lost, duplicated): (&mut BTreeSet<usize>, &mut BTreeSet<usize>),
        verdict: &mut Verdict,
    ) {
        for (order, sent) in self.history.sent.iter().enumerate() {
            let found = places.get(&sent.value[..]).map_or(&[][..], Vec::as_slice);
            let value = sent.value.clone();
            if found.len() > 1 && duplicated.insert(order) && self.history.is_idempotent {
                let (value, places) = (value.clone(), found.to_vec());
                verdict.add(Anomaly::Duplicated { value, places });
            }
            match sent.fate {
                Fate::Unknown => {}
                Fate::Aborted => {
                    if let (Isolation::Committed, Some(place)) = (reading.isolation, found.first())
                    {
                        let place = *place;
                        verdict.add(Anomaly::AbortedRead { place, value });
                    }
                }
                Fate::Acknowledged(Some(told)) if self.is_deleted(told) => {}
                Fate::Acknowledged(told) if found.is_empty() => {
                    if lost.insert(order) && !self.history.may_lose {
                        let on = told.map_or(Vec::new(), |told| {
                            replicas::holders(&self.history.replicas, told)
                        });
                        verdict.add(Anomaly::Lost { value, told, on });
                    }
                }
                Fate::Acknowledged(Some(told)) => {
                    if !found.contains(&told) && !self.history.may_lose {
                        let found = found.to_vec();
                        verdict.add(Anomaly::Elsewhere { value, told, found });
                    }
                }
                Fate::Acknowledged(None) => {}
            }
        }
    }

    /// Who reads what is committed sees a transaction whole or not at all.
    fn check_transactions(
        &self,
        reading: &Reading,
        places: &HashMap<&str, Vec<Place>>,
        verdict: &mut Verdict,
    ) {
        if reading.isolation == Isolation::Uncommitted {
            return;
        }
        let mut seen: BTreeMap<(usize, u64), (usize, usize)> = BTreeMap::new();
        for sent in &self.history.sent {
            let Some(transaction) = sent.transaction else {
                continue;
            };
            let (there, all) = seen.entry((sent.producer, transaction)).or_default();
            *there += usize::from(places.contains_key(&sent.value[..]));
            *all += 1;
        }
        for ((producer, transaction), (there, all)) in seen {
            if there != 0 && there != all {
                verdict.add(Anomaly::Torn {
                    producer,
                    transaction,
                    there,
                    all,
                });
            }
        }
    }
}

impl Verdict {
    fn add(&mut self, anomaly: Anomaly) {
        self.anomalies.push(anomaly);
    }
}

fn places_by_value(reading: &Reading) -> HashMap<&str, Vec<Place>> {
    let mut places: HashMap<&str, Vec<Place>> = HashMap::new();
    for (place, value) in &reading.records {
        places.entry(value).or_default().push(*place);
    }
    places
}

/// The offsets that readers at the end were given, by isolation and partition.
fn visible_offsets(history: &History) -> deliveries::Visible {
    let mut visible = deliveries::Visible::default();
    for reading in &history.readings {
        for ((partition, offset), _) in &reading.records {
            visible.add(reading.isolation, *partition, *offset);
        }
    }
    visible
}
