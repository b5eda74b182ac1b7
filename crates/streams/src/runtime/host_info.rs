//! Where an instance answers.

use super::ConfigError;
use crate::assignor::HOST_BYTES_MAX;
use std::fmt;
use std::str::FromStr;

/// Where an instance answers what others ask it: its `application.server`. What is asked and how is the application's.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostInfo {
    /// A name or an address.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl fmt::Display for HostInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl FromStr for HostInfo {
    type Err = ConfigError;

    /// Reads `host:port`, and `[address]:port` of an IPv6 address.
    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let invalid = || ConfigError::Invalid {
            key: "application.server".to_owned(),
            value: text.to_owned(),
            reason: "it is not `host:port`".to_owned(),
        };
        let (host, port) = text.rsplit_once(':').ok_or_else(invalid)?;
        let bare = host
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        let host = bare.unwrap_or(host);
        // No name is longer, and no leader of a group tells of one that is.
        let is_host =
            (1..=HOST_BYTES_MAX).contains(&host.len()) && (bare.is_some() || !host.contains(':'));
        match port.parse() {
            Ok(port) if is_host => Ok(Self {
                host: host.to_owned(),
                port,
            }),
            _ => Err(invalid()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_a_host_and_a_port() {
        let check = |text: &str, expected: Option<(&str, u16)>| {
            let read = text.parse::<HostInfo>().ok();
            let read_parts = read.as_ref().map(|read| (read.host.as_str(), read.port));
            assert_eq!(read_parts, expected, "{text}");
            if let Some(read) = read {
                assert_eq!(read.to_string(), text);
            }
        };
        check("one.example:7070", Some(("one.example", 7070)));
        check("[::1]:1", Some(("::1", 1)));
        check("one.example", None);
        check(&format!("{}:1", "h".repeat(256)), None);
        check(":7070", None);
        check("::1:7070", None);
        check("one.example:70700", None);
        check("one.example:", None);
    }
}
