//! The topics that a topology writes, so that a test that reads another one hears of it.

use crate::error::StreamsError;
use crate::topology::{NodeKind, SinkTopic, Topology, changelog_topic};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The topics that a topology writes.
pub(super) struct Outputs {
    /// Of sinks, under their full names.
    sinks: BTreeSet<Arc<str>>,
    changelogs: BTreeSet<Arc<str>>,
    /// A sink chooses the topic of each record.
    has_extractor: bool,
}

impl Outputs {
    pub(super) fn of(topology: &Topology, application_id: &str) -> Self {
        let mut sinks = BTreeSet::new();
        let mut has_extractor = false;
        for node in &topology.nodes {
            match &node.kind {
                NodeKind::Sink(SinkTopic::Named(topic)) => {
                    sinks.insert(topology.full_topic(application_id, topic));
                }
                NodeKind::Sink(SinkTopic::Extracted(_)) => has_extractor = true,
                NodeKind::Source { .. } | NodeKind::Processor => {}
            }
        }
        let stores = topology.stores.keys();
        Self {
            sinks,
            changelogs: stores
                .map(|store| changelog_topic(application_id, store))
                .collect(),
            has_extractor,
        }
    }

    /// Something may be written to `topic`, to which nothing was written yet.
    ///
    /// # Errors
    /// Nothing writes it.
    pub(super) fn check(&self, topic: &str) -> Result<(), StreamsError> {
        if self.has_extractor || self.sinks.contains(topic) || self.changelogs.contains(topic) {
            return Ok(());
        }
        let sinks = self.sinks.iter().map(|topic| format!("`{topic}`"));
        let sinks = match self.sinks.is_empty() {
            true => "there is no sink".to_owned(),
            false => format!("sinks write {}", sinks.collect::<Vec<_>>().join(", ")),
        };
        Err(StreamsError::Other(format!(
            "nothing was written to topic `{topic}`, and no sink writes it; {sinks}"
        )))
    }
}

#[cfg(test)]
mod tests {
    use crate::dsl::StreamsBuilder;
    use crate::test_driver::TopologyTestDriver;

    #[test]
    fn who_reads_a_wrong_topic_or_type_is_told() -> Result<(), Box<dyn std::error::Error>> {
        let builder = StreamsBuilder::new();
        let counts = builder.stream::<String, String>("words").group_by_key();
        counts.count().to_stream().to("counts");
        let driver = TopologyTestDriver::new(&builder.build()?)?;
        let told = |topic: &str| {
            let read = driver.output_topic::<String, String>(topic).read_record();
            read.map(|read| assert!(read.is_none(), "{read:?}"))
                .map_err(|error| error.to_string())
        };
        assert_eq!(told("counts"), Ok(()));
        assert_eq!(
            told("count"),
            Err(
                "nothing was written to topic `count`, and no sink writes it; sinks write `counts`"
                    .to_owned()
            )
        );
        let changelog = "test-KSTREAM-AGGREGATE-STATE-STORE-0000000001-changelog";
        assert_eq!(told(changelog), Ok(()));

        let words = driver.input_topic::<String, String>("words");
        words.pipe("be".to_owned(), "or not".to_owned(), 0)?;
        let read = driver.output_topic::<String, i32>("counts").read_records();
        assert_eq!(
            read.map_err(|error| error.to_string()).err().as_deref(),
            Some("topic `counts`: value: it is no `i32`: 8 bytes instead of 4")
        );
        let words = driver.input_topic::<Option<String>, Option<String>>("words");
        let piped = words.pipe(Some("be".to_owned()), None, 0);
        assert_eq!(
            piped.map_err(|error| error.to_string()),
            Err(
                "cannot read a record (node `KSTREAM-SOURCE-0000000000`, topic `words`, partition 0, offset 1): value: \
                 it is null, and `String` cannot be; read it as `Option<String>`; `Handlers::log_and_continue` goes on without such records"
                    .to_owned()
            )
        );
        Ok(())
    }
}
