//! Peers that are no broker, or a broken one: each gives a clear error within its timeout.

use super::fake::{Asked, Fake, Reaction, metadata, versions};
use super::{admin, run};
use crate::nowhere::Nowhere;
use model::{BrokerId, ErrorCode, Message as _};
use riverrun_client::Error;
use riverrun_client::admin::ClusterDescription;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use wire::ApiKey;
use wire::messages::api_versions_response::ApiVersion;
use wire::messages::{ApiVersionsResponse, DescribeClusterResponse};

/// Short enough that a test may wait for all of them, and long for what is in this process.
const SHORT: &[(&str, &str)] = &[
    ("request.timeout.ms", "1000"),
    ("default.api.timeout.ms", "3000"),
    ("socket.connection.setup.timeout.ms", "1000"),
    ("socket.connection.setup.timeout.max.ms", "1000"),
];

/// The first attempt is the last, as a call ends at once when its time is sure to end before the next one:
/// so nothing but what the peer does decides what the error is.
const ONCE: &[(&str, &str)] = &[
    ("request.timeout.ms", "1000"),
    ("default.api.timeout.ms", "20000"),
    ("retry.backoff.ms", "60000"),
    ("retry.backoff.max.ms", "60000"),
];

async fn describe(address: SocketAddr) -> Result<ClusterDescription, Error> {
    admin(address, ONCE).describe_cluster().await
}

/// Expects the error for a peer that reacts so, with its address as `PEER`, to hold these parts.
fn check(react: impl Fn(SocketAddr, Asked) -> Reaction + Send + Sync + 'static, parts: &[&str]) {
    run(async {
        let fake = Fake::start(react).await;
        let missing = async || {
            let error = describe(fake.address).await.expect_err("is no broker");
            let error = error.to_string();
            let error = error.replace(&fake.address.to_string(), "PEER");
            let missing = parts.iter().find(|part| !error.contains(**part));
            missing.map(|part| format!("`{part}` is not in: {error}"))
        };
        // Of two requests on a connection that get no answer, either may be the one that is given up.
        while let Some(missing) = missing().await {
            assert!(missing.contains("got no answer within"), "{missing}");
        }
    });
}

#[test]
fn a_port_where_nothing_listens_is_unreachable() {
    run(async {
        let nowhere = Nowhere::new();
        let error = describe(nowhere.address)
            .await
            .expect_err("nothing is there");
        assert!(matches!(error, Error::Unreachable { .. }), "{error}");
        let error = error.to_string();
        for part in [
            &*nowhere.address.to_string(),
            "refused",
            "`bootstrap.servers`",
        ] {
            assert!(error.contains(part), "`{part}` is not in: {error}");
        }
    });
}

#[test]
fn a_name_without_an_address_is_unreachable() {
    run(async {
        let pairs = [("bootstrap.servers", "no-such-host.invalid:9092")];
        let pairs = pairs.iter().chain(ONCE).copied();
        let config = riverrun_client::admin::AdminConfig::from_pairs(pairs).unwrap();
        let admin = riverrun_client::admin::Admin::new(config).unwrap();
        let error = admin.describe_cluster().await.expect_err("no address");
        let error = error.to_string();
        assert!(error.contains("no-such-host.invalid"), "{error}");
        assert!(error.contains("`bootstrap.servers`"), "{error}");
    });
}

#[test]
fn a_peer_that_never_answers_times_out() {
    check(
        |_, _| Reaction::Hang,
        &["ApiVersions", "PEER", "`request.timeout.ms`"],
    );
}

#[test]
fn a_peer_that_closes_is_asked_what_it_is() {
    check(|_, _| Reaction::Close, &["PEER", "PLAINTEXT listener"]);
}

#[test]
fn a_web_server_is_recognized() {
    let http = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n";
    check(
        |_, _| Reaction::Bytes(http.to_vec()),
        &["PEER", "`HTTP`", "`bootstrap.servers`"],
    );
}

