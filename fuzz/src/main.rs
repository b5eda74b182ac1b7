//! One program for every parser of bytes from the network or the disk.
//!
//! ```text
//!   RIVERRUN_FUZZ_TARGET=records  riverrun-fuzz < bytes   one input, as a crash is repeated
//!   cargo xtask fuzz                                      all of them under AFL
//!   riverrun-fuzz --list                                  their names
//!   riverrun-fuzz --seeds TARGET DIRECTORY                what a search begins with
//! ```

mod seeds;

use std::path::Path;
use std::process::ExitCode;

use riverrun_streams::formats;

type Target = (&'static str, fn(&[u8]));

const TARGETS: &[Target] = &[
    ("batches", record::fuzz_batches),
    ("checkpoint", storage::checkpoint::fuzz_checkpoint),
    ("control-record", record::fuzz_control_record),
    ("fetch-answers", replication::fuzz_fetch_answers),
    ("group-records", coordinator::group::fuzz_replay),
    ("group-texts", coordinator::group::fuzz_texts),
    ("indexes", storage::fuzz_indexes),
    ("leader-epochs", storage::leader_epochs::fuzz_leader_epochs),
    ("lz4", record::fuzz_lz4),
    (
        "meta-properties",
        storage::meta_properties::fuzz_meta_properties,
    ),
    ("metadata-record", metadata::fuzz_metadata_record),
    (
        "partition-metadata",
        storage::partition_metadata::fuzz_partition_metadata,
    ),
    ("produce", record::fuzz_validate_produce),
    ("producer-snapshot", storage::fuzz_producer_snapshot),
    ("quorum-record", metadata::fuzz_quorum_record),
    ("quorum-state", metadata::fuzz_quorum_state),
    ("records", record::fuzz_records),
    ("request-frame", wire::fuzz::fuzz_request_frame),
    ("response-frame", wire::fuzz::fuzz_response_frame),
    ("segment", storage::fuzz_segment_recovery),
    ("settled-logs", storage::settled_logs::fuzz_settled_logs),
    ("snapshot", metadata::fuzz_snapshot),
    ("snappy", record::fuzz_snappy),
    ("stream-buffer", formats::fuzz_buffer),
    ("stream-checkpoint", formats::fuzz_store_checkpoint),
    ("stream-commit-metadata", formats::fuzz_commit_metadata),
    ("stream-group-user-data", formats::fuzz_group_user_data),
    ("stream-keys", formats::fuzz_keys),
    ("stream-list", formats::fuzz_list),
    ("stream-position", formats::fuzz_position),
    ("stream-subscription", formats::fuzz_subscription),
    ("stream-table-change", formats::fuzz_table_change),
    ("stream-value", formats::fuzz_stored_value),
    ("stream-versioned-row", formats::fuzz_versioned_row),
    ("transaction-records", coordinator::transaction::fuzz_replay),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &*arguments.iter().map(String::as_str).collect::<Vec<_>>() {
        ["--list"] => TARGETS.iter().for_each(|(name, _)| println!("{name}")),
        ["--seeds", target, directory] => write_seeds(target, Path::new(directory)),
        _ => {
            let wanted = std::env::var("RIVERRUN_FUZZ_TARGET").unwrap_or_default();
            let Some((_, target)) = TARGETS.iter().find(|(name, _)| *name == wanted) else {
                eprintln!("RIVERRUN_FUZZ_TARGET names no target: {wanted:?}; --list shows them");
                return ExitCode::FAILURE;
            };
            afl::fuzz(true, |bytes| target(bytes));
        }
    }
    ExitCode::SUCCESS
}

fn write_seeds(target: &str, directory: &Path) {
    std::fs::create_dir_all(directory).expect("the directory can be made");
    for (number, seed) in seeds::seeds(target).into_iter().enumerate() {
        std::fs::write(directory.join(number.to_string()), seed).expect("the seed can be written");
    }
}
