//! The order of calls and requests, and what each error means.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use expect_test::{Expect, expect};
use model::{ErrorCode, ProducerEpoch, ProducerId};

use super::*;

/// Runs lines such as `begin`, `call commit`, `answer NONE`, `lose`, `drained`, and renders what
/// comes of each.
#[expect(clippy::too_many_lines, reason = "a script is read from top to bottom")]
fn check(script: &str, expected: Expect) {
    let backoff = Backoff {
        base_ms: 100,
        max_ms: 1_000,
    };
    let mut one = Transaction::new("me".to_owned(), backoff, 1);
    let mut now = Instant::now();
    let mut epoch = 0;
    // Whether the caller of the last call has given up.
    let mut is_gone = false;
    let mut out = String::new();
    for line in script.trim().lines().map(str::trim) {
        let words: Vec<&str> = line.split(' ').collect();
        let told = match words[..] {
            ["begin"] => text(one.begin()),
            ["call", call] => match one.begin_call(call_of(call)) {
                Ok(number) => {
                    is_gone = false;
                    format!("call {number}")
                }
                Err(error) => error.to_string(),
            },
            ["gone"] => {
                is_gone = true;
                String::new()
            }
            ["want", partition] => {
                one.want([partition.parse().expect("a number")]);
                String::new()
            }
            ["close"] => {
                one.close();
                String::new()
            }
            ["sent"] => {
                one.handle_sent();
                String::new()
            }
            ["drained"] => {
                one.handle_drained(true, false);
                String::new()
            }
            ["gaps"] => {
                one.handle_drained(true, true);
                String::new()
            }
            ["lost-batch", code] => {
                one.handle_batch_failure(&Error::Refused {
                    subject: "t-0".to_owned(),
                    code: code_of(code),
                    message: None,
                });
                String::new()
            }
            ["answer", protocol, code] => {
                epoch += i16::from(code == "NONE");
                let code = code_of(code);
                let refused = (!code.is_none()).then(|| ("it".to_owned(), code));
                let protocol = match protocol {
                    "1" => Protocol::Explicit,
                    _ => Protocol::Implicit,
                };
                let gives_identity = match one.in_flight {
                    Some(TransactionRequest::InitProducerId { .. }) => true,
                    Some(TransactionRequest::End { .. }) => protocol == Protocol::Implicit,
                    _ => false,
                };
                let answer = TransactionAnswer {
                    refused: refused.into_iter().collect(),
                    identity: gives_identity.then_some(Identity {
                        id: ProducerId(7),
                        epoch: ProducerEpoch(epoch),
                    }),
                    protocol: Some(protocol),
                };
                one.handle_answer(answer, now);
                String::new()
            }
            ["lose"] => {
                let address = "there".to_owned();
                let reason = "gone".to_owned();
                one.handle_lost(&Error::Disconnected { address, reason }, now);
                String::new()
            }
            ["wait"] => {
                now += Duration::from_secs(2);
                String::new()
            }
            _ => panic!("`{line}`"),
        };
        write!(out, "{line}").expect("a string takes all");
        if !told.is_empty() {
            write!(out, ": {told}").expect("a string takes all");
        }
        if let Some(request) = one.poll_request(now) {
            write!(out, " -> {}", request_text(&request)).expect("a string takes all");
        }
        if !is_gone && one.unheard().is_some() {
            let result = one.result(one.calls).expect("it has ended");
            write!(out, " => {}", text(result)).expect("a string takes all");
        }
        out.push('\n');
    }
    expected.assert_eq(&out);
}

fn text(result: Result<(), Error>) -> String {
    result.map_or_else(|error| error.to_string(), |()| "ok".to_owned())
}

fn call_of(name: &str) -> Call {
    match name {
        "init" => Call::Initialize,
        "commit" => Call::Commit,
        "abort" => Call::Abort,
        "offsets" => Call::SendOffsets(GroupOffsets {
            group: GroupMetadata::of_group("g"),
            offsets: Offsets::new(),
        }),
        _ => panic!("`{name}`"),
    }
}

fn code_of(name: &str) -> ErrorCode {
    (-1..200)
        .map(ErrorCode::from_code)
        .find(|code| code.name() == name)
        .unwrap_or_else(|| panic!("`{name}`"))
}

fn request_text(request: &TransactionRequest) -> String {
    match request {
        TransactionRequest::InitProducerId { identity: None } => "InitProducerId".to_owned(),
        TransactionRequest::InitProducerId {
            identity: Some(identity),
        } => format!("InitProducerId of epoch {}", identity.epoch),
        TransactionRequest::AddPartitions { partitions, .. } => {
            format!("AddPartitions {partitions:?}")
        }
        TransactionRequest::AddOffsets { group, .. } => format!("AddOffsets {group}"),
        TransactionRequest::CommitOffsets { identity, .. } => {
            format!("CommitOffsets of epoch {}", identity.epoch)
        }
        TransactionRequest::End {
            identity, commits, ..
        } => format!("End {commits} of epoch {}", identity.epoch),
    }
}

