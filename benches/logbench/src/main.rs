//! What logs cost: a segment, a partition, and a gigabyte of compaction.
//!
//! ```text
//!   logbench [directory]      prints a table in Markdown; the directory is for its files
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

use anyhow::Result;

/// A row of the table: what was measured, and the figure with its unit.
type Row = (String, String);

fn main() -> Result<()> {
    let root = match std::env::args().nth(1) {
        Some(directory) => PathBuf::from(directory),
        None => std::env::temp_dir(),
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
