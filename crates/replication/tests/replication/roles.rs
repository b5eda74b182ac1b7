//! What a partition does in each role: scripts of roles, requests and faults, and what comes of them.

use crate::support::{LOG, LOGS, Served, TOPIC_ID, batch, request, small_config, topic_partition};
use expect_test::{Expect, expect};
use model::{BrokerId, ErrorCode, LeaderEpoch, Offset};
use replication::{Acks, Isolation, Partition, ReadRequest, Replicas, Role};
use std::fmt::Write;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use storage::sim::SimDisk;
use storage::{Disk, IdleLog, Log, LogConfig, LogOpening};

/// The broker of the partition that is tested.
const LEADER: BrokerId = BrokerId(1);

/// `lead EPOCH`, with the followers that are in sync as `with=2,3` and the others as `behind=4`;
/// `follow LEADER EPOCH`; `none`.
fn role(line: &str) -> Role {
    let (fields, words): (Vec<&str>, Vec<&str>) =
        line.split_whitespace().partition(|word| word.contains('='));
    let number = |at: usize| words[at].parse().unwrap();
    let of = |name: &str| -> Vec<BrokerId> {
        let found = fields.iter().find_map(|one| one.strip_prefix(name));
        let ids = found.unwrap_or_default().split(',');
        ids.filter_map(|id| id.parse().ok()).collect()
    };
    match words[0] {
        "lead" => {
            let (with, behind) = (of("with="), of("behind="));
            let isr: Vec<BrokerId> = [LEADER].into_iter().chain(with.clone()).collect();
            let followers: Vec<BrokerId> = with.into_iter().chain(behind).collect();
            let replicas = (!followers.is_empty()).then(|| {
                Arc::new(Replicas {
                    leader: LEADER,
                    partition_epoch: 0,
                    followers,
                    isr,
                })
            });
            Role::Leader {
                leader_epoch: number(1),
                replicas,
            }
        }
        "follow" => Role::Follower {
            leader: BrokerId(number(1).0),
            leader_epoch: number(2),
        },
        _ => Role::None,
    }
}

fn show(result: Result<impl std::fmt::Debug, ErrorCode>) -> String {
    match result {
        Ok(outcome) => format!("{outcome:?}"),
        Err(error) => error.to_string(),
    }
}

type Waiting<'a> = Pin<Box<dyn Future<Output = Result<(), ErrorCode>> + 'a>>;

/// What a line of a script does, beside taking a role.
fn act<'a>(
    partition: &'a Partition<SimDisk>,
    waiting: &mut Vec<Waiting<'a>>,
    line: &str,
) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |at: usize| words.get(at).map_or(-1, |word| word.parse().unwrap());
    match words[0] {
        "append" => {
            let appended = partition.append_as_leader(&mut batch(0, 1), None, Acks::Leader, 0);
            show(
                appended
                    .map(|one| one.base_offset)
                    .map_err(|one| one.code()),
            )
        }
        "fetch" => {
            let request = ReadRequest {
                current_leader_epoch: LeaderEpoch(number(2) as i32),
                ..request(number(1))
            };
            let bytes = |records: Option<_>| records.is_some();
            let read = partition.read(&request);
            show(read.map(|one| bytes(one.records)).map_err(|one| one.code()))
        }
        "copy" => {
            let request = ReadRequest {
                isolation: Isolation::LogEnd,
                ..request(number(1))
            };
            let read = partition.read_copy(&request);
            show(
                read.map(|one| one.records.is_some())
                    .map_err(|one| one.code()),
            )
        }
        "check" => show(partition.check_leader(LeaderEpoch(number(1) as i32))),
        "delete" => {
            let deleted = partition.delete_records_before(Offset(number(1)));
            show(deleted.map_err(|one| one.code()))
        }
        "end-of" => show(
            partition
                .end_offset_of_epoch(LeaderEpoch(number(1) as i32))
                .map_err(|one| one.code()),
        ),
        "wait" => {
            let leadership = partition.leadership();
            waiting.push(Box::pin(
                partition.wait_until_replicated(leadership, Offset(number(1))),
            ));
            String::new()
        }
        "rest" => show(
            partition
                .rest_synced(0)
                .map_err(|_| ErrorCode::KafkaStorageError),
        ),
        "fail" => {
            partition.fail_at(partition.directory_index());
            partition.notify();
            String::new()
        }
        _ => {
            let elected = partition.take_role(role(line));
            show(elected.map_err(|_| ErrorCode::KafkaStorageError))
        }
    }
}

