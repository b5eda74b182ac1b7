//! What lies between nodes: how long a message takes, and whether it arrives.

use super::schedule::{BROKERS, Fault, NodeId};
use crate::random::Random;

/// Where clients are.
pub(super) const CLIENTS: NodeId = BROKERS + 1;
const PLACES: usize = CLIENTS + 1;
/// So many markers in a hundred stay on their way for longer than anybody waits, and so long at most.
const STUCK_PERCENT: u64 = 10;
const STUCK_MAX_MS: i64 = 5_000;

/// The network, with what is wrong with it at the moment.
#[derive(Debug)]
pub(super) struct Network {
    random: Random,
    /// Until when the first does not reach the second.
    cut_until: [[i64; PLACES]; PLACES],
    slow: Option<Slow>,
    is_well: bool,
}

#[derive(Debug, Clone, Copy)]
struct Slow {
    delay_ms: i64,
    lost_percent: u64,
    until: i64,
}

impl Network {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            random: Random::of(seed, 12),
            cut_until: [[0; PLACES]; PLACES],
            slow: None,
            is_well: false,
        }
    }

    /// Takes a fault that is one of the network.
    pub(super) fn begin(&mut self, fault: &Fault, now_ms: i64) {
        match *fault {
            Fault::Cut {
                from,
                to,
                is_one_way,
                ms,
            } if from != to => {
                self.cut_until[from][to] = now_ms + ms;
                if !is_one_way {
                    self.cut_until[to][from] = now_ms + ms;
                }
            }
            Fault::Isolated { node, ms } => {
                for other in 0..PLACES {
                    self.cut_until[node][other] = now_ms + ms;
                    self.cut_until[other][node] = now_ms + ms;
                }
            }
            Fault::Network {
                delay_ms,
                lost_percent,
                ms,
            } => {
                self.slow = Some(Slow {
                    delay_ms,
                    lost_percent,
                    until: now_ms + ms,
                });
            }
            _ => {}
        }
    }

    /// All is well from here on.
    pub(super) fn end(&mut self) {
        self.cut_until = [[0; PLACES]; PLACES];
        self.slow = None;
        self.is_well = true;
    }

    /// How much later markers arrive that stand in the buffers of a connection which their coordinator has given up:
    /// it has sent them again by then, and goes on.
    pub(super) fn stuck_ms(&mut self) -> i64 {
        match !self.is_well && self.random.percent(STUCK_PERCENT) {
            true => self.random.between(1, STUCK_MAX_MS),
            false => 0,
        }
    }

    /// After how long a message arrives; `None` when it never does. What is sent over a cut link may arrive when
    /// that is healed, as what was written to a socket is sent again.
    pub(super) fn carry(&mut self, from: NodeId, to: NodeId, now_ms: i64) -> Option<i64> {
        let mut delay_ms = self.random.between(1, 4);
        if let Some(slow) = self.slow.filter(|slow| now_ms < slow.until) {
            if self.random.percent(slow.lost_percent) {
                return None;
            }
            delay_ms += self.random.between(0, slow.delay_ms);
        }
        let until = self.cut_until[from][to];
        if now_ms < until {
            let is_sent_again = self.random.percent(30);
            return is_sent_again.then(|| until - now_ms + delay_ms);
        }
        Some(delay_ms)
    }
}
