//! Dots as SVG: a group for each thing measured, on a logarithmic scale, each dot on its confidence
//! interval. A bar would be as long as the scale begins early, and its length would say nothing.

use std::fmt::Write as _;

use super::statistics::Estimate;

const WIDTH: f64 = 860.0;
const LABEL_WIDTH: f64 = 230.0;
const VALUE_WIDTH: f64 = 160.0;
const ROW_HEIGHT: f64 = 13.0;
const DOT_RADIUS: f64 = 4.5;
const GROUP_GAP: f64 = 11.0;
const TOP: f64 = 74.0;
const COLORS: [&str; 4] = ["#9aa0a6", "#d9480f", "#1c7ed6", "#2b8a3e"];

/// A chart of dots.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    pub(crate) title: String,
    /// What the dots measure, with the unit.
    pub(crate) subtitle: String,
    /// The names of the dots within a group.
    pub(crate) series: Vec<String>,
    pub(crate) groups: Vec<Group>,
}

/// Dots that are compared.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) label: String,
    /// One dot for each series and the text beside it; positive numbers.
    pub(crate) dots: Vec<(Estimate, String)>,
}

impl Chart {
    /// The chart as a document of its own.
    pub(crate) fn svg(&self) -> String {
        let rows = self.groups.iter().map(|group| group.dots.len() as f64);
        let dots = rows.sum::<f64>() * ROW_HEIGHT;
        let height = TOP + dots + self.groups.len() as f64 * GROUP_GAP + 34.0;
        let mut out = String::new();
        let _ = write!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
        );
        text(&mut out, 12.0, 24.0, "start\" font-size=\"16", &self.title);
        let subtitle = format!("{}; logarithmic scale", self.subtitle);
        text(&mut out, 12.0, 42.0, "start", &subtitle);
        self.legend(&mut out);
        let scale = Scale::of(&self.groups);
        scale.grid(&mut out, height - 26.0);
        let mut y = TOP;
        for group in &self.groups {
            let middle = y + group.dots.len() as f64 * ROW_HEIGHT / 2.0 + 4.0;
            text(&mut out, LABEL_WIDTH - 8.0, middle, "end", &group.label);
            for (index, (estimate, label)) in group.dots.iter().enumerate() {
                scale.dot(&mut out, y, COLORS[index % COLORS.len()], *estimate, label);
                y += ROW_HEIGHT;
            }
            y += GROUP_GAP;
        }
        out.push_str("</svg>\n");
        out
    }

    fn legend(&self, out: &mut String) {
        // The last ones may have no dot, as where the floor has nothing to do.
        let drawn = self.groups.iter().map(|group| group.dots.len()).max();
        let drawn = self.series.iter().take(drawn.unwrap_or(0));
        for (index, name) in drawn.enumerate() {
            let x = LABEL_WIDTH + 170.0 * index as f64;
            let color = COLORS[index % COLORS.len()];
            let _ = writeln!(
                out,
                "<rect x=\"{x}\" y=\"50\" width=\"11\" height=\"11\" fill=\"{color}\"/>"
            );
            text(out, x + 16.0, 60.0, "start", name);
        }
    }
}

/// Powers of ten across the width.
struct Scale {
    first: f64,
    last: f64,
}

impl Scale {
    fn of(groups: &[Group]) -> Self {
        let values = || {
            groups
                .iter()
                .flat_map(|group| &group.dots)
                .map(|(e, _)| e.mean.log10())
        };
        let first = values().fold(f64::INFINITY, f64::min).floor();
        let last = values().fold(f64::NEG_INFINITY, f64::max).ceil();
        Self {
            first,
            last: last.max(first + 1.0),
        }
    }

    fn x(&self, value: f64) -> f64 {
        let share = (value.log10() - self.first) / (self.last - self.first);
        LABEL_WIDTH + share.clamp(0.0, 1.0) * (WIDTH - LABEL_WIDTH - VALUE_WIDTH)
    }

    fn grid(&self, out: &mut String, bottom: f64) {
        for power in self.first as i32..=self.last as i32 {
            let value = 10f64.powi(power);
            let x = self.x(value);
            let _ = writeln!(
                out,
                "<path d=\"M{x:.1} {TOP}V{bottom:.1}\" stroke=\"#dee2e6\"/>"
            );
            text(out, x, bottom + 16.0, "middle", &value.to_string());
        }
    }

    fn dot(&self, out: &mut String, y: f64, color: &str, estimate: Estimate, label: &str) {
        let (x, middle) = (self.x(estimate.mean), y + (ROW_HEIGHT - 2.0) / 2.0);
        let mut right = x + DOT_RADIUS;
        if estimate.high.is_finite() {
            let low = self.x(estimate.low.max(f64::MIN_POSITIVE));
            let high = self.x(estimate.high);
            let _ = writeln!(
                out,
                "<path d=\"M{low:.1} {middle:.1}H{high:.1}\" stroke=\"{color}\" \
                 stroke-width=\"2\"/>"
            );
            right = right.max(high);
        }
        let _ = writeln!(
            out,
            "<circle cx=\"{x:.1}\" cy=\"{middle:.1}\" r=\"{DOT_RADIUS}\" fill=\"{color}\"/>"
        );
        text(out, right + 5.0, middle + 4.0, "start", label);
    }
}

fn text(out: &mut String, x: f64, y: f64, anchor: &str, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(
        out,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dot_is_where_its_value_is_on_the_scale() {
        let dot = |mean| {
            let estimate = Estimate {
                mean,
                low: mean,
                high: mean,
            };
            (estimate, format!("{mean} ns"))
        };
        let chart = Chart {
            title: "a < b".into(),
            subtitle: String::new(),
            series: vec!["one".into(), "two".into(), "three".into()],
            groups: vec![Group {
                label: "group".into(),
                dots: vec![dot(1.0), dot(10.0)],
            }],
        };
        let svg = chart.svg();
        let end = WIDTH - VALUE_WIDTH;
        assert!(svg.contains(&format!("cx=\"{LABEL_WIDTH:.1}\"")), "{svg}");
        assert!(svg.contains(&format!("cx=\"{end:.1}\"")), "{svg}");
        assert!(svg.contains("two") && !svg.contains("three"), "{svg}");
        assert!(svg.contains("logarithmic"), "{svg}");
        assert!(svg.contains("a &lt; b"), "{svg}");
    }
}
