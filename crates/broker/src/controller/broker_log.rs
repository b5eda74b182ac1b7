//! What an operator reads of brokers in the log of their controller: a line for each step in the life of one,
//! and for each cause that keeps one from being registered.

use crate::scheduling::log_rate_limit::LogRateLimits;
use controller::{BrokerTransition, BrokerTransitionKind, FencingCause};
use model::{BrokerId, ErrorCode};

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

/// Brokers whose registration was refused, and why: a broker asks again every second, and is told of once a minute
/// for each cause.
#[derive(Debug, Default)]
pub(crate) struct RefusedRegistrations {
    told: LogRateLimits<(BrokerId, ErrorCode)>,
}

impl RefusedRegistrations {
    /// A registration is refused.
    pub(crate) fn refused(&self, broker_id: BrokerId, code: ErrorCode, reason: &str) {
        if let Some(not_logged) = self.told.due((broker_id, code)) {
            tracing::warn!(%broker_id, %code, reason, not_logged, "a broker is not registered");
        }
    }

    /// The broker has registered.
    pub(crate) fn registered(&self, broker_id: BrokerId) {
        self.told.forget(|(id, _)| *id == broker_id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_that_is_refused_again_is_told_of_once_for_each_cause() {
        let refused = RefusedRegistrations::default();
        let is_told = |id, code| refused.told.due((BrokerId(id), code)).is_some();
        let [duplicate, version] = [
            ErrorCode::DuplicateBrokerRegistration,
            ErrorCode::UnsupportedVersion,
        ];
        assert!(is_told(1, duplicate) && is_told(2, duplicate));
        assert!(is_told(1, version));
        for _ in 0..3 {
            assert!(!is_told(1, duplicate) && !is_told(1, version));
        }
        refused.registered(BrokerId(1));
        assert!(is_told(1, duplicate) && is_told(1, version));
        assert!(!is_told(2, duplicate));
    }
}
