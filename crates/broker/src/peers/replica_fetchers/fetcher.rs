//! One fetcher: a task that asks a leader, and has the logs do what the answers say.
//!
//! ```text
//!   inbox ──> ReplicaFetcher ──> request ──> leader
//!                  ^    └── steps <── answer ──┘
//!                  │          ├─> a log whose disk answers: done at once, by turns with other tasks
//!                  └── done <─┴─> a slow disk, a log to be cut, a flush: apart
//! ```
//!
//! What is done apart is waited for a moment, so that the session keeps the partition; then the others go on.

use super::{FetcherId, ReplicaFetchers};
use crate::logs::checkpoint_files::Kind;
use crate::logs::cleaner::Pause;
use crate::logs::{Logs, checkpoints};
use crate::peers::connections::Purpose;
use crate::peers::endpoints::PeerNode;
use crate::scheduling::clock::{monotonic, now_ms};
use crate::scheduling::disk_watch::DiskUse;
use crate::scheduling::log_rate_limit::{LogRateLimit, LogRateLimits};
use crate::scheduling::off_workers::off_workers;
use crate::scheduling::turn::Turn;
use connection::{Connection, Response};
use model::{ErrorCode, MonotonicTime, Offset};
use parking_lot::Mutex;
use replication::{
    FetchedRecords, FetcherRequest, FetcherSettings, FetcherVersions, FollowError, Followed,
    FollowedPartition, Isolation, Partition, PartitionKey, PartitionOffsets, ReplicaFetcher, Step,
    StepAction, StepOutcome, StepToken,
};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use wire::ApiKey;

/// How long what is done apart is waited for before the other partitions go on without it.
const PATIENCE: Duration = Duration::from_millis(100);
/// Steps before other tasks may have their turn.
const STEPS_AT_ONCE: usize = 16;
/// How soon throttled partitions may be due again.
const THROTTLE_LOOK_MS: i64 = 200;

/// What a fetcher is told.
#[derive(Debug)]
pub(super) enum Command {
    Add(Box<FollowedPartition<Arc<Partition>>>),
    Remove(PartitionKey),
    Throttle(PartitionKey, bool),
    /// What came of a step that was done apart.
    Done(StepToken, StepOutcome),
    /// There is no such leader any more.
    End,
}

/// A fetcher, as others see it.
#[derive(Debug, Default)]
pub(super) struct Fetcher {
    inbox: Mutex<Inbox>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct Inbox {
    commands: Vec<Command>,
    /// Where the leader is.
    node: Option<PeerNode>,
    /// Whether that is somewhere else than the last request went.
    is_elsewhere: bool,
}

impl Fetcher {
    /// Starts a fetcher, which runs until the broker stops.
    pub(super) fn start(
        logs: &Arc<Logs>,
        fetchers: &Arc<ReplicaFetchers>,
        id: FetcherId,
    ) -> Arc<Self> {
        let own = Arc::new(Self::default());
        own.inbox.lock().node = fetchers.node_of(id.0);
        let task = FetcherTask {
            machine: ReplicaFetcher::new(settings(logs)),
            logs: logs.clone(),
            fetchers: fetchers.clone(),
            own: own.clone(),
            id,
            buffer: Vec::new(),
            apart_count: 0,
            failure_count: 0,
            not_taken: LogRateLimit::once_a_minute(),
            refused: LogRateLimits::default(),
            has_ended: false,
        };
        let mut stop = logs.node.stop.subscribe();
        logs.node.runtime.spawn(async move {
            tokio::select! {
                () = task.run() => {}
                _ = stop.wait_for(|stop| *stop) => {}
            }
        });
        own
    }

    /// Tells it something.
    pub(super) fn tell(&self, command: Command) {
        self.inbox.lock().commands.push(command);
        self.wake.notify_one();
    }

