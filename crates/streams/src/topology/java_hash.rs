//! The order in which Java's `HashMap` and `HashSet` give their keys, which `describe()` of Kafka Streams shows.
//!
//! A key's bucket is its hash, whose upper half is mixed into the lower, modulo the count of buckets. Buckets are given
//! one after the other, and keys of one bucket in the order in which they were added.

/// Buckets of a new map.
const FIRST_BUCKETS: usize = 16;

/// Java's `String.hashCode()`.
pub(crate) fn hash_code(text: &str) -> u32 {
    text.encode_utf16().fold(0, |hash: u32, unit| {
        hash.wrapping_mul(31).wrapping_add(u32::from(unit))
    })
}

/// The keys, given in the order in which they were added, as a map gives them.
pub(crate) fn in_hash_order<T>(keys: Vec<T>, hash_code: impl Fn(&T) -> u32) -> Vec<T> {
    let mut buckets = FIRST_BUCKETS;
    // A map doubles its buckets when more than three quarters as many keys are in it.
    while keys.len() > buckets / 4 * 3 {
        buckets *= 2;
    }
    let mut hashed: Vec<(u32, T)> = keys
        .into_iter()
        .map(|key| {
            let hash = hash_code(&key);
            let mixed = hash ^ (hash >> 16);
            (mixed & u32::try_from(buckets - 1).unwrap_or(u32::MAX), key)
        })
        .collect();
    hashed.sort_by_key(|(bucket, _)| *bucket);
    hashed.into_iter().map(|(_, key)| key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_java_s() {
        let cases = [
            ("", 0),
            ("a", 97),
            ("Aa", 2112),
            ("BB", 2112),
            ("polygenelubricants", 0x8000_0000),
            ("Zürich", 2_812_851_134),
        ];
        for (text, expected) in cases {
            assert_eq!(hash_code(text), expected, "{text}");
        }
    }

    #[test]
    fn keys_of_one_bucket_stay_in_their_order() {
        let order = |keys: &[&'static str]| in_hash_order(keys.to_vec(), |key| hash_code(key));
        assert_eq!(order(&["BB", "b", "Aa"]), ["BB", "Aa", "b"]);
        assert_eq!(order(&["Aa", "b", "BB"]), ["Aa", "BB", "b"]);
    }

    #[test]
    fn buckets_double_when_there_are_more_than_three_quarters_as_many_keys() {
        let order = |count: u8| {
            let keys: Vec<_> = (0..count)
                .map(|key| char::from(b'q' - key).to_string())
                .collect();
            in_hash_order(keys, |key| hash_code(key)).concat()
        };
        assert_eq!(order(12), "pqfghijklmno");
        assert_eq!(order(13), "efghijklmnopq");
    }
}
