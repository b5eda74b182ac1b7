//! A flame graph as SVG, from the samples of `perf script`.
//!
//! Each box is a function; what it calls stands on it, and its width is its share of the samples.
//! Boxes have their whole name and share as a tooltip.

use std::collections::BTreeMap;
use std::fmt::Write as _;

const WIDTH: f64 = 1200.0;
const ROW_HEIGHT: f64 = 16.0;
const TOP: f64 = 46.0;
/// Narrower boxes are left out.
const MIN_WIDTH: f64 = 0.6;
/// Width of a letter, about.
const LETTER_WIDTH: f64 = 6.2;

/// A function in the context of its callers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frame {
    samples: u64,
    callees: BTreeMap<String, Self>,
}

impl Frame {
    /// Reads what `perf script -F comm,ip,sym` writes: a paragraph for each sample, the thread's
    /// name first, then a line for each function, the innermost first.
    pub(crate) fn from_perf_script(text: &str) -> Self {
        let mut root = Self::default();
        for paragraph in text.split("\n\n") {
            let lines = paragraph.lines().filter(|line| line.starts_with('\t'));
            let names = lines.filter_map(|line| line.trim().split_once(' '));
            let mut stack: Vec<&str> = names.map(|(_, name)| function(name)).collect();
            stack.reverse();
            if !stack.is_empty() {
                root.add(&stack);
            }
        }
        root
    }

    /// How many samples there are.
    pub(crate) const fn samples(&self) -> u64 {
        self.samples
    }

    fn add(&mut self, stack: &[&str]) {
        self.samples += 1;
        if let Some((first, rest)) = stack.split_first() {
            // What nobody could name adds nothing to a picture.
            if *first == "[unknown]" {
                self.samples -= 1;
                return self.add(rest);
            }
            self.callees
                .entry((*first).to_owned())
                .or_default()
                .add(rest);
        }
    }

    /// Levels of boxes that are wide enough to be seen.
    fn depth(&self, width: f64) -> usize {
        let callees = self.callees.values();
        let depths = callees.filter_map(|callee| {
            let width = width * callee.samples as f64 / self.samples as f64;
            (width >= MIN_WIDTH).then(|| 1 + callee.depth(width))
        });
        depths.max().unwrap_or(0)
    }

    /// The graph as a document of its own.
    pub(crate) fn svg(&self, title: &str, subtitle: &str) -> String {
        let rows = self.depth(WIDTH) as f64;
        let height = TOP + rows * ROW_HEIGHT + 10.0;
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" \
             font-family=\"monospace\" font-size=\"10\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
             <text x=\"6\" y=\"18\" font-size=\"14\">{}</text>\n\
             <text x=\"6\" y=\"34\">{}</text>\n",
            escaped(title),
            escaped(subtitle)
        );
        let base = height - 6.0 - ROW_HEIGHT;
        self.draw(&mut out, 0.0, WIDTH, base, self.samples);
        out.push_str("</svg>\n");
        out
    }

    /// Draws the callees side by side from `x` on, in a row whose top is `y`.
    fn draw(&self, out: &mut String, mut x: f64, width: f64, y: f64, all: u64) {
        for (name, callee) in &self.callees {
            let callee_width = width * callee.samples as f64 / self.samples as f64;
            if callee_width >= MIN_WIDTH {
                let share = callee.samples as f64 * 100.0 / all as f64;
                let letters = ((callee_width - 4.0) / LETTER_WIDTH).max(0.0) as usize;
                let label: String = match name.chars().count() {
                    count if count <= letters => name.clone(),
                    _ if letters < 4 => String::new(),
                    _ => name.chars().take(letters - 1).chain(['…']).collect(),
                };
                let _ = writeln!(
                    out,
                    "<g><title>{name} {share:.1} %</title><rect x=\"{x:.1}\" y=\"{y:.1}\" \
                     width=\"{callee_width:.1}\" height=\"{:.1}\" fill=\"{}\" stroke=\"#ffffff\" \
                     stroke-width=\"0.5\"/><text x=\"{:.1}\" y=\"{:.1}\">{}</text></g>",
                    ROW_HEIGHT - 1.0,
                    color(name),
                    x + 3.0,
                    y + 11.0,
                    escaped(&label),
                    name = escaped(name),
                );
                callee.draw(out, x, callee_width, y - ROW_HEIGHT, all);
            }
            x += callee_width;
        }
    }
}

/// The name without its address offset and the hash that the compiler adds.
fn function(name: &str) -> &str {
    let name = name.rsplit_once("+0x").map_or(name, |(name, _)| name);
    match name.rsplit_once("::h") {
        Some((path, hash)) if hash.len() == 16 => path,
        _ => name,
    }
}

/// Rust's functions are orange, those of the kernel and of C blue.
fn color(name: &str) -> &'static str {
    let is_rust = name.contains("::") || name.starts_with('<');
    if is_rust { "#ffc078" } else { "#a5d8ff" }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: &str = "worker \n\t  ffff copy\n\t  1000 a::read::h0123456789abcdef+0x12\n\
                          \t  2000 main\n\nworker \n\t  1004 a::read\n\t  2000 main\n\n\
                          worker \n\t  77 [unknown]\n\t  2000 main\n\n";

    #[test]
    fn samples_are_counted_along_their_stack() {
        let root = Frame::from_perf_script(SCRIPT);
        assert_eq!(root.samples(), 3);
        let main = &root.callees["main"];
        assert_eq!(main.samples, 3);
        assert_eq!(main.callees["a::read"].samples, 2);
        assert_eq!(main.callees["a::read"].callees["copy"].samples, 1);
        assert_eq!(main.callees.len(), 1);
    }

    #[test]
    fn the_widest_box_is_at_the_bottom() {
        let svg = Frame::from_perf_script(SCRIPT).svg("a < b", "c");
        assert!(svg.contains("<title>main 100.0 %</title>"), "{svg}");
        assert!(svg.contains("<title>a::read 66.7 %</title>"), "{svg}");
        assert!(svg.contains("a &lt; b"), "{svg}");
    }
}
