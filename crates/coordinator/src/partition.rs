//! Which partition of a coordinator's topic holds a group or a transactional id.

/// The partition of a topic of `partition_count` partitions whose leader coordinates `id`, a group
/// or a transactional id: the absolute value of Java's `String.hashCode`, modulo the count. The
/// least number, which has no absolute value, counts as zero.
///
/// # Panics
/// When `partition_count` is not positive.
pub fn partition_for(id: &str, partition_count: i32) -> i32 {
    assert!(partition_count > 0, "a topic has partitions");
    let hash = id.encode_utf16().fold(0i32, |hash, unit| {
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
        for (id, expected) in [
            ("", 0),
            ("a", 97),
            ("polygenelubricants", 0),
            ("console-consumer-12345", 158_455_506),
            // Its hash is negative.
            ("orders-10", 390_715_897),
            ("é😀", 1_996_812),
        ] {
            assert_eq!(partition_for(id, i32::MAX), expected, "{id}");
        }
    }
}
