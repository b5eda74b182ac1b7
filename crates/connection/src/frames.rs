//! Bytes that arrive, cut into frames.
//!
//! Pure. A frame's size is only believed as far as bytes arrive: the buffer is never larger than four
//! times what has arrived, or what an earlier frame took.

use crate::SettingNames;
use bytes::{Bytes, BytesMut};
use model::Reader;
use wire::{ApiKey, ResponseHeader};

/// Room that is made for one read.
const READ_BYTES: usize = 64 * 1024;
/// Frames up to this size are copied, so that a small answer does not hold a large buffer.
const COPIED_BYTES_MAX: usize = 4 * 1024;
/// Bytes of the size before a frame.
const SIZE_BYTES: usize = 4;

/// Bytes that have arrived, cut into frames.
#[derive(Debug)]
pub(crate) struct Input {
    buffer: BytesMut,
    /// The largest frame that was read whole.
    largest_bytes: usize,
    frame_bytes_max: usize,
    /// For errors.
    names: SettingNames,
}

impl Input {
    /// Nothing has arrived; no frame may exceed `frame_bytes_max`.
    pub(crate) fn new(frame_bytes_max: usize, names: SettingNames) -> Self {
        Self {
            buffer: BytesMut::new(),
            largest_bytes: 0,
            frame_bytes_max,
            names,
        }
    }

    /// Where to put what arrives next; it has room.
    pub(crate) fn room(&mut self) -> &mut BytesMut {
        let arrived = self.buffer.len();
        let missing = match self.buffer.first_chunk::<SIZE_BYTES>() {
            Some(size) => (SIZE_BYTES + u32::from_be_bytes(*size) as usize).saturating_sub(arrived),
            None => READ_BYTES,
        };
        let believed = arrived.max(self.largest_bytes).max(READ_BYTES);
        let wanted = missing.clamp(READ_BYTES, believed);
        if self.buffer.capacity() - arrived < missing.min(READ_BYTES) {
            self.buffer.reserve(wanted);
        }
        &mut self.buffer
    }

    /// The next frame without its size, if all of it has arrived.
    ///
    /// # Errors
    /// What is wrong with its size.
    pub(crate) fn next_frame(&mut self) -> Result<Option<Bytes>, String> {
        let Some(size) = self.buffer.first_chunk::<SIZE_BYTES>() else {
            return Ok(None);
        };
        let bytes = self.checked_size(*size)?;
        let end = SIZE_BYTES + bytes;
        if self.buffer.len() < end {
            return Ok(None);
        }
        self.largest_bytes = self.largest_bytes.max(end);
        if bytes <= COPIED_BYTES_MAX {
            let frame = Bytes::copy_from_slice(&self.buffer[SIZE_BYTES..end]);
            bytes::Buf::advance(&mut self.buffer, end);
            return Ok(Some(frame));
        }
        let mut frame = self.buffer.split_to(end).freeze();
        bytes::Buf::advance(&mut frame, SIZE_BYTES);
        Ok(Some(frame))
    }

    fn checked_size(&self, size: [u8; SIZE_BYTES]) -> Result<usize, String> {
        let bytes = u32::from_be_bytes(size) as usize;
        // A frame has a correlation id, at least.
        if (4..=self.frame_bytes_max).contains(&bytes) {
            return Ok(bytes);
        }
        let addresses = self.names.addresses;
        Err(match size {
            [0x15, 3, ..] => format!(
                "a TLS alert: this port takes TLS, which this client does not speak; use a port of a \
                 PLAINTEXT listener in `{addresses}`"
            ),
            text if text.iter().all(|byte| (b' '..=b'~').contains(byte)) => format!(
                "text that starts with `{}`: this port is of another service, such as HTTP; check \
                 the port in `{addresses}`",
                text.escape_ascii()
            ),
            _ if bytes <= i32::MAX as usize && bytes >= 4 => format!(
                "an answer of {bytes} bytes, more than `{}` = {}",
                self.names.response_bytes_max, self.frame_bytes_max
            ),
            _ => format!("a frame of {} bytes", i32::from_be_bytes(size)),
        })
    }
}

