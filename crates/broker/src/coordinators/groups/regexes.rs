//! Regular expressions that members of consumer groups subscribe to, resolved between other events of their
//! partition.
//!
//! To match all topics may take minutes: a short text may stand for an expression of a megabyte. So
//! a group has the thread for a moment, and goes to the end of its partition's queue. A group that has been left
//! is dropped when its next moment comes.

use super::GroupSlot;
use crate::coordinators::runtime::Nobody;
use crate::scheduling::clock;
use coordinator::group::RegexResolution;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a group has the thread to itself; one name more may take a little longer.
const MOMENT: Duration = Duration::from_millis(1);

/// Resolves the expressions of a group, a moment at a time.
pub(super) fn resolve(slot: &Arc<GroupSlot>, mut resolution: RegexResolution) {
    slot.push(move |slot, served| {
        let begun = Instant::now();
        while resolution.is_wanted() {
            if !resolution.step() {
                // An error leaves the expressions as they were: the next heartbeat asks again.
                served
                    .hosted
                    .decide(Nobody, None, clock::now(), |shard, now| {
                        shard.regexes_resolved(resolution, now)
                    });
                return;
            }
            if begun.elapsed() >= MOMENT {
                return resolve(slot, resolution);
            }
        }
    });
}
