use super::*;
use crate::config::Endpoint;
use model::LeaderEpoch;
use testkit::TestServer;

/// Runs a test with the brokers of a server in this process.
fn run<F: Future<Output = ()>>(test: impl FnOnce(Brokers, Endpoint) -> F) {
    let server = TestServer::start(&[]);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let address = server.address();
        let config = ClientConfig::with_bootstrap_servers(&address.to_string());
        let mut config = config.expect("is an address");
        config.retry_backoff_ms = 5;
        let brokers = Brokers::new(&config, BrokersOptions::default()).expect("is allowed");
        test(brokers, Endpoint::new("127.0.0.1", address.port())).await;
    });
    drop(runtime);
    server.stop();
}

fn soon() -> Deadline {
    Deadline::after_ms(20_000, "default.api.timeout.ms")
}

fn code<T: std::fmt::Debug>(result: Result<T, Error>) -> ErrorCode {
    match result {
        Err(Error::Refused { code, .. }) => code,
        other => panic!("{other:?} is no refusal"),
    }
}

#[test]
fn leaders_become_known_when_they_are_asked_for() {
    run(async |brokers: Brokers, endpoint: Endpoint| {
        brokers.want("t");
        let is_told = |metadata: &Arc<Metadata>| metadata.topic_error("t").is_some();
        let told = brokers.metadata_where(is_told, "Metadata", soon()).await;
        told.expect("the broker answers");
        // Whoever has no time left hears what the brokers have said.
        let unknown = Deadline::after_ms(0, "default.api.timeout.ms");
        let refused = brokers.topic("t", unknown).await;
        assert_eq!(code(refused), ErrorCode::UnknownTopicOrPartition);

        // A topic that is created while it is waited for.
        let waiting = brokers.clone();
        let waiting = tokio::spawn(async move { waiting.leader_of("t", 1, soon()).await });
        tokio::task::yield_now().await;
        let create = tokio::task::spawn_blocking(move || {
            let address = (&*endpoint.host, endpoint.port);
            let address = std::net::ToSocketAddrs::to_socket_addrs(&address);
            let address = address.expect("is one").next().expect("is one");
            testkit::Client::connect(address).create_topic("t", 2, &[]);
        });
        create.await.expect("is created");
        let leader = waiting.await.expect("no panic").expect("has a leader");
        assert!(brokers.metadata().broker(leader.id).is_some());

        let beyond = brokers.leader_of("t", 2, soon()).await;
        assert_eq!(code(beyond), ErrorCode::UnknownTopicOrPartition);
        let invalid = brokers.topic("no/name", soon()).await;
        assert_eq!(code(invalid), ErrorCode::InvalidTopicException);
    });
}

#[test]
fn a_broker_is_connected_to_once() {
    run(async |brokers: Brokers, endpoint: Endpoint| {
        let any = brokers.any_broker(soon()).await.expect("is there");
        assert_eq!(&**any.address(), endpoint.to_string());
        let metadata = brokers.refreshed(soon()).await.expect("is told");
        let id = metadata.brokers().next().expect("there is one").id;
        let one = brokers.connection(id, Lane::Main, soon());
        let other = brokers.connection(id, Lane::Main, soon());
        let (one, other) = tokio::join!(one, other);
        for connection in [one.expect("is there"), other.expect("is there")] {
            assert!(!connection.is_closed());
            assert_eq!(
                connection.address(),
                any.address(),
                "bootstrap's is used again"
            );
        }
        let missing = brokers.connection(BrokerId(77), Lane::Main, soon()).await;
        let error = missing.expect_err("there is no such broker").to_string();
        assert!(error.contains("broker 77"), "{error}");
    });
}

#[test]
fn coordinators_are_looked_up_and_remembered() {
    run(async |brokers: Brokers, endpoint: Endpoint| {
        let kind = CoordinatorKind::Group;
        let found = brokers
            .coordinator(kind, "g", soon())
            .await
            .expect("is found");
        assert_eq!(found.endpoint.port, endpoint.port);
        let connection = brokers.coordinator_connection(kind, "g", soon()).await;
        let connection = connection.expect("is there");
        assert!(
            connection.address().contains("(broker "),
            "{}",
            connection.address()
        );
        brokers.forget_coordinator(kind, "g");
        let again = brokers.coordinator(kind, "g", soon()).await;
        assert_eq!(again.as_ref(), Ok(&found));
    });
}

#[test]
fn fresh_metadata_is_of_a_request_made_after_the_call() {
    run(async |brokers: Brokers, _: Endpoint| {
        for _ in 0..5 {
            let next = brokers.metadata().next_refresh();
            let metadata = brokers.refreshed(soon()).await.expect("is told");
            assert!(metadata.has_answered(next));
        }
        let told = Broker {
            id: BrokerId(9),
            endpoint: Endpoint::new("nowhere", 1),
            rack: None,
        };
        let leader = Leader {
            id: BrokerId(9),
            epoch: LeaderEpoch(1),
        };
        brokers.update_leader(("unknown", Uuid::ZERO), 0, leader, Some(told));
        assert!(
            brokers.metadata().broker(BrokerId(9)).is_none(),
            "it leads nothing known"
        );
    });
}
