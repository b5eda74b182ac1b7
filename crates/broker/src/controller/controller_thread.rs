//! The active controller: one thread that decides, appends, replays and publishes.
//!
//! ```text
//!   handler ── job ──> thread: decide over the image ──> append to __cluster_metadata, synced
//!           <─ answer ─         host what changed  <──── replay into the next image
//! ```
//!
//! One decision follows the other, so each is made over the image that the one before has left. A
//! client has its answer only when this broker serves what was decided, but for what a disk that is stuck
//! holds up (`directory_work`). Whoever has asked for a partition on a disk that is late waits for that, and
//! nobody else does (`creations`).

use crate::Broker;
use crate::controller::metadata_log::{AppendMetadataError, MetadataLog};
use crate::logs::creations;
use crate::logs::hosting;
use crate::runtime::clock::{now_ms, random_bytes};
use controller::{ControllerContext, Decision, Random};
use metadata::{MetadataImage, MetadataRecord};
use model::ErrorCode;
use replication::PartitionKey;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Requests that wait for the controller at most.
const QUEUE_LENGTH: usize = 1024;

type Job = Box<dyn FnOnce(&mut ActiveController) + Send>;

/// Where the controller's thread is reached.
#[derive(Debug)]
pub(crate) struct ControllerThread {
    jobs: mpsc::Sender<Job>,
}

/// What the thread owns.
pub(crate) struct ActiveController {
    /// The metadata log and the image that it adds up to.
    pub(crate) log: MetadataLog,
    broker: Arc<Broker>,
    /// New partitions whose logs are made when their disk, which is late, has answered.
    late: Vec<PartitionKey>,
}

/// The other end of a [`ControllerThread`], for the thread itself.
#[derive(Debug)]
pub(crate) struct Jobs(mpsc::Receiver<Job>);

impl ControllerThread {
    /// A controller that has yet to be started.
    pub(crate) fn new() -> (Self, Jobs) {
        let (jobs, receiver) = mpsc::channel(QUEUE_LENGTH);
        (Self { jobs }, Jobs(receiver))
    }

    /// Runs `call` on the thread.
    ///
    /// # Errors
    /// `NotController` when the thread has ended.
    pub(crate) async fn run<R: Send + 'static>(
        &self,
        call: impl FnOnce(&mut ActiveController) -> R + Send + 'static,
    ) -> Result<R, ErrorCode> {
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move |controller| {
            let _ = answer.send(call(controller));
        });
        self.jobs
            .send(job)
            .await
            .map_err(|_| ErrorCode::NotController)?;
        answered.await.map_err(|_| ErrorCode::NotController)
    }

    /// How many jobs wait for the one that the thread does.
    #[cfg(test)]
    pub(crate) fn queued_count(&self) -> usize {
        self.jobs.max_capacity() - self.jobs.capacity()
    }

    /// A task that runs `call` on the thread, for those who cannot wait for it: the thread itself,
    /// and threads that are no tasks.
    pub(crate) fn tell<R>(
        &self,
        call: impl FnOnce(&mut ActiveController) -> R + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        let jobs = self.jobs.clone();
        let job: Job = Box::new(move |controller| {
            call(controller);
        });
        async move {
            // It has ended when the server stops.
            let _ = jobs.send(job).await;
        }
    }

    /// Lets the controller decide over the newest image, and carries the decision out.
    ///
    /// # Errors
    /// Why it could not be carried out; nothing was changed then.
    pub(crate) async fn decide<R: Send + 'static>(
        &self,
        decide: impl FnOnce(&MetadataImage, &ControllerContext<'_>, &mut Random<'_>) -> Decision<R>
        + Send
        + 'static,
    ) -> Result<R, ErrorCode> {
        self.decide_and_wait(Duration::MAX, decide).await
    }

    /// Waits off the thread for what a disk that is late keeps from being done.
    async fn decide_and_wait<R: Send + 'static>(
        &self,
        limit: Duration,
        decide: impl FnOnce(&MetadataImage, &ControllerContext<'_>, &mut Random<'_>) -> Decision<R>
        + Send
        + 'static,
    ) -> Result<R, ErrorCode> {
        let decided = self.run(|controller| {
            let decided = controller.decide(decide);
            let late = std::mem::take(&mut controller.late);
            let waiting = (!late.is_empty()).then(|| (controller.broker.creations.clone(), late));
            (decided, waiting)
        });
        let (decided, waiting) = decided.await?;
        if let Some((creations, late)) = waiting {
            creations.wait_for(&late, limit).await;
        }
        decided
    }

    /// [`Self::decide`], unless the client gives it no time at all.
    ///
    /// # Errors
    /// The same, and `RequestTimedOut`.
    pub(crate) async fn decide_within<R: Send + 'static>(
        &self,
        timeout_ms: i32,
        decide: impl FnOnce(&MetadataImage, &ControllerContext<'_>, &mut Random<'_>) -> Decision<R>
        + Send
        + 'static,
    ) -> Result<R, ErrorCode> {
        if timeout_ms <= 0 {
            return Err(ErrorCode::RequestTimedOut);
        }
        let limit = Duration::from_millis(timeout_ms.unsigned_abs().into());
        self.decide_and_wait(limit, decide).await
    }
}

