//! Zstandard frames. The writer declares the content size if it knows it, which lets readers allocate
//! once.
//!
//! A frame may ask its reader for a window of up to 128 MiB, which the highest levels do. A
//! context that has grown beyond a limit is therefore not kept for the next batch, and nobody who
//! wants few bytes has such a window.

use zstd::zstd_safe::{
    CCtx, CParameter, DCtx, DParameter, InBuffer, OutBuffer, ResetDirective, compress_bound,
    zstd_sys::{ZSTD_EndDirective, ZSTD_ErrorCode},
};

use super::{BEYOND_LIMIT, Corruption, PIECE_SIZE_BYTES};

/// The greatest context that is kept: that of level 19 with its window of 8 MiB.
const CONTEXT_KEPT_MAX_BYTES: usize = 16 * 1024 * 1024;

/// The logarithm of the window of a frame whose size is not known when it begins: 2 MiB, as at level
/// 3. The highest levels would have one of 128 MiB, with tables of several times as much.
const STREAM_WINDOW_LOG: u32 = 21;

/// The logarithm of the greatest window of a reader: 128 MiB.
const WINDOW_LOG_MAX: u32 = 27;

/// The same for a reader of at most [`FEW_BYTES`]: 8 MiB, as at level 19.
const WINDOW_LOG_OF_FEW: u32 = 23;
const FEW_BYTES: usize = 8 * 1024 * 1024;

#[derive(Default)]
pub(super) struct Encoder {
    context: Option<CCtx<'static>>,
}

impl Encoder {
    pub(super) fn encode(&mut self, level: i32, input: &[u8], output: &mut Vec<u8>) {
        self.begin(level, Some(input.len()));
        self.write(input, true, output);
    }

    /// Begins a frame, of so many bytes if that is known; another one that has not been ended is
    /// forgotten.
    pub(super) fn begin(&mut self, level: i32, size_bytes: Option<usize>) {
        let context = self.context.get_or_insert_with(CCtx::create);
        context
            .reset(ResetDirective::SessionOnly)
            .expect("a session can always be reset");
        context
            .set_parameter(CParameter::CompressionLevel(level))
            .expect("levels are clamped to those that exist");
        let window_log = match size_bytes {
            // The level's own, as far as the size needs it.
            Some(_) => 0,
            None => STREAM_WINDOW_LOG,
        };
        context
            .set_parameter(CParameter::WindowLog(window_log))
            .expect("such a window can be had");
        context
            .set_pledged_src_size(size_bytes.map(|size_bytes| size_bytes as u64))
            .expect("the size can be declared before the first byte");
    }

    /// Compresses the next piece of a frame, which ends with the last one.
    pub(super) fn write(&mut self, piece: &[u8], is_last: bool, output: &mut Vec<u8>) {
        let context = self.context.as_mut().expect("a frame has been begun");
        let directive = match is_last {
            true => ZSTD_EndDirective::ZSTD_e_end,
            false => ZSTD_EndDirective::ZSTD_e_continue,
        };
        let mut source = InBuffer::around(piece);
        loop {
            // With room for all that a frame of one piece takes, it is compressed without a copy.
            output.reserve(compress_bound(piece.len() - source.pos()));
            let position = output.len();
            let mut target = OutBuffer::around_pos(output, position);
            let left_bytes = context
                .compress_stream2(&mut target, &mut source, directive)
                .expect("compression into memory cannot fail");
            let is_taken = source.pos() == piece.len();
            if is_taken && (left_bytes == 0 || !is_last) {
                break;
            }
        }
        if is_last {
            self.context
                .take_if(|context| context.sizeof() > CONTEXT_KEPT_MAX_BYTES);
        }
    }
}

#[derive(Default)]
pub(super) struct Context {
    decoder: Option<DCtx<'static>>,
}

impl Context {
    /// Begins to read frames of which at most `limit_bytes` are wanted.
    pub(super) fn start<'a>(&'a mut self, input: &'a [u8], limit_bytes: usize) -> Stream<'a> {
        self.give_back();
        let decoder = self.decoder.get_or_insert_with(DCtx::create);
        decoder
            .reset(ResetDirective::SessionOnly)
            .expect("a session can always be reset");
        let wants_few = limit_bytes <= FEW_BYTES;
        let window_log = match wants_few {
            true => WINDOW_LOG_OF_FEW,
            false => WINDOW_LOG_MAX,
        };
        decoder
            .set_parameter(DParameter::WindowLogMax(window_log))
            .expect("such a window can be had");
        Stream {
            decoder,
            rest: input,
            is_in_frame: false,
            wants_few,
        }
    }

    /// Gives the context back if it has grown.
    pub(super) fn give_back(&mut self) {
        self.decoder
            .take_if(|decoder| decoder.sizeof() > CONTEXT_KEPT_MAX_BYTES);
    }

    /// What the context takes.
    #[cfg(test)]
    pub(super) fn size_bytes(&self) -> usize {
        self.decoder.as_ref().map_or(0, DCtx::sizeof)
    }
}

pub(super) struct Stream<'a> {
    decoder: &'a mut DCtx<'static>,
    rest: &'a [u8],
    is_in_frame: bool,
    /// Whether a frame with a large window is beyond the limit, rather than corrupt.
    wants_few: bool,
}

/// A window that is larger than the reader's limit.
const WINDOW_TOO_LARGE: usize =
    (ZSTD_ErrorCode::ZSTD_error_frameParameter_windowTooLarge as usize).wrapping_neg();

impl Stream<'_> {
    pub(super) fn read(&mut self, output: &mut Vec<u8>) -> Result<bool, Corruption> {
        let old_length = output.len();
        while output.len() == old_length {
            if self.rest.is_empty() && !self.is_in_frame {
                return Ok(false);
            }
            output.reserve(PIECE_SIZE_BYTES);
            let mut source = InBuffer::around(self.rest);
            let mut target = OutBuffer::around_pos(output, old_length);
            let hint = self
                .decoder
                .decompress_stream(&mut target, &mut source)
                .map_err(|code| match code {
                    WINDOW_TOO_LARGE if self.wants_few => BEYOND_LIMIT,
                    _ => "bad zstd frame",
                })?;
            let consumed = source.pos();
            self.rest = &self.rest[consumed..];
            self.is_in_frame = hint != 0;
            if self.is_in_frame && consumed == 0 && output.len() == old_length {
                return Err("truncated zstd frame");
            }
        }
        Ok(true)
    }
}
