//! The turn of a request at a worker: who takes long lets others go on.

use crate::scheduling::give_way::give_way;
use std::time::{Duration, Instant};

/// The time that a request may take on a worker before other connections have their turn.
const TURN: Duration = Duration::from_millis(1);

/// How long the requests of a connection have had a worker to themselves.
#[derive(Debug)]
pub(crate) struct Turn(pub(crate) Instant);

impl Turn {
    /// A turn that begins now.
    pub(crate) fn begin() -> Self {
        Self(Instant::now())
    }

    /// Lets the others have their turn if this one has lasted long enough.
    pub(crate) async fn share(&mut self) {
        if self.0.elapsed() > TURN {
            give_way().await;
            self.0 = Instant::now();
        }
    }

    /// The same where it may have lasted for long: short requests do without a look at the clock.
    pub(crate) async fn share_if(&mut self, is_due: bool) {
        if is_due {
            self.share().await;
        }
    }
}
