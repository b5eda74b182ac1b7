//! Python: a virtual environment with the pinned packages of `interop/python/requirements.txt`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use harness::process::run_quietly;

/// An installed set of Python programs.
#[derive(Clone, Debug)]
pub(crate) struct Python {
    interpreter: PathBuf,
    source: PathBuf,
}

impl Python {
    /// Makes the virtual environment in `cache` unless it is there with the same requirements.
    pub(crate) fn install(source: &Path, cache: &Path) -> Result<Self> {
        let requirements = source.join("requirements.txt");
        let wanted = fs::read_to_string(&requirements)?;
        let interpreter = cache.join("bin/python");
        let stamp = cache.join("requirements.stamp");
        let current = fs::read_to_string(&stamp).is_ok_and(|text| text == wanted);
        if !current || !interpreter.exists() {
            let mut venv = Command::new("python3");
            venv.args(["-m", "venv", "--clear"]).arg(cache);
            run_quietly(&mut venv).context("cannot make a virtual environment")?;
            let mut pip = Command::new(&interpreter);
            pip.args(["-m", "pip", "install", "--quiet", "--requirement"])
                .arg(&requirements);
            run_quietly(&mut pip).context("pip cannot install interop/python")?;
            fs::write(stamp, wanted)?;
        }
        Ok(Self {
            interpreter,
            source: source.to_owned(),
        })
    }

    /// A command that runs a script of `interop/python`.
    pub(crate) fn command(&self, script: &str) -> Command {
        let mut command = Command::new(&self.interpreter);
        command.arg("-B").arg("-u").arg(self.source.join(script));
        command
    }
}
