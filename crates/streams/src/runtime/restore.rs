//! Restoring: the changelogs of new tasks' stores are read from where the stores stand to where the logs ended, a batch
//! at a time, so that the thread's other tasks go on and its consumer polls meanwhile.

use super::directory::StateDirectory;
use super::failure::client_error;
use super::kept::changelog_of;
use super::listeners::StateRestoreListener;
use super::output::topic_partition;
use super::records::{batches, headers};
use super::thread_setup::ThreadSetup;
use crate::error::StreamsError;
use crate::processor::TaskId;
use crate::state::{ChangelogRecord, StateStore};
use crate::store_fault::StoreFault;
use riverrun_client::consumer::{Consumer, OwnedRecord};
use riverrun_client::{Error, ErrorCode, TopicPartition};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// What stores of a thread have put off to work on is done before more is read, if it has more bytes of records: these
/// are on the disk twice. Each time the tables of a store are made anew, which is most of what a large store costs.
const MOST_UNSETTLED_BYTES: u64 = 4 << 30;
/// So much may be put off on any disk; of more, the disk has room for as much again of each thread.
const UNSETTLED_BYTES: u64 = 256 << 20;
/// What is given up if a thread's stores, when they are closed, have put off more: nobody waits for long.
const MOST_CLOSED_BYTES: u64 = 64 << 20;

/// A store of a task, and the topic that its changes are in.
pub(super) struct LoggedStore {
    pub(super) task_id: TaskId,
    pub(super) topic: Arc<str>,
    pub(super) store: Rc<RefCell<dyn StateStore>>,
    /// Of a topic that is the task's input too: records from this offset on are still to be processed.
    pub(super) committed_offset: Option<i64>,
    /// The next record of a store that has followed the topic; none of one that knows itself.
    pub(super) followed_offset: Option<i64>,
}

/// A store that is being restored.
struct Restoring {
    task_id: TaskId,
    topic: Arc<str>,
    store: Rc<RefCell<dyn StateStore>>,
    /// Where the changelog ended when the restore began, or what was committed of an input.
    end_offset: i64,
    /// The store has what is before it: of what the consumer has given since, perhaps not all.
    next_offset: i64,
    restored_count: u64,
    /// Nothing is read before it has done what it has put off.
    settles: bool,
}

/// What restores the stores of a thread's tasks.
pub(super) struct Restorer {
    consumer: Consumer,
    /// Tells where changelogs end, whether that is committed or not.
    ends: Consumer,
    restoring: BTreeMap<TopicPartition, Restoring>,
    directory: Arc<StateDirectory>,
    /// So many threads restore stores to the same disk.
    thread_count: u64,
    listener: Arc<dyn StateRestoreListener>,
}

impl fmt::Debug for Restorer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Restorer")
            .field("partitions", &self.restoring.len())
            .finish_non_exhaustive()
    }
}

/// Why a restore does not begin.
pub(super) enum NotBegun {
    /// The cluster does not say where changelogs begin and end. Nothing has changed.
    Unknown(Error),
    /// The changelogs of these tasks begin after what their stores have, so that nobody knows which rows were deleted
    /// since: the stores have to begin anew.
    Cut(BTreeSet<TaskId>),
    Failed(StreamsError),
}

impl Restorer {
    /// `ends` reads what is not committed, too: a transaction that is being committed may have its marker still to come
    /// in a changelog, and its input offsets count already. Reading to this end waits for the marker.
    pub(super) fn new(
        consumer: Consumer,
        ends: Consumer,
        (directory, thread_count): (Arc<StateDirectory>, usize),
        listener: Arc<dyn StateRestoreListener>,
    ) -> Self {
        Self {
            consumer,
            ends,
            restoring: BTreeMap::new(),
            directory,
            thread_count: u64::try_from(thread_count).unwrap_or(1).max(1),
            listener,
        }
    }

    /// Whether there is nothing to restore.
    pub(super) fn is_idle(&self) -> bool {
        self.restoring.is_empty()
    }

