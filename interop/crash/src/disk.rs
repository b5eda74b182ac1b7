//! A model of the disk: what is there when the process dies, and what may be there when the machine
//! does.
//!
//! A file's bytes become durable when it is synced, names when their directory is. The two are
//! independent. Of what was not synced a crash leaves any subset of the writes to a file, each perhaps
//! torn at the sectors, its first one included; and of each directory any prefix of its changes.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use interpreter::Random;

use crate::journal::Entry;

/// What a disk writes at once.
const SECTOR_BYTES: usize = 512;

/// What has crashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Crash {
    /// All that was written is there.
    Process,
    /// Only what was synced is there.
    MachineKeepsNothing,
    /// What was synced is there, and of the rest what follows from the seed.
    Machine(u64),
}

/// The content of a directory: files with their bytes, directories with their content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Tree {
    File(Vec<u8>),
    Directory(BTreeMap<String, Self>),
}

#[derive(Debug, Clone)]
enum Change {
    Write { position: usize, bytes: Vec<u8> },
    Truncate { length: usize },
}

/// Names that appear (with a node) and disappear together.
type NameChange = Vec<(String, Option<usize>)>;

#[derive(Debug)]
enum Node {
    File {
        current: Vec<u8>,
        durable: Vec<u8>,
        pending: Vec<Change>,
    },
    Directory {
        current: BTreeMap<String, usize>,
        durable: BTreeMap<String, usize>,
        pending: Vec<NameChange>,
    },
}

/// The disk after some entries of a journal.
#[derive(Debug)]
pub(crate) struct Disk {
    /// The first one is the root.
    nodes: Vec<Node>,
    /// The latest node of each inode: the kernel gives the number of a file that is gone to another.
    by_inode: HashMap<u64, usize>,
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Self::Write { position, bytes } => {
                let end = position + bytes.len();
                if content.len() < end {
                    content.resize(end, 0);
                }
                content[*position..end].copy_from_slice(bytes);
            }
            Self::Truncate { length } => content.resize(*length, 0),
        }
    }

    /// Applies what a crash leaves of the change.
    fn apply_torn(&self, content: &mut Vec<u8>, random: &mut Random) {
        match (self, random.below(4)) {
            (_, 0) => {}
            (Self::Write { position, bytes }, 1) => {
                let mut at = 0;
                while at < bytes.len() {
                    let end = bytes
                        .len()
                        .min(at + SECTOR_BYTES - (position + at) % SECTOR_BYTES);
                    if random.chance(1, 2) {
                        let part = Self::Write {
                            position: position + at,
                            bytes: bytes[at..end].to_vec(),
                        };
                        part.apply(content);
                    }
                    at = end;
                }
            }
            _ => self.apply(content),
        }
    }
}

fn apply_names(change: &NameChange, names: &mut BTreeMap<String, usize>) {
    for (name, node) in change {
        match node {
            Some(node) => names.insert(name.clone(), *node),
            None => names.remove(name),
        };
    }
}

impl Disk {
    /// An empty disk.
    pub(crate) fn new() -> Self {
        Self {
            nodes: vec![Self::empty_directory()],
            by_inode: HashMap::new(),
        }
    }

    const fn empty_directory() -> Node {
        Node::Directory {
            current: BTreeMap::new(),
            durable: BTreeMap::new(),
            pending: Vec::new(),
        }
    }

