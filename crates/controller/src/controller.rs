//! The active controller and the metadata log that it writes: one request, one decision, one append.
//!
//! ```text
//!   request ─> ActiveController::propose ─> MetadataLog::stage ─┐ several requests
//!   flush <──────────────────────────────────────────────────────┘
//!     ├─ committed: Decided { change, answers }
//!     └─ not taken: Decided { refused }
//!   now and then ─> snapshot ─> SnapshotJob (the caller writes it) ─> MetadataLog::complete_snapshot
//! ```
//!
//! One decision follows the other, so each is made over the image that the one before has left. What is
//! committed goes to all who live by the metadata before the answers go to whoever has asked.

use crate::active::{ActiveController, Proposal};
use crate::broker_transition::BrokerTransition;
use crate::context::{ControllerContext, Random};
use crate::metadata_change::MetadataChange;
use crate::metadata_log::{AppendMetadataError, MetadataLog};
use crate::requests::{ControllerRequest, ControllerResponse, Request};
use crate::sessions::BrokerContacts;
use metadata::{MetadataDelta, MetadataImage};
use model::{MonotonicTime, Now, Offset};
use std::sync::Arc;
use storage::RealDisk;
use storage::disk::Disk;

/// The controller of a quorum that this node leads. `T` stands for whoever waits for an answer.
#[derive(Debug)]
pub struct Controller<T, D: Disk = RealDisk> {
    /// The metadata log; after other changes of it than by [`Self::decide`] the controller has to
    /// [follow](Self::follow_log).
    pub log: MetadataLog<D>,
    active: ActiveController<T>,
    /// The newest image that whoever flushes was told of.
    told: Arc<MetadataImage>,
    /// What the log has not taken since.
    refused: Vec<Refused<T>>,
}

/// What the log has not taken.
#[derive(Debug)]
pub struct Refused<T> {
    /// Whoever has asked; nobody asks for what the controller does by itself.
    pub askers: Vec<T>,
    /// Why it has not.
    pub error: AppendMetadataError,
}

/// What has come of requests.
#[derive(Debug)]
#[must_use = "somebody waits for an answer"]
pub struct Decided<T> {
    /// What is committed now, if anything is.
    pub change: Option<MetadataChange>,
    /// Answers that go once the change is served.
    pub answers: Vec<(T, ControllerResponse)>,
    /// What the log has not taken.
    pub refused: Vec<Refused<T>>,
}

impl<T, D: Disk> Controller<T, D> {
    /// The controller of a log that this node leads.
    pub fn new(log: MetadataLog<D>, context: &ControllerContext<'_>, now: Now) -> Self {
        let kraft_version = log.kraft_version();
        let image = log.image().clone();
        let end_offset = end_offset(&image);
        let active =
            ActiveController::new(image, kraft_version, end_offset, context, now.monotonic);
        Self {
            told: log.image().clone(),
            log,
            active,
            refused: Vec::new(),
        }
    }

    /// Where whoever receives heartbeats of brokers notes them, before they wait for their turn here.
    pub fn contacts(&self) -> BrokerContacts {
        self.active.sessions().contacts().clone()
    }

    /// Decides, and appends what is decided: all of it is committed on return, or refused.
    pub fn decide(
        &mut self,
        request: &ControllerRequest,
        asker: T,
        context: &ControllerContext<'_>,
        now: Now,
        random: &mut Random<'_>,
    ) -> Decided<T> {
        self.stage(request, asker, context, now, random);
        self.flush(now)
    }

    /// Decides over all that was decided before. What is decided takes effect with the next
    /// [flush](Self::flush), with what is staged before it and after: they share a sync.
    pub fn stage(
        &mut self,
        request: &ControllerRequest,
        asker: T,
        context: &ControllerContext<'_>,
        now: Now,
        random: &mut Random<'_>,
    ) {
        let active = &mut self.active;
        let proposal = active.propose(request, asker, context, now.monotonic, random);
        self.take(&proposal, now);
    }

    /// Lets what is staged take effect: all of it is committed on return, or refused.
    pub fn flush(&mut self, now: Now) -> Decided<T> {
        if self.log.has_staged()
            && let Err(error) = self.log.flush(now.wall_ms)
        {
            self.refuse_lost(error, now);
        }
        let before = std::mem::replace(&mut self.told, self.log.image().clone());
        Decided {
            change: self.change_since(before),
            answers: self.active.committed(end_offset(self.log.image())),
            refused: std::mem::take(&mut self.refused),
        }
    }

