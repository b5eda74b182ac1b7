//! What is to be asked of brokers: one request to each at a time, and what comes meanwhile goes together in the
//! next one.
//!
//! ```text
//!   add ──> waiting, by broker ──> Sending::next ──> one request ──> its outcomes
//!                                     ^                    │
//!                                     └────────────────────┘ until nothing waits
//! ```

use model::BrokerId;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What waits for each broker.
#[derive(Debug)]
pub(super) struct Outbox<T> {
    /// Those that somebody sends to.
    waiting: Mutex<BTreeMap<BrokerId, Vec<T>>>,
}

impl<T> Default for Outbox<T> {
    fn default() -> Self {
        Self {
            waiting: Mutex::default(),
        }
    }
}

impl<T> Outbox<T> {
    /// Adds something that is to be asked of a broker. If nobody sends to it, the caller is to.
    pub(super) fn add(self: &Arc<Self>, to: BrokerId, one: T) -> Option<Sending<T>> {
        let mut waiting = self.waiting.lock();
        if let Some(waiting) = waiting.get_mut(&to) {
            waiting.push(one);
            return None;
        }
        waiting.insert(to, vec![one]);
        drop(waiting);
        Some(Sending {
            outbox: self.clone(),
            to,
            has_ended: false,
        })
    }
}

/// Whoever sends to a broker, alone. What waits when this is dropped before its end is not sent: whoever has asked
/// for it is not answered.
#[derive(Debug)]
pub(super) struct Sending<T> {
    outbox: Arc<Outbox<T>>,
    to: BrokerId,
    has_ended: bool,
}

impl<T> Sending<T> {
    /// Where it sends to.
    pub(super) const fn to(&self) -> BrokerId {
        self.to
    }

    /// What goes in the next request: of what waits, in its order, everything of which `is_taken` says so, which is
    /// asked of each once. The first one always goes. `None` when nothing waits: it has ended then.
    pub(super) fn next(&mut self, mut is_taken: impl FnMut(&T) -> bool) -> Option<Vec<T>> {
        let mut waiting = self.outbox.waiting.lock();
        let all = waiting.get_mut(&self.to).map(std::mem::take);
        let mut all = all.unwrap_or_default().into_iter();
        let Some(first) = all.next() else {
            self.has_ended = true;
            waiting.remove(&self.to);
            return None;
        };
        is_taken(&first);
        let (mut taken, mut left) = (vec![first], Vec::new());
        for one in all {
            match is_taken(&one) {
                true => taken.push(one),
                false => left.push(one),
            }
        }
        waiting.insert(self.to, left);
        Some(taken)
    }
}

impl<T> Drop for Sending<T> {
    fn drop(&mut self) {
        if !self.has_ended {
            let left = self.outbox.waiting.lock().remove(&self.to);
            drop(left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: BrokerId = BrokerId(1);
    const TWO: BrokerId = BrokerId(2);

    const fn all(_: &i32) -> bool {
        true
    }

    #[test]
    fn what_comes_while_somebody_sends_goes_in_the_next_request() {
        let outbox = Arc::new(Outbox::default());
        let mut sending = outbox.add(ONE, 1).expect("nobody sends");
        assert!(outbox.add(ONE, 2).is_none());
        assert_eq!(sending.next(all), Some(vec![1, 2]));
        assert!(outbox.add(ONE, 3).is_none());
        assert!(outbox.add(ONE, 4).is_none());
        // Another broker is another matter.
        let mut other = outbox.add(TWO, 9).expect("nobody sends");
        assert_eq!((other.to(), other.next(all)), (TWO, Some(vec![9])));
        assert_eq!(sending.next(all), Some(vec![3, 4]));
        assert_eq!(sending.next(all), None);
        drop(sending);
        let mut sending = outbox.add(ONE, 5).expect("nobody sends any more");
        assert_eq!(sending.next(all), Some(vec![5]));
    }

    #[test]
    fn what_does_not_fit_waits_for_the_request_after() {
        let outbox = Arc::new(Outbox::default());
        let mut sending = outbox.add(ONE, 1).expect("nobody sends");
        for one in [1, 2, 1, 3, 2] {
            assert!(outbox.add(ONE, one).is_none());
        }
        let mut next = || {
            let mut taken = Vec::new();
            sending.next(|one| {
                let is_new = !taken.contains(one);
                taken.push(*one);
                is_new
            })
        };
        assert_eq!(next(), Some(vec![1, 2, 3]));
        assert_eq!(next(), Some(vec![1, 2]));
        assert_eq!(next(), Some(vec![1]));
        assert_eq!(next(), None);
    }

    #[test]
    fn what_waits_for_who_fails_is_let_go_of_and_the_next_one_sends() {
        let outbox = Arc::new(Outbox::default());
        let one = Arc::new(());
        let mut sending = outbox.add(ONE, one.clone()).expect("nobody sends");
        drop(sending.next(|_| true));
        assert!(outbox.add(ONE, one.clone()).is_none());
        drop(sending);
        assert_eq!(Arc::strong_count(&one), 1);
        assert!(outbox.add(ONE, one).is_some());
    }
}
