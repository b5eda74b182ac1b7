//! Where a broker listens: a host and a port.

use std::fmt;
use std::sync::Arc;

/// A host name or address, and a port; shown as `host:port`, an IPv6 address in brackets.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    /// The name or address, without brackets.
    pub host: Arc<str>,
    /// The port.
    pub port: u16,
}

impl Endpoint {
    /// The endpoint of this host and port.
    pub fn new(host: &str, port: u16) -> Self {
        Self {
            host: host.into(),
            port,
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') {
            write!(f, "[{host}]:{port}")
        } else {
            write!(f, "{host}:{port}")
        }
    }
}