/// The body of a response frame, if the frame answers the request of this correlation id.
pub(crate) fn body_of(
    mut frame: Bytes,
    api: ApiKey,
    version: i16,
    correlation_id: i32,
) -> Result<Bytes, String> {
    let mut reader = Reader::new(&frame);
    let header = ResponseHeader::decode(&mut reader, api.response_header_version(version))
        .map_err(|error| format!("the header of an answer to {api}: {error}"))?;
    if header.correlation_id != correlation_id {
        return Err(format!(
            "an answer with correlation id {} where {api} with {correlation_id} was next",
            header.correlation_id
        ));
    }
    let start = frame.len() - reader.remaining().len();
    bytes::Buf::advance(&mut frame, start);
    Ok(frame)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BufMut as _;
    use proptest::prelude::*;

    const NAMES: SettingNames = SettingNames {
        addresses: "brokers",
        request_timeout: "request.timeout.ms",
        setup_timeout: "setup.timeout.ms",
        idle_max: "idle.max.ms",
        response_bytes_max: "response.max.bytes",
    };

    #[test]
    fn a_size_that_is_not_allowed_is_told_from_what_it_looks_like() {
        let check = |size: [u8; SIZE_BYTES], expect: &str| {
            let mut input = Input::new(1_000, NAMES);
            input.room().put_slice(&size);
            let told = input.next_frame().expect_err("is not allowed");
            assert!(told.contains(expect), "{told}");
            assert!(input.room().capacity() <= 2 * READ_BYTES, "{told}");
        };
        check(
            1_001_u32.to_be_bytes(),
            "an answer of 1001 bytes, more than `response.max.bytes` = 1000",
        );
        check(*b"HTTP", "starts with `HTTP`");
        check(*b"HTTP", "check the port in `brokers`");
        check([0x15, 3, 1, 0], "a PLAINTEXT listener in `brokers`");
        check(3_u32.to_be_bytes(), "a frame of 3 bytes");
        check([0xff; 4], "a frame of -1 bytes");
    }

    #[test]
    fn a_frame_of_the_most_bytes_is_read() {
        let mut input = Input::new(1_000, NAMES);
        input.room().put_u32(1_000);
        assert_eq!(input.next_frame(), Ok(None));
        input.room().put_bytes(7, 1_000);
        assert_eq!(input.next_frame(), Ok(Some(vec![7; 1_000].into())));
    }

    #[test]
    fn a_claimed_size_is_believed_as_far_as_bytes_arrive() {
        let mut input = Input::new(100_000_000, NAMES);
        input.room().put_slice(&50_000_000_u32.to_be_bytes());
        let mut arrived = 4;
        while arrived < 1_000_000 {
            assert_eq!(input.next_frame(), Ok(None));
            let room = input.room();
            assert!(room.capacity() <= 4 * arrived.max(64 * 1024), "{arrived}");
            let count = (room.capacity() - room.len()).min(10_000);
            assert!(count > 0, "there is room");
            room.put_slice(&vec![0; count]);
            arrived += count;
        }
    }

    proptest! {
        #![proptest_config(trials::property(64))]

        #[test]
        fn frames_come_out_as_they_went_in(
            sizes in proptest::collection::vec(prop_oneof![4..40_usize, 4_000..4_200_usize, 60_000..200_000_usize], 1..6),
            cuts in proptest::collection::vec(1..100_000_usize, 1..8),
        ) {
            let frames: Vec<Vec<u8>> = sizes.iter().enumerate()
                .map(|(index, size)| vec![index as u8; *size])
                .collect();
            let mut stream = Vec::new();
            for frame in &frames {
                stream.put_u32(frame.len() as u32);
                stream.extend_from_slice(frame);
            }
            let mut input = Input::new(1_000_000, NAMES);
            let mut out = Vec::new();
            let mut rest = &stream[..];
            for cut in cuts.iter().cycle() {
                let room = input.room();
                let spare = room.capacity() - room.len();
                prop_assert!(spare > 0);
                let (chunk, later) = rest.split_at((*cut).min(rest.len()).min(spare));
                room.put_slice(chunk);
                rest = later;
                while let Some(frame) = input.next_frame().expect("sizes are allowed") {
                    out.push(frame);
                }
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert!(out == frames);
        }
    }
}