fn check_partition(partition: &Partition<SimDisk>, script: &str, expect: &Expect) {
    let mut text = String::new();
    let mut waiting = Vec::new();
    for line in script
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        let outcome = act(partition, &mut waiting, line);
        let offsets = partition.offsets();
        let (end, high_watermark) = (offsets.log_end_offset, offsets.high_watermark);
        let epoch = offsets.leader_epoch;
        write!(text, "{line:<24} {high_watermark}/{end} in {epoch}").unwrap();
        if !outcome.is_empty() {
            write!(text, ", {outcome}").unwrap();
        }
        waiting.retain_mut(|one| {
            let ended = one.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            if let Poll::Ready(outcome) = ended {
                write!(text, ", waited: {}", show(outcome)).unwrap();
            }
            ended.is_pending()
        });
        text.push('\n');
    }
    expect.assert_eq(&text);
}

/// Plays a script with a partition that is led in epoch 0, and shows after each line the high watermark, the
/// log end, and the epoch.
#[expect(clippy::needless_pass_by_value, reason = "as it is written")]
fn check(script: &str, expect: Expect) {
    check_partition(&Served::new().partition, script, &expect);
}

#[test]
fn a_leader_serves_those_who_know_its_epoch() {
    check(
        "
        append
        lead 2
        append
        fetch 0
        fetch 0 2
        fetch 0 1
        fetch 0 3
        check 1
        check 2
        check 3
        end-of 0
        end-of 2
        lead 1
        ",
        expect![[r#"
            append                   1/1 in 0, 0
            lead 2                   1/1 in 2, false
            append                   2/2 in 2, 1
            fetch 0                  2/2 in 2, true
            fetch 0 2                2/2 in 2, true
            fetch 0 1                2/2 in 2, FENCED_LEADER_EPOCH
            fetch 0 3                2/2 in 2, UNKNOWN_LEADER_EPOCH
            check 1                  2/2 in 2, FENCED_LEADER_EPOCH
            check 2                  2/2 in 2, ()
            check 3                  2/2 in 2, UNKNOWN_LEADER_EPOCH
            end-of 0                 2/2 in 2, Some((0, 1))
            end-of 2                 2/2 in 2, Some((2, 2))
            lead 1                   2/2 in 2, false
        "#]],
    );
}

#[test]
fn a_follower_refuses_what_is_a_leaders() {
    check(
        "
        append
        follow 2 1
        append
        fetch 0
        fetch 0 0
        fetch 0 1
        fetch 0 2
        check 0
        check 1
        delete 1
        copy 0
        follow -1 2
        check -1
        lead 3
        append
        fetch 0 3
        end-of 0
        ",
        expect![[r#"
            append                   1/1 in 0, 0
            follow 2 1               1/1 in 1, false
            append                   1/1 in 1, NOT_LEADER_OR_FOLLOWER
            fetch 0                  1/1 in 1, NOT_LEADER_OR_FOLLOWER
            fetch 0 0                1/1 in 1, FENCED_LEADER_EPOCH
            fetch 0 1                1/1 in 1, NOT_LEADER_OR_FOLLOWER
            fetch 0 2                1/1 in 1, UNKNOWN_LEADER_EPOCH
            check 0                  1/1 in 1, FENCED_LEADER_EPOCH
            check 1                  1/1 in 1, NOT_LEADER_OR_FOLLOWER
            delete 1                 1/1 in 1, NOT_LEADER_OR_FOLLOWER
            copy 0                   1/1 in 1, true
            follow -1 2              1/1 in 2, false
            check -1                 1/1 in 2, NOT_LEADER_OR_FOLLOWER
            lead 3                   1/1 in 3, true
            append                   2/2 in 3, 1
            fetch 0 3                2/2 in 3, true
            end-of 0                 2/2 in 3, Some((0, 1))
        "#]],
    );
}

/// The cache of leader epochs says where the epoch begins, records or not, and whether the log is open.
#[test]
fn a_new_leader_notes_its_epoch_at_the_log_end() {
    check(
        "
        append
        append
        follow 2 1
        lead 2
        end-of 0
        end-of 1
        follow 2 3
        rest
        lead 4
        append
        end-of 3
        end-of 2
        ",
        expect![[r#"
            append                   1/1 in 0, 0
            append                   2/2 in 0, 1
            follow 2 1               2/2 in 1, false
            lead 2                   2/2 in 2, true
            end-of 0                 2/2 in 2, Some((0, 2))
            end-of 1                 2/2 in 2, Some((0, 2))
            follow 2 3               2/2 in 3, false
            rest                     2/2 in 3, true
            lead 4                   2/2 in 4, true
            append                   3/3 in 4, 2
            end-of 3                 3/3 in 4, Some((0, 2))
            end-of 2                 3/3 in 4, Some((0, 2))
        "#]],
    );
}

#[test]
fn the_high_watermark_waits_for_the_followers_that_are_in_sync() {
    check(
        "
        append
        lead 1 with=2,3
        append
        wait 1
        wait 2
        rest
        lead 1 with=3 behind=2
        append
        lead 1 behind=2,3
        append
        rest
        lead 1 with=2
        append
        follow 2 2
        rest
        lead 3
        ",
        expect![[r#"
            append                   1/1 in 0, 0
            lead 1 with=2,3          1/1 in 1, false
            append                   1/2 in 1, 1
            wait 1                   1/2 in 1, waited: ()
            wait 2                   1/2 in 1
            rest                     1/2 in 1, false
            lead 1 with=3 behind=2   1/2 in 1, false
            append                   1/3 in 1, 2
            lead 1 behind=2,3        3/3 in 1, false, waited: ()
            append                   4/4 in 1, 3
            rest                     4/4 in 1, true
            lead 1 with=2            4/4 in 1, false
            append                   4/5 in 1, 4
            follow 2 2               4/5 in 2, false
            rest                     4/5 in 2, false
            lead 3                   5/5 in 3, true
        "#]],
    );
}

/// At the offsets that are waited for there may be other records later.
#[test]
fn who_waits_for_the_end_of_a_leadership_is_told() {
    check(
        "
        lead 1 with=2
        append
        wait 1
        wait 0
        lead 2 with=2
        follow 2 3
        lead 4 with=2
        wait 1
        fail
        wait 0
        ",
        expect![[r#"
            lead 1 with=2            0/0 in 1, false
            append                   0/1 in 1, 0
            wait 1                   0/1 in 1
            wait 0                   0/1 in 1, waited: ()
            lead 2 with=2            0/1 in 2, false
            follow 2 3               0/1 in 3, false, waited: NOT_LEADER_OR_FOLLOWER
            lead 4 with=2            0/1 in 4, true
            wait 1                   0/1 in 4
            fail                     0/1 in 4, waited: KAFKA_STORAGE_ERROR
            wait 0                   0/1 in 4, waited: ()
        "#]],
    );
}

#[test]
fn a_failed_log_directory_leaves_no_role() {
    check(
        "
        append
        fail
        append
        fetch 0
        check 7
        lead 5
        follow 2 6
        append
        ",
        expect![[r#"
            append                   1/1 in 0, 0
            fail                     1/1 in 0
            append                   1/1 in 0, KAFKA_STORAGE_ERROR
            fetch 0                  1/1 in 0, KAFKA_STORAGE_ERROR
            check 7                  1/1 in 0, KAFKA_STORAGE_ERROR
            lead 5                   1/1 in 0, false
            follow 2 6               1/1 in 0, false
            append                   1/1 in 0, KAFKA_STORAGE_ERROR
        "#]],
    );
}

#[test]
fn who_waited_as_with_a_leader_is_not_taken_in_by_the_next_one() {
    let served = Served::new();
    let partition = &served.partition;
    let leadership = partition.leadership();
    served.append(batch(0, 1));
    partition.take_role(role("follow 2 1")).unwrap();
    partition.take_role(role("lead 2")).unwrap();
    let mut waiting: Waiting<'_> = Box::pin(partition.wait_until_replicated(leadership, Offset(1)));
    let ended = waiting
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(ended, Poll::Ready(Err(ErrorCode::NotLeaderOrFollower)));
}

/// Its state is what the log had, and other leaders may have written since.
#[test]
fn a_coordinator_writes_while_the_partition_is_led_without_a_pause() {
    let served = Served::new();
    let partition = &served.partition;
    let before = partition.leadership();
    let append = |leadership| {
        let appended = partition.append_as_coordinator_in(leadership, &mut batch(0, 1), None, 0);
        appended
            .map(|appended| appended.base_offset)
            .map_err(|error| error.code())
    };
    assert_eq!(append(before), Ok(Offset(0)));
    partition.take_role(role("lead 2")).unwrap();
    assert_eq!(append(before), Ok(Offset(1)));
    partition.take_role(role("follow 2 3")).unwrap();
    partition.take_role(role("lead 4")).unwrap();
    assert_eq!(append(before), Err(ErrorCode::NotLeaderOrFollower));
    assert_eq!(append(partition.leadership()), Ok(Offset(2)));
}

/// A log of three records, opened again, with its host.
fn reopened() -> (Served, Log<SimDisk>) {
    let served = Served::new();
    for _ in 0..3 {
        served.append(batch(0, 1));
    }
    served.partition.close(0, true).unwrap();
    let opened = Log::open(LogOpening {
        topic_id: Some(TOPIC_ID),
        config: Arc::new(small_config()),
        is_clean: true,
        ..LogOpening::new(served.disk.clone(), LOG.into(), topic_partition())
    });
    (served, opened.unwrap().log)
}

#[test]
fn the_high_watermark_begins_where_it_is_known_to_have_been() {
    for (role_line, known, begins) in [
        ("lead 1", 0, 3),
        ("lead 1 with=2", 0, 0),
        ("lead 1 with=2", 2, 2),
        ("lead 1 with=2", 9, 3),
        ("lead 1 with=2", -1, 0),
        ("follow 2 1", 2, 2),
    ] {
        let (served, log) = reopened();
        let role = (role(role_line), Offset(known));
        let partition = Partition::host(&served.host, log, TOPIC_ID, LOGS.into(), role).unwrap();
        assert_eq!(
            partition.high_watermark(),
            Offset(begins),
            "{role_line} {known}"
        );
        assert_eq!(partition.offsets().log_end_offset, Offset(3));
    }
}

#[test]
fn the_epoch_of_a_follower_is_not_noted_by_it() {
    let (served, mut log) = reopened();
    let idle: IdleLog = log.idle(0, true).unwrap().unwrap();
    let place = (LOGS.into(), Arc::new(LogConfig::default()));
    let role = role("follow 2 1");
    let name = topic_partition();
    let idle = (idle, false);
    let partition = Partition::host_idle(&served.host, name, TOPIC_ID, idle, place, role);
    check_partition(
        &partition,
        "
        fetch 3
        end-of 0
        end-of 1
        lead 2
        end-of 0
        end-of 2
        ",
        &expect![[r#"
            fetch 3                  3/3 in 1, NOT_LEADER_OR_FOLLOWER
            end-of 0                 3/3 in 1, Some((0, 3))
            end-of 1                 3/3 in 1, None
            lead 2                   3/3 in 2, true
            end-of 0                 3/3 in 2, Some((0, 3))
            end-of 2                 3/3 in 2, Some((2, 3))
        "#]],
    );
}

/// It may be retired late, when the one that has come back is there, in another log directory.
#[test]
fn a_replica_that_has_left_takes_nothing_from_the_one_that_has_come_back() {
    let led_in = |leader_epoch| Role::Leader {
        leader_epoch: LeaderEpoch(leader_epoch),
        replicas: Some(Arc::new(Replicas {
            leader: BrokerId(1),
            partition_epoch: leader_epoch,
            followers: vec![BrokerId(2)],
            isr: vec![BrokerId(1)],
        })),
    };
    let Served {
        disk,
        host,
        partition: left,
    } = Served::new();
    left.take_role(led_in(1)).unwrap();
    disk.create_directory(Path::new("/others")).unwrap();
    let log = Log::create(LogOpening {
        topic_id: Some(TOPIC_ID),
        ..LogOpening::new(disk, "/others/topic-3".into(), topic_partition())
    });
    let back = Partition::host(
        &host,
        log.unwrap(),
        TOPIC_ID,
        "/others".into(),
        (led_in(3), Offset(0)),
    );
    let back = back.unwrap();
    let listed = || (host.open_logs(), host.leaders().followed());
    left.retire("topic-3.7-delete").unwrap();
    assert_eq!(listed(), (vec![back.key()], vec![back.key()]));
    back.retire("topic-3.8-delete").unwrap();
    assert_eq!(listed(), (Vec::new(), Vec::new()));
}