    /// What has become of brokers and is committed; each step is given once.
    pub fn take_transitions(&mut self) -> Vec<BrokerTransition> {
        self.active.take_transitions()
    }

    /// When the controller has something to do [by itself](Self::tick); `None` when nothing is to come.
    /// Requests and contacts of brokers change it.
    pub fn next_tick(&self) -> Option<MonotonicTime> {
        self.active.next_task()
    }

    /// Does what is due, one thing at a time; `None` when nothing is. So brokers are fenced that are not
    /// heard of, and leaders elected.
    pub fn tick(&mut self, context: &ControllerContext<'_>, now: Now) -> Option<Decided<T>> {
        let proposal = self.active.propose_task(context, now.monotonic)?;
        self.take(&proposal, now);
        Some(self.flush(now))
    }

    /// Hands what is proposed to the log.
    fn take(&mut self, proposal: &Proposal, now: Now) {
        if proposal.is_empty() {
            return;
        }
        if let Some(level) = proposal.kraft_version
            // The quorum's own records are flushed at once, with all that is staged before.
            && let Err(error) = self.log.raise_kraft_version(level, now.wall_ms)
        {
            return self.refuse(error, now);
        }
        self.appended();
        if !proposal.records.is_empty() {
            if let Err(error) = self.log.stage(&proposal.records, now.wall_ms) {
                return self.refuse(error, now);
            }
            self.appended();
        }
        self.active.accepted();
    }

    /// The log has not taken what is proposed, and may have lost what was staged before.
    fn refuse(&mut self, error: AppendMetadataError, now: Now) {
        let asker = self.active.refused();
        self.refuse_lost(error, now);
        if let Some(refused) = self.refused.last_mut() {
            refused.askers.extend(asker);
        }
    }

    /// What was accepted and is not in the log any more is refused.
    fn refuse_lost(&mut self, error: AppendMetadataError, now: Now) {
        let image = self.log.staged_image().clone();
        let (end_offset, kraft_version) = (end_offset(&image), self.log.kraft_version());
        let active = &mut self.active;
        let askers = active.reverted(image, kraft_version, end_offset, now.monotonic);
        self.refused.push(Refused { askers, error });
    }

    /// Decides before anybody lives by the metadata: nobody is told of the change. Who starts a broker
    /// in this process asks so; the broker that registers so is live as long as this controller is.
    ///
    /// # Errors
    /// When the log does not take what is decided.
    pub fn decide_at_start<R: Request>(
        &mut self,
        request: R,
        asker: T,
        context: &ControllerContext<'_>,
        now: Now,
        random: &mut Random<'_>,
    ) -> Result<R::Response, AppendMetadataError> {
        let request = request.into();
        if let ControllerRequest::RegisterBroker(request) = &request {
            self.active.begin_own_broker(request.registration.broker_id);
        }
        let decided = self.decide(&request, asker, context, now, random);
        if let Some(refused) = decided.refused.into_iter().next() {
            return Err(refused.error);
        }
        if let ControllerRequest::RegisterBroker(request) = &request {
            self.active.keep_own_broker(request.registration.broker_id);
        }
        let answer = decided.answers.into_iter().next_back();
        let response = answer.and_then(|(_, response)| R::response_of(response));
        Ok(response.expect("what is committed is answered, each request by its kind"))
    }

    /// Takes over what the log says, of which nobody is told.
    pub fn follow_log(&mut self) {
        self.appended();
        self.told = self.log.image().clone();
    }

    fn appended(&mut self) {
        let image = self.log.staged_image().clone();
        let end_offset = end_offset(&image);
        let kraft_version = self.log.kraft_version();
        self.active.appended(image, kraft_version, end_offset);
    }

    /// All that is committed as one change, from the empty image: for those who live by the metadata from
    /// here on.
    pub fn change_at_start(&self) -> MetadataChange {
        let before = Arc::new(MetadataImage::default());
        self.change_to_newest(before)
    }

    fn change_since(&self, before: Arc<MetadataImage>) -> Option<MetadataChange> {
        let is_news = !Arc::ptr_eq(&before, self.log.image());
        is_news.then(|| self.change_to_newest(before))
    }

    fn change_to_newest(&self, before: Arc<MetadataImage>) -> MetadataChange {
        let after = self.log.image().clone();
        MetadataChange {
            delta: MetadataDelta::new(before, after),
            kraft_version: self.log.kraft_version(),
        }
    }
}

/// The end of what an image has: the log may have more that nobody acknowledges.
fn end_offset(image: &MetadataImage) -> Offset {
    image.provenance.last_offset + 1
}

#[cfg(test)]
mod tests;
