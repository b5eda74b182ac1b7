//! Go: the program of `interop/go` and franz-go's own test binary, both built by `go`, whose build
//! cache decides what is built anew.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use harness::process::{output_of, run_quietly};

const KGO: &str = "github.com/twmb/franz-go/pkg/kgo";

/// An installed set of Go programs.
#[derive(Clone, Debug)]
pub(crate) struct Go {
    source: PathBuf,
    cache: PathBuf,
}

impl Go {
    /// Builds the program of `source` into `cache`.
    pub(crate) fn install(source: &Path, cache: &Path) -> Result<Self> {
        std::fs::create_dir_all(cache)?;
        let go = Self {
            source: source.to_owned(),
            cache: cache.to_owned(),
        };
        let mut build = Command::new("go");
        build
            .args(["build", "-buildvcs=false", "-o"])
            .arg(go.program())
            .arg(".")
            .current_dir(source);
        run_quietly(&mut build).context("cannot build interop/go")?;
        Ok(go)
    }

    /// A command that runs the program.
    pub(crate) fn command(&self) -> Command {
        Command::new(self.program())
    }

    /// A command that runs franz-go's own tests, in the folder where they expect to be.
    pub(crate) fn kgo_tests(&self) -> Result<Command> {
        let binary = self.cache.join("kgo.test");
        let mut build = Command::new("go");
        build
            .args(["test", "-buildvcs=false", "-c", "-o"])
            .arg(&binary)
            .arg(KGO)
            .current_dir(&self.source);
        run_quietly(&mut build).context("cannot build franz-go's tests")?;
        let mut list = Command::new("go");
        list.args(["list", "-f", "{{.Dir}}", KGO])
            .current_dir(&self.source);
        let folder = output_of(&mut list)?;
        let mut command = Command::new(binary);
        command.current_dir(folder.trim());
        Ok(command)
    }

    fn program(&self) -> PathBuf {
        self.cache.join("interop")
    }
}