    /// Its leader is there now.
    pub(super) fn follow_endpoint(&self, node: Option<PeerNode>) {
        let mut inbox = self.inbox.lock();
        if node.is_some() && inbox.node != node {
            inbox.is_elsewhere = inbox.node.is_some();
            inbox.node = node;
            self.wake.notify_one();
        }
    }
}

fn settings(logs: &Logs) -> FetcherSettings {
    let fetch = &logs.node.config.replication.fetch;
    FetcherSettings {
        replica_id: logs.node.id,
        replica_epoch: logs.node.broker_epoch(),
        max_wait_ms: fetch.wait_max_ms,
        min_bytes: fetch.min_bytes,
        max_bytes: fetch.response_max_bytes,
        partition_max_bytes: fetch.max_bytes,
        backoff_ms: fetch.backoff_ms.into(),
    }
}

/// The task of a fetcher.
struct FetcherTask {
    machine: ReplicaFetcher<Arc<Partition>>,
    logs: Arc<Logs>,
    fetchers: Arc<ReplicaFetchers>,
    own: Arc<Fetcher>,
    id: FetcherId,
    buffer: Vec<u8>,
    /// Steps that are done apart.
    apart_count: usize,
    /// Requests in a row without an answer.
    failure_count: u32,
    /// Answers that are not taken, and what answers refuse of partitions.
    not_taken: LogRateLimit,
    refused: LogRateLimits<PartitionKey>,
    has_ended: bool,
}

impl FetcherTask {
    async fn run(mut self) {
        loop {
            self.take_commands();
            if self.has_ended {
                return;
            }
            if self.machine.is_empty() {
                self.pause(None).await;
            } else if let Some(connection) = self.connect().await {
                self.exchange(&connection).await;
            }
        }
    }

    /// Does what it was told; whether the leader is elsewhere since.
    fn take_commands(&mut self) -> bool {
        let mut inbox = self.own.inbox.lock();
        let commands = std::mem::take(&mut inbox.commands);
        let is_elsewhere = std::mem::take(&mut inbox.is_elsewhere);
        drop(inbox);
        for command in commands {
            match command {
                Command::Add(added) => drop(self.machine.add(*added)),
                Command::Remove(key) => drop(self.machine.remove(key)),
                Command::Throttle(key, is_throttled) => {
                    self.machine.set_throttled(key, is_throttled);
                }
                Command::Done(token, outcome) => {
                    self.apart_count -= 1;
                    self.machine.complete(token, outcome, monotonic());
                }
                Command::End => self.has_ended = true,
            }
        }
        is_elsewhere
    }

    /// Waits until it is told something, or until then.
    async fn pause(&self, until: Option<MonotonicTime>) {
        let woken = self.own.wake.notified();
        match until {
            None => woken.await,
            Some(until) => {
                let pause_ms = until.ms_since(monotonic()).max(0).unsigned_abs();
                let _ = tokio::time::timeout(Duration::from_millis(pause_ms), woken).await;
            }
        }
    }

    /// Leaves the leader alone for a while.
    async fn back_off(&self) {
        back_off(&self.logs).await;
    }

    async fn connect(&mut self) -> Option<Connection> {
        let (leader, number) = self.id;
        let node = self.own.inbox.lock().node.clone();
        // It may be registered later.
        let Some(node) = node.or_else(|| self.fetchers.node_of(leader)) else {
            self.back_off().await;
            return None;
        };
        let connections = &self.fetchers.connections;
        let purpose = Purpose::Replication(number);
        let deadline = connections.deadline(purpose);
        match connections.connection(&node, purpose, deadline).await {
            Ok(connection) => Some(connection),
            Err(error) => {
                self.note_failure(&error);
                self.back_off().await;
                None
            }
        }
    }

