//! Connections to brokers, for whoever has something to ask them: one task each, many requests at a
//! time.
//!
//! ```text
//!   Peer         one address: its live connection, or one attempt once the backoff is over
//!     │            Transport or TCP ── ApiVersions ── SaslHandshake, SaslAuthenticate
//!   Connection   send(Request) ──> queue ──┐                              ┌──> Pending ──> Response
//!                                          └─ task: vectored write, read ─┘
//!
//!   pure:  versions   what both sides serve          request    a frame in parts, slices not copied
//!          backoff    how long to wait               frames     bytes ──> frames, within a limit
//!          throttle   what answers ask for           pipeline   frames ──> whose answer each is
//! ```
//!
//! It knows a broker, not a cluster: neither bootstrap addresses nor metadata, nor what the requests
//! are about. Who uses it says in its [`Options`] who it is and what its settings are called.
//!
//! Invariants:
//! - Requests leave in the order in which the queue took them, and brokers answer in order: the oldest
//!   request in flight owns the next frame. A frame with another correlation id ends the connection.
//! - Queue and requests in flight are bounded; who would exceed them waits until its deadline, or hears
//!   that there is no room.
//! - A size that a peer announces is believed only as far as bytes arrive: nothing is allocated beyond
//!   four times what has arrived, or what an earlier frame took. One beyond
//!   [`Options::response_bytes_max`] ends the connection before its bytes are read.
//! - An answer is the bytes of its frame, which what is decoded from it borrows. Only small ones are
//!   copied, so that they do not hold a large buffer.
//! - Every wait has a deadline. A request without an answer by its own ends the connection, since no
//!   answer after it can come: it gets [`Error::TimedOut`], the others [`Error::Disconnected`].
//! - Dropping a [`Pending`] discards the answer, never the request: what has left may have been done.
//! - A connection that has ended fails everything that waits, and each later request at once, with why
//!   it ended. It does not come back: nothing here sends a request twice.
//! - A connection that nobody uses for [`Options::idle_max`] ends, and so does one that every holder has
//!   dropped, after the last answer.
//! - A broker that wants no more requests for some time (KIP-219) gets none until then.
//! - A [`Peer`] is connected to once for all who ask, and not before the backoff of its failures is
//!   over. Random numbers are the caller's.

#![forbid(unsafe_code)]

mod backoff;
mod connection;
mod deadline;
mod duplex;
mod endpoint;
mod error;
mod frames;
mod open;
mod options;
mod pacing;
mod peer;
mod pipeline;
mod request;
mod response;
mod shared;
mod task;
mod tcp;
#[cfg(test)]
mod tests;
mod throttle;
mod transport;
mod versions;

pub use backoff::Backoff;
pub use connection::{Connection, Pending, Sent};
pub use deadline::Deadline;
pub use endpoint::Endpoint;
pub use error::Error;
pub use options::{Options, SettingNames};
pub use pacing::stop_pacing;
pub use peer::{Called, Peer};
pub use request::Request;
pub use response::Response;
pub use transport::{Authenticator, BoxFuture, ByteStream, Connector, Exchange, Transport};
pub use versions::ServedVersions;
