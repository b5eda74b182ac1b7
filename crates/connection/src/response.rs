//! An answer as it came: what is decoded from it borrows from it. Pure.

use crate::Error;
use bytes::Bytes;
use std::sync::Arc;

/// The body of a response, still encoded: what is decoded from it borrows from it.
#[derive(Debug, Clone)]
pub struct Response {
    address: Arc<str>,
    version: i16,
    body: Bytes,
}

impl Response {
    /// The answer of the broker that errors call `address`.
    pub(crate) const fn new(address: Arc<str>, version: i16, body: Bytes) -> Self {
        Self {
            address,
            version,
            body,
        }
    }

    /// The version of the response, which is the request's.
    pub const fn version(&self) -> i16 {
        self.version
    }

    /// The encoded body; empty for a request that is not answered, once it has left.
    pub const fn body(&self) -> &Bytes {
        &self.body
    }

    /// The broker's address, as errors name it.
    pub fn address(&self) -> &Arc<str> {
        &self.address
    }

    /// The slice of the body that `part`, a view that was decoded from it, stands for; shares its
    /// memory.
    pub fn slice_of(&self, part: &[u8]) -> Bytes {
        self.body.slice_ref(part)
    }

    /// Decodes the response.
    ///
    /// # Errors
    /// [`Error::Malformed`] when it is not one.
    pub fn read<'a, M: model::Message<'a>>(&'a self) -> Result<M, Error> {
        M::from_bytes(&self.body, self.version).map_err(|error| Error::Malformed {
            address: self.address.to_string(),
            reason: format!("{} version {}: {error}", M::NAME, self.version),
        })
    }
}
