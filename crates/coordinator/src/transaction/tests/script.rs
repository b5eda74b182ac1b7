//! Scripts of what the coordinator is asked: one command a line, and below it what it answers and
//! which records it writes.

use super::super::records::{self, TransactionRecord};
use super::super::transaction::Transaction;
use super::super::{
    AddPartitions, DecisionContext, EndTransaction, InitProducerId, ListTransactions,
    NeedsProducerId, ProducerIdAndEpoch, TransactionConfig, TransactionDecision, TransactionShard,
};
use crate::CoordinatorRecord;
use expect_test::Expect;
use model::{ErrorCode, Now, ProducerId, TopicPartition};
use std::collections::BTreeSet;
use std::fmt::Write;

/// A shard with its log and its clock.
struct Script {
    shard: TransactionShard,
    log: Vec<CoordinatorRecord>,
    now: Now,
    transaction_version: i16,
    next_producer_id: ProducerId,
    log_is_broken: bool,
}

impl Script {
    fn new() -> Self {
        let config = TransactionConfig {
            transactional_id_expiration_ms: 100_000,
            ..TransactionConfig::default()
        };
        Self {
            shard: TransactionShard::new(config),
            log: Vec::new(),
            now: Now::at_ms(1_000),
            transaction_version: 2,
            next_producer_id: ProducerId(7),
            log_is_broken: false,
        }
    }

    /// Lets the shard decide, with a producer id if it asks for one; appends and replays.
    fn decide<R>(
        &mut self,
        mut decide: impl FnMut(
            &mut TransactionShard,
            &DecisionContext,
        ) -> Result<TransactionDecision<R>, NeedsProducerId>,
    ) -> (Option<R>, Vec<String>) {
        let mut context = DecisionContext {
            now: self.now,
            transaction_version: self.transaction_version,
            fresh_producer_id: None,
        };
        let decision = decide(&mut self.shard, &context).unwrap_or_else(|NeedsProducerId| {
            context.fresh_producer_id = Some(self.next_producer_id);
            self.next_producer_id.0 += 1;
            decide(&mut self.shard, &context).expect("it has a producer id")
        });
        let shown: Vec<_> = decision.records.iter().map(shown_record).collect();
        if self.log_is_broken && !shown.is_empty() {
            return (None, vec!["not appended".to_owned()]);
        }
        for record in decision.records {
            let replayed = self
                .shard
                .replay(self.now, &record.key, record.value.as_deref());
            replayed.expect("a shard can read what it has written");
            self.log.push(record);
        }
        (Some(decision.reply), shown)
    }

    fn reload(&mut self) {
        let mut loaded = TransactionShard::new(self.shard.config);
        for record in &self.log {
            let replayed = loaded.replay(self.now, &record.key, record.value.as_deref());
            replayed.expect("a shard can read what it has written");
        }
        let stored = |shard: &TransactionShard| -> Vec<(String, Transaction)> {
            let all = shard.transactions.iter();
            all.map(|(id, entry)| (id.to_string(), entry.stored.clone()))
                .collect()
        };
        assert_eq!(stored(&loaded), stored(&self.shard));
        self.shard = loaded;
    }

