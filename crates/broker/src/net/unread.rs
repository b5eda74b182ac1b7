//! Answers that their clients have not read yet: what they take, and when a connection that does
//! not read is closed.
//!
//! Large answers and small ones have budgets of their own. A request whose answer may be large waits
//! while that of large answers is spent, so clients that read slowly hold up whoever asks for much
//! as well. They do not hold up those who ask for little: where the size cannot be foreseen, the
//! request is served all the same, a few at a time, and an answer that is large after all is given
//! up and made again when there is room.

use super::budget::{ByteBudget, Share};
use super::progress::Progress;
use super::response::{HEAD_MAX_BYTES, ResponseBuffer};
use super::transport::Transport;
use crate::scheduling::heavy_work::Lane;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};

const WARNING: &str = "answers that are not read use all of their memory, and connections wait; \
                       raise `queued.max.request.bytes` if the clients are legitimate";

/// What large answers may take, unless `queued.max.request.bytes` says otherwise.
const LARGE_BYTES: u64 = 256 * 1024 * 1024;
/// What small answers may take, whatever large ones take.
const SMALL_BYTES: u64 = 64 * 1024 * 1024;
/// An answer that takes more is large.
const SMALL_ANSWER_BYTES: usize = 64 * 1024;
/// Answers at a time that may turn out to be large while there is no room for such: so many in each
/// lane, and of requests without one.
const ATTEMPTS: usize = 2;

/// While others wait for the memory of answers, an answer has to be read within this time and
/// what its bytes take at the rate below.
const ANSWER_GRACE: Duration = Duration::from_secs(5);
const ANSWER_BYTES_PER_SECOND: u64 = 64 * 1024;

/// How often it is checked whether an answer is read.
const READ_CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Memory of the answers that clients have not read yet.
#[derive(Debug)]
pub(crate) struct AnswerMemory {
    large: Arc<ByteBudget>,
    small: Arc<ByteBudget>,
    attempts: Attempts,
    /// For the one answer that is being made out of much that a request names.
    making: Semaphore,
}

/// The rights to make an answer of unknown size. Whoever has one waits for a turn in its lane: nobody
/// in another lane waits for that.
#[derive(Debug)]
struct Attempts {
    quick: Semaphore,
    small: Semaphore,
    large: Semaphore,
}

impl AnswerMemory {
    /// Bounded by `queued.max.request.bytes` if that is given.
    pub(crate) fn new(queued_max_request_bytes: Option<u64>) -> Self {
        let large_bytes = queued_max_request_bytes.unwrap_or(LARGE_BYTES);
        Self {
            large: ByteBudget::new(WARNING, Some(large_bytes)),
            small: ByteBudget::never_awaited(SMALL_BYTES),
            attempts: Attempts {
                quick: Semaphore::new(ATTEMPTS),
                small: Semaphore::new(ATTEMPTS),
                large: Semaphore::new(ATTEMPTS),
            },
            making: Semaphore::new(1),
        }
    }

    /// Waits until there is room for a large answer.
    pub(super) async fn room(&self) {
        self.large.room().await;
    }

    /// Waits until there is room, for who has waited for something else since: others may have taken what
    /// there was. What is made now has to be counted before anything else is awaited.
    pub(crate) async fn room_again(&self) {
        while self.is_spent() {
            self.room().await;
        }
    }

    /// Whether there is no room for a large answer.
    pub(super) fn is_spent(&self) -> bool {
        self.large.is_spent()
    }

    /// Waits for the right to make an answer of unknown size while there is no room for large ones.
    pub(super) async fn attempt(&self, lane: Option<Lane>) -> SemaphorePermit<'_> {
        let attempts = match lane {
            None => &self.attempts.quick,
            Some(Lane::Small) => &self.attempts.small,
            Some(Lane::Large) => &self.attempts.large,
        };
        attempts.acquire().await.expect("it is never closed")
    }

    /// Waits for the right to make a large answer bit by bit, beside others, and for room for it: what
    /// has been made of it counts for nothing before it is complete.
    pub(crate) async fn making(&self) -> SemaphorePermit<'_> {
        let making = self.making.acquire().await.expect("it is never closed");
        self.large.room().await;
        making
    }

    /// Leaves no room for large answers until this is dropped.
    #[cfg(test)]
    pub(crate) fn spend(&self) -> Share {
        let mut share = self.large.share();
        share.take(LARGE_BYTES as usize);
        share
    }

    /// What large answers take.
    #[cfg(test)]
    pub(crate) fn large(&self) -> &ByteBudget {
        &self.large
    }

    /// How many bytes of an answer may be copies of what could be sent from files. Asked when the answer
    /// is made, after everything that its request waits for: what others hold by then counts.
    pub(crate) fn copied_max_bytes(&self) -> usize {
        match self.large.is_half_spent() {
            true => SMALL_ANSWER_BYTES / 2,
            false => HEAD_MAX_BYTES,
        }
    }
}

