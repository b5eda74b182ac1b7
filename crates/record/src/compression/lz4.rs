//! LZ4 frames with Kafka's rules.
//!
//! ```text
//! 04 22 4d 18 | FLG | BD | [content size, 8] | HC | block ... | 00 00 00 00 | [content checksum, 4]
//! block: u32 LE size, top bit set when stored raw | bytes | [checksum, 4]
//! ```
//!
//! The writer emits FLG 0x60 (version 1, independent blocks, nothing optional) and BD 0x40
//! (blocks of 64 KiB). Level 9, Kafka's default, is the fast compressor as in Kafka; every other
//! level is the high compressor at that level. The reader accepts the optional fields but neither dependent blocks nor
//! dictionaries, and ends at the end mark: what follows is ignored, the content checksum too.

use lz4::block::{CompressionMode, compress_bound, compress_to_buffer, decompress_to_buffer};

use super::{Compression, Corruption, Expanded};
use xxhash_rust::xxh32::xxh32;

const MAGIC: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];
/// Magic, FLG 0x60, BD 0x40 and their header checksum.
const HEADER: [u8; 7] = [0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82];
/// What the writer puts into a block.
pub(super) const BLOCK_SIZE_BYTES: usize = 64 * 1024;
const STORED_RAW: u32 = 1 << 31;
/// A match length grows by 255 for each byte, so no block expands more than this.
const EXPANSION_MAX: usize = 256;
const END_MARK: [u8; 4] = [0; 4];

const FLAG_CONTENT_SIZE: u8 = 1 << 3;
const FLAG_BLOCK_CHECKSUM: u8 = 1 << 4;
const FLAG_BLOCK_INDEPENDENCE: u8 = 1 << 5;
const FLAGS_RESERVED: u8 = 0b11;

/// Appends `input` as one frame, compressed at Kafka's `compression.lz4.level`.
pub(super) fn encode(level: i32, input: &[u8], output: &mut Vec<u8>) {
    begin(output);
    for block in input.chunks(BLOCK_SIZE_BYTES) {
        write_block(level, block, output);
    }
    end(output);
}

/// Begins a frame.
pub(super) fn begin(output: &mut Vec<u8>) {
    output.extend_from_slice(&HEADER);
}

/// Ends a frame that has been begun.
pub(super) fn end(output: &mut Vec<u8>) {
    output.extend_from_slice(&END_MARK);
}

/// Appends a block to a frame that has been begun.
pub(super) fn write_block(level: i32, block: &[u8], output: &mut Vec<u8>) {
    let mode = if level == Compression::Lz4.default_level() {
        CompressionMode::DEFAULT
    } else {
        CompressionMode::HIGHCOMPRESSION(level)
    };
    let size_at = output.len();
    let data_at = size_at + 4;
    let bound_bytes = compress_bound(block.len()).expect("a block is far from the limit");
    output.resize(data_at + bound_bytes, 0);
    let compressed_bytes = compress_to_buffer(block, Some(mode), false, &mut output[data_at..])
        .expect("the output has the maximal size");
    let size = if compressed_bytes < block.len() {
        output.truncate(data_at + compressed_bytes);
        compressed_bytes as u32
    } else {
        output.truncate(data_at);
        output.extend_from_slice(block);
        block.len() as u32 | STORED_RAW
    };
    output[size_at..data_at].copy_from_slice(&size.to_le_bytes());
}

/// What the frame header says about the blocks.
#[derive(Clone, Copy)]
struct Blocks {
    size_max_bytes: usize,
    has_checksum: bool,
}

pub(super) struct Stream<'a> {
    rest: &'a [u8],
    /// `None` before the header has been read.
    blocks: Option<Blocks>,
    is_ended: bool,
}

impl<'a> Stream<'a> {
    pub(super) const fn new(input: &'a [u8]) -> Self {
        Self {
            rest: input,
            blocks: None,
            is_ended: false,
        }
    }

    pub(super) fn read(&mut self, output: &mut Expanded) -> Result<bool, Corruption> {
        let blocks = match self.blocks {
            Some(blocks) => blocks,
            None => self.read_header()?,
        };
        self.blocks = Some(blocks);
        let old_length = output.len();
        while !self.is_ended && output.len() == old_length {
            self.read_block(blocks, output)?;
        }
        Ok(output.len() != old_length)
    }

    fn take(&mut self, size_bytes: usize) -> Result<&'a [u8], Corruption> {
        let (taken, rest) = self
            .rest
            .split_at_checked(size_bytes)
            .ok_or("truncated lz4 frame")?;
        self.rest = rest;
        Ok(taken)
    }

    fn take_u32(&mut self) -> Result<u32, Corruption> {
        let bytes = self.take(4)?;
        Ok(u32::from_le_bytes(
            bytes.try_into().expect("four bytes were taken"),
        ))
    }

    fn read_header(&mut self) -> Result<Blocks, Corruption> {
        if self.take(MAGIC.len())? != MAGIC {
            return Err("bad lz4 magic");
        }
        let descriptor = self.rest;
        let [flags, block_descriptor] = *self.take(2)? else {
            unreachable!("two bytes are taken")
        };
        if flags >> 6 != 1 || flags & FLAGS_RESERVED != 0 {
            return Err("unsupported lz4 frame version or flags");
        }
        if flags & FLAG_BLOCK_INDEPENDENCE == 0 {
            return Err("dependent lz4 blocks are not supported");
        }
        let size_max_bytes = match block_descriptor {
            0x40 => 64 * 1024,
            0x50 => 256 * 1024,
            0x60 => 1024 * 1024,
            0x70 => 4 * 1024 * 1024,
            _ => return Err("bad lz4 block descriptor"),
        };
        if flags & FLAG_CONTENT_SIZE != 0 {
            self.take(8)?;
        }
        let descriptor = &descriptor[..descriptor.len() - self.rest.len()];
        if self.take(1)? != [(xxh32(descriptor, 0) >> 8) as u8] {
            return Err("lz4 header checksum mismatch");
        }
        Ok(Blocks {
            size_max_bytes,
            has_checksum: flags & FLAG_BLOCK_CHECKSUM != 0,
        })
    }

    fn read_block(&mut self, blocks: Blocks, output: &mut Expanded) -> Result<(), Corruption> {
        let size = self.take_u32()?;
        let size_bytes = (size & !STORED_RAW) as usize;
        if size_bytes == 0 {
            self.is_ended = true;
            return Ok(());
        }
        if size_bytes > blocks.size_max_bytes {
            return Err("lz4 block exceeds the size of the frame's blocks");
        }
        let block = self.take(size_bytes)?;
        if blocks.has_checksum && self.take_u32()? != xxh32(block, 0) {
            return Err("lz4 block checksum mismatch");
        }
        if size & STORED_RAW != 0 {
            output.append(|bytes| bytes.extend_from_slice(block));
            return Ok(());
        }
        let expanded_max_bytes = size_bytes.saturating_mul(EXPANSION_MAX);
        let room = output.room(expanded_max_bytes.min(blocks.size_max_bytes));
        let expanded_bytes = decompress_to_buffer(block, Some(room.len() as i32), room)
            .map_err(|_| "bad lz4 block")?;
        output.fill_room(expanded_bytes);
        Ok(())
    }
}

/// Reads arbitrary bytes as an LZ4 frame.
pub fn fuzz_lz4(bytes: &[u8]) {
    let mut output = Expanded::default();
    let mut stream = Stream::new(bytes);
    while let Ok(true) = stream.read(&mut output) {}
    assert!(stream.rest.len() <= bytes.len());
}
