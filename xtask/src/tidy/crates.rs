//! Crates and what they depend on: a crate depends only on lower layers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use cargo_metadata::{DependencyKind, MetadataCommand, Package};

/// A crate of the workspace as its `Cargo.toml` tells.
#[derive(Debug)]
pub(super) struct Member {
    name: String,
    /// The name that `use` has, where it is a library.
    library: Option<String>,
    pub(super) folder: PathBuf,
    layer: Option<u64>,
    pub(super) pure: bool,
    /// Tests and build scripts apart.
    dependencies: BTreeSet<String>,
}

/// Every crate of the workspace at `root`.
pub(super) fn read(root: &Path) -> Result<Vec<Member>> {
    let mut command = MetadataCommand::new();
    let workspace = command.current_dir(root).no_deps().exec();
    let workspace = workspace.context("cargo cannot read the workspace")?;
    Ok(workspace.packages.iter().map(member).collect())
}

/// The names of the libraries, as `use` has them.
pub(super) fn names(members: &[Member]) -> BTreeSet<String> {
    members
        .iter()
        .filter_map(|one| one.library.clone())
        .collect()
}

fn member(package: &Package) -> Member {
    let told = &package.metadata["riverrun"];
    let folder = package.manifest_path.parent();
    let dependencies = package.dependencies.iter();
    let library = package.targets.iter().find(|target| target.is_lib());
    Member {
        name: package.name.to_string(),
        library: library.map(|target| target.name.clone()),
        folder: folder.map(PathBuf::from).unwrap_or_default(),
        layer: told["layer"].as_u64(),
        pure: told["pure"] == true,
        dependencies: dependencies
            .filter(|one| one.kind == DependencyKind::Normal)
            .map(|one| one.name.clone())
            .collect(),
    }
}

/// Reports each dependency that does not point to a lower layer.
pub(super) fn check_layers(members: &[Member], findings: &mut Vec<String>) {
    let layers: BTreeMap<&str, Option<u64>> = members
        .iter()
        .map(|one| (one.name.as_str(), one.layer))
        .collect();
    for member in members {
        let name = &member.name;
        let Some(layer) = member.layer else {
            findings.push(format!(
                "{name}: say the layer in [package.metadata.riverrun]"
            ));
            continue;
        };
        for dependency in &member.dependencies {
            let lower = layers.get(dependency.as_str());
            if lower.is_some_and(|lower| lower.is_none_or(|lower| lower >= layer)) {
                findings.push(format!(
                    "{name}: is in layer {layer} and may not depend on `{dependency}`, which is not \
                     below it"
                ));
            }
        }
        if member.pure && member.dependencies.contains("tokio") {
            findings.push(format!("{name}: is pure and may not depend on tokio"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, layer: Option<u64>, dependencies: &[&str]) -> Member {
        Member {
            name: name.to_owned(),
            library: None,
            folder: PathBuf::new(),
            layer,
            pure: true,
            dependencies: dependencies.iter().map(|&one| one.to_owned()).collect(),
        }
    }

    #[test]
    fn an_edge_that_does_not_point_down_is_reported() {
        let members = [
            member("low", Some(1), &["high", "anyhow"]),
            member("high", Some(2), &["low"]),
            member("beside", Some(2), &["high", "tokio"]),
            member("nowhere", None, &[]),
        ];
        let mut findings = Vec::new();
        check_layers(&members, &mut findings);
        let subjects: Vec<&str> = findings.iter().map(|one| &one[..12]).collect();
        let expect = [
            "low: is in l",
            "beside: is i",
            "beside: is p",
            "nowhere: say",
        ];
        assert_eq!(subjects, expect, "{findings:?}");
    }

    #[test]
    fn the_layers_of_the_workspace_are_read() {
        let members = read(harness::workspace_root()).unwrap();
        let broker = members.iter().find(|one| one.name == "broker").unwrap();
        assert_eq!((broker.layer, broker.pure), (Some(5), false));
        assert!(broker.folder.ends_with("crates/broker"));
        assert!(broker.dependencies.contains("model"));
        assert!(!broker.dependencies.contains("testkit"), "only tests do");
        assert!(names(&members).contains("riverrun_client"));
    }
}