    /// Makes the change of an entry.
    pub(crate) fn apply(&mut self, entry: &Entry) -> Result<()> {
        match entry {
            Entry::Mark(_) => Ok(()),
            Entry::Create { inode, path } => {
                let file = Node::File {
                    current: Vec::new(),
                    durable: Vec::new(),
                    pending: Vec::new(),
                };
                self.add(*inode, path, file)
            }
            Entry::MakeDirectory { inode, path } => {
                self.add(*inode, path, Self::empty_directory())?;
                // The log directories themselves have been there for long.
                if !path.contains('/') {
                    self.sync(0);
                }
                Ok(())
            }
            Entry::Write {
                inode,
                position,
                bytes,
            } => self.change(
                *inode,
                Change::Write {
                    position: *position,
                    bytes: bytes.clone(),
                },
            ),
            Entry::Truncate { inode, length } => {
                self.change(*inode, Change::Truncate { length: *length })
            }
            Entry::Rename { from, to } => self.rename(from, to),
            Entry::Remove { path } => {
                let (parent, name) = self.parent(path)?;
                self.change_names(parent, vec![(name, None)])
            }
            Entry::Sync { inode } => {
                let node = self.node(*inode)?;
                self.sync(node);
                Ok(())
            }
            Entry::SyncAll => {
                (0..self.nodes.len()).for_each(|node| self.sync(node));
                Ok(())
            }
        }
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<()> {
        let (parent, old_name) = self.parent(from)?;
        let (new_parent, new_name) = self.parent(to)?;
        let node = self
            .child(parent, &old_name)
            .with_context(|| format!("no {from}"))?;
        if parent == new_parent {
            return self.change_names(parent, vec![(old_name, None), (new_name, Some(node))]);
        }
        bail!("a rename across directories: {from} to {to}");
    }

    fn add(&mut self, inode: u64, path: &str, node: Node) -> Result<()> {
        self.nodes.push(node);
        let id = self.nodes.len() - 1;
        self.by_inode.insert(inode, id);
        let (parent, name) = self.parent(path)?;
        self.change_names(parent, vec![(name, Some(id))])
    }

    fn node(&self, inode: u64) -> Result<usize> {
        self.by_inode
            .get(&inode)
            .copied()
            .with_context(|| format!("no inode {inode}"))
    }

    fn child(&self, parent: usize, name: &str) -> Option<usize> {
        match &self.nodes[parent] {
            Node::Directory { current, .. } => current.get(name).copied(),
            Node::File { .. } => None,
        }
    }

    fn parent(&self, path: &str) -> Result<(usize, String)> {
        let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
        let mut at = 0;
        for folder in folders.split('/').filter(|folder| !folder.is_empty()) {
            at = self
                .child(at, folder)
                .with_context(|| format!("no {folder} of {path}"))?;
        }
        Ok((at, name.to_owned()))
    }

    fn change(&mut self, inode: u64, change: Change) -> Result<()> {
        let id = self.node(inode)?;
        let Node::File {
            current, pending, ..
        } = &mut self.nodes[id]
        else {
            bail!("a write to a directory");
        };
        change.apply(current);
        pending.push(change);
        Ok(())
    }

    fn change_names(&mut self, parent: usize, change: NameChange) -> Result<()> {
        let Node::Directory {
            current, pending, ..
        } = &mut self.nodes[parent]
        else {
            bail!("a name in a file");
        };
        apply_names(&change, current);
        pending.push(change);
        Ok(())
    }

    fn sync(&mut self, id: usize) {
        match &mut self.nodes[id] {
            Node::File {
                durable, pending, ..
            } => {
                for change in pending.drain(..) {
                    change.apply(durable);
                }
            }
            Node::Directory {
                durable, pending, ..
            } => {
                for change in pending.drain(..) {
                    apply_names(&change, durable);
                }
            }
        }
    }

    /// What is there after a crash.
    pub(crate) fn after(&self, crash: Crash) -> Tree {
        let mut random = match crash {
            Crash::Machine(seed) => Some(Random::new(seed)),
            Crash::Process | Crash::MachineKeepsNothing => None,
        };
        self.tree(0, crash, &mut random)
    }

    fn tree(&self, id: usize, crash: Crash, random: &mut Option<Random>) -> Tree {
        match &self.nodes[id] {
            Node::File {
                current,
                durable,
                pending,
            } => {
                if crash == Crash::Process {
                    return Tree::File(current.clone());
                }
                let mut content = durable.clone();
                if let Some(random) = random {
                    // Most files that were not synced are either all there or not at all.
                    match random.below(3) {
                        0 => {}
                        1 => content.clone_from(current),
                        _ => pending
                            .iter()
                            .for_each(|change| change.apply_torn(&mut content, random)),
                    }
                }
                Tree::File(content)
            }
            Node::Directory {
                current,
                durable,
                pending,
            } => {
                let mut names = match crash {
                    Crash::Process => current.clone(),
                    _ => durable.clone(),
                };
                if let Some(random) = random {
                    let kept = match random.below(3) {
                        0 => 0,
                        1 => pending.len(),
                        _ => random.below(pending.len() + 1),
                    };
                    for change in &pending[..kept] {
                        apply_names(change, &mut names);
                    }
                }
                let tree =
                    |(name, id): (&String, &usize)| (name.clone(), self.tree(*id, crash, random));
                Tree::Directory(names.iter().map(tree).collect())
            }
        }
    }
}

impl Tree {
    /// Reads what is on the real disk.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        if !path.is_dir() {
            return Ok(Self::File(fs::read(path)?));
        }
        let mut names = BTreeMap::new();
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            names.insert(
                entry.file_name().to_string_lossy().into_owned(),
                Self::read(&entry.path())?,
            );
        }
        Ok(Self::Directory(names))
    }

    /// Writes it to the real disk, where nothing is yet.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        match self {
            Self::File(content) => Ok(fs::write(path, content)?),
            Self::Directory(names) => {
                fs::create_dir(path)?;
                for (name, tree) in names {
                    tree.write(&path.join(name))?;
                }
                Ok(())
            }
        }
    }

    /// Fails with the first path at which the two differ.
    pub(crate) fn ensure_same(&self, other: &Self, path: &str) -> Result<()> {
        match (self, other) {
            (Self::File(one), Self::File(two)) => {
                ensure!(
                    one == two,
                    "{path} has {} and {} bytes, or others",
                    one.len(),
                    two.len()
                );
            }
            (Self::Directory(one), Self::Directory(two)) => {
                let names: Vec<_> = one.keys().chain(two.keys()).collect();
                for name in names {
                    let path = format!("{path}/{name}");
                    match (one.get(name), two.get(name)) {
                        (Some(one), Some(two)) => one.ensure_same(two, &path)?,
                        (one, _) => bail!(
                            "{path} is {} the disk",
                            if one.is_some() {
                                "missing on"
                            } else {
                                "only on"
                            }
                        ),
                    }
                }
            }
            _ => bail!("{path} is a file and a directory"),
        }
        Ok(())
    }

    /// A child, by its path.
    pub(crate) fn at(&self, path: &str) -> Option<&Self> {
        path.split('/').try_fold(self, |tree, name| match tree {
            Self::Directory(names) => names.get(name),
            Self::File(_) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log directory `d` with a file `a`, whose bytes are written in two steps.
    fn written() -> Disk {
        let mut disk = Disk::new();
        let made = [
            Entry::MakeDirectory {
                inode: 1,
                path: "d".to_owned(),
            },
            Entry::Create {
                inode: 2,
                path: "d/a".to_owned(),
            },
            Entry::Write {
                inode: 2,
                position: 0,
                bytes: vec![b'x'; 600],
            },
        ];
        for entry in &made {
            disk.apply(entry).expect("the paths are there");
        }
        disk
    }

    fn file(disk: &Disk, crash: Crash) -> Option<Vec<u8>> {
        match disk.after(crash).at("d/a") {
            Some(Tree::File(content)) => Some(content.clone()),
            _ => None,
        }
    }

    #[test]
    fn a_dead_process_leaves_all_and_a_dead_machine_what_was_synced() {
        let mut disk = written();
        assert_eq!(file(&disk, Crash::Process), Some(vec![b'x'; 600]));
        assert_eq!(file(&disk, Crash::MachineKeepsNothing), None);
        disk.apply(&Entry::Sync { inode: 1 }).expect("it is there");
        assert_eq!(file(&disk, Crash::MachineKeepsNothing), Some(Vec::new()));
        disk.apply(&Entry::Sync { inode: 2 }).expect("it is there");
        assert_eq!(
            file(&disk, Crash::MachineKeepsNothing),
            Some(vec![b'x'; 600])
        );
    }

    #[test]
    fn what_was_not_synced_may_be_torn_at_its_first_sector() {
        let mut disk = written();
        disk.apply(&Entry::Sync { inode: 1 }).expect("it is there");
        let found: Vec<_> = (0..200)
            .map(|seed| file(&disk, Crash::Machine(seed)))
            .collect();
        let torn = [vec![0; SECTOR_BYTES], vec![b'x'; 88]].concat();
        for expected in [Vec::new(), vec![b'x'; SECTOR_BYTES], vec![b'x'; 600], torn] {
            assert!(found.contains(&Some(expected)));
        }
    }

    #[test]
    fn an_inode_that_comes_again_is_another_file() {
        let mut disk = written();
        for entry in [
            Entry::Remove {
                path: "d/a".to_owned(),
            },
            Entry::Create {
                inode: 2,
                path: "d/a".to_owned(),
            },
        ] {
            disk.apply(&entry).expect("the paths are there");
        }
        assert_eq!(file(&disk, Crash::Process), Some(Vec::new()));
    }
}
