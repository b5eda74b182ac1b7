//! Variable-length integers of the protocol: LEB128, unsigned or zigzag, of 32 and 64 bits.
//!
//! Sizes are computed without branches or loops. Readers refuse encodings that are longer than
//! the type allows, as Apache Kafka does; a padded encoding within that length is accepted.

use multiversion::multiversion;
use multiversion::target::target_cfg_f;

/// Most bytes that a 32-bit varint takes.
pub const MAX_VARINT_BYTES: usize = 5;
/// Most bytes that a 64-bit varint takes.
pub const MAX_VARLONG_BYTES: usize = 10;

/// Why a varint could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VarintError {
    /// The bytes end within the integer.
    Truncated,
    /// More bytes, or more bits, than the type holds.
    TooLong,
}

/// Maps signed to unsigned so that small magnitudes stay small: 0, -1, 1, -2 … to 0, 1, 2, 3 …
#[inline]
pub const fn zigzag_i32(value: i32) -> u32 {
    ((value << 1) ^ (value >> 31)) as u32
}

/// [`zigzag_i32`] for 64 bits.
#[inline]
pub const fn zigzag_i64(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// The inverse of [`zigzag_i32`].
#[inline]
pub const fn unzigzag_u32(value: u32) -> i32 {
    (value >> 1) as i32 ^ -((value & 1) as i32)
}

/// The inverse of [`zigzag_i64`].
#[inline]
pub const fn unzigzag_u64(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Bytes that `value` takes as an unsigned varint: 1 to 5.
///
/// With b significant bits (at least one) the size is ceil(b / 7), which (b * 9 + 64) / 64
/// equals for b up to 64.
#[inline]
pub const fn size_of_unsigned_varint(value: u32) -> usize {
    let bits = 32 - (value | 1).leading_zeros();
    ((bits * 9 + 64) >> 6) as usize
}

/// Bytes that `value` takes as an unsigned varint of 64 bits: 1 to 10.
#[inline]
pub const fn size_of_unsigned_varlong(value: u64) -> usize {
    let bits = 64 - (value | 1).leading_zeros();
    ((bits * 9 + 64) >> 6) as usize
}

/// Bytes that `value` takes as a zigzag varint: 1 to 5.
#[inline]
pub const fn size_of_varint(value: i32) -> usize {
    size_of_unsigned_varint(zigzag_i32(value))
}

/// Bytes that `value` takes as a zigzag varint of 64 bits: 1 to 10.
#[inline]
pub const fn size_of_varlong(value: i64) -> usize {
    size_of_unsigned_varlong(zigzag_i64(value))
}

/// Bytes that `values` take together as zigzag varints; in vectors as wide as the processor has.
pub fn total_size_of_varints(values: &[i32]) -> usize {
    // Sums are as wide as the values: 5 bytes each leave room for this many.
    let sizes = values.chunks(1 << 20).map(total_size_of_chunk);
    sizes.map(|size| size as usize).sum()
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512cd+avx512dq+avx512vl", "x86_64+avx2"))]
fn total_size_of_chunk(values: &[i32]) -> u32 {
    if target_cfg_f!(target_feature = "avx512cd") {
        // Leading zeros are one instruction for a whole vector here, and many elsewhere. This is
        // the size as `size_of_unsigned_varint` has it, by 32 less b.
        let size = |value: i32| (352 - 9 * (zigzag_i32(value) | 1).leading_zeros()) >> 6;
        return values.iter().map(|&value| size(value)).sum();
    }
    // The size is one more than the number of bounds that the value passes. Without its sign, it
    // keeps its place among the bounds of zigzag, halved.
    let passed = |value: i32| {
        let value = value ^ (value >> 31);
        let passes = |bits: u32| u32::from(value >= 1 << bits);
        passes(6) + passes(13) + passes(20) + passes(27)
    };
    let passed: u32 = values.iter().map(|&value| passed(value)).sum();
    values.len() as u32 + passed
}

/// Reads an unsigned varint of 32 bits from the front of `bytes`: the value and its length.
#[inline]
pub const fn read_unsigned_varint(bytes: &[u8]) -> Result<(u32, usize), VarintError> {
    match bytes {
        [a, ..] if *a < 0x80 => Ok((*a as u32, 1)),
        [a, b, ..] if *b < 0x80 => Ok(((*a & 0x7f) as u32 | (*b as u32) << 7, 2)),
        _ => match read_long(bytes, MAX_VARINT_BYTES) {
            Ok((value, _)) if value > u32::MAX as u64 => Err(VarintError::TooLong),
            Ok((value, length)) => Ok((value as u32, length)),
            Err(error) => Err(error),
        },
    }
}

/// Reads an unsigned varint of 64 bits from the front of `bytes`: the value and its length.
#[inline]
pub const fn read_unsigned_varlong(bytes: &[u8]) -> Result<(u64, usize), VarintError> {
    match bytes {
        [a, ..] if *a < 0x80 => Ok((*a as u64, 1)),
        _ => read_long(bytes, MAX_VARLONG_BYTES),
    }
}

/// Reads a zigzag varint of 32 bits from the front of `bytes`: the value and its length.
#[inline]
pub const fn read_varint(bytes: &[u8]) -> Result<(i32, usize), VarintError> {
    match read_unsigned_varint(bytes) {
        Ok((value, length)) => Ok((unzigzag_u32(value), length)),
        Err(error) => Err(error),
    }
}

/// Reads a zigzag varint of 64 bits from the front of `bytes`: the value and its length.
#[inline]
pub const fn read_varlong(bytes: &[u8]) -> Result<(i64, usize), VarintError> {
    match read_unsigned_varlong(bytes) {
        Ok((value, length)) => Ok((unzigzag_u64(value), length)),
        Err(error) => Err(error),
    }
}

const fn read_long(bytes: &[u8], max_length: usize) -> Result<(u64, usize), VarintError> {
    let mut value = 0u64;
    let mut index = 0;
    while index < max_length {
        if index == bytes.len() {
            return Err(VarintError::Truncated);
        }
        let byte = bytes[index];
        // The tenth byte has room for one bit only.
        if index == 9 && byte > 1 {
            return Err(VarintError::TooLong);
        }
        value |= ((byte & 0x7f) as u64) << (7 * index);
        index += 1;
        if byte < 0x80 {
            return Ok((value, index));
        }
    }
    Err(VarintError::TooLong)
}

/// Appends `value` as an unsigned varint.
#[inline]
pub fn write_unsigned_varint(value: u32, out: &mut Vec<u8>) {
    if value < 0x80 {
        out.push(value as u8);
    } else {
        let (bytes, size) = unsigned_varint_bytes(value);
        // One append of a fixed size, cut to measure, is shorter than a branch for each byte.
        out.extend_from_slice(&bytes);
        out.truncate(out.len() - bytes.len() + size);
    }
}

/// `value` as an unsigned varint, followed by zeros, and its size.
#[inline]
pub const fn unsigned_varint_bytes(value: u32) -> ([u8; 8], usize) {
    let size = size_of_unsigned_varint(value);
    let value = value as u64;
    // Seven bits to a byte, the lowest first.
    let spread = value & 0x7f
        | (value & 0x7f << 7) << 1
        | (value & 0x7f << 14) << 2
        | (value & 0x7f << 21) << 3
        | (value & 0x0f << 28) << 4;
    // Every byte but the last says that another follows.
    let follows = 0x80_8080_8080 & ((1 << (8 * (size - 1))) - 1);
    ((spread | follows).to_le_bytes(), size)
}

/// Appends `value` as an unsigned varint of 64 bits.
#[inline]
pub fn write_unsigned_varlong(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends `value` as a zigzag varint.
#[inline]
pub fn write_varint(value: i32, out: &mut Vec<u8>) {
    write_unsigned_varint(zigzag_i32(value), out);
}

/// Appends `value` as a zigzag varint of 64 bits.
#[inline]
pub fn write_varlong(value: i64, out: &mut Vec<u8>) {
    write_unsigned_varlong(zigzag_i64(value), out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The obvious version that the branch-free ones must equal.
    fn size_by_loop(mut value: u64) -> usize {
        let mut size = 1;
        while value >= 0x80 {
            value >>= 7;
            size += 1;
        }
        size
    }

    fn check_32(value: i32) {
        assert_eq!(
            size_of_unsigned_varint(value as u32),
            size_by_loop(value as u32 as u64)
        );
        assert_eq!(
            size_of_varint(value),
            size_by_loop(zigzag_i32(value) as u64)
        );
        assert_eq!(unzigzag_u32(zigzag_i32(value)), value);
        let (head, size) = unsigned_varint_bytes(value as u32);
        assert_eq!(
            read_unsigned_varint(&head[..size]),
            Ok((value as u32, size))
        );
        assert_eq!(head[size..], [0; 8][size..]);
        let mut bytes = Vec::new();
        write_varint(value, &mut bytes);
        assert_eq!(bytes.len(), size_of_varint(value));
        assert_eq!(read_varint(&bytes), Ok((value, bytes.len())));
        for cut in 0..bytes.len() {
            assert_eq!(read_varint(&bytes[..cut]), Err(VarintError::Truncated));
        }
    }

    fn check_64(value: i64) {
        assert_eq!(
            size_of_unsigned_varlong(value as u64),
            size_by_loop(value as u64)
        );
        assert_eq!(size_of_varlong(value), size_by_loop(zigzag_i64(value)));
        assert_eq!(unzigzag_u64(zigzag_i64(value)), value);
        let mut bytes = Vec::new();
        write_varlong(value, &mut bytes);
        assert_eq!(bytes.len(), size_of_varlong(value));
        assert_eq!(read_varlong(&bytes), Ok((value, bytes.len())));
    }

    #[test]
    fn powers_of_two_their_neighbours_and_extremes() {
        for shift in 0..64 {
            for delta in -2i64..=2 {
                let value = (1i64 << shift).wrapping_add(delta);
                check_64(value);
                check_64(value.wrapping_neg());
                check_32(value as i32);
                check_32((value as i32).wrapping_neg());
            }
        }
        for value in [
            0,
            1,
            -1,
            i64::MIN,
            i64::MAX,
            i32::MIN as i64,
            i32::MAX as i64,
        ] {
            check_64(value);
            check_32(value as i32);
        }
    }

    #[test]
    fn over_long_encodings_are_refused() {
        let long = [0xff; 12];
        assert_eq!(read_unsigned_varint(&long), Err(VarintError::TooLong));
        assert_eq!(read_unsigned_varlong(&long), Err(VarintError::TooLong));
        // Five bytes whose last carries more than the four bits that are left.
        assert_eq!(
            read_unsigned_varint(&[0xff, 0xff, 0xff, 0xff, 0x1f]),
            Err(VarintError::TooLong)
        );
        assert_eq!(
            read_unsigned_varint(&[0xff, 0xff, 0xff, 0xff, 0x0f]),
            Ok((u32::MAX, 5))
        );
        assert_eq!(
            read_unsigned_varint(&[0x80, 0x80, 0x80, 0x80, 0x80, 0x00]),
            Err(VarintError::TooLong)
        );
        assert_eq!(read_unsigned_varint(&[0x80, 0x00]), Ok((0, 2)));
    }

    #[test]
    fn the_size_of_many_is_the_sum_of_their_sizes() {
        let mut values: Vec<i32> = (0..32)
            .flat_map(|shift| (-2..=2).map(move |delta| (1i32 << shift).wrapping_add(delta)))
            .flat_map(|value| [value, value.wrapping_neg()])
            .collect();
        while !values.is_empty() {
            let sum = values.iter().map(|&value| size_of_varint(value)).sum();
            assert_eq!(total_size_of_varints(&values), sum, "{values:?}");
            values.pop();
        }
        let many = vec![i32::MIN; (1 << 20) + 1];
        assert_eq!(total_size_of_varints(&many), 5 * many.len());
    }

    proptest! {

        #![proptest_config(trials::property(256))]

        #[test]
        fn random_values(value: i64) {
            check_64(value);
            check_32(value as i32);
        }
    }
}
