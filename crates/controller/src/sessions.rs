//! Which brokers are heard of: what the active controller knows beside the metadata, and forgets with its
//! leadership.
//!
//! ```text
//!   heartbeat ─ note ─> BrokerContacts    before it waits for its turn, so that a controller that is
//!       │                     │           late fences nobody for it
//!       └── decide ─> Sessions┴─> live?  expired?  how far have all active brokers followed the metadata?
//! ```
//!
//! Invariants:
//! - A contact counts for one registration: a broker that registers anew begins without any.
//! - The broker in the process of a controller that leads alone is always live: it can be no more dead than
//!   the controller. Who has its id by another registration is heard of, or is fenced, as any other.

use metadata::{BrokerRegistration, MetadataImage};
use model::MonotonicTime;
use model::{BrokerEpoch, BrokerId, Offset};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// When brokers were last heard of; shared by the controller and whoever receives their heartbeats.
#[derive(Debug, Clone, Default)]
pub struct BrokerContacts {
    registered: Arc<Mutex<BTreeMap<BrokerId, Contact>>>,
}

/// The last sign of life of a registration.
#[derive(Debug, Clone, Copy)]
struct Contact {
    epoch: BrokerEpoch,
    at: Option<MonotonicTime>,
}

impl BrokerContacts {
    /// Notes that a broker is heard of. A registration that the controller does not know counts for
    /// nothing.
    pub fn note(&self, broker_id: BrokerId, broker_epoch: BrokerEpoch, now: MonotonicTime) {
        let mut registered = self.registered.lock();
        let contact = registered.get_mut(&broker_id);
        if let Some(contact) = contact.filter(|contact| contact.epoch == broker_epoch) {
            contact.at = contact.at.max(Some(now));
        }
    }

    fn of(&self, broker_id: BrokerId) -> Option<MonotonicTime> {
        self.registered.lock().get(&broker_id)?.at
    }

    fn begin(&self, broker_id: BrokerId, epoch: BrokerEpoch, at: Option<MonotonicTime>) {
        let contact = Contact { epoch, at };
        self.registered.lock().insert(broker_id, contact);
    }

    fn forget(&self, broker_id: BrokerId) {
        self.registered.lock().remove(&broker_id);
    }
}

/// What is known of one registered broker.
#[derive(Debug, Clone, Copy)]
struct Session {
    epoch: BrokerEpoch,
    /// Where its registration stands in the metadata log.
    registration_offset: Offset,
    /// The offset of the last record that it has followed; -1 until it says.
    metadata_offset: Offset,
    /// What active brokers must have followed before it may stop.
    shutdown_offset: Option<Offset>,
}

/// The sessions of all registered brokers.
#[derive(Debug)]
pub struct Sessions {
    contacts: BrokerContacts,
    timeout_ms: i64,
    brokers: BTreeMap<BrokerId, Session>,
    /// The registration of the broker of this process, if the controller leads alone. It stays as it is when that
    /// registration goes: it is back if the log has not taken the record, and its epoch is no other's.
    own: Option<(BrokerId, BrokerEpoch)>,
}

impl Sessions {
    /// The sessions of a controller that begins at `now`: brokers that are not fenced have until the
    /// timeout to be heard of.
    pub fn new(timeout_ms: i64, image: &MetadataImage, now: MonotonicTime) -> Self {
        let mut sessions = Self {
            contacts: BrokerContacts::default(),
            timeout_ms,
            brokers: BTreeMap::new(),
            own: None,
        };
        for broker in image.cluster.brokers().values() {
            let contact = (!broker.is_fenced).then_some(now);
            sessions.begin(broker, Offset(broker.epoch.0), contact);
        }
        sessions
    }

    /// Where contacts are noted.
    pub const fn contacts(&self) -> &BrokerContacts {
        &self.contacts
    }

    /// The registration of a broker is that of this process, and the controller leads alone.
    pub fn keep_own(&mut self, broker_id: BrokerId) {
        let session = self.brokers.get(&broker_id);
        self.own = session.map(|session| (broker_id, session.epoch));
    }

    /// The registration of a broker is that of a process that is gone.
    pub fn end(&mut self, broker_id: BrokerId) {
        self.own = self.own.filter(|(own, _)| *own != broker_id);
        if let Some(contact) = self.contacts.registered.lock().get_mut(&broker_id) {
            contact.at = None;
        }
    }

    /// The broker of this process, registered or not.
    pub fn own_id(&self) -> Option<BrokerId> {
        self.own.map(|(id, _)| id)
    }