    /// Whether a store of the task is not restored yet.
    pub(super) fn is_restoring(&self, task_id: TaskId) -> bool {
        self.restoring
            .values()
            .any(|restoring| restoring.task_id == task_id)
    }

    /// The next record of a changelog that is being read.
    pub(super) fn position(&self, partition: &TopicPartition) -> Option<i64> {
        let restoring = self.restoring.get(partition)?;
        let position = self.consumer.position(partition);
        Some(position.unwrap_or(restoring.next_offset))
    }

    /// Begins to restore stores. What is committed of the tasks' inputs is known before, so that the changelogs have
    /// all that belongs to it.
    pub(super) async fn begin(&mut self, stores: Vec<LoggedStore>) -> Result<(), NotBegun> {
        let partitions: Vec<TopicPartition> = stores
            .iter()
            .map(|logged| topic_partition(&logged.topic, logged.task_id.partition))
            .collect();
        if partitions.is_empty() {
            return Ok(());
        }
        let ends = self.ends.end_offsets(&partitions).await;
        let begins = self.consumer.beginning_offsets(&partitions).await;
        let (ends, begins) = match (ends, begins) {
            (Ok(ends), Ok(begins)) => (ends, begins),
            (Err(error), _) | (_, Err(error)) => return Err(NotBegun::Unknown(error)),
        };
        let mut new = BTreeMap::new();
        let mut starts = Vec::new();
        let mut cut = BTreeSet::new();
        for (logged, partition) in stores.into_iter().zip(partitions) {
            let span = (
                begins.get(&partition).copied().unwrap_or(0),
                ends.get(&partition).copied().unwrap_or(0),
            );
            let from = start(&logged, span).map_err(NotBegun::Failed)?;
            let Some(from) = from else {
                cut.insert(logged.task_id);
                continue;
            };
            let end_offset = logged
                .committed_offset
                .map_or(span.1, |end| end.min(span.1));
            let is_read = from >= end_offset;
            // A store that has stood by may have read all, and have put off to work on it.
            if !is_read || logged.store.borrow().unsettled_bytes() > 0 {
                if !is_read {
                    starts.push((partition.clone(), from));
                }
                let restoring = Restoring {
                    task_id: logged.task_id,
                    topic: logged.topic,
                    store: logged.store,
                    end_offset: end_offset.max(from),
                    next_offset: from,
                    restored_count: 0,
                    settles: false,
                };
                new.insert(partition, (from, restoring));
            }
        }
        if !cut.is_empty() {
            return Err(NotBegun::Cut(cut));
        }
        for (partition, (from, restoring)) in new {
            let store = Arc::clone(restoring.store.borrow().name());
            let end_offset = restoring.end_offset;
            self.listener
                .on_restore_start(&partition, &store, from, end_offset);
            self.restoring.insert(partition, restoring);
        }
        self.assign().map_err(NotBegun::Failed)?;
        for (partition, from) in starts {
            let sought = self.consumer.seek(&partition, from).map_err(client_error);
            sought.map_err(NotBegun::Failed)?;
        }
        Ok(())
    }

    /// Puts the records into their stores that come within `timeout`.
    ///
    /// # Errors
    /// A record cannot be put into its store, or a changelog cannot be read.
    pub(super) async fn poll(&mut self, timeout: Duration) -> Result<(), StreamsError> {
        if self.restoring.is_empty() {
            return Ok(());
        }
        let usable_bytes = || self.directory.usable_bytes();
        if !settle_first(&mut self.restoring, self.thread_count, usable_bytes)? {
            self.read(timeout).await?;
        }
        self.settle_read()?;
        // The consumer's heartbeats come between two steps.
        tokio::task::yield_now().await;
        Ok(())
    }

