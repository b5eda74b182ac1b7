//! Each partition as a stream of its own.

use super::{POLL, config, partition, run, server};
use riverrun_client::Error;
use riverrun_client::consumer::{Consumer, OwnedRecord, PartitionStream, PartitionStreams};
use std::collections::BTreeMap;
use testkit::{TestServer, batch};

/// A topic of two partitions, with records of single letters.
fn filled() -> TestServer {
    let server = server();
    let mut client = server.connect();
    client.create_topic("t", 2, &[]);
    let letters: Vec<String> = ('a'..='i').map(String::from).collect();
    for letter in &letters {
        client.produce("t", 1, &batch(&[letter])).assert_accepted();
    }
    client
        .produce("t", 0, &batch(&["A", "B"]))
        .assert_accepted();
    server
}

fn letter(record: Option<OwnedRecord>) -> String {
    let value = record.expect("the partition is the consumer's").value;
    String::from_utf8(value.unwrap().to_vec()).unwrap()
}

/// The streams of both partitions, by index.
async fn both(streams: &mut PartitionStreams<'_>) -> [PartitionStream; 2] {
    let mut found = BTreeMap::new();
    while found.len() < 2 {
        let stream = streams.next().await.unwrap();
        found.insert(stream.partition().partition, stream);
    }
    let found: Vec<PartitionStream> = found.into_values().collect();
    found.try_into().expect("two partitions")
}

/// Moves records to the streams until `test` has ended.
async fn while_driven<T>(streams: &mut PartitionStreams<'_>, test: impl Future<Output = T>) -> T {
    tokio::select! {
        come = streams.next() => panic!("{come:?} is not expected"),
        done = test => done,
    }
}

#[test]
fn a_slow_partition_holds_up_no_other_and_what_is_in_hand_is_not_committed() {
    let server = filled();
    run(async {
        let pairs = [("max.poll.records", "2"), ("enable.auto.commit", "false")];
        let mut consumer = Consumer::new(config(&server, &pairs)).unwrap();
        consumer.subscribe(["t"]).unwrap();
        let mut streams = consumer.partition_streams();
        let [mut slow, mut fast] = both(&mut streams).await;
        while_driven(&mut streams, async {
            assert_eq!(letter(slow.next().await), "A");
            for expected in 'a'..='i' {
                assert_eq!(letter(fast.next().await), expected.to_string());
            }
        })
        .await;
        streams.commit().await.unwrap();
        let places = [partition("t", 0), partition("t", 1)];
        let committed = streams.consumer().committed(&places).await.unwrap();
        assert_eq!(committed[&places[0]].offset, 0);
        assert_eq!(committed[&places[1]].offset, 8);
        assert_eq!(streams.consumer().position(&places[0]), Some(0));
        while_driven(&mut streams, async {
            assert_eq!(letter(slow.next().await), "B");
        })
        .await;
        streams.commit().await.unwrap();
        let committed = streams.consumer().committed(&places).await.unwrap();
        assert_eq!(committed[&places[0]].offset, 1);
        drop(streams);
        assert!(slow.next().await.is_none(), "it has ended");
        // What was in hand was not processed.
        let mut again = Vec::new();
        while again.len() < 2 {
            again.push(letter(Some(consumer.next().await.unwrap())));
        }
        again.sort();
        assert_eq!(again, ["B", "i"]);
    });
}

#[test]
fn a_stream_ends_when_its_partition_goes_and_what_it_held_is_read_again() {
    let server = filled();
    run(async {
        let mut first = Consumer::new(config(&server, &[])).unwrap();
        first.subscribe(["t"]).unwrap();
        let mut streams = first.partition_streams();
        let [mut zero, mut one] = both(&mut streams).await;
        while_driven(&mut streams, async {
            assert_eq!(letter(zero.next().await), "A");
            assert_eq!(letter(one.next().await), "a");
        })
        .await;
        let mut second = Consumer::new(config(&server, &[])).unwrap();
        second.subscribe(["t"]).unwrap();
        let mut others = second.partition_streams();
        let (kept, taken) = tokio::join!(streams.next(), others.next());
        let (mut kept, mut taken) = (kept.unwrap(), taken.unwrap());
        assert!(zero.next().await.is_none());
        assert!(one.next().await.is_none());
        assert_ne!(kept.partition(), taken.partition());
        let read = async { (kept.next().await, taken.next().await) };
        let both = async {
            tokio::select! {
                come = streams.next() => panic!("{come:?} is not expected"),
                come = others.next() => panic!("{come:?} is not expected"),
                read = read => read,
            }
        };
        let (kept, taken) = both.await;
        let mut again = [letter(kept), letter(taken)];
        again.sort();
        assert_eq!(again, ["A", "a"]);
    });
}

#[test]
fn streams_need_something_to_read() {
    let server = server();
    run(async {
        let mut consumer = Consumer::new(config(&server, &[])).unwrap();
        let refused = consumer.partition_streams().next().await;
        assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
        let refused = consumer.poll(POLL).await.map(|_| ());
        assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    });
}
