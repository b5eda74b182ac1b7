//! The server on what is left of the disk at one cut of the journal.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use model::ErrorCode;
use rustix::io::Errno;
use testkit::{Client, batch};

use crate::check::{Check, ensure_online};
use crate::control::{CHANGES, CREATE, Control, FAILURES, Fault, MKDIR, OPEN, RENAME, WRITE};
use crate::disk::{Crash, Tree};
use crate::failure::caught;
use crate::promises::{Presence, Promises};
use crate::server::{LOG_DIRS, Plan, Server};

/// What happens to the directories, or to the server, after the crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// It starts, and is killed.
    Start,
    /// It starts, makes topics that were deleted again, is killed, starts, stops in order, and starts.
    GoOn,
    /// The second disk is not mounted at the first start.
    Unmounted,
    /// The second disk is full at the first start.
    Full,
    /// The logs of the second disk cannot be opened at the first start.
    Unreadable,
    /// Nothing of the second disk can be changed at the first start.
    ReadOnly,
    /// At the first start one of [`FAILURES`] happens, once or from then on, when so many changes
    /// have gone by.
    Fails { how: usize, skip: u32, count: u32 },
}

impl Then {
    /// Whether something is wrong with the second directory as a whole.
    pub(crate) const fn is_of_directory(self) -> bool {
        matches!(
            self,
            Self::Unmounted | Self::Full | Self::Unreadable | Self::ReadOnly
        )
    }
}

/// One start on what a crash has left.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    /// How many entries of the journal there are.
    pub(crate) cut: usize,
    pub(crate) crash: Crash,
    pub(crate) then: Then,
    pub(crate) tree: Arc<Tree>,
    pub(crate) promises: Arc<Promises>,
}

/// A place where cases are run, one after the other.
#[derive(Debug)]
pub(crate) struct Bench {
    plan: Plan,
    control: Control,
}

impl Bench {
    /// A bench in the folder `dir`, for servers like that of `plan`.
    pub(crate) fn new(plan: &Plan, dir: &Path, port: u16) -> Result<Self> {
        fs::create_dir_all(dir)?;
        let control = dir.join("control");
        Ok(Self {
            control: Control::create(&control, 0)?,
            plan: Plan {
                root: dir.join("root"),
                port,
                journal: None,
                control: Some(control),
                log: dir.join("server.log"),
                ..plan.clone()
            },
        })
    }

    /// Runs a case.
    pub(crate) fn run(&self, case: &Case) -> Result<()> {
        self.control.disarm()?;
        clear(&self.plan.root)?;
        case.tree.write(&self.plan.root)?;
        for name in LOG_DIRS {
            fs::create_dir_all(self.plan.root.join(name))?;
        }
        match case.then {
            Then::Start => self.start(case).map(Server::kill),
            Then::GoOn => self.go_on(case),
            Then::Unmounted => self.unmounted(case),
            Then::Full => self.with_fault(case, WRITE | CREATE | MKDIR | RENAME, Errno::NOSPC, ""),
            Then::Unreadable => self.with_fault(case, OPEN, Errno::IO, ".log"),
            Then::ReadOnly => self.with_fault(case, CHANGES, Errno::ROFS, ""),
            Then::Fails { how, skip, count } => self.fails(case, how, skip, count),
        }
    }

    /// Starts the server and looks for what was promised.
    fn start(&self, case: &Case) -> Result<Server> {
        self.start_with(case, &[])
    }

    fn start_with(&self, case: &Case, made_anew: &[String]) -> Result<Server> {
        let server = self.plan.start().context("it does not start")?;
        let check = Check {
            promises: &case.promises,
            crash: case.crash,
            made_anew,
        };
        let checked = caught(|| check.all(&mut server.connect()));
        checked.with_context(|| server.log_tail())?;
        self.ensure_owned()?;
        Ok(server)
    }

    fn go_on(&self, case: &Case) -> Result<()> {
        let server = self.start(case)?;
        let anew = caught(|| self.make_anew(case, &mut server.connect()));
        let anew = anew
            .with_context(|| server.log_tail())
            .context("topics made anew")?;
        server.kill();
        let server = self
            .start_with(case, &anew)
            .context("after a second crash")?;
        let found = caught(|| ensure_anew(&anew, &mut server.connect()));
        found
            .with_context(|| server.log_tail())
            .context("after a second crash")?;
        server.stop()?;
        let server = self
            .start_with(case, &anew)
            .context("after an orderly stop")?;
        caught(|| ensure_anew(&anew, &mut server.connect())).context("after an orderly stop")?;
        server.stop()
    }

    /// Makes every topic that was deleted again, and writes to it; returns their names.
    fn make_anew(&self, case: &Case, client: &mut Client) -> Result<Vec<String>> {
        let listed: BTreeSet<String> = client.topics().into_iter().collect();
        let mut anew = Vec::new();
        let names = case.promises.topics.iter();
        for (name, topic) in names.filter(|(_, topic)| topic.presence != Presence::Present) {
            if listed.contains(name) {
                continue;
            }
            for index in 0..topic.partitions.len() {
                let count = i32::try_from(topic.partitions.len())?;
                if index == 0 {
                    client.create_topic(name, count, &[]);
                }
                let index = i32::try_from(index)?;
                let produced = client.produce(name, index, &batch(&["one", "two", "three"]));
                ensure!(
                    produced.error == ErrorCode::None,
                    "{name}-{index}: {}",
                    produced.error
                );
                ensure!(
                    produced.base_offset == 0,
                    "{name}-{index} starts at {}",
                    produced.base_offset
                );
            }
            anew.push(name.clone());
        }
        ensure_online(client)?;
        Ok(anew)
    }