    async fn read(&mut self, timeout: Duration) -> Result<(), StreamsError> {
        let read_count = self.restoring.values().filter(|one| one.is_read()).count();
        if read_count == self.restoring.len() {
            return Ok(());
        }
        let timeout = match read_count {
            0 => timeout,
            _ => Duration::ZERO,
        };
        let records = match self.consumer.poll(timeout).await {
            Ok(records) => records.into_owned().map_err(client_error)?,
            Err(error) => return unread(error),
        };
        for (partition, records) in batches(records) {
            if let Some(restoring) = self.restoring.get_mut(&*partition) {
                let count = records.len() as u64;
                restoring.put(records)?;
                restoring.restored_count += count;
                let store = restoring.store.borrow();
                self.listener
                    .on_batch_restored(&partition, store.name(), count);
            }
        }
        for (partition, restoring) in &mut self.restoring {
            let position = self.consumer.position(partition);
            restoring.next_offset = position.unwrap_or(restoring.next_offset);
        }
        let unread = self.restoring.values().filter(|one| !one.is_read()).count();
        match read_count + unread == self.restoring.len() {
            true => Ok(()),
            false => self.assign(),
        }
    }

    /// Has the consumer read what is not read yet.
    fn assign(&mut self) -> Result<(), StreamsError> {
        let unread = self.restoring.iter().filter(|(_, one)| !one.is_read());
        let unread = unread.map(|(partition, _)| partition.clone());
        self.consumer.assign(unread).map_err(client_error)
    }

    /// Stores that have read their changelogs to the end do what they have put off: one at a time, which has the least
    /// to do, and in steps, so that the thread's other tasks go on meanwhile.
    fn settle_read(&mut self) -> Result<(), StreamsError> {
        let read = self.restoring.values_mut().filter(|one| one.is_read());
        let unsettled = read.filter(|one| one.unsettled_bytes() > 0);
        if let Some(restoring) = least_unsettled(unsettled) {
            restoring.store.borrow_mut().settle(0)?;
        }
        let is_done = |one: &Restoring| one.is_read() && one.unsettled_bytes() == 0;
        let done = self.restoring.iter().filter(|(_, one)| is_done(one));
        let done: Vec<TopicPartition> = done.map(|(partition, _)| partition.clone()).collect();
        for partition in &done {
            let Some(restoring) = self.restoring.get(partition) else {
                continue;
            };
            restoring.note(restoring.end_offset)?;
            let store = restoring.store.borrow();
            self.listener
                .on_restore_end(partition, store.name(), restoring.restored_count);
            drop(store);
            self.restoring.remove(partition);
            tracing::info!(changelog = %partition, "a store is restored up to the end of its changelog");
        }
        Ok(())
    }

    /// The task goes away before its stores are restored. They note how far they are, unless they would have to do for
    /// long what they have put off: what they noted before stays, and the rest is restored again.
    ///
    /// # Errors
    /// A store failed.
    pub(super) fn give_up(&mut self, task_id: TaskId) -> Result<(), StreamsError> {
        let mut noted = Ok(());
        let unsettled_bytes = unsettled_bytes(&self.restoring);
        let of_task = self.restoring.iter();
        for (partition, restoring) in of_task.filter(|(_, one)| one.task_id == task_id) {
            if is_soon_noted(&restoring.store, unsettled_bytes) {
                noted = noted.and(restoring.note_read());
            }
            let store = restoring.store.borrow();
            let count = restoring.restored_count;
            self.listener
                .on_restore_suspended(partition, store.name(), count);
        }
        self.restoring
            .retain(|_, restoring| restoring.task_id != task_id);
        noted.and(self.assign())
    }

    pub(super) async fn close(self, timeout: Duration) {
        for consumer in [self.consumer, self.ends] {
            if let Err(error) = Box::pin(consumer.close(timeout)).await {
                tracing::warn!(%error, "the restore consumer could not be closed in time");
            }
        }
    }
}

fn unsettled_bytes(restoring: &BTreeMap<TopicPartition, Restoring>) -> u64 {
    restoring.values().map(Restoring::unsettled_bytes).sum()
}

