//! The coordinators of a simulated node, of the world of one node and of clusters alike: the product's shards and
//! their runtime over the logs of a simulated disk.
//!
//! ```text
//!   node ── load, unload, decide ──> Groups, Transactions ── HostedPartition ──> SimLog
//!        <── Next: what it goes on with, once an answer may leave ──┘
//! ```

mod group_requests;
mod groups;
mod log;
mod seats;
mod transaction_requests;
mod transactions;

pub(crate) use self::group_requests::answer_of;
pub(crate) use self::groups::{Groups, TransactionalWriter};
pub(crate) use self::log::CoordinatorMistakes;
pub(crate) use self::transaction_requests::{first_offset_batch, known_to};
pub(crate) use self::transactions::{Finishing, Transactions};
pub(crate) use controller::internal_topics::{
    CONSUMER_OFFSETS as OFFSETS_TOPIC, TRANSACTION_STATE as TRANSACTION_TOPIC,
};

use crate::protocol::Answer;
use coordinator::group::GroupShard;
use coordinator::runtime::Waiter;
use coordinator::transaction::TransactionShard;
use model::LeaderEpoch;
use std::fmt::Debug;

/// Who asks the coordinators of a node.
pub(crate) trait CoordinatorCaller:
    Copy
    + Debug
    + Waiter<GroupShard, Answer = Option<Self::Next>>
    + Waiter<TransactionShard, Answer = Option<Self::Next>>
{
    /// What the node goes on with.
    type Next: Debug;

    /// It tells the caller.
    fn told(self, answer: Answer) -> Self::Next;

    /// It has the markers written of an end that was found in the log, and cannot be lost any more.
    fn resumed(finishing: Finishing) -> Self::Next;
}

/// For how long a node has hosted a partition: another time is another tenure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tenure {
    pub(crate) number: u64,
    pub(crate) leader_epoch: LeaderEpoch,
}
