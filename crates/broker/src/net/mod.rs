//! Sockets: listeners, connections, frames in, responses out.

mod connection;
mod frames;
mod limits;
mod listener;
mod response;

pub(crate) use connection::ConnectionContext;
pub(crate) use limits::{ConnectionLimits, Limits, ListenerLimit};
pub(crate) use listener::{BoundListener, Listeners};
pub(crate) use response::{FileRange, ResponseBuffer};
