//! XXH32 with seed 0, which LZ4 frames use for the checksums of their header and blocks.

const PRIMES: [u32; 5] = [
    0x9e37_79b1,
    0x85eb_ca77,
    0xc2b2_ae3d,
    0x27d4_eb2f,
    0x1656_67b1,
];

fn word(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .rev()
        .fold(0, |word, byte| (word << 8) | u32::from(*byte))
}

fn round(lane: u32, word: u32) -> u32 {
    lane.wrapping_add(word.wrapping_mul(PRIMES[1]))
        .rotate_left(13)
        .wrapping_mul(PRIMES[0])
}

/// The hash of `bytes`.
pub(super) fn xxhash32(bytes: &[u8]) -> u32 {
    let stripes = bytes.chunks_exact(16);
    let tail = stripes.remainder();
    let mut hash = if bytes.len() < 16 {
        PRIMES[4]
    } else {
        let first = PRIMES[0].wrapping_add(PRIMES[1]);
        let mut lanes = [first, PRIMES[1], 0, 0u32.wrapping_sub(PRIMES[0])];
        for stripe in stripes {
            for (lane, bytes) in lanes.iter_mut().zip(stripe.chunks_exact(4)) {
                *lane = round(*lane, word(bytes));
            }
        }
        let [a, b, c, d] = lanes;
        a.rotate_left(1)
            .wrapping_add(b.rotate_left(7))
            .wrapping_add(c.rotate_left(12))
            .wrapping_add(d.rotate_left(18))
    };
    hash = hash.wrapping_add(bytes.len() as u32);
    let words = tail.chunks_exact(4);
    let last = words.remainder();
    for bytes in words {
        hash = hash.wrapping_add(word(bytes).wrapping_mul(PRIMES[2]));
        hash = hash.rotate_left(17).wrapping_mul(PRIMES[3]);
    }
    for byte in last {
        hash = hash.wrapping_add(u32::from(*byte).wrapping_mul(PRIMES[4]));
        hash = hash.rotate_left(11).wrapping_mul(PRIMES[0]);
    }
    hash = (hash ^ (hash >> 15)).wrapping_mul(PRIMES[1]);
    hash = (hash ^ (hash >> 13)).wrapping_mul(PRIMES[2]);
    hash ^ (hash >> 16)
}

#[cfg(test)]
mod tests {
    use super::xxhash32;

    #[test]
    fn published_values() {
        assert_eq!(xxhash32(b""), 0x02cc_5d05);
        assert_eq!(xxhash32(b"a"), 0x550d_7456);
        assert_eq!(xxhash32(b"abc"), 0x32d1_53ff);
        assert_eq!(
            xxhash32(b"Nobody inspects the spammish repetition"),
            0xe229_3b2f
        );
    }
}
