//! How many of the files that the process may open are for what: half for connections, the other
//! half for logs, but for a few that are neither's. Logs close files that nobody uses when they
//! need another one; a connection stays open for as long as its client wants.

use rustix::process::{Resource, getrlimit};

/// Directories, checkpoints, the metadata log, and files that a reader still holds when the logs
/// have closed them.
const OTHERS: usize = 256;
/// No limit at all is as good as one that nobody reaches.
const UNLIMITED: u64 = 1 << 30;

/// A share for each; together no more than the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileShares {
    /// Files that logs may keep open.
    pub(crate) logs: usize,
    /// Connections that may be open.
    pub(crate) connections: usize,
}

impl FileShares {
    /// The shares under the limit that the process has now.
    pub(crate) fn of_process() -> Self {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(UNLIMITED);
        Self::of(usize::try_from(limit.min(UNLIMITED)).unwrap_or(usize::MAX))
    }

    fn of(limit: usize) -> Self {
        let connections = limit / 2;
        let others = OTHERS.min(limit / 8);
        Self {
            logs: limit - connections - others,
            connections,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_are_no_more_than_there_is() {
        for limit in (0..5000).chain([20_000, 1_048_576, 1 << 30]) {
            let shares = FileShares::of(limit);
            let others = OTHERS.min(limit / 8);
            assert_eq!(shares.logs + shares.connections + others, limit);
            assert!(shares.logs >= limit / 4, "{limit}");
            assert!(shares.connections + 1 >= shares.logs, "{limit}");
        }
    }
}