/// Does a step of what is to be done before more is read. Stores that have begun with what they have put off go on, and
/// if all have put off too much, each of them does it all and notes how far it is. Whether there was such a step.
fn settle_first(
    all: &mut BTreeMap<TopicPartition, Restoring>,
    thread_count: u64,
    usable_bytes: impl FnOnce() -> u64,
) -> Result<bool, StreamsError> {
    let are_full = is_too_much(unsettled_bytes(all), thread_count, usable_bytes);
    for restoring in all.values_mut() {
        if !restoring.settles && restoring.unsettled_bytes() > 0 {
            let has_begun = !restoring.store.borrow_mut().settle(u64::MAX)?;
            restoring.settles = are_full || has_begun;
            if has_begun {
                return Ok(true);
            }
        }
    }
    let Some(restoring) = least_unsettled(all.values_mut().filter(|one| one.settles)) else {
        return Ok(false);
    };
    if restoring.store.borrow_mut().settle(0)? {
        restoring.settles = false;
        restoring.note_read()?;
    }
    Ok(true)
}

/// Whether as many bytes of a thread wait in files as may, on a disk that has room for `usable_bytes` more of all
/// threads: each may need as much again when it works on them, all at the same time.
fn is_too_much(
    unsettled_bytes: u64,
    thread_count: u64,
    usable_bytes: impl FnOnce() -> u64,
) -> bool {
    unsettled_bytes > MOST_UNSETTLED_BYTES
        || unsettled_bytes > UNSETTLED_BYTES
            && unsettled_bytes.saturating_mul(thread_count) > usable_bytes()
}

/// Of some stores that which has the least to do.
fn least_unsettled<'a>(
    stores: impl Iterator<Item = &'a mut Restoring>,
) -> Option<&'a mut Restoring> {
    stores.min_by_key(|restoring| restoring.unsettled_bytes())
}

/// Whether a store that is closed has time to do what it has put off, if those of the thread have put off so much: they
/// may be closed one after the other.
pub(super) fn is_soon_noted(store: &RefCell<dyn StateStore>, of_all_bytes: u64) -> bool {
    of_all_bytes <= MOST_CLOSED_BYTES || store.borrow().unsettled_bytes() == 0
}

/// Where to read from a changelog that begins and ends at the offsets of `span`; none when it was cut after what the
/// store has.
///
/// # Errors
/// The store has more than the changelog.
fn start(logged: &LoggedStore, span: (i64, i64)) -> Result<Option<i64>, StreamsError> {
    let (begin_offset, end_offset) = span;
    let store = logged.store.borrow();
    let (topic, partition) = (&logged.topic, logged.task_id.partition);
    let followed = logged.followed_offset.filter(|next| *next > 0);
    let last = match followed {
        Some(next_offset) => Some(next_offset - 1),
        None => store.committed_offset(topic, partition)?,
    };
    let Some(last) = last else {
        return Ok(Some(begin_offset));
    };
    if last >= end_offset {
        return Err(StreamsError::Store {
            store: Arc::clone(store.name()),
            source: format!(
                "it has records up to offset {last} of `{topic}`, partition {partition}, which ends at {end_offset}: \
                 the topic was deleted or cut; to go on with what it has, remove the state directory, as \
                 `KafkaStreams::clean_up` does"
            )
            .into(),
        });
    }
    Ok((last + 1 >= begin_offset).then_some(last + 1))
}

impl Restoring {
    /// Whether nothing is left to be read for it.
    const fn is_read(&self) -> bool {
        self.next_offset >= self.end_offset
    }

    /// Puts records into the store; those without a key, which no store writes, are left out, and so are those that
    /// are still to be processed.
    fn put(&self, records: Vec<OwnedRecord>) -> Result<(), StreamsError> {
        let records: Vec<ChangelogRecord> = records
            .into_iter()
            .filter(|record| record.offset < self.end_offset)
            .filter_map(changelog_record)
            .collect();
        let partition = self.task_id.partition;
        put(&self.store, &self.topic, partition, &records)
    }

    fn unsettled_bytes(&self) -> u64 {
        self.store.borrow().unsettled_bytes()
    }

    /// Notes how far the store is.
    fn note_read(&self) -> Result<(), StreamsError> {
        self.note(self.next_offset.min(self.end_offset))
    }

