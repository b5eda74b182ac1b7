//! The programs of a run: riverrun and the load generator in release mode, Apache Kafka from Maven.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::interop::java::{Annotations, Java};
use crate::interop::process::run_quietly;

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
            None => build(root, "riverrun")?,
        };
        let cache = crate::interop::cache(root).join("java");
        Ok(Self {
            riverrun,
            macrobench: build(root, "macrobench")?,
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
pub(super) fn run_macrobench(root: &Path, arguments: &[String]) -> Result<()> {
    let program = build(root, "macrobench")?;
    let status = Command::new(program).args(arguments).status()?;
    ensure!(status.success(), "macrobench ended with {status}");
    Ok(())
}

fn build(root: &Path, package: &str) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--release", "--quiet", "--package", package]);
    run_quietly(build.current_dir(root)).with_context(|| format!("cannot build {package}"))?;
    let target = std::env::var_os("CARGO_TARGET_DIR");
    let target = target.map_or_else(|| root.join("target"), PathBuf::from);
    Ok(target.join("release").join(package))
}
