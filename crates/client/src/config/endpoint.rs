//! Where a broker listens: a host and a port.

use super::Setting;
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

impl Setting for Endpoint {
    /// Reads `host:port`, with or without the name of a listener as in `PLAINTEXT://host:port`.
    fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not `host:port`, such as `localhost:9092`");
        let address = text.split_once("://").map_or(text, |(_, address)| address);
        let (host, port) = address.rsplit_once(':').ok_or_else(wrong)?;
        let host = match host.strip_prefix('[') {
            Some(bracketed) => bracketed.strip_suffix(']').ok_or_else(wrong)?,
            None if host.contains(':') => return Err(wrong()),
            None => host,
        };
        let is_host = |c: char| c.is_ascii_alphanumeric() || ".-_:%".contains(c);
        if host.is_empty() || !host.chars().all(is_host) {
            return Err(wrong());
        }
        match port.parse() {
            Ok(port) if port > 0 => Ok(Self::new(host, port)),
            _ => Err(wrong()),
        }
    }

    fn text(&self) -> String {
        self.to_string()
    }
}