    /// Notes that the store has what is before `offset`.
    fn note(&self, offset: i64) -> Result<(), StreamsError> {
        if offset <= 0 {
            return Ok(());
        }
        let key = (Arc::clone(&self.topic), self.task_id.partition);
        let noted = BTreeMap::from([(key, offset - 1)]);
        self.store.borrow_mut().commit(&noted)
    }
}

/// Puts records of a partition of a changelog into their store.
///
/// # Errors
/// The disk fails, or a record cannot be put: the error tells which one.
pub(super) fn put(
    store: &RefCell<dyn StateStore>,
    topic: &Arc<str>,
    partition: i32,
    records: &[ChangelogRecord],
) -> Result<(), StreamsError> {
    let mut store = store.borrow_mut();
    let Err(error) = store.restore(records) else {
        return Ok(());
    };
    if error.store_fault().is_some_and(StoreFault::is_of_disk) {
        return Err(error);
    }
    // To restore a row again changes nothing: this finds the record that cannot be.
    for record in records {
        let restored = store.restore(std::slice::from_ref(record));
        restored.map_err(|error| StreamsError::Restore {
            store: Arc::clone(store.name()),
            topic: Arc::clone(topic),
            partition,
            offset: record.offset,
            source: Box::new(error),
        })?;
    }
    Ok(())
}

/// Nobody knows which rows of a task's stores have been deleted since they were written: a changelog was cut. What
/// changelogs have is restored from their beginning when the task is made again.
///
/// # Errors
/// The disk fails.
pub(super) fn begin_anew<T>(
    setup: &ThreadSetup,
    task_id: TaskId,
    task: T,
    stores: impl FnOnce(&T) -> &BTreeMap<Arc<str>, Rc<RefCell<dyn StateStore>>>,
) -> Result<(), StreamsError> {
    tracing::warn!(task = %task_id, "a changelog begins after what its store has, or ends before: the stores are restored from the beginning");
    setup.registry.note(task_id, 0);
    let has_changelog = |name: &Arc<str>| changelog_of(setup, name).is_some();
    let stores = stores(&task);
    if stores.keys().all(has_changelog) {
        drop(task);
        return setup.directory.wipe(task_id);
    }
    // What no topic has must stay, and the task has not processed since it was opened.
    stores.iter().try_for_each(|(name, store)| {
        let mut store = store.borrow_mut();
        match has_changelog(name) {
            true => store.commit(&BTreeMap::new()),
            false => store.close(),
        }
    })
}

/// What comes of changelogs that cannot be read: brokers that do not answer are waited for.
///
/// # Errors
/// What does not pass by itself.
pub(super) fn unread(error: Error) -> Result<(), StreamsError> {
    match error {
        error if error.is_retriable() => {
            tracing::warn!(%error, "changelogs cannot be read for now");
            Ok(())
        }
        error @ Error::Refused {
            code: ErrorCode::OffsetOutOfRange,
            ..
        } => Err(StreamsError::TaskCorrupted(format!(
            "a changelog was cut while it was read: {error}"
        ))),
        error => Err(client_error(error)),
    }
}

