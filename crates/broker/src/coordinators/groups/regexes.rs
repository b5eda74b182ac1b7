//! Regular expressions that members of consumer groups subscribe to, resolved beside everything else.
//!
//! To match all topics may take minutes: a short text may stand for an expression of a megabyte. So
//! no shard is locked meanwhile, no worker waits, and one group after the other has a moment. A group
//! that has been left is dropped when its next moment comes.

use super::{Groups, Shard, State};
use crate::runtime::apart::in_steps;
use crate::runtime::disk_watch::DiskUse;
use crate::runtime::heavy_work::off_workers;
use coordinator::group::RegexResolution;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a group has the thread to itself; one name more may take a little longer.
const MOMENT: Duration = Duration::from_millis(5);

/// What has become of a resolution in its moment.
enum Moment {
    Ended,
    /// Others have theirs first.
    Over,
    /// The group is gone.
    Unwanted,
}

impl Groups {
    /// Begins to resolve the expressions of a shard's groups that are due.
    pub(super) fn resolve_due(self: &Arc<Self>, shard: &Arc<Shard>, state: &mut State) {
        let Ok(ready) = state.ready() else { return };
        for resolution in ready.shard.take_resolutions() {
            let resolving = self.clone().resolve(shard.clone(), resolution);
            drop(self.runtime.spawn(in_steps(resolving)));
        }
    }

    async fn resolve(self: Arc<Self>, shard: Arc<Shard>, mut resolution: RegexResolution) {
        loop {
            let turn = self.regex_turn.acquire().await;
            let moment = off_workers(|| go_on(&mut resolution));
            drop(turn);
            match moment {
                Moment::Ended => break,
                Moment::Over => {}
                Moment::Unwanted => return,
            }
        }
        let place = shard.partition.place();
        let disk = self.disks.turn(place, DiskUse::Write).await;
        // An error leaves the expressions as they were: the next heartbeat asks again.
        let _ = disk.run(|| {
            self.decide_in(&shard, None, |shard, now| {
                shard.regexes_resolved(resolution, now)
            })
        });
    }
}

fn go_on(resolution: &mut RegexResolution) -> Moment {
    let begun = Instant::now();
    while resolution.is_wanted() {
        if !resolution.step() {
            return Moment::Ended;
        }
        if begun.elapsed() >= MOMENT {
            return Moment::Over;
        }
    }
    Moment::Unwanted
}
