//! Which partition of `__consumer_offsets` holds a group.

/// The partition of a topic of `partition_count` partitions whose leader coordinates `group_id`:
/// the absolute value of Java's `String.hashCode`, modulo the count; the
/// smallest number, which has none, counts as zero.
///
/// # Panics
/// When `partition_count` is not positive.
pub fn partition_for(group_id: &str, partition_count: i32) -> i32 {
    assert!(partition_count > 0, "a topic has partitions");
    let hash = group_id.encode_utf16().fold(0i32, |hash, unit| {
        hash.wrapping_mul(31).wrapping_add(i32::from(unit))
    });
    hash.checked_abs().unwrap_or(0) % partition_count
}

#[cfg(test)]
mod tests {
    use super::partition_for;

    #[test]
    fn hash_is_that_of_java_strings() {
        // "polygenelubricants" hashes to Java's Integer.MIN_VALUE.
        for (group_id, expected) in [
            ("", 0),
            ("a", 97),
            ("polygenelubricants", 0),
            ("console-consumer-12345", 158_455_506),
            ("é😀", 1_996_812),
            ("swap-living-classic", 1_633_318_680),
        ] {
            assert_eq!(partition_for(group_id, i32::MAX), expected, "{group_id}");
        }
    }
}
