//! Snappy in the framing of the xerial library, which the Java clients write.
//!
//! ```text
//! 82 "SNAPPY" 00 | i32 version 1 | i32 compatible version 1 | chunk ...
//! chunk: i32 size | one Snappy block
//! ```
//!
//! Some clients write one bare Snappy block instead. It cannot start with the magic: 0x82 0x53 is
//! a length of 10626, after which 0x4e would be a copy with nothing to copy from. A header between
//! chunks (concatenated streams) is skipped.

use super::{BEYOND_LIMIT, Corruption, Expanded};

const MAGIC: [u8; 8] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];
const VERSIONS: [u8; 8] = [0, 0, 0, 1, 0, 0, 0, 1];
const HEADER_SIZE_BYTES: usize = MAGIC.len() + VERSIONS.len();
/// What the writer puts into a chunk.
pub(super) const CHUNK_SIZE_BYTES: usize = 32 * 1024;
/// A copy of 64 bytes takes 3, so no block expands more than this.
const EXPANSION_MAX: usize = 22;

#[derive(Default)]
pub(super) struct Encoder {
    block: Option<snap::raw::Encoder>,
}

impl Encoder {
    pub(super) fn encode(&mut self, input: &[u8], output: &mut Vec<u8>) {
        begin(output);
        for chunk in input.chunks(CHUNK_SIZE_BYTES) {
            self.write_chunk(chunk, output);
        }
    }

    /// Appends a chunk of a stream that has been begun.
    pub(super) fn write_chunk(&mut self, chunk: &[u8], output: &mut Vec<u8>) {
        let encoder = self.block.get_or_insert_with(snap::raw::Encoder::new);
        let size_at = output.len();
        let data_at = size_at + 4;
        output.resize(data_at + snap::raw::max_compress_len(chunk.len()), 0);
        let compressed_bytes = encoder
            .compress(chunk, &mut output[data_at..])
            .expect("the output has the maximal size");
        output.truncate(data_at + compressed_bytes);
        output[size_at..data_at].copy_from_slice(&(compressed_bytes as u32).to_be_bytes());
    }
}

/// Begins a stream.
pub(super) fn begin(output: &mut Vec<u8>) {
    output.extend_from_slice(&MAGIC);
    output.extend_from_slice(&VERSIONS);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Framing {
    Unknown,
    Xerial,
    Bare,
}

pub(super) struct Stream<'a> {
    rest: &'a [u8],
    framing: Framing,
}

impl<'a> Stream<'a> {
    pub(super) const fn new(input: &'a [u8]) -> Self {
        Self {
            rest: input,
            framing: Framing::Unknown,
        }
    }

    /// Appends the next block, which may have so many bytes.
    pub(super) fn read(
        &mut self,
        output: &mut Expanded,
        left_bytes: usize,
    ) -> Result<bool, Corruption> {
        if self.framing == Framing::Unknown {
            self.framing = if self.rest.starts_with(&MAGIC) {
                Framing::Xerial
            } else {
                Framing::Bare
            };
        }
        let old_length = output.len();
        while output.len() == old_length {
            let Some(block) = self.next_block()? else {
                return Ok(false);
            };
            decode_block(block, output, left_bytes)?;
        }
        Ok(true)
    }

    fn next_block(&mut self) -> Result<Option<&'a [u8]>, Corruption> {
        if self.framing == Framing::Bare {
            let block = std::mem::take(&mut self.rest);
            return Ok((!block.is_empty()).then_some(block));
        }
        while self.rest.starts_with(&MAGIC) {
            self.rest = self
                .rest
                .get(HEADER_SIZE_BYTES..)
                .ok_or("truncated snappy header")?;
        }
        // A cut chunk size is an end of the stream to the xerial reader.
        let Some((size, rest)) = self.rest.split_first_chunk::<4>() else {
            return Ok(None);
        };
        let size_bytes = u32::from_be_bytes(*size) as usize;
        let (block, rest) = rest
            .split_at_checked(size_bytes)
            .ok_or("truncated snappy chunk")?;
        self.rest = rest;
        Ok(Some(block))
    }
}

/// Appends a block, after a look at whether its declared size can be true.
fn decode_block(block: &[u8], output: &mut Expanded, left_bytes: usize) -> Result<(), Corruption> {
    let size_bytes = snap::raw::decompress_len(block).map_err(|_| "bad snappy length")?;
    if size_bytes > block.len().saturating_mul(EXPANSION_MAX) {
        return Err("snappy block declares an impossible size");
    }
    if size_bytes > left_bytes {
        return Err(BEYOND_LIMIT);
    }
    let decoded_bytes = snap::raw::Decoder::new()
        .decompress(block, output.room(size_bytes))
        .map_err(|_| "bad snappy block")?;
    output.fill_room(decoded_bytes);
    Ok(())
}

/// Reads arbitrary bytes as a Snappy stream.
pub fn fuzz_snappy(bytes: &[u8]) {
    let mut output = Expanded::default();
    let mut stream = Stream::new(bytes);
    while let Ok(true) = stream.read(&mut output, usize::MAX) {}
    assert!(output.len() <= bytes.len().saturating_mul(EXPANSION_MAX));
}
