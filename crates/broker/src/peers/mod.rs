//! What this node asks of other nodes. Beside `api`, what others ask of this one, it is the only room in
//! which types of the wire occur.

#[allow(dead_code, reason = "a node alone asks nobody")]
pub(crate) mod connections;
#[allow(dead_code, reason = "a node alone asks nobody")]
pub(crate) mod endpoints;
