//! How many connections there may be: in all, to one listener and from one address; and how many
//! new ones a second. The limits change while the broker runs: where there are more connections
//! than `max.connections` then, those are closed that have been silent the longest, but none of
//! the listener between brokers, which is outside that limit unless it is the only one.

use crate::scheduling::turn::Turn;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// What is allowed.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Limits {
    /// `max.connections` and `max.connection.creation.rate` of all listeners together.
    pub(crate) total: ListenerLimit,
    /// The same of single listeners, by name in upper case.
    pub(crate) listeners: BTreeMap<String, ListenerLimit>,
    /// The listener between brokers, in upper case, if it is not the only one, and how many
    /// connections may be open before it takes no more: those of its own are not held back or
    /// closed by the limit of all.
    pub(crate) protected_listener: Option<(String, usize)>,
    /// `max.connections.per.ip`.
    pub(crate) per_ip: usize,
    /// `max.connections.per.ip.overrides`, every name resolved.
    pub(crate) per_ip_overrides: BTreeMap<IpAddr, usize>,
    /// For how long connections may come faster than their rate, until they are as many as the
    /// rate allows in this time: the window of Kafka's quotas.
    pub(crate) burst: Duration,
}

/// What one listener, or all of them, may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ListenerLimit {
    /// Open connections.
    pub(crate) connections: usize,
    /// New connections a second.
    pub(crate) per_second: u32,
}

impl Default for ListenerLimit {
    fn default() -> Self {
        Self {
            connections: usize::MAX,
            per_second: u32::MAX,
        }
    }
}

/// How long nothing more is said of connections that wait.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// The limits, and what is open under them.
#[derive(Debug)]
pub(crate) struct ConnectionLimits {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Told when a connection has gone or limits have changed.
    changed: Notify,
    started: Instant,
}

#[derive(Debug)]
struct State {
    limits: Limits,
    all: Count,
    listeners: BTreeMap<String, Count>,
    ips: BTreeMap<IpAddr, usize>,
    /// The connections that are served, by when they were admitted.
    admitted: BTreeMap<u64, Arc<Use>>,
    /// How many have been admitted so far.
    admitted_count: u64,
    /// When it was last said that connections wait.
    warned_at: Option<Instant>,
}

#[derive(Debug, Default)]
struct Count {
    open: usize,
    /// When the connections so far would have been taken at the rate allowed, if that is ahead.
    paid_until: Option<Instant>,
}

/// When a connection was last used, and whether it has to go.
#[derive(Debug)]
struct Use {
    /// Nanoseconds since the first connection: several are used in a millisecond.
    last_ns: AtomicU64,
    is_protected: bool,
    closing: tokio::sync::watch::Sender<bool>,
}

/// The right to take one more connection; given back when dropped.
#[derive(Debug)]
pub(crate) struct ConnectionRoom {
    listener: String,
    shared: Arc<Shared>,
}

/// The right of an address to be connected; given back when dropped.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    ip: IpAddr,
    room: ConnectionRoom,
    id: u64,
    one: Arc<Use>,
}

impl ConnectionSlot {
    /// Notes that the connection is used, in this turn of its requests.
    pub(crate) fn touch(&self, turn: &Turn) {
        let since_start = turn.0.saturating_duration_since(self.room.shared.started);
        self.one
            .last_ns
            .store(since_start.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Ends when the connection has to go, as there are more than there may be.
    pub(crate) async fn is_excess(&self) {
        let mut closing = self.one.closing.subscribe();
        // The sender is kept here, so that this ends only when it is told to.
        let _ = closing.wait_for(|closing| *closing).await;
    }
}

impl ConnectionLimits {
    /// Nothing open yet.
    pub(crate) fn new(limits: Limits) -> Self {
        let state = State {
            limits,
            all: Count::default(),
            listeners: BTreeMap::new(),
            ips: BTreeMap::new(),
            admitted: BTreeMap::new(),
            admitted_count: 0,
            warned_at: None,
        };
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(state),
                changed: Notify::new(),
                started: Instant::now(),
            }),
        }
    }

    /// Other limits, which hold for the next connection; excess ones are closed.
    pub(crate) fn set(&self, limits: Limits) {
        let mut state = self.shared.state.lock();
        state.limits = limits;
        state.close_excess();
        drop(state);
        self.shared.changed.notify_waiters();
    }

    /// Waits until a listener may take one more connection.
    pub(crate) async fn room(&self, listener: &str) -> ConnectionRoom {
        let listener = listener.to_uppercase();
        loop {
            // Made before the look, so that no change between the two is missed.
            let changed = self.shared.changed.notified();
            let taken = self.shared.state.lock().take(&listener, Instant::now());
            match taken {
                Ok(()) => {
                    let shared = self.shared.clone();
                    return ConnectionRoom { listener, shared };
                }
                Err(Some(wait)) => {
                    let _ = tokio::time::timeout(wait, changed).await;
                }
                Err(None) => changed.await,
            }
        }
    }

    /// Admits a connection from `ip`; `None` when the address has its share already.
    pub(crate) fn admit(&self, ip: IpAddr, room: ConnectionRoom) -> Option<ConnectionSlot> {
        let ip = ip.to_canonical();
        let mut state = self.shared.state.lock();
        let limits = &state.limits;
        let max = limits.per_ip_overrides.get(&ip).copied();
        let max = max.unwrap_or(limits.per_ip);
        if state.ips.get(&ip).copied().unwrap_or(0) >= max {
            drop(state);
            return None;
        }
        let protected = limits.protected_listener.as_ref();
        let is_protected = protected.is_some_and(|(name, _)| *name == room.listener);
        *state.ips.entry(ip).or_default() += 1;
        state.admitted_count += 1;
        let id = state.admitted_count;
        let one = Arc::new(Use {
            last_ns: AtomicU64::new(self.shared.started.elapsed().as_nanos() as u64),
            is_protected,
            closing: tokio::sync::watch::Sender::new(false),
        });
        state.admitted.insert(id, one.clone());
        state.close_excess();
        drop(state);
        Some(ConnectionSlot { ip, room, id, one })
    }
}

