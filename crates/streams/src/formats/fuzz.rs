//! What a fuzzer runs: any bytes for each format, and what is taken comes back from its own bytes.

use super::FormatError;
use super::combined_key::CombinedKey;
use super::outer_join_key::OuterJoinKey;
use super::session_key::SessionKey;
use super::versioned_row::VersionedRow;
use super::window_key::WindowKey;
use std::fmt::Debug;

pub use super::buffer_value::fuzz_buffer;
pub use super::change::fuzz_table_change;
pub use super::checkpoint_file::fuzz_store_checkpoint;
pub use super::commit_metadata::fuzz_commit_metadata;
pub use super::group::fuzz_group_user_data;
pub use super::list::fuzz_list;
pub use super::position::fuzz_position;
pub use super::stored_value::fuzz_stored_value;
pub use super::subscription::fuzz_subscription;

/// Takes any bytes for each form of a key.
pub fn fuzz_keys(bytes: &[u8]) {
    same(bytes, WindowKey::read(bytes), |key| key.to_store_key());
    same(bytes, WindowKey::read_topic(bytes), |key| {
        key.to_topic_key()
    });
    same(bytes, WindowKey::read_time_first(bytes), |key| {
        key.to_time_first_key()
    });
    same(bytes, WindowKey::read_key_first(bytes), |key| {
        key.to_key_first_key()
    });
    same(bytes, SessionKey::read(bytes), |key| key.to_store_key());
    same(bytes, SessionKey::read_time_first(bytes), |key| {
        key.to_time_first_key()
    });
    same(bytes, SessionKey::read_key_first(bytes), |key| {
        key.to_key_first_key()
    });
    same(bytes, CombinedKey::read(bytes), CombinedKey::to_bytes);
    same(bytes, OuterJoinKey::read(bytes), OuterJoinKey::to_bytes);
}

/// Takes any bytes for the row of a versioned store.
pub fn fuzz_versioned_row(bytes: &[u8]) {
    same(bytes, VersionedRow::read(bytes), VersionedRow::to_bytes);
    if let Ok(row) = VersionedRow::read(bytes) {
        for version in row.versions() {
            let found = row.find(version.valid_from_ms);
            assert!(found == Some(version) || row.is_degenerate());
        }
    }
}

/// What is read from bytes is written as the same bytes.
fn same<T: Debug>(bytes: &[u8], read: Result<T, FormatError>, write: impl FnOnce(&T) -> Vec<u8>) {
    if let Ok(value) = read {
        assert_eq!(write(&value), bytes, "{value:?}");
    }
}

/// The bytes of hexadecimal digits and blanks.
#[cfg(test)]
pub(super) fn hex(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    data_encoding::HEXLOWER
        .decode(digits.as_bytes())
        .expect("the test has digits in pairs")
}
