//! Which neighbouring segments become one: as many as fit `segment.bytes`, their indexes
//! `segment.index.bytes`, and their offsets 31 bits.

use super::Source;
use crate::config::LogConfig;

/// How many of `sources`, which are not empty, become one with the first.
pub(super) fn group_end(sources: &[Source], config: &LogConfig) -> usize {
    let index_bytes_max = u64::from(config.segment_index_bytes);
    let (mut size_bytes, mut offset_index_bytes, mut time_index_bytes) = (0u64, 0u64, 0u64);
    for (at, source) in sources.iter().enumerate() {
        size_bytes += u64::from(source.size_bytes);
        offset_index_bytes += source.offset_index_bytes;
        time_index_bytes += source.time_index_bytes;
        let fits = size_bytes <= u64::from(config.segment_bytes)
            && offset_index_bytes <= index_bytes_max
            && time_index_bytes <= index_bytes_max
            && source.end_offset - 1 - sources[0].base_offset <= i64::from(i32::MAX);
        if at > 0 && !fits {
            return at;
        }
    }
    sources.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Offset;

    /// Segments by base offset, size and bytes of each index; the last one ends at `end_offset`.
    fn check(segments: &[(i64, u32, u64)], end_offset: Offset, expected: &[usize]) {
        let config = LogConfig {
            segment_bytes: 100,
            segment_index_bytes: 100,
            ..LogConfig::default()
        };
        let ends = segments
            .iter()
            .skip(1)
            .map(|one| Offset(one.0))
            .chain([end_offset]);
        let sources: Vec<Source> = segments
            .iter()
            .zip(ends)
            .map(
                |((base_offset, size_bytes, index_bytes), end_offset)| Source {
                    base_offset: Offset(*base_offset),
                    end_offset,
                    size_bytes: *size_bytes,
                    modified_ms: 0,
                    offset_index_bytes: *index_bytes,
                    time_index_bytes: *index_bytes,
                },
            )
            .collect();
        let mut rest = &sources[..];
        let mut found = Vec::new();
        while !rest.is_empty() {
            let end = group_end(rest, &config);
            found.push(end);
            rest = &rest[end..];
        }
        assert_eq!(found, expected);
    }

    #[test]
    fn groups_fit_a_segment() {
        check(&[(0, 50, 0), (5, 50, 0), (9, 1, 0)], Offset(10), &[2, 1]);
        check(&[(0, 150, 0), (5, 0, 0), (9, 1, 0)], Offset(10), &[1, 2]);
        check(&[(0, 1, 60), (5, 1, 60), (9, 1, 1)], Offset(10), &[1, 2]);
        let far = i64::from(i32::MAX);
        check(&[(0, 1, 0), (5, 1, 0), (9, 1, 0)], Offset(far + 1), &[3]);
        check(&[(0, 1, 0), (5, 1, 0), (9, 1, 0)], Offset(far + 2), &[2, 1]);
        check(&[(0, 1, 0), (far + 1, 1, 0)], Offset(far + 2), &[1, 1]);
    }
}
