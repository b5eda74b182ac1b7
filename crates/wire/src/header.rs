//! Request and response headers, and the size before a frame.

use crate::ApiKey;
use model::{DecodeError, Reader, Writer};

/// What stands before the body of a request: header version 1, or 2 for a flexible request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestHeader<'a> {
    /// The number of the API, known or not.
    pub api_key: i16,
    /// The version of the request's body.
    pub api_version: i16,
    /// Echoed in the response.
    pub correlation_id: i32,
    /// The client's name for itself.
    pub client_id: Option<&'a str>,
}

impl<'a> RequestHeader<'a> {
    /// Reads the header at the front of a frame.
    ///
    /// The tagged fields of header version 2 are read only when the API is known and the version
    /// flexible; of an unknown API the header ends where version 1 ends.
    ///
    /// # Errors
    /// A [`DecodeError`] when the frame does not start with a header.
    pub fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let header = Self {
            api_key: reader.i16()?,
            api_version: reader.i16()?,
            correlation_id: reader.i32()?,
            client_id: reader.nullable_string(false)?,
        };
        let flexible = ApiKey::from_number(header.api_key)
            .is_some_and(|api| api.is_request_flexible(header.api_version));
        if flexible {
            reader.skip_tagged_fields()?;
        }
        Ok(header)
    }

    /// Appends the header; `flexible` adds the empty tagged fields of header version 2.
    pub fn encode(&self, flexible: bool, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.api_key.to_be_bytes());
        out.extend_from_slice(&self.api_version.to_be_bytes());
        out.extend_from_slice(&self.correlation_id.to_be_bytes());
        Writer::string(self.client_id, false, out);
        if flexible {
            out.push(0);
        }
    }
}

/// What stands before the body of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponseHeader {
    /// The correlation id of the request.
    pub correlation_id: i32,
}

impl ResponseHeader {
    /// Reads a header of `version` (0 or 1).
    ///
    /// # Errors
    /// A [`DecodeError`] when the frame does not start with a header.
    pub fn decode(reader: &mut Reader<'_>, version: i16) -> Result<Self, DecodeError> {
        let header = Self {
            correlation_id: reader.i32()?,
        };
        if version >= 1 {
            reader.skip_tagged_fields()?;
        }
        Ok(header)
    }

    /// Appends a header of `version` (0 or 1).
    pub fn encode(self, version: i16, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.correlation_id.to_be_bytes());
        if version >= 1 {
            out.push(0);
        }
    }
}

/// Appends room for a frame's size and returns where it stands, for [`finish_frame`].
pub fn begin_frame(out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    start
}

/// Writes the size of the frame that began at `start`: `out` after it, and `more_bytes` that
/// follow without being in `out`, such as records that are sent from their file.
///
/// # Panics
/// When the frame is longer than its size can say, which its maker has to prevent.
pub fn finish_frame(out: &mut [u8], start: usize, more_bytes: usize) {
    let size = i32::try_from(out.len() - start - 4 + more_bytes);
    let size = size.expect("a frame is shorter than 2 GiB");
    out[start..start + 4].copy_from_slice(&size.to_be_bytes());
}
