//! The application's own transport and authenticator.

use super::fake::{Fake, Reaction, metadata, versions};
use super::run;
use crate::nowhere::Nowhere;
use model::{ErrorCode, Message as _};
use riverrun_client::Error;
use riverrun_client::admin::{Admin, AdminConfig, NewTopic};
use riverrun_client::config::Endpoint;
use riverrun_client::transport::{Authenticator, BoxFuture, ByteStream, Exchange, Transport};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use testkit::TestServer;
use tokio::io::BufWriter;
use tokio::net::TcpStream;
use wire::ApiKey;
use wire::messages::{SaslAuthenticateResponse, SaslHandshakeResponse};

/// Leads everywhere to one address, by streams that keep bytes back until they are flushed.
#[derive(Debug)]
struct Tunnel {
    to: SocketAddr,
    count: AtomicUsize,
}

impl Transport for Tunnel {
    fn connect<'a>(
        &'a self,
        endpoint: &'a Endpoint,
    ) -> BoxFuture<'a, io::Result<Box<dyn ByteStream>>> {
        Box::pin(async move {
            self.count.fetch_add(1, Ordering::Relaxed);
            if &*endpoint.host == "closed.invalid" {
                return Err(io::Error::other("the tunnel does not lead there"));
            }
            let stream = TcpStream::connect(self.to).await?;
            Ok(Box::new(BufWriter::new(stream)) as Box<dyn ByteStream>)
        })
    }
}

fn tunnelled(broker: &str, to: SocketAddr) -> (Arc<Tunnel>, Admin) {
    let tunnel = Arc::new(Tunnel {
        to,
        count: AtomicUsize::new(0),
    });
    let mut config = AdminConfig::with_bootstrap_servers(broker).unwrap();
    config.set("default.api.timeout.ms", "20000").unwrap();
    config.client.connector.transport = Some(tunnel.clone());
    (tunnel, Admin::new(config).unwrap())
}

#[test]
fn everything_goes_over_the_transport_of_the_application() {
    let server = TestServer::start(&[]);
    run(async {
        let (tunnel, admin) = tunnelled("broker.invalid:9092", server.address());
        let created = admin.create_topics(&[NewTopic::new("t")]).await;
        assert!(created["t"].is_ok(), "{created:?}");
        assert!(tunnel.count.load(Ordering::Relaxed) > 0);
    });
}

#[test]
fn what_the_transport_meets_is_told() {
    run(async {
        let nowhere = Nowhere::new();
        let mut config = AdminConfig::with_bootstrap_servers("closed.invalid:9092").unwrap();
        config.set("default.api.timeout.ms", "2000").unwrap();
        config.client.connector.transport = Some(Arc::new(Tunnel {
            to: nowhere.address,
            count: AtomicUsize::new(0),
        }));
        let admin = Admin::new(config).unwrap();
        let error = admin.describe_cluster().await.expect_err("no tunnel");
        let text = error.to_string();
        assert!(text.contains("the tunnel does not lead there"), "{text}");
    });
}

/// Says `hello`, then `proof` to the right challenge.
#[derive(Debug)]
struct Secret;

impl Authenticator for Secret {
    fn mechanism(&self) -> &str {
        "SECRET"
    }

    fn begin(&self, endpoint: &Endpoint) -> Box<dyn Exchange> {
        assert_eq!(&*endpoint.host, "127.0.0.1");
        Box::new(Saying)
    }
}

struct Saying;

impl Exchange for Saying {
    fn respond(&mut self, challenge: Option<&[u8]>) -> Result<Option<Vec<u8>>, String> {
        match challenge {
            None => Ok(Some(b"hello".to_vec())),
            Some(b"challenge") => Ok(Some(b"proof".to_vec())),
            Some(b"welcome") => Ok(None),
            Some(_) => Err("the broker does not know the secret".to_owned()),
        }
    }
}

/// Asks a broker that answers authentication with these, in order; what it was asked comes with the
/// answer.
async fn authenticated(
    handshake: ErrorCode,
    answers: Vec<Result<&'static [u8], &'static str>>,
) -> (Vec<ApiKey>, Result<(), Error>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = asked.clone();
    let fake = Fake::start(move |address, request| {
        log.lock().unwrap().push(request.api);
        match request.api {
            ApiKey::ApiVersions => versions(request),
            ApiKey::SaslHandshake => {
                let mechanisms = ["PLAIN", "SECRET"];
                let response = SaslHandshakeResponse {
                    error_code: handshake.code(),
                    mechanisms: mechanisms.into_iter().collect(),
                };
                Reaction::Answer(response.to_bytes(request.version))
            }
            ApiKey::SaslAuthenticate => {
                // After ApiVersions and the handshake.
                let answer = answers[request.index - 2];
                let code = answer.map_or(ErrorCode::SaslAuthenticationFailed, |_| ErrorCode::None);
                let response = SaslAuthenticateResponse {
                    error_code: code.code(),
                    error_message: answer.err(),
                    auth_bytes: answer.unwrap_or_default(),
                    ..SaslAuthenticateResponse::default()
                };
                Reaction::Answer(response.to_bytes(request.version))
            }
            ApiKey::Metadata => metadata(request, address, ErrorCode::None),
            _ => Reaction::Close,
        }
    })
    .await;
    let mut config = AdminConfig::with_bootstrap_servers(&fake.address.to_string()).unwrap();
    for (key, value) in [
        ("default.api.timeout.ms", "5000"),
        ("reconnect.backoff.ms", "100"),
        ("reconnect.backoff.max.ms", "100"),
    ] {
        config.set(key, value).unwrap();
    }
    config.client.connector.authenticator = Some(Arc::new(Secret));
    let admin = Admin::new(config).unwrap();
    let listed = admin.list_topics().await.map(|_| ());
    let asked = asked.lock().unwrap().clone();
    (asked, listed)
}

#[test]
fn a_connection_is_authenticated_before_anything_else_is_asked() {
    run(async {
        let answers = vec![Ok(&b"challenge"[..]), Ok(b"welcome")];
        let (asked, listed) = authenticated(ErrorCode::None, answers).await;
        listed.unwrap();
        let expected = [
            ApiKey::ApiVersions,
            ApiKey::SaslHandshake,
            ApiKey::SaslAuthenticate,
            ApiKey::SaslAuthenticate,
            ApiKey::Metadata,
        ];
        assert_eq!(asked[..5], expected);
    });
}

#[test]
fn whoever_is_not_believed_hears_why() {
    let check = async |handshake, answers, expected: &str| {
        let (asked, listed) = authenticated(handshake, answers).await;
        assert!(!asked.contains(&ApiKey::Metadata), "{asked:?}");
        let text = listed.expect_err("nothing is listed").to_string();
        assert!(text.contains(expected), "{text}");
    };
    let refused = vec![Err("the proof is wrong")];
    let suspicious = vec![Ok(&b"nonsense"[..])];
    let unsupported = ErrorCode::UnsupportedSaslMechanism;
    // Each asks until its time is over, all at the same time.
    run(async {
        tokio::join!(
            check(ErrorCode::None, refused, "the proof is wrong"),
            check(
                ErrorCode::None,
                suspicious,
                "the broker does not know the secret",
            ),
            check(unsupported, Vec::new(), "it offers PLAIN, SECRET"),
        );
    });
}
