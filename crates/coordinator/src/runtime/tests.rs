//! A hosted partition against scripts, and random scripts against a model that is a few lines long.
//!
//! The state is a list of texts: each record adds one. The log takes what it is told to take, and the high
//! watermark stands where it is told to stand.

use super::{
    AppendedBatch, Asker, CoordinatorLog, HostedPartition, TransactionMarker, TransactionalWriter,
    Waiter,
};
use expect_test::{Expect, expect};
use model::{ErrorCode, MonotonicTime, Now, Offset, ProducerEpoch, ProducerId};
use record::{Batches, Codec, Compression, ValidatedBatch};

mod loading;
mod log_calls;
mod properties;
mod texts;

use texts::Texts;

const NOW: Now = Now {
    monotonic: MonotonicTime::from_ms(0),
    wall_ms: 1_700_000_000_000,
};

/// A log in memory.
#[derive(Debug, Default)]
struct Memory {
    end_offset: Offset,
    high_watermark: Offset,
    /// So many batches are taken before the next one is refused.
    takes: Option<usize>,
    /// The high watermark is the log's end with each batch.
    has_one_replica: bool,
    /// The high watermark does not wait for a flush.
    needs_no_flush: bool,
    batches: Vec<usize>,
}

impl Memory {
    fn take(&mut self, batch: &ValidatedBatch<'_>) -> Result<AppendedBatch, ErrorCode> {
        match &mut self.takes {
            Some(0) => return Err(ErrorCode::KafkaStorageError),
            Some(left) => *left -= 1,
            None => {}
        }
        let count = Batches::new(batch.bytes())
            .map(|batch| batch.expect("it is a batch").record_count())
            .sum::<i32>() as usize;
        self.batches.push(count);
        let base_offset = self.end_offset;
        self.end_offset += count as i64;
        if self.has_one_replica {
            self.high_watermark = self.end_offset;
        }
        Ok(AppendedBatch {
            base_offset,
            end_offset: self.end_offset,
            is_flush_due: !self.needs_no_flush,
        })
    }
}

impl CoordinatorLog for Memory {
    type Guard = ();

    fn codec(&self) -> Codec {
        Compression::None.into()
    }

    fn batch_bytes_max(&self) -> usize {
        // Two records with a short key.
        61 + 2 * 10
    }

    fn append(
        &mut self,
        batch: &mut ValidatedBatch<'_>,
        _: Option<()>,
        _: i64,
    ) -> Result<AppendedBatch, ErrorCode> {
        self.take(batch)
    }

    fn append_marker(
        &mut self,
        batch: &mut ValidatedBatch<'_>,
        _: i16,
        _: i64,
    ) -> Result<AppendedBatch, ErrorCode> {
        self.take(batch)
    }

    fn high_watermark(&self) -> Offset {
        self.high_watermark
    }
}

/// The number of a request, and its answer.
type Answer = (usize, Result<usize, ErrorCode>);

#[derive(Debug, Clone, Copy)]
struct Request(usize);

impl Waiter<Texts> for Request {
    type Answer = Answer;

    fn released(self, response: usize) -> Answer {
        (self.0, Ok(response))
    }

    fn abandoned(self, error: ErrorCode) -> Answer {
        (self.0, Err(error))
    }

    fn refused((request, _): Answer, error: ErrorCode) -> Answer {
        (request, Err(error))
    }
}

impl Asker<Texts, usize, Self> for Request {
    fn answered(self, outcome: Result<(&Texts, usize), ErrorCode>) -> Answer {
        (self.0, outcome.map(|(_, count)| count))
    }

    fn parked(self) -> Self {
        self
    }
}

impl Asker<Texts, Result<(), ErrorCode>, Self> for Request {
    fn answered(self, outcome: Result<(&Texts, Result<(), ErrorCode>), ErrorCode>) -> Answer {
        let outcome = outcome.and_then(|(shard, ended)| ended.map(|()| shard.texts.len()));
        (self.0, outcome)
    }

    fn parked(self) -> Self {
        self
    }
}

type Hosted = HostedPartition<Texts, Memory, Request>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Load,
    /// The log cannot be replayed.
    LoadNothing,
    /// Writes so many texts at once.
    Write(usize),
    /// The same, in as many batches as it takes.
    WriteSplit(usize),
    WriteInTransaction,
    /// Writes a text, and releases who waits.
    Release,
    /// Writes a text, and waits.
    Park,
    /// Each for one who is there to take the answer.
    WriteAtOnce,
    ReleaseAtOnce,
    ParkAtOnce,
    Read,
    End,
    /// The high watermark is so far behind the log's end.
    Advance(i64),
    /// The high watermark is the log's end from the next batch on.
    HasOneReplica,
    /// The log takes so many more batches.
    Takes(usize),
    TakesAll,
    LogFails,
    /// Whoever has waited since this request, or for longer, waits no more.
    WaitedTooLong(usize),
    Abandon,
    Unload,
}

