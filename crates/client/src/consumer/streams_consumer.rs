//! A consumer that is a member of a streams group.

use super::config::{ConsumerConfig, GroupProtocol};
use super::shared::{Shared, Subscription};
use super::{Consumer, StreamsMember};
use crate::Error;
use crate::config::not_allowed;

impl Consumer {
    /// A consumer that reads the inputs of the active tasks which a streams group gives it. It becomes a member at
    /// once. `group.protocol` of `config` is not looked at, and what belongs to other protocols must have its
    /// default.
    ///
    /// # Errors
    /// [`Error::Configuration`] for settings that contradict each other or `member`, and [`Error::Invalid`] without
    /// `group.id`.
    pub fn of_streams_group(
        mut config: ConsumerConfig,
        member: StreamsMember,
    ) -> Result<Self, Error> {
        // What the coordinator says in either protocol without a leader among the members is no setting.
        config.group_protocol = GroupProtocol::Consumer;
        if let Some(assignor) = &config.remote_assignor {
            let reason = "is of consumer groups, and not of streams groups";
            return Err(not_allowed("group.remote.assignor", assignor, reason));
        }
        let consumer = Self::with(Shared::of_streams_group(config, member)?);
        consumer.shared.group_id()?;
        consumer.shared.state.lock().subscription = Subscription::Tasks;
        consumer.shared.joining.notify_one();
        Ok(consumer)
    }

    /// Asks all members of its streams group to end: each hears
    /// [`ShutdownApplication`](super::streams_group::StreamsStatusCode::ShutdownApplication), this one too.
    pub fn shut_down_application(&mut self) {
        if let Some(member) = self.shared.state.lock().membership.as_mut() {
            member.shut_down_application();
        }
        self.shared.joining.notify_one();
    }
}
