//! What the members of a group were told and given, and whether that is right.
//!
//! A member that was taken for dead believes that it has its partitions until it hears of it. So two
//! may believe it of one partition, but not both of them commit, and never while both poll in time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use model::TopicPartition;
use riverrun_client::consumer::{CommittedOffset, Offsets};

/// How often the ledger looks at the time; one that comes much later was held up by the machine.
const PULSE: Duration = Duration::from_millis(50);
const LATE: Duration = Duration::from_millis(300);
/// How long what was late, or silent, is an excuse: the group may have to rebalance and to say so.
const EXCUSE: Duration = Duration::from_secs(3);

/// One consumer: a member that comes back is another one.
pub(super) type MemberId = u64;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Ledger {
    /// Whether every connection works and nobody but the silent is to be evicted.
    is_calm: bool,
    /// Silence that the group may answer with an eviction.
    silence_max: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    places: Vec<Place>,
    members: BTreeMap<MemberId, Member>,
    /// Counts what happens, so that of two things it is known which one was first.
    turn: u64,
    /// The machine is busy until then.
    late_until: Option<Instant>,
    failures: Vec<String>,
}

#[derive(Debug, Default)]
struct Place {
    delivered: BTreeSet<i64>,
    /// The first offset that was not delivered.
    frontier: i64,
    /// Who was told last that it has the partition, and at which turn.
    owner: Option<(MemberId, u64)>,
}

#[derive(Debug)]
struct Member {
    held: BTreeSet<i32>,
    /// Since when it does not poll; `None` while it does.
    silent_since: Option<Instant>,
    excused_until: Option<Instant>,
    /// It may be gone without having heard so.
    is_ending: bool,
}