/// The time of a request is its number.
fn at(request: usize) -> Now {
    Now {
        monotonic: MonotonicTime::from_ms(request as i64),
        ..NOW
    }
}

/// Does a step on behalf of a request of this number, which may have its answer at once.
fn act(hosted: &mut Hosted, request: usize, step: Step) -> Option<Result<usize, ErrorCode>> {
    let at_once = match step {
        Step::WriteAtOnce => Some((false, false)),
        Step::ReleaseAtOnce => Some((false, true)),
        Step::ParkAtOnce => Some((true, false)),
        _ => None,
    };
    if let Some((parks, releases)) = at_once {
        return hosted.decide_at_once(
            || Request(request),
            None,
            at(request),
            |shard, _| shard.write(&["q"], parks, releases, true),
        );
    }
    act_later(hosted, request, step);
    None
}

fn act_later(hosted: &mut Hosted, request: usize, step: Step) {
    let asker = Request(request);
    let texts = ["a", "b", "c", "d", "e"];
    let mut write = |count: usize, parks, releases, is_atomic| {
        hosted.decide(asker, None, at(request), |shard: &mut Texts, _| {
            shard.write(&texts[..count], parks, releases, is_atomic)
        });
    };
    match step {
        Step::Write(count) => write(count, false, false, true),
        Step::WriteSplit(count) => write(count, false, false, false),
        Step::Release => write(1, false, true, true),
        Step::Park => write(1, true, false, true),
        Step::WriteAtOnce | Step::ReleaseAtOnce | Step::ParkAtOnce => {
            unreachable!("done at once")
        }
        Step::WriteInTransaction => {
            let writer = TransactionalWriter {
                producer_id: ProducerId(7),
                producer_epoch: ProducerEpoch(0),
                verification: None,
            };
            hosted.decide(asker, Some(&writer), at(request), |shard, _| {
                shard.write(&["t"], false, false, true)
            });
        }
        Step::Read => hosted.read(asker, at(request), |shard, _| shard.texts.len()),
        Step::End => {
            let marker = TransactionMarker {
                producer_id: ProducerId(7),
                producer_epoch: ProducerEpoch(0),
                coordinator_epoch: 0,
                is_commit: true,
            };
            hosted.end_transaction(asker, marker, 2, at(request));
        }
        Step::Load => {
            let end_offset = hosted.log.end_offset;
            hosted.loaded(Some((Texts::default(), end_offset)), at(request));
        }
        Step::LoadNothing => hosted.loaded(None, at(request)),
        Step::Advance(behind) => {
            let log = &mut hosted.log;
            log.high_watermark = log.high_watermark.max(log.end_offset - behind);
            hosted.high_watermark_advanced();
        }
        Step::HasOneReplica => hosted.log.has_one_replica = true,
        Step::Takes(count) => hosted.log.takes = Some(count),
        Step::TakesAll => hosted.log.takes = None,
        Step::LogFails => hosted.log_failed(ErrorCode::KafkaStorageError),
        Step::Abandon => hosted.abandon(ErrorCode::NotCoordinator),
        Step::WaitedTooLong(made_by) => hosted.waited_too_long(at(made_by).monotonic),
        Step::Unload => hosted.unload(),
    }
}

fn answers(hosted: &mut Hosted) -> Vec<Answer> {
    std::iter::from_fn(|| hosted.poll_answer()).collect()
}

/// Each step with the answers that leave by it, and the state in the end.
#[expect(clippy::needless_pass_by_value, reason = "as expectations are written")]
fn check(script: &[Step], expected: Expect) {
    let mut hosted = Hosted::new(Memory::default());
    let mut lines = Vec::new();
    for (request, step) in script.iter().enumerate() {
        let at_once = match act(&mut hosted, request, *step) {
            Some(Ok(count)) => format!(" at once {count}"),
            Some(Err(error)) => format!(" at once {error}"),
            None => String::new(),
        };
        let left = answers(&mut hosted)
            .into_iter()
            .map(|(to, outcome)| match outcome {
                Ok(count) => format!(" {to}={count}"),
                Err(error) => format!(" {to}={error}"),
            });
        let left = left.collect::<String>();
        lines.push(format!("{request} {step:?}:{at_once}{left}"));
    }
    let texts = hosted.shard().map(|shard| shard.texts.join(" "));
    lines.push(texts.unwrap_or_else(|error| error.to_string()));
    lines.push(format!("batches {:?}", hosted.log.batches));
    expected.assert_eq(&(lines.join("\n") + "\n"));
}

