//! Sizes of numbers as zigzag varints: each result used alone, and the sum of many.

use crate::Operation;
use model::varint::{size_of_varint, total_size_of_varints};
use std::hint::black_box;

const COUNT: usize = 1024;

/// Numbers of every magnitude, the same on both sides.
fn mixed() -> Vec<i32> {
    let mut state = 1u64;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 32) as i32 >> ((state >> 24) & 31)
    };
    (0..COUNT).map(|_| next()).collect()
}

pub(super) struct VarintSize {
    values: Vec<i32>,
}

impl VarintSize {
    pub(super) fn new() -> Self {
        Self { values: mixed() }
    }
}

impl Operation for VarintSize {
    fn evidence(&mut self) -> Vec<u8> {
        let sizes = self.values.iter().map(|&value| size_of_varint(value));
        sizes.map(|size| size as u8).collect()
    }

    fn repeat(&mut self, count: u64) {
        for _ in 0..count {
            for &value in black_box(&self.values) {
                black_box(size_of_varint(value));
            }
        }
    }

    fn batch(&self) -> u64 {
        COUNT as u64
    }
}

pub(super) struct VarintSizeBulk {
    values: Vec<i32>,
}

impl VarintSizeBulk {
    pub(super) fn new() -> Self {
        Self { values: mixed() }
    }
}

impl Operation for VarintSizeBulk {
    fn evidence(&mut self) -> Vec<u8> {
        let total = total_size_of_varints(&self.values) as u64;
        total.to_be_bytes().to_vec()
    }

    fn repeat(&mut self, count: u64) {
        for _ in 0..count {
            black_box(total_size_of_varints(black_box(&self.values)));
        }
    }

    fn batch(&self) -> u64 {
        COUNT as u64
    }
}
