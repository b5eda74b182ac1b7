//! Scripts of appends, time and releases, and what can be sent after each.
//!
//! A step is one of:
//! - `p0:100` appends a value of 100 bytes to partition 0 (`p` alone: no partition, no key);
//! - `+5` lets 5 ms pass; `flush`, `close`;
//! - `take` lists what the sender finds: `p0[2]` is a batch of two records of partition 0;
//! - `done` gives back what has been taken; `wait:100` queues for memory; `granted` lists tickets.

use super::*;
use crate::producer::delivery::BatchResult;
use crate::producer::observer::{FailedRecord, WrittenRecords};
use std::fmt::Write as _;

struct Script {
    accumulator: Accumulator,
    now: Instant,
    taken: VecDeque<Batch>,
    tickets: Vec<Ticket>,
    output: String,
}

const SETTINGS: AccumulatorSettings = AccumulatorSettings {
    batch_bytes: 300,
    linger: Duration::from_millis(5),
    memory_bytes: 1_000,
    request_bytes_max: 900,
    ignores_keys: false,
    is_adaptive: true,
};

impl Script {
    fn run(settings: AccumulatorSettings, script: &str) -> String {
        let mut accumulator = Accumulator::new(settings, 1);
        accumulator.set_partition_count("t", 2);
        let mut run = Self {
            accumulator,
            now: Instant::now(),
            taken: VecDeque::new(),
            tickets: Vec::new(),
            output: String::new(),
        };
        for step in script.split_whitespace() {
            run.step(step);
        }
        run.output
    }

    fn step(&mut self, step: &str) {
        let (verb, argument) = step.split_once(':').unwrap_or((step, "0"));
        let argument: usize = argument.parse().expect("a number");
        match verb {
            "flush" => {
                let generation = self.accumulator.begin_flush();
                let is_done = self.accumulator.oldest_generation() > generation;
                write!(self.output, "flushed={is_done} ").expect("it is memory");
            }
            "flushed" => {
                let oldest = self.accumulator.oldest_generation();
                write!(self.output, "oldest={oldest} ").expect("it is memory");
            }
            "close" => self.accumulator.close(),
            "take" => self.take(),
            "done" => {
                for batch in self.taken.drain(..) {
                    self.accumulator.release(batch);
                }
            }
            "wait" => {
                let ticket = self.accumulator.wait_for_memory(argument);
                self.tickets.push(ticket);
            }
            "cancel" => self.accumulator.cancel_wait(self.tickets[argument]),
            "granted" => {
                let granted: Vec<Ticket> = self.accumulator.granted.keys().copied().collect();
                write!(self.output, "granted={granted:?} ").expect("it is memory");
            }
            "free" => {
                let free_bytes = self.accumulator.free_bytes();
                write!(self.output, "free={free_bytes} ").expect("it is memory");
            }
            _ => match (verb.strip_prefix('+'), verb.strip_prefix('p')) {
                (Some(ms), _) => {
                    self.now += Duration::from_millis(ms.parse().expect("a number"));
                }
                (None, Some(partition)) => self.append(partition, argument),
                (None, None) => panic!("unknown step `{step}`"),
            },
        }
    }

    fn append(&mut self, partition: &str, size_bytes: usize) {
        let value = vec![7; size_bytes];
        let record = ProducerRecord {
            partition: partition.parse().ok(),
            ..ProducerRecord::new("t").value(&value)
        };
        let now = self.now;
        let appended = self
            .accumulator
            .append(&record, 9, || now, None, &mut Listener::Nobody);
        match appended {
            Ok(appended) if appended.wakes_sender => self.output.push_str("wake "),
            Ok(_) => {}
            Err(refusal) => write!(self.output, "{refusal:?} ").expect("it is memory"),
        }
    }

    fn take(&mut self) {
        self.accumulator.expire_linger(self.now);
        while let Some(partition) = self.accumulator.next_ready() {
            while let Ok(Some((batch, _))) = self.accumulator.take(partition, usize::MAX) {
                let (index, count) = (batch.outcome().partition(), batch.record_count());
                write!(self.output, "p{index}[{count}] ").expect("it is memory");
                self.taken.push_back(batch);
            }
        }
        self.output.push_str("/ ");
    }
}

