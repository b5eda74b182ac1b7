//! What a follower makes of its leader's answers, on a log of a disk in memory: each case of where it is cut, and
//! in which order it follows.

use crate::support::{LOG, LOGS, Served, TOPIC_ID, batch, small_config, stamped, topic_partition};
use expect_test::{Expect, expect};
use model::{BrokerId, LeaderEpoch, Offset};
use replication::Partition;
use replication::{FetchPosition, FetchedRecords, FollowError, Role};
use std::fmt::Write;
use std::sync::Arc;
use storage::{Log, LogOpening};

fn show(position: Option<FetchPosition>) -> String {
    let Some(position) = position else {
        return "as before".to_owned();
    };
    let FetchPosition {
        fetch_offset,
        last_fetched_epoch,
        log_start_offset,
    } = position;
    format!("next {fetch_offset} after epoch {last_fetched_epoch}, start {log_start_offset}")
}

fn outcome(position: Result<Option<FetchPosition>, FollowError>) -> String {
    match position {
        Ok(position) => show(position),
        Err(FollowError::Invalid { reason, position }) => {
            format!("{reason}: {}", show(Some(position)))
        }
        Err(error) => error.to_string(),
    }
}

/// `EPOCH:COUNT`, one batch after the other from `base` on.
fn batches(words: &str, base: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut offset = base;
    for word in words.split(',').filter(|word| !word.is_empty()) {
        let (epoch, count) = word.split_once(':').unwrap();
        let count: usize = count.parse().unwrap();
        bytes.extend(stamped(offset, epoch.parse().unwrap(), count));
        offset += count as i64;
    }
    bytes
}

/// One line:
/// ```text
///   follow EPOCH   lead EPOCH   append COUNT   rest   deleted-to OFFSET   close
///   begin EPOCH
///   take EPOCH at=OFFSET hw=OFFSET start=OFFSET base=OFFSET batches=EPOCH:COUNT,…
///   cut EPOCH LAST-EPOCH END     cut-to EPOCH OFFSET     restart EPOCH OFFSET
/// ```
fn act(served: &Served, line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let partition = &served.partition;
    let number = |at: usize| -> i64 { words[at].parse().unwrap() };
    let epoch = |at: usize| LeaderEpoch(number(at) as i32);
    let field = |name: &str| words.iter().find_map(|word| word.strip_prefix(name));
    let field_or = |name, default| field(name).map_or(default, |value| value.parse().unwrap());
    match words[0] {
        "follow" => {
            let role = Role::Follower {
                leader: BrokerId(2),
                leader_epoch: epoch(1),
            };
            partition.take_role(role).unwrap();
            String::new()
        }
        "lead" => {
            partition.take_role(Role::alone(epoch(1))).unwrap();
            String::new()
        }
        "append" => {
            served.append(batch(0, number(1) as usize));
            String::new()
        }
        "rest" => format!("idle: {}", partition.rest_synced(0).unwrap()),
        "close" => {
            partition.close(0, true).unwrap();
            String::new()
        }
        "deleted-to" => {
            let deleted = partition.with_log(|log| log.advance_log_start_offset(Offset(number(1))));
            format!("{:?}", deleted.unwrap().unwrap())
        }
        "begin" => outcome(partition.begin_following(epoch(1), 0).map(Some)),
        "take" => {
            let end = partition.offsets().log_end_offset;
            let fetch_offset = field_or("at=", end);
            let base = field_or("base=", fetch_offset);
            let mut records = batches(field("batches=").unwrap_or_default(), base.0);
            if field("damaged").is_some() {
                *records.last_mut().unwrap() ^= 1;
            }
            let fetched = FetchedRecords {
                leader_epoch: epoch(1),
                fetch_offset,
                records: &records,
                high_watermark: field_or("hw=", Offset(0)),
                log_start_offset: field_or("start=", Offset(0)),
            };
            let followed = partition.append_as_follower(&fetched, 0);
            outcome(followed.map(|followed| followed.position))
        }
        "cut" => {
            let end = (epoch(2), Offset(number(3)));
            outcome(partition.truncate_to_leader(epoch(1), end, 0).map(Some))
        }
        "cut-to" => outcome(
            partition
                .truncate_as_follower(epoch(1), Offset(number(2)), 0)
                .map(Some),
        ),
        "restart" => outcome(
            partition
                .restart_as_follower(epoch(1), Offset(number(2)), 0)
                .map(Some),
        ),
        verb => panic!("no `{verb}`"),
    }
}

