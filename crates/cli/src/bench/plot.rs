//! A run as a picture: latency by percentile, throughput by second.

use super::report::Report;
use std::fmt::Write;

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 340.0;
/// Where the axes of a panel are.
const PANEL_WIDTH: f64 = 350.0;
const PANEL_HEIGHT: f64 = 200.0;
const TOP: f64 = 80.0;
/// Between an axis and the first point, for the point's number.
const INSET: f64 = 25.0;

/// Percentiles that the picture shows, evenly spaced by the digits of their distance from 100.
const QUANTILES: [(f64, &str); 6] = [
    (0.5, "p50"),
    (0.9, "p90"),
    (0.99, "p99"),
    (0.999, "p99.9"),
    (0.9999, "p99.99"),
    (1.0, "max"),
];

/// The picture.
pub(super) fn svg(report: &Report) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
         <text x=\"20\" y=\"28\" font-size=\"16\">riverrun bench {}: {} records, {:.0} records/s, {} MB/s</text>\n",
        report.name,
        report.record_count,
        report.records_per_second(),
        number(report.megabytes_per_second()),
    );
    let latencies: Vec<(f64, String)> = QUANTILES
        .iter()
        .map(|(quantile, label)| (report.latency_ms(*quantile), (*label).to_owned()))
        .collect();
    let title = format!("latency, ms ({})", report.latency_of);
    panel(&mut svg, 60.0, &title, &latencies);
    let seconds = report.bytes_by_second.iter().enumerate();
    let last = report.bytes_by_second.len().saturating_sub(1);
    let throughput: Vec<(f64, String)> = seconds
        .map(|(second, bytes)| {
            let label = match is_labelled(second, last) {
                true => second.to_string(),
                false => String::new(),
            };
            (*bytes as f64 / 1e6, label)
        })
        .collect();
    panel(&mut svg, 510.0, "throughput, MB/s by second", &throughput);
    svg.push_str("</svg>\n");
    svg
}

/// Whether a second has a label: about each tenth of the time, which is as many as there is room for,
/// and the last, if it stands apart from those.
const fn is_labelled(second: usize, last: usize) -> bool {
    let step = (last + 1).div_ceil(10);
    second == last || (second.is_multiple_of(step) && last - second >= step)
}

/// A line over labelled points, from zero to a round number above the highest.
fn panel(svg: &mut String, left: f64, title: &str, points: &[(f64, String)]) {
    let bottom = TOP + PANEL_HEIGHT;
    let highest = points.iter().map(|(value, _)| *value).fold(0.0, f64::max);
    let top_value = round_up(highest);
    let mut draw = |text: std::fmt::Arguments<'_>| {
        // A string takes whatever is written.
        let _ = svg.write_fmt(text);
    };
    draw(format_args!(
        "<text x=\"{left}\" y=\"{}\" font-weight=\"bold\">{title}</text>\n",
        TOP - 18.0
    ));
    for quarter in 0..=4 {
        let share = f64::from(quarter) / 4.0;
        let y = bottom - share * PANEL_HEIGHT;
        draw(format_args!(
            "<line x1=\"{left}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#555\">{}</text>\n",
            left + PANEL_WIDTH,
            left - 6.0,
            y + 4.0,
            axis_number(share * top_value, top_value / 4.0),
        ));
    }
    let step = (PANEL_WIDTH - 2.0 * INSET) / (points.len().max(2) - 1) as f64;
    let place = |at: usize, value: f64| {
        (
            left + INSET + at as f64 * step,
            bottom - value / top_value * PANEL_HEIGHT,
        )
    };
    let (mut line, mut marks) = (String::new(), String::new());
    for (at, (value, label)) in points.iter().enumerate() {
        let (x, y) = place(at, *value);
        let _ = write!(line, "{x:.1},{y:.1} ");
        draw(format_args!(
            "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#555\">{label}</text>\n",
            bottom + 18.0
        ));
        if points.len() <= QUANTILES.len() {
            let _ = write!(
                marks,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"#1f6feb\"/>\n\
                 <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" paint-order=\"stroke\" \
                 stroke=\"white\" stroke-width=\"4\">{}</text>\n",
                y - 8.0,
                number(*value),
            );
        }
    }
    draw(format_args!(
        "<polyline points=\"{}\" fill=\"none\" stroke=\"#1f6feb\" stroke-width=\"2\"/>\n",
        line.trim_end()
    ));
    // Numbers stand over the line, which would strike through them.
    draw(format_args!("{marks}"));
}

/// The next of 1, 2, 5, 10, 20, 50 ... that is not below.
fn round_up(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let scale = 10f64.powf(value.log10().floor());
    let digit = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|digit| digit * scale >= value * (1.0 - 1e-9));
    digit.unwrap_or(10.0) * scale
}

/// Three digits are as many as a picture shows.
fn number(value: f64) -> String {
    axis_number(value, value)
}

/// A number with three digits of `step`, so that what is that far apart reads differently.
fn axis_number(value: f64, step: f64) -> String {
    let digits = match step > 0.0 {
        true => (2.0 - step.log10().floor()).max(0.0) as usize,
        false => 0,
    };
    let text = format!("{value:.digits$}");
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers() {
        for (value, expected) in [
            (0.0, 1.0),
            (0.3, 0.5),
            (1.0, 1.0),
            (1.1, 2.0),
            (130.0, 200.0),
            (999.0, 1000.0),
        ] {
            assert!(
                (round_up(value) - expected).abs() < 1e-6,
                "{value}: {}",
                round_up(value)
            );
        }
    }

    #[test]
    fn labels_of_seconds_stand_apart() {
        for (last, expected) in [
            (0, vec![0]),
            (3, vec![0, 1, 2, 3]),
            (9, (0..10).collect()),
            (10, vec![0, 2, 4, 6, 8, 10]),
            (19, vec![0, 2, 4, 6, 8, 10, 12, 14, 16, 19]),
        ] {
            let labelled = (0..=last).filter(|second| is_labelled(*second, last));
            assert_eq!(labelled.collect::<Vec<usize>>(), expected);
        }
    }

    #[test]
    fn an_axis_tells_its_lines_apart() {
        for (top_value, expected) in [
            (0.002, ["0", "0.0005", "0.001", "0.0015", "0.002"]),
            (5.0, ["0", "1.25", "2.5", "3.75", "5"]),
            (200.0, ["0", "50", "100", "150", "200"]),
        ] {
            let values = (0..=4).map(|quarter| f64::from(quarter) * top_value / 4.0);
            let texts = values.map(|value| axis_number(value, top_value / 4.0));
            assert_eq!(texts.collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn numbers_are_short() {
        for (value, expected) in [
            (0.0, "0"),
            (0.1234, "0.123"),
            (1.5, "1.5"),
            (12.34, "12.3"),
            (1234.5, "1234"),
            (0.00214, "0.00214"),
        ] {
            assert_eq!(number(value), expected);
        }
    }
}
