//! DeleteTopics: topics are deleted by name or by id, with their partitions and configurations.
//!
//! A name or id that occurs twice is answered once, and refused. Before version 3 a disabled
//! deletion has the code INVALID_REQUEST: that is the caller's to translate.

use crate::context::ControllerContext;
use crate::decision::{ApiError, Decision};
use metadata::{MetadataImage, MetadataRecord};
use model::{ErrorCode, Uuid};
use std::collections::BTreeMap;

/// A topic to be deleted: a name, or an id with no name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TopicToDelete {
    /// The topic's name.
    pub name: Option<String>,
    /// The topic's id; zero with a name.
    pub topic_id: Uuid,
}

impl TopicToDelete {
    /// The topic of this name.
    pub fn by_name(name: impl Into<String>) -> Self {
        Self {
            name: Some(name.into()),
            topic_id: Uuid::ZERO,
        }
    }

    /// The topic of this id.
    pub const fn by_id(topic_id: Uuid) -> Self {
        Self {
            name: None,
            topic_id,
        }
    }
}

/// What a client may do with a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TopicAccess {
    /// Nothing: it may not even know that the topic exists.
    None,
    /// See it.
    Describe,
    /// See it and delete it.
    Delete,
}

/// What became of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletedTopic {
    /// The topic's name; `None` when only an id was given and the name is not known, or secret.
    pub name: Option<String>,
    /// The topic's id; zero when only a name was given and the topic is not deleted.
    pub topic_id: Uuid,
    /// Why it was not deleted.
    pub result: Result<(), ApiError>,
}

/// Decides which of `topics` are deleted; `access` says what the client may do with a topic.
/// Results come in the order in which a topic is first named.
pub fn delete_topics(
    image: &MetadataImage,
    context: &ControllerContext<'_>,
    topics: &[TopicToDelete],
    access: &dyn Fn(&str) -> TopicAccess,
) -> Decision<Vec<DeletedTopic>> {
    let mut counts: BTreeMap<&TopicToDelete, usize> = BTreeMap::new();
    let mut distinct = Vec::new();
    for topic in topics {
        let count = counts.entry(topic).or_default();
        if *count == 0 {
            distinct.push(topic);
        }
        *count += 1;
    }
    let is_enabled = context.config.topics.delete_enable;
    let mut results: Vec<DeletedTopic> = distinct
        .into_iter()
        .map(|topic| {
            if !is_enabled {
                let error = ApiError::bare(ErrorCode::TopicDeletionDisabled);
                return refused(topic, error);
            }
            let is_single = counts.get(topic) == Some(&1);
            find(image, topic, is_single, access)
        })
        .collect();
    refuse_topics_found_twice(&mut results);
    let deleted = results.iter().filter(|topic| topic.result.is_ok());
    let records = deleted
        .map(|topic| MetadataRecord::RemoveTopic {
            topic_id: topic.topic_id,
        })
        .collect();
    Decision::atomic(records, results)
}

fn refused(topic: &TopicToDelete, error: ApiError) -> DeletedTopic {
    DeletedTopic {
        name: topic.name.clone(),
        topic_id: topic.topic_id,
        result: Err(error),
    }
}

/// The topic that is to be deleted, or why it is not.
fn find(
    image: &MetadataImage,
    topic: &TopicToDelete,
    is_single: bool,
    access: &dyn Fn(&str) -> TopicAccess,
) -> DeletedTopic {
    let invalid = |words: &str| refused(topic, ApiError::new(ErrorCode::InvalidRequest, words));
    let failed = |code| refused(topic, ApiError::with_default_message(code));
    let (found, missing) = match &topic.name {
        None if topic.topic_id.is_zero() => {
            return invalid("Neither topic name nor id were specified.");
        }
        Some(_) if !topic.topic_id.is_zero() => {
            return invalid("You may not specify both topic name and topic id.");
        }
        None if !is_single => return invalid("Duplicate topic id."),
        Some(_) if !is_single => return invalid("Duplicate topic name."),
        None => (
            image.topics.by_id(topic.topic_id),
            ErrorCode::UnknownTopicId,
        ),
        // A topic that must not be seen is refused whether it exists or not.
        Some(name) if access(name) == TopicAccess::None => {
            return failed(ErrorCode::TopicAuthorizationFailed);
        }
        Some(name) => (
            image.topics.by_name(name),
            ErrorCode::UnknownTopicOrPartition,
        ),
    };
    let Some(found) = found else {
        return failed(missing);
    };
    match access(&found.name) {
        TopicAccess::Delete => DeletedTopic {
            name: Some(found.name.to_string()),
            topic_id: found.id,
            result: Ok(()),
        },
        TopicAccess::Describe => DeletedTopic {
            name: Some(found.name.to_string()),
            ..failed(ErrorCode::TopicAuthorizationFailed)
        },
        TopicAccess::None => failed(ErrorCode::TopicAuthorizationFailed),
    }
}

/// A name and an id of one topic: neither counts.
fn refuse_topics_found_twice(results: &mut [DeletedTopic]) {
    let mut counts: BTreeMap<Uuid, usize> = BTreeMap::new();
    let is_counted = |topic: &&DeletedTopic| topic.result.is_ok() || topic.name.is_none();
    for topic in results.iter().filter(is_counted) {
        *counts.entry(topic.topic_id).or_default() += 1;
    }
    for topic in results {
        if topic.result.is_ok() && counts.get(&topic.topic_id) != Some(&1) {
            topic.result = Err(ApiError::new(
                ErrorCode::InvalidRequest,
                "The provided topic name maps to an ID that was already supplied.",
            ));
        }
    }
}

#[cfg(test)]
mod tests;
