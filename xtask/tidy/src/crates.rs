//! Crates and what they depend on: a crate depends only on lower layers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use cargo_metadata::{DependencyKind, MetadataCommand, Package, Target};

use super::source::Source;

/// Crates below this layer are pure, but for those that say otherwise.
const PURE_BELOW: u64 = 4;
/// Up to this layer there are servers and what they are made of.
const SERVERS_TO: u64 = 5;
/// From this layer on there are only tools and tests.
const TOOLS_FROM: u64 = 8;

/// A crate of the workspace as its `Cargo.toml` tells.
#[derive(Debug)]
pub(super) struct Member {
    name: String,
    /// The name that `use` has, where it is a library.
    library: Option<String>,
    pub(super) folder: PathBuf,
    layer: Option<u64>,
    is_for_tests: bool,
    /// Whether programs above the servers use it, and no server does.
    is_for_tools: bool,
    pure: bool,
    /// What a pure crate depends on that is not pure, for its shell or for values alone.
    impure: BTreeSet<String>,
    /// Files and folders of a pure crate that wait, or touch what is outside it.
    shell: Vec<PathBuf>,
    /// Without those of build scripts and tests.
    dependencies: BTreeSet<String>,
    build_dependencies: BTreeSet<String>,
    /// What only its tests use.
    test_dependencies: BTreeSet<String>,
    /// Whether `cargo test` runs the tests in its sources.
    runs_tests: bool,
    /// Whether `cargo test` runs the examples in its documents.
    runs_examples: bool,
}

impl Member {
    /// Whether the file is to be free of effects.
    pub(super) fn is_pure(&self, file: &Path) -> bool {
        self.pure && !self.shell.iter().any(|shell| file.starts_with(shell))
    }
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
    let folder = folder.map(PathBuf::from).unwrap_or_default();
    let library = package.targets.iter().find(|target| target.is_lib());
    let layer = told["layer"].as_u64();
    let texts = |key: &str| {
        let texts = told[key].as_array().into_iter().flatten();
        texts.filter_map(|one| one.as_str())
    };
    let of_kind = |kind: DependencyKind| {
        let dependencies = package.dependencies.iter();
        let dependencies = dependencies.filter(|one| one.kind == kind);
        dependencies.map(|one| one.name.clone()).collect()
    };
    Member {
        name: package.name.to_string(),
        library: library.map(|target| target.name.clone()),
        layer,
        is_for_tests: told["for_tests"] == true,
        is_for_tools: told["for_tools"] == true,
        pure: told["pure"]
            .as_bool()
            .unwrap_or(layer.is_none_or(|layer| layer < PURE_BELOW)),
        impure: texts("impure").map(str::to_owned).collect(),
        shell: texts("shell").map(|one| folder.join(one)).collect(),
        folder,
        dependencies: of_kind(DependencyKind::Normal),
        build_dependencies: of_kind(DependencyKind::Build),
        test_dependencies: of_kind(DependencyKind::Development),
        runs_tests: own_targets(package).all(|target| target.test),
        runs_examples: library.is_none_or(|target| target.doctest),
    }
}

/// The targets whose sources are those of the crate.
fn own_targets(package: &Package) -> impl Iterator<Item = &Target> {
    let targets = package.targets.iter();
    targets.filter(|target| target.is_lib() || target.is_bin())
}

/// Reports tests and examples that `cargo test` leaves out: a crate without any says so in its `Cargo.toml`, and is
/// not compiled once more for none.
pub(super) fn check_tests(
    members: &[Member],
    root: &Path,
    sources: &[Source],
    findings: &mut Vec<String>,
) {
    for source in sources {
        let path = root.join(&source.name);
        let owner = members
            .iter()
            .find(|one| path.starts_with(one.folder.join("src")));
        let Some(owner) = owner else {
            continue;
        };
        if !owner.runs_tests && source.tests.contains("#[test]") {
            findings.push(format!(
                "{}: has tests that nobody runs; take `test = false` out of its Cargo.toml",
                source.name
            ));
        }
        if !owner.runs_examples && has_example(&source.text) {
            findings.push(format!(
                "{}: has an example that nobody runs; take `doctest = false` out of its Cargo.toml, or name its \
                 language",
                source.name
            ));
        }
    }
}

/// Whether documents have a block of code that is Rust, as one is that names no language.
fn has_example(text: &str) -> bool {
    let lines = text.lines().map(str::trim_start);
    let lines = lines.filter_map(|line| {
        line.strip_prefix("//!")
            .or_else(|| line.strip_prefix("///"))
    });
    let fences = lines.filter_map(|line| line.trim().strip_prefix("```"));
    // Every other one ends a block.
    let mut languages = fences.step_by(2);
    languages.any(|language| {
        matches!(
            language,
            "" | "rust" | "no_run" | "should_panic" | "compile_fail"
        )
    })
}

