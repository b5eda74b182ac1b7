//! Sockets: listeners, connections, frames in, responses out.

mod arriving;
mod bound_listener;
mod budget;
mod configured_limits;
mod connection;
mod connection_context;
mod file_range;
mod frames;
mod idle;
mod limits;
mod listener;
mod loopback;
mod progress;
mod refusals;
mod response;
mod service;
mod sockets;
mod transport;
mod unread;

pub(crate) use arriving::RequestMemory;
pub(crate) use bound_listener::{BoundListener, BoundSocket, Listeners, SocketSettings};
pub(crate) use budget::ByteBudget;
pub(crate) use configured_limits::connection_limits;
pub(crate) use connection::serve;
pub(crate) use connection_context::ConnectionContext;
pub(crate) use file_range::FileRange;
pub(crate) use limits::ConnectionLimits;
pub(crate) use listener::accept;
pub(crate) use response::ResponseBuffer;
pub(crate) use service::{AnswerSize, Served, Service, Weight};
pub(crate) use sockets::Sockets;
pub(crate) use unread::AnswerMemory;
#[cfg(test)]
pub(crate) use {connection::serve_over, file_range::read as read_range, transport::Transport};
