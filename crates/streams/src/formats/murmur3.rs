//! Murmur3 of 128 bits for 64-bit machines, with the seed of Kafka Streams: by this hash a
//! foreign-key join knows which version of a left value an answer belongs to.

const SEED: u64 = 104_729;
const FIRST_FACTOR: u64 = 0x87c3_7b91_1142_53d5;
const SECOND_FACTOR: u64 = 0x4cf5_ad43_2745_937f;

/// The hash of these bytes as two big-endian numbers of 64 bits.
pub fn murmur3_128(bytes: &[u8]) -> [u8; 16] {
    let (mut first, mut second) = (SEED, SEED);
    let (blocks, tail) = bytes.as_chunks::<16>();
    for block in blocks {
        let (low, high) = halves(block);
        first ^= mixed_low(low);
        first = first.rotate_left(27).wrapping_add(second);
        first = first.wrapping_mul(5).wrapping_add(0x52dc_e729);
        second ^= mixed_high(high);
        second = second.rotate_left(31).wrapping_add(first);
        second = second.wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    // What is missing of the last block counts as zeros, which leave the hash as it is.
    let mut block = [0; 16];
    block[..tail.len()].copy_from_slice(tail);
    let (low, high) = halves(&block);
    first ^= mixed_low(low);
    second ^= mixed_high(high);

    let length = bytes.len() as u64;
    first ^= length;
    second ^= length;
    first = first.wrapping_add(second);
    second = second.wrapping_add(first);
    first = finished(first);
    second = finished(second);
    first = first.wrapping_add(second);
    second = second.wrapping_add(first);
    (u128::from(first) << 64 | u128::from(second)).to_be_bytes()
}

fn halves(block: &[u8; 16]) -> (u64, u64) {
    let both = u128::from_le_bytes(*block);
    (both as u64, (both >> 64) as u64)
}

const fn mixed_low(low: u64) -> u64 {
    low.wrapping_mul(FIRST_FACTOR)
        .rotate_left(31)
        .wrapping_mul(SECOND_FACTOR)
}

const fn mixed_high(high: u64) -> u64 {
    high.wrapping_mul(SECOND_FACTOR)
        .rotate_left(33)
        .wrapping_mul(FIRST_FACTOR)
}

const fn finished(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::fuzz::hex;

    #[test]
    fn hashes_are_those_of_kafka_streams() {
        assert_eq!(
            murmur3_128(b"")[..],
            hex("9d2764a018e329428c3cf3b035938518")
        );
        assert_eq!(
            murmur3_128(b"v")[..],
            hex("e001ba9f5f750d0518bc9338ae3e72f3")
        );
    }
}