impl State {
    /// Closes as many connections as there are too many, those first that were used the least
    /// recently.
    fn close_excess(&mut self) {
        let going = self.admitted.values().filter(|one| *one.closing.borrow());
        let left = self.all.open.saturating_sub(going.count());
        let excess = left.saturating_sub(self.limits.total.connections);
        if excess == 0 {
            return;
        }
        let mut others: Vec<&Arc<Use>> = self.admitted.values().collect();
        others.retain(|one| !one.is_protected && !*one.closing.borrow());
        others.sort_by_key(|one| one.last_ns.load(Ordering::Relaxed));
        others.truncate(excess);
        for one in &others {
            one.closing.send_replace(true);
        }
        tracing::info!(
            count = others.len(),
            max = self.limits.total.connections,
            "connections are closed, those first that were used the least recently: there are \
             more than `max.connections`"
        );
    }

    /// Takes room for a connection; an error tells how long to wait, or that one must go first.
    fn take(&mut self, listener: &str, now: Instant) -> Result<(), Option<Duration>> {
        let own_limit = self.limits.listeners.get(listener).copied();
        let own_limit = own_limit.unwrap_or_default();
        let own = self.listeners.entry(listener.to_owned()).or_default();
        let mut total = self.limits.total;
        if let Some((name, connections)) = &self.limits.protected_listener
            && name == listener
        {
            total.connections = *connections;
        }
        let mut counts = [(&mut self.all, total), (own, own_limit)];
        for (count, limit) in &counts {
            if count.open >= limit.connections {
                let is_known = self.warned_at.is_some_and(|at| now < at + WARNING_INTERVAL);
                if !is_known {
                    self.warned_at = Some(now);
                    tracing::warn!(
                        listener,
                        max = limit.connections,
                        "there are as many connections as there may be, and the next ones wait; \
                         raise `max.connections`, or the limit of open files (half of them are \
                         for connections)"
                    );
                }
                return Err(None);
            }
        }
        let burst = self.limits.burst;
        for (count, limit) in &counts {
            count.check_rate(*limit, burst, now).map_err(Some)?;
        }
        for (count, limit) in &mut counts {
            count.open += 1;
            count.pay(*limit, now);
        }
        Ok(())
    }
}

impl Count {
    fn check_rate(
        &self,
        limit: ListenerLimit,
        burst: Duration,
        now: Instant,
    ) -> Result<(), Duration> {
        let interval = match limit.per_second {
            u32::MAX => return Ok(()),
            // None is ever due; the wait ends with the next change of the limits.
            0 => return Err(Duration::from_secs(3600)),
            per_second => Duration::from_secs(1) / per_second,
        };
        let ahead = self.paid_until.unwrap_or(now);
        let owed = ahead.saturating_duration_since(now) + interval;
        let excess = owed.saturating_sub(burst.max(interval));
        match excess.is_zero() {
            true => Ok(()),
            false => Err(excess),
        }
    }

    fn pay(&mut self, limit: ListenerLimit, now: Instant) {
        self.paid_until = match limit.per_second {
            0 | u32::MAX => None,
            per_second => {
                let from = self.paid_until.map_or(now, |at| at.max(now));
                Some(from + Duration::from_secs(1) / per_second)
            }
        };
    }
}

