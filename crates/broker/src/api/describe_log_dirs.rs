//! DescribeLogDirs: v1–5. Log directories with the partitions in them and their sizes.
//!
//! - Version 3 has an error of the whole request, version 4 the size of the file system (KIP-827),
//!   version 5 says which directories are cordoned (KIP-1066).
//! - Null topics ask for all; a directory without a partition that was asked for is named all the
//!   same.
//! - While there has been no file descriptor left for a minute, every directory has the error of one
//!   that is offline.

use super::{Request, Served};
use crate::api::broker::Broker;
use crate::logs::log_directories::LogDirectory;
use crate::logs::partitions::HostedTopic;
use crate::net::ResponseBuffer;
use crate::scheduling::disk_watch::DiskUse;
use model::{DecodeError, ErrorCode};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;
use wire::messages::describe_log_dirs_response::{
    DescribeLogDirsPartition, DescribeLogDirsResult, DescribeLogDirsTopic,
};
use wire::messages::{DescribeLogDirsRequest, DescribeLogDirsResponse};

pub(crate) async fn serve(
    broker: &Broker,
    request: &Request<'_>,
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let message: DescribeLogDirsRequest<'_> = request.decode()?;
    let asked: Option<BTreeMap<&str, BTreeSet<i32>>> = message.topics.as_ref().map(|topics| {
        let mut asked: BTreeMap<&str, BTreeSet<i32>> = BTreeMap::new();
        for topic in topics.iter() {
            asked
                .entry(topic.topic)
                .or_default()
                .extend(topic.partitions.iter());
        }
        asked
    });
    // Batches are refused in all of them.
    let is_out_of_files = broker.logs.file_shortage.is_lasting(Instant::now());
    let hosted = broker.logs.partitions.all_topics();
    let wanted = |topic: &str, index| match &asked {
        None => true,
        Some(asked) => asked
            .get(topic)
            .is_some_and(|indexes| indexes.contains(&index)),
    };
    let mut results = Vec::with_capacity(broker.logs.directories.len());
    for (directory_index, directory) in broker.logs.directories.iter().enumerate() {
        if directory.is_offline() || is_out_of_files {
            results.push(DescribeLogDirsResult {
                error_code: ErrorCode::KafkaStorageError.code(),
                log_dir: directory.name(),
                ..Default::default()
            });
            continue;
        }
        let disk = broker.logs.disks.turn(directory_index, DiskUse::Read).await;
        results.push(disk.run(|| describe(broker, directory, &hosted, wanted)));
    }
    let response = DescribeLogDirsResponse {
        results: results.into(),
        ..Default::default()
    };
    request.answer(&response, out);
    Ok(Served::Answered)
}

fn describe<'a>(
    broker: &Broker,
    directory: &'a LogDirectory,
    hosted: &'a [Arc<HostedTopic>],
    wanted: impl Fn(&str, i32) -> bool + Copy,
) -> DescribeLogDirsResult<'a> {
    let Some((total_bytes, usable_bytes)) = directory.space() else {
        return DescribeLogDirsResult {
            error_code: ErrorCode::UnknownServerError.code(),
            log_dir: directory.name(),
            ..Default::default()
        };
    };
    let topics = hosted.iter().filter_map(|topic| {
        let partitions = partitions_in(broker, topic, directory.name(), wanted);
        (!partitions.is_empty()).then(|| DescribeLogDirsTopic {
            name: &topic.name,
            partitions: partitions.into(),
        })
    });
    DescribeLogDirsResult {
        error_code: ErrorCode::None.code(),
        log_dir: directory.name(),
        topics: topics.collect(),
        total_bytes,
        usable_bytes,
        is_cordoned: broker.logs.is_cordoned(directory),
    }
}

fn partitions_in(
    broker: &Broker,
    topic: &Arc<HostedTopic>,
    directory: &str,
    wanted: impl Fn(&str, i32) -> bool,
) -> Vec<DescribeLogDirsPartition> {
    topic
        .partitions()
        .iter()
        .filter(|one| wanted(&topic.name, one.index()))
        .flat_map(|one| {
            let current = (*one.log_directory() == *directory).then(|| DescribeLogDirsPartition {
                partition_index: one.index(),
                partition_size: one.size_bytes() as i64,
                offset_lag: 0,
                is_future_key: false,
            });
            let copy = broker.logs.future_replicas.copy_of(one);
            let copy = copy.filter(|copy| copy.directory == directory);
            let future = copy.map(|copy| DescribeLogDirsPartition {
                partition_index: one.index(),
                partition_size: copy.size_bytes as i64,
                offset_lag: (one.offsets().log_end_offset - copy.end_offset).max(0),
                is_future_key: true,
            });
            current.into_iter().chain(future)
        })
        .collect()
}
