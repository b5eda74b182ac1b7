//! The codecs of record batches, with contexts that are reused from batch to batch.
//!
//! Everything a peer compressed is read piece by piece into a caller's buffer under a limit, so
//! that a small batch that expands without end costs neither memory nor unbounded time.

use thiserror::Error;

mod compressed_stream;
mod expanded;
mod gzip;
mod lz4;
mod snappy;
#[cfg(test)]
mod tests;
mod zstd;

pub(crate) use compressed_stream::CompressedStream;
pub(crate) use expanded::Expanded;
pub use lz4::fuzz_lz4;
pub use snappy::fuzz_snappy;

/// How the records of a batch are compressed. The ids are those of the batch's attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(i8)]
pub enum Compression {
    /// Not at all.
    #[default]
    None = 0,
    /// One or more gzip members (RFC 1952).
    Gzip = 1,
    /// Snappy blocks in the framing of the xerial library, or one bare block.
    Snappy = 2,
    /// An LZ4 frame of independent blocks.
    Lz4 = 3,
    /// Zstandard frames; Produce 7 and Fetch 10 are the first versions that carry them.
    Zstd = 4,
}

impl Compression {
    /// Every codec, in the order of its id.
    pub const ALL: [Self; 5] = [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd];

    /// The value of the codec bits.
    pub const fn id(self) -> i8 {
        self as i8
    }

    /// The codec of an id.
    pub const fn from_id(id: i8) -> Option<Self> {
        match id {
            0 => Some(Self::None),
            1 => Some(Self::Gzip),
            2 => Some(Self::Snappy),
            3 => Some(Self::Lz4),
            4 => Some(Self::Zstd),
            _ => None,
        }
    }

    /// The name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }

    /// The codec of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|compression| compression.name() == name)
    }

    /// The level that a configuration has unless it says another.
    pub const fn default_level(self) -> i32 {
        match self {
            Self::None | Self::Snappy => 0,
            Self::Gzip => -1,
            Self::Lz4 => 9,
            Self::Zstd => 3,
        }
    }
}

/// A codec to compress with and its level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Codec {
    /// Which codec.
    pub compression: Compression,
    /// The level as in Kafka's `compression.<codec>.level`; codecs without levels ignore it.
    pub level: i32,
}

impl From<Compression> for Codec {
    /// The codec at its default level.
    fn from(compression: Compression) -> Self {
        Self {
            compression,
            level: compression.default_level(),
        }
    }
}

/// Why compressed bytes could not be read.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum DecompressError {
    /// The bytes are not what the codec writes.
    #[error("{} stream is corrupt: {reason}", codec.name())]
    Corrupt {
        /// The codec that the batch names.
        codec: Compression,
        /// What is wrong with the bytes.
        reason: &'static str,
    },
    /// The bytes expand beyond the limit.
    #[error("decompressed records exceed {limit_bytes} bytes")]
    TooLarge {
        /// The limit that was given.
        limit_bytes: usize,
    },
}

/// What is expanded before it is known how much comes out.
const UNMEASURED_MAX_BYTES: usize = 16 * 1024 * 1024;

/// The room that a codec asks for behind what has come out: a block of LZ4.
const ROOM_MAX_BYTES: usize = 4 * 1024 * 1024;

/// Most bytes that a stream without blocks of its own yields at once.
const PIECE_SIZE_BYTES: usize = 64 * 1024;

/// What one codec's reader says is wrong; the codec is added by [`Decompression`].
type Corruption = &'static str;

/// What a codec's reader says where it would take more memory than the limit allows.
const BEYOND_LIMIT: Corruption = "more comes out than may";

/// The compressing side's contexts, created at first use.
#[derive(Default)]
pub struct Compressor {
    gzip: gzip::Encoder,
    snappy: snappy::Encoder,
    zstd: zstd::Encoder,
    /// What a [`CompressedStream`] has been given and not compressed yet.
    block: Vec<u8>,
}

impl Compressor {
    /// A compressor without any context yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends the compressed form of `input`.
    pub fn compress(&mut self, codec: Codec, input: &[u8], output: &mut Vec<u8>) {
        match codec.compression {
            Compression::None => output.extend_from_slice(input),
            Compression::Gzip => self.gzip.encode(codec.level, input, output),
            Compression::Snappy => self.snappy.encode(input, output),
            Compression::Lz4 => lz4::encode(codec.level, input, output),
            Compression::Zstd => self.zstd.encode(codec.level, input, output),
        }
    }
}

impl std::fmt::Debug for Compressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compressor").finish_non_exhaustive()
    }
}

/// The decompressing side's contexts, created at first use.
#[derive(Default)]
pub struct Decompressor {
    gzip: gzip::Context,
    zstd: zstd::Context,
}

