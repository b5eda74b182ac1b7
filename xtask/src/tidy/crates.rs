//! Crates and what they depend on: a crate depends only on lower layers.

use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Crates of the workspace's own tooling; they stand outside the layers.
const TOOLING: &[&str] = &["codegen", "interpreter", "testkit"];

/// A crate as its `Cargo.toml` tells.
#[derive(Debug)]
pub(super) struct Member {
    name: String,
    pub(super) folder: PathBuf,
    layer: Option<u32>,
    pub(super) pure: bool,
    dependencies: BTreeSet<String>,
}

/// Every crate under `crates/`.
pub(super) fn read(root: &Path) -> Result<Vec<Member>> {
    let mut members = Vec::new();
    for entry in fs::read_dir(root.join("crates"))? {
        let folder = entry?.path();
        let manifest = folder.join("Cargo.toml");
        let text = fs::read_to_string(&manifest).with_context(|| manifest.display().to_string())?;
        members.push(parse(&text, folder));
    }
    members.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(members)
}

/// Their names, as `use` has them.
pub(super) fn names(members: &[Member]) -> BTreeSet<String> {
    members.iter().map(|one| one.name.clone()).collect()
}

fn parse(text: &str, folder: PathBuf) -> Member {
    let name = folder
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let mut member = Member {
        name,
        folder,
        layer: None,
        pure: false,
        dependencies: BTreeSet::new(),
    };
    let mut section = "";
    for line in text.lines().map(str::trim) {
        if let Some(heading) = line.strip_prefix('[') {
            section = heading.trim_end_matches(']');
        } else if let Some((key, value)) = line.split_once('=') {
            match (section, key.trim()) {
                ("package.metadata.riverrun", "layer") => member.layer = value.trim().parse().ok(),
                ("package.metadata.riverrun", "pure") => member.pure = value.trim() == "true",
                ("dependencies", key) => {
                    let name = key.split('.').next().unwrap_or(key);
                    member.dependencies.insert(name.to_owned());
                }
                _ => {}
            }
        }
    }
    member
}

/// Reports each dependency that does not point to a lower layer.
pub(super) fn check_layers(members: &[Member], findings: &mut Vec<String>) {
    for member in members
        .iter()
        .filter(|m| !TOOLING.contains(&m.name.as_str()))
    {
        let Some(layer) = member.layer else {
            findings.push(format!(
                "{}: say the layer in [package.metadata.riverrun]",
                member.name
            ));
            continue;
        };
        for other in members
            .iter()
            .filter(|m| member.dependencies.contains(&m.name))
        {
            if other.layer.is_none_or(|lower| lower >= layer) {
                findings.push(format!(
                    "{}: is in layer {layer} and may not depend on `{}`, which is not below it",
                    member.name, other.name
                ));
            }
        }
        if member.pure && member.dependencies.contains("tokio") {
            findings.push(format!(
                "{}: is pure and may not depend on tokio",
                member.name
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upward_edge_is_reported() {
        let manifest = |layer: u32, dependency: &str| {
            format!("[package.metadata.riverrun]\nlayer = {layer}\n[dependencies]\n{dependency}\n")
        };
        let low = parse(
            &manifest(1, "high.workspace = true"),
            PathBuf::from("crates/low"),
        );
        let high = parse(
            &manifest(2, "low.workspace = true"),
            PathBuf::from("crates/high"),
        );
        let mut findings = Vec::new();
        check_layers(&[low, high], &mut findings);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].starts_with("low:"), "{findings:?}");
    }
}
