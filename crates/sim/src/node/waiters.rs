//! Who waits for the coordinators of a node, and what it goes on with.

use super::frames::is_of_frame;
use super::frames_of_groups::body_of_released;
use super::{Caller, Then};
use crate::coordinators::{CoordinatorCaller, Finishing, answer_of};
use crate::protocol::Answer;
use coordinator::GroupResponse;
use coordinator::group::GroupShard;
use coordinator::runtime::Waiter;
use coordinator::transaction::TransactionShard;
use model::ErrorCode;
use std::convert::Infallible;

impl Waiter<GroupShard> for Caller {
    type Answer = Option<Then>;

    fn released(self, response: GroupResponse) -> Option<Then> {
        let answer = match is_of_frame(&self) {
            true => body_of_released(&response),
            false => answer_of(response),
        };
        Some(Then::Answer(self, answer))
    }

    fn abandoned(self, _: ErrorCode) -> Option<Then> {
        None
    }

    /// Nobody answers, and the client asks again.
    fn refused(_: Option<Then>, _: ErrorCode) -> Option<Then> {
        None
    }
}

impl Waiter<TransactionShard> for Caller {
    type Answer = Option<Then>;

    fn released(self, response: Infallible) -> Option<Then> {
        match response {}
    }

    fn abandoned(self, _: ErrorCode) -> Option<Then> {
        None
    }

    fn refused(_: Option<Then>, _: ErrorCode) -> Option<Then> {
        None
    }
}

impl CoordinatorCaller for Caller {
    type Next = Then;

    fn told(self, answer: Answer) -> Then {
        Then::Answer(self, answer)
    }

    fn resumed(finishing: Finishing) -> Then {
        Then::Mark(finishing, None)
    }
}
