//! Where the replicas of new partitions go: in stripes over racks and brokers.
//!
//! ```text
//!   racks  A: 0 1   B: 2 3   C: 4 5        partition 0 -> 0 2 4
//!                                          partition 1 -> 3 5 1     each partition starts one
//!                                          partition 2 -> 4 0 2     rack, and one broker, later
//! ```
//!
//! The first replica leads and is on an active broker; fenced brokers come last in their rack.
//! Brokers that shut down, or whose directories are all cordoned, get no replicas. Once every
//! active broker has led, the order is drawn anew, so that stripes do not repeat.

use crate::context::{Random, random_below};
use metadata::{BrokerRegistration, MIGRATING_DIRECTORY, MetadataImage, UNASSIGNED_DIRECTORY};
use model::{BrokerId, Uuid};
use std::collections::BTreeMap;

/// How many replicas are to be placed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Placement {
    /// New partitions.
    pub(crate) partition_count: usize,
    /// Replicas of each.
    pub(crate) replication_factor: i16,
}

/// Why replicas cannot be placed, in Kafka's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PlacementError {
    #[error("Invalid replication factor {0}: the replication factor must be positive.")]
    NotPositive(i16),
    #[error("All brokers are currently fenced, or have all their log directories cordoned.")]
    NoActiveBroker,
    #[error(
        "The target replication factor of {wanted} cannot be reached because only {brokers} \
         broker(s) are registered or some brokers have all their log directories cordoned."
    )]
    TooFewBrokers { wanted: i16, brokers: usize },
}

/// The replicas of each new partition, leaders first.
pub(crate) fn place(
    image: &MetadataImage,
    placement: Placement,
    random: &mut Random<'_>,
) -> Result<Vec<Vec<BrokerId>>, PlacementError> {
    let wanted = placement.replication_factor;
    let replica_count = usize::try_from(wanted)
        .ok()
        .filter(|count| *count > 0)
        .ok_or(PlacementError::NotPositive(wanted))?;
    let mut racks = Racks::of(image, random);
    if racks.active_count == 0 {
        return Err(PlacementError::NoActiveBroker);
    }
    if replica_count > racks.broker_count {
        return Err(PlacementError::TooFewBrokers {
            wanted,
            brokers: racks.broker_count,
        });
    }
    Ok((0..placement.partition_count)
        .map(|_| racks.next_replicas(replica_count, random))
        .collect())
}

/// The directory in which `broker` places a new replica, as far as the controller can tell.
pub(crate) fn default_directory(image: &MetadataImage, broker: BrokerId) -> Uuid {
    let directories = image
        .cluster
        .broker(broker)
        .map(|registration| &*registration.directories);
    match directories {
        Some([]) => MIGRATING_DIRECTORY,
        Some([only]) => *only,
        Some(_) | None => UNASSIGNED_DIRECTORY,
    }
}

/// Brokers that take turns.
#[derive(Debug, Default)]
struct Stripe {
    brokers: Vec<BrokerId>,
    /// Whose turn is first, for the partition being placed.
    start: usize,
    /// Brokers that the partition being placed has taken.
    taken: usize,
}

impl Stripe {
    fn next(&mut self) -> Option<BrokerId> {
        if self.taken == self.brokers.len() {
            return None;
        }
        let index = (self.start + self.taken) % self.brokers.len();
        self.taken += 1;
        self.brokers.get(index).copied()
    }

    fn begin_partition(&mut self) {
        if self.taken > 0 {
            self.start = (self.start + 1) % self.brokers.len();
            self.taken = 0;
        }
    }
}

/// The brokers of a rack; those without a rack share one.
#[derive(Debug, Default)]
struct Rack {
    active: Stripe,
    fenced: Stripe,
}

/// The state of placing partition after partition.
#[derive(Debug)]
struct Racks {
    racks: Vec<Rack>,
    broker_count: usize,
    active_count: usize,
    /// The rack of the next leader.
    start: usize,
    /// Partitions placed since the order was drawn.
    placed: usize,
}

impl Racks {
    fn of(image: &MetadataImage, random: &mut Random<'_>) -> Self {
        let mut by_name: BTreeMap<Option<&str>, Rack> = BTreeMap::new();
        let (mut broker_count, mut active_count) = (0, 0);
        for broker in image.cluster.brokers().values().filter(|b| is_usable(b)) {
            let rack = by_name.entry(broker.rack.as_deref()).or_default();
            let stripe = if broker.is_fenced {
                &mut rack.fenced
            } else {
                active_count += 1;
                &mut rack.active
            };
            stripe.brokers.push(broker.id);
            broker_count += 1;
        }
        let mut racks: Vec<Rack> = by_name.into_values().collect();
        for rack in &mut racks {
            for stripe in [&mut rack.active, &mut rack.fenced] {
                stripe.start = random_below(random, stripe.brokers.len());
            }
        }
        let start = random_below(random, racks.len());
        Self {
            racks,
            broker_count,
            active_count,
            start,
            placed: 0,
        }
    }

    /// The replicas of one partition. There are that many brokers, and one of them is active.
    fn next_replicas(&mut self, replica_count: usize, random: &mut Random<'_>) -> Vec<BrokerId> {
        if self.placed == self.active_count && self.active_count > 1 {
            self.shuffle(random);
        }
        for rack in &mut self.racks {
            rack.active.begin_partition();
            rack.fenced.begin_partition();
        }
        let rack_count = self.racks.len();
        let in_turn = |start: usize| (0..rack_count).map(move |step| (start + step) % rack_count);
        let mut replicas = Vec::with_capacity(replica_count);
        let mut leader_rack = None;
        for index in in_turn(self.start) {
            if let Some(leader) = self.racks[index].active.next() {
                replicas.push(leader);
                leader_rack = Some(index);
                break;
            }
        }
        // The first round gives every other rack its turn; later rounds go over all of them.
        while replicas.len() < replica_count {
            for index in in_turn(self.start) {
                if replicas.len() == replica_count {
                    break;
                }
                if leader_rack.take_if(|leader| *leader == index).is_some() {
                    continue;
                }
                let rack = &mut self.racks[index];
                replicas.extend(rack.active.next().or_else(|| rack.fenced.next()));
            }
        }
        self.start = (self.start + 1) % rack_count;
        self.placed += 1;
        replicas
    }

    fn shuffle(&mut self, random: &mut Random<'_>) {
        shuffle(&mut self.racks, random);
        for rack in &mut self.racks {
            shuffle(&mut rack.active.brokers, random);
            shuffle(&mut rack.fenced.brokers, random);
        }
        self.placed = 0;
    }
}

/// Whether new replicas may go to the broker at all.
fn is_usable(broker: &BrokerRegistration) -> bool {
    let leaves = broker.is_in_controlled_shutdown && !broker.is_fenced;
    !leaves && broker.has_uncordoned_directory()
}

fn shuffle<T>(items: &mut [T], random: &mut Random<'_>) {
    for index in (1..items.len()).rev() {
        items.swap(index, random_below(random, index + 1));
    }
}
