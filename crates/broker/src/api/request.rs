//! A request whose header is read, and what every answer shares: its header, its size, its bounds.

use crate::api::broker::Broker;
use crate::api::cluster_node::ClusterNode;
use crate::coordinators::groups::GroupRoom;
use crate::net::ResponseBuffer;
use model::{DecodeError, ErrorCode, InvalidStrings, Message, Reader};
use std::time::Duration;
use wire::{ApiKey, ResponseHeader};

/// No answer is longer. Its size has 31 bits; a client that gets so much to read at once asks for
/// less.
pub(crate) const ANSWER_MAX_BYTES: usize = 1 << 30;

/// A request whose header is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request<'f> {
    /// Which API.
    pub(crate) api: ApiKey,
    /// The version of the body and of the answer.
    pub(crate) version: i16,
    /// Goes back with the answer.
    pub(crate) correlation_id: i32,
    /// What follows the header.
    pub(crate) body: &'f [u8],
    /// Where strings of the body are noted that are not UTF-8.
    pub(super) invalid: &'f InvalidStrings,
    /// How many elements the arrays of the body may have in all.
    pub(crate) elements_max: usize,
    /// Whether it waits for room before a response is made that may be large.
    pub(super) waits_for_room: bool,
}

/// A request may have so many elements whatever its size, and one for so many bytes that it has or
/// that the largest may have (`socket.request.max.bytes`). What is kept of an element while it is
/// served takes some hundred bytes, however short it is.
const ELEMENTS_FREE: usize = 10_000;
const BYTES_PER_ELEMENT: usize = 32;
const LARGEST_BYTES_PER_ELEMENT: usize = 512;

/// How many elements the arrays of a request may have in all.
pub(super) fn elements_max(server: &ClusterNode, frame_bytes: usize) -> usize {
    let largest_bytes = server.node.config.network.socket_request_max_bytes;
    ELEMENTS_FREE
        .max(frame_bytes / BYTES_PER_ELEMENT)
        .max(largest_bytes.max(0) as usize / LARGEST_BYTES_PER_ELEMENT)
}

impl<'f> Request<'f> {
    /// The request's message.
    ///
    /// # Errors
    /// A [`DecodeError`]; Kafka closes the connection then.
    pub(crate) fn decode<M: Message<'f>>(&self) -> Result<M, DecodeError> {
        let mut reader = Reader::new(self.body).with_elements_max(self.elements_max);
        let decoded = M::read(&mut reader, self.version);
        if let Err(DecodeError::InvalidUtf8) = decoded {
            self.note_invalid_strings::<M>(self.body)?;
        }
        decoded
    }

    /// Notes the strings of a body that are not UTF-8.
    ///
    /// # Errors
    /// What else is wrong with it.
    pub(super) fn note_invalid_strings<'b, M: Message<'b>>(
        &self,
        body: &'b [u8],
    ) -> Result<(), DecodeError>
    where
        'f: 'b,
    {
        let reader = Reader::noting(body, self.invalid);
        M::read(
            &mut reader.with_elements_max(self.elements_max),
            self.version,
        )
        .map(|_| ())
    }

    /// Appends the answer, header and size included.
    pub(crate) fn answer<'m, M: Message<'m>>(&self, response: &M, out: &mut ResponseBuffer) {
        self.answer_as(response, self.version, out);
    }

    /// Appends the answer in another version than the request's.
    pub(crate) fn answer_as<'m, M: Message<'m>>(
        &self,
        response: &M,
        version: i16,
        out: &mut ResponseBuffer,
    ) {
        let start = self.begin_answer_as(version, &mut out.head);
        let size = response.size(version);
        if size > ANSWER_MAX_BYTES {
            out.refuse(start, size);
            return;
        }
        out.head.reserve(size);
        response.encode(M::layout(version), &mut out.head);
        wire::finish_frame(&mut out.head, start, 0);
    }
}

/// A request that outlives its frame: what a coordinator's thread reads it from.
#[derive(Debug)]
pub(crate) struct KeptRequest {
    version: i16,
    elements_max: usize,
    body: Box<[u8]>,
}

impl KeptRequest {
    /// The request's message, which was decoded before.
    pub(crate) fn message<'k, M: Message<'k>>(&'k self) -> M {
        let mut reader = Reader::new(&self.body).with_elements_max(self.elements_max);
        M::read(&mut reader, self.version).expect("it was decoded before")
    }
}

impl Request<'_> {
    /// Waits for room in the partition of a group, before the request is kept.
    ///
    /// # Errors
    /// `NotCoordinator` when the partition is not here.
    pub(crate) async fn room_at(
        &self,
        broker: &Broker,
        group_id: &str,
    ) -> Result<GroupRoom, ErrorCode> {
        let groups = &broker.coordinators.groups;
        groups.room_for(group_id, self.body.len()).await
    }

    /// Waits for room for a response that may be large, before it is made: once a coordinator or the controller has
    /// answered, for which many may have waited together.
    pub(crate) async fn room(&self, server: &ClusterNode) {
        if self.waits_for_room {
            server.sockets.answer_memory.room_again().await;
        }
    }

    /// The request for as long as somebody wants it who has room for it.
    pub(crate) fn keep(&self) -> KeptRequest {
        KeptRequest {
            version: self.version,
            elements_max: self.elements_max,
            body: Box::from(self.body),
        }
    }

    /// Appends room for the answer's size, and its header; returns where it begins, for
    /// [`wire::finish_frame`].
    pub(crate) fn begin_answer(&self, out: &mut Vec<u8>) -> usize {
        self.begin_answer_as(self.version, out)
    }

    /// Ends an answer that was appended to `out` after [`Self::begin_answer`] had said `start`.
    pub(crate) fn finish_answer(&self, start: usize, out: &mut ResponseBuffer) {
        let bytes = out.head.len() - start;
        match bytes > ANSWER_MAX_BYTES {
            true => out.refuse(start, bytes),
            false => wire::finish_frame(&mut out.head, start, 0),
        }
    }

    /// Ends an answer with `file_bytes` of records beside `out.head`. A batch goes out however long
    /// it is, if the size of a frame can say so.
    pub(crate) fn finish_answer_with_records(
        &self,
        start: usize,
        file_bytes: usize,
        out: &mut ResponseBuffer,
    ) {
        let bytes = out.head.len() - start + file_bytes;
        match i32::try_from(bytes) {
            Ok(_) => wire::finish_frame(&mut out.head, start, file_bytes),
            Err(_) => out.refuse(start, bytes),
        }
    }

    pub(super) fn begin_answer_as(&self, version: i16, out: &mut Vec<u8>) -> usize {
        let start = wire::begin_frame(out);
        let header = ResponseHeader {
            correlation_id: self.correlation_id,
        };
        header.encode(self.api.response_header_version(version), out);
        start
    }
}

/// How long a client waits that gives a request so many milliseconds.
pub(super) fn limit_of(timeout_ms: i32) -> Duration {
    Duration::from_millis(timeout_ms.max(0).unsigned_abs().into())
}
