//! Consumer groups of KIP-848: the coordinator assigns partitions, and each member moves towards
//! its assignment at its own pace.
//!
//! ```text
//!   group epoch ──> target assignment ──> what each member has
//!   who is there,    by the assignor,      by `reconcile`: give up first, then take what
//!   what they want   of some epoch         others have given up
//! ```
//!
//! Each of the three is in the log. A request makes a [`draft::Draft`]: it reads the group, which
//! does not change meanwhile, and comes to records and changes of soft state, or to an error.
//!
//! To read in this order: `partitions`, `subscription`, `member`, `group` (what the log says),
//! `records`, `draft`, `heartbeat`, `targets`, `assignor`, `reconcile`, `leave`, `regexes`, `resolution` and
//! `topic_pattern`, `classic_members` and `migration`, `offsets`, `soft`; then, beside this folder, `consumer_groups`
//! (the shard's side).

mod assignor;
mod classic_members;
mod config;
mod describe;
mod draft;
mod group;
mod heartbeat;
mod leave;
mod member;
mod migration;
mod migration_policy;
mod offsets;
mod partitions;
mod reconcile;
mod records;
mod regexes;
mod resolution;
mod soft;
mod subscription;
mod targets;
mod topic_pattern;
mod topic_regex;
mod topics;

pub use assignor::Assignor;
pub(super) use classic_members::Joined;
pub use config::{ConsumerGroupConfig, ConsumerGroupTimes};
pub use describe::{DescribedConsumerGroup, DescribedConsumerMember, NamedPartitions};
pub(super) use draft::Draft;
pub use draft::Refusal;
pub(super) use group::ConsumerGroup;
pub use heartbeat::{ConsumerGroupHeartbeat, ConsumerGroupHeartbeatResponse};
pub(super) use member::ConsumerMember;
#[cfg(test)]
pub(super) use member::MemberState;
pub(super) use migration::{Downgraded, Made, upgraded};
pub use migration_policy::MigrationPolicy;
pub(super) use offsets::MemberCommit;
pub(super) use records::{ConsumerRecord, group_of_key, group_tombstones, is_consumer_key};
pub use resolution::RegexResolution;
pub(super) use soft::{SoftChange, SoftGroup};
pub(super) use topic_pattern::TopicPattern;
pub use topic_regex::TopicRegex;
pub(super) use topics::Topics;
