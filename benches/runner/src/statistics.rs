//! Means and ratios with 95 % confidence intervals, from few rounds that ran in turn.
//!
//! A round gives each side one number. The interval is Student's over the rounds, so it holds what
//! differs from one process to the next and not only what differs within one.

/// A number and the interval that holds it with 95 % confidence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Estimate {
    pub(crate) mean: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Estimate {
    /// The mean of `rounds`; with a single round the interval is unbounded.
    pub(crate) fn of(rounds: &[f64]) -> Self {
        let count = rounds.len() as f64;
        let mean = rounds.iter().sum::<f64>() / count;
        if rounds.len() < 2 {
            return Self {
                mean,
                low: f64::NEG_INFINITY,
                high: f64::INFINITY,
            };
        }
        let squares = rounds.iter().map(|value| (value - mean).powi(2));
        let deviation = (squares.sum::<f64>() / (count - 1.0)).sqrt();
        let half_width = student_95(rounds.len() - 1) * deviation / count.sqrt();
        Self {
            mean,
            low: mean - half_width,
            high: mean + half_width,
        }
    }

    /// How many times `above` is `below`, round by round: the geometric mean. What slows both sides
    /// of a round down cancels out.
    pub(crate) fn of_ratio(above: &[f64], below: &[f64]) -> Self {
        let pairs = above.iter().zip(below);
        let logarithms: Vec<f64> = pairs.map(|(a, b)| (a / b).ln()).collect();
        let logarithm = Self::of(&logarithms);
        Self {
            mean: logarithm.mean.exp(),
            low: logarithm.low.exp(),
            high: logarithm.high.exp(),
        }
    }

    /// The estimate as JSON; an unbounded end is null.
    pub(crate) fn json(self) -> serde_json::Value {
        serde_json::json!({ "mean": self.mean, "low": self.low, "high": self.high })
    }
}

/// The factor of a 95 % interval: Student's t for two sides.
fn student_95(degrees_of_freedom: usize) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.048, 2.045, 2.042,
    ];
    TABLE.get(degrees_of_freedom - 1).copied().unwrap_or(1.960)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(estimate: Estimate, mean: f64, low: f64, high: f64) {
        let near = |a: f64, b: f64| (a - b).abs() < 1e-3 || a == b;
        let Estimate {
            mean: m,
            low: l,
            high: h,
        } = estimate;
        assert!(
            near(m, mean) && near(l, low) && near(h, high),
            "{estimate:?}"
        );
    }

    #[test]
    fn intervals_are_those_of_student() {
        check(Estimate::of(&[2.0, 2.0, 2.0]), 2.0, 2.0, 2.0);
        check(Estimate::of(&[1.0, 2.0, 3.0]), 2.0, -0.484, 4.484);
        check(Estimate::of(&[5.0]), 5.0, f64::NEG_INFINITY, f64::INFINITY);
    }

    #[test]
    fn a_ratio_is_taken_within_each_round() {
        // The second round is three times as slow for both.
        let ratio = Estimate::of_ratio(&[10.0, 30.0], &[2.0, 6.0]);
        check(ratio, 5.0, 5.0, 5.0);
    }
}
