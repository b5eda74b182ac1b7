//! CRC-32C of a batch after a change of its header, without reading the records again.
//!
//! A crc is linear over GF(2): `crc(head ++ tail) = crc(head) * x^(8 * len(tail)) ^ crc(tail)`.
//! Changing the head from `old` to `new` therefore moves the crc by
//! `(crc(old) ^ crc(new)) * x^(8 * len(tail))`, whatever the tail is, and a crc that was wrong
//! stays wrong: damage is never sealed by a change. The power takes one multiplication for each
//! bit set in the length.

/// The polynomial of CRC-32C without its leading term, lowest degree in the highest bit.
const POLYNOMIAL: u32 = 0x82f6_3b78;
/// `x^0` in that bit order.
const ONE: u32 = 1 << 31;
/// Bits of a length in bits that [`POWERS`] covers.
const POWERS_COUNT: usize = 40;
/// `POWERS[k] = x^(2^k)` modulo the polynomial.
const POWERS: [u32; POWERS_COUNT] = powers();

const fn powers() -> [u32; POWERS_COUNT] {
    let mut powers = [ONE >> 1; POWERS_COUNT];
    let mut k = 1;
    while k < POWERS_COUNT {
        powers[k] = multiply(powers[k - 1], powers[k - 1]);
        k += 1;
    }
    powers
}

/// The product of two polynomials modulo the polynomial of CRC-32C.
const fn multiply(a: u32, mut b: u32) -> u32 {
    let mut product = 0;
    let mut degree = 0;
    while degree < 32 {
        if a & (ONE >> degree) != 0 {
            product ^= b;
        }
        b = if b & 1 == 0 {
            b >> 1
        } else {
            (b >> 1) ^ POLYNOMIAL
        };
        degree += 1;
    }
    product
}

/// The crc of `new_head ++ tail` from the crc of `old_head ++ tail`; the heads are of one length.
pub(crate) fn crc_with_new_head(
    crc: u32,
    old_head_crc: u32,
    new_head_crc: u32,
    tail_size_bytes: usize,
) -> u32 {
    let mut moved = old_head_crc ^ new_head_crc;
    let mut size_bits = (tail_size_bytes as u64) << 3;
    while size_bits != 0 {
        moved = multiply(moved, POWERS[size_bits.trailing_zeros() as usize]);
        size_bits &= size_bits - 1;
    }
    crc ^ moved
}

#[cfg(test)]
mod tests {
    use super::*;
    use crc32c::crc32c;
    use proptest::prelude::*;

    proptest! {

        #![proptest_config(trials::property(256))]

        #[test]
        fn a_moved_crc_is_the_crc_of_the_changed_bytes(
            old_head: [u8; 40],
            new_head: [u8; 40],
            tail in prop::collection::vec(any::<u8>(), 0..3000),
        ) {
            let old = [&old_head[..], &tail].concat();
            let new = [&new_head[..], &tail].concat();
            let moved =
                crc_with_new_head(crc32c(&old), crc32c(&old_head), crc32c(&new_head), tail.len());
            prop_assert_eq!(moved, crc32c(&new));
        }
    }
}
