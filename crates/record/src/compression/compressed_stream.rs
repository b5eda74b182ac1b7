//! What a batch is compressed into when its records come one after the other.
//!
//! Input gathers in a block of the codec's own size, so that the output is what compressing all of it
//! at once would have made; only a long Zstandard frame does not declare its size. The memory it takes
//! depends neither on the input nor on its parts.

use std::mem::take;

use super::{Codec, Compression, Compressor, lz4, snappy};

/// What gzip is given at once.
const GZIP_BLOCK_BYTES: usize = 64 * 1024;
/// A frame of Zstandard that is not longer is compressed at once: it declares its size, and its tables
/// are made for it. Batches of the size that producers make by default are not.
const ZSTD_BLOCK_BYTES: usize = 1024 * 1024;

/// One stream being compressed piece by piece.
pub(crate) struct CompressedStream<'a> {
    compressor: &'a mut Compressor,
    codec: Codec,
    /// `compressor.block` never holds more.
    block_bytes: usize,
    /// Whether the codec has been given anything.
    is_begun: bool,
}

impl Compressor {
    /// Starts a stream; another one that has not been finished is forgotten.
    pub(crate) fn start(&mut self, codec: Codec) -> CompressedStream<'_> {
        self.block.clear();
        CompressedStream {
            compressor: self,
            codec,
            block_bytes: match codec.compression {
                Compression::None => 0,
                Compression::Gzip => GZIP_BLOCK_BYTES,
                Compression::Snappy => snappy::CHUNK_SIZE_BYTES,
                Compression::Lz4 => lz4::BLOCK_SIZE_BYTES,
                Compression::Zstd => ZSTD_BLOCK_BYTES,
            },
            is_begun: false,
        }
    }
}

impl CompressedStream<'_> {
    pub(crate) const fn compression(&self) -> Compression {
        self.codec.compression
    }

    /// Takes the next piece of the input, and appends what has been compressed.
    #[inline]
    pub(crate) fn write(&mut self, input: &[u8], output: &mut Vec<u8>) {
        if self.codec.compression == Compression::None {
            output.extend_from_slice(input);
            return;
        }
        let block = &mut self.compressor.block;
        if input.len() <= self.block_bytes - block.len() {
            block.extend_from_slice(input);
        } else {
            self.write_blocks(input, output);
        }
    }

    /// Takes more input than the block has room for.
    fn write_blocks(&mut self, mut input: &[u8], output: &mut Vec<u8>) {
        while let Some((filling, rest)) =
            input.split_at_checked(self.block_bytes - self.compressor.block.len())
        {
            if self.compressor.block.is_empty() {
                self.encode(filling, false, output);
            } else {
                self.compressor.block.extend_from_slice(filling);
                self.encode_block(false, output);
            }
            input = rest;
        }
        self.compressor.block.extend_from_slice(input);
    }

    /// Appends the rest.
    pub(crate) fn finish(mut self, output: &mut Vec<u8>) {
        self.encode_block(true, output);
    }

    fn encode_block(&mut self, is_last: bool, output: &mut Vec<u8>) {
        let mut block = take(&mut self.compressor.block);
        self.encode(&block, is_last, output);
        block.clear();
        self.compressor.block = block;
    }

    /// Appends a block in its compressed form.
    fn encode(&mut self, block: &[u8], is_last: bool, output: &mut Vec<u8>) {
        let Compressor {
            gzip,
            snappy: snappy_encoder,
            zstd,
            ..
        } = &mut *self.compressor;
        let level = self.codec.level;
        if !self.is_begun {
            self.is_begun = true;
            match self.codec.compression {
                Compression::None => {}
                Compression::Gzip => gzip.begin(level, output),
                Compression::Snappy => snappy::begin(output),
                Compression::Lz4 => lz4::begin(output),
                Compression::Zstd => zstd.begin(level, is_last.then_some(block.len())),
            }
        }
        match self.codec.compression {
            Compression::None => {}
            Compression::Gzip => gzip.write(block, is_last, output),
            Compression::Snappy if block.is_empty() => {}
            Compression::Snappy => snappy_encoder.write_chunk(block, output),
            Compression::Lz4 => {
                if !block.is_empty() {
                    lz4::write_block(level, block, output);
                }
                if is_last {
                    lz4::end(output);
                }
            }
            Compression::Zstd => zstd.write(block, is_last, output),
        }
    }
}
