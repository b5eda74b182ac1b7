//! `cargo xtask interop serve`: a server to develop against, until standard input ends.

use std::io::{Read as _, stdin};

use anyhow::Result;

use super::run::Run;

/// Starts the server, prints where it listens and stops it at the end of standard input.
pub(crate) fn run(run: &mut Run) -> Result<()> {
    let server = run.start("serve", &[])?;
    println!("{}", server.bootstrap());
    stdin().read_to_end(&mut Vec::new())?;
    server.stop()
}