#[track_caller]
fn check(script: &str, expect: &str) {
    assert_eq!(Script::run(SETTINGS, script).trim(), expect, "{script}");
}

#[test]
fn a_batch_is_due_when_it_is_full_or_old() {
    check(
        "p0:50 p0:50 take +4 take +1 take take",
        "wake / / p0[2] / /",
    );
    check("p0:100 p0:100 p0:100 take", "wake wake p0[2] /");
    check("p0:100 p0:100 p0:100 +5 take", "wake wake p0[2] p0[1] /");
    // One that would be due soon goes with one that is due.
    check("p0:1 +2 p1:1 +3 take", "wake p0[1] p1[1] /");
    check("p0:1 +3 p1:1 +2 take +3 take", "wake p0[1] / p1[1] /");
}

#[test]
fn without_linger_a_batch_is_due_at_once_and_takes_records_until_it_is_sent() {
    let linger = Duration::ZERO;
    let output = Script::run(
        AccumulatorSettings { linger, ..SETTINGS },
        "p0:1 p0:1 take p0:1 take",
    );
    assert_eq!(output.trim(), "wake p0[2] / wake p0[1] /");
}

#[test]
fn memory_is_bounded_and_given_in_order() {
    check(
        "p0:1 p1:1 p0:300 p1:300 free",
        "wake wake NeedsMemory { size_bytes: 386 } free=14",
    );
    check(
        "p0:300 p1:300 wait:400 wait:10 granted take done granted free",
        "wake granted=[] p0[1] p1[1] / granted=[0, 1] free=590",
    );
    // Who comes later does not overtake, and makes room for who waits.
    check(
        "p0:400 wait:900 p1:1 take done granted cancel:0 free",
        "wake NeedsMemory { size_bytes: 300 } p0[1] / granted=[0] free=1000",
    );
    check(
        "p0:1 wait:900 cancel:0 granted free",
        "wake granted=[] free=700",
    );
}

#[test]
fn what_callbacks_take_is_memory_too() {
    let mut accumulator = Accumulator::new(SETTINGS, 1);
    accumulator.set_partition_count("t", 1);
    let record = ProducerRecord::new("t").value(b"few bytes");
    let now = Instant::now();
    let append = |accumulator: &mut Accumulator| {
        let needed = [7_u8; 100];
        let mut listener = Listener::Callback(Box::new(move |_| assert_eq!(needed[0], 7)));
        let appended = accumulator.append(&record, 9, || now, None, &mut listener);
        appended.map(|appended| drop(appended.delivery))
    };
    // Of the 1,000 bytes a batch takes 300, and each callback about 150.
    let refusal = (0..10).find_map(|count| Some((count, append(&mut accumulator).err()?)));
    let Some((count, Refusal::NeedsMemory { size_bytes: 300 })) = refusal else {
        panic!("{refusal:?}");
    };
    assert!((3..=5).contains(&count), "{count}");
    give_all_back(&mut accumulator);
    assert_eq!(accumulator.free_bytes(), SETTINGS.memory_bytes);
}

/// Hears nothing.
struct Deaf;

