//! What an operator reads of brokers in the log of their controller: a line for each step in the life of one,
//! and for each cause that keeps one from being registered.

use crate::scheduling::log_rate_limit::LogRateLimit;
use controller::{BrokerTransition, BrokerTransitionKind, FencingCause};
use model::{BrokerId, ErrorCode};
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// So many brokers that are refused are told apart: anybody may ask, by any id.
const REFUSED_MAX: usize = 100;

/// Logs a step in the life of a broker.
pub(super) fn log_transition(transition: &BrokerTransition, session_timeout_ms: i64) {
    let BrokerTransition {
        broker_id,
        broker_epoch,
        kind,
    } = *transition;
    match kind {
        BrokerTransitionKind::Registered(incarnation_id) => {
            tracing::info!(%broker_id, %broker_epoch, %incarnation_id, "a broker has registered");
        }
        BrokerTransitionKind::Unfenced => {
            tracing::info!(%broker_id, %broker_epoch, "a broker is unfenced");
        }
        BrokerTransitionKind::Fenced(FencingCause::SessionExpired) => tracing::info!(
            %broker_id, %broker_epoch, session_timeout_ms, "a broker is fenced: its session has expired"
        ),
        BrokerTransitionKind::Fenced(FencingCause::Wanted) => {
            tracing::info!(%broker_id, %broker_epoch, "a broker is fenced: it has asked for that");
        }
        BrokerTransitionKind::ShutdownBegun => {
            tracing::info!(%broker_id, %broker_epoch, "a controlled shutdown has begun");
        }
        BrokerTransitionKind::ShutdownEnded => tracing::info!(
            %broker_id, %broker_epoch, "a controlled shutdown has ended: the broker is fenced and may stop"
        ),
        BrokerTransitionKind::Unregistered => {
            tracing::info!(%broker_id, %broker_epoch, "a broker is unregistered");
        }
    }
}

/// Brokers whose registration was refused, and why: a broker asks again every second, and is told of once until
/// the cause is another one.
#[derive(Debug)]
pub(crate) struct RefusedRegistrations {
    told: Mutex<BTreeMap<BrokerId, ErrorCode>>,
    /// Of more brokers than are told apart.
    others: LogRateLimit,
}

impl Default for RefusedRegistrations {
    fn default() -> Self {
        Self {
            told: Mutex::default(),
            others: LogRateLimit::once_a_minute(),
        }
    }
}

impl RefusedRegistrations {
    /// A registration is refused.
    pub(crate) fn refused(&self, broker_id: BrokerId, code: ErrorCode, reason: &str) {
        if self.is_news(broker_id, code) {
            tracing::warn!(%broker_id, %code, reason, "a broker is not registered");
        }
    }

    /// The broker has registered.
    pub(crate) fn registered(&self, broker_id: BrokerId) {
        self.told.lock().remove(&broker_id);
    }

    fn is_news(&self, broker_id: BrokerId, code: ErrorCode) -> bool {
        let mut told = self.told.lock();
        match told.len() < REFUSED_MAX || told.contains_key(&broker_id) {
            true => told.insert(broker_id, code) != Some(code),
            false => self.others.due().is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_that_is_refused_again_is_told_of_once_for_each_cause() {
        let refused = RefusedRegistrations::default();
        let duplicate = ErrorCode::DuplicateBrokerRegistration;
        assert!(refused.is_news(BrokerId(1), duplicate));
        assert!(!refused.is_news(BrokerId(1), duplicate));
        assert!(refused.is_news(BrokerId(2), duplicate));
        assert!(refused.is_news(BrokerId(1), ErrorCode::UnsupportedVersion));
        assert!(!refused.is_news(BrokerId(1), ErrorCode::UnsupportedVersion));
        refused.registered(BrokerId(1));
        assert!(refused.is_news(BrokerId(1), duplicate));
        let others = (3..1_000).map(BrokerId);
        let told = others.filter(|id| refused.is_news(*id, duplicate));
        assert_eq!(told.count(), REFUSED_MAX - 2 + 1);
    }
}
