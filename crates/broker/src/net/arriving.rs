//! Requests on their way in: what they take until they are answered, and when a connection that
//! does not go on sending is closed.
//!
//! What counts is what has arrived, not what was announced. While the budget is spent, a frame that
//! has begun and is not small waits, but for one at a time: so it always ends, and no two
//! connections wait for each other. Whoever keeps others waiting by sending slowly is closed.

use super::budget::{ByteBudget, Share};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

const WARNING: &str = "requests use all of their memory, and connections wait; raise \
                       `queued.max.request.bytes` if the clients are legitimate";

/// Frames that announce no more are read whatever others have taken.
const SMALL_FRAME_BYTES: usize = 64 * 1024;

/// While others wait for the memory of requests, a frame has to arrive within this time and what
/// its bytes take at the rate below.
const FRAME_GRACE: Duration = Duration::from_secs(5);
const FRAME_BYTES_PER_SECOND: u64 = 64 * 1024;
/// The one frame that is read on while nothing is left has to arrive within this time and what its
/// bytes take at the rate below, times as many as wait for it.
const LAST_GRACE: Duration = Duration::from_secs(2);
const LAST_BYTES_PER_SECOND: u64 = 1024 * 1024;
/// However many wait, no client needs to be faster than for so many.
const LAST_WAITING_MAX: u64 = 16;

/// How often it is checked whether a frame goes on.
pub(super) const SENT_CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Memory of requests that arrive or are being served: `queued.max.request.bytes`.
#[derive(Debug)]
pub(crate) struct RequestMemory {
    budget: Arc<ByteBudget>,
    /// For the one frame that is read on while nothing is left.
    last: Arc<Semaphore>,
}

impl RequestMemory {
    /// None for no bound.
    pub(crate) fn new(queued_max_request_bytes: Option<u64>) -> Self {
        Self {
            budget: ByteBudget::new(WARNING, queued_max_request_bytes),
            last: Arc::new(Semaphore::new(1)),
        }
    }

    /// What all of them take.
    #[cfg(test)]
    pub(crate) fn budget(&self) -> &ByteBudget {
        &self.budget
    }
}

/// What one connection sends.
#[derive(Debug)]
pub(super) struct Arriving {
    budget: Arc<ByteBudget>,
    last: Arc<Semaphore>,
    share: Share,
    /// Held while this is the one frame that is read on.
    right_to_end: Option<OwnedSemaphorePermit>,
    /// How long its client was waited for since the frame began.
    waited: Duration,
}

impl Arriving {
    pub(super) fn new(memory: &RequestMemory) -> Self {
        Self {
            budget: memory.budget.clone(),
            last: memory.last.clone(),
            share: memory.budget.share(),
            right_to_end: None,
            waited: Duration::ZERO,
        }
    }

    /// Waits until the rest of a frame may be read, of which so many bytes have arrived.
    pub(super) async fn room(&mut self, arrived_bytes: usize, announced_bytes: usize) {
        self.share.take(arrived_bytes);
        let is_small = announced_bytes <= SMALL_FRAME_BYTES;
        if is_small || self.right_to_end.is_some() || !self.budget.is_spent() {
            return;
        }
        tokio::select! {
            biased;
            permit = self.last.clone().acquire_owned() => self.right_to_end = permit.ok(),
            () = self.budget.room() => {}
        }
    }

    /// So many bytes have arrived and are not served.
    pub(super) fn arrived(&mut self, bytes: usize) {
        self.share.take_at_least(bytes);
    }

    /// All whole frames are served; so many bytes of another have arrived.
    pub(super) fn served(&mut self, bytes: usize) {
        self.share.take(bytes);
    }

    /// A frame is whole; it counts until it is answered.
    pub(super) fn frame_ended(&mut self) {
        self.right_to_end = None;
        self.waited = Duration::ZERO;
    }

    /// Says whether the connection of a client that was waited for since `since`, and has sent
    /// nothing, has to end, as it keeps others waiting.
    pub(super) fn is_too_slow(
        &mut self,
        since: Instant,
        arrived_bytes: usize,
        announced_bytes: usize,
    ) -> bool {
        let waited = self.waited + since.elapsed();
        if self.is_slow(waited, arrived_bytes) {
            return true;
        }
        if !self.is_held_to_its_pace(arrived_bytes) {
            return false;
        }
        let left_bytes = announced_bytes.saturating_sub(arrived_bytes) as u64;
        let waited_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
        let left_ms = left_bytes.saturating_mul(waited_ms) / (arrived_bytes as u64).max(1);
        self.share
            .gives_way(left_ms.saturating_mul(arrived_bytes as u64))
    }