#[test]
fn a_tls_port_is_recognized() {
    let alert = [0x15, 3, 3, 0, 2, 2, 70];
    check(
        move |_, _| Reaction::Bytes(alert.to_vec()),
        &["PEER", "TLS", "PLAINTEXT"],
    );
}

#[test]
fn an_answer_that_claims_to_be_huge_is_refused() {
    check(
        |_, _| Reaction::Bytes(vec![0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0]),
        &["PEER", "2147483647", "`receive.message.max.bytes`"],
    );
}

#[test]
fn a_negative_size_is_refused() {
    check(
        |_, _| Reaction::Bytes(vec![0xff, 0xff, 0xff, 0xfe]),
        &["PEER", "-2 bytes"],
    );
}

#[test]
fn an_answer_to_something_else_is_refused() {
    check(
        |_, asked| match asked.api {
            ApiKey::ApiVersions => versions(asked),
            _ => Reaction::WrongCorrelationId(Vec::new()),
        },
        &["PEER", "correlation id"],
    );
}

#[test]
fn a_body_that_ends_early_is_refused() {
    check(
        |_, asked| match asked.api {
            ApiKey::ApiVersions => versions(asked),
            _ => Reaction::Answer(vec![0; 3]),
        },
        &["PEER", "end within a field"],
    );
}

#[test]
fn a_request_without_an_answer_times_out() {
    check(
        |peer, asked| match asked.api {
            ApiKey::ApiVersions => versions(asked),
            ApiKey::Metadata => metadata(asked, peer, ErrorCode::None),
            _ => Reaction::Hang,
        },
        &["DescribeCluster", "PEER", "`request.timeout.ms`"],
    );
}

#[test]
fn an_advertised_address_that_is_wrong_is_named() {
    run(async {
        let nowhere = Nowhere::new();
        let address = nowhere.address;
        let fake = Fake::start(move |_, asked| match asked.api {
            ApiKey::ApiVersions => versions(asked),
            _ => metadata(asked, address, ErrorCode::None),
        })
        .await;
        let admin = admin(fake.address, SHORT);
        let described = admin.describe_log_dirs(Some(&[BrokerId(1)])).await.unwrap();
        let error = described[&BrokerId(1)]
            .as_ref()
            .expect_err("nothing is there");
        let error = error.to_string();
        for part in [&*address.to_string(), "broker 1", "`advertised.listeners`"] {
            assert!(error.contains(part), "`{part}` is not in: {error}");
        }
    });
}

#[test]
fn metadata_without_a_broker_is_refused() {
    run(async {
        let fake = Fake::start(|_, asked| match asked.api {
            ApiKey::ApiVersions => versions(asked),
            _ => Reaction::Answer(
                wire::messages::MetadataResponse::default().to_bytes(asked.version),
            ),
        })
        .await;
        let error = admin(fake.address, SHORT).describe_log_dirs(None).await;
        let error = error.expect_err("there is no broker").to_string();
        assert!(error.contains("without a single broker"), "{error}");
        assert!(error.contains(&fake.address.to_string()), "{error}");
    });
}

fn cluster(asked: Asked) -> Reaction {
    let response = DescribeClusterResponse {
        cluster_id: "fake",
        ..DescribeClusterResponse::default()
    };
    Reaction::Answer(response.to_bytes(asked.version))
}

#[test]
fn an_old_broker_is_asked_again_in_a_version_that_it_knows() {
    run(async {
        let fake = Fake::start(|_, asked| match (asked.api, asked.version) {
            (ApiKey::ApiVersions, 3..) => {
                let apis = [ApiVersion {
                    api_key: ApiKey::ApiVersions as i16,
                    min_version: 0,
                    max_version: 2,
                }];
                let response = ApiVersionsResponse {
                    error_code: ErrorCode::UnsupportedVersion.code(),
                    api_keys: apis[..].into(),
                    ..ApiVersionsResponse::default()
                };
                Reaction::Answer(response.to_bytes(0))
            }
            (ApiKey::ApiVersions, version) => {
                assert_eq!((version, asked.index), (2, 1));
                versions(asked)
            }
            (ApiKey::Metadata, _) => Reaction::Hang,
            _ => cluster(asked),
        })
        .await;
        let described = describe(fake.address).await.unwrap();
        assert_eq!(described.cluster_id, "fake");
    });
}