impl Ledger {
    pub(super) fn new(partitions: usize, is_calm: bool, silence_max: Duration) -> Self {
        let places = (0..partitions).map(|_| Place::default());
        Self {
            is_calm,
            silence_max,
            state: Mutex::new(State {
                places: places.collect(),
                members: BTreeMap::new(),
                turn: 0,
                late_until: None,
                failures: Vec::new(),
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes for ever when the machine is so busy that somebody may be late without a fault.
    pub(super) async fn keep_pulse(&self) {
        loop {
            let began = Instant::now();
            tokio::time::sleep(PULSE).await;
            if began.elapsed() > PULSE + LATE {
                self.state().late_until = Some(Instant::now() + EXCUSE);
            }
        }
    }

    /// Fails if anything was wrong so far.
    pub(super) fn check(&self) -> Result<()> {
        match self.state().failures.first() {
            Some(failure) => bail!("{failure}"),
            None => Ok(()),
        }
    }

    pub(super) fn turn(&self) -> u64 {
        self.state().next_turn()
    }

    /// A consumer begins.
    pub(super) fn begin(&self, id: MemberId) {
        let member = Member {
            held: BTreeSet::new(),
            silent_since: Some(Instant::now()),
            excused_until: None,
            is_ending: false,
        };
        self.state().members.insert(id, member);
    }

    /// It is about to leave, and may be cancelled before it is told so.
    pub(super) fn handle_ending(&self, id: MemberId) {
        if let Some(member) = self.state().members.get_mut(&id) {
            member.is_ending = true;
        }
    }

    /// It has left, or is gone, and believes in nothing any more.
    pub(super) fn end(&self, id: MemberId) {
        self.state().members.remove(&id);
    }

    /// It polls, until [`Ledger::handle_silence`].
    pub(super) fn handle_poll(&self, id: MemberId) {
        if let Some(member) = self.state().members.get_mut(&id)
            && let Some(since) = member.silent_since.take()
            && since.elapsed() > self.silence_max
        {
            member.excused_until = Some(Instant::now() + EXCUSE);
        }
    }

    pub(super) fn handle_silence(&self, id: MemberId) {
        if let Some(member) = self.state().members.get_mut(&id) {
            member.silent_since = Some(Instant::now());
        }
    }

    pub(super) fn handle_assigned(&self, id: MemberId, partitions: &[TopicPartition]) {
        let mut state = self.state();
        let turn = state.next_turn();
        for index in indices(partitions) {
            let owners = state.members.iter().filter(|(other, member)| {
                **other != id && member.held.contains(&index) && !self.is_excused(member, &state)
            });
            let owners: Vec<MemberId> = owners.map(|(other, _)| *other).collect();
            if !owners.is_empty() {
                let failure = format!("partition {index} comes to {id} while {owners:?} have it");
                state.failures.push(failure);
            }
            let is_new = state.members.get_mut(&id).map(|one| one.held.insert(index));
            if is_new == Some(false) {
                let failure = format!("partition {index} comes to {id}, who had it");
                state.failures.push(failure);
            }
            if let Some(place) = state.places.get_mut(index as usize) {
                place.owner = Some((id, turn));
            }
        }
    }

    pub(super) fn handle_revoked(&self, id: MemberId, partitions: &[TopicPartition]) {
        let mut state = self.state();
        for index in indices(partitions) {
            let was_held = state.members.get_mut(&id).map(|m| m.held.remove(&index));
            if was_held == Some(false) {
                let failure = format!("partition {index} goes from {id}, who had it not");
                state.failures.push(failure);
            }
        }
    }

    pub(super) fn handle_lost(&self, id: MemberId, partitions: &[TopicPartition]) {
        self.handle_revoked(id, partitions);
        let mut state = self.state();
        let member = state.members.get(&id);
        if member.is_some_and(|member| !self.is_excused(member, &state)) {
            let failure = format!("{id} polls in time, and is evicted");
            state.failures.push(failure);
        }
    }

    /// Whether a member may be out of its group by no fault of the client's.
    fn is_excused(&self, member: &Member, state: &State) -> bool {
        let now = Instant::now();
        let is_silent = member
            .silent_since
            .is_some_and(|since| since.elapsed() > self.silence_max);
        let is_before = |end: Option<Instant>| end.is_some_and(|end| now < end);
        !self.is_calm
            || member.is_ending
            || is_silent
            || is_before(member.excused_until)
            || is_before(state.late_until)
    }

    /// A record was returned to the application.
    pub(super) fn deliver(&self, id: MemberId, partition: &TopicPartition, offset: i64) {
        let mut state = self.state();
        let index = partition.partition;
        let is_held = state.members.get(&id).map(|one| one.held.contains(&index));
        if is_held == Some(false) {
            let failure = format!("{id} reads partition {index}, which it has not");
            state.failures.push(failure);
        }
        if let Some(place) = state.places.get_mut(index as usize) {
            place.delivered.insert(offset);
            while place.delivered.contains(&place.frontier) {
                place.frontier += 1;
            }
        }
    }

    /// Offsets that are committed, or about to be: nothing before them is without its delivery.
    pub(super) fn check_offsets(&self, offsets: &BTreeMap<i32, i64>) {
        let mut state = self.state();
        for (index, offset) in offsets {
            let frontier = state.places.get(*index as usize).map(|one| one.frontier);
            if frontier.is_none_or(|frontier| *offset > frontier) {
                let failure = format!(
                    "{offset} of partition {index} is committed, {frontier:?} was not delivered"
                );
                state.failures.push(failure);
            }
        }
    }

    /// `id` was told that these are committed, by a call that began at a turn.
    pub(super) fn check_commit(&self, id: MemberId, begun: u64, offsets: &Offsets) {
        let mut state = self.state();
        for name in offsets.keys() {
            let place = state.places.get(name.partition as usize);
            let owner = place.and_then(|place| place.owner);
            if let Some((owner, since)) = owner.filter(|(owner, _)| *owner != id)
                && since < begun
            {
                let failure = format!("{id} commits `{name}`, which {owner} has");
                state.failures.push(failure);
            }
        }
    }
}

impl State {
    const fn next_turn(&mut self) -> u64 {
        self.turn += 1;
        self.turn
    }
}

fn indices(partitions: &[TopicPartition]) -> Vec<i32> {
    partitions.iter().map(|name| name.partition).collect()
}

/// Offsets of one topic, by partition.
pub(super) fn by_partition<'a>(
    offsets: impl IntoIterator<Item = (&'a TopicPartition, &'a CommittedOffset)>,
) -> BTreeMap<i32, i64> {
    let offsets = offsets.into_iter();
    offsets
        .map(|(name, offset)| (name.partition, offset.offset))
        .collect()
}
