//! Connections that are closed because what they bring cannot be served: a line in the log for
//! whoever set up the client, and no flood of lines for a flood of connections.

use crate::scheduling::log_rate_limit::LogRateLimit;
use std::net::SocketAddr;

/// What was refused at one listener.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    lines: LogRateLimit,
}

impl Refusals {
    /// Logs why a connection is closed, unless the last line is too young.
    pub(crate) fn tell(&self, listener: &str, peer: SocketAddr, client_id: &str, reason: &str) {
        let client_id = shown(client_id);
        match self.lines.due() {
            Some(not_logged) => {
                tracing::warn!(listener, %peer, %client_id, not_logged, reason, "connection closed");
            }
            None => tracing::debug!(listener, %peer, %client_id, reason, "connection closed"),
        }
    }
}

/// How a log shows what a client calls itself: by up to 32,000 characters of any kind, such as those
/// that end a line.
pub(super) fn shown(client_id: &str) -> String {
    let some = client_id.chars().take(200);
    some.flat_map(char::escape_debug).collect()
}

/// What speaks another protocol, by the four bytes that stand where a request has its size.
pub(super) fn stranger(size: i32) -> Option<&'static str> {
    match &size.to_be_bytes() {
        [0x16, 0x03, ..] => Some(
            "this looks like a TLS handshake, and connections are not encrypted here; set \
             `security.protocol=PLAINTEXT` in the client",
        ),
        b"GET " | b"POST" | b"HEAD" | b"PUT " | b"DELE" | b"OPTI" | b"PATC" | b"CONN" | b"PRI " => {
            Some("this looks like HTTP, and only Kafka's protocol is spoken here")
        }
        b"SSH-" => Some("this looks like SSH, and only Kafka's protocol is spoken here"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_writes_no_lines_of_its_own() {
        assert_eq!(shown("me\n\u{1b}[31m\u{e9}"), "me\\n\\u{1b}[31m\u{e9}");
        assert_eq!(shown(&"m".repeat(300)).len(), 200);
    }

    #[test]
    fn other_protocols_are_known_by_their_first_bytes() {
        let of = |bytes: &[u8; 4]| stranger(i32::from_be_bytes(*bytes)).unwrap_or_default();
        assert!(of(b"GET ").contains("HTTP"));
        assert!(of(b"\x16\x03\x01\x02").contains("TLS"));
        assert!(of(b"SSH-").contains("SSH"));
        assert_eq!(of(b"\x00\x00\x00\x20"), "");
    }
}
