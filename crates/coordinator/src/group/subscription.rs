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

#[cfg(test)]
mod tests {
    use super::*;

    /// A subscription to `t` without user data, of this version; what later versions add is left out.
    fn subscription(version: i16) -> Vec<u8> {
        let fields = [0, 0, 0, 1, 0, 1, b't', 0xff, 0xff, 0xff, 0xff];
        [&version.to_be_bytes()[..], &fields].concat()
    }

    #[test]
    fn every_version_from_0_on_is_read() {
        let mut topics = BTreeSet::new();
        for version in [0, i16::MAX] {
            subscribed_topics(&subscription(version), &mut topics).expect("its topics");
        }
        assert!(topics.iter().eq(["t"]));
        assert!(read_subscription(&subscription(0)).is_ok());
        assert!(read_subscription(&subscription(-1)).is_err());
        assert!(subscribed_topics(&subscription(-1), &mut topics).is_err());
    }
}
