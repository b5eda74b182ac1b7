//! Whether a class of tests is as the lists say.

use anyhow::{Result, bail};

use super::lists::{Class, Lists};
use super::outcome::{Kind, Outcome};

/// Whether a class is as the lists say: what failed and what skipped itself is on them, and as many
/// tests passed as it has.
pub(super) fn judge(
    class: &Class,
    outcomes: &[Outcome],
    lists: &Lists,
    is_kafka: bool,
) -> Result<()> {
    let mut reasons = Vec::new();
    for outcome in outcomes {
        let is_listed = match outcome.kind {
            Kind::Failed => lists.failure(&outcome.test).is_some(),
            Kind::Skipped => is_kafka || lists.skip(&outcome.reason).is_some(),
            Kind::Passed => true,
        };
        if !is_listed {
            let verb = match outcome.kind {
                Kind::Skipped => "skips itself",
                _ => "failed",
            };
            let (test, display) = (&outcome.test, &outcome.display);
            let reason = outcome.reason.replace('\n', "\n    ");
            reasons.push(format!("{test} ({display}) {verb}:\n    {reason}"));
        }
    }
    let passed = outcomes
        .iter()
        .filter(|one| match one.kind {
            Kind::Passed => true,
            Kind::Failed => lists.also_passes(&one.test),
            Kind::Skipped => false,
        })
        .count();
    if reasons.is_empty() && !is_kafka && class.method.is_none() && passed < class.passed_min {
        reasons.push(format!(
            "{passed} tests passed or may fail, of the {} that classes.txt knows",
            class.passed_min
        ));
    }
    if !reasons.is_empty() {
        bail!("{}", reasons.join("\n"));
    }
    Ok(())
}
