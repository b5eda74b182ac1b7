//! The replicas of a topic as their files have them, read here and not by a server: every batch with a
//! checksum of its bytes.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use record::Batches;

use super::checker::{Batch, ReplicaLog};
use super::node::Node;
use super::operator::Partition;

/// The logs of a topic on all nodes that are replicas of it. Nothing may be written meanwhile.
pub(crate) fn read(
    nodes: &[Node],
    topic: &str,
    partitions: &[Partition],
) -> Result<Vec<ReplicaLog>> {
    let mut logs = Vec::new();
    for (partition, described) in (0..).zip(partitions) {
        for node in nodes {
            if !described.replicas.contains(&node.id) {
                continue;
            }
            let name = format!("{topic}-{partition}");
            let dirs = node.log_dirs().into_iter().map(|dir| dir.join(&name));
            let Some(dir) = dirs.into_iter().find(|dir| dir.is_dir()) else {
                continue;
            };
            let (batches, fault) = read_log(&dir)?;
            logs.push(ReplicaLog {
                node: node.id,
                partition,
                is_in_sync: described.isr.contains(&node.id),
                batches,
                fault,
            });
        }
    }
    Ok(logs)
}

/// The batches of a log's segments, and what cannot be read.
fn read_log(dir: &Path) -> Result<(Vec<Batch>, Option<String>)> {
    let entries = fs::read_dir(dir).with_context(|| format!("no {}", dir.display()))?;
    let mut segments: Vec<PathBuf> = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "log") {
            segments.push(path);
        }
    }
    // A segment's name is its first offset, with leading zeros.
    segments.sort();
    let mut read = Vec::new();
    for segment in segments {
        let bytes = fs::read(&segment)?;
        let mut batches = Batches::new(&bytes);
        for batch in batches.by_ref() {
            let batch = match batch {
                Ok(batch) if batch.is_crc_valid() => batch,
                Ok(batch) => {
                    let fault = format!("the batch at {} is damaged", batch.base_offset());
                    return Ok((read, Some(fault)));
                }
                Err(error) => return Ok((read, Some(error.to_string()))),
            };
            read.push(Batch {
                base_offset: batch.base_offset().0,
                last_offset: batch.last_offset().0,
                checksum: checksum(batch.bytes()),
            });
        }
        if !batches.rest().is_empty() {
            let fault = format!("{} has half a batch at its end", segment.display());
            return Ok((read, Some(fault)));
        }
    }
    Ok((read, None))
}

/// FNV-1a: it tells other bytes, and nobody tries to fool it.
fn checksum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |sum, byte| {
        (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}
