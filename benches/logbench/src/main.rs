//! What logs cost: a segment, a partition, and a gigabyte of compaction.
//!
//! ```text
//!   logbench [directory]             prints a table in Markdown; the directory is for its files
//!   logbench write SHAPE DIRECTORY   leaves a log of a shape of compaction, not compacted
//! ```
//!
//! Memory is the growth of the resident set, processor time that of this process. Each part runs
//! once; the page cache holds what it has written.

#![allow(clippy::print_stdout, reason = "its output is what it is for")]

mod compaction;
mod machine;
mod partitions;
mod segments;

use std::path::PathBuf;

use anyhow::{Context as _, Result};

/// A row of the table: what was measured, and the figure with its unit.
type Row = (String, String);

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let root = match &arguments[..] {
        [word, name, directory] if word == "write" => {
            let mut shapes = compaction::SHAPES.iter();
            let shape = shapes.find(|shape| shape.name == name);
            return compaction::write(directory.as_ref(), *shape.context("no such shape")?);
        }
        [directory, ..] => PathBuf::from(directory),
        [] => std::env::temp_dir(),
    };
    let directory = tempfile::tempdir_in(root)?;
    let mut rows = segments::measure(&directory.path().join("segments"))?;
    rows.extend(partitions::measure(&directory.path().join("partitions"))?);
    for shape in compaction::SHAPES {
        let name = format!("compaction-{}", shape.name);
        rows.extend(compaction::measure(&directory.path().join(name), shape)?);
    }
    println!("| | |\n|--|--|");
    for (name, figure) in rows {
        println!("| {name} | {figure} |");
    }
    Ok(())
}
