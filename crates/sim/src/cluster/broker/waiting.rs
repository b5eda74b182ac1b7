//! What waits in a broker for its replicas: answers to clients, and outcomes that are gathered for one answer.

use super::BrokerNode;
use crate::cluster::judge::Log;
use crate::cluster::message::{Caller, Outbox};
use crate::protocol;
use model::{ErrorCode, MonotonicTime, Now};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// Comes to its end when every in-sync replica has what it is about.
pub(super) type Replicated = Pin<Box<dyn Future<Output = Result<(), ErrorCode>> + Send>>;

/// An answer that waits for replicas.
pub(super) struct WaitingAnswer {
    pub(super) caller: Caller,
    pub(super) answer: protocol::Answer,
    pub(super) deadline: MonotonicTime,
    pub(super) replicated: Replicated,
    /// The records that are deleted then.
    pub(super) deleted: Option<(Log, i64)>,
}

impl std::fmt::Debug for WaitingAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}: {:?}", self.caller, self.answer)
    }
}

/// Who hears what was gathered.
#[derive(Debug, Clone, Copy)]
pub(super) enum Gathered {
    /// Another broker.
    Others(Caller),
    /// An end here, by the number of what it has asked.
    Own(u64),
}

/// Outcomes that go together.
#[derive(Debug)]
pub(super) struct Gathering {
    gathered: Gathered,
    outcomes: Vec<Vec<Option<ErrorCode>>>,
}

/// Which gathering, which of what was asked, and which of its partitions.
pub(super) type GatheringPlace = (u64, usize, usize);

/// Markers that wait for replicas.
#[derive(Default)]
pub(super) struct WaitingMarkers(Vec<(GatheringPlace, MonotonicTime, Replicated)>);

impl WaitingMarkers {
    pub(super) fn push(&mut self, one: (GatheringPlace, MonotonicTime, Replicated)) {
        self.0.push(one);
    }

    pub(super) fn deadline(&self) -> Option<MonotonicTime> {
        self.0.iter().map(|one| one.1).min()
    }
}

impl std::fmt::Debug for WaitingMarkers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|one| one.0))
            .finish()
    }
}

/// What has become of something that waits; none while it waits on.
fn outcome(replicated: &mut Replicated, deadline: MonotonicTime, now: Now) -> Option<ErrorCode> {
    let mut context = Context::from_waker(Waker::noop());
    match replicated.as_mut().poll(&mut context) {
        Poll::Ready(Ok(())) => Some(ErrorCode::None),
        Poll::Ready(Err(error)) => Some(error),
        Poll::Pending if deadline <= now.monotonic => Some(ErrorCode::RequestTimedOut),
        Poll::Pending => None,
    }
}

impl BrokerNode {
    pub(super) fn next_number(&mut self) -> u64 {
        self.number_count += 1;
        self.number_count
    }

    /// Begins to gather so many outcomes of each.
    pub(super) fn begin_gathering(
        &mut self,
        gathered: Gathered,
        counts: impl Iterator<Item = usize>,
    ) -> u64 {
        let number = self.next_number();
        let gathering = Gathering {
            gathered,
            outcomes: counts.map(|count| vec![None; count]).collect(),
        };
        self.gatherings.insert(number, gathering);
        number
    }

    /// One of them has come out.
    pub(super) fn gather(
        &mut self,
        (number, at, place): GatheringPlace,
        error: ErrorCode,
        now: Now,
        out: &mut Outbox,
    ) -> Result<(), String> {
        let Some(gathering) = self.gatherings.get_mut(&number) else {
            return Ok(());
        };
        gathering.outcomes[at][place] = Some(error);
        if gathering.outcomes.iter().flatten().any(Option::is_none) {
            return Ok(());
        }
        let Some(gathering) = self.gatherings.remove(&number) else {
            return Ok(());
        };
        let outcomes = gathering.outcomes.into_iter();
        let outcomes = outcomes.map(|all| all.into_iter().flatten().collect());
        self.gathered(gathering.gathered, outcomes.collect(), now, out)
    }

    /// Lets those go on whose replicas have what they wait for.
    pub(super) fn poll_waiting(&mut self, now: Now, out: &mut Outbox) -> Result<(), String> {
        let mut answers = std::mem::take(&mut self.answers);
        answers.retain_mut(|one| {
            let Some(error) = outcome(&mut one.replicated, one.deadline, now) else {
                return true;
            };
            let answer = one.answer.clone();
            let answer = match error {
                ErrorCode::None => answer,
                error => answer.refused(error),
            };
            if let (ErrorCode::None, Some((log, end_offset))) = (error, one.deleted) {
                out.deleted.extend(self.deleted(log, end_offset));
            }
            out.tell(one.caller, answer);
            false
        });
        self.answers.append(&mut answers);
        let mut markers = std::mem::take(&mut self.markers);
        let mut told = Vec::new();
        markers.0.retain_mut(|(place, deadline, replicated)| {
            let error = outcome(replicated, *deadline, now);
            told.extend(error.map(|error| (*place, error)));
            error.is_none()
        });
        self.markers.0.append(&mut markers.0);
        for (place, error) in told {
            self.gather(place, error, now, out)?;
        }
        Ok(())
    }
}