impl Drop for ConnectionRoom {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.all.open -= 1;
        if let Some(own) = state.listeners.get_mut(&self.listener) {
            own.open -= 1;
        }
        drop(state);
        self.shared.changed.notify_waiters();
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut state = self.room.shared.state.lock();
        state.admitted.remove(&self.id);
        if let Some(count) = state.ips.get_mut(&self.ip) {
            *count -= 1;
            if *count == 0 {
                state.ips.remove(&self.ip);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTENER: &str = "plaintext";

    fn limits(connections: usize, per_ip: usize) -> Limits {
        let total = ListenerLimit {
            connections,
            ..ListenerLimit::default()
        };
        Limits {
            total,
            per_ip,
            ..Limits::default()
        }
    }

    #[tokio::test]
    async fn an_address_gets_its_share_and_gets_it_back() {
        let local: IpAddr = "127.0.0.1".parse().unwrap();
        let other: IpAddr = "127.0.0.2".parse().unwrap();
        let limits = ConnectionLimits::new(Limits {
            per_ip_overrides: BTreeMap::from([(other, 0)]),
            ..limits(10, 1)
        });
        let first = limits.admit(local, limits.room(LISTENER).await);
        assert!(first.is_some());
        assert!(limits.admit(local, limits.room(LISTENER).await).is_none());
        assert!(limits.admit(other, limits.room(LISTENER).await).is_none());
        drop(first);
        assert!(limits.admit(local, limits.room(LISTENER).await).is_some());
    }

    #[tokio::test]
    async fn who_waits_for_room_gets_it_when_one_leaves_or_the_limit_rises() {
        let all = Arc::new(ConnectionLimits::new(limits(1, 9)));
        let wait = || {
            let all = all.clone();
            tokio::spawn(async move { all.room(LISTENER).await })
        };
        let first = all.room(LISTENER).await;
        let waiting = wait();
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(first);
        let second = waiting.await.unwrap();
        let waiting = wait();
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        all.set(limits(2, 9));
        drop((waiting.await.unwrap(), second));
    }

    /// Which of the slots have to go.
    fn closing(slots: &[ConnectionSlot]) -> Vec<usize> {
        let is_closing = |at: &usize| *slots[*at].one.closing.borrow();
        (0..slots.len()).filter(is_closing).collect()
    }

    #[tokio::test]
    async fn a_lower_limit_closes_what_was_used_the_least_recently() {
        let limit_of = |connections| Limits {
            protected_listener: Some(("INTERNAL".to_owned(), usize::MAX)),
            ..limits(connections, 99)
        };
        let all = ConnectionLimits::new(limit_of(9));
        let ip: IpAddr = "127.0.0.1".parse().unwrap();
        let mut slots = Vec::new();
        for (listener, last_ns) in [
            ("internal", 1),
            ("plaintext", 7),
            ("plaintext", 3),
            ("other", 5),
            ("plaintext", 4),
        ] {
            let slot = all.admit(ip, all.room(listener).await).unwrap();
            slot.one.last_ns.store(last_ns, Ordering::Relaxed);
            slots.push(slot);
        }
        all.set(limit_of(5));
        assert!(closing(&slots).is_empty());
        all.set(limit_of(3));
        assert_eq!(closing(&slots), [2, 4]);
        // Those that are on their way out do not count again.
        all.set(limit_of(2));
        assert_eq!(closing(&slots), [2, 3, 4]);
        slots[3].is_excess().await;
        // The listener between brokers is outside the limit and others make room for it.
        slots.push(all.admit(ip, all.room("internal").await).unwrap());
        assert_eq!(closing(&slots), [1, 2, 3, 4]);
        drop(slots);
        assert!(all.shared.state.lock().admitted.is_empty());
    }

    #[test]
    fn a_listener_has_a_limit_of_its_own_beside_that_of_all() {
        let own = ListenerLimit {
            connections: 1,
            ..ListenerLimit::default()
        };
        let all = ConnectionLimits::new(Limits {
            listeners: BTreeMap::from([("A".to_owned(), own)]),
            ..limits(2, 9)
        });
        let mut state = all.shared.state.lock();
        let now = Instant::now();
        assert_eq!(state.take("A", now), Ok(()));
        assert_eq!(state.take("A", now), Err(None));
        assert_eq!(state.take("B", now), Ok(()));
        assert_eq!(state.take("B", now), Err(None));
    }

    #[test]
    fn connections_come_at_their_rate_after_a_burst() {
        let mut all = limits(1000, 9);
        all.total.per_second = 10;
        all.burst = Duration::from_secs(2);
        let all = ConnectionLimits::new(all);
        let mut state = all.shared.state.lock();
        let start = Instant::now();
        let mut taken_after = |milliseconds| {
            let now = start + Duration::from_millis(milliseconds);
            (0..100)
                .take_while(|_| state.take("A", now).is_ok())
                .count()
        };
        assert_eq!(taken_after(0), 20);
        assert_eq!(taken_after(50), 0);
        assert_eq!(taken_after(101), 1);
        assert_eq!(taken_after(1101), 10);
        assert_eq!(taken_after(60_000), 20);
    }
}
