//! The programs of a run: riverrun and the load generator in release mode, Apache Kafka from Maven.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use harness::java::{Annotations, Java};
use harness::process::run_quietly;

/// What is run.
#[derive(Clone, Debug)]
pub(super) struct Programs {
    pub(super) riverrun: PathBuf,
    /// Another build of it, to compare with.
    pub(super) before: Option<PathBuf>,
    pub(super) macrobench: PathBuf,
    pub(super) java: Java,
}

impl Programs {
    /// Builds and resolves all of them; `binary` and `before` are builds of riverrun that are there
    /// already.
    pub(super) fn prepare(
        root: &Path,
        binary: Option<&Path>,
        before: Option<&Path>,
    ) -> Result<Self> {
        let cache = harness::cache(root).join("java");
        Ok(Self {
            riverrun: riverrun(root, binary)?,
            before: before.map(there).transpose()?,
            macrobench: harness::build(root, "macrobench", "release")?,
            java: Java::install(&root.join("interop/java"), &cache, Annotations::Ignore)?,
        })
    }

    /// riverrun alone.
    pub(super) fn of_riverrun(root: &Path, binary: Option<&Path>) -> Result<Self> {
        Ok(Self {
            riverrun: riverrun(root, binary)?,
            before: None,
            macrobench: PathBuf::new(),
            java: Java::on(&[]),
        })
    }
}

impl Programs {
    /// Has the host of a virtual machine give it its free memory now, rather than in a window.
    pub(super) fn touch_memory(&self) -> Result<()> {
        run_quietly(Command::new(&self.macrobench).arg("touch"))
    }
}

fn there(path: &Path) -> Result<PathBuf> {
    fs::canonicalize(path).with_context(|| format!("no {}", path.display()))
}

/// The build that is there already, or a new one.
fn riverrun(root: &Path, binary: Option<&Path>) -> Result<PathBuf> {
    match binary {
        Some(path) => there(path),
        None => harness::build(root, "riverrun", "release"),
    }
}

/// Runs the load generator or the floor by itself with the caller's arguments.
pub(crate) fn run_macrobench(which: &str, arguments: &[String]) -> Result<()> {
    let program = harness::build(harness::workspace_root(), "macrobench", "release")?;
    let status = Command::new(program).arg(which).args(arguments).status()?;
    ensure!(status.success(), "macrobench ended with {status}");
    Ok(())
}
