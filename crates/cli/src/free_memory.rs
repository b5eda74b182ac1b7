//! Memory that the server does not need any more goes back to the system.
//!
//! What it has freed: the allocator of glibc keeps what a start, a burst of topics or a large request has left in
//! many small pieces, for as long as the process lives. Other allocators give it back by themselves.
//!
//! Of the program itself, what only a start looks at: with each page that is used first the system reads 15 others
//! into the process, and they stay. Most of what an idle server takes would be these.

#[cfg(all(target_os = "linux", target_env = "gnu"))]
use std::ops::Range;
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

/// Lets go of the pages of the program, and of the libraries that it has loaded. What is used from here on comes back
/// from the same files when it is used, which takes the system a microsecond or so for each 16 pages.
///
/// What is not as its file has it stays: a loader may have moved it, or a debugger written to it.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "the C library has no other way to tell")]
pub(crate) fn drop_program_pages() {
    let mut segments: Vec<Range<u64>> = Vec::new();
    // SAFETY: `note_segments` is what it calls, with this list, and for as long as this call takes.
    unsafe {
        libc::dl_iterate_phdr(Some(note_segments), (&raw mut segments).cast());
    }
    // Where the system does not tell, all stays.
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    for mapping in unchanged(&smaps) {
        for segment in &segments {
            let start = segment.start.max(mapping.start);
            let end = segment.end.min(mapping.end);
            if start < end {
                // SAFETY: these are pages of a file that nobody has written to here, and they are read from it again.
                unsafe {
                    let address = start as usize as *mut libc::c_void;
                    libc::madvise(address, (end - start) as usize, libc::MADV_DONTNEED);
                }
            }
        }
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn drop_program_pages() {}

/// Adds what is not writable of one of the files that the process consists of to the list that `segments` is.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "the C library has no other way to tell")]
unsafe extern "C" fn note_segments(
    object: *mut libc::dl_phdr_info,
    _size: usize,
    segments: *mut libc::c_void,
) -> libc::c_int {
    // SAFETY: the C library describes an object by this for as long as the call takes, and passes on the list.
    let (object, segments, page_bytes) = unsafe {
        let segments = &mut *segments.cast::<Vec<Range<u64>>>();
        (&*object, segments, libc::sysconf(libc::_SC_PAGESIZE))
    };
    if object.dlpi_phdr.is_null() {
        return 0;
    }
    let count = usize::from(object.dlpi_phnum);
    // SAFETY: there are so many.
    let headers = unsafe { std::slice::from_raw_parts(object.dlpi_phdr, count) };
    let page_bytes = page_bytes.max(1).unsigned_abs();
    for header in headers {
        if header.p_type != libc::PT_LOAD || header.p_flags & libc::PF_W != 0 {
            continue;
        }
        // An object may lie below the address that it was linked for.
        let start = object.dlpi_addr.wrapping_add(header.p_vaddr);
        // Whole pages: those at both ends may be another segment's.
        let end = start.wrapping_add(header.p_filesz) / page_bytes * page_bytes;
        if let Some(start) = start.checked_next_multiple_of(page_bytes) {
            segments.push(start..end);
        }
    }
    0
}

/// The mappings that are of files, cannot be written to, and have no page that is not as the file has it, in memory or
/// in swap, by what `/proc/self/smaps` says.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn unchanged(smaps: &str) -> Vec<Range<u64>> {
    let mut found = Vec::new();
    let mut mapping = None;
    for line in smaps.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            [range, permissions, _, _, inode, ..] if range.contains('-') => {
                let is_of_file = inode != "0" && !permissions.contains('w');
                mapping = range_of(range).filter(|_| is_of_file);
            }
            // It comes before what is in swap.
            ["Anonymous:", size, "kB"] => mapping = mapping.filter(|_| size == "0"),
            ["Swap:", "0", "kB"] => found.extend(mapping.take()),
            _ => {}
        }
    }
    found
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn range_of(text: &str) -> Option<Range<u64>> {
    let (start, end) = text.split_once('-')?;
    let parse = |text| u64::from_str_radix(text, 16).ok();
    Some(parse(start)?..parse(end)?)
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

    /// What the system says under this name of the memory of this process.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    fn resident_bytes(name: &str) -> usize {
        let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
        kib.expect("in kB").parse::<usize>().expect("a number") << 10
    }

    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[test]
    fn what_of_the_program_is_not_used_is_no_longer_resident() {
        /// A part of the program that other tests do not use.
        static PART: [u8; 16 << 20] = [7; 16 << 20];
        let sum = || {
            let part = std::hint::black_box(&PART);
            part.iter().map(|byte| usize::from(*byte)).sum::<usize>()
        };
        assert_eq!(sum(), 7 * PART.len());
        let before = resident_bytes("RssFile:");
        drop_program_pages();
        let after = resident_bytes("RssFile:");
        assert!(before - after > PART.len() / 2, "{before} {after}");
        assert_eq!(sum(), 7 * PART.len());
    }

    /// Text in anonymous memory, or with a breakpoint in it, would come back as something else.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[test]
    fn only_what_is_as_its_file_has_it_is_let_go() {
        let mapping = |head: &str, anonymous: &str, swap: &str| {
            let sizes = format!("Anonymous: {anonymous}\nSwap: {swap}\nSwapPss: 0 kB");
            format!("{head}\nSize: 8 kB\nRss: 8 kB\n{sizes}\nVmFlags: rd mr mw me\n")
        };
        let smaps = [
            mapping(
                "1000-3000 r--p 00000000 08:01 77 /bin/server",
                "0 kB",
                "0 kB",
            ),
            mapping(
                "3000-5000 r-xp 00002000 08:01 77 /bin/server",
                "4 kB",
                "0 kB",
            ),
            mapping(
                "5000-7000 rw-p 00004000 08:01 77 /bin/server",
                "0 kB",
                "0 kB",
            ),
            mapping("7000-9000 r-xp 00000000 00:00 0", "0 kB", "0 kB"),
            mapping(
                "9000-b000 r-xp 00000000 08:01 78 /lib/a library.so",
                "0 kB",
                "0 kB",
            ),
            // Its page with a breakpoint is in swap.
            mapping(
                "b000-d000 r-xp 00002000 08:01 78 /lib/a library.so",
                "0 kB",
                "4 kB",
            ),
        ];
        assert_eq!(unchanged(&smaps.concat()), [0x1000..0x3000, 0x9000..0xb000]);
    }

    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[test]
    fn what_is_given_back_is_no_longer_resident() {
        const PIECES: usize = 200_000;
        let resident_bytes = || resident_bytes("VmRSS:");
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