#[test]
fn by_protocol_1_partitions_and_groups_are_enrolled_first() {
    check(
        "call init
         answer 1 NONE
         begin
         want 4
         want 2
         answer 1 NONE
         answer 1 NONE
         call offsets
         answer 1 NONE
         answer 1 NONE
         call commit
         want 3
         drained
         answer 1 NONE
         answer 1 NONE
         begin
         call offsets",
        expect![[r#"
            call init: call 1 -> InitProducerId
            answer 1 NONE => ok
            begin: ok
            want 4 -> AddPartitions [4]
            want 2
            answer 1 NONE -> AddPartitions [2]
            answer 1 NONE
            call offsets: call 2 -> AddOffsets g
            answer 1 NONE -> CommitOffsets of epoch 1
            answer 1 NONE => ok
            call commit: call 3
            want 3 -> AddPartitions [3]
            drained
            answer 1 NONE -> End true of epoch 1
            answer 1 NONE => ok
            begin: ok
            call offsets: call 4 -> AddOffsets g
        "#]],
    );
}

#[test]
fn by_protocol_2_an_end_gives_the_next_epoch() {
    check(
        "call init
         answer 2 NONE
         begin
         sent
         call offsets
         answer 2 NONE
         call commit
         drained
         answer 2 NONE
         begin
         call commit
         drained
         begin
         sent
         call abort
         drained
         answer 2 NONE
         begin",
        expect![[r#"
            call init: call 1 -> InitProducerId
            answer 2 NONE => ok
            begin: ok
            sent
            call offsets: call 2 -> CommitOffsets of epoch 1
            answer 2 NONE => ok
            call commit: call 3
            drained -> End true of epoch 1
            answer 2 NONE => ok
            begin: ok
            call commit: call 4
            drained => ok
            begin: ok
            sent
            call abort: call 5
            drained -> End false of epoch 3
            answer 2 NONE => ok
            begin: ok
        "#]],
    );
}

#[test]
fn calls_out_of_order_say_what_to_call() {
    check(
        "begin
         call commit
         call init
         begin
         call abort
         answer 2 NONE
         call init
         call commit
         begin
         begin
         call init
         call commit
         call commit
         call abort",
        expect![[r#"
            begin: call `init_transactions` first
            call commit: call `init_transactions` first
            call init: call 1 -> InitProducerId
            begin: call `init_transactions` first
            call abort: call `init_transactions` first
            answer 2 NONE => ok
            call init: transactions are initialized once, by one call
            call commit: call `begin_transaction` first
            begin: ok
            begin: a transaction is open
            call init: transactions are initialized once, by one call
            call commit: call 2
            call commit: call 2
            call abort: the transaction is being ended: wait for it and begin another one
        "#]],
    );
}

#[test]
fn what_may_pass_is_asked_again() {
    check(
        "call init
         answer 2 CONCURRENT_TRANSACTIONS
         wait
         answer 2 NOT_COORDINATOR
         wait
         lose
         wait
         answer 2 COORDINATOR_LOAD_IN_PROGRESS
         wait
         answer 2 NONE",
        expect![[r#"
            call init: call 1 -> InitProducerId
            answer 2 CONCURRENT_TRANSACTIONS
            wait -> InitProducerId
            answer 2 NOT_COORDINATOR
            wait -> InitProducerId
            lose
            wait -> InitProducerId
            answer 2 COORDINATOR_LOAD_IN_PROGRESS
            wait -> InitProducerId
            answer 2 NONE => ok
        "#]],
    );
}

#[test]
fn a_lost_batch_leaves_only_the_abort() {
    check(
        "call init
         answer 1 NONE
         begin
         want 1
         answer 1 NONE
         lost-batch OUT_OF_ORDER_SEQUENCE_NUMBER
         call commit
         begin
         call abort
         drained
         answer 1 NONE
         answer 1 NONE
         begin
         want 1
         answer 1 NONE
         call commit
         lost-batch REQUEST_TIMED_OUT
         call abort
         gaps
         answer 1 NONE
         answer 1 NONE
         begin",
        expect![[r#"
            call init: call 1 -> InitProducerId
            answer 1 NONE => ok
            begin: ok
            want 1 -> AddPartitions [1]
            answer 1 NONE
            lost-batch OUT_OF_ORDER_SEQUENCE_NUMBER
            call commit: the transaction can only be aborted: t-0: OUT_OF_ORDER_SEQUENCE_NUMBER
            begin: the transaction can only be aborted: t-0: OUT_OF_ORDER_SEQUENCE_NUMBER
            call abort: call 2
            drained -> End false of epoch 1
            answer 1 NONE -> InitProducerId of epoch 1
            answer 1 NONE => ok
            begin: ok
            want 1 -> AddPartitions [1]
            answer 1 NONE
            call commit: call 3
            lost-batch REQUEST_TIMED_OUT => the transaction can only be aborted: t-0: REQUEST_TIMED_OUT
            call abort: call 4
            gaps -> End false of epoch 4
            answer 1 NONE -> InitProducerId of epoch 4
            answer 1 NONE => ok
            begin: ok
        "#]],
    );
}

#[test]
fn an_end_that_is_refused_for_the_transaction_is_followed_by_another_epoch() {
    check(
        "call init
         answer 2 NONE
         begin
         sent
         call commit
         drained
         answer 2 TRANSACTION_ABORTABLE
         call abort
         drained
         answer 2 TRANSACTION_ABORTABLE
         answer 2 NONE
         begin
         sent
         call offsets
         answer 2 INVALID_PRODUCER_ID_MAPPING
         call abort
         drained
         answer 2 NONE
         begin",
        expect![[r#"
            call init: call 1 -> InitProducerId
            answer 2 NONE => ok
            begin: ok
            sent
            call commit: call 2
            drained -> End true of epoch 1
            answer 2 TRANSACTION_ABORTABLE => the transaction can only be aborted: it of transactional id `me`: TRANSACTION_ABORTABLE
            call abort: call 3
            drained -> End false of epoch 1
            answer 2 TRANSACTION_ABORTABLE -> InitProducerId of epoch 1
            answer 2 NONE => ok
            begin: ok
            sent
            call offsets: call 4 -> CommitOffsets of epoch 2
            answer 2 INVALID_PRODUCER_ID_MAPPING => the transaction can only be aborted: it of transactional id `me`: INVALID_PRODUCER_ID_MAPPING
            call abort: call 5
            drained -> InitProducerId of epoch 2
            answer 2 NONE => ok
            begin: ok
        "#]],
    );
}

#[test]
fn what_the_coordinator_has_forgotten_is_ended_by_another_epoch() {
    check(
        "call init
         answer 2 NONE
         begin
         sent
         lost-batch INVALID_PRODUCER_ID_MAPPING
         call abort
         drained
         answer 2 NONE
         begin",
        expect![[r#"
            call init: call 1 -> InitProducerId
            answer 2 NONE => ok
            begin: ok
            sent
            lost-batch INVALID_PRODUCER_ID_MAPPING
            call abort: call 2
            drained -> InitProducerId of epoch 1
            answer 2 NONE => ok
            begin: ok
        "#]],
    );
}

#[test]
fn an_open_transaction_is_aborted_by_the_end_of_its_producer() {
    check(
        "call init
         answer 2 NONE
         begin
         sent
         close
         drained",
        expect![[r#"
            call init: call 1 -> InitProducerId
            answer 2 NONE => ok
            begin: ok
            sent
            close
            drained -> End false of epoch 1
        "#]],
    );
}

#[test]
fn members_that_were_replaced_cannot_commit_offsets() {
    check(
        "call init
         answer 2 NONE
         begin
         call offsets
         answer 2 ILLEGAL_GENERATION
         call abort
         drained
         answer 2 NONE
         begin
         call offsets
         answer 2 STALE_MEMBER_EPOCH",
        expect![[r#"
            call init: call 1 -> InitProducerId
            answer 2 NONE => ok
            begin: ok
            call offsets: call 2 -> CommitOffsets of epoch 1
            answer 2 ILLEGAL_GENERATION => the transaction can only be aborted: it of transactional id `me`: ILLEGAL_GENERATION: the group has rebalanced without the consumer whose offsets these are: take its group metadata after each poll
            call abort: call 3
            drained -> End false of epoch 1
            answer 2 NONE => ok
            begin: ok
            call offsets: call 4 -> CommitOffsets of epoch 2
            answer 2 STALE_MEMBER_EPOCH => the transaction can only be aborted: it of transactional id `me`: STALE_MEMBER_EPOCH: the group has rebalanced without the consumer whose offsets these are: take its group metadata after each poll
        "#]],
    );
}

#[test]
fn a_fenced_producer_can_only_be_closed() {
    check(
        "call init
         answer 2 NONE
         begin
         sent
         call commit
         drained
         answer 2 PRODUCER_FENCED
         call abort
         begin
         call init",
        expect![[r#"
            call init: call 1 -> InitProducerId
            answer 2 NONE => ok
            begin: ok
            sent
            call commit: call 2
            drained -> End true of epoch 1
            answer 2 PRODUCER_FENCED => the producer can only be closed: it of transactional id `me`: PRODUCER_FENCED: a newer producer has the same `transactional.id`, or the transaction took longer than `transaction.timeout.ms`
            call abort: the producer can only be closed: it of transactional id `me`: PRODUCER_FENCED: a newer producer has the same `transactional.id`, or the transaction took longer than `transaction.timeout.ms`
            begin: the producer can only be closed: it of transactional id `me`: PRODUCER_FENCED: a newer producer has the same `transactional.id`, or the transaction took longer than `transaction.timeout.ms`
            call init: the producer can only be closed: it of transactional id `me`: PRODUCER_FENCED: a newer producer has the same `transactional.id`, or the transaction took longer than `transaction.timeout.ms`
        "#]],
    );
    check(
        "call init
         answer 2 INVALID_TRANSACTION_TIMEOUT",
        expect![[r#"
            call init: call 1 -> InitProducerId
            answer 2 INVALID_TRANSACTION_TIMEOUT => the producer can only be closed: it of transactional id `me`: INVALID_TRANSACTION_TIMEOUT: `transaction.timeout.ms` exceeds the broker's `transaction.max.timeout.ms`, or is not above zero
        "#]],
    );
    check(
        "call init
         answer 2 NONE
         begin
         lost-batch INVALID_TXN_STATE",
        expect![[r#"
            call init: call 1 -> InitProducerId
            answer 2 NONE => ok
            begin: ok
            lost-batch INVALID_TXN_STATE
        "#]],
    );
}

#[test]
fn a_lost_enrolment_is_made_again_to_be_ended() {
    check(
        "call init
         answer 1 NONE
         begin
         want 3
         lose
         call abort
         drained
         answer 1 NONE
         answer 1 NONE
         begin",
        expect![[r#"
            call init: call 1 -> InitProducerId
            answer 1 NONE => ok
            begin: ok
            want 3 -> AddPartitions [3]
            lose
            call abort: call 2
            drained -> AddPartitions [3]
            answer 1 NONE -> End false of epoch 1
            answer 1 NONE => ok
            begin: ok
        "#]],
    );
    // Its topic is gone meanwhile: what may be open is ended with the epoch.
    check(
        "call init
         answer 1 NONE
         begin
         want 3
         lose
         call abort
         drained
         answer 1 UNKNOWN_TOPIC_OR_PARTITION
         wait
         answer 1 NONE",
        expect![[r#"
            call init: call 1 -> InitProducerId
            answer 1 NONE => ok
            begin: ok
            want 3 -> AddPartitions [3]
            lose
            call abort: call 2
            drained -> AddPartitions [3]
            answer 1 UNKNOWN_TOPIC_OR_PARTITION
            wait -> InitProducerId of epoch 1
            answer 1 NONE => ok
        "#]],
    );
}

#[test]
fn an_outcome_that_nobody_heard_is_kept_for_the_call_that_asks() {
    check(
        "call init
         gone
         answer 2 NONE
         begin
         call init
         call init
         begin
         sent
         call commit
         gone
         drained
         answer 2 NONE
         begin
         call abort
         call commit
         begin
         sent
         call abort
         gone
         drained
         answer 2 NONE
         call commit
         call abort
         begin",
        expect![[r#"
            call init: call 1 -> InitProducerId
            gone
            answer 2 NONE
            begin: initializing transactions has ended since its caller gave up: call it again to hear how
            call init: call 1 => ok
            call init: transactions are initialized once, by one call
            begin: ok
            sent
            call commit: call 2
            gone
            drained -> End true of epoch 1
            answer 2 NONE
            begin: committing a transaction has ended since its caller gave up: call it again to hear how
            call abort: committing a transaction has ended since its caller gave up: call it again to hear how
            call commit: call 2 => ok
            begin: ok
            sent
            call abort: call 3
            gone
            drained -> End false of epoch 2
            answer 2 NONE
            call commit: aborting a transaction has ended since its caller gave up: call it again to hear how
            call abort: call 3 => ok
            begin: ok
        "#]],
    );
}

#[test]
fn a_failure_that_nobody_heard_does_not_hold_up_the_abort() {
    check(
        "call init
         answer 1 NONE
         begin
         call commit
         gone
         lost-batch MESSAGE_TOO_LARGE
         begin
         call abort
         drained
         begin",
        expect![[r#"
            call init: call 1 -> InitProducerId
            answer 1 NONE => ok
            begin: ok
            call commit: call 2
            gone
            lost-batch MESSAGE_TOO_LARGE
            begin: the transaction can only be aborted: t-0: MESSAGE_TOO_LARGE
            call abort: call 3
            drained => ok
            begin: ok
        "#]],
    );
}
