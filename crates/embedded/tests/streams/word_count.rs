//! Counts of words: restarts, several instances, and what ends a start.

use crate::harness::{
    Error, TestBroker, await_error, await_state, await_values, config, create_topic, word_count,
    write_lines,
};
use riverrun_embedded::EmbeddedBroker;
use riverrun_streams::dsl::StreamsBuilder;
use riverrun_streams::runtime::{KafkaStreams, ProcessingGuarantee, State};

/// The counts in the changelog, once they are `expected`.
fn await_counts(broker: &EmbeddedBroker, expected: &[(&str, i64)]) -> Result<(), Error> {
    await_values(broker, ("words-counts-changelog", 2), expected)
}

fn counts_survive_a_restart(guarantee: ProcessingGuarantee) -> Result<(), Error> {
    let broker = TestBroker::start()?;
    create_topic(&broker, "lines", 2)?;
    let state = trials::directory();
    let streams = KafkaStreams::new(word_count()?, config(&broker, guarantee, state.path())?);
    streams.start()?;
    write_lines(&broker, &["to be or", "not to be"])?;
    await_counts(&broker, &[("be", 2), ("not", 1), ("or", 1), ("to", 2)])?;
    streams.close()?;
    assert_eq!(streams.state(), State::NotRunning);
    write_lines(&broker, &["be quick"])?;
    let streams = KafkaStreams::new(word_count()?, config(&broker, guarantee, state.path())?);
    streams.start()?;
    await_state(&streams, State::Running)?;
    let counts = [("be", 3), ("not", 1), ("or", 1), ("quick", 1), ("to", 2)];
    await_counts(&broker, &counts)?;
    streams.close()?;
    // Another machine has nothing but the changelog.
    let elsewhere = trials::directory();
    let streams = KafkaStreams::new(word_count()?, config(&broker, guarantee, elsewhere.path())?);
    streams.start()?;
    write_lines(&broker, &["be"])?;
    let counts = [("be", 4), ("not", 1), ("or", 1), ("quick", 1), ("to", 2)];
    await_counts(&broker, &counts)?;
    streams.close()?;
    Ok(())
}

#[test]
fn counts_survive_a_restart_at_least_once() -> Result<(), Error> {
    counts_survive_a_restart(ProcessingGuarantee::AtLeastOnce)
}

#[test]
fn counts_survive_a_restart_exactly_once() -> Result<(), Error> {
    counts_survive_a_restart(ProcessingGuarantee::ExactlyOnceV2)
}

#[test]
fn two_instances_share_the_tasks_and_one_takes_over() -> Result<(), Error> {
    let broker = TestBroker::start()?;
    create_topic(&broker, "lines", 2)?;
    let (one, two) = (trials::directory(), trials::directory());
    let guarantee = ProcessingGuarantee::ExactlyOnceV2;
    let first = KafkaStreams::new(word_count()?, config(&broker, guarantee, one.path())?);
    first.start()?;
    write_lines(&broker, &["a b", "b c", "c a"])?;
    let second = KafkaStreams::new(word_count()?, config(&broker, guarantee, two.path())?);
    second.start()?;
    write_lines(&broker, &["a b", "b c", "c a"])?;
    await_counts(&broker, &[("a", 4), ("b", 4), ("c", 4)])?;
    first.close()?;
    write_lines(&broker, &["a b c"])?;
    await_counts(&broker, &[("a", 5), ("b", 5), ("c", 5)])?;
    second.close()?;
    Ok(())
}

#[test]
fn a_missing_input_topic_is_told() -> Result<(), Error> {
    let broker = TestBroker::start()?;
    let state = trials::directory();
    let guarantee = ProcessingGuarantee::AtLeastOnce;
    let config = config(&broker, guarantee, state.path())?;
    assert_eq!(
        await_error(word_count()?, config)?,
        "input topic `lines` does not exist; create it before the application starts"
    );
    Ok(())
}

#[test]
fn a_state_directory_has_one_process() -> Result<(), Error> {
    let broker = TestBroker::start()?;
    create_topic(&broker, "lines", 2)?;
    let state = trials::directory();
    let guarantee = ProcessingGuarantee::AtLeastOnce;
    let first = KafkaStreams::new(word_count()?, config(&broker, guarantee, state.path())?);
    first.start()?;
    let second = KafkaStreams::new(word_count()?, config(&broker, guarantee, state.path())?);
    let error = second.start().expect_err("the directory is in use");
    assert!(
        error.to_string().contains("another process uses it"),
        "{error}"
    );
    first.close()?;
    Ok(())
}

#[test]
fn topics_that_are_joined_must_have_as_many_partitions() -> Result<(), Error> {
    let broker = TestBroker::start()?;
    create_topic(&broker, "clicks", 2)?;
    create_topic(&broker, "users", 3)?;
    let builder = StreamsBuilder::new();
    let users = builder.table::<String, String>("users");
    builder
        .stream::<String, String>("clicks")
        .join_table(&users, |click, user| format!("{click} by {user}"))
        .to("named-clicks");
    let state = trials::directory();
    let guarantee = ProcessingGuarantee::AtLeastOnce;
    let config = config(&broker, guarantee, state.path())?;
    assert_eq!(
        await_error(builder.build()?, config)?,
        "topics `clicks` and `users` are joined or grouped together, and have 2 and 3 partitions; give them the \
         same number, or use `repartition` with a number of partitions"
    );
    Ok(())
}

#[test]
fn a_panic_of_the_application_ends_the_instance() -> Result<(), Error> {
    let broker = TestBroker::start()?;
    create_topic(&broker, "lines", 1)?;
    let builder = StreamsBuilder::new();
    let lines = builder.stream::<Option<String>, String>("lines");
    lines.for_each(|_, line| assert_ne!(line, "bad", "a bad line"));
    let state = trials::directory();
    let guarantee = ProcessingGuarantee::AtLeastOnce;
    let streams = KafkaStreams::new(builder.build()?, config(&broker, guarantee, state.path())?);
    streams.start()?;
    write_lines(&broker, &["good", "bad"])?;
    await_state(&streams, State::Error)?;
    let error = streams.close().expect_err("a thread has panicked");
    let text = error.to_string();
    assert!(
        text.contains("StreamThread-") && text.contains("a bad line"),
        "{text}"
    );
    let place = "(node `KSTREAM-FOREACH-0000000001`, topic `lines`, partition 0, offset 1)";
    assert!(text.ends_with(place), "{text}");
    Ok(())
}