/// A record of a changelog; none without a key.
pub(super) fn changelog_record(record: OwnedRecord) -> Option<ChangelogRecord> {
    Some(ChangelogRecord {
        key: record.key?,
        value: record.value,
        timestamp_ms: record.timestamp_ms,
        headers: headers(record.headers),
        offset: record.offset,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    /// Has put off work on so many bytes.
    struct Fake {
        name: Arc<str>,
        left_bytes: u64,
        has_begun: bool,
        committed: Vec<i64>,
        /// The offsets of the records that it was given.
        restored: Vec<i64>,
        fault: Option<fn() -> StoreFault>,
    }

    impl StateStore for Fake {
        fn name(&self) -> &Arc<str> {
            &self.name
        }

        fn is_persistent(&self) -> bool {
            true
        }

        fn restore(&mut self, records: &[ChangelogRecord]) -> Result<(), StreamsError> {
            self.restored
                .extend(records.iter().map(|record| record.offset));
            // A second call would find nothing wrong.
            match self.fault.take() {
                Some(fault) => Err(fault().of(&self.name)),
                None => Ok(()),
            }
        }

        fn settle(&mut self, most_bytes: u64) -> Result<bool, StreamsError> {
            if self.left_bytes > most_bytes || self.has_begun {
                self.left_bytes = self.left_bytes.saturating_sub(16 << 20);
                self.has_begun = self.left_bytes > 0;
            }
            Ok(!self.has_begun && self.left_bytes <= most_bytes)
        }

        fn unsettled_bytes(&self) -> u64 {
            self.left_bytes
        }

        fn commit(&mut self, offsets: &crate::state::Offsets) -> Result<(), StreamsError> {
            assert_eq!(self.left_bytes, 0, "a commit does all at once");
            self.committed.extend(offsets.values());
            Ok(())
        }

        fn committed_offset(&self, _: &str, _: i32) -> Result<Option<i64>, StreamsError> {
            Ok(self.committed.last().copied())
        }

        fn close(&mut self) -> Result<(), StreamsError> {
            Ok(())
        }
    }

    fn restoring(left_bytes: u64, has_begun: bool) -> (Restoring, Rc<RefCell<Fake>>) {
        let store = Rc::new(RefCell::new(Fake {
            name: Arc::from("s"),
            left_bytes,
            has_begun,
            committed: Vec::new(),
            restored: Vec::new(),
            fault: None,
        }));
        let task_id = TaskId {
            subtopology: 0,
            partition: 0,
        };
        let restoring = Restoring {
            task_id,
            topic: Arc::from("t"),
            store: Rc::clone(&store) as Rc<RefCell<dyn StateStore>>,
            end_offset: 100,
            next_offset: 50,
            restored_count: 0,
            settles: false,
        };
        (restoring, store)
    }

    /// Stores with so many MB, which have begun or not, on a disk with so many more: after how many steps more is read,
    /// what is left then, and what is noted.
    fn check_first(
        stores: &[(u64, bool)],
        usable_megabytes: u64,
        steps: usize,
        left: &[(u64, &[i64])],
    ) {
        let stores = stores
            .iter()
            .map(|(megabytes, has_begun)| restoring(megabytes << 20, *has_begun));
        let (restoring, fakes): (Vec<_>, Vec<_>) = stores.unzip();
        let names = (0..).map(|number| TopicPartition::new("t", number));
        let mut all: BTreeMap<TopicPartition, Restoring> = names.zip(restoring).collect();
        let mut count = 0;
        while settle_first(&mut all, 1, || usable_megabytes << 20).expect("a step") {
            count += 1;
        }
        assert_eq!(count, steps);
        let fakes: Vec<_> = fakes.iter().map(|fake| fake.borrow()).collect();
        let found = fakes
            .iter()
            .map(|fake| (fake.left_bytes >> 20, &*fake.committed));
        assert!(found.eq(left.iter().copied()));
    }

    #[test]
    fn too_much_is_worked_on_in_steps_before_more_is_read_and_noted_then() {
        let few: [(u64, &[i64]); 2] = [(700, &[]), (300, &[])];
        check_first(&[(700, false), (300, false)], 1000, 0, &few);
        check_first(
            &[(3700, false), (300, false)],
            8000,
            0,
            &[(3700, &[]), few[1]],
        );
        let none: [(u64, &[i64]); 3] = [(0, &[49]), (0, &[49]), (0, &[])];
        let stores = [(3700, false), (430, false), (0, false)];
        check_first(&stores, 8000, 232 + 27, &none);
        let stores = [(700, false), (330, false), (0, false)];
        check_first(&stores, 1000, 44 + 21, &none);
        check_first(&[(256, false)], 0, 0, &[(256, &[])]);
        let begun: [(u64, &[i64]); 2] = [(0, &[49]), (300, &[])];
        check_first(&[(64, true), (300, false)], 8000, 4, &begun);
    }

    /// What one thread sees as free the others see, too.
    #[test]
    fn threads_share_the_room_of_the_disk() {
        let check = |megabytes: u64, thread_count| {
            is_too_much(megabytes << 20, thread_count, || 2000 << 20)
        };
        assert!(!check(2000, 1));
        assert!(check(2001, 1));
        assert!(!check(500, 4));
        assert!(check(501, 4));
        // A little may wait on any disk.
        assert!(!check(256, 8));
        assert!(check(257, 8));
    }

    /// The sooner one is done, the sooner a task processes.
    #[test]
    fn the_store_that_has_least_to_do_goes_first() {
        let mut stores = [30, 10, 20].map(|megabytes| restoring(megabytes << 20, false).0);
        let least = least_unsettled(stores.iter_mut()).map(|one| one.unsettled_bytes());
        assert_eq!(least, Some(10 << 20));
    }

    #[test]
    fn who_closes_does_not_wait_for_much() {
        let check = |left_bytes, of_all_bytes| {
            let (restoring, _) = restoring(left_bytes, false);
            is_soon_noted(&restoring.store, of_all_bytes)
        };
        assert!(check(0, u64::MAX));
        assert!(check(1 << 20, MOST_CLOSED_BYTES));
        assert!(!check(1 << 20, MOST_CLOSED_BYTES + 1));
    }

    fn put_one(fault: fn() -> StoreFault) -> Result<(), StreamsError> {
        let (restoring, store) = restoring(0, false);
        store.borrow_mut().fault = Some(fault);
        restoring.put(vec![record(0)])
    }

    fn record(offset: i64) -> OwnedRecord {
        OwnedRecord {
            partition: Arc::new(TopicPartition::new("t", 0)),
            offset,
            timestamp_ms: 0,
            timestamp_type: riverrun_client::consumer::TimestampType::CreateTime,
            leader_epoch: -1,
            key: Some(bytes::Bytes::from_static(b"k")),
            value: None,
            headers: Vec::new(),
        }
    }

    /// Of an input that is a changelog too they are processed, and counted, later.
    #[test]
    fn records_from_the_end_on_are_not_restored() {
        let (restoring, store) = restoring(0, false);
        let keyless = OwnedRecord {
            key: None,
            ..record(98)
        };
        let put = restoring.put(vec![record(97), keyless, record(99), record(100)]);
        put.expect("restored");
        assert_eq!(store.borrow().restored, [97, 99]);
    }

    #[test]
    fn a_restore_begins_behind_what_the_store_has_if_that_is_there() {
        let from = |committed: Option<i64>, followed: Option<i64>, span| {
            let (restoring, store) = restoring(0, false);
            store.borrow_mut().committed.extend(committed);
            let logged = LoggedStore {
                task_id: restoring.task_id,
                topic: restoring.topic,
                store: restoring.store,
                committed_offset: None,
                followed_offset: followed,
            };
            start(&logged, span).map_err(|_| ())
        };
        assert_eq!(from(None, None, (3, 10)), Ok(Some(3)));
        // The next record is the first that is there, or one before was deleted.
        assert_eq!(from(Some(4), None, (5, 10)), Ok(Some(5)));
        assert_eq!(from(Some(3), None, (5, 10)), Ok(None));
        // Nothing is left to read, or the changelog has been cut.
        assert_eq!(from(Some(9), None, (0, 10)), Ok(Some(10)));
        assert_eq!(from(Some(10), None, (0, 10)), Err(()));
        // Who has stood by has more than was noted.
        assert_eq!(from(Some(2), Some(7), (0, 10)), Ok(Some(7)));
        assert_eq!(from(Some(2), Some(0), (0, 10)), Ok(Some(3)));
    }

    #[test]
    fn a_disk_that_fails_is_told_and_not_asked_again() {
        for fault in [
            || StoreFault::Disk(io::Error::from(io::ErrorKind::TimedOut)),
            || StoreFault::DiskFull(io::Error::from(io::ErrorKind::StorageFull)),
        ] {
            let told = put_one(fault).expect_err("a fault");
            assert_eq!(told.to_string(), fault().of(&Arc::from("s")).to_string());
        }
        // Of a row that is restored alone it would be told which one it is.
        assert!(put_one(|| StoreFault::NullKey).is_ok());
    }
}
