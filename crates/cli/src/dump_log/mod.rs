//! `riverrun dump-log`: shows the files of a log directory, of Kafka's or riverrun's, and checks
//! them. Field names are those of Apache Kafka's own dump tool.
//!
//! ```text
//!   .log, .checkpoint  -> batches  -> records -> payload (offsets, groups, transactions, metadata)
//!   .index, .timeindex -> entries, held against the segment beside them
//!   .snapshot, .txnindex -> producers, aborted transactions
//! ```

mod entries;
mod payload;
mod segment;

use crate::output::{Output, OutputFormat};
use clap::{Args, ValueEnum};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use storage::inspect::{LogFile, LogFileKind};

/// The arguments of `dump-log`.
#[derive(Debug, Args)]
pub(crate) struct DumpLogArguments {
    /// Files, directories of partitions, or log directories with partitions in them
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Show the records of each batch
    #[arg(long, visible_aliases = ["print-data-log", "deep-iteration"])]
    records: bool,
    /// How to decode keys and values; by default as the name of the directory says
    #[arg(long, value_enum, value_name = "KIND")]
    decode: Option<Payload>,
    /// Print errors only
    #[arg(long)]
    verify: bool,
    /// Output format
    #[arg(long, value_enum, default_value = "text", value_name = "FORMAT")]
    output: OutputFormat,
}

/// What the keys and values of records are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Payload {
    /// Bytes of an application, shown as text
    Bytes,
    /// `__consumer_offsets`
    Offsets,
    /// `__transaction_state`
    Transactions,
    /// `__cluster_metadata`
    Metadata,
}

impl Payload {
    /// What the partition in this directory holds.
    fn of_directory(directory: Option<&Path>) -> Self {
        let name = directory.and_then(Path::file_name).unwrap_or_default();
        let name = name.to_string_lossy();
        match name.rsplit_once('-').map(|(topic, _)| topic) {
            Some("__consumer_offsets") => Self::Offsets,
            Some("__transaction_state") => Self::Transactions,
            Some("__cluster_metadata") => Self::Metadata,
            _ => Self::Bytes,
        }
    }
}

/// What is shown of a file.
#[derive(Debug, Clone, Copy)]
struct Shown {
    records: bool,
    payload: Payload,
    /// Whether sound batches and entries are shown at all.
    is_quiet: bool,
}

/// Runs the command; fails when a file cannot be read or is damaged.
pub(crate) fn run(arguments: &DumpLogArguments) -> ExitCode {
    let mut output = Output::stdout(arguments.output);
    let dumped = dump(arguments, &mut output);
    match dumped.and_then(|faults| output.flush().map(|()| faults)) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        // Whoever reads has seen enough: `riverrun dump-log ... | head`.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => crate::fail(&error.to_string()),
    }
}

/// Dumps all files; the number of faults that were found.
fn dump<W: Write>(arguments: &DumpLogArguments, output: &mut Output<W>) -> io::Result<usize> {
    let (mut fault_count, mut file_count) = (0, 0);
    for path in &arguments.paths {
        for file in files_of(path).map_err(|error| named(path, &error))? {
            let parent = file.canonicalize().ok();
            let directory = parent.as_deref().and_then(Path::parent);
            let shown = Shown {
                records: arguments.records,
                payload: arguments
                    .decode
                    .unwrap_or_else(|| Payload::of_directory(directory)),
                is_quiet: arguments.verify,
            };
            fault_count += dump_file(&file, shown, output)?;
            file_count += 1;
        }
    }
    if arguments.verify {
        crate::tell(&format!("{file_count} files checked, {fault_count} faults"));
    }
    Ok(fault_count)
}

/// The file itself, or the files of logs in a directory and in the directories of partitions in
/// it, by name.
fn files_of(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !fs::metadata(path)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = files_in(path)?;
    for directory in sorted_entries(path)? {
        if directory.is_dir() {
            let of_partition = files_in(&directory).map_err(|error| named(&directory, &error))?;
            files.extend(of_partition);
        }
    }
    // What is damaged may be what is missing: to check nothing is no success.
    if !files.iter().any(|file| is_segment_or_snapshot(file)) {
        return Err(io::Error::other(
            "no log is in it, nor in a directory in it; name the directory of a partition, or one \
             of `log.dirs`",
        ));
    }
    Ok(files)
}

fn files_in(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = sorted_entries(directory)?;
    files.retain(|file| kind_of(file).is_some() && !file.is_dir());
    Ok(files)
}

fn sorted_entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.path()));
    let mut paths = entries.collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

/// Whether the file holds records: beside a log there are files that tell about it.
fn is_segment_or_snapshot(path: &Path) -> bool {
    match kind_of(path) {
        Some(Kind::Log(file)) => file.kind == LogFileKind::Log,
        Some(Kind::Checkpoint) => !path.ends_with("bootstrap.checkpoint"),
        None => false,
    }
}

/// A file by what its name tells.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Log(LogFile),
    /// A snapshot of the metadata.
    Checkpoint,
}

fn kind_of(path: &Path) -> Option<Kind> {
    let name = path.file_name()?.to_str()?;
    if let Some(file) = LogFile::named(name) {
        return Some(Kind::Log(file));
    }
    let offset_and_epoch = name.strip_suffix(".checkpoint")?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_snapshot = offset_and_epoch
        .split_once('-')
        .is_some_and(|(offset, epoch)| digits(offset) && digits(epoch));
    (is_snapshot || offset_and_epoch == "bootstrap").then_some(Kind::Checkpoint)
}

/// Dumps one file; the number of faults that were found.
fn dump_file<W: Write>(path: &Path, shown: Shown, output: &mut Output<W>) -> io::Result<usize> {
    let Some(kind) = kind_of(path) else {
        return Err(named(
            path,
            &io::Error::other(
                "not the name of a log file; expected 20 digits, then .log, .index, .timeindex, \
                 .txnindex or .snapshot; or OFFSET-EPOCH.checkpoint",
            ),
        ));
    };
    if !shown.is_quiet {
        output.heading(&format!("Dumping {}", path.display()))?;
    }
    let faults = match kind {
        Kind::Log(file) if file.kind == LogFileKind::Log => segment::dump(path, shown, output),
        Kind::Log(file) => entries::dump(path, file, shown, output),
        Kind::Checkpoint => {
            let payload = Payload::Metadata;
            segment::dump(path, Shown { payload, ..shown }, output)
        }
    };
    faults.map_err(|error| named(path, &error))
}

/// The error with the path that it is about. What went wrong with the output stays as it is.
fn named(path: &Path, error: &io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return io::ErrorKind::BrokenPipe.into();
    }
    io::Error::new(error.kind(), format!("`{}`: {error}", path.display()))
}
