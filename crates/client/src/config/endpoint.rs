//! Where a broker listens, as a setting.

use super::Setting;

pub use connection::Endpoint;

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
