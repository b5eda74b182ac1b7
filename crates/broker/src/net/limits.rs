//! How many connections there may be, in all and from one address.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// `max.connections`, `max.connections.per.ip` and `max.connections.per.ip.overrides`.
#[derive(Debug)]
pub(crate) struct ConnectionLimits {
    total: Arc<Semaphore>,
    per_ip: usize,
    per_ip_overrides: BTreeMap<IpAddr, usize>,
    open: Arc<Mutex<BTreeMap<IpAddr, usize>>>,
}

/// The right to be connected; given back when dropped.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    ip: IpAddr,
    open: Arc<Mutex<BTreeMap<IpAddr, usize>>>,
    _total: OwnedSemaphorePermit,
}

impl ConnectionLimits {
    /// Limits from their configured values.
    pub(crate) fn new(
        total: usize,
        per_ip: usize,
        per_ip_overrides: BTreeMap<IpAddr, usize>,
    ) -> Self {
        let total = Arc::new(Semaphore::new(total.min(Semaphore::MAX_PERMITS)));
        Self {
            total,
            per_ip,
            per_ip_overrides,
            open: Arc::default(),
        }
    }

    /// Waits until one more connection may be accepted.
    pub(crate) async fn room(&self) -> OwnedSemaphorePermit {
        self.total
            .clone()
            .acquire_owned()
            .await
            .expect("the semaphore is never closed")
    }

    /// Admits a connection from `ip`; `None` when the address has its share already.
    pub(crate) fn admit(&self, ip: IpAddr, room: OwnedSemaphorePermit) -> Option<ConnectionSlot> {
        let ip = ip.to_canonical();
        let max = self
            .per_ip_overrides
            .get(&ip)
            .copied()
            .unwrap_or(self.per_ip);
        let mut open = self.open.lock();
        let count = open.entry(ip).or_default();
        if *count >= max {
            if *count == 0 {
                open.remove(&ip);
            }
            return None;
        }
        *count += 1;
        drop(open);
        Some(ConnectionSlot {
            ip,
            open: self.open.clone(),
            _total: room,
        })
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut open = self.open.lock();
        if let Some(count) = open.get_mut(&self.ip) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.ip);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_address_gets_its_share_and_gets_it_back() {
        let local: IpAddr = "127.0.0.1".parse().unwrap();
        let other: IpAddr = "127.0.0.2".parse().unwrap();
        let limits = ConnectionLimits::new(10, 1, BTreeMap::from([(other, 0)]));
        let first = limits.admit(local, limits.room().await);
        assert!(first.is_some());
        assert!(limits.admit(local, limits.room().await).is_none());
        assert!(limits.admit(other, limits.room().await).is_none());
        drop(first);
        assert!(limits.admit(local, limits.room().await).is_some());
    }
}
