//! Errors that say what to do.

use super::{POLL, config, partition, run, server};
use riverrun_client::Error;
use riverrun_client::consumer::{Consumer, ConsumerConfig};
use std::time::Duration;

#[test]
fn a_broker_that_is_not_there_is_named_at_the_end_of_the_poll() {
    let address = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().to_string()
    };
    run(async {
        let config = ConsumerConfig::new(&address, "group").unwrap();
        let mut consumer = Consumer::new(config).unwrap();
        consumer.subscribe(["t"]).unwrap();
        let error = consumer.poll(Duration::from_secs(3)).await.unwrap_err();
        assert!(matches!(error, Error::Unreachable { .. }), "{error}");
        assert!(error.to_string().contains(&address), "{error}");
        consumer.close(POLL).await.unwrap();
    });
}

#[test]
fn calls_that_make_no_sense_say_why() {
    let server = server();
    server.connect().create_topic("t", 1, &[]);
    run(async {
        let mut consumer = Consumer::new(config(&server, &[])).unwrap();
        let said = |result: Result<(), Error>| result.unwrap_err().to_string();
        let polled = consumer.poll(POLL).await.map(|_| ());
        assert!(said(polled).starts_with("nothing to poll"));
        let sought = consumer.seek(&partition("t", 0), 0);
        assert!(said(sought).contains("`t-0` is not assigned"));
        assert!(said(consumer.subscribe_pattern("(")).contains('('));
        assert!(said(consumer.subscribe([""])).contains("empty"));
        consumer.subscribe(["t"]).unwrap();
        let assigned = consumer.assign([partition("t", 0)]);
        assert!(said(assigned).contains("unsubscribe first"));
        consumer.close(POLL).await.unwrap();
    });
    let groupless = ConsumerConfig {
        group_id: None,
        ..config(&server, &[])
    };
    run(async {
        let mut consumer = Consumer::new(groupless).unwrap();
        let error = consumer.subscribe(["t"]).unwrap_err();
        assert!(error.to_string().contains("set `group.id`"), "{error}");
    });
}

#[test]
fn a_topic_with_an_invalid_name_is_refused() {
    let server = server();
    run(async {
        let mut consumer = Consumer::new(config(&server, &[])).unwrap();
        consumer.subscribe(["no topic"]).unwrap();
        let error = consumer.poll(Duration::from_secs(10)).await.unwrap_err();
        assert!(error.to_string().contains("topic `no topic`"), "{error}");
    });
}
