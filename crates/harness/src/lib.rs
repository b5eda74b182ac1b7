//! What the runners of `interop/` and `benches/` share: other programs, built, installed and watched.
//!
//! ```text
//!   a package of the workspace ── build ──────────> its program ─┐
//!   a pom.xml and Java source ── java::Java ──────> its classes ─┤
//!                                                                v
//!                       process: run to the end, or watched line by line against a deadline
//! ```
//!
//! It knows nothing of riverrun but where the workspace is, so a runner links no server.

pub mod java;
pub mod process;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, Result, bail, ensure};

use process::run_quietly;

/// Keeps installed parts between checkouts when it names a folder.
const CACHE_VARIABLE: &str = "RIVERRUN_INTEROP_CACHE";

/// The folder of the workspace's `Cargo.toml`: of the one whose program cargo runs, as checkouts may
/// share what is built.
pub fn workspace_root() -> &'static Path {
    static ROOT: LazyLock<PathBuf> = LazyLock::new(|| {
        let run = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
        let start = run.or_else(|| std::env::current_dir().ok());
        let folders = start.iter().flat_map(|start| start.ancestors());
        let root = folders
            .into_iter()
            .find(|one| one.join("Cargo.lock").is_file());
        let built = || Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
        let root = root.or_else(built);
        root.expect("the crate is in the workspace's folder `crates`")
            .to_owned()
    });
    &ROOT
}

/// How a program ends whose work has ended so. A failure goes to standard error.
#[expect(clippy::print_stderr, reason = "so a program tells its failure")]
pub fn exit_code(outcome: Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Where the programs of other languages are kept between runs.
pub fn cache(root: &Path) -> PathBuf {
    match std::env::var_os(CACHE_VARIABLE) {
        Some(folder) => PathBuf::from(folder),
        None => root.join("target/interop/cache"),
    }
}

/// Builds a program of the workspace at `root` by a profile, and returns its path.
pub fn build(root: &Path, package: &str, profile: &str) -> Result<PathBuf> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--profile", profile]);
    cargo.args(["--package", package]).current_dir(root);
    run_quietly(&mut cargo).with_context(|| format!("cannot build {package}"))?;
    let target = match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => root.join(folder),
        None => root.join("target"),
    };
    let folder = if profile == "dev" { "debug" } else { profile };
    let program = target.join(folder).join(package);
    ensure!(program.exists(), "the build left no {}", program.display());
    Ok(program)
}

/// A free port below the range from which the kernel takes the source ports of connections: a
/// client that keeps reconnecting to a stopped server must not be given the server's own port. A
/// process is given each port once only, until it has had all.
pub fn free_port(other_than: u16) -> Result<u16> {
    const FIRST: u32 = 20_000;
    const COUNT: u32 = 12_000;
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let start = std::process::id().wrapping_mul(31) % COUNT;
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = FIRST + start.wrapping_add(step) % COUNT;
        let port = u16::try_from(port).context("the range lies below 65536")?;
        if port != other_than && TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no free port from {FIRST} on")
}