    /// Whether so much of a frame has arrived that it matters how fast the rest comes.
    fn is_held_to_its_pace(&self, arrived_bytes: usize) -> bool {
        arrived_bytes > SMALL_FRAME_BYTES || self.right_to_end.is_some()
    }

    /// Whether a frame of which so much has arrived keeps others waiting.
    fn is_slow(&self, waited: Duration, arrived_bytes: usize) -> bool {
        let waiting = self.share.waiting() as u64;
        let (grace, bytes_per_second) = match self.right_to_end {
            Some(_) => {
                let waiting = waiting.min(LAST_WAITING_MAX);
                (LAST_GRACE, LAST_BYTES_PER_SECOND * waiting)
            }
            None => (FRAME_GRACE, FRAME_BYTES_PER_SECOND),
        };
        let due_ms = (arrived_bytes as u64).saturating_mul(1000) / bytes_per_second.max(1);
        self.is_held_to_its_pace(arrived_bytes)
            && waiting > 0
            && waited > grace + Duration::from_millis(due_ms)
    }

    /// Notes that the client was waited for since `since`, in the middle of a frame, and has sent
    /// something: now so many bytes have arrived. Says whether its connection has to end: a byte now
    /// and then is too slow as well.
    pub(super) fn has_waited(&mut self, since: Instant, arrived_bytes: usize) -> bool {
        self.waited += since.elapsed();
        self.is_slow(self.waited, arrived_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::pin::{Pin, pin};
    use std::task::Poll;

    const MIB: usize = 1024 * 1024;

    /// Memory that one frame has taken before another is read on.
    async fn spent() -> (RequestMemory, Arriving, Arriving) {
        let memory = RequestMemory::new(Some(MIB as u64));
        let mut before = Arriving::new(&memory);
        before.arrived(MIB);
        let mut last = Arriving::new(&memory);
        last.room(0, 8 * MIB).await;
        (memory, before, last)
    }

    /// Whether somebody still waits for room.
    async fn waits(room: &mut Pin<&mut impl Future<Output = ()>>) -> bool {
        poll_fn(|context| Poll::Ready(room.as_mut().poll(context).is_pending())).await
    }

    #[tokio::test]
    async fn the_one_that_is_read_on_has_to_be_as_fast_as_many_wait() {
        let (memory, before, last) = spent().await;
        assert!(last.right_to_end.is_some());
        let long = Duration::from_hours(1);
        assert!(!last.is_slow(long, 4 * MIB), "nobody waits");
        let mut others = [Arriving::new(&memory), Arriving::new(&memory)];
        let [first, second] = &mut others;
        let mut first = pin!(first.room(0, 8 * MIB));
        let mut second = pin!(second.room(0, 8 * MIB));
        assert!(waits(&mut first).await);
        let of_one = LAST_GRACE + Duration::from_secs(4);
        assert!(!last.is_slow(of_one, 4 * MIB));
        assert!(last.is_slow(of_one + Duration::from_millis(1), 4 * MIB));
        // One that was begun before the memory was spent has more time.
        assert!(!before.is_slow(FRAME_GRACE + Duration::from_secs(16), MIB));
        assert!(waits(&mut second).await);
        let of_two = LAST_GRACE + Duration::from_secs(2);
        assert!(!last.is_slow(of_two, 4 * MIB));
        assert!(last.is_slow(of_two + Duration::from_millis(1), 4 * MIB));
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_of_a_frame_is_summed_and_ends_with_it() {
        let (memory, mut one, mut last) = spent().await;
        let mut other = Arriving::new(&memory);
        let mut other = pin!(other.room(0, 8 * MIB));
        assert!(waits(&mut other).await);
        // The grace, and 16 s for a MiB, in two halves.
        let half = Duration::from_secs(11);
        for is_slow in [false, true, false] {
            let since = Instant::now();
            tokio::time::advance(half).await;
            assert_eq!(one.has_waited(since, MIB), is_slow);
            if is_slow {
                one.frame_ended();
            }
        }
        // Who is read on leaves that to the next when its frame has ended.
        last.frame_ended();
        assert!(!waits(&mut other).await);
    }

    /// It is not slow yet by the rate that everybody has to keep.
    #[tokio::test(start_paused = true)]
    async fn whoever_holds_most_for_longest_gives_way_to_those_that_wait_for_long() {
        let (memory, mut one, _last) = spent().await;
        let mut other = Arriving::new(&memory);
        let mut other = pin!(other.room(0, 8 * MIB));
        assert!(waits(&mut other).await);
        let since = Instant::now();
        let due = FRAME_GRACE + Duration::from_secs(16);
        while !one.is_too_slow(since, MIB, 8 * MIB) {
            tokio::time::advance(Duration::from_millis(500)).await;
            assert!(since.elapsed() < due, "it does not give way");
        }
    }
}
