//! Threads, lanes and clocks: who may take how long, and where.
//!
//! The ground floor: it knows no API, no log and no decision.

pub(crate) mod alarm;
pub(crate) mod apart;
pub(crate) mod clock;
pub(crate) mod disk_watch;
pub(crate) mod give_way;
pub(crate) mod heavy_work;
pub(crate) mod log_rate_limit;
pub(crate) mod metadata_disk;
pub(crate) mod off_workers;
pub(crate) mod reserve;
pub(crate) mod timed_receive;
pub(crate) mod turn;