    fn run(&mut self, command: &str) -> Vec<String> {
        let words: Vec<&str> = command.split_whitespace().collect();
        let [verb, rest @ ..] = &words[..] else {
            return Vec::new();
        };
        match *verb {
            "init" => self.init(rest),
            "add" | "add-by-broker" => self.add(verb, rest),
            "verify" => self.verify(rest),
            "end" => self.end(rest),
            "markers" => self.markers(rest[0]),
            // Some partitions have not taken their markers.
            "markers-but" => {
                let (producer, unmarked) = (producer(rest[1]), partitions(&rest[2..]));
                self.shard.note_unmarked(rest[0], producer, &unmarked);
                Vec::new()
            }
            "time-out" => self.time_out(),
            "expire" => {
                let now = self.now;
                let (count, shown) = self.decide(|shard, _| Ok(shard.expire_ids(now)));
                lines(count.map(|count| count.to_string()), shown)
            }
            "describe" => vec![match self.shard.describe(rest[0]) {
                Ok(described) => format!("{described:?}"),
                Err(error) => error.name().to_owned(),
            }],
            "list" => self.list(rest),
            "tick" => {
                let ms = number(rest[0]);
                self.now.monotonic = self.now.monotonic.plus_ms(ms);
                self.now.wall_ms += ms;
                Vec::new()
            }
            // The wall clock is set.
            "clock" => {
                self.now.wall_ms += number::<i64>(rest[0]);
                Vec::new()
            }
            "version" => {
                self.transaction_version = number(rest[0]);
                Vec::new()
            }
            "log" => {
                self.log_is_broken = rest[0] == "broken";
                Vec::new()
            }
            "reload" => {
                self.reload();
                Vec::new()
            }
            // A transactional id as some log has left it.
            "given" => {
                let mut given = Transaction::unused(number(rest[1]));
                given.producer_epoch = number(rest[2]);
                given.previous_producer_id = given.producer_id;
                given.timeout_ms = 60_000;
                given.last_update_timestamp_ms = self.now.wall_ms;
                let record = records::transaction(rest[0], &given, 1);
                let replayed = self
                    .shard
                    .replay(self.now, &record.key, record.value.as_deref());
                replayed.expect("the record is sound");
                self.log.push(record);
                Vec::new()
            }
            verb => panic!("no such command: {verb}"),
        }
    }

    fn init(&mut self, words: &[&str]) -> Vec<String> {
        let option = |name: &str| words.iter().find_map(|word| word.strip_prefix(name));
        let request = InitProducerId {
            transactional_id: words.first().copied().filter(|id| *id != "-").unwrap_or(""),
            timeout_ms: option("timeout=").map_or(60_000, number),
            enables_two_phase_commit: words.contains(&"two-phase"),
            keeps_prepared_transaction: words.contains(&"keep"),
            expected: option("expected=").map(producer),
        };
        let (reply, shown) =
            self.decide(|shard, context| shard.init_producer_id(&request, context));
        lines(reply.map(shown_producer), shown)
    }

    fn add(&mut self, verb: &str, words: &[&str]) -> Vec<String> {
        let partitions = partitions(&words[2..]);
        let request = AddPartitions {
            transactional_id: words[0],
            producer: producer(words[1]),
            partitions: &partitions,
            client_transaction_version: if verb == "add" { 0 } else { 2 },
        };
        let (reply, shown) =
            self.decide(|shard, context| Ok(shard.add_partitions(&request, context)));
        lines(reply.map(|error| error.name().to_owned()), shown)
    }

    fn verify(&mut self, words: &[&str]) -> Vec<String> {
        let partitions = partitions(&words[2..]);
        let verified = self.shard.verify_partitions(&AddPartitions {
            transactional_id: words[0],
            producer: producer(words[1]),
            partitions: &partitions,
            client_transaction_version: 0,
        });
        let names = |errors: Vec<ErrorCode>| {
            let names: Vec<_> = errors.into_iter().map(ErrorCode::name).collect();
            names.join(" ")
        };
        vec![verified.map_or_else(|error| format!("all {}", error.name()), names)]
    }

    fn end(&mut self, words: &[&str]) -> Vec<String> {
        let request = EndTransaction {
            transactional_id: words[0],
            producer: producer(words[1]),
            committed: words[2] == "commit",
            client_transaction_version: if words.contains(&"v1") { 0 } else { 2 },
        };
        let (reply, shown) = self.decide(|shard, context| shard.end_transaction(&request, context));
        lines(reply.map(shown_producer), shown)
    }

    fn markers(&mut self, id: &str) -> Vec<String> {
        let Some(prepared) = self.shard.prepared_of(id) else {
            return vec!["nothing is prepared".to_owned()];
        };
        let end = if prepared.committed {
            "commit"
        } else {
            "abort"
        };
        let ProducerIdAndEpoch {
            producer_id,
            producer_epoch,
        } = prepared.producer;
        let targets: Vec<_> = prepared
            .partitions
            .iter()
            .map(ToString::to_string)
            .collect();
        let written = format!(
            "{end} {producer_id}/{producer_epoch} to [{}]",
            targets.join(" ")
        );
        let (reply, mut shown) =
            self.decide(|shard, context| Ok(shard.complete(id, prepared.producer, context)));
        shown.insert(0, written);
        lines(
            reply.map(|done| if done { "done" } else { "not done" }.to_owned()),
            shown,
        )
    }

