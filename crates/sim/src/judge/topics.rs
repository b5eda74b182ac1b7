//! Topics and their configurations: what they may be, while a change of them is not answered, and what they are.

use super::{Judge, Promise, TopicState};
use crate::schedule::KEYED;
use metadata::MetadataImage;
use model::Uuid;
use std::collections::BTreeMap;

impl Judge {
    /// A topic has this id, as somebody was told.
    pub(crate) fn topic_id(&mut self, name: &str, id: Uuid, asked_at_ms: i64) {
        if self.gone.get(&id).is_some_and(|at_ms| *at_ms < asked_at_ms) {
            return self.broken(Promise::DeletedTopicIsGone, format!("{name} {id}"));
        }
        if name == KEYED {
            self.keyed.insert(id);
        }
        self.topics
            .entry(name.to_owned())
            .or_default()
            .ids
            .insert(id);
    }

    /// The states that a topic may have now.
    pub(crate) fn topic_states(&self, name: &str) -> Vec<TopicState> {
        let facts = self.topics.get(name);
        facts.map_or_else(|| vec![None], |facts| facts.possible.clone())
    }

    /// A change of a topic was asked for, and may come true.
    pub(crate) fn topic_may_be(&mut self, name: &str, states: Vec<TopicState>) {
        let facts = self.topics.entry(name.to_owned()).or_default();
        if facts.possible.is_empty() {
            facts.possible.push(None);
        }
        for state in states {
            if !facts.possible.contains(&state) {
                facts.possible.push(state);
            }
        }
    }

    /// A change of a topic was acknowledged.
    pub(crate) fn topic_is(&mut self, name: &str, states: Vec<TopicState>) {
        let facts = self.topics.entry(name.to_owned()).or_default();
        if states.iter().all(Option::is_none) {
            let ids = std::mem::take(&mut facts.ids).into_iter();
            self.gone.extend(ids.map(|id| (id, self.now_ms)));
        }
        facts.possible = states;
    }

    /// Topics and their configurations as a node serves them.
    pub(crate) fn topics(&mut self, image: &MetadataImage) {
        let mut wrong = Vec::new();
        for (name, facts) in &self.topics {
            let topic = image.topics.by_name(name);
            let state = topic.map(|_| {
                let values = image.configs.of_topic(name);
                values.map_or_else(BTreeMap::new, |values| (**values).clone())
            });
            if !facts.possible.contains(&state) {
                wrong.push(format!(
                    "{name}: {state:?}, not one of {:?}",
                    facts.possible
                ));
            }
        }
        if let Some(detail) = wrong.pop() {
            self.broken(Promise::TopicsAreAsAcknowledged, detail);
        }
    }
}