/// Why a connection ends whose client does not read.
#[derive(Debug)]
pub(super) enum UnreadEnd {
    /// Nothing was read for `connections.max.idle.ms`.
    Idle,
    /// It was read too slowly while others waited for the memory.
    Slow {
        /// How much memory was held.
        held_bytes: usize,
    },
    Failed(io::Error),
}

/// The answers of one connection that its client has not read yet.
pub(super) struct Unread {
    large: Share,
    small: Share,
    /// How long the client may read nothing.
    max_idle: Option<Duration>,
}

impl Unread {
    pub(super) fn new(memory: &AnswerMemory, max_idle_ms: Option<i64>) -> Self {
        Self {
            large: memory.large.share(),
            small: memory.small.share(),
            max_idle: max_idle_ms.map(|ms| Duration::from_millis(ms.max(0).unsigned_abs())),
        }
    }

    /// Whether what waits is large; it is counted then, before others look for room.
    pub(super) fn count_large(&mut self, out: &ResponseBuffer) -> bool {
        let bytes = out.held_bytes();
        let is_large = bytes > SMALL_ANSWER_BYTES;
        if is_large {
            self.large.take(bytes);
        }
        is_large
    }

    /// Gives up the answers that wait.
    pub(super) fn give_up(&mut self, out: &mut ResponseBuffer) {
        out.clear();
        self.large.take(0);
    }

    /// Sends the answers that wait.
    pub(super) async fn flush(
        &mut self,
        out: &mut ResponseBuffer,
        stream: &mut impl Transport,
    ) -> Result<(), UnreadEnd> {
        if out.len() == 0 {
            return Ok(());
        }
        let is_large = self.count_large(out);
        let share = match is_large {
            true => &mut self.large,
            false => &mut self.small,
        };
        let flushed = flush_counted(out, stream, share, self.max_idle).await;
        share.take(0);
        flushed
    }
}

/// Sends answers whose memory is counted in `share`, as soon as the socket takes no more of them.
async fn flush_counted(
    out: &mut ResponseBuffer,
    stream: &mut impl Transport,
    share: &mut Share,
    max_idle: Option<Duration>,
) -> Result<(), UnreadEnd> {
    let (all_bytes, held_bytes) = (out.len() as u64, out.held_bytes());
    let progress = Progress::default();
    let mut flush = pin!(out.flush(stream, &progress));
    let at_once = poll_fn(|context| Poll::Ready(flush.as_mut().poll(context)));
    if let Poll::Ready(flushed) = at_once.await {
        return flushed.map_err(UnreadEnd::Failed);
    }
    share.take(held_bytes);
    let start = tokio::time::Instant::now();
    let (mut last_progress, mut sent) = (start, 0);
    let interval = max_idle.map(|max_idle| max_idle / 4);
    let interval = interval.map_or(READ_CHECK_INTERVAL, |one| one.min(READ_CHECK_INTERVAL));
    loop {
        match tokio::time::timeout(interval, &mut flush).await {
            Ok(flushed) => return flushed.map_err(UnreadEnd::Failed),
            Err(_) if progress.bytes() > sent => {
                sent = progress.bytes();
                last_progress = tokio::time::Instant::now();
            }
            Err(_) if max_idle.is_some_and(|max| last_progress.elapsed() >= max) => {
                return Err(UnreadEnd::Idle);
            }
            Err(_) => {}
        }
        let due = Duration::from_secs(sent / ANSWER_BYTES_PER_SECOND);
        let is_slow = share.waiting() > 0 && start.elapsed() > ANSWER_GRACE + due;
        let left_ms = left_ms(all_bytes - sent.min(all_bytes), sent, start.elapsed());
        // What is held for as long as it takes to read the rest is kept from the others.
        let weight = left_ms.saturating_mul(held_bytes as u64);
        if is_slow || share.gives_way(weight) {
            return Err(UnreadEnd::Slow { held_bytes });
        }
    }
}

/// How long the rest takes at the pace of what was sent.
fn left_ms(left_bytes: u64, sent_bytes: u64, elapsed: Duration) -> u64 {
    let elapsed_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
    left_bytes.saturating_mul(elapsed_ms) / sent_bytes.max(1)
}

#[cfg(test)]
mod tests;