    /// A disk that is not mounted is not a new one: nothing of it is served, and nothing is made in
    /// its place.
    fn unmounted(&self, case: &Case) -> Result<()> {
        let (mount, aside) = (
            self.plan.root.join(LOG_DIRS[1]),
            self.plan.root.join("aside"),
        );
        fs::rename(&mount, &aside)?;
        fs::create_dir(&mount)?;
        let lost = partitions(&case.tree, LOG_DIRS[1]);
        // To refuse to start is right, too.
        if let Ok(server) = self.plan.start() {
            let refused = caught(|| {
                let mut client = server.connect();
                for (name, index) in &lost {
                    let produced = client.produce(name, *index, &batch(&["lost"]));
                    ensure!(
                        produced.error != ErrorCode::None,
                        "{name}-{index} lies on a disk that is not mounted, and takes records from offset {}",
                        produced.base_offset
                    );
                }
                Ok(())
            });
            refused.with_context(|| server.log_tail())?;
            server.kill();
        }
        for entry in fs::read_dir(&mount)? {
            let name = entry?.file_name();
            // Whoever starts takes the lock first.
            ensure!(
                name == ".lock",
                "{name:?} is made in the mount point of a disk that is not mounted"
            );
        }
        fs::remove_dir_all(&mount)?;
        fs::rename(&aside, &mount)?;
        self.start(case).context("when it is mounted again")?.stop()
    }

    /// A start may end by a fault, which leaves the next one nothing worse to start from.
    fn fails(&self, case: &Case, how: usize, skip: u32, count: u32) -> Result<()> {
        let (kinds, error) = FAILURES[how];
        let fault = Fault {
            kinds,
            error,
            paths: ["", ""],
            count,
            is_half: true,
        };
        self.control.arm_after(&fault, skip)?;
        if let Ok(server) = self.plan.start() {
            server.kill();
        }
        self.control.disarm()?;
        self.start(case).context("when all is well again")?.stop()
    }

    /// Records are never set aside because nothing says which topic they are of: that is durable
    /// before the first of them.
    fn ensure_owned(&self) -> Result<()> {
        for directory in LOG_DIRS.map(|name| self.plan.root.join(name)) {
            for entry in fs::read_dir(directory)? {
                let path = entry?.path();
                if !path.to_string_lossy().ends_with("-stray") {
                    continue;
                }
                let Tree::Directory(files) = Tree::read(&path)? else {
                    continue;
                };
                let holds_records = files
                    .iter()
                    .any(|(name, file)| name.contains(".log") && *file != Tree::File(Vec::new()));
                let owner = fs::read_to_string(path.join("partition.metadata"));
                let is_owned = owner.is_ok_and(|text| text.contains("topic_id: "));
                ensure!(
                    is_owned || !holds_records,
                    "the records in {} are nobody's",
                    path.display()
                );
            }
        }
        Ok(())
    }

    /// What is wrong with the second disk must not keep the first one from being served.
    fn with_fault(&self, case: &Case, kinds: u32, error: Errno, path: &str) -> Result<()> {
        let directory = format!("{}/", LOG_DIRS[1]);
        self.control.arm(&Fault {
            kinds,
            error,
            paths: [&directory, path],
            count: u32::MAX,
            is_half: false,
        })?;
        let server = self
            .plan
            .start()
            .with_context(|| format!("it does not start with {error} in {directory}"))?;
        let served = caught(|| {
            let mut client = server.connect();
            // Of a partition that was being moved the log that counts may be in the second one.
            let elsewhere = partitions(&case.tree, LOG_DIRS[1]);
            let here = partitions(&case.tree, LOG_DIRS[0]).into_iter();
            for (name, index) in here.filter(|one| !elsewhere.contains(one)) {
                let is_present = case
                    .promises
                    .topic(&name)
                    .is_ok_and(|topic| topic.presence == Presence::Present);
                if is_present {
                    let listed = client.list_offset(&name, index, -1);
                    ensure!(
                        listed.error == ErrorCode::None,
                        "{name}-{index} is not served: {}",
                        listed.error
                    );
                }
            }
            Ok(())
        });
        served.with_context(|| server.log_tail())?;
        server.kill();
        self.control.disarm()?;
        self.start(case)
            .context("when the disk is well again")?
            .stop()
    }
}

/// Topics that were made anew hold what was written to them.
fn ensure_anew(anew: &[String], client: &mut Client) -> Result<()> {
    for name in anew {
        let fetched = client.fetch(name, 0, 0);
        ensure!(
            fetched.error == ErrorCode::None,
            "{name} made anew: {}",
            fetched.error
        );
        let values = fetched.values();
        ensure!(
            values == ["one", "two", "three"],
            "{name} made anew has {values:?}"
        );
    }
    Ok(())
}

/// The partitions of the workload's topics whose logs are in a directory.
fn partitions(tree: &Tree, directory: &str) -> Vec<(String, i32)> {
    let Some(Tree::Directory(names)) = tree.at(directory) else {
        return Vec::new();
    };
    let partitions = names.keys().filter_map(|name| {
        let (topic, index) = name.rsplit_once('-')?;
        let is_file = topic.starts_with("__") || name.contains('.');
        Some((topic.to_owned(), index.parse().ok()?)).filter(|_| !is_file)
    });
    partitions.collect()
}

fn clear(path: &PathBuf) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}