/// Reports each dependency that does not point to a lower layer. Tests also use crates of their own layer, and
/// those that are there for tests.
pub(super) fn check_layers(members: &[Member], findings: &mut Vec<String>) {
    let by_name: BTreeMap<&str, &Member> =
        members.iter().map(|one| (one.name.as_str(), one)).collect();
    for member in members {
        let name = &member.name;
        let Some(layer) = member.layer else {
            findings.push(format!(
                "{name}: say the layer in [package.metadata.riverrun]"
            ));
            continue;
        };
        for dependency in member.dependencies.iter().chain(&member.build_dependencies) {
            let Some(lower) = by_name.get(dependency.as_str()) else {
                continue;
            };
            if lower.layer.is_none_or(|lower| lower >= layer) {
                findings.push(format!(
                    "{name}: is in layer {layer} and may not depend on `{dependency}`, which is not \
                     below it"
                ));
            }
            if lower.is_for_tests && !member.is_for_tests && layer < TOOLS_FROM {
                findings.push(format!("{name}: only tests may depend on `{dependency}`"));
            }
            if lower.is_for_tools && !member.is_for_tests && layer <= SERVERS_TO {
                findings.push(format!("{name}: no server may depend on `{dependency}`"));
            }
            if member.pure && !lower.pure && !member.impure.contains(dependency) {
                findings.push(format!(
                    "{name}: is pure and may not depend on `{dependency}`, which is not; say `impure` in its \
                     Cargo.toml if only its shell does, or uses only values of it"
                ));
            }
        }
        for dependency in &member.test_dependencies {
            let other = by_name.get(dependency.as_str());
            if other.is_some_and(|other| !other.is_for_tests && other.layer > Some(layer)) {
                findings.push(format!(
                    "{name}: is in layer {layer}, and its tests may not depend on `{dependency}`, which is above it"
                ));
            }
        }
        if member.pure && member.shell.is_empty() && member.dependencies.contains("tokio") {
            findings.push(format!("{name}: is pure and may not depend on tokio"));
        }
        if let Some(shell) = member.shell.iter().find(|shell| !shell.exists()) {
            findings.push(format!(
                "{name}: its shell names {}, which is not there",
                shell.display()
            ));
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
            is_for_tests: name.starts_with("for_tests"),
            is_for_tools: name == "for_tools",
            pure: name != "impure",
            impure: BTreeSet::new(),
            shell: Vec::new(),
            build_dependencies: BTreeSet::new(),
            test_dependencies: BTreeSet::new(),
            runs_tests: true,
            runs_examples: true,
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
    fn tests_and_examples_are_run() {
        let test = "#[cfg(test)]\nmod tests {\n    #[test]\n    fn runs() {}\n}\n";
        let shown = "//! ```text\n//! a -> b\n//! ```\n";
        let example = "//! ```text\n//! ```\n//! Then:\n//! ```\n//! assert!(true);\n//! ```\n";
        let sources = [test, shown, example].map(|text| Source::of("crates/a/src/b.rs", text));
        let findings = |runs_tests, runs_examples| {
            let member = Member {
                folder: PathBuf::from("/w/crates/a"),
                runs_tests,
                runs_examples,
                ..member("a", Some(1), &[])
            };
            let mut findings = Vec::new();
            check_tests(&[member], Path::new("/w"), &sources, &mut findings);
            findings.len()
        };
        assert_eq!(findings(true, true), 0);
        assert_eq!(findings(false, true), 1);
        assert_eq!(findings(true, false), 1);
    }

    #[test]
    fn tests_and_builds_have_layers_too() {
        let names = |names: &[&str]| names.iter().map(|&one| one.to_owned()).collect();
        let mut members = [
            member("low", Some(1), &[]),
            member("beside", Some(1), &[]),
            member("high", Some(2), &[]),
            member("for_tests", Some(8), &["high"]),
            member("tool", Some(9), &["for_tests"]),
        ];
        members[0].test_dependencies = names(&["beside", "for_tests"]);
        members[2].build_dependencies = names(&["low"]);
        let findings = |members: &[Member]| {
            let mut findings = Vec::new();
            check_layers(members, &mut findings);
            findings
        };
        assert_eq!(findings(&members), [""; 0]);
        members[0].test_dependencies = names(&["high"]);
        members[1].build_dependencies = names(&["high"]);
        members[3].layer = Some(0);
        members[3].dependencies = names(&[]);
        members[2].dependencies = names(&["for_tests"]);
        assert_eq!(findings(&members).len(), 3, "{:?}", findings(&members));
    }

    #[test]
    fn some_crates_are_not_for_all_above_them() {
        let mut members = [
            member("impure", Some(0), &[]),
            member("for_tests", Some(0), &[]),
            member("for_tools", Some(1), &[]),
            member("for_tests_too", Some(4), &["for_tests", "for_tools"]),
            member("server", Some(5), &[]),
            member("command", Some(6), &["for_tools"]),
        ];
        let count = |members: &[Member]| {
            let mut findings = Vec::new();
            check_layers(members, &mut findings);
            findings.len()
        };
        assert_eq!(count(&members), 0);
        for other in ["impure", "for_tests", "for_tools", "for_tests_too"] {
            members[4].dependencies = BTreeSet::from([other.to_owned()]);
            assert_eq!(count(&members), 1, "{other}");
        }
        members[4].dependencies = BTreeSet::from(["impure".to_owned()]);
        members[4].impure = BTreeSet::from(["impure".to_owned()]);
        assert_eq!(count(&members), 0, "which it says");
    }

    #[test]
    fn the_layers_of_the_workspace_are_read() {
        let members = read(harness::workspace_root()).unwrap();
        let broker = members.iter().find(|one| one.name == "broker").unwrap();
        assert_eq!((broker.layer, broker.pure), (Some(5), false));
        assert!(broker.folder.ends_with("crates/broker"));
        assert!(broker.dependencies.contains("model"));
        assert!(broker.test_dependencies.contains("testkit"));
        let raft = members.iter().find(|one| one.name == "raft").unwrap();
        assert!(raft.pure, "which it is unless it says otherwise");
        assert!(names(&members).contains("riverrun_client"));
    }
}
