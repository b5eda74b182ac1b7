//! `cargo xtask tidy`: rules of the source that a machine can check.
//!
//! Layers and purity of crates, rooms of the broker, sizes of files, a picture at the top of each file, names,
//! unfinished work, seeds of tests, and files that pages name. Each finding names the file and says what to do. The
//! same check runs as a test.
#![expect(clippy::print_stdout, reason = "the findings are what it prints")]

use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use harness::workspace_root;

mod circles;
mod crates;
mod fields;
mod pages;
mod public;
mod purity;
mod random;
mod rooms;
mod shape;
mod source;
mod uses;

fn main() -> ExitCode {
    harness::exit_code(run())
}

/// Runs every check on the workspace around this crate.
fn run() -> Result<()> {
    let findings = findings(workspace_root())?;
    if findings.is_empty() {
        println!("tidy: nothing to report");
        return Ok(());
    }
    for finding in &findings {
        println!("{finding}");
    }
    bail!("tidy: {} findings", findings.len());
}

fn findings(root: &Path) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    let crates = crates::read(root)?;
    crates::check_layers(&crates, &mut findings);
    let files = files(root)?;
    let sources = source::read(root, rust_files(&files)?);
    fields::check(&sources, &mut findings);
    crates::check_tests(&crates, root, &sources, &mut findings);
    public::check(&crates::names(&crates), &sources, &mut findings);
    circles::check(&sources, &mut findings);
    random::check_targets(&sources, &mut findings);
    let names: Vec<String> = files
        .iter()
        .filter_map(|file| pages::below(root, file))
        .collect();
    pages::check(&pages::read(root, &files)?, &names, &sources, &mut findings);
    for source in &sources {
        shape::check(source, &mut findings);
        rooms::check(source, &mut findings);
        random::check(source, &mut findings);
        let path = root.join(&source.name);
        let owner = crates.iter().find(|one| path.starts_with(&one.folder));
        if owner.is_some_and(|owner| owner.is_pure(&path)) {
            purity::check(source, &mut findings);
        }
    }
    check_schema_names(root, &mut findings)?;
    Ok(findings)
}

/// Every file that is not generated.
fn files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            if !path.is_dir() {
                files.push(path);
            } else if !path.ends_with("target") && !path.ends_with(".git") {
                folders.push(path);
            }
        }
    }
    Ok(files)
}

/// Those of them that are Rust, with their texts.
fn rust_files(files: &[PathBuf]) -> Result<BTreeMap<PathBuf, String>> {
    let rust = files
        .iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    rust.map(|path| Ok((path.clone(), fs::read_to_string(path)?)))
        .collect()
}

/// A schema file bears the number and the name of its API.
fn check_schema_names(root: &Path, findings: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(root.join("crates/wire/schema"))? {
        let path = entry?.path();
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let text = fs::read_to_string(&path)?;
        // Files of messages that belong to no API are named freely.
        let Some(heading) = text.lines().find_map(|line| line.strip_prefix("api ")) else {
            continue;
        };
        let expect = heading.split_once(' ');
        let expect = expect.map(|(key, api)| format!("{key:0>2}_{api}"));
        if expect.as_deref() != Some(&name) {
            findings.push(format!(
                "{name}.txt: name the schema file after its `api` line"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_is_tidy() {
        assert_eq!(findings(workspace_root()).unwrap(), Vec::<String>::new());
    }
}