    /// One request and its answer, or a pause where there is nothing to ask for.
    async fn exchange(&mut self, connection: &Connection) {
        let Some(versions) = versions(connection) else {
            self.note_failure(&"it does not serve the fetches of followers that name topics by id");
            return self.back_off().await;
        };
        let now = monotonic();
        let is_over_quota = self.fetchers.is_over_quota(now);
        self.machine.set_over_quota(is_over_quota);
        self.machine
            .set_replica_epoch(self.logs.node.broker_epoch());
        self.buffer.clear();
        let asked = self.machine.poll_request(now, versions, &mut self.buffer);
        let Some(asked) = asked else {
            let mut until = self.machine.next_deadline();
            if is_over_quota {
                let look = now.plus_ms(THROTTLE_LOOK_MS);
                until = Some(until.map_or(look, |until| until.min(look)));
            }
            return self.pause(until).await;
        };
        let (api, version) = match asked {
            FetcherRequest::Fetch => (ApiKey::Fetch, versions.fetch),
            FetcherRequest::ListOffsets => (ApiKey::ListOffsets, versions.list_offsets),
        };
        let mut request = connection.request(api, version);
        request.body().extend_from_slice(&self.buffer);
        let deadline = self
            .fetchers
            .connections
            .deadline(Purpose::Replication(self.id.1));
        let sent = connection.send(request, deadline).await;
        let answered = match sent {
            Err(error) => Err(error),
            Ok(pending) => match self.answer(pending).await {
                Some(answered) => answered,
                None => return self.machine.interrupt(),
            },
        };
        match answered {
            Ok(response) => {
                self.failure_count = 0;
                self.take(&response).await;
            }
            Err(error) => {
                self.note_failure(&error);
                self.machine.handle_failure(monotonic());
                self.back_off().await;
            }
        }
    }

    /// Waits for an answer, and does meanwhile what it is told; `None` where the leader is elsewhere by then.
    async fn answer(
        &mut self,
        pending: connection::Pending,
    ) -> Option<Result<Response, connection::Error>> {
        tokio::pin!(pending);
        loop {
            let own = self.own.clone();
            tokio::select! {
                answered = &mut pending => return Some(answered),
                () = own.wake.notified() => {
                    if self.take_commands() || self.has_ended {
                        return None;
                    }
                }
            }
        }
    }

    fn note_failure(&mut self, error: &dyn std::fmt::Display) {
        let (leader, fetcher) = self.id;
        match self.failure_count {
            0 => {
                tracing::warn!(%leader, fetcher, %error, "the leader of partitions does not answer; it is asked again")
            }
            _ => {
                tracing::debug!(%leader, fetcher, %error, "the leader of partitions does not answer")
            }
        }
        self.failure_count = self.failure_count.saturating_add(1);
    }

    /// Has the logs do what an answer says.
    async fn take(&mut self, response: &Response) {
        let (leader, fetcher) = self.id;
        let (body, version) = (response.body(), response.version());
        if let Err(error) = self.machine.handle_response(body, version, monotonic())
            && let Some(not_logged) = self.not_taken.due()
        {
            tracing::warn!(%leader, fetcher, %error, not_logged, "an answer of the leader of partitions is not valid; it is asked again");
        }
        let mut turn = Turn::begin();
        loop {
            let (logs, fetchers, mut apart) = (&self.logs, &self.fetchers, Vec::new());
            let follow = |step: &Step<'_, '_, Arc<Partition>>| {
                follow_step(logs, fetchers, response, step, &mut apart)
            };
            let now = monotonic();
            let are_more = self.machine.take_steps(body, STEPS_AT_ONCE, now, follow);
            for (token, partition, work) in apart {
                self.do_apart(token, partition, work);
            }
            if !are_more {
                break;
            }
            turn.share().await;
        }
        let refused = &self.refused;
        self.machine.take_errors(|partition, error| {
            let due = || refused.due((partition.topic_id(), partition.index()));
            match is_unexpected(error).then(due).flatten() {
                Some(not_logged) => {
                    tracing::warn!(%partition, %leader, %error, not_logged, "the leader refuses a fetch");
                }
                None => tracing::debug!(%partition, %leader, %error, "the leader refuses a fetch"),
            }
        });
        self.wait_apart().await;
    }

