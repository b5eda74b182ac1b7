//! The coordinator of one transactional id, by either protocol, with Apache Kafka's rules.

use std::collections::BTreeSet;

use model::{ErrorCode, ProducerEpoch, ProducerId};

use crate::producer::identity::Identity;
use crate::producer::transaction::Protocol;

/// Low, so that epochs run out.
const EPOCH_MAX: ProducerEpoch = ProducerEpoch(6);

/// The coordinator of the one transactional id.
#[derive(Debug)]
pub(super) struct Coordinator {
    pub(super) protocol: Protocol,
    pub(super) identity: Identity,
    /// Whose retry of a request that has raised the epoch is known.
    pub(super) previous: Option<Identity>,
    pub(super) next_id: ProducerId,
    pub(super) is_ongoing: bool,
    pub(super) last_end: Option<bool>,
    pub(super) partitions: BTreeSet<usize>,
    pub(super) has_group: bool,
    /// Markers that are not written yet: which end, of whom.
    pub(super) markers: Option<(bool, Identity)>,
}

impl Coordinator {
    /// A coordinator that knows nothing yet.
    pub(super) const fn new(protocol: Protocol) -> Self {
        Self {
            protocol,
            identity: Identity {
                id: ProducerId(1),
                epoch: ProducerEpoch::NONE,
            },
            previous: None,
            next_id: ProducerId(1),
            is_ongoing: false,
            last_end: None,
            partitions: BTreeSet::new(),
            has_group: false,
            markers: None,
        }
    }

    fn raise(&mut self) {
        self.previous = Some(self.identity);
        if self.identity.epoch >= EPOCH_MAX {
            self.next_id.0 += 1;
            self.identity = Identity {
                id: self.next_id,
                epoch: ProducerEpoch(0),
            };
        } else {
            self.identity.epoch = self.identity.epoch.next();
        }
    }

    pub(super) fn init(&mut self, given: Option<Identity>) -> Result<Identity, ErrorCode> {
        if given.is_some_and(|one| one != self.identity && Some(one) != self.previous) {
            return Err(ErrorCode::ProducerFenced);
        }
        if self.markers.is_some() {
            return Err(ErrorCode::ConcurrentTransactions);
        }
        if self.is_ongoing {
            self.start_end(false, true);
            // Whoever asked is fenced, too, unless it is a new producer: the epoch is nobody's.
            self.previous = None;
            return Err(ErrorCode::ConcurrentTransactions);
        }
        // The answer to the same request was lost.
        if given.is_some() && given == self.previous {
            return Ok(self.identity);
        }
        self.raise();
        self.last_end = None;
        Ok(self.identity)
    }

    fn start_end(&mut self, commits: bool, raises: bool) {
        let writer = self.identity;
        if raises {
            self.raise();
        }
        self.is_ongoing = false;
        self.last_end = Some(commits);
        // Markers are of the same producer id, with the raised epoch where there is one.
        let epoch = match raises {
            true => writer.epoch.next(),
            false => writer.epoch,
        };
        self.markers = Some((
            commits,
            Identity {
                id: writer.id,
                epoch,
            },
        ));
    }

    pub(super) fn check(&self, identity: Identity) -> Result<(), ErrorCode> {
        if identity != self.identity {
            return Err(ErrorCode::ProducerFenced);
        }
        if self.markers.is_some() {
            return Err(ErrorCode::ConcurrentTransactions);
        }
        Ok(())
    }

    pub(super) fn enrol(
        &mut self,
        identity: Identity,
        partitions: &[usize],
    ) -> Result<(), ErrorCode> {
        self.check(identity)?;
        self.is_ongoing = true;
        self.last_end = None;
        self.partitions.extend(partitions);
        Ok(())
    }

    pub(super) fn end(&mut self, identity: Identity, commits: bool) -> Result<Identity, ErrorCode> {
        let is_implicit = self.protocol == Protocol::Implicit;
        if is_implicit && Some(identity) == self.previous {
            return match (self.markers.is_some(), self.last_end == Some(commits)) {
                (_, false) => Err(ErrorCode::InvalidTxnState),
                (true, true) => Err(ErrorCode::ConcurrentTransactions),
                (false, true) => Ok(self.identity),
            };
        }
        self.check(identity)?;
        if self.is_ongoing || (is_implicit && !commits) {
            self.start_end(commits, is_implicit);
            return Ok(self.identity);
        }
        match self.last_end == Some(commits) && !is_implicit {
            true => Ok(self.identity),
            false => Err(ErrorCode::InvalidTxnState),
        }
    }
}
