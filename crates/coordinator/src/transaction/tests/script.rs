//! What the coordinator answers, and which records it writes, as scripts: one command a line, and
//! below it what came of it.

use super::super::records::{self, TransactionRecord};
use super::super::transaction::Transaction;
use super::super::{
    AddPartitions, EndTransaction, InitProducerId, ListTransactions, Moment, NeedsProducerId,
    ProducerIdAndEpoch, TransactionConfig, TransactionDecision, TransactionShard,
};
use crate::CoordinatorRecord;
use expect_test::{Expect, expect};
use model::{ErrorCode, TopicPartition};
use std::fmt::Write;

/// A shard with its log and its clock.
struct Script {
    shard: TransactionShard,
    log: Vec<CoordinatorRecord>,
    now_ms: i64,
    transaction_version: i16,
    next_producer_id: i64,
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
            now_ms: 1_000,
            transaction_version: 2,
            next_producer_id: 7,
            log_is_broken: false,
        }
    }

    /// Lets the shard decide, with a producer id if it asks for one; appends and replays.
    fn decide<R>(
        &mut self,
        mut decide: impl FnMut(
            &mut TransactionShard,
            &Moment,
        ) -> Result<TransactionDecision<R>, NeedsProducerId>,
    ) -> (Option<R>, Vec<String>) {
        let mut moment = Moment {
            now_ms: self.now_ms,
            transaction_version: self.transaction_version,
            fresh_producer_id: None,
        };
        let decision = decide(&mut self.shard, &moment).unwrap_or_else(|NeedsProducerId| {
            moment.fresh_producer_id = Some(self.next_producer_id);
            self.next_producer_id += 1;
            decide(&mut self.shard, &moment).expect("it has a producer id")
        });
        let shown: Vec<_> = decision.records.iter().map(shown_record).collect();
        if self.log_is_broken && !shown.is_empty() {
            return (None, vec!["not appended".to_owned()]);
        }
        for record in decision.records {
            let replayed = self.shard.replay(&record.key, record.value.as_deref());
            replayed.expect("a shard can read what it has written");
            self.log.push(record);
        }
        (Some(decision.reply), shown)
    }

    fn reload(&mut self) {
        let mut loaded = TransactionShard::new(self.shard.config);
        for record in &self.log {
            let replayed = loaded.replay(&record.key, record.value.as_deref());
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
            "time-out" => self.time_out(),
            "expire" => {
                let now_ms = self.now_ms;
                let (count, shown) = self.decide(|shard, _| Ok(shard.expire_ids(now_ms)));
                lines(count.map(|count| count.to_string()), shown)
            }
            "describe" => vec![match self.shard.describe(rest[0]) {
                Ok(described) => format!("{described:?}"),
                Err(error) => error.name().to_owned(),
            }],
            "list" => self.list(rest),
            "tick" => {
                self.now_ms += number::<i64>(rest[0]);
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
                given.last_update_timestamp_ms = self.now_ms;
                let record = records::transaction(rest[0], &given, 1);
                let replayed = self.shard.replay(&record.key, record.value.as_deref());
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
        let (reply, shown) = self.decide(|shard, moment| shard.init_producer_id(&request, moment));
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
            self.decide(|shard, moment| Ok(shard.add_partitions(&request, moment)));
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
        let (reply, shown) = self.decide(|shard, moment| shard.end_transaction(&request, moment));
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
            self.decide(|shard, moment| Ok(shard.complete(id, prepared.producer, moment)));
        shown.insert(0, written);
        lines(
            reply.map(|done| if done { "done" } else { "not done" }.to_owned()),
            shown,
        )
    }

    fn time_out(&mut self) -> Vec<String> {
        let mut all = Vec::new();
        for id in self.shard.timed_out(self.now_ms) {
            let (reply, shown) = self.decide(|shard, moment| shard.abort_timed_out(&id, moment));
            all.extend(lines(reply.map(|aborted| format!("{id} {aborted}")), shown));
        }
        all
    }

    fn list(&self, words: &[&str]) -> Vec<String> {
        let option = |name: &str| words.iter().find_map(|word| word.strip_prefix(name));
        let filter = ListTransactions {
            states: option("states=").map_or_else(Vec::new, |all| all.split(',').collect()),
            producer_ids: option("producers=")
                .map_or_else(Vec::new, |all| all.split(',').map(number).collect()),
            duration_ms: option("duration=").map_or(-1, number),
        };
        let listed = self.shard.list(&filter, self.now_ms).into_iter();
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
    if one.next_producer_id != -1 {
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
fn check(commands: &str, expected: Expect) {
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

#[test]
fn version_1_keeps_the_epoch_from_transaction_to_transaction() {
    check(
        "init t
         add t 7/0 a-0
         tick 10
         add t 7/0 a-0 b-3
         add t 7/0 a-0
         end t 7/0 commit v1
         end t 7/0 commit v1
         end t 7/0 abort v1
         add t 7/0 a-0
         init t
         verify t 7/0 a-0
         markers t
         end t 7/0 commit v1
         end t 7/0 abort v1
         tick 10
         add t 7/0 a-0
         end t 7/0 abort v1
         markers t
         end t 7/0 abort v1
         end t 7/0 commit v1",
        expect![[r#"
            init t
              7/0
              log t Empty 7/0 previous 7 start -1 client 0
            add t 7/0 a-0
              NONE
              log t Ongoing 7/0 previous 7 start 1000 client 0 a-0
            tick 10
            add t 7/0 a-0 b-3
              NONE
              log t Ongoing 7/0 previous 7 start 1000 client 0 a-0 b-3
            add t 7/0 a-0
              NONE
            end t 7/0 commit v1
              7/0
              log t PrepareCommit 7/0 previous 7 start 1000 client 0 a-0 b-3
            end t 7/0 commit v1
              CONCURRENT_TRANSACTIONS
            end t 7/0 abort v1
              CONCURRENT_TRANSACTIONS
            add t 7/0 a-0
              CONCURRENT_TRANSACTIONS
            init t
              CONCURRENT_TRANSACTIONS
            verify t 7/0 a-0
              all CONCURRENT_TRANSACTIONS
            markers t
              done
              commit 7/0 to [a-0 b-3]
              log t CompleteCommit 7/0 previous 7 start 1000 client 0
            end t 7/0 commit v1
              7/0
            end t 7/0 abort v1
              INVALID_TXN_STATE
            tick 10
            add t 7/0 a-0
              NONE
              log t Ongoing 7/0 previous 7 start 1020 client 0 a-0
            end t 7/0 abort v1
              7/0
              log t PrepareAbort 7/0 previous 7 start 1020 client 0 a-0
            markers t
              done
              abort 7/0 to [a-0]
              log t CompleteAbort 7/0 previous 7 start 1020 client 0
            end t 7/0 abort v1
              7/0
            end t 7/0 commit v1
              INVALID_TXN_STATE
        "#]],
    );
}

#[test]
fn version_2_bumps_the_epoch_at_each_end() {
    check(
        "init t
         add-by-broker t 7/0 a-0
         end t 7/0 commit
         end t 7/0 commit
         markers t
         end t 7/0 commit
         end t 7/0 abort
         end t 7/1 commit
         tick 5
         end t 7/1 abort
         markers t
         end t 7/1 abort
         end t 7/1 commit
         end t 7/0 abort
         add-by-broker t 7/2 a-1
         end t 7/1 commit
         end t 7/3 commit
         end t 8/2 commit",
        expect![[r#"
            init t
              7/0
              log t Empty 7/0 previous 7 start -1 client 0
            add-by-broker t 7/0 a-0
              NONE
              log t Ongoing 7/0 previous 7 start 1000 client 2 a-0
            end t 7/0 commit
              7/1
              log t PrepareCommit 7/1 previous 7 start 1000 client 2 a-0
            end t 7/0 commit
              CONCURRENT_TRANSACTIONS
            markers t
              done
              commit 7/1 to [a-0]
              log t CompleteCommit 7/1 previous 7 start 1000 client 2
            end t 7/0 commit
              7/1
            end t 7/0 abort
              INVALID_TXN_STATE
            end t 7/1 commit
              INVALID_TXN_STATE
            tick 5
            end t 7/1 abort
              7/2
              log t PrepareAbort 7/2 previous 7 start 1005 client 2
            markers t
              done
              abort 7/2 to []
              log t CompleteAbort 7/2 previous 7 start 1005 client 2
            end t 7/1 abort
              7/2
            end t 7/1 commit
              INVALID_TXN_STATE
            end t 7/0 abort
              PRODUCER_FENCED
            add-by-broker t 7/2 a-1
              NONE
              log t Ongoing 7/2 previous 7 start 1005 client 2 a-1
            end t 7/1 commit
              PRODUCER_FENCED
            end t 7/3 commit
              PRODUCER_FENCED
            end t 8/2 commit
              INVALID_PRODUCER_ID_MAPPING
        "#]],
    );
}

#[test]
fn a_fenced_producer_of_version_2_does_not_get_the_epoch_of_one_of_version_1() {
    check(
        "init t
         init t
         add t 7/1 a-0
         end t 7/1 abort v1
         markers t
         end t 7/0 abort",
        expect![[r#"
            init t
              7/0
              log t Empty 7/0 previous 7 start -1 client 0
            init t
              7/1
              log t Empty 7/1 previous 7 start -1 client 0
            add t 7/1 a-0
              NONE
              log t Ongoing 7/1 previous 7 start 1000 client 0 a-0
            end t 7/1 abort v1
              7/1
              log t PrepareAbort 7/1 previous 7 start 1000 client 0 a-0
            markers t
              done
              abort 7/1 to [a-0]
              log t CompleteAbort 7/1 previous 7 start 1000 client 0
            end t 7/0 abort
              PRODUCER_FENCED
        "#]],
    );
}

#[test]
fn an_empty_transaction_can_be_aborted_in_version_2_only() {
    check(
        "init t
         end t 7/0 commit
         end t 7/0 commit v1
         end t 7/0 abort v1
         tick 5
         end t 7/0 abort
         markers t
         markers t",
        expect![[r#"
            init t
              7/0
              log t Empty 7/0 previous 7 start -1 client 0
            end t 7/0 commit
              INVALID_TXN_STATE
            end t 7/0 commit v1
              INVALID_TXN_STATE
            end t 7/0 abort v1
              INVALID_TXN_STATE
            tick 5
            end t 7/0 abort
              7/1
              log t PrepareAbort 7/1 previous 7 start 1005 client 2
            markers t
              done
              abort 7/1 to []
              log t CompleteAbort 7/1 previous 7 start 1005 client 2
            markers t
              nothing is prepared
        "#]],
    );
}

#[test]
fn a_producer_with_the_same_id_fences_the_one_before() {
    check(
        "init t
         add-by-broker t 7/0 a-0
         init t
         init t
         markers t
         init t
         add-by-broker t 7/0 a-0
         add-by-broker t 7/1 a-0
         end t 7/0 commit
         verify t 7/0 a-0
         add-by-broker t 7/2 a-0
         verify t 7/2 a-0 a-1
         verify t 8/2 a-0
         verify u 7/2 a-0",
        expect![[r#"
            init t
              7/0
              log t Empty 7/0 previous 7 start -1 client 0
            add-by-broker t 7/0 a-0
              NONE
              log t Ongoing 7/0 previous 7 start 1000 client 2 a-0
            init t
              CONCURRENT_TRANSACTIONS
              log t PrepareAbort 7/1 previous 7 start 1000 client 2 a-0
            init t
              CONCURRENT_TRANSACTIONS
            markers t
              done
              abort 7/1 to [a-0]
              log t CompleteAbort 7/1 previous 7 start 1000 client 2
            init t
              7/2
              log t Empty 7/2 previous 7 start -1 client 2
            add-by-broker t 7/0 a-0
              PRODUCER_FENCED
            add-by-broker t 7/1 a-0
              PRODUCER_FENCED
            end t 7/0 commit
              PRODUCER_FENCED
            verify t 7/0 a-0
              all PRODUCER_FENCED
            add-by-broker t 7/2 a-0
              NONE
              log t Ongoing 7/2 previous 7 start 1000 client 2 a-0
            verify t 7/2 a-0 a-1
              NONE TRANSACTION_ABORTABLE
            verify t 8/2 a-0
              all INVALID_PRODUCER_ID_MAPPING
            verify u 7/2 a-0
              all INVALID_PRODUCER_ID_MAPPING
        "#]],
    );
}

#[test]
fn a_producer_of_version_1_is_fenced_the_same_way() {
    check(
        "version 1
         init t
         add t 7/0 a-0
         init t
         markers t
         init t
         end t 7/0 commit v1
         version 0
         add t 7/2 a-0
         end t 7/2 commit
         markers t",
        expect![[r#"
            version 1
            init t
              7/0
              log t Empty 7/0 previous 7 start -1 client 0
            add t 7/0 a-0
              NONE
              log t Ongoing 7/0 previous 7 start 1000 client 0 a-0
            init t
              CONCURRENT_TRANSACTIONS
              log t PrepareAbort 7/1 previous 7 start 1000 client 0 a-0
            markers t
              done
              abort 7/1 to [a-0]
              log t CompleteAbort 7/1 previous 7 start 1000 client 0
            init t
              7/2
              log t Empty 7/2 previous 7 start -1 client 0
            end t 7/0 commit v1
              PRODUCER_FENCED
            version 0
            add t 7/2 a-0
              NONE
              log t Ongoing 7/2 previous -1 start 1000 client 0 a-0
            end t 7/2 commit
              7/2
              log t PrepareCommit 7/2 previous -1 start 1000 client 0 a-0
            markers t
              done
              commit 7/2 to [a-0]
              log t CompleteCommit 7/2 previous -1 start 1000 client 0
        "#]],
    );
}

#[test]
fn a_producer_goes_on_after_an_error() {
    check(
        "init t
         init t expected=7/0
         init t expected=7/0
         init t expected=7/1
         init t expected=7/0
         init t expected=8/2
         reload
         init t expected=7/1
         init t expected=7/2
         init t
         init t expected=7/3
         add-by-broker t 7/4 a-0
         init t expected=7/3
         init u expected=99/5",
        expect![[r#"
            init t
              7/0
              log t Empty 7/0 previous 7 start -1 client 0
            init t expected=7/0
              7/1
              log t Empty 7/1 previous 7 start -1 client 0
            init t expected=7/0
              7/1
              log t Empty 7/1 previous 7 start -1 client 0
            init t expected=7/1
              7/2
              log t Empty 7/2 previous 7 start -1 client 0
            init t expected=7/0
              PRODUCER_FENCED
            init t expected=8/2
              PRODUCER_FENCED
            reload
            init t expected=7/1
              PRODUCER_FENCED
            init t expected=7/2
              7/3
              log t Empty 7/3 previous 7 start -1 client 0
            init t
              7/4
              log t Empty 7/4 previous 7 start -1 client 0
            init t expected=7/3
              PRODUCER_FENCED
            add-by-broker t 7/4 a-0
              NONE
              log t Ongoing 7/4 previous 7 start 1000 client 2 a-0
            init t expected=7/3
              CONCURRENT_TRANSACTIONS
              log t PrepareAbort 7/5 previous 7 start 1000 client 2 a-0
            init u expected=99/5
              8/0
              log u Empty 8/0 previous 8 start -1 client 0
        "#]],
    );
}

#[test]
fn epochs_that_are_used_up_bring_another_producer_id() {
    check(
        "given t 5 32765
         init t expected=5/32765
         init t expected=5/32766
         init t expected=5/32766
         init t expected=5/32765
         given u 6 32766
         init u expected=6/3
         add-by-broker u 6/32766 a-0
         end u 6/32766 commit
         end u 8/0 commit
         markers u
         end u 6/32766 commit
         end u 6/32766 abort
         init u expected=6/32766
         given v 5 32766
         add-by-broker v 5/32766 a-0
         init v
         markers v
         init v
         version 1
         given w 4 32766
         add w 4/32766 a-0
         init w
         markers w
         init w",
        expect![[r#"
            given t 5 32765
            init t expected=5/32765
              5/32766
              log t Empty 5/32766 previous 5 start -1 client 0
            init t expected=5/32766
              7/0
              log t Empty 7/0 previous 5 start -1 client 0
            init t expected=5/32766
              7/0
              log t Empty 7/0 previous 7 start -1 client 0
            init t expected=5/32765
              PRODUCER_FENCED
            given u 6 32766
            init u expected=6/3
              PRODUCER_FENCED
            add-by-broker u 6/32766 a-0
              NONE
              log u Ongoing 6/32766 previous 6 start 1000 client 2 a-0
            end u 6/32766 commit
              8/0
              log u PrepareCommit 6/32767 previous 6 next 8 start 1000 client 2 a-0
            end u 8/0 commit
              CONCURRENT_TRANSACTIONS
            markers u
              done
              commit 6/32767 to [a-0]
              log u CompleteCommit 8/0 previous 6 start 1000 client 2
            end u 6/32766 commit
              8/0
            end u 6/32766 abort
              INVALID_TXN_STATE
            init u expected=6/32766
              8/0
              log u Empty 8/0 previous 8 start -1 client 2
            given v 5 32766
            add-by-broker v 5/32766 a-0
              NONE
              log v Ongoing 5/32766 previous 5 start 1000 client 2 a-0
            init v
              CONCURRENT_TRANSACTIONS
              log v PrepareAbort 5/32767 previous 5 next 9 start 1000 client 2 a-0
            markers v
              done
              abort 5/32767 to [a-0]
              log v CompleteAbort 9/0 previous 5 start 1000 client 2
            init v
              9/1
              log v Empty 9/1 previous 9 start -1 client 2
            version 1
            given w 4 32766
            add w 4/32766 a-0
              NONE
              log w Ongoing 4/32766 previous 4 start 1000 client 0 a-0
            init w
              CONCURRENT_TRANSACTIONS
              log w PrepareAbort 4/32767 previous 4 start 1000 client 0 a-0
            markers w
              done
              abort 4/32767 to [a-0]
              log w CompleteAbort 4/32767 previous 4 start 1000 client 0
            init w
              10/0
              log w Empty 10/0 previous 4 start -1 client 0
        "#]],
    );
}

#[test]
fn requests_that_are_wrong() {
    check(
        "init -
         init t timeout=0
         init t timeout=-1
         init t timeout=900000
         init t timeout=900001
         init t two-phase
         init t keep
         add u 7/0 a-0
         add t 8/0 a-0
         add t 7/1 a-0
         end u 7/0 commit
         end u 7/0 commit v1
         end t 8/0 commit
         end t 8/0 commit v1
         end t 7/1 commit
         end t 7/1 commit v1
         verify t 7/0 a-0
         describe u",
        expect![[r#"
            init -
              INVALID_REQUEST
            init t timeout=0
              INVALID_TRANSACTION_TIMEOUT
            init t timeout=-1
              INVALID_TRANSACTION_TIMEOUT
            init t timeout=900000
              7/0
              log t Empty 7/0 previous 7 start -1 client 0
            init t timeout=900001
              INVALID_TRANSACTION_TIMEOUT
            init t two-phase
              TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            init t keep
              UNSUPPORTED_VERSION
            add u 7/0 a-0
              INVALID_PRODUCER_ID_MAPPING
            add t 8/0 a-0
              INVALID_PRODUCER_ID_MAPPING
            add t 7/1 a-0
              PRODUCER_FENCED
            end u 7/0 commit
              INVALID_PRODUCER_ID_MAPPING
            end u 7/0 commit v1
              INVALID_PRODUCER_ID_MAPPING
            end t 8/0 commit
              INVALID_PRODUCER_ID_MAPPING
            end t 8/0 commit v1
              INVALID_PRODUCER_ID_MAPPING
            end t 7/1 commit
              PRODUCER_FENCED
            end t 7/1 commit v1
              PRODUCER_FENCED
            verify t 7/0 a-0
              TRANSACTION_ABORTABLE
            describe u
              TRANSACTIONAL_ID_NOT_FOUND
        "#]],
    );
}

#[test]
fn transactions_out_of_time_are_aborted() {
    check(
        "init t timeout=100
         init u
         add-by-broker t 7/0 a-0
         tick 50
         add-by-broker t 7/0 a-1
         add-by-broker u 8/0 a-1
         tick 50
         time-out
         tick 1
         time-out
         time-out
         add-by-broker t 7/0 a-2
         markers t
         add-by-broker t 7/0 a-2
         end t 7/0 commit",
        expect![[r#"
            init t timeout=100
              7/0
              log t Empty 7/0 previous 7 start -1 client 0
            init u
              8/0
              log u Empty 8/0 previous 8 start -1 client 0
            add-by-broker t 7/0 a-0
              NONE
              log t Ongoing 7/0 previous 7 start 1000 client 2 a-0
            tick 50
            add-by-broker t 7/0 a-1
              NONE
              log t Ongoing 7/0 previous 7 start 1000 client 2 a-0 a-1
            add-by-broker u 8/0 a-1
              NONE
              log u Ongoing 8/0 previous 8 start 1050 client 2 a-1
            tick 50
            time-out
            tick 1
            time-out
              t true
              log t PrepareAbort 7/1 previous 7 start 1000 client 2 a-0 a-1
            time-out
            add-by-broker t 7/0 a-2
              CONCURRENT_TRANSACTIONS
            markers t
              done
              abort 7/1 to [a-0 a-1]
              log t CompleteAbort 7/1 previous 7 start 1000 client 2
            add-by-broker t 7/0 a-2
              PRODUCER_FENCED
            end t 7/0 commit
              INVALID_TXN_STATE
        "#]],
    );
}

#[test]
fn transactional_ids_that_nobody_uses_are_forgotten() {
    check(
        "init t
         init u
         init v
         add-by-broker u 8/0 a-0
         add-by-broker v 9/0 a-0
         end v 9/0 commit
         tick 99999
         expire
         tick 1
         expire
         list
         markers v
         tick 100000
         expire
         list
         init t",
        expect![[r#"
            init t
              7/0
              log t Empty 7/0 previous 7 start -1 client 0
            init u
              8/0
              log u Empty 8/0 previous 8 start -1 client 0
            init v
              9/0
              log v Empty 9/0 previous 9 start -1 client 0
            add-by-broker u 8/0 a-0
              NONE
              log u Ongoing 8/0 previous 8 start 1000 client 2 a-0
            add-by-broker v 9/0 a-0
              NONE
              log v Ongoing 9/0 previous 9 start 1000 client 2 a-0
            end v 9/0 commit
              9/1
              log v PrepareCommit 9/1 previous 9 start 1000 client 2 a-0
            tick 99999
            expire
              0
            tick 1
            expire
              1
              log t forgotten
            list
              u 8 Ongoing
              v 9 PrepareCommit
            markers v
              done
              commit 9/1 to [a-0]
              log v CompleteCommit 9/1 previous 9 start 1000 client 2
            tick 100000
            expire
              1
              log v forgotten
            list
              u 8 Ongoing
            init t
              10/0
              log t Empty 10/0 previous 10 start -1 client 0
        "#]],
    );
}

#[test]
fn what_administrators_see() {
    check(
        "init t
         init u
         tick 500
         add-by-broker u 8/0 b-1 a-2 a-0
         tick 100
         describe t
         describe u
         describe v
         list
         list states=Ongoing
         list states=ongoing,Dead,nonsense
         list producers=7,9
         list duration=99
         list duration=100
         list states=Empty producers=8",
        expect![[r#"
            init t
              7/0
              log t Empty 7/0 previous 7 start -1 client 0
            init u
              8/0
              log u Empty 8/0 previous 8 start -1 client 0
            tick 500
            add-by-broker u 8/0 b-1 a-2 a-0
              NONE
              log u Ongoing 8/0 previous 8 start 1500 client 2 a-0 a-2 b-1
            tick 100
            describe t
              DescribedTransaction { state: Empty, timeout_ms: 60000, start_timestamp_ms: -1, producer: ProducerIdAndEpoch { producer_id: 7, producer_epoch: 0 }, topics: [] }
            describe u
              DescribedTransaction { state: Ongoing, timeout_ms: 60000, start_timestamp_ms: 1500, producer: ProducerIdAndEpoch { producer_id: 8, producer_epoch: 0 }, topics: [("a", [0, 2]), ("b", [1])] }
            describe v
              TRANSACTIONAL_ID_NOT_FOUND
            list
              t 7 Empty
              u 8 Ongoing
            list states=Ongoing
              u 8 Ongoing
            list states=ongoing,Dead,nonsense
              unknown ongoing
              unknown nonsense
            list producers=7,9
              t 7 Empty
            list duration=99
              t 7 Empty
              u 8 Ongoing
            list duration=100
              t 7 Empty
            list states=Empty producers=8
        "#]],
    );
}

#[test]
fn what_is_not_appended_has_not_happened() {
    check(
        "log broken
         init t
         log sound
         init t
         log broken
         add-by-broker t 8/0 a-0
         log sound
         add-by-broker t 8/0 a-1
         log broken
         end t 8/0 commit
         log sound
         end t 8/0 abort
         log broken
         markers t
         log sound
         reload
         markers t",
        expect![[r#"
            log broken
            init t
              not appended
            log sound
            init t
              8/0
              log t Empty 8/0 previous 8 start -1 client 0
            log broken
            add-by-broker t 8/0 a-0
              not appended
            log sound
            add-by-broker t 8/0 a-1
              NONE
              log t Ongoing 8/0 previous 8 start 1000 client 2 a-1
            log broken
            end t 8/0 commit
              not appended
            log sound
            end t 8/0 abort
              8/1
              log t PrepareAbort 8/1 previous 8 start 1000 client 2 a-1
            log broken
            markers t
              abort 8/1 to [a-1]
              not appended
            log sound
            reload
            markers t
              done
              abort 8/1 to [a-1]
              log t CompleteAbort 8/1 previous 8 start 1000 client 2
        "#]],
    );
}
