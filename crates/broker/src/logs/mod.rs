//! Log directories, and the partitions that are in them: from the files of a start to those of a stop.

pub(crate) mod checkpoints;
pub(crate) mod cleaner;
pub(crate) mod cordoning;
pub(crate) mod creations;
pub(crate) mod destinations;
pub(crate) mod directory_work;
pub(crate) mod failed_logs;
pub(crate) mod file_shortage;
pub(crate) mod flushes;
pub(crate) mod hosting;
pub(crate) mod idle_logs;
pub(crate) mod leaving;
pub(crate) mod log_directories;
pub(crate) mod maintenance;
pub(crate) mod moves;
pub(crate) mod owners;
pub(crate) mod partitions;
pub(crate) mod removals;
pub(crate) mod scan;
pub(crate) mod untold_logs;