    /// Does a step where its disk holds up nobody else.
    fn do_apart(&mut self, token: StepToken, partition: Arc<Partition>, work: Work) {
        self.apart_count += 1;
        let told = StepReport {
            fetcher: self.own.clone(),
            token,
            outcome: StepOutcome::Failed,
        };
        let logs = self.logs.clone();
        self.logs.node.runtime.spawn(async move {
            let outcome = do_work(&logs, &partition, work).await;
            told.end(outcome);
        });
    }

    /// Waits a moment for what is done apart.
    async fn wait_apart(&mut self) {
        let patience = tokio::time::sleep(PATIENCE);
        tokio::pin!(patience);
        while self.apart_count > 0 {
            tokio::select! {
                () = self.own.wake.notified() => {}
                () = &mut patience => return,
            }
            // Where the leader is, the next request finds out.
            if self.take_commands() {
                self.own.inbox.lock().is_elsewhere = true;
            }
        }
    }
}

/// Whether a refusal says more than that leaders change: those who lead and those who follow hear of it one after the
/// other, each partition on its own.
const fn is_unexpected(refusal: ErrorCode) -> bool {
    matches!(refusal, ErrorCode::OffsetOutOfRange)
}

/// Does a step, or notes in `apart` that it is to be done where its disk holds up nobody else.
fn follow_step(
    logs: &Logs,
    fetchers: &ReplicaFetchers,
    response: &Response,
    step: &Step<'_, '_, Arc<Partition>>,
    apart: &mut Vec<(StepToken, Arc<Partition>, Work)>,
) -> StepOutcome {
    let (partition, action) = (step.replica, &step.action);
    if step.is_throttled
        && let StepAction::Append(fetched) = action
    {
        let bytes = fetched.records.len() as u64;
        fetchers.throttle.record(bytes, monotonic());
    }
    let directory_index = partition.directory_index();
    if action.is_truncation() || logs.disks.is_slow(directory_index, DiskUse::Write) {
        apart.push((step.token, partition.clone(), Work::of(action, response)));
        return StepOutcome::Later;
    }
    let cut_count = partition.truncation_count();
    let follow = || partition.follow(action, now_ms());
    let result = logs.disks.call(directory_index, DiskUse::Write, follow);
    if let Err(error) = &result {
        report(logs, partition, error);
    }
    let outcome = StepOutcome::of(&result);
    if partition.truncation_count() != cut_count {
        apart.push((step.token, partition.clone(), Work::NoteCut(outcome)));
        return StepOutcome::Later;
    }
    if outcome != StepOutcome::Failed && partition.awaits_flush() {
        apart.push((step.token, partition.clone(), Work::Flush(outcome)));
        return StepOutcome::Later;
    }
    outcome
}

/// Tells a fetcher what came of a step, however that ends.
struct StepReport {
    fetcher: Arc<Fetcher>,
    token: StepToken,
    outcome: StepOutcome,
}

impl StepReport {
    fn end(mut self, outcome: StepOutcome) {
        self.outcome = outcome;
    }
}

impl Drop for StepReport {
    fn drop(&mut self) {
        self.fetcher.tell(Command::Done(self.token, self.outcome));
    }
}

/// What is done apart.
enum Work {
    /// Records on a slow disk: all but they, and they.
    Append(FetchedRecords<'static>, bytes::Bytes),
    Truncate(StepAction<'static>),
    /// A log was cut before records were appended, which had this outcome.
    NoteCut(StepOutcome),
    /// What was appended is to be durable before the leader is told that it is here, which this outcome does.
    Flush(StepOutcome),
}

impl Work {
    fn of(action: &StepAction<'_>, response: &Response) -> Self {
        match *action {
            StepAction::Append(fetched) => Self::Append(
                FetchedRecords {
                    leader_epoch: fetched.leader_epoch,
                    fetch_offset: fetched.fetch_offset,
                    high_watermark: fetched.high_watermark,
                    log_start_offset: fetched.log_start_offset,
                    records: &[],
                },
                response.slice_of(fetched.records),
            ),
            StepAction::TruncateToLeader { leader_epoch, end } => {
                Self::Truncate(StepAction::TruncateToLeader { leader_epoch, end })
            }
            StepAction::TruncateTo {
                leader_epoch,
                offset,
            } => Self::Truncate(StepAction::TruncateTo {
                leader_epoch,
                offset,
            }),
            StepAction::RestartAt {
                leader_epoch,
                offset,
            } => Self::Truncate(StepAction::RestartAt {
                leader_epoch,
                offset,
            }),
        }
    }
}

async fn do_work(logs: &Arc<Logs>, partition: &Arc<Partition>, work: Work) -> StepOutcome {
    let cut_count = partition.truncation_count();
    let result = match work {
        Work::Append(fetched, records) => {
            let append = || {
                let records = &*records;
                let fetched = FetchedRecords { records, ..fetched };
                partition.append_as_follower(&fetched, now_ms())
            };
            let directory_index = partition.directory_index();
            let appended = logs.disks.run(directory_index, DiskUse::Write, append);
            let appended = appended.await;
            if partition.truncation_count() != cut_count {
                note_cut_apart(logs, partition).await;
            }
            appended
        }
        Work::Truncate(action) => truncate(logs, partition, action).await,
        Work::NoteCut(outcome) => {
            note_cut_apart(logs, partition).await;
            return once_durable(logs, partition, outcome).await;
        }
        Work::Flush(outcome) => return once_durable(logs, partition, outcome).await,
    };
    if let Err(error) = &result {
        report(logs, partition, error);
    }
    once_durable(logs, partition, StepOutcome::of(&result)).await
}

/// The outcome, once what `flush.messages` asks for is durable.
async fn once_durable(
    logs: &Arc<Logs>,
    partition: &Arc<Partition>,
    outcome: StepOutcome,
) -> StepOutcome {
    match outcome == StepOutcome::Failed || flush_due(logs, partition).await {
        true => outcome,
        false => StepOutcome::Failed,
    }
}

/// Makes durable what `flush.messages` asks for; false where that cannot be any more.
pub(super) async fn flush_due(logs: &Logs, partition: &Arc<Partition>) -> bool {
    if !partition.awaits_flush() {
        return true;
    }
    // What comes later is another one's: it may be led here by then.
    let end_offset = partition.progress(Isolation::LogEnd).offset();
    while logs.flush(partition.clone(), end_offset).await.is_err() {
        // The failure has been reported. Without a file descriptor it may go well later.
        let is_gone = partition.is_failed() || super::hosting_topic(logs, partition).is_none();
        if is_gone || *logs.node.stop.borrow() {
            return false;
        }
        back_off(logs).await;
    }
    true
}

/// Waits before the same is tried again.
async fn back_off(logs: &Logs) {
    let backoff_ms = logs.node.config.replication.fetch.backoff_ms;
    let backoff_ms = backoff_ms.max(1).unsigned_abs().into();
    tokio::time::sleep(Duration::from_millis(backoff_ms)).await;
}

/// Cuts a log. What is noted elsewhere of what was there is mended before there is anything else.
async fn truncate(
    logs: &Arc<Logs>,
    partition: &Arc<Partition>,
    action: StepAction<'static>,
) -> Result<Followed, FollowError> {
    let (logs, partition) = (logs.clone(), partition.clone());
    let cut = move || {
        let (cut_count, before) = (partition.truncation_count(), partition.offsets());
        let directory_index = partition.directory_index();
        let pause = logs.cleaner.pause(&partition);
        let follow = || partition.follow(&action, now_ms());
        let result = logs.disks.call(directory_index, DiskUse::Write, follow);
        let after = partition.offsets();
        if after.log_end_offset < before.log_end_offset
            || after.log_start_offset > before.log_end_offset
        {
            tell_of_cut(&partition, &action, &before);
        }
        if partition.truncation_count() != cut_count {
            note_cut(&logs, &partition, before.log_start_offset, &pause);
        }
        result
    };
    match tokio::task::spawn_blocking(move || off_workers(cut)).await {
        Ok(result) => result,
        // The server stops, or an invariant is broken, which is in the log already.
        Err(_) => Err(FollowError::Offline),
    }
}

/// Mends what is noted elsewhere of what was in a log before it was cut, and started at `start_before`.
///
/// Whether it was cut its [count](Partition::truncation_count) tells. Its end does not: one who is to let go of the
/// partition may have appended before or after.
pub(super) fn note_cut(logs: &Logs, partition: &Partition, start_before: Offset, pause: &Pause) {
    let after = partition.offsets();
    let end_offset = after.log_end_offset;
    logs.cleaner.note_cut(logs, partition, end_offset, pause);
    let Some(directory) = logs.directories.get(partition.directory_index()) else {
        return;
    };
    checkpoints::write_unless_written(logs, directory, Kind::RecoveryPoints);
    // A start that is noted above the log's end would take all that is appended from here on.
    if after.log_start_offset < start_before {
        checkpoints::write_unless_written(logs, directory, Kind::LogStartOffsets);
    }
}

/// The same of a log that an append has cut, as much as that may be.
async fn note_cut_apart(logs: &Arc<Logs>, partition: &Arc<Partition>) {
    let (logs, partition) = (logs.clone(), partition.clone());
    let note = move || {
        let pause = logs.cleaner.pause(&partition);
        note_cut(&logs, &partition, Offset(i64::MAX), &pause);
    };
    // A panic has been told of.
    let _ = tokio::task::spawn_blocking(move || off_workers(note)).await;
}

fn tell_of_cut(partition: &Partition, action: &StepAction<'_>, before: &PartitionOffsets) {
    let (to, from) = (
        partition.offsets().log_end_offset.0,
        before.log_end_offset.0,
    );
    let high_watermark_before = before.high_watermark.0;
    match action {
        StepAction::RestartAt { .. } => {
            tracing::warn!(%partition, from, to, "the log starts again at the leader's log start offset");
        }
        _ if to < high_watermark_before => tracing::warn!(
            %partition, from, to, high_watermark = high_watermark_before,
            "the log is truncated below its high watermark: its leader, which was elected uncleanly, does not have those records"
        ),
        _ => {
            tracing::info!(%partition, from, to, "the log is truncated to where it agrees with its leader's")
        }
    }
}

/// The versions that a leader serves; `None` where they are too old.
fn versions(connection: &Connection) -> Option<FetcherVersions> {
    let versions = FetcherVersions {
        fetch: connection.version_of(ApiKey::Fetch).ok()?,
        list_offsets: connection.version_of(ApiKey::ListOffsets).ok()?,
    };
    versions.are_served().then_some(versions)
}

/// Acts on a step that was not done.
pub(super) fn report(logs: &Logs, partition: &Partition, error: &FollowError) {
    match error {
        FollowError::Storage(error) | FollowError::Read(storage::ReadError::Storage(error)) => {
            logs.report_log_error(partition, error);
        }
        FollowError::Read(error) => {
            tracing::error!(%partition, %error, "a log cannot be truncated, and does not follow its leader any more");
        }
        FollowError::Invalid { .. } => {
            if let Some(not_logged) = logs.refused_records_due() {
                tracing::warn!(%partition, %error, not_logged, "the leader's records are not valid, and are fetched again");
            }
        }
        FollowError::NotFollower | FollowError::OtherOffset { .. } | FollowError::Offline => {
            tracing::debug!(%partition, %error, "an answer of a leader is ignored");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_planned_change_of_leaders_warns_nobody() {
        for error in [
            ErrorCode::FencedLeaderEpoch,
            ErrorCode::UnknownLeaderEpoch,
            ErrorCode::NotLeaderOrFollower,
        ] {
            assert!(!is_unexpected(error), "{error}");
        }
        assert!(is_unexpected(ErrorCode::OffsetOutOfRange));
    }
}
