//! A request as the socket takes it: encoded fields, with slices of other buffers between them. Pure.

use bytes::Bytes;
use std::io::IoSlice;
use wire::{ApiKey, RequestHeader, begin_frame, finish_frame};

/// Where the correlation id stands in a frame: after its size, the API's number and the version.
const CORRELATION_ID_AT: usize = 8;

/// One request: a frame in parts.
///
/// ```text
///   fields   [size header topic partition][partition topic …]
///   slices                               ^ record batch, never copied
/// ```
#[derive(Debug)]
pub struct Request {
    pub(crate) api: ApiKey,
    pub(crate) version: i16,
    /// Without it the broker sends nothing back: Produce with `acks=0`.
    pub(crate) is_answered: bool,
    fields: Vec<u8>,
    /// Where in `fields` each slice is inserted, in order.
    slices: Vec<(usize, Bytes)>,
    slices_bytes: usize,
    /// Where the body begins, after size and header.
    header_bytes: usize,
}

impl Request {
    /// A request without a body yet, written into `fields`, whose content is discarded. `client_id` is
    /// what the broker's logs and quotas call the caller.
    pub fn begin(api: ApiKey, version: i16, client_id: &str, mut fields: Vec<u8>) -> Self {
        fields.clear();
        begin_frame(&mut fields);
        let header = RequestHeader {
            api_key: api as i16,
            api_version: version,
            correlation_id: 0,
            client_id: Some(client_id),
        };
        header.encode(api.is_request_flexible(version), &mut fields);
        Self {
            api,
            version,
            is_answered: true,
            header_bytes: fields.len(),
            fields,
            slices: Vec::new(),
            slices_bytes: 0,
        }
    }

    /// The version that the body must have.
    pub const fn version(&self) -> i16 {
        self.version
    }

    /// Where the next fields of the body are appended. Only append.
    pub const fn body(&mut self) -> &mut Vec<u8> {
        &mut self.fields
    }

    /// Appends `slice` to the body without copying it.
    pub fn append_slice(&mut self, slice: Bytes) {
        if !slice.is_empty() {
            self.slices_bytes += slice.len();
            self.slices.push((self.fields.len(), slice));
        }
    }

    /// Says that the broker will not answer.
    pub const fn without_answer(mut self) -> Self {
        self.is_answered = false;
        self
    }

    /// Bytes of the whole frame, with its size.
    pub fn frame_bytes(&self) -> usize {
        self.fields.len() + self.slices_bytes
    }

    /// A copy of the whole body with its slices, for whoever checks what would be sent.
    pub fn body_bytes(&self) -> Vec<u8> {
        let mut parts = Vec::new();
        self.parts(self.header_bytes, &mut parts, usize::MAX);
        parts.iter().flat_map(|part| part.to_vec()).collect()
    }

    /// Completes the frame.
    pub(crate) fn finish(&mut self, correlation_id: i32) {
        finish_frame(&mut self.fields, 0, self.slices_bytes);
        self.fields[CORRELATION_ID_AT..CORRELATION_ID_AT + 4]
            .copy_from_slice(&correlation_id.to_be_bytes());
    }

    /// Adds to `out` the parts of the frame past its first `skip` bytes, as many as it has room
    /// for.
    pub(crate) fn parts<'a>(&'a self, skip: usize, out: &mut Vec<IoSlice<'a>>, room: usize) {
        let mut skip = skip;
        let mut add = |part: &'a [u8]| {
            let skipped = skip.min(part.len());
            skip -= skipped;
            let rest = &part[skipped..];
            if !rest.is_empty() && out.len() < room {
                out.push(IoSlice::new(rest));
            }
        };
        let mut start = 0;
        for (end, slice) in &self.slices {
            add(&self.fields[start..*end]);
            add(slice);
            start = *end;
        }
        add(&self.fields[start..]);
    }

    /// The buffer of the fields, for another request.
    pub(crate) fn into_buffer(self) -> Vec<u8> {
        self.fields
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Request {
        let mut request = Request::begin(ApiKey::Produce, 9, "me", vec![1, 2, 3]);
        request.body().extend_from_slice(b"ab");
        request.append_slice(Bytes::from_static(b"RECORDS"));
        request.append_slice(Bytes::new());
        request.body().push(b'c');
        request.append_slice(Bytes::from_static(b"MORE"));
        request.finish(0x0102_0304);
        request
    }

    fn bytes(request: &Request, skip: usize, room: usize) -> Vec<u8> {
        let mut parts = Vec::new();
        request.parts(skip, &mut parts, room);
        assert!(parts.len() <= room);
        parts.iter().flat_map(|part| part.to_vec()).collect()
    }

    #[test]
    fn a_frame_is_its_fields_with_the_slices_between() {
        let request = request();
        let whole = bytes(&request, 0, 8);
        let header = [0, 0, 0, 9, 1, 2, 3, 4, 0, 2, b'm', b'e', 0];
        let mut expect = vec![0, 0, 0, 27];
        expect.extend_from_slice(&header);
        expect.extend_from_slice(b"abRECORDScMORE");
        assert_eq!(whole, expect);
        assert_eq!(whole.len(), request.frame_bytes());
    }

    #[test]
    fn a_write_goes_on_where_the_last_one_ended() {
        let request = request();
        let whole = bytes(&request, 0, 8);
        for skip in 0..=whole.len() {
            assert_eq!(bytes(&request, skip, 8), whole[skip..], "{skip}");
        }
        assert_eq!(bytes(&request, 0, 1), whole[..19]);
        assert_eq!(bytes(&request, 25, 1), whole[25..26]);
    }
}
