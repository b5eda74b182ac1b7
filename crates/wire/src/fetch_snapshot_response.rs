//! A response to FetchSnapshot of one partition, written around its piece, so that this can go from its file to
//! the socket.
//!
//! Both parts are those of [`crate::messages::FetchSnapshotResponse`]; a test holds the two equal in every version.

use crate::messages::FetchSnapshotResponse;
use crate::messages::fetch_snapshot_response::{LeaderIdAndEpoch, NodeEndpoint, PartitionSnapshot};
use model::varint::write_unsigned_varint;
use model::{Array, Element as _, ErrorCode, Message as _, Version, Writer};

/// Writes a response in one version.
#[derive(Debug, Clone, Copy)]
pub struct FetchSnapshotResponseWriter {
    version: Version,
}

impl FetchSnapshotResponseWriter {
    /// A writer for `version`.
    pub fn new(version: i16) -> Self {
        let version = FetchSnapshotResponse::layout(version);
        Self { version }
    }

    /// Appends all up to the piece, which has `piece_bytes`; what `partition` has of it is not looked at.
    pub fn before_piece(
        &self,
        topic: &str,
        partition: &PartitionSnapshot<'_>,
        piece_bytes: usize,
        out: &mut Vec<u8>,
    ) {
        let throttle_time_ms: i32 = 0;
        out.extend_from_slice(&throttle_time_ms.to_be_bytes());
        out.extend_from_slice(&ErrorCode::None.code().to_be_bytes());
        Writer::length(Some(1), true, out);
        Writer::string(Some(topic), true, out);
        Writer::length(Some(1), true, out);
        out.extend_from_slice(&partition.index.to_be_bytes());
        out.extend_from_slice(&partition.error_code.to_be_bytes());
        partition.snapshot_id.encode(self.version, out);
        out.extend_from_slice(&partition.size.to_be_bytes());
        out.extend_from_slice(&partition.position.to_be_bytes());
        Writer::length(Some(piece_bytes), true, out);
    }

    /// Appends all that follows the piece: `node_endpoints` tell where the leader is reached.
    pub fn after_piece(
        &self,
        partition: &PartitionSnapshot<'_>,
        node_endpoints: &Array<'_, NodeEndpoint<'_>>,
        out: &mut Vec<u8>,
    ) {
        let leader = &partition.current_leader;
        let has_leader = *leader != LeaderIdAndEpoch::default();
        write_unsigned_varint(u32::from(has_leader), out);
        if has_leader {
            Writer::tagged(0, leader.encoded_size(self.version), out);
            leader.encode(self.version, out);
        }
        // A topic has no tagged fields.
        write_unsigned_varint(0, out);
        let has_endpoints = self.version.number >= 1 && !node_endpoints.is_empty();
        write_unsigned_varint(u32::from(has_endpoints), out);
        if has_endpoints {
            let size = Array::size_of(Some(node_endpoints), self.version);
            Writer::tagged(0, size, out);
            Array::encode(Some(node_endpoints), self.version, out);
        }
    }
}
