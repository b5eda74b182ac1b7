//! What `shim.c` and the workload have written down: changes of the disk and marks, in order.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

/// The bytes before an entry's path and data.
const HEAD_BYTES: usize = 32;

const MKDIR: u32 = 7;
const MARK: u32 = 9;
const SYNC_ALL: u32 = 11;

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A file is made.
    Create {
        inode: u64,
        path: String,
    },
    Write {
        inode: u64,
        position: usize,
        bytes: Vec<u8>,
    },
    Truncate {
        inode: u64,
        length: usize,
    },
    Rename {
        from: String,
        to: String,
    },
    /// A file or an empty directory is removed.
    Remove {
        path: String,
    },
    MakeDirectory {
        inode: u64,
        path: String,
    },
    /// The bytes of a file, or the names in a directory, are durable.
    Sync {
        inode: u64,
    },
    /// Everything is durable.
    SyncAll,
    /// Not a change: what the workload is about to do, or has been told.
    Mark(String),
}

impl Entry {
    /// Whether the entry changes what names there are, or makes something durable: where a crash
    /// before or after makes the most of a difference.
    pub(crate) const fn is_turning_point(&self) -> bool {
        matches!(
            self,
            Self::Rename { .. }
                | Self::Remove { .. }
                | Self::MakeDirectory { .. }
                | Self::Sync { .. }
                | Self::SyncAll
        )
    }

    /// One line for people.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Write {
                inode,
                position,
                bytes,
            } => format!(
                "Write {{ inode: {inode}, position: {position}, {} bytes }}",
                bytes.len()
            ),
            other => format!("{other:?}"),
        }
    }
}

fn text(bytes: &[u8]) -> Result<String> {
    let path = std::str::from_utf8(bytes).context("a path in the journal")?;
    // Concatenated paths may double a slash.
    Ok(path
        .split('/')
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("/"))
}

/// Reads a journal.
pub(crate) fn read(path: &Path) -> Result<Vec<Entry>> {
    let bytes = fs::read(path).with_context(|| format!("no {}", path.display()))?;
    let mut rest = bytes.as_slice();
    let mut entries = Vec::new();
    while !rest.is_empty() {
        let head = rest
            .get(..HEAD_BYTES)
            .context("the journal ends in an entry")?;
        let word = |at: usize| u32::from_ne_bytes(head[at..at + 4].try_into().expect("4 bytes"));
        let long = |at: usize| u64::from_ne_bytes(head[at..at + 8].try_into().expect("8 bytes"));
        let (kind, first, second) = (word(0), word(4) as usize, word(8) as usize);
        let (inode, at) = (long(16), usize::try_from(long(24))?);
        let body = rest.get(HEAD_BYTES..HEAD_BYTES + first + second);
        let (first_bytes, second_bytes) = body
            .context("the journal ends in an entry")?
            .split_at(first);
        rest = &rest[HEAD_BYTES + first + second..];
        entries.push(match kind {
            1 => Entry::Create {
                inode,
                path: text(first_bytes)?,
            },
            2 => Entry::Write {
                inode,
                position: at,
                bytes: second_bytes.to_vec(),
            },
            3 => Entry::Truncate { inode, length: at },
            4 => Entry::Rename {
                from: text(first_bytes)?,
                to: text(second_bytes)?,
            },
            5 | 6 => Entry::Remove {
                path: text(first_bytes)?,
            },
            MKDIR => Entry::MakeDirectory {
                inode,
                path: text(first_bytes)?,
            },
            8 => Entry::Sync { inode },
            SYNC_ALL => Entry::SyncAll,
            MARK => Entry::Mark(String::from_utf8(second_bytes.to_vec())?),
            other => bail!("an entry of kind {other}"),
        });
    }
    Ok(entries)
}

/// The end of a journal to which the workload adds.
#[derive(Debug)]
pub(crate) struct Journal {
    file: fs::File,
}

impl Journal {
    /// Begins a journal at `path`.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        fs::write(path, [])?;
        let file = fs::File::options().append(true).open(path)?;
        Ok(Self { file })
    }

    /// Adds a directory that is there already.
    pub(crate) fn add_directory(&mut self, root: &Path, name: &str) -> Result<()> {
        let inode = fs::metadata(root.join(name))?.ino();
        self.add(MKDIR, inode, name.as_bytes(), &[])
    }

    /// Adds a mark.
    pub(crate) fn mark(&mut self, text: &str) -> Result<()> {
        self.add(MARK, 0, &[], text.as_bytes())
    }

    fn add(&mut self, kind: u32, inode: u64, first: &[u8], second: &[u8]) -> Result<()> {
        let mut entry = Vec::new();
        for word in [
            kind,
            u32::try_from(first.len())?,
            u32::try_from(second.len())?,
            0,
        ] {
            entry.extend_from_slice(&word.to_ne_bytes());
        }
        entry.extend_from_slice(&inode.to_ne_bytes());
        entry.extend_from_slice(&0_u64.to_ne_bytes());
        entry.extend_from_slice(first);
        entry.extend_from_slice(second);
        // One write: the server appends to the same file.
        Ok(self.file.write_all(&entry)?)
    }
}
