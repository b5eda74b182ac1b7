//! gzip (RFC 1952) around raw deflate streams, so that the deflate contexts can be reused.
//!
//! A stream may hold several members. Bytes after a member that do not start another one are
//! ignored, as Java's reader does.

use flate2::{Compress, Crc, Decompress, FlushCompress, FlushDecompress, Status};

use super::{Corruption, PIECE_SIZE_BYTES};

const MAGIC: [u8; 3] = [0x1f, 0x8b, 8];
/// No name, no time, no extra flags, unknown operating system.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
const TRAILER_SIZE_BYTES: usize = 8;
const FLAG_HEADER_CRC: u8 = 1 << 1;
const FLAG_EXTRA: u8 = 1 << 2;
const FLAG_NAME: u8 = 1 << 3;
const FLAG_COMMENT: u8 = 1 << 4;
const FLAGS_RESERVED: u8 = 0b1110_0000;

#[derive(Default)]
pub(super) struct Encoder {
    /// The deflate context and the level it was made for.
    deflate: Option<(i32, Compress)>,
    /// Checksum and size of what the current member has been given.
    crc: Crc,
}

impl Encoder {
    pub(super) fn encode(&mut self, level: i32, input: &[u8], output: &mut Vec<u8>) {
        self.begin(level, output);
        self.write(input, true, output);
    }

    /// Begins a member; another one that has not been ended is forgotten.
    pub(super) fn begin(&mut self, level: i32, output: &mut Vec<u8>) {
        match &mut self.deflate {
            Some((old_level, deflate)) if *old_level == level => deflate.reset(),
            _ => {
                let of_flate = match level {
                    0..=9 => flate2::Compression::new(level as u32),
                    _ => flate2::Compression::default(),
                };
                self.deflate = Some((level, Compress::new(of_flate, false)));
            }
        }
        self.crc.reset();
        output.extend_from_slice(&HEADER);
    }

    /// Compresses the next piece of a member, which ends with the last one.
    pub(super) fn write(&mut self, piece: &[u8], is_last: bool, output: &mut Vec<u8>) {
        let (_, deflate) = self.deflate.as_mut().expect("a member has been begun");
        let flush = match is_last {
            true => FlushCompress::Finish,
            false => FlushCompress::None,
        };
        let mut rest = piece;
        loop {
            output.reserve((rest.len() / 2).max(1024));
            let consumed_before = deflate.total_in();
            let status = deflate
                .compress_vec(rest, output, flush)
                .expect("deflate into memory cannot fail");
            rest = &rest[(deflate.total_in() - consumed_before) as usize..];
            if status == Status::StreamEnd || !is_last && rest.is_empty() {
                break;
            }
        }
        self.crc.update(piece);
        if is_last {
            output.extend_from_slice(&self.crc.sum().to_le_bytes());
            output.extend_from_slice(&self.crc.amount().to_le_bytes());
        }
    }
}

#[derive(Default)]
pub(super) struct Context {
    inflate: Option<Decompress>,
}

impl Context {
    pub(super) fn start<'a>(&'a mut self, input: &'a [u8]) -> Stream<'a> {
        let inflate = self.inflate.get_or_insert_with(|| Decompress::new(false));
        Stream {
            inflate,
            rest: input,
            crc: Crc::new(),
            state: State::BeforeFirstMember,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    BeforeFirstMember,
    InMember,
    AfterMember,
    Ended,
}

pub(super) struct Stream<'a> {
    inflate: &'a mut Decompress,
    rest: &'a [u8],
    /// Checksum and size of what the current member has yielded.
    crc: Crc,
    state: State,
}

impl Stream<'_> {
    pub(super) fn read(&mut self, output: &mut Vec<u8>) -> Result<bool, Corruption> {
        loop {
            match self.state {
                State::BeforeFirstMember => {
                    let size_bytes = header_size_bytes(self.rest).ok_or("bad gzip header")?;
                    self.start_member(size_bytes);
                }
                State::InMember => {
                    if self.inflate(output)? {
                        return Ok(true);
                    }
                }
                State::AfterMember => match header_size_bytes(self.rest) {
                    Some(size_bytes) => self.start_member(size_bytes),
                    None => self.state = State::Ended,
                },
                State::Ended => return Ok(false),
            }
        }
    }

    fn start_member(&mut self, header_size_bytes: usize) {
        self.rest = &self.rest[header_size_bytes..];
        self.inflate.reset(false);
        self.crc.reset();
        self.state = State::InMember;
    }

    /// Inflates the next piece; `false` when there was none.
    fn inflate(&mut self, output: &mut Vec<u8>) -> Result<bool, Corruption> {
        output.reserve(PIECE_SIZE_BYTES);
        let old_length = output.len();
        let consumed_before = self.inflate.total_in();
        let status = self
            .inflate
            .decompress_vec(self.rest, output, FlushDecompress::None)
            .map_err(|_| "bad deflate data")?;
        let consumed = (self.inflate.total_in() - consumed_before) as usize;
        self.rest = &self.rest[consumed..];
        let piece = &output[old_length..];
        self.crc.update(piece);
        if status == Status::StreamEnd {
            self.finish_member()?;
        } else if piece.is_empty() && consumed == 0 {
            return Err("truncated deflate data");
        }
        Ok(!piece.is_empty())
    }

    fn finish_member(&mut self) -> Result<(), Corruption> {
        let (trailer, rest) = self
            .rest
            .split_first_chunk::<TRAILER_SIZE_BYTES>()
            .ok_or("truncated gzip trailer")?;
        self.rest = rest;
        self.state = State::AfterMember;
        let crc = self.crc.sum().to_le_bytes();
        let size_bytes = self.crc.amount().to_le_bytes();
        if trailer[..4] != crc || trailer[4..] != size_bytes {
            return Err("gzip checksum or size mismatch");
        }
        Ok(())
    }
}

/// The size of the member header that `bytes` start with, if they do.
fn header_size_bytes(bytes: &[u8]) -> Option<usize> {
    let header = bytes.first_chunk::<{ HEADER.len() }>()?;
    let flags = header[3];
    if header[..3] != MAGIC || flags & FLAGS_RESERVED != 0 {
        return None;
    }
    let mut rest = &bytes[HEADER.len()..];
    if flags & FLAG_EXTRA != 0 {
        let (length, after) = rest.split_first_chunk::<2>()?;
        rest = after.get(usize::from(u16::from_le_bytes(*length))..)?;
    }
    for flag in [FLAG_NAME, FLAG_COMMENT] {
        if flags & flag != 0 {
            let end = rest.iter().position(|byte| *byte == 0)?;
            rest = &rest[end + 1..];
        }
    }
    if flags & FLAG_HEADER_CRC != 0 {
        rest = rest.get(2..)?;
    }
    Some(bytes.len() - rest.len())
}
