//! Turns: who asks first goes first, whichever future is polled first.

use crate::watch;
use std::collections::BTreeSet;

/// A queue of turns. A place in it is taken by a call that does not wait, so that the order is that
/// of the calls; the wait comes later.
#[derive(Debug, Default)]
pub(super) struct Turns(watch::Sender<Queue>);

#[derive(Debug, Default)]
struct Queue {
    next: u64,
    /// The turns that have not ended.
    open: BTreeSet<u64>,
}

/// A place in the queue; dropping it ends the turn, whether it had come or not.
#[derive(Debug)]
pub(super) struct Turn {
    queue: watch::Sender<Queue>,
    number: u64,
}

impl Turns {
    /// Takes the place after all that were taken before.
    pub(super) fn take(&self) -> Turn {
        let mut number = 0;
        self.0.send_modify(|queue| {
            number = queue.next;
            queue.next += 1;
            queue.open.insert(number);
        });
        Turn {
            queue: self.0.clone(),
            number,
        }
    }
}

impl Turn {
    /// Waits until every turn before this one has ended.
    pub(super) async fn come(&self) {
        let number = self.number;
        let mut queue = self.queue.subscribe();
        let is_first = queue.wait_for(|queue| queue.open.first() == Some(&number));
        let come = is_first.await.map(drop);
        come.expect("the turn itself keeps the queue");
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let number = self.number;
        self.queue.send_modify(|queue| {
            queue.open.remove(&number);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Waker};

    fn has_come(turn: &Turn) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        pin!(turn.come()).poll(&mut context).is_ready()
    }

    #[test]
    fn turns_come_in_the_order_in_which_they_were_taken() {
        let turns = Turns::default();
        let (first, second, third) = (turns.take(), turns.take(), turns.take());
        assert!(!has_come(&third) && !has_come(&second) && has_come(&first));
        // Who gives up its place in the middle lets nobody pass who waits for the first one.
        drop(second);
        assert!(!has_come(&third));
        drop(first);
        assert!(has_come(&third));
    }
}
