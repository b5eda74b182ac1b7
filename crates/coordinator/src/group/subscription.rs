//! The topics in what a consumer tells the leader of its group.

use crate::messages::ConsumerProtocolSubscription;
use model::{DecodeError, Message, Reader};
use std::collections::BTreeSet;

/// Adds the topics of a subscription: a version and a `ConsumerProtocolSubscription`. Only the
/// topics matter here and they come first in every version, so whatever follows is not read.
///
/// # Errors
/// A [`DecodeError`] when the metadata is no subscription.
pub(super) fn subscribed_topics(
    metadata: &[u8],
    topics: &mut BTreeSet<String>,
) -> Result<(), DecodeError> {
    let (mut reader, _) = version_of(metadata)?;
    let subscription = ConsumerProtocolSubscription::read(&mut reader, 0)?;
    for topic in subscription.topics.iter() {
        if !topics.contains(topic) {
            topics.insert(topic.to_owned());
        }
    }
    Ok(())
}

/// Reads a whole subscription. What later versions have added at its end is left out.
///
/// # Errors
/// A [`DecodeError`] when the metadata is no subscription.
pub(super) fn read_subscription(
    metadata: &[u8],
) -> Result<ConsumerProtocolSubscription<'_>, DecodeError> {
    let (mut reader, version) = version_of(metadata)?;
    let version = version.min(ConsumerProtocolSubscription::MAX_VERSION);
    ConsumerProtocolSubscription::read(&mut reader, version)
}

fn version_of(metadata: &[u8]) -> Result<(Reader<'_>, i16), DecodeError> {
    let mut reader = Reader::new(metadata);
    let version = reader.i16()?;
    if version < ConsumerProtocolSubscription::MIN_VERSION {
        return Err(DecodeError::UnsupportedVersion);
    }
    Ok((reader, version))
}