impl ActiveController {
    /// Decides over the newest image, and carries the decision out.
    ///
    /// # Errors
    /// `KafkaStorageError` when the metadata log takes no records.
    pub(crate) fn decide<R>(
        &mut self,
        decide: impl FnOnce(&MetadataImage, &ControllerContext<'_>, &mut Random<'_>) -> Decision<R>,
    ) -> Result<R, ErrorCode> {
        let context = ControllerContext::new(&self.broker.config);
        let decision = decide(self.log.image(), &context, &mut random_bytes);
        if !decision.records.is_empty() {
            self.commit(&decision.records)
                .map_err(|error| self.refused(&error))?;
        }
        Ok(decision.response)
    }

    /// Raises `kraft.version` in the quorum, and tells clients.
    ///
    /// # Errors
    /// `KafkaStorageError` when the metadata log takes no records.
    pub(crate) fn raise_kraft_version(&mut self, level: i16) -> Result<(), ErrorCode> {
        let raised = self.log.raise_kraft_version(level, now_ms());
        let image = raised.map_err(|error| self.refused(&error))?;
        self.broker.kraft_version.store(level, Ordering::Release);
        self.broker.publish(image);
        Ok(())
    }

    /// The answer to what the metadata log does not take.
    fn refused(&self, error: &AppendMetadataError) -> ErrorCode {
        tracing::error!(%error, "the metadata log takes no records");
        if self.log.has_failed() && !*self.broker.stop.borrow() {
            self.broker.halt("the metadata log has failed".to_owned());
        }
        ErrorCode::KafkaStorageError
    }

    /// Appends records, and serves what they say.
    pub(crate) fn commit(&mut self, records: &[MetadataRecord]) -> Result<(), AppendMetadataError> {
        let appended = self.log.append(records, now_ms())?;
        let placed = hosting::apply(&self.broker, &appended.delta);
        self.broker.creations.keep(&placed);
        let late = self.broker.creations.late_among(&appended.delta);
        self.late.extend(late);
        self.broker.groups.follow(&appended.image);
        self.broker.transactions.follow(&appended.image);
        self.broker.publish(appended.image);
        self.note_places()?;
        self.snapshot_if_due();
        Ok(())
    }

    /// Appends what the metadata do not say yet of the places of partitions, and whether they may go
    /// there. What cannot be noted for now is tried again: without it nobody could tell at the next
    /// start in which directory a partition is.
    fn note_places(&mut self) -> Result<(), AppendMetadataError> {
        let image = self.log.image();
        let mut records = creations::unnoted_places(&self.broker, image);
        records.extend(self.broker.cordoning_records(image));
        if records.is_empty() {
            return Ok(());
        }
        match self.log.append(&records, now_ms()) {
            Ok(appended) => {
                creations::unnoted_places(&self.broker, &appended.image);
                self.broker.publish(appended.image);
                Ok(())
            }
            // What was asked for is done.
            Err(error) if !self.log.has_failed() => {
                tracing::warn!(%error, "places of new partitions are not noted for now");
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Makes the logs that could not be made when their partitions were.
    ///
    /// # Errors
    /// When the metadata log takes no records.
    pub(crate) fn create_missing_logs(&mut self) -> Result<(), AppendMetadataError> {
        let placed = creations::create_missing(&self.broker, self.log.image());
        self.broker.creations.keep(&placed);
        self.note_places()
    }

    /// Closes the metadata log in order, with all that is to be noted.
    ///
    /// # Errors
    /// When the disk fails.
    pub(crate) fn close(&mut self) -> Result<(), AppendMetadataError> {
        self.note_places()?;
        self.log.close(now_ms())
    }

    /// Writes a snapshot when enough has been appended, or long enough ago.
    pub(crate) fn snapshot_if_due(&mut self) {
        let Some(job) = self.log.snapshot_due(now_ms()) else {
            return;
        };
        let written = job.run(now_ms());
        let done = self.log.complete_snapshot(written, now_ms());
        if let Err(error) = done {
            tracing::warn!(%error, "a snapshot of the metadata cannot be written");
        }
    }
}

/// Starts the thread. It ends when the broker is dropped, or when a job says so.
pub(crate) fn start(broker: &Arc<Broker>, log: MetadataLog, jobs: Jobs) -> std::io::Result<()> {
    let weak: Weak<Broker> = Arc::downgrade(broker);
    let mut log = Some(log);
    let mut jobs = jobs.0;
    let work = move || {
        while let Some(job) = jobs.blocking_recv() {
            let Some(broker) = weak.upgrade() else { return };
            let mut controller = ActiveController {
                log: log.take().expect("put back after each job"),
                broker,
                late: Vec::new(),
            };
            // A decision that panics has broken an invariant: nothing it left can be trusted.
            let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| job(&mut controller)));
            if outcome.is_err() {
                let reason = "the controller has failed and decides no more";
                controller.broker.halt(reason.to_owned());
                return;
            }
            log = Some(controller.log);
        }
    };
    std::thread::Builder::new()
        .name("controller".into())
        .spawn(work)?;
    Ok(())
}
