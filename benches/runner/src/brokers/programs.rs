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
    pub(super) macrobench: PathBuf,
    pub(super) java: Java,
}

impl Programs {
    /// Builds and resolves all of them; `binary` is a riverrun that is there already.
    pub(super) fn prepare(root: &Path, binary: Option<&Path>) -> Result<Self> {
        let riverrun = match binary {
            Some(path) => {
                fs::canonicalize(path).with_context(|| format!("no {}", path.display()))?
            }
            None => harness::build(root, "riverrun", "release")?,
        };
        let cache = harness::cache(root).join("java");
        Ok(Self {
            riverrun,
            macrobench: harness::build(root, "macrobench", "release")?,
            java: Java::install(&root.join("interop/java"), &cache, Annotations::Ignore)?,
        })
    }
}

impl Programs {
    /// Has the host of a virtual machine give it its free memory now, rather than in a window.
    pub(super) fn touch_memory(&self) -> Result<()> {
        run_quietly(Command::new(&self.macrobench).arg("touch"))
    }
}

/// Runs the load generator or the floor by itself with the caller's arguments.
pub(crate) fn run_macrobench(which: &str, arguments: &[String]) -> Result<()> {
    let program = harness::build(harness::workspace_root(), "macrobench", "release")?;
    let status = Command::new(program).arg(which).args(arguments).status()?;
    ensure!(status.success(), "macrobench ended with {status}");
    Ok(())
}