impl DeliveryObserver for Deaf {
    fn handle_written(&self, _: &WrittenRecords<'_>) {}

    fn handle_failed(&self, _: FailedRecord<'_>) {}
}

#[test]
fn what_notes_take_is_memory_too() {
    const NOTE: [u8; 100] = [7; 100];
    let mut accumulator = Accumulator::new(SETTINGS, 1);
    accumulator.set_partition_count("t", 1);
    accumulator.set_observer(Arc::new(Deaf));
    let record = ProducerRecord::new("t").value(b"few bytes");
    let now = Instant::now();
    let append = |accumulator: &mut Accumulator, mut listener: Listener<'_>| {
        let appended = accumulator.append(&record, 9, || now, None, &mut listener);
        appended.map(|appended| drop(appended.delivery))
    };
    // Of the 1,000 bytes a batch takes 300, and each note as much as it may take.
    let count = (1_000 - 300) / Notes::size_max_bytes(NOTE.len());
    for _ in 0..count {
        let appended = append(&mut accumulator, Listener::Observer(&NOTE));
        appended.expect("there is memory");
    }
    let free_bytes = 1_000 - 300 - count * Notes::size_max_bytes(NOTE.len());
    assert_eq!(accumulator.free_bytes(), free_bytes);
    let refused = append(&mut accumulator, Listener::Observer(&NOTE));
    assert_eq!(refused, Err(Refusal::NeedsMemory { size_bytes: 300 }));
    give_all_back(&mut accumulator);
    assert_eq!(accumulator.free_bytes(), SETTINGS.memory_bytes);
}

/// What a note takes does not overtake who waits for memory either.
#[test]
fn a_note_takes_no_memory_before_who_waits_for_it() {
    let mut accumulator = Accumulator::new(SETTINGS, 1);
    accumulator.set_partition_count("t", 1);
    accumulator.set_observer(Arc::new(Deaf));
    let record = ProducerRecord::new("t").value(b"few bytes");
    let now = Instant::now();
    let append = |accumulator: &mut Accumulator, mut listener: Listener<'_>, ticket| {
        let appended = accumulator.append(&record, 9, || now, ticket, &mut listener);
        appended.map(|appended| drop(appended.delivery))
    };
    append(&mut accumulator, Listener::Nobody, None).expect("there is memory");
    let ticket = accumulator.wait_for_memory(900);
    // What an open batch has room for takes nothing more.
    append(&mut accumulator, Listener::Nobody, None).expect("there is room");
    let refused = append(&mut accumulator, Listener::Observer(b"note"), None);
    assert_eq!(refused, Err(Refusal::NeedsMemory { size_bytes: 300 }));
    assert_eq!(accumulator.free_bytes(), 700);
    give_all_back(&mut accumulator);
    assert!(accumulator.granted.contains_key(&ticket));
    let granted = append(&mut accumulator, Listener::Observer(b"note"), Some(ticket));
    granted.expect("it has waited");
}

/// Everything that there is is done, and fails.
fn give_all_back(accumulator: &mut Accumulator) {
    accumulator.make_room();
    while let Some(partition) = accumulator.next_ready() {
        while let Ok(Some((mut batch, _))) = accumulator.take(partition, usize::MAX) {
            drop(batch.complete(&BatchResult::failed(Error::Closed("producer"))));
            accumulator.release(batch);
        }
    }
}

#[test]
fn records_that_cannot_be_sent_are_refused() {
    check("p0:823", "ExceedsRequest { size_bytes: 909 }");
    check("p2:1", "NoSuchPartition { partition_count: 2 }");
    check("p-1:1", "NoSuchPartition { partition_count: 2 }");
    check("close p0:1", "Closed");
    let settings = AccumulatorSettings {
        memory_bytes: 500,
        ..SETTINGS
    };
    let output = Script::run(settings, "p0:500");
    assert_eq!(output.trim(), "ExceedsMemory { size_bytes: 586 }");
}

#[test]
fn a_flush_makes_everything_due_and_ends_with_what_was_there() {
    check("flush", "flushed=true");
    check(
        "p0:1 p1:1 flush take p0:1 done flushed",
        "wake flushed=false p0[1] p1[1] / wake oldest=1",
    );
    check(
        "p0:1 flush p0:1 take flushed done flushed",
        "wake flushed=false p0[2] / oldest=0 oldest=1",
    );
    check("p0:1 close take", "wake p0[1] /");
}

#[test]
fn records_without_key_stick_to_a_partition_for_a_batch() {
    let settings = AccumulatorSettings {
        memory_bytes: 10_000,
        ..SETTINGS
    };
    let output = Script::run(settings, &"p:80 ".repeat(60));
    let is_batch = |word: &&str| word.starts_with('p');
    assert_eq!(output.split_whitespace().filter(is_batch).count(), 0);
    let output = Script::run(settings, &("p:80 ".repeat(60) + "+5 take"));
    let records = |partition: &str| {
        let batches = output
            .split_whitespace()
            .filter(|word| word.starts_with(partition));
        batches
            .map(|batch| batch.ends_with("[2]"))
            .collect::<Vec<_>>()
    };
    let (first, second) = (records("p0"), records("p1"));
    assert!(first.len() > 8 && second.len() > 8, "{output}");
    // Only the last batch of a partition may have room left.
    let is_full = |batches: &[bool]| batches.iter().rev().skip(1).all(|is_full| *is_full);
    assert!(is_full(&first) && is_full(&second), "{output}");
}