#[test]
fn answers_leave_when_the_high_watermark_has_passed_what_they_saw() {
    use Step::{Advance, Load, Read, Write};
    check(
        &[
            Read,
            Load,
            Read,
            Write(2),
            Read,
            Advance(1),
            Advance(0),
            Read,
            Write(1),
            Advance(0),
        ],
        expect![[r#"
            0 Read: 0=COORDINATOR_LOAD_IN_PROGRESS
            1 Load:
            2 Read: 2=1
            3 Write(2):
            4 Read:
            5 Advance(1):
            6 Advance(0): 3=3 4=3
            7 Read: 7=3
            8 Write(1):
            9 Advance(0): 8=4
            start 0:a 1:b 2:a
            batches [2, 1]
        "#]],
    );
}

#[test]
fn who_waits_too_long_is_refused_and_the_state_goes_on() {
    use Step::{Advance, Load, Read, WaitedTooLong, Write};
    check(
        &[
            Load,
            Write(1),
            Read,
            Write(1),
            WaitedTooLong(2),
            WaitedTooLong(2),
            Advance(0),
            Read,
            WaitedTooLong(7),
        ],
        expect![[r#"
            0 Load:
            1 Write(1):
            2 Read:
            3 Write(1):
            4 WaitedTooLong(2): 1=COORDINATOR_NOT_AVAILABLE 2=COORDINATOR_NOT_AVAILABLE
            5 WaitedTooLong(2):
            6 Advance(0): 3=3
            7 Read: 7=3
            8 WaitedTooLong(7):
            start 0:a 1:a
            batches [1, 1]
        "#]],
    );
}

#[test]
fn a_state_that_may_differ_from_its_log_is_seen_by_nobody_until_that_is_replayed() {
    use Step::{Abandon, Advance, Load, Park, Read, Unload, Write};
    check(
        &[
            Load,
            Write(1),
            Advance(0),
            Park,
            Write(1),
            Abandon,
            Read,
            Advance(0),
            Load,
            Read,
            Unload,
            Abandon,
            Load,
            Read,
        ],
        expect![[r#"
            0 Load:
            1 Write(1):
            2 Advance(0): 1=2
            3 Park:
            4 Write(1):
            5 Abandon: 4=NOT_COORDINATOR 3=NOT_COORDINATOR
            6 Read: 6=COORDINATOR_LOAD_IN_PROGRESS
            7 Advance(0):
            8 Load:
            9 Read: 9=1
            10 Unload:
            11 Abandon:
            12 Load:
            13 Read: 13=NOT_COORDINATOR
            NOT_COORDINATOR
            batches [1, 1, 1]
        "#]],
    );
}

#[test]
fn a_decision_is_one_batch_or_as_many_as_it_may_be() {
    use Step::{Advance, Load, Takes, TakesAll, Write, WriteSplit};
    check(
        &[
            Load,
            Write(5),
            WriteSplit(5),
            Takes(1),
            WriteSplit(5),
            Write(1),
            TakesAll,
            Write(1),
            Advance(0),
        ],
        expect![[r#"
            0 Load:
            1 Write(5):
            2 WriteSplit(5):
            3 Takes(1):
            4 WriteSplit(5):
            5 Write(1):
            6 TakesAll:
            7 Write(1):
            8 Advance(0): 1=6 2=11 4=NOT_COORDINATOR 5=NOT_COORDINATOR 7=14
            start 0:a 1:b 2:c 3:d 4:e 5:a 6:b 7:c 8:d 9:e 10:a 11:b 12:a
            batches [5, 2, 2, 1, 2, 1]
        "#]],
    );
}

#[test]
fn who_is_parked_waits_for_a_decision_and_for_the_high_watermark() {
    use Step::{Advance, Load, Park, Release, Takes, TakesAll};
    check(
        &[
            Load,
            Park,
            Park,
            Advance(0),
            Release,
            Advance(0),
            Park,
            Takes(0),
            Release,
            Park,
            TakesAll,
            Advance(0),
            Release,
            Advance(0),
        ],
        expect![[r#"
            0 Load:
            1 Park:
            2 Park:
            3 Advance(0):
            4 Release:
            5 Advance(0): 4=4 1=4 2=4
            6 Park:
            7 Takes(0):
            8 Release:
            9 Park:
            10 TakesAll:
            11 Advance(0): 8=NOT_COORDINATOR 6=0
            12 Release:
            13 Advance(0): 12=6 9=6
            start 0:a 1:a 2:a 3:a 4:a
            batches [1, 1, 1, 1, 1]
        "#]],
    );
}

#[test]
fn records_of_a_transaction_count_when_it_ends() {
    use Step::{Advance, End, Load, Takes, WriteInTransaction};
    check(
        &[
            End,
            Load,
            WriteInTransaction,
            End,
            Advance(0),
            Takes(0),
            End,
            WriteInTransaction,
        ],
        expect![[r#"
            0 End: 0=COORDINATOR_LOAD_IN_PROGRESS
            1 Load:
            2 WriteInTransaction:
            3 End:
            4 Advance(0): 2=2 3=3
            5 Takes(0):
            6 End: 6=KAFKA_STORAGE_ERROR
            7 WriteInTransaction: 7=NOT_COORDINATOR
            start 0:t/7 end/7/true
            batches [1, 1]
        "#]],
    );
}

#[test]
fn what_is_held_is_given_back_when_the_log_fails_or_the_partition_goes() {
    use Step::{Load, LoadNothing, LogFails, Park, Read, Unload, Write};
    check(
        &[
            Load,
            Write(1),
            Read,
            LogFails,
            Park,
            Write(1),
            Unload,
            Read,
            Load,
            Read,
        ],
        expect![[r#"
            0 Load:
            1 Write(1):
            2 Read:
            3 LogFails: 1=NOT_COORDINATOR 2=NOT_COORDINATOR
            4 Park:
            5 Write(1):
            6 Unload: 5=NOT_COORDINATOR 4=0
            7 Read: 7=NOT_COORDINATOR
            8 Load:
            9 Read: 9=NOT_COORDINATOR
            NOT_COORDINATOR
            batches [1, 1, 1]
        "#]],
    );
    check(
        &[Read, LoadNothing, Read, Load, Read],
        expect![[r#"
        0 Read: 0=COORDINATOR_LOAD_IN_PROGRESS
        1 LoadNothing:
        2 Read: 2=NOT_COORDINATOR
        3 Load:
        4 Read: 4=NOT_COORDINATOR
        NOT_COORDINATOR
        batches []
    "#]],
    );
    check(
        &[Unload, Load, Read],
        expect![[r#"
        0 Unload:
        1 Load:
        2 Read: 2=NOT_COORDINATOR
        NOT_COORDINATOR
        batches []
    "#]],
    );
}

#[test]
fn who_is_there_has_the_answer_at_once_if_it_may_leave() {
    use Step::{
        Advance, HasOneReplica, Load, Park, ParkAtOnce, ReleaseAtOnce, Takes, TakesAll, Write,
        WriteAtOnce,
    };
    check(
        &[
            WriteAtOnce,
            Load,
            WriteAtOnce,
            Advance(0),
            Takes(0),
            WriteAtOnce,
            TakesAll,
            Write(1),
            Takes(0),
            WriteAtOnce,
            TakesAll,
            Advance(0),
            ParkAtOnce,
            Park,
            ReleaseAtOnce,
            Advance(0),
            ParkAtOnce,
            Write(1),
            HasOneReplica,
            ReleaseAtOnce,
        ],
        expect![[r#"
            0 WriteAtOnce: at once COORDINATOR_LOAD_IN_PROGRESS
            1 Load:
            2 WriteAtOnce:
            3 Advance(0): 2=2
            4 Takes(0):
            5 WriteAtOnce: at once NOT_COORDINATOR
            6 TakesAll:
            7 Write(1):
            8 Takes(0):
            9 WriteAtOnce:
            10 TakesAll:
            11 Advance(0): 7=3 9=NOT_COORDINATOR
            12 ParkAtOnce:
            13 Park:
            14 ReleaseAtOnce:
            15 Advance(0): 14=6 12=6 13=6
            16 ParkAtOnce:
            17 Write(1):
            18 HasOneReplica:
            19 ReleaseAtOnce: at once 9 17=8 16=9
            start 0:q 1:a 2:q 3:a 4:q 5:q 6:a 7:q
            batches [1, 1, 1, 1, 1, 1, 1, 1]
        "#]],
    );
}
