//! Where keys are: two instances tell alike, and each has what is said of it.

use crate::harness::{
    Error, IN_TIME, TestBroker, await_values, config, create_topic, word_count, write_lines,
};
use riverrun_embedded::EmbeddedBroker;
use riverrun_streams::runtime::{
    FailureReason, HostInfo, KafkaStreams, KeyQuery, KeyQueryMetadata, PositionBound,
    ProcessingGuarantee, StateQueryRequest, StateQueryResult,
};
use riverrun_streams::serde::DefaultSerde;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Instant;

const PARTITIONS: i32 = 4;
const WORDS: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

fn host(port: u16) -> HostInfo {
    HostInfo {
        host: "one.example".to_owned(),
        port,
    }
}

fn instance(broker: &EmbeddedBroker, state_dir: &Path, port: u16) -> Result<KafkaStreams, Error> {
    let mut config = config(broker, ProcessingGuarantee::AtLeastOnce, state_dir)?;
    config.num_stream_threads = 1;
    config.heartbeat_interval_ms = 100;
    config.num_standby_replicas = 1;
    config.acceptable_recovery_lag = 0;
    config.probing_rebalance_interval_ms = 200;
    config.application_server = Some(host(port));
    let streams = KafkaStreams::new(word_count()?, config);
    streams.start()?;
    Ok(streams)
}

fn located(streams: &KafkaStreams, word: &str) -> Result<Option<KeyQueryMetadata>, Error> {
    let serde = String::serde();
    Ok(streams.query_metadata_for_key("counts", &word.to_owned(), &*serde)?)
}

fn asked(
    streams: &KafkaStreams,
    request: &StateQueryRequest<KeyQuery<String, i64>>,
) -> Result<StateQueryResult<Option<i64>>, Error> {
    Ok(streams.query(request)?)
}

fn request(word: &str, partition: i32) -> StateQueryRequest<KeyQuery<String, i64>> {
    let query = KeyQuery::with_key(word.to_owned());
    let request = StateQueryRequest::in_store("counts").with_query(query);
    request.with_partitions([partition])
}

/// Waits until both instances tell of one another, and follow each other's tasks to their ends.
fn await_balance(one: &KafkaStreams, two: &KafkaStreams) -> Result<(), Error> {
    let deadline = Instant::now() + IN_TIME;
    loop {
        let mut actives = BTreeSet::new();
        let mut is_settled = true;
        for word in WORDS {
            let (of_one, of_two) = (located(one, word)?, located(two, word)?);
            let Some(found) = &of_one else {
                is_settled = false;
                continue;
            };
            is_settled &= of_one == of_two && found.standby_hosts.len() == 1;
            for streams in [one, two] {
                let results = asked(streams, &request(word, found.partition))?;
                is_settled &= results.only_partition_result()? == Some(&1);
            }
            // Who is to run a task is told before its store is restored.
            let running = match found.active_host == Some(host(1)) {
                true => one,
                false => two,
            };
            let wanted = request(word, found.partition).require_active();
            is_settled &= asked(running, &wanted)?.only_partition_result()? == Some(&1);
            actives.extend(found.active_host.clone());
        }
        if is_settled && actives.len() == 2 {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(format!("it is not so in time: {actives:?}").into());
        }
        std::thread::yield_now();
    }
}

/// Whether the instance that runs each word's task answers as such, and the other one does not.
fn answers_are_of_their_roles(one: &KafkaStreams, two: &KafkaStreams) -> Result<bool, Error> {
    for word in WORDS {
        let found = located(one, word)?.ok_or("it is known")?;
        let active = found.active_host.ok_or("a host")?;
        let (running, standing_by) = match active == host(1) {
            true => (one, two),
            false => (two, one),
        };
        let wanted = request(word, found.partition).require_active();
        let reason_of = |result: &StateQueryResult<Option<i64>>| {
            result.partition_results[&found.partition].failure_reason()
        };
        let results = asked(running, &wanted)?;
        let refused = asked(standing_by, &wanted)?;
        // What it has processed is a bound that it holds, and one more record is not.
        let mut position = results.position();
        let bound = PositionBound::at(position.clone());
        let again = asked(running, &wanted.clone().with_position_bound(bound))?;
        let offsets = position.offsets.values_mut().flat_map(|of| of.values_mut());
        offsets.for_each(|offset| *offset += 1);
        let late = request(word, found.partition).with_position_bound(PositionBound::at(position));
        let early = asked(running, &late)?;
        let is_so = results.only_partition_result()? == Some(&1)
            && reason_of(&refused) == Some(FailureReason::NotActive)
            && again.only_partition_result()? == Some(&1)
            && reason_of(&early) == Some(FailureReason::NotUpToBound);
        if !is_so {
            return Ok(false);
        }
    }
    Ok(true)
}

#[test]
fn instances_tell_where_keys_are() -> Result<(), Error> {
    let broker = TestBroker::start()?;
    create_topic(&broker, "lines", PARTITIONS)?;
    write_lines(&broker, &[&WORDS.join(" ")])?;
    let (state_one, state_two) = (trials::directory(), trials::directory());
    let one = instance(&broker, state_one.path(), 1)?;
    let two = instance(&broker, state_two.path(), 2)?;
    let counts: Vec<_> = WORDS.into_iter().map(|word| (word, 1)).collect();
    await_values(&broker, ("words-counts-changelog", PARTITIONS), &counts)
        .map_err(|error| format!("{error}: {:?}, {:?}", one.errors(), two.errors()))?;
    // The group may look once more whether its members have caught up, and move a task.
    let deadline = Instant::now() + IN_TIME;
    loop {
        await_balance(&one, &two)?;
        if answers_are_of_their_roles(&one, &two)? {
            break;
        }
        assert!(Instant::now() < deadline, "roles change on and on");
    }
    let beyond = asked(&one, &request("a", PARTITIONS))?;
    let reason = beyond.partition_results[&PARTITIONS].failure_reason();
    assert_eq!(reason, Some(FailureReason::DoesNotExist));
    let hosts = |streams: &KafkaStreams| -> Vec<u16> {
        let all = streams.metadata_for_all_streams_clients();
        all.into_iter().map(|one| one.host.port).collect()
    };
    assert_eq!((hosts(&one), hosts(&two)), (vec![1, 2], vec![1, 2]));
    let of_store = one.streams_metadata_for_store("counts")?;
    let partitions = of_store.iter().flat_map(|one| &one.topic_partitions);
    let of_counts = partitions.filter(|one| one.topic.ends_with("-repartition"));
    assert_eq!(of_counts.count(), 4);
    one.close()?;
    two.close()?;
    Ok(())
}
