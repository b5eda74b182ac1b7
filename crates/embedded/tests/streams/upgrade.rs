//! What older instances can read while an application is upgraded.

use crate::harness::{Error, TestBroker, config, create_topic, read, write};
use riverrun_streams::dsl::{Grouped, StreamsBuilder};
use riverrun_streams::processor::UpgradeFrom;
use riverrun_streams::runtime::{KafkaStreams, ProcessingGuarantee};

/// The second record of the repartition topic of a table whose one row changes from `1` to `2`, as text.
fn second_change(upgrade_from: Option<UpgradeFrom>) -> Result<String, Error> {
    let broker = TestBroker::start()?;
    create_topic(&broker, "prices", 1)?;
    let builder = StreamsBuilder::new();
    builder
        .table::<String, String>("prices")
        .group_by_with(
            |_, price| ("all".to_owned(), price.clone()),
            Grouped::named("by-all"),
        )
        .count();
    let state = trials::directory();
    let mut config = config(&broker, ProcessingGuarantee::AtLeastOnce, state.path())?;
    config.statestore_cache_max_bytes = 0;
    config.upgrade_from = upgrade_from;
    let streams = KafkaStreams::new(builder.build()?, config);
    streams.start()?;
    write(&broker, "prices", &[("tea", "1"), ("tea", "2")])?;
    let records = read(&broker, "words-by-all-repartition", 2)?;
    streams.close()?;
    let value = records[1].value.as_deref().ok_or("a value")?;
    Ok(String::from_utf8_lossy(value).into_owned())
}

#[test]
fn older_instances_get_changes_in_two_records() -> Result<(), Error> {
    let change = second_change(None)?;
    assert!(change.contains('1') && change.contains('2'), "{change:?}");
    let change = second_change(UpgradeFrom::of_text("3.4"))?;
    assert!(change.contains('1') && !change.contains('2'), "{change:?}");
    Ok(())
}
