//! The two values of a topic that elections depend on, over all layers of the configuration.

use crate::context::ControllerContext;
use crate::create_topics::MIN_INSYNC_REPLICAS;
use config::layers::topic_default;
use metadata::{MetadataImage, MetadataRecord, Topic};

const UNCLEAN_ELECTION: &str = "unclean.leader.election.enable";

/// The values of the topics of an image.
#[derive(Debug)]
pub(crate) struct TopicValues<'a> {
    image: &'a MetadataImage,
    /// What topics have that set nothing.
    min_insync_replicas: i32,
    unclean_election: bool,
}

impl<'a> TopicValues<'a> {
    pub(crate) fn new(image: &'a MetadataImage, context: &ControllerContext<'_>) -> Self {
        let effective = context.layers(image).effective();
        let default_of = |name: &str| {
            let definition = config::TOPIC.definition(name)?;
            topic_default(definition, &effective).ok().flatten()
        };
        Self {
            image,
            min_insync_replicas: count(default_of(MIN_INSYNC_REPLICAS).as_deref()).unwrap_or(1),
            unclean_election: is_true(default_of(UNCLEAN_ELECTION).as_deref()),
        }
    }

    /// How many in-sync replicas the topic wants; never more than it has replicas.
    pub(crate) fn min_isr(&self, topic: &Topic) -> usize {
        let set = self.set_value(topic, MIN_INSYNC_REPLICAS);
        let wanted = count(set).unwrap_or(self.min_insync_replicas);
        let replica_count = topic
            .partition(0)
            .map_or(usize::MAX, |partition| partition.replicas.len());
        usize::try_from(wanted).unwrap_or(0).min(replica_count)
    }

    /// Whether rather a replica without all records leads than none.
    pub(crate) fn allows_unclean_election(&self, topic: &Topic) -> bool {
        match self.set_value(topic, UNCLEAN_ELECTION) {
            None => self.unclean_election,
            set => is_true(set),
        }
    }

    fn set_value(&self, topic: &Topic, name: &str) -> Option<&'a str> {
        let values = self.image.configs.of_topic(&topic.name)?;
        values.get(name).map(String::as_str)
    }
}

/// Whether records allow what [`TopicValues::allows_unclean_election`] tells, for a topic or for all.
pub(crate) fn allow_unclean_election(records: &[MetadataRecord]) -> bool {
    records.iter().any(|record| match record {
        MetadataRecord::Config { name, value, .. } => {
            name == UNCLEAN_ELECTION && is_true(value.as_deref())
        }
        _ => false,
    })
}

fn count(text: Option<&str>) -> Option<i32> {
    text?.trim().parse().ok()
}

fn is_true(text: Option<&str>) -> bool {
    text.is_some_and(|text| text.trim().eq_ignore_ascii_case("true"))
}
