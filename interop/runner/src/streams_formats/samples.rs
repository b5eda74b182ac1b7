//! Every format, with random samples of it.

mod buffers;
mod groups;
mod joins;
mod keys;
mod values;

use super::sample::{Format, Sample};
use anyhow::Result;
use interpreter::Random;

/// Every format; the first is that of stored values with timestamp and headers.
pub(super) const FORMATS: &[Format] = &[
    both("value-timestamp-headers", values::value, values::read_value),
    both(
        "aggregation-with-headers",
        values::aggregation,
        values::read_aggregation,
    ),
    both("versioned-row", values::row, values::read_row),
    both("window-key", keys::window, keys::read_window),
    both(
        "window-key-time-first",
        keys::time_first_window,
        keys::read_time_first_window,
    ),
    both(
        "window-key-key-first",
        keys::key_first_window,
        keys::read_key_first_window,
    ),
    both(
        "window-key-topic",
        keys::window_of_topic,
        keys::read_window_of_topic,
    ),
    both("session-key", keys::session, keys::read_session),
    both("session-key-topic", keys::session, keys::read_session),
    both(
        "session-key-time-first",
        keys::time_first_session,
        keys::read_time_first_session,
    ),
    both(
        "session-key-key-first",
        keys::key_first_session,
        keys::read_key_first_session,
    ),
    both(
        "combined-key",
        joins::combined_key,
        joins::read_combined_key,
    ),
    both(
        "outer-join-key",
        joins::outer_join_key,
        joins::read_outer_join_key,
    ),
    both(
        "left-or-right-value",
        joins::left_or_right,
        joins::read_left_or_right,
    ),
    both(
        "table-change",
        joins::table_change,
        joins::read_table_change,
    ),
    both(
        "subscription",
        joins::subscription,
        joins::read_subscription,
    ),
    both(
        "subscription-response",
        joins::response,
        joins::read_response,
    ),
    only_read("murmur3", joins::murmur3, joins::read_murmur3),
    both("list", buffers::list, buffers::read_list),
    both(
        "list-of-one-size",
        buffers::integers,
        buffers::read_integers,
    ),
    both(
        "buffer-value",
        buffers::buffer_value,
        buffers::read_buffer_value,
    ),
    only_read(
        "buffer-changelog-0",
        buffers::version_0,
        buffers::read_version_0,
    ),
    only_read(
        "buffer-changelog-1",
        buffers::version_1,
        buffers::read_version_1,
    ),
    only_read(
        "buffer-changelog-2",
        buffers::version_2,
        buffers::read_version_2,
    ),
    only_read(
        "buffer-changelog-3",
        buffers::version_3,
        buffers::read_version_3,
    ),
    in_any_order("position", buffers::position, buffers::read_position),
    in_any_order("checkpoint", buffers::checkpoint, buffers::read_checkpoint),
    both(
        "commit-metadata",
        buffers::commit_metadata,
        buffers::read_commit_metadata,
    ),
    in_any_order(
        "member-subscription",
        groups::subscription,
        groups::read_subscription,
    ),
    in_any_order(
        "member-assignment",
        groups::assignment,
        groups::read_assignment,
    ),
];

type MakeSample = fn(&mut Random) -> Sample;
type Read = fn(&[u8]) -> Result<String>;

const fn both(name: &'static str, sample: MakeSample, read: Read) -> Format {
    Format {
        name,
        sample,
        read,
        is_written_by_kafka: true,
        has_order: true,
    }
}

const fn only_read(name: &'static str, sample: MakeSample, read: Read) -> Format {
    Format {
        is_written_by_kafka: false,
        ..both(name, sample, read)
    }
}

const fn in_any_order(name: &'static str, sample: MakeSample, read: Read) -> Format {
    Format {
        has_order: false,
        ..both(name, sample, read)
    }
}