#[test]
fn a_broker_that_refuses_every_version_is_not_asked_for_ever() {
    check(
        |_, _| {
            let response = ApiVersionsResponse {
                error_code: ErrorCode::UnsupportedVersion.code(),
                ..ApiVersionsResponse::default()
            };
            Reaction::Answer(response.to_bytes(0))
        },
        &["PEER", "UNSUPPORTED_VERSION"],
    );
}

#[test]
fn what_a_broker_does_not_serve_is_named() {
    check(
        |_, asked| match asked.api {
            ApiKey::ApiVersions => {
                let apis = [ApiVersion {
                    api_key: ApiKey::DescribeCluster as i16,
                    min_version: 90,
                    max_version: 99,
                }];
                let response = ApiVersionsResponse {
                    api_keys: apis[..].into(),
                    ..ApiVersionsResponse::default()
                };
                Reaction::Answer(response.to_bytes(asked.version))
            }
            _ => Reaction::Hang,
        },
        &["PEER", "does not support Metadata"],
    );
}

#[test]
fn a_broker_that_says_so_makes_the_client_start_again() {
    run(async {
        let asked_count = AtomicUsize::new(0);
        let fake = Fake::start(move |peer, asked| match asked.api {
            ApiKey::ApiVersions => versions(asked),
            ApiKey::Metadata if asked_count.fetch_add(1, Ordering::Relaxed) == 0 => {
                metadata(asked, peer, ErrorCode::RebootstrapRequired)
            }
            ApiKey::Metadata => metadata(asked, peer, ErrorCode::None),
            _ => Reaction::Answer(
                wire::messages::DescribeLogDirsResponse::default().to_bytes(asked.version),
            ),
        })
        .await;
        let described = admin(fake.address, SHORT).describe_log_dirs(None).await;
        assert!(described.unwrap()[&BrokerId(1)].is_ok());
    });
}

#[test]
fn when_no_known_broker_answers_the_client_starts_again() {
    run(async {
        let nowhere = Nowhere::new();
        let address = nowhere.address;
        // The only known broker is not there, so that each request goes over bootstrap; a
        // connection serves one request beside ApiVersions.
        let fake = Fake::start(move |_, asked| match (asked.index, asked.api) {
            (0, _) => versions(asked),
            (1, ApiKey::Metadata) => metadata(asked, address, ErrorCode::None),
            (1, _) => cluster(asked),
            _ => Reaction::Close,
        })
        .await;
        let admin = admin(fake.address, &[("retry.backoff.ms", "1")]);
        for _ in 0..5 {
            let described = admin.describe_cluster().await.unwrap();
            assert_eq!(described.cluster_id, "fake");
        }
    });
}

#[test]
fn without_a_recovery_strategy_the_client_stays_with_the_brokers_it_knows() {
    run(async {
        let nowhere = Nowhere::new();
        let address = nowhere.address;
        let fake = Fake::start(move |_, asked| match (asked.index, asked.api) {
            (0, _) => versions(asked),
            (1, ApiKey::Metadata) => metadata(asked, address, ErrorCode::None),
            _ => Reaction::Close,
        })
        .await;
        let mut keys = SHORT.to_vec();
        keys.push(("metadata.recovery.strategy", "none"));
        let admin = admin(fake.address, &keys);
        let described = admin.describe_log_dirs(None).await;
        assert_eq!(described.map(|brokers| brokers.len()), Ok(1));
        let error = admin.describe_cluster().await.expect_err("it is not there");
        let error = error.to_string();
        assert!(error.contains(&address.to_string()), "{error}");
        assert!(error.contains("`advertised.listeners`"), "{error}");
    });
}
