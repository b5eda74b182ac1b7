//! A flame graph as SVG, from the samples of `perf script`.

use anyhow::Result;
use inferno::collapse::Collapse as _;
use inferno::collapse::perf::Folder;
use inferno::flamegraph::color::{BackgroundColor, MultiPalette, Palette};
use inferno::flamegraph::{Options, from_lines};

/// Stacks of functions, and how often each was seen.
#[derive(Clone, Debug)]
pub(crate) struct Stacks {
    /// `thread;caller;function count`, a line for each.
    folded: String,
}

impl Stacks {
    /// Reads what `perf script` writes of itself: a paragraph for each sample, its thread and event
    /// first, then a line for each function, the innermost first.
    ///
    /// # Errors
    /// If it is not what `perf script` writes.
    pub(crate) fn from_perf_script(text: &str) -> Result<Self> {
        let mut folded = Vec::new();
        Folder::default().collapse(text.as_bytes(), &mut folded)?;
        let folded = String::from_utf8(folded)?;
        Ok(Self { folded })
    }

    /// How many samples there are.
    pub(crate) fn samples(&self) -> u64 {
        let counts = self
            .folded
            .lines()
            .filter_map(|line| line.rsplit(' ').next());
        counts.filter_map(|count| count.parse::<u64>().ok()).sum()
    }

    /// The graph as a document of its own: what a function calls stands on it, and its width is its
    /// share of the samples.
    ///
    /// # Errors
    /// If there are no samples.
    pub(crate) fn svg(&self, title: &str, subtitle: &str) -> Result<String> {
        let mut options = Options::default();
        title.clone_into(&mut options.title);
        options.subtitle = Some(subtitle.to_owned());
        options.colors = Palette::Multi(MultiPalette::Rust);
        options.bgcolors = Some(BackgroundColor::Flat((255, 255, 255).into()));
        // The same samples are the same picture.
        options.deterministic = true;
        let mut svg = Vec::new();
        from_lines(&mut options, self.folded.lines(), &mut svg)?;
        Ok(String::from_utf8(svg)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: &str = "\
worker 10 100.000001: 1 cpu-clock: 
\t            ffff copy ([kernel.kallsyms])
\t            1000 a::read (/riverrun)
\t            2000 main (/riverrun)

worker 10 100.000002: 1 cpu-clock: 
\t            1004 a::read (/riverrun)
\t            2000 main (/riverrun)

worker 10 100.000003: 1 cpu-clock: 
\t            2000 main (/riverrun)

";

    #[test]
    fn samples_are_counted_along_their_stack() {
        let stacks = Stacks::from_perf_script(SCRIPT).unwrap();
        assert_eq!(stacks.samples(), 3);
        let lines: Vec<&str> = stacks.folded.lines().collect();
        assert_eq!(
            lines,
            [
                "worker;main 1",
                "worker;main;a::read 1",
                "worker;main;a::read;copy 1"
            ]
        );
    }

    #[test]
    fn a_function_has_its_share() {
        let stacks = Stacks::from_perf_script(SCRIPT).unwrap();
        let svg = stacks.svg("a < b", "c").unwrap();
        assert!(svg.contains("a::read (2 samples, 66.67%)"), "{svg}");
        assert!(svg.contains("a &lt; b"), "{svg}");
    }

    #[test]
    fn nothing_sampled_is_an_error() {
        let stacks = Stacks::from_perf_script("").unwrap();
        assert!(stacks.svg("a", "b").is_err());
    }
}
