//! Records that a broker refuses: the production handler decides, and dead letters tell of them.

use crate::harness::{
    Error, IN_TIME, TestBroker, await_state, config, create_topic, create_topic_with, read_values,
    write,
};
use crate::world::{World, until};
use riverrun_client::admin::NewTopic;
use riverrun_streams::dsl::StreamsBuilder;
use riverrun_streams::processor::{
    DeadLetterTopic, ErrorContext, HandlerResponse, Handlers, ProducedRecord, ProductionHandler,
    ProductionResponse,
};
use riverrun_streams::runtime::{KafkaStreams, ProcessingGuarantee, State};
use std::sync::{Arc, Mutex, mpsc};

/// Remembers what it is asked, and goes on with a dead letter.
#[derive(Clone, Default)]
struct Remembering(Arc<Mutex<Vec<String>>>);

impl ProductionHandler for Remembering {
    fn handle(
        &self,
        context: &ErrorContext<'_>,
        record: &ProducedRecord,
        error: &(dyn std::error::Error + 'static),
    ) -> ProductionResponse {
        let place = (
            &context.record.topic,
            context.record.partition,
            context.record.offset,
        );
        let asked = format!(
            "{} {} {place:?} to {}",
            context.task_id, context.node, record.topic
        );
        self.0.lock().expect("no handler panics").push(asked);
        let logging = Handlers::log_and_continue(DeadLetterTopic(Some(Arc::from("dead-letters"))));
        logging.production.handle(context, record, error)
    }

    fn handle_serialization(
        &self,
        _: &ErrorContext<'_>,
        _: &str,
        _: &(dyn std::error::Error + 'static),
    ) -> HandlerResponse {
        HandlerResponse::fail()
    }
}

#[test]
fn a_handler_lets_a_record_pass_that_the_broker_refuses() -> Result<(), Error> {
    let broker = TestBroker::start()?;
    create_topic(&broker, "words", 1)?;
    create_topic(&broker, "dead-letters", 1)?;
    create_topic_with(&broker, "loud", 1, &[("max.message.bytes", "200")])?;
    let builder = StreamsBuilder::new();
    builder
        .stream::<String, String>("words")
        .map_values(|word| word.to_uppercase())
        .to("loud");
    let state = trials::directory();
    let mut config = config(&broker, ProcessingGuarantee::AtLeastOnce, state.path())?;
    let handler = Remembering::default();
    config.handlers.production = Arc::new(handler.clone());
    let streams = KafkaStreams::new(builder.build()?, config);
    streams.start()?;
    let long = "be".repeat(500);
    write(&broker, "words", &[("1", "a"), ("2", &long), ("3", "c")])?;
    assert_eq!(read_values(&broker, "loud", 2)?, ["A", "C"]);
    // Key and value of the source record are not kept until then.
    let letters = crate::harness::read(&broker, "dead-letters", 1)?;
    let header = |name: &str| {
        let headers = letters[0].headers.iter();
        let mut values = headers.filter(|(key, _)| *key == format!("__streams.errors.{name}"));
        let value = values.next().and_then(|(_, value)| value.clone());
        value.map(|value| String::from_utf8_lossy(&value).into_owned())
    };
    assert_eq!((&letters[0].key, &letters[0].value), (&None, &None));
    assert_eq!(header("topic").as_deref(), Some("words"));
    assert_eq!(header("partition").as_deref(), Some("0"));
    assert_eq!(header("offset").as_deref(), Some("1"));
    assert!(header("message").is_some_and(|message| message.contains("MESSAGE_TOO_LARGE")));
    streams.close()?;
    let asked = handler.0.lock().expect("no handler panics").clone();
    assert_eq!(
        asked,
        ["0_0 KSTREAM-SINK-0000000002 (\"words\", 0, 1) to loud"]
    );
    Ok(())
}

#[test]
fn the_default_handler_ends_the_instance_and_tells_where() -> Result<(), Error> {
    for guarantee in [
        ProcessingGuarantee::AtLeastOnce,
        ProcessingGuarantee::ExactlyOnceV2,
    ] {
        let broker = TestBroker::start()?;
        create_topic(&broker, "words", 1)?;
        create_topic_with(&broker, "loud", 1, &[("max.message.bytes", "200")])?;
        let builder = StreamsBuilder::new();
        builder.stream::<String, String>("words").to("loud");
        let state = trials::directory();
        let config = config(&broker, guarantee, state.path())?;
        let streams = KafkaStreams::new(builder.build()?, config);
        streams.start()?;
        write(&broker, "words", &[("1", "a"), ("2", &"be".repeat(500))])?;
        await_state(&streams, State::Error)?;
        let error = streams
            .close()
            .expect_err("the record is too large")
            .to_string();
        let place = "(node `KSTREAM-SINK-0000000001`, topic `words`, partition 0, offset 1)";
        assert!(
            error.starts_with(&format!("cannot write to topic `loud` {place}")),
            "{error}"
        );
    }
    Ok(())
}

/// Whether handlers go on or fail, the record that they were asked about is in the dead-letter topic: once the instance
/// has ended, nobody asks again.
#[test]
fn handlers_that_fail_leave_dead_letters() -> Result<(), Error> {
    let broker = TestBroker::start()?;
    create_topic(&broker, "dead-letters", 1)?;
    let unreadable = StreamsBuilder::new();
    unreadable.stream::<String, i64>("unreadable").to("out");
    let unprocessed = StreamsBuilder::new();
    let words = unprocessed.stream::<String, String>("unprocessed");
    words.try_for_each(|_, _| Err("none does"));
    for (topic, builder, count) in [
        ("unreadable", unreadable, 1),
        ("unprocessed", unprocessed, 2),
    ] {
        create_topic(&broker, topic, 1)?;
        let state = trials::directory();
        let mut config = config(&broker, ProcessingGuarantee::AtLeastOnce, state.path())?;
        config.application_id = format!("app-{topic}");
        let letters = DeadLetterTopic(Some(Arc::from("dead-letters")));
        config.handlers = Handlers::log_and_fail(letters);
        let streams = KafkaStreams::new(builder.build()?, config);
        streams.start()?;
        write(&broker, topic, &[("1", topic)])?;
        await_state(&streams, State::Error)?;
        let error = streams.close().expect_err("it has failed").to_string();
        let place = format!("topic `{topic}`, partition 0, offset 0");
        assert!(error.contains(&place), "{error}");
        assert_eq!(
            read_values(&broker, "dead-letters", count)?
                .pop()
                .as_deref(),
            Some(topic)
        );
    }
    Ok(())
}

/// A broker that makes no topic because somebody writes to it.
fn without_new_topics() -> Result<TestBroker, Error> {
    TestBroker::start_with(|broker| broker.set("auto.create.topics.enable", "false"))
}

/// A transaction has all or nothing. It would be begun again and again for a record that is always refused.
#[test]
fn exactly_once_does_not_go_on_without_a_record() -> Result<(), Error> {
    let broker = without_new_topics()?;
    create_topic(&broker, "words", 1)?;
    create_topic_with(&broker, "loud", 1, &[("max.message.bytes", "200")])?;
    write(
        &broker,
        "words",
        &[("1", "a"), ("2", &"be".repeat(500)), ("3", "c")],
    )?;
    for (topic, offset) in [("loud", 1), ("nowhere", 0)] {
        let builder = StreamsBuilder::new();
        builder.stream::<String, String>("words").to(topic);
        let state = trials::directory();
        let mut config = config(&broker, ProcessingGuarantee::ExactlyOnceV2, state.path())?;
        config.application_id = format!("app-{topic}");
        config.handlers = Handlers::log_and_continue(DeadLetterTopic(None));
        let max_block = ("max.block.ms".to_owned(), "500".to_owned());
        config.overrides.producer.extend([max_block]);
        let streams = KafkaStreams::new(builder.build()?, config);
        streams.start()?;
        await_state(&streams, State::Error)?;
        let error = streams.close().expect_err("it is refused").to_string();
        let place = format!("topic `words`, partition 0, offset {offset})");
        let expected =
            format!("cannot write to topic `{topic}` (node `KSTREAM-SINK-0000000001`, {place}: ");
        assert!(error.starts_with(&expected), "{error}");
        assert!(
            error.ends_with("; exactly-once cannot go on without it"),
            "{error}"
        );
    }
    Ok(())
}

/// Each record would be waited for as long as the first one.
#[test]
fn a_topic_that_is_missing_is_waited_for_once() -> Result<(), Error> {
    let broker = without_new_topics()?;
    create_topic(&broker, "words", 1)?;
    write(&broker, "words", &[("1", "one")])?;
    let builder = StreamsBuilder::new();
    builder
        .stream::<String, String>("words")
        .flat_map_values(|word| vec![word.clone(); 1_000])
        .to("nowhere");
    let state = trials::directory();
    let mut config = config(&broker, ProcessingGuarantee::AtLeastOnce, state.path())?;
    let max_block = ("max.block.ms".to_owned(), "200".to_owned());
    config.overrides.producer.extend([max_block]);
    let streams = KafkaStreams::new(builder.build()?, config);
    streams.start()?;
    await_state(&streams, State::Error)?;
    let error = streams.close().expect_err("it is missing").to_string();
    let place = "(node `KSTREAM-SINK-0000000002`, topic `words`, partition 0, offset 0)";
    let expected = format!("cannot write to topic `nowhere` {place}: ");
    assert!(error.starts_with(&expected), "{error}");
    Ok(())
}

/// What is processed again is told to who closes the instance, though the thread was about to begin again.
#[test]
fn who_closes_hears_of_what_could_not_be_written() -> Result<(), Error> {
    let world = World::start_on(without_new_topics()?, 1)?;
    world.create(NewTopic::new("out"))?;
    let (processed, told) = mpsc::channel();
    let builder = StreamsBuilder::new();
    builder
        .stream::<String, String>("words")
        .peek(move |_, word| drop(processed.send(word.clone())))
        .to("out");
    let state = trials::directory();
    let mut config = world.config(state.path())?;
    let timeouts = ["delivery.timeout.ms", "request.timeout.ms"];
    let timeouts = timeouts.map(|key| (key.to_owned(), "3000".to_owned()));
    config.overrides.producer.extend(timeouts);
    let streams = world.start_streams(builder.build()?, config)?;
    world.write("words", 0, "key", b"first")?;
    until("it is written", || Ok(world.end("out", 0)? == 1))?;
    let deleted = world
        .admin
        .call(async |admin| admin.delete_topics(&["out"]).await)?;
    deleted.into_values().collect::<Result<(), _>>()?;
    world.write("words", 0, "key", b"second")?;
    while told.recv_timeout(IN_TIME)? != "second" {}
    let error = streams
        .close()
        .expect_err("it is not committed")
        .to_string();
    assert!(error.contains("cannot write to topic `out`"), "{error}");
    assert_eq!(world.committed("words", 0)?, Some(1));
    Ok(())
}
