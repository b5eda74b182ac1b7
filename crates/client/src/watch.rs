//! A value whose changes wake who waits for them, in the order in which they began to wait.
//!
//! tokio's channel of this name wakes them in random order, which spreads threads over locks. Here
//! few wait, and a run on one thread is to be a function of its inputs.

use parking_lot::{RwLock, RwLockReadGuard};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use tokio::sync::Notify;

/// Every sender is gone, so nothing changes any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ended;

#[derive(Debug)]
struct Shared<T> {
    value: RwLock<T>,
    /// How often the value has changed; it is raised while the value is locked.
    version: AtomicU64,
    senders: AtomicUsize,
    changed: Notify,
}

/// Changes the value. Clones change the same one.
#[derive(Debug)]
pub(crate) struct Sender<T>(Arc<Shared<T>>);

/// Sees the changes of a value.
#[derive(Debug)]
pub(crate) struct Receiver<T> {
    shared: Arc<Shared<T>>,
    seen: u64,
}

impl<T> Sender<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Arc::new(Shared {
            value: RwLock::new(value),
            version: AtomicU64::new(0),
            senders: AtomicUsize::new(1),
            changed: Notify::new(),
        }))
    }

    /// The value, locked.
    pub(crate) fn borrow(&self) -> RwLockReadGuard<'_, T> {
        self.0.value.read()
    }

    /// Sees the changes from here on.
    pub(crate) fn subscribe(&self) -> Receiver<T> {
        Receiver {
            seen: self.0.version.load(Ordering::Acquire),
            shared: self.0.clone(),
        }
    }

    /// Changes the value, and wakes who waits if `change` says that it has.
    pub(crate) fn send_if_modified(&self, change: impl FnOnce(&mut T) -> bool) -> bool {
        let mut value = self.0.value.write();
        let is_changed = change(&mut value);
        if is_changed {
            self.0.version.fetch_add(1, Ordering::Release);
        }
        drop(value);
        if is_changed {
            self.0.changed.notify_waiters();
        }
        is_changed
    }

    /// Changes the value and wakes who waits.
    pub(crate) fn send_modify(&self, change: impl FnOnce(&mut T)) {
        self.send_if_modified(|value| {
            change(value);
            true
        });
    }

    /// Puts another value in the place of this one, which it gives.
    pub(crate) fn send_replace(&self, mut value: T) -> T {
        self.send_modify(|old| std::mem::swap(old, &mut value));
        value
    }
}

impl<T: Default> Default for Sender<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.senders.fetch_add(1, Ordering::Relaxed);
        Self(self.0.clone())
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if self.0.senders.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.changed.notify_waiters();
        }
    }
}

impl<T> Receiver<T> {
    /// The value, locked, whose later changes count as new.
    pub(crate) fn borrow_and_update(&mut self) -> RwLockReadGuard<'_, T> {
        let value = self.shared.value.read();
        self.seen = self.shared.version.load(Ordering::Acquire);
        value
    }

    /// Waits for a change that was not seen yet.
    ///
    /// # Errors
    /// [`Ended`] when there is none and will be none.
    pub(crate) async fn changed(&mut self) -> Result<(), Ended> {
        loop {
            // Made before the look, so that no change falls between.
            let notified = self.shared.changed.notified();
            let version = self.shared.version.load(Ordering::Acquire);
            if version != self.seen {
                self.seen = version;
                return Ok(());
            }
            if self.shared.senders.load(Ordering::Acquire) == 0 {
                return Err(Ended);
            }
            pin!(notified).await;
        }
    }

    /// Waits until the value meets `is_met`, and gives it, locked.
    ///
    /// # Errors
    /// [`Ended`] when it never will.
    pub(crate) async fn wait_for(
        &mut self,
        mut is_met: impl FnMut(&T) -> bool,
    ) -> Result<RwLockReadGuard<'_, T>, Ended> {
        let shared = &*self.shared;
        loop {
            let notified = shared.changed.notified();
            {
                let value = shared.value.read();
                self.seen = shared.version.load(Ordering::Acquire);
                if is_met(&value) {
                    return Ok(value);
                }
            }
            if shared.senders.load(Ordering::Acquire) == 0 {
                return Err(Ended);
            }
            pin!(notified).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;
    use tokio::task::JoinSet;

    #[tokio::test]
    async fn who_waits_is_woken_in_the_order_of_waiting() {
        let sender = Sender::new(0);
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut waiting = JoinSet::new();
        for number in 0..20 {
            let (mut receiver, order) = (sender.subscribe(), order.clone());
            waiting.spawn(async move {
                match number % 2 {
                    0 => receiver.changed().await.expect("there is a sender"),
                    _ => drop(receiver.wait_for(|value| *value == 1).await),
                }
                order.lock().push(number);
            });
        }
        tokio::task::yield_now().await;
        assert_eq!(sender.send_replace(1), 0);
        while waiting.join_next().await.is_some() {}
        assert_eq!(*order.lock(), (0..20).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn changes_are_seen_once_and_an_end_is_told() {
        let sender = Sender::new(0);
        let mut receiver = sender.subscribe();
        assert!(!sender.send_if_modified(|_| false));
        assert!(sender.send_if_modified(|value| std::mem::replace(value, 1) == 0));
        assert_eq!(receiver.changed().await, Ok(()));
        sender.send_modify(|value| *value = 2);
        assert_eq!(*receiver.borrow_and_update(), 2);
        assert_eq!(
            receiver.wait_for(|value| *value == 2).await.as_deref(),
            Ok(&2)
        );
        let other = sender.clone();
        drop(sender);
        let ended = tokio::spawn(async move { receiver.changed().await });
        drop(other);
        assert_eq!(ended.await.expect("no panic"), Err(Ended));
    }
}
