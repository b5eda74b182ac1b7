//! The lists in `interop/kafka-tests`: `classes.txt`, `failures.txt` and `skips.txt`.

use std::fs;

use anyhow::{Context as _, Result, ensure};

use super::super::options::Options;
use super::super::run::Run;
use super::super::server::Against;
use super::SUITE;
use super::outcome::{Kind, Outcome};

/// A class of tests.
#[derive(Clone, Debug)]
pub(super) struct Class {
    pub(super) name: String,
    /// How many of its tests pass at least.
    pub(super) passed_min: usize,
    is_long: bool,
    /// The one test to run; all without it.
    pub(super) method: Option<String>,
}

impl Class {
    /// The name without its package.
    pub(super) fn simple_name(&self) -> &str {
        simple_name(&self.name)
    }
}

fn simple_name(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// `classes.txt`.
#[derive(Debug, Default)]
pub(super) struct Classes {
    pub(super) run: Vec<Class>,
    /// What is never run, and why.
    pub(super) left_out: Vec<(String, String)>,
}

impl Classes {
    pub(super) fn read(run: &Run) -> Result<Self> {
        let mut classes = Self::default();
        for line in lines(run, "kafka-tests/classes.txt")? {
            let (name, rest) = line
                .split_once(char::is_whitespace)
                .with_context(|| format!("classes.txt: `{line}` is only a name"))?;
            let (first, rest) = match rest.trim().split_once(char::is_whitespace) {
                Some((first, rest)) => (first, rest.trim()),
                None => (rest.trim(), ""),
            };
            if first == "-" {
                ensure!(!rest.is_empty(), "classes.txt: `{line}` gives no reason");
                classes
                    .left_out
                    .push((simple_name(name).to_owned(), rest.to_owned()));
                continue;
            }
            ensure!(
                ["", "long"].contains(&rest),
                "classes.txt: what is `{rest}`?"
            );
            classes.run.push(Class {
                name: name.to_owned(),
                passed_min: first
                    .parse()
                    .with_context(|| format!("classes.txt: `{line}`"))?,
                is_long: rest == "long",
                method: None,
            });
        }
        Ok(classes)
    }

    /// What is asked for: `CLASS`, or `CLASS#METHOD` for one test of it.
    pub(super) fn wanted(&self, options: &Options) -> Vec<Class> {
        let mut wanted = Vec::new();
        for class in &self.run {
            let name = class.simple_name();
            let is_named = options.names(SUITE, name);
            if is_named || options.selects(SUITE, name) && (options.long || !class.is_long) {
                wanted.push(class.clone());
            }
            let start = format!("{SUITE}/{name}#");
            let methods = options.selection.iter();
            for method in methods.filter_map(|selected| selected.strip_prefix(&start)) {
                wanted.push(Class {
                    method: Some(method.to_owned()),
                    ..class.clone()
                });
            }
        }
        wanted
    }
}

/// What may fail and what may skip itself.
#[derive(Debug, Default)]
pub(super) struct Lists {
    failures: Vec<Failure>,
    /// How the reasons of skips begin.
    skips: Vec<String>,
}

/// A line of `failures.txt`: `TEST REASON`, `TEST (MARK) REASON`.
#[derive(Debug)]
struct Failure {
    /// `CLASS#METHOD`, or `CLASS#METHOD[NUMBER]`.
    test: String,
    mark: Option<Mark>,
    reason: String,
}

#[derive(Debug, PartialEq, Eq)]
enum Mark {
    /// It fails after a long wait, and is run in the long form only.
    Slow,
    /// It also passes.
    Sometimes,
}

impl Failure {
    fn parse(line: &str) -> Result<Self> {
        let (test, rest) = line
            .split_once(char::is_whitespace)
            .with_context(|| format!("failures.txt: `{line}` gives no reason"))?;
        let rest = rest.trim();
        let (mark, reason) = if let Some(reason) = rest.strip_prefix("(slow)") {
            (Some(Mark::Slow), reason)
        } else if let Some(reason) = rest.strip_prefix("(sometimes)") {
            (Some(Mark::Sometimes), reason)
        } else {
            (None, rest)
        };
        let reason = reason.trim().to_owned();
        ensure!(!reason.is_empty(), "failures.txt: `{line}` gives no reason");
        Ok(Self {
            test: test.to_owned(),
            mark,
            reason,
        })
    }

    fn class(&self) -> &str {
        self.test.split('#').next().unwrap_or(&self.test)
    }
}

impl Lists {
    pub(super) fn read(run: &Run) -> Result<Self> {
        if run.options.against == Against::Kafka || run.options.no_exceptions {
            return Ok(Self::default());
        }
        let failures = lines(run, "kafka-tests/failures.txt")?;
        let failures = failures.iter().map(|line| Failure::parse(line));
        Ok(Self {
            failures: failures.collect::<Result<_>>()?,
            skips: lines(run, "kafka-tests/skips.txt")?,
        })
    }

    /// The reason why a test may fail.
    pub(super) fn failure(&self, test: &str) -> Option<&str> {
        let failure = self.failures.iter().find(|line| is_meant(&line.test, test));
        failure.map(|line| line.reason.as_str())
    }

    /// Whether a test that fails also passes.
    pub(super) fn also_passes(&self, test: &str) -> bool {
        let mut lines = self.failures.iter();
        lines.any(|line| line.mark == Some(Mark::Sometimes) && is_meant(&line.test, test))
    }

    /// The line that a reason to skip begins with.
    pub(super) fn skip(&self, reason: &str) -> Option<&str> {
        let line = self.skips.iter().find(|start| reason.starts_with(*start));
        line.map(String::as_str)
    }

    /// The tests that only the long form runs.
    pub(super) fn slow(&self) -> Vec<String> {
        let slow = self
            .failures
            .iter()
            .filter(|line| line.mark == Some(Mark::Slow));
        slow.map(|line| line.test.clone()).collect()
    }

    /// The lines that should be about some of the outcomes of these classes, and are about none.
    pub(super) fn unused(
        &self,
        outcomes: &[Outcome],
        classes: &[Class],
        is_long: bool,
    ) -> Vec<String> {
        let of_kind = |kind: Kind| outcomes.iter().filter(move |outcome| outcome.kind == kind);
        let has_run = |class: &str| {
            let mut whole = classes.iter().filter(|class| class.method.is_none());
            whole.any(|ran| ran.simple_name() == class)
        };
        let should_fail = self.failures.iter().filter(|line| match line.mark {
            Some(Mark::Slow) => is_long && has_run(line.class()),
            Some(Mark::Sometimes) => false,
            None => has_run(line.class()),
        });
        let failures = should_fail
            .map(|line| &line.test)
            .filter(|test| !of_kind(Kind::Failed).any(|outcome| is_meant(test, &outcome.test)));
        // A skip is of no class: only when all have run it is known that there is none.
        let skips = self.skips.iter().filter(|start| {
            is_long && !of_kind(Kind::Skipped).any(|outcome| outcome.reason.starts_with(*start))
        });
        failures.chain(skips).cloned().collect()
    }
}

/// Whether a line names the test: all numbers of a method without one.
fn is_meant(named: &str, test: &str) -> bool {
    let test = simple_name(test);
    let method = test.split('[').next().unwrap_or(test);
    named == test || named == method
}

/// The lines of a file of `interop/` that are no comments.
fn lines(run: &Run, name: &str) -> Result<Vec<String>> {
    let path = run.source(name);
    let text = fs::read_to_string(&path).with_context(|| format!("no {}", path.display()))?;
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(lines.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::super::judgement::judge;
    use super::*;

    fn outcome(kind: Kind, test: &str, reason: &str) -> Outcome {
        Outcome {
            kind,
            test: test.to_owned(),
            took_ms: 0,
            display: String::new(),
            reason: reason.to_owned(),
        }
    }

    fn lists(failures: &[&str]) -> Lists {
        let failures = failures.iter().map(|line| Failure::parse(line));
        Lists {
            failures: failures
                .collect::<Result<_>>()
                .expect("the lines are right"),
            skips: vec!["looks inside".to_owned()],
        }
    }

    fn class(name: &str) -> Class {
        Class {
            name: name.to_owned(),
            passed_min: 0,
            is_long: false,
            method: None,
        }
    }

    #[test]
    fn a_line_is_about_one_test_or_all_numbers_of_a_method() {
        let lists = lists(&["ATest#one[2]  two", "ATest#all  (slow) all"]);
        assert_eq!(lists.failure("a.b.ATest#one[2]"), Some("two"));
        assert_eq!(lists.failure("a.b.ATest#one[1]"), None);
        assert_eq!(lists.failure("a.b.ATest#all[7]"), Some("all"));
        assert_eq!(lists.failure("a.b.ATest#allMore"), None);
        assert_eq!(lists.slow(), ["ATest#all"]);
        assert_eq!(lists.skip("looks inside of it"), Some("looks inside"));
        assert_eq!(lists.skip("it looks inside"), None);
    }

    #[test]
    fn a_class_passes_with_what_fails_sometimes() {
        let lists = lists(&["ATest#one  (sometimes) why", "ATest#two  why"]);
        let failed = |test| outcome(Kind::Failed, test, "it fails");
        let passed = outcome(Kind::Passed, "a.ATest#three", "");
        let is_right = |outcomes: &[Outcome]| {
            let class = Class {
                passed_min: 2,
                ..class("a.ATest")
            };
            judge(&class, outcomes, &lists, false).is_ok()
        };
        assert!(is_right(&[passed.clone(), failed("a.ATest#one[1]")]));
        assert!(!is_right(&[passed.clone(), failed("a.ATest#two")]));
        assert!(!is_right(&[passed]));
    }

    #[test]
    fn a_line_needs_a_reason() {
        for line in ["ATest#one", "ATest#one  (slow)", "ATest#one (sometimes) "] {
            assert!(Failure::parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn a_line_that_nothing_is_about_is_unused() {
        let lists = lists(&[
            "ATest#one  why",
            "ATest#two  (slow) why",
            "ATest#three  (sometimes) why",
            "BTest#one  why",
        ]);
        let ran = [class("a.ATest")];
        let passed = [outcome(Kind::Passed, "a.ATest#one", "")];
        assert_eq!(lists.unused(&passed, &ran, false), ["ATest#one"]);
        let long = ["ATest#one", "ATest#two", "looks inside"];
        assert_eq!(lists.unused(&passed, &ran, true), long);
        let all = [
            outcome(Kind::Failed, "a.ATest#one[3]", "it fails"),
            outcome(Kind::Failed, "a.ATest#two", "it fails"),
            outcome(Kind::Skipped, "a.ATest#two", "looks inside of it"),
        ];
        assert_eq!(lists.unused(&all, &ran, true), [] as [&str; 0]);
        assert_eq!(lists.unused(&[], &[], false), [] as [&str; 0]);
    }
}
