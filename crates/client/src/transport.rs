//! Where a client meets its brokers: hooks for what carries the bytes, and for who proves who it is.
//!
//! ```text
//!   Transport::connect(endpoint) ──> stream ── ApiVersions ── SaslHandshake, SaslAuthenticate ──> requests
//!                                                                Exchange::respond(challenge)
//! ```
//!
//! A [`Connector`] with both stands in every configuration, as
//! [`ClientConfig::connector`](crate::ClientConfig::connector). Without them bytes go over TCP, and
//! nobody is authenticated. A transport that encrypts is all there is to TLS: `security.protocol`
//! stays `PLAINTEXT`.
//!
//! ```
//! use riverrun_client::config::Endpoint;
//! use riverrun_client::transport::{BoxFuture, ByteStream, Transport};
//! use riverrun_client::ClientConfig;
//! use std::sync::Arc;
//!
//! /// Reaches every broker through one tunnel.
//! #[derive(Debug)]
//! struct Tunnel;
//!
//! impl Transport for Tunnel {
//!     fn connect<'a>(&'a self, broker: &'a Endpoint) -> BoxFuture<'a, std::io::Result<Box<dyn ByteStream>>> {
//!         Box::pin(async move {
//!             let stream = tokio::net::TcpStream::connect("localhost:1080").await?;
//!             // ... ask the tunnel for `broker.host` and `broker.port`, or encrypt ...
//!             Ok(Box::new(stream) as Box<dyn ByteStream>)
//!         })
//!     }
//! }
//!
//! let mut config = ClientConfig::with_bootstrap_servers("broker.example:9092")?;
//! config.connector.transport = Some(Arc::new(Tunnel));
//! # Ok::<(), riverrun_client::Error>(())
//! ```

pub use connection::{Authenticator, BoxFuture, ByteStream, Connector, Exchange, Transport};