    /// Whether the registration of a broker is that of this process, which is always live.
    pub fn is_own(&self, broker_id: BrokerId) -> bool {
        let session = self.brokers.get(&broker_id);
        let registered = session.map(|session| (broker_id, session.epoch));
        registered.is_some() && registered == self.own
    }

    /// Whether the registration of a broker was heard of in time, fenced or not.
    pub fn is_live(&self, broker_id: BrokerId, now: MonotonicTime) -> bool {
        self.is_own(broker_id)
            || self
                .contacts
                .of(broker_id)
                .is_some_and(|at| now < self.expiry_of(at))
    }

    /// The broker whose session runs out first, of those that are not fenced, and when, if nothing is
    /// heard of it until then.
    pub fn next_expiry(&self, image: &MetadataImage) -> Option<(MonotonicTime, BrokerId)> {
        let brokers = image.cluster.brokers().values();
        let unfenced = brokers.filter(|broker| !broker.is_fenced && !self.is_own(broker.id));
        let expiry = |broker: &BrokerRegistration| {
            let heard = self.contacts.of(broker.id).unwrap_or(MonotonicTime::MIN);
            (self.expiry_of(heard), broker.id)
        };
        unfenced.map(|broker| expiry(broker)).min()
    }

    const fn expiry_of(&self, heard: MonotonicTime) -> MonotonicTime {
        heard.plus_ms(self.timeout_ms)
    }

    /// Where the registration of a broker stands in the metadata log.
    pub fn registration_offset(&self, broker: &BrokerRegistration) -> Offset {
        let session = self.session(broker);
        session.map_or(Offset(broker.epoch.0), |session| {
            session.registration_offset
        })
    }

    /// Whether all active brokers have followed the metadata to where this one began its shutdown.
    pub fn may_stop(&self, image: &MetadataImage, broker: &BrokerRegistration) -> bool {
        let session = self.session(broker);
        let Some(offset) = session.and_then(|session| session.shutdown_offset) else {
            return false;
        };
        let brokers = image.cluster.brokers().values();
        let mut active = brokers.filter(|other| other.is_active() && !self.is_own(other.id));
        active.all(|other| {
            let session = self.session(other);
            session.is_some_and(|session| session.metadata_offset >= offset)
        })
    }

    fn session(&self, broker: &BrokerRegistration) -> Option<&Session> {
        let session = self.brokers.get(&broker.id)?;
        (session.epoch == broker.epoch).then_some(session)
    }

    /// A broker has told how far it has followed the metadata. The answer to it, which leaves it in its
    /// controlled shutdown or not, is in the log before `end_offset`.
    pub fn heard(
        &mut self,
        (broker_id, metadata_offset): (BrokerId, Offset),
        is_shutting_down: bool,
        end_offset: Offset,
    ) {
        if let Some(session) = self.brokers.get_mut(&broker_id) {
            session.metadata_offset = metadata_offset;
            session.shutdown_offset = match is_shutting_down {
                true => session.shutdown_offset.or(Some(end_offset - 1)),
                false => None,
            };
        }
    }

    /// A broker has registered, with a record at `offset`. It is not heard of by that: a process that dies
    /// before its first heartbeat holds up nobody.
    pub fn registered(&mut self, broker_id: BrokerId, offset: Offset) {
        if let Some(session) = self.brokers.get_mut(&broker_id) {
            session.registration_offset = offset;
        }
    }

    /// Takes over what has become of the registrations.
    pub fn follow(&mut self, before: &MetadataImage, after: &MetadataImage) {
        let brokers = before.cluster.brokers().diff(after.cluster.brokers());
        for difference in brokers {
            match (difference.before, difference.after) {
                (_, None) => {
                    self.brokers.remove(difference.key);
                    self.contacts.forget(*difference.key);
                }
                (Some(old), Some(new)) if old.epoch == new.epoch => {
                    if new.is_fenced
                        && let Some(session) = self.brokers.get_mut(&new.id)
                    {
                        session.shutdown_offset = None;
                    }
                }
                (_, Some(new)) => self.begin(new, Offset(new.epoch.0), None),
            }
        }
    }

    fn begin(
        &mut self,
        broker: &BrokerRegistration,
        registration_offset: Offset,
        contact: Option<MonotonicTime>,
    ) {
        let session = Session {
            epoch: broker.epoch,
            registration_offset,
            metadata_offset: Offset::NONE,
            shutdown_offset: None,
        };
        self.brokers.insert(broker.id, session);
        self.contacts.begin(broker.id, broker.epoch, contact);
    }
}