    fn time_out(&mut self) -> Vec<String> {
        let mut all = Vec::new();
        for id in self.shard.timed_out(self.now.monotonic) {
            let (reply, shown) = self.decide(|shard, context| shard.abort_timed_out(&id, context));
            all.extend(lines(reply.map(|aborted| format!("{id} {aborted}")), shown));
        }
        all
    }

    fn list(&self, words: &[&str]) -> Vec<String> {
        let option = |name: &str| words.iter().find_map(|word| word.strip_prefix(name));
        let filter = ListTransactions {
            states: option("states=").map_or_else(BTreeSet::new, |all| all.split(',').collect()),
            producer_ids: option("producers=")
                .map_or_else(BTreeSet::new, |all| all.split(',').map(number).collect()),
            duration_ms: option("duration=").map_or(-1, number),
        };
        let listed = self.shard.list(&filter, self.now.wall_ms).into_iter();
        let mut shown: Vec<_> = listed
            .map(|one| {
                format!(
                    "{} {} {}",
                    one.transactional_id,
                    one.producer_id,
                    one.state.name()
                )
            })
            .collect();
        shown.extend(
            filter
                .unknown_states()
                .map(|name| format!("unknown {name}")),
        );
        shown
    }
}

fn lines(reply: Option<String>, shown: Vec<String>) -> Vec<String> {
    reply.into_iter().chain(shown).collect()
}

fn number<N: std::str::FromStr<Err: std::fmt::Debug>>(word: &str) -> N {
    word.parse().expect("a number")
}

fn producer(word: &str) -> ProducerIdAndEpoch {
    let (producer_id, producer_epoch) = word.split_once('/').expect("an id and an epoch");
    ProducerIdAndEpoch {
        producer_id: number(producer_id),
        producer_epoch: number(producer_epoch),
    }
}

fn partitions(words: &[&str]) -> Vec<TopicPartition> {
    let partition = |word: &&str| {
        let (topic, index) = word.rsplit_once('-').expect("a partition");
        TopicPartition::new(topic, number(index))
    };
    words.iter().map(partition).collect()
}

fn shown_producer(result: Result<ProducerIdAndEpoch, ErrorCode>) -> String {
    match result {
        Ok(producer) => format!("{}/{}", producer.producer_id, producer.producer_epoch),
        Err(error) => error.name().to_owned(),
    }
}

fn shown_record(record: &CoordinatorRecord) -> String {
    let parsed = records::parse(&record.key, record.value.as_deref()).expect("the key is sound");
    let TransactionRecord::Transaction {
        transactional_id,
        stored,
    } = parsed
    else {
        panic!("a record of a transaction");
    };
    let Some(one) = stored.expect("the value is sound") else {
        return format!("log {transactional_id} forgotten");
    };
    let mut shown = format!(
        "log {transactional_id} {} {}/{} previous {}",
        one.state.name(),
        one.producer_id,
        one.producer_epoch,
        one.previous_producer_id
    );
    if one.next_producer_id != ProducerId::NONE {
        write!(shown, " next {}", one.next_producer_id).expect("strings take all");
    }
    let start = one.start_timestamp_ms;
    let version = one.client_transaction_version;
    write!(shown, " start {start} client {version}").expect("strings take all");
    for (topic, partitions) in &one.partitions {
        for index in partitions {
            write!(shown, " {topic}-{index}").expect("strings take all");
        }
    }
    shown
}

#[expect(clippy::needless_pass_by_value, reason = "as the macro gives it")]
pub(super) fn check(commands: &str, expected: Expect) {
    let mut script = Script::new();
    let mut shown = String::new();
    for command in commands
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        writeln!(shown, "{command}").expect("strings take all");
        for line in script.run(command) {
            writeln!(shown, "  {line}").expect("strings take all");
        }
    }
    expected.assert_eq(&shown);
}
