//! `cargo xtask compat`: writes `docs/compat.md` from the table of served APIs.
//!
//! The page is a snapshot of a test of the broker, which fails where page and table differ.

use std::process::Command;

use anyhow::{Context as _, Result};
use harness::process::run_quietly;

/// Writes the page.
pub(crate) fn run() -> Result<()> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(harness::workspace_root());
    cargo.args(["test", "--quiet", "--package", "broker", "--test", "server"]);
    cargo.args(["--", "--exact", "compat::the_page_is_what_is_served"]);
    run_quietly(cargo.env("UPDATE_EXPECT", "1")).context("cannot write the page")?;
    println!("wrote docs/compat.md");
    Ok(())
}