/// Each line with where the log starts, its high watermark, its end, and its leader epochs if it is open.
fn check(script: &str, expect: Expect) {
    let served = Served::new();
    let mut text = String::new();
    let lines = script.lines().map(str::trim);
    for line in lines.filter(|line| !line.is_empty()) {
        let outcome = act(&served, line);
        let offsets = served.partition.offsets();
        let (start, end) = (offsets.log_start_offset, offsets.log_end_offset);
        let epochs = served.partition.with_open_log(|log| {
            let entries = log.leader_epochs().entries().iter();
            let shown = entries.map(|one| format!("{}@{}", one.leader_epoch, one.start_offset));
            shown.collect::<Vec<_>>().join(" ")
        });
        assert_eq!(served.partition.high_watermark(), offsets.high_watermark);
        write!(text, "{line:<44} {start}/{}/{end}", offsets.high_watermark).unwrap();
        write!(text, " [{}]", epochs.as_deref().unwrap_or("idle")).unwrap();
        if !outcome.is_empty() {
            write!(text, " {outcome}").unwrap();
        }
        text.push('\n');
    }
    expect.assert_eq(&text);
}

#[test]
fn a_follower_takes_records_then_the_high_watermark_then_the_start() {
    check(
        "
        follow 1
        begin 1
        take 1 hw=0 batches=1:3,1:2
        take 1 hw=3 batches=
        take 1 hw=9 start=2 batches=1:1
        take 1 hw=4 start=5
        take 1 hw=6 start=5
        take 1 hw=6 start=1
        ",
        expect![[r#"
            follow 1                                     0/0/0 [0@0]
            begin 1                                      0/0/0 [0@0] next 0 after epoch 0, start 0
            take 1 hw=0 batches=1:3,1:2                  0/0/5 [1@0] next 5 after epoch 1, start 0
            take 1 hw=3 batches=                         0/3/5 [1@0] next 5 after epoch 1, start 0
            take 1 hw=9 start=2 batches=1:1              2/6/6 [1@2] next 6 after epoch 1, start 2
            take 1 hw=4 start=5                          4/4/6 [1@4] next 6 after epoch 1, start 4
            take 1 hw=6 start=5                          5/6/6 [1@5] next 6 after epoch 1, start 5
            take 1 hw=6 start=1                          5/6/6 [1@5] next 6 after epoch 1, start 5
        "#]],
    );
}

#[test]
fn an_answer_to_another_question_changes_nothing() {
    check(
        "
        follow 2
        take 2 batches=1:3
        take 2 at=2 batches=2:3
        take 1 batches=1:3
        take 3 batches=1:3
        cut 1 0 1
        cut-to 3 1
        restart 1 9
        begin 3
        lead 3
        take 3 batches=1:3
        close
        begin 3
        ",
        expect![[r#"
            follow 2                                     0/0/0 [0@0]
            take 2 batches=1:3                           0/0/3 [1@0] next 3 after epoch 1, start 0
            take 2 at=2 batches=2:3                      0/0/3 [1@0] the log ends at 3, and the leader was asked for 2
            take 1 batches=1:3                           0/0/3 [1@0] this broker does not follow that leader
            take 3 batches=1:3                           0/0/3 [1@0] this broker does not follow that leader
            cut 1 0 1                                    0/0/3 [1@0] this broker does not follow that leader
            cut-to 3 1                                   0/0/3 [1@0] this broker does not follow that leader
            restart 1 9                                  0/0/3 [1@0] this broker does not follow that leader
            begin 3                                      0/0/3 [1@0] this broker does not follow that leader
            lead 3                                       0/3/3 [1@0 3@3]
            take 3 batches=1:3                           0/3/3 [1@0 3@3] this broker does not follow that leader
            close                                        0/3/3 [idle]
            begin 3                                      0/3/3 [idle] the log takes no writes
        "#]],
    );
}

#[test]
fn batches_of_a_later_epoch_wait_for_the_next_leader() {
    check(
        "
        follow 4
        take 4 hw=2 batches=4:2
        take 4 hw=9 start=1 batches=4:1,5:2
        take 4 hw=9 batches=5:2
        follow 5
        take 5 hw=3 batches=5:2
        ",
        expect![[r#"
            follow 4                                     0/0/0 [0@0]
            take 4 hw=2 batches=4:2                      0/2/2 [4@0] next 2 after epoch 4, start 0
            take 4 hw=9 start=1 batches=4:1,5:2          0/2/3 [4@0] next 3 after epoch 4, start 0
            take 4 hw=9 batches=5:2                      0/2/3 [4@0] there is no batch: next 3 after epoch 4, start 0
            follow 5                                     0/2/3 [4@0]
            take 5 hw=3 batches=5:2                      0/3/5 [4@0 5@3] next 5 after epoch 5, start 0
        "#]],
    );
}

#[test]
fn an_empty_answer_keeps_the_last_epoch() {
    check(
        "
        follow 4
        take 4 hw=2 batches=3:2
        follow 5
        begin 5
        take 5 hw=2 batches=
        begin 5
        ",
        expect![[r#"
            follow 4                                     0/0/0 [0@0]
            take 4 hw=2 batches=3:2                      0/2/2 [3@0] next 2 after epoch 3, start 0
            follow 5                                     0/2/2 [3@0]
            begin 5                                      0/2/2 [3@0] next 2 after epoch 3, start 0
            take 5 hw=2 batches=                         0/2/2 [3@0] next 2 after epoch 3, start 0
            begin 5                                      0/2/2 [3@0] next 2 after epoch 3, start 0
        "#]],
    );
}

#[test]
fn what_no_log_takes_is_refused() {
    check(
        "
        follow 4
        take 4 batches=4:2
        take 4 damaged batches=4:2
        take 4 base=1 batches=4:2
        take 4 batches=4:2,4:2
        take 4 base=60 batches=4:1
        ",
        expect![[r#"
            follow 4                                     0/0/0 [0@0]
            take 4 batches=4:2                           0/0/2 [4@0] next 2 after epoch 4, start 0
            take 4 damaged batches=4:2                   0/0/2 [4@0] the crc of the batch at offset 2 does not match: next 2 after epoch 4, start 0
            take 4 base=1 batches=4:2                    0/0/3 [4@0] next 3 after epoch 4, start 0
            take 4 batches=4:2,4:2                       0/0/7 [4@0] next 7 after epoch 4, start 0
            take 4 base=60 batches=4:1                   0/0/61 [4@0] next 61 after epoch 4, start 0
        "#]],
    );
}

#[test]
fn records_that_were_deleted_within_a_batch_begin_with_it() {
    check(
        "
        follow 4
        restart 4 30
        take 4 hw=40 start=30 base=25 batches=4:10,4:5
        take 4 base=20 batches=4:5
        ",
        expect![[r#"
            follow 4                                     0/0/0 [0@0]
            restart 4 30                                 30/30/30 [] next 30 after epoch -1, start 30
            take 4 hw=40 start=30 base=25 batches=4:10,4:5 30/40/40 [4@30] next 40 after epoch 4, start 30
            take 4 base=20 batches=4:5                   30/40/40 [4@30] offset 20 does not follow 40: next 40 after epoch 4, start 30
        "#]],
    );
}

#[test]
fn a_log_is_cut_to_the_smaller_end_of_the_same_epoch() {
    check(
        "
        follow 7
        take 7 hw=1 batches=3:10,4:5,6:5
        cut 7 6 18
        cut 7 6 40
        cut 7 4 12
        cut 7 4 14
        cut 7 3 10
        ",
        expect![[r#"
            follow 7                                     0/0/0 [0@0]
            take 7 hw=1 batches=3:10,4:5,6:5             0/1/20 [3@0 4@10 6@15] next 20 after epoch 6, start 0
            cut 7 6 18                                   0/1/18 [3@0 4@10 6@15] next 18 after epoch 6, start 0
            cut 7 6 40                                   0/1/18 [3@0 4@10 6@15] next 18 after epoch 6, start 0
            cut 7 4 12                                   0/1/12 [3@0 4@10] next 12 after epoch 4, start 0
            cut 7 4 14                                   0/1/12 [3@0 4@10] next 12 after epoch 4, start 0
            cut 7 3 10                                   0/1/10 [3@0] next 10 after epoch 3, start 0
        "#]],
    );
}

#[test]
fn a_log_without_the_epoch_is_cut_where_its_last_one_before_ends() {
    check(
        "
        follow 9
        take 9 hw=1 batches=3:10,6:5,8:5
        cut 9 7 30
        cut 9 5 14
        cut 9 4 8
        begin 9
        ",
        expect![[r#"
            follow 9                                     0/0/0 [0@0]
            take 9 hw=1 batches=3:10,6:5,8:5             0/1/20 [3@0 6@10 8@15] next 20 after epoch 8, start 0
            cut 9 7 30                                   0/1/15 [3@0 6@10] next 15 after epoch 6, start 0
            cut 9 5 14                                   0/1/10 [3@0] next 10 after epoch 3, start 0
            cut 9 4 8                                    0/1/8 [3@0] next 8 after epoch 3, start 0
            begin 9                                      0/1/8 [3@0] next 8 after epoch 3, start 0
        "#]],
    );
}

#[test]
fn an_epoch_before_all_that_is_known_leaves_the_smaller_of_both() {
    check(
        "
        follow 9
        restart 9 10
        take 9 hw=1 batches=5:10
        cut 9 3 14
        cut 9 3 12
        ",
        expect![[r#"
            follow 9                                     0/0/0 [0@0]
            restart 9 10                                 10/10/10 [] next 10 after epoch -1, start 10
            take 9 hw=1 batches=5:10                     10/10/20 [5@10] next 20 after epoch 5, start 10
            cut 9 3 14                                   10/10/10 [] next 10 after epoch -1, start 10
            cut 9 3 12                                   10/10/10 [] next 10 after epoch -1, start 10
        "#]],
    );
}

#[test]
fn an_end_that_is_not_told_changes_nothing() {
    check(
        "
        follow 9
        take 9 hw=1 batches=3:10
        cut 9 2 -1
        ",
        expect![[r#"
            follow 9                                     0/0/0 [0@0]
            take 9 hw=1 batches=3:10                     0/1/10 [3@0] next 10 after epoch 3, start 0
            cut 9 2 -1                                   0/1/10 [3@0] next 10 after epoch 3, start 0
        "#]],
    );
}

#[test]
fn a_leader_without_records_leaves_no_epoch_behind() {
    check(
        "
        lead 3
        append 4
        lead 5
        follow 6
        begin 6
        cut 6 3 4
        begin 6
        ",
        expect![[r#"
            lead 3                                       0/0/0 [3@0]
            append 4                                     0/4/4 [3@0]
            lead 5                                       0/4/4 [3@0 5@4]
            follow 6                                     0/4/4 [3@0 5@4]
            begin 6                                      0/4/4 [3@0 5@4] next 4 after epoch 5, start 0
            cut 6 3 4                                    0/4/4 [3@0] next 4 after epoch 3, start 0
            begin 6                                      0/4/4 [3@0] next 4 after epoch 3, start 0
        "#]],
    );
}

#[test]
fn the_high_watermark_goes_back_with_the_end() {
    check(
        "
        follow 7
        take 7 hw=10 batches=3:5,4:5
        cut 7 3 3
        take 7 hw=2
        take 7 hw=8
        ",
        expect![[r#"
            follow 7                                     0/0/0 [0@0]
            take 7 hw=10 batches=3:5,4:5                 0/10/10 [3@0 4@5] next 10 after epoch 4, start 0
            cut 7 3 3                                    0/3/3 [3@0] next 3 after epoch 3, start 0
            take 7 hw=2                                  0/2/3 [3@0] next 3 after epoch 3, start 0
            take 7 hw=8                                  0/3/3 [3@0] next 3 after epoch 3, start 0
        "#]],
    );
}

#[test]
fn a_log_above_its_leader_s_is_cut_there() {
    check(
        "
        follow 7
        take 7 hw=10 batches=3:5,4:5
        cut-to 7 7
        cut-to 7 50
        cut-to 7 0
        ",
        expect![[r#"
            follow 7                                     0/0/0 [0@0]
            take 7 hw=10 batches=3:5,4:5                 0/10/10 [3@0 4@5] next 10 after epoch 4, start 0
            cut-to 7 7                                   0/7/7 [3@0 4@5] next 7 after epoch 4, start 0
            cut-to 7 50                                  0/7/7 [3@0 4@5] next 7 after epoch 4, start 0
            cut-to 7 0                                   0/0/0 [] next 0 after epoch -1, start 0
        "#]],
    );
}

#[test]
fn a_log_below_its_leader_s_begins_anew() {
    check(
        "
        follow 7
        take 7 hw=10 batches=3:5,4:5
        restart 7 50
        take 7 hw=52 start=50 batches=7:4
        ",
        expect![[r#"
            follow 7                                     0/0/0 [0@0]
            take 7 hw=10 batches=3:5,4:5                 0/10/10 [3@0 4@5] next 10 after epoch 4, start 0
            restart 7 50                                 50/50/50 [] next 50 after epoch -1, start 50
            take 7 hw=52 start=50 batches=7:4            50/52/54 [7@50] next 54 after epoch 7, start 50
        "#]],
    );
}

#[test]
fn without_epochs_a_log_is_cut_at_its_high_watermark() {
    check(
        "
        follow 7
        restart 7 0
        take 7 hw=3 batches=-1:3,-1:2
        follow 8
        begin 8
        take 8 hw=3 batches=8:3
        follow 9
        begin 9
        ",
        expect![[r#"
            follow 7                                     0/0/0 [0@0]
            restart 7 0                                  0/0/0 [] next 0 after epoch -1, start 0
            take 7 hw=3 batches=-1:3,-1:2                0/3/5 [] next 5 after epoch -1, start 0
            follow 8                                     0/3/5 []
            begin 8                                      0/3/3 [] next 3 after epoch -1, start 0
            take 8 hw=3 batches=8:3                      0/3/6 [8@3] next 6 after epoch 8, start 0
            follow 9                                     0/3/6 [8@3]
            begin 9                                      0/3/6 [8@3] next 6 after epoch 8, start 0
        "#]],
    );
}

/// Who copies the log begins anew when it has been cut.
#[test]
fn every_cut_is_counted_and_nothing_else() {
    let counts = |script: &[(&str, u64)]| {
        let served = Served::new();
        for (line, expect) in script {
            let before = served.partition.truncation_count();
            let told = act(&served, line);
            let count = served.partition.truncation_count() - before;
            assert_eq!(count, *expect, "{line}: {told}");
        }
    };
    counts(&[
        ("follow 4", 0),
        ("restart 4 30", 1),
        ("take 4 hw=35 start=30 base=25 batches=4:10,4:5", 1),
        ("take 4 base=40 batches=4:5", 0),
        ("cut 4 4 42", 1),
    ]);
    counts(&[
        ("follow 7", 0),
        ("restart 7 0", 1),
        ("take 7 hw=3 batches=-1:3,-1:2", 0),
        ("follow 8", 0),
        ("begin 8", 1),
        ("begin 8", 0),
    ]);
}

#[test]
fn an_idle_log_is_not_opened_before_something_arrives() {
    check(
        "
        follow 4
        take 4 hw=5 batches=3:3,4:2
        rest
        begin 4
        take 4 hw=5
        begin 4
        take 4 hw=4
        take 4 hw=5 start=2
        rest
        follow 5
        take 5 hw=6 batches=5:1
        ",
        expect![[r#"
            follow 4                                     0/0/0 [0@0]
            take 4 hw=5 batches=3:3,4:2                  0/5/5 [3@0 4@3] next 5 after epoch 4, start 0
            rest                                         0/5/5 [idle] idle: true
            begin 4                                      0/5/5 [idle] next 5 after epoch 4, start 0
            take 4 hw=5                                  0/5/5 [idle] as before
            begin 4                                      0/5/5 [idle] next 5 after epoch 4, start 0
            take 4 hw=4                                  0/4/5 [idle] as before
            take 4 hw=5 start=2                          2/5/5 [3@2 4@3] next 5 after epoch 4, start 2
            rest                                         2/5/5 [idle] idle: true
            follow 5                                     2/5/5 [idle]
            take 5 hw=6 batches=5:1                      2/6/6 [3@2 4@3 5@5] next 6 after epoch 5, start 2
        "#]],
    );
}

#[test]
fn an_idle_log_that_is_empty_stays_so() {
    check(
        "
        follow 4
        rest
        begin 4
        take 4 hw=0
        restart 4 8
        rest
        begin 4
        take 4 hw=8 start=8
        ",
        expect![[r#"
            follow 4                                     0/0/0 [0@0]
            rest                                         0/0/0 [idle] idle: true
            begin 4                                      0/0/0 [idle] next 0 after epoch -1, start 0
            take 4 hw=0                                  0/0/0 [idle] as before
            restart 4 8                                  8/8/8 [] next 8 after epoch -1, start 8
            rest                                         8/8/8 [] idle: false
            begin 4                                      8/8/8 [] next 8 after epoch -1, start 8
            take 4 hw=8 start=8                          8/8/8 [] next 8 after epoch -1, start 8
        "#]],
    );
}

#[test]
fn the_high_watermark_stays_where_it_was_when_a_leader_follows() {
    check(
        "
        lead 3
        append 4
        follow 6
        take 6 hw=2
        ",
        expect![[r#"
            lead 3                                       0/0/0 [3@0]
            append 4                                     0/4/4 [3@0]
            follow 6                                     0/4/4 [3@0]
            take 6 hw=2                                  0/2/4 [3@0] next 4 after epoch 3, start 0
        "#]],
    );
}

/// Each line with how much is durable, and whether a flush is due; `flush` ends it. `flush.messages` is 2.
fn check_flushes(script: &str, expect: Expect) {
    let served = Served::with(|config| config.flush_messages = 2);
    let mut text = String::new();
    let lines = script.lines().map(str::trim);
    for line in lines.filter(|line| !line.is_empty()) {
        let partition = &served.partition;
        match line {
            "flush" => {
                let end = partition.offsets().log_end_offset;
                partition.flush_up_to(end, 0).unwrap();
            }
            line => drop(act(&served, line)),
        }
        let offsets = partition.offsets();
        let (durable, end) = (partition.flushed_end_offset(), offsets.log_end_offset);
        let due = match partition.awaits_flush() {
            true => ", a flush is due",
            false => "",
        };
        let high_watermark = offsets.high_watermark;
        writeln!(text, "{line:<44} {high_watermark}/{durable}/{end}{due}").unwrap();
    }
    expect.assert_eq(&text);
}

/// Who asks another leader, or leads, before the flush has ended tells of records that a crash of the machine takes.
#[test]
fn what_a_follower_has_to_flush_is_due_in_its_next_role() {
    check_flushes(
        "
        follow 1
        take 1 batches=1:1
        take 1 batches=1:1
        follow 2
        begin 2
        lead 3
        append 1
        flush
        append 1
        append 1
        follow 4
        begin 4
        flush
        ",
        expect![[r#"
            follow 1                                     0/0/0
            take 1 batches=1:1                           0/0/1
            take 1 batches=1:1                           0/0/2, a flush is due
            follow 2                                     0/0/2, a flush is due
            begin 2                                      0/0/2, a flush is due
            lead 3                                       0/0/2, a flush is due
            append 1                                     0/0/3, a flush is due
            flush                                        3/3/3
            append 1                                     4/3/4
            append 1                                     4/3/5, a flush is due
            follow 4                                     4/3/5, a flush is due
            begin 4                                      4/3/5, a flush is due
            flush                                        4/5/5
        "#]],
    );
}

/// Otherwise the high watermark would wait for a flush that nobody asks for.
#[test]
fn no_flush_is_due_of_what_was_cut() {
    check_flushes(
        "
        append 1
        append 1
        follow 1
        cut-to 1 1
        flush
        lead 2
        append 1
        follow 3
        take 3 batches=3:1
        restart 3 9
        lead 4
        append 1
        ",
        expect![[r#"
            append 1                                     1/0/1
            append 1                                     1/0/2, a flush is due
            follow 1                                     1/0/2, a flush is due
            cut-to 1 1                                   1/0/1, a flush is due
            flush                                        1/1/1
            lead 2                                       1/1/1
            append 1                                     2/1/2
            follow 3                                     2/1/2
            take 3 batches=3:1                           0/1/3, a flush is due
            restart 3 9                                  9/9/9
            lead 4                                       9/9/9
            append 1                                     10/9/10
        "#]],
    );
}

#[test]
fn what_was_taken_before_a_refused_batch_is_flushed_as_well() {
    check_flushes(
        "
        follow 1
        take 1 batches=1:40,1:40 damaged
        lead 2
        flush
        ",
        expect![[r#"
            follow 1                                     0/0/0
            take 1 batches=1:40,1:40 damaged             0/0/40, a flush is due
            lead 2                                       0/0/40, a flush is due
            flush                                        40/40/40
        "#]],
    );
}

/// A follower has deleted records as the leader that it was, and nothing of its log is the next leader's. The process
/// dies when the log is cut, and before it is noted that it starts lower.
#[test]
fn a_log_that_was_cut_below_the_start_that_is_noted_has_what_the_leader_has() {
    let served = Served::new();
    served.append(batch(0, 4));
    let role = Role::Follower {
        leader: BrokerId(2),
        leader_epoch: LeaderEpoch(1),
    };
    served.partition.take_role(role.clone()).unwrap();
    let deleted = |log: &mut Log<_>| log.advance_log_start_offset(Offset(3));
    served.partition.with_log(deleted).unwrap().unwrap();
    let cut = served
        .partition
        .truncate_as_follower(LeaderEpoch(1), Offset(0), 0);
    assert_eq!(cut.unwrap().fetch_offset, Offset(0));
    served.partition.close(0, false).unwrap();
    let opened = Log::open(LogOpening {
        topic_id: Some(TOPIC_ID),
        config: Arc::new(small_config()),
        log_start_offset: Offset(3),
        recovery_point: Offset(3),
        ..LogOpening::new(served.disk.clone(), LOG.into(), topic_partition())
    });
    let place = (role, Offset(3));
    let log = opened.unwrap().log;
    let partition = Partition::host(&served.host, log, TOPIC_ID, LOGS.into(), place).unwrap();
    let begun = partition.begin_following(LeaderEpoch(1), 0).unwrap();
    assert_eq!(show(Some(begun)), "next 3 after epoch -1, start 3");
    let take = |at: i64, words: &str| {
        let records = batches(words, at);
        let fetched = FetchedRecords {
            leader_epoch: LeaderEpoch(1),
            fetch_offset: Offset(at),
            records: &records,
            high_watermark: Offset(5),
            log_start_offset: Offset(0),
        };
        let followed = partition.append_as_follower(&fetched, 0);
        outcome(followed.map(|followed| followed.position))
    };
    assert_eq!(take(3, "1:2"), "next 0 after epoch -1, start 0");
    assert_eq!(take(0, "1:5"), "next 5 after epoch 1, start 0");
    assert_eq!(partition.high_watermark(), Offset(5));
}