impl Decompressor {
    /// A decompressor without any context yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts to decompress `input`, of which at most `limit_bytes` may come out.
    pub(crate) fn start<'a>(
        &'a mut self,
        codec: Compression,
        input: &'a [u8],
        limit_bytes: usize,
    ) -> Decompression<'a> {
        let stream = match codec {
            Compression::None => Stream::None(input),
            Compression::Gzip => Stream::Gzip(self.gzip.start(input)),
            Compression::Snappy => Stream::Snappy(snappy::Stream::new(input)),
            Compression::Lz4 => Stream::Lz4(lz4::Stream::new(input)),
            Compression::Zstd => Stream::Zstd(self.zstd.start(input, limit_bytes)),
        };
        Decompression {
            codec,
            stream,
            limit_bytes,
            left_bytes: limit_bytes,
        }
    }

    /// Gives back what only a large stream has needed.
    pub(crate) fn give_back(&mut self) {
        self.zstd.give_back();
    }

    /// Appends everything that `input` holds, at most `limit_bytes`. Memory for much of it is taken only once it is
    /// known how much comes out: what is beyond the limit costs time, and what is not costs its size, not twice that.
    pub fn decompress(
        &mut self,
        codec: Compression,
        input: &[u8],
        limit_bytes: usize,
        output: &mut Vec<u8>,
    ) -> Result<(), DecompressError> {
        let old_length = output.len();
        let few_bytes = limit_bytes.min(UNMEASURED_MAX_BYTES);
        match self.expand(codec, input, few_bytes, output) {
            Err(DecompressError::TooLarge { .. }) if few_bytes < limit_bytes => {}
            ended => return ended,
        }
        output.truncate(old_length);
        output.shrink_to_fit();
        let size_bytes = self.measure(codec, input, limit_bytes)?;
        output.reserve_exact(size_bytes + ROOM_MAX_BYTES);
        self.expand(codec, input, limit_bytes, output)
    }

    /// How many bytes `input` holds, at most `limit_bytes`.
    fn measure(
        &mut self,
        codec: Compression,
        input: &[u8],
        limit_bytes: usize,
    ) -> Result<usize, DecompressError> {
        let mut decompression = self.start(codec, input, limit_bytes);
        let mut piece = Expanded::default();
        while decompression.read(&mut piece)? {
            piece.clear();
        }
        Ok(limit_bytes - decompression.left_bytes)
    }

    fn expand(
        &mut self,
        codec: Compression,
        input: &[u8],
        limit_bytes: usize,
        output: &mut Vec<u8>,
    ) -> Result<(), DecompressError> {
        let mut decompression = self.start(codec, input, limit_bytes);
        let mut expanded = Expanded::from_vec(std::mem::take(output));
        let ended = loop {
            match decompression.read(&mut expanded) {
                Ok(true) => {}
                Ok(false) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        *output = expanded.into_vec();
        ended
    }
}

impl std::fmt::Debug for Decompressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decompressor").finish_non_exhaustive()
    }
}

/// One stream being decompressed piece by piece.
pub(crate) struct Decompression<'a> {
    codec: Compression,
    stream: Stream<'a>,
    limit_bytes: usize,
    /// What may still come out: `0 <= left_bytes <= limit_bytes`.
    left_bytes: usize,
}

enum Stream<'a> {
    None(&'a [u8]),
    Gzip(gzip::Stream<'a>),
    Snappy(snappy::Stream<'a>),
    Lz4(lz4::Stream<'a>),
    Zstd(zstd::Stream<'a>),
}

impl Decompression<'_> {
    /// Appends the next piece, one byte at least; `false` at the end of the stream.
    ///
    /// A piece is at most the greater of 64 KiB, of the spare capacity of `output`, and of one
    /// block of the stream: 4 MiB for LZ4, 22 times its compressed size for Snappy.
    pub(crate) fn read(&mut self, output: &mut Expanded) -> Result<bool, DecompressError> {
        let old_length = output.len();
        let has_read = match &mut self.stream {
            Stream::None(input) => {
                output.append(|bytes| bytes.extend_from_slice(input));
                Ok(!std::mem::take(input).is_empty())
            }
            Stream::Gzip(stream) => output.append(|bytes| stream.read(bytes)),
            Stream::Snappy(stream) => stream.read(output, self.left_bytes),
            Stream::Lz4(stream) => stream.read(output),
            Stream::Zstd(stream) => output.append(|bytes| stream.read(bytes)),
        };
        let has_read = has_read.map_err(|reason| match reason {
            BEYOND_LIMIT => DecompressError::TooLarge {
                limit_bytes: self.limit_bytes,
            },
            reason => DecompressError::Corrupt {
                codec: self.codec,
                reason,
            },
        })?;
        let Some(left_bytes) = self.left_bytes.checked_sub(output.len() - old_length) else {
            return Err(DecompressError::TooLarge {
                limit_bytes: self.limit_bytes,
            });
        };
        self.left_bytes = left_bytes;
        Ok(has_read)
    }
}

impl std::fmt::Debug for Decompression<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decompression")
            .field("codec", &self.codec)
            .field("left_bytes", &self.left_bytes)
            .finish_non_exhaustive()
    }
}
