//! What a connection needs to know of who makes it.

use crate::{Backoff, Connector};
use std::time::Duration;

/// How connections are made and used. The caller says who it is: nothing here has a default.
#[derive(Debug, Clone)]
pub struct Options {
    /// What the broker's logs and quotas call the caller.
    pub client_id: String,
    /// How the caller's software calls itself to brokers, which count clients by it (KIP-511).
    pub software_name: &'static str,
    /// Which version of the software it is.
    pub software_version: &'static str,
    /// How long the answer to one request may take, in ms, unless the request says otherwise.
    pub request_timeout_ms: u64,
    /// How long a connection may take to be made, in ms: the first attempt has the base, and those after
    /// failures have more, up to the most (KIP-601). Each address of a name has this time.
    pub setup_timeout: Backoff,
    /// How long a [`Peer`](crate::Peer) waits after failures to connect.
    pub reconnect: Backoff,
    /// How long a connection may be idle before it is closed; `None` for ever. Closing may take as much
    /// longer as the last request had left until its deadline.
    pub idle_max: Option<Duration>,
    /// The socket's buffer for sending, in bytes; `None` leaves it to the system.
    pub send_buffer_bytes: Option<u32>,
    /// The socket's buffer for receiving, in bytes; `None` leaves it to the system.
    pub receive_buffer_bytes: Option<u32>,
    /// The largest response that is read, in bytes; a larger one ends the connection.
    pub response_bytes_max: usize,
    /// The most requests that are without an answer at a time.
    pub in_flight_max: usize,
    /// The longest that an answer can hold the next requests up (KIP-219); a longer time counts as this one.
    pub hold_max: Duration,
    /// What carries the bytes, and who proves who the caller is.
    pub connector: Connector,
    /// What errors call these settings.
    pub names: SettingNames,
}

/// What the caller calls its settings, so that errors name what to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettingNames {
    /// Where the addresses come from, such as `bootstrap.servers`.
    pub addresses: &'static str,
    /// [`Options::request_timeout_ms`].
    pub request_timeout: &'static str,
    /// [`Options::setup_timeout`].
    pub setup_timeout: &'static str,
    /// [`Options::idle_max`].
    pub idle_max: &'static str,
    /// [`Options::response_bytes_max`].
    pub response_bytes_max: &'static str,
}
