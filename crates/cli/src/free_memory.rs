//! Memory that the server has freed goes back to the system: the allocator of glibc keeps what a start, a burst
//! of topics or a large request has left in many small pieces, for as long as the process lives.
//!
//! Other allocators give it back by themselves.

use std::time::Duration;

/// How often the allocator is asked how much it keeps.
const INTERVAL: Duration = Duration::from_secs(5);

/// So much more than what could not be given back the last time is worth going through the heap.
const EXCESS_BYTES: u32 = 8 << 20;

/// What is free and still kept, by the allocator's account. Pages that it has given back count, too, until
/// they are in use again.
#[derive(Debug, Default)]
struct Kept {
    bytes: u32,
}

impl Kept {
    /// Whether so much has been freed since the last time that it is to be given back now.
    fn is_excessive(&mut self, free_bytes: u32) -> bool {
        let is_excessive = free_bytes >= self.bytes.saturating_add(EXCESS_BYTES);
        if is_excessive || free_bytes < self.bytes {
            self.bytes = free_bytes;
        }
        is_excessive
    }
}

/// Gives memory back from now on, on a thread of its own.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn start() {
    let give_back = || {
        let mut kept = Kept::default();
        loop {
            std::thread::sleep(INTERVAL);
            if kept.is_excessive(free_bytes()) {
                trim();
            }
        }
    };
    // Without it the server is larger, and nothing else.
    let thread = std::thread::Builder::new().name("free-memory".to_owned());
    if let Err(error) = thread.spawn(give_back) {
        tracing::warn!(%error, "no thread can be started that gives memory back");
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn start() {}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "the C library has no other way to tell")]
fn free_bytes() -> u32 {
    // SAFETY: it takes no pointer, and locks each arena while it counts. The field wraps beyond 4 GiB, which
    // costs a round at most.
    unsafe { libc::mallinfo() }.fordblks.cast_unsigned()
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "the C library has no other way to be asked")]
fn trim() {
    // SAFETY: it takes no pointer, and leaves what is allocated where it is.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_given_back_when_much_has_been_freed_since_the_last_time() {
        let mut kept = Kept::default();
        let mut after = |mebibytes: u32| kept.is_excessive(mebibytes << 20);
        assert!(!after(7));
        assert!(after(8));
        // It counts as free when it has been given back.
        assert!(!after(8));
        assert!(!after(15));
        assert!(after(16));
        // In use again, then freed again.
        assert!(!after(1));
        assert!(!after(8));
        assert!(after(9));
    }

    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[test]
    fn what_is_given_back_is_no_longer_resident() {
        fn resident_bytes() -> usize {
            let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
            let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
            let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
            kib.expect("in kB").parse::<usize>().expect("a number") << 10
        }
        const PIECES: usize = 200_000;
        let before = resident_bytes();
        let mut pieces: Vec<Vec<u8>> = (0..PIECES).map(|_| vec![1; 400]).collect();
        let full = resident_bytes();
        assert!(full - before > PIECES * 300, "{before} {full}");
        // One that stays behind all others keeps the heap from shrinking by itself.
        let last = pieces.pop();
        drop(pieces);
        assert!(free_bytes() as usize > PIECES * 300);
        trim();
        let given_back = resident_bytes();
        assert!(full - given_back > PIECES * 200, "{full} {given_back}");
        drop(last);
    }
}
