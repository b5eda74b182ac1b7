//! The lists of a request, its outline and its parts, which go from request to request: so that a request
//! allocates nothing.

use super::outline::Outline;
use super::parts::Parts;
use std::cell::Cell;

thread_local! {
    /// Lists of a request that is answered, for the next one of the thread.
    static KEPT: Cell<Option<Box<Lists>>> = const { Cell::new(None) };
}

/// Lists for so many partitions are kept.
const KEPT_PARTS: usize = 256;

/// What a request asks for, and the piece of it that is served.
#[derive(Default)]
pub(super) struct Lists {
    pub(super) outline: Outline,
    pub(super) parts: Parts,
}

/// The lists of one request. They go from request to request, so that a request allocates nothing; apart, as they
/// would be copied with each move of who has them.
#[derive(Default)]
pub(super) struct LentLists(Option<Box<Lists>>);

impl LentLists {
    /// Those of the last request of the thread.
    pub(super) fn take() -> Self {
        Self(KEPT.take())
    }

    pub(super) fn lists(&mut self) -> &mut Lists {
        self.0.get_or_insert_default()
    }
}

impl Drop for LentLists {
    fn drop(&mut self) {
        let Some(mut lists) = self.0.take() else {
            return;
        };
        lists.outline.clear();
        lists.parts.clear();
        if lists
            .outline
            .capacity()
            .max(lists.parts.partitions.capacity())
            <= KEPT_PARTS
        {
            // A thread that ends keeps nothing.
            let _ = KEPT.try_with(|kept| kept.set(Some(lists)));
        }
    }
}
