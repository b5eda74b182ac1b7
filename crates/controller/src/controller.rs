//! The active controller and the metadata log that it writes: one request, one decision, one append.
//!
//! ```text
//!   request ─> ActiveController::propose ─> MetadataLog::append ─┬─ committed: Decided { change, answers }
//!                                                                └─ not taken: Decided { refused }
//!   now and then ─> snapshot ─> SnapshotJob (the caller writes it) ─> MetadataLog::complete_snapshot
//! ```
//!
//! One decision follows the other, so each is made over the image that the one before has left. What is
//! committed goes to all who live by the metadata before the answers go to whoever has asked.

use crate::active::{ActiveController, Proposal};
use crate::context::{ControllerContext, Random};
use crate::metadata_log::{AppendMetadataError, MetadataLog};
use crate::requests::{ControllerRequest, ControllerResponse, Request};
use crate::sessions::BrokerContacts;
use metadata::{MetadataDelta, MetadataImage};
use model::{MonotonicTime, Now};
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
}

/// A step of the metadata.
#[derive(Debug, Clone)]
pub struct MetadataChange {
    /// The images before and after, and what is different.
    pub delta: MetadataDelta,
    /// The level of `kraft.version`: the quorum's, hence not in the image.
    pub kraft_version: i16,
}

/// What has come of a request.
#[derive(Debug)]
#[must_use = "somebody waits for an answer"]
pub struct Decided<T> {
    /// What is committed now, if anything is.
    pub change: Option<MetadataChange>,
    /// Answers that go once the change is served.
    pub answers: Vec<(T, ControllerResponse)>,
    /// Whoever has asked for what the log has not taken, and why it has not. Nobody asks for what the
    /// controller does by itself.
    pub refused: Option<(Option<T>, AppendMetadataError)>,
}

impl<T, D: Disk> Controller<T, D> {
    /// The controller of a log that this node leads.
    pub fn new(log: MetadataLog<D>, context: &ControllerContext<'_>, now: Now) -> Self {
        let kraft_version = log.kraft_version();
        let image = log.image().clone();
        let end_offset = end_offset(&image);
        let active =
            ActiveController::new(image, kraft_version, end_offset, context, now.monotonic);
        Self { log, active }
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
        let active = &mut self.active;
        let proposal = active.propose(request, asker, context, now.monotonic, random);
        self.write(&proposal, now.wall_ms)
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
        Some(self.write(&proposal, now.wall_ms))
    }

    fn write(&mut self, proposal: &Proposal, now_ms: i64) -> Decided<T> {
        if proposal.is_empty() {
            return Decided {
                change: None,
                answers: self.active.committed(end_offset(self.log.image())),
                refused: None,
            };
        }
        let before = self.log.image().clone();
        let appended = self.append(proposal, now_ms);
        // Of what is refused the quorum's own part may be there.
        let change = self.change_since(before);
        match appended {
            Ok(()) => {
                self.active.accepted();
                Decided {
                    change,
                    answers: self.active.committed(end_offset(self.log.image())),
                    refused: None,
                }
            }
            Err(error) => Decided {
                change,
                answers: Vec::new(),
                refused: Some((self.active.refused(), error)),
            },
        }
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
        if let Some((_, error)) = decided.refused {
            return Err(error);
        }
        if let ControllerRequest::RegisterBroker(request) = &request {
            self.active.keep_own_broker(request.registration.broker_id);
        }
        let answer = decided.answers.into_iter().next_back();
        let response = answer.and_then(|(_, response)| R::response_of(response));
        Ok(response.expect("what is committed is answered, each request by its kind"))
    }

    /// Takes over what the log says.
    pub fn follow_log(&mut self) {
        let image = self.log.image().clone();
        let end_offset = end_offset(&image);
        let kraft_version = self.log.kraft_version();
        self.active.appended(image, kraft_version, end_offset);
    }

    /// Appends what is proposed, committed on return.
    fn append(&mut self, proposal: &Proposal, now_ms: i64) -> Result<(), AppendMetadataError> {
        if let Some(level) = proposal.kraft_version {
            self.log.raise_kraft_version(level, now_ms)?;
            self.follow_log();
        }
        if !proposal.records.is_empty() {
            self.log.append(&proposal.records, now_ms)?;
            self.follow_log();
        }
        Ok(())
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
fn end_offset(image: &MetadataImage) -> i64 {
    image.provenance.last_offset + 1
}
