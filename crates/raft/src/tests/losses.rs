//! A log that was lost, in part or as a whole, while nobody ran: what the next start knows of it.

use super::*;
use model::Offset;

const FOLDER: &str = "/a/__cluster_metadata-0";

fn length(disk: &SimDisk) -> u64 {
    disk.status(Path::new(LOG)).expect("there").length
}

fn truncate(disk: &SimDisk, length: u64) {
    let file = disk.open(Path::new(LOG), OpenMode::Write).expect("there");
    file.truncate(length).expect("works");
}

/// Removes the files of the folder whose names end so.
fn remove(disk: &SimDisk, suffixes: &[&str]) {
    for name in files(disk) {
        if suffixes.iter().any(|suffix| name.ends_with(suffix)) {
            let path = Path::new(FOLDER).join(name);
            disk.remove_file(&path).expect("there");
        }
    }
}

fn refusal(disk: &SimDisk) -> OpenError {
    lead(disk).map(|_| ()).expect_err("records are missing")
}

/// A supervisor starts again at once what has halted.
#[test]
fn an_observer_that_has_halted_for_a_loss_halts_again_after_a_restart() {
    script::check(
        observer(),
        "learn 2 5
         poll
         2 5 records 2 0:5:a 1:5:b
         learn 2 6
         poll
         2 6 diverging 5 1
         restart
         poll
         2 6 diverging 5 1
         crash
         poll
         2 6 snapshot 1 5
         poll
         2 6 snapshot 1 5
         state",
        &expect_test::expect![[r#"
            learn 2 5 => Observer { leader_id: 2 } epoch 5 log 0..0 high watermark 0
            poll => Leader(2) in 5 Log { fetch_offset: 0, last_fetched_epoch: 0, high_watermark: 0 }
            2 5 records 2 0:5:a 1:5:b => Observer { leader_id: 2 } epoch 5 log 0..2 high watermark 2
            learn 2 6 => Observer { leader_id: 2 } epoch 6 log 0..2 high watermark 2
            poll => Leader(2) in 6 Log { fetch_offset: 1, last_fetched_epoch: 5, high_watermark: 2 }
            2 6 diverging 5 1 => ! the leader's log leaves this one at offset 1, and what is below 2 is committed: is `/a/__cluster_metadata-0` the directory of another cluster? Else the controller has lost records: stop it, and restore its newest directory. Removing this folder gives up what the controller lacks
            restart => Observer { leader_id: 2 } epoch 6 log 0..2 high watermark 2
            poll => Leader(2) in 6 Log { fetch_offset: 1, last_fetched_epoch: 5, high_watermark: 2 }
            2 6 diverging 5 1 => ! the leader's log leaves this one at offset 1, and what is below 2 is committed: is `/a/__cluster_metadata-0` the directory of another cluster? Else the controller has lost records: stop it, and restore its newest directory. Removing this folder gives up what the controller lacks
            crash => Observer { leader_id: 2 } epoch 6 log 0..2 high watermark 2
            poll => Leader(2) in 6 Log { fetch_offset: 1, last_fetched_epoch: 5, high_watermark: 2 }
            2 6 snapshot 1 5 => Observer { leader_id: 2 } epoch 6 log 0..2 high watermark 2
            poll => Leader(2) in 6 Log { fetch_offset: 2, last_fetched_epoch: 5, high_watermark: 2 }
            2 6 snapshot 1 5 => ! the leader's log leaves this one at offset 1, and what is below 2 is committed: is `/a/__cluster_metadata-0` the directory of another cluster? Else the controller has lost records: stop it, and restore its newest directory. Removing this folder gives up what the controller lacks
            state => Observer { leader_id: 2 } epoch 6 log 0..2 high watermark 2
        "#]],
    );
}

/// It was killed after it had lived by what is committed, and its leader comes back with less.
#[test]
fn an_observer_that_was_killed_cuts_nothing_that_it_knew_as_committed() {
    script::check(
        observer(),
        "learn 2 5
         poll
         2 5 records 1 0:5:a
         poll
         2 5 records 2 1:5:b 2:5:c
         restart
         learn 2 6
         poll
         2 6 diverging 5 1",
        &expect_test::expect![[r#"
            learn 2 5 => Observer { leader_id: 2 } epoch 5 log 0..0 high watermark 0
            poll => Leader(2) in 5 Log { fetch_offset: 0, last_fetched_epoch: 0, high_watermark: 0 }
            2 5 records 1 0:5:a => Observer { leader_id: 2 } epoch 5 log 0..1 high watermark 1
            poll => Leader(2) in 5 Log { fetch_offset: 1, last_fetched_epoch: 5, high_watermark: 1 }
            2 5 records 2 1:5:b 2:5:c => Observer { leader_id: 2 } epoch 5 log 0..3 high watermark 2
            restart => Observer { leader_id: 2 } epoch 5 log 0..3 high watermark 2
            learn 2 6 => Observer { leader_id: 2 } epoch 6 log 0..3 high watermark 2
            poll => Leader(2) in 6 Log { fetch_offset: 2, last_fetched_epoch: 5, high_watermark: 2 }
            2 6 diverging 5 1 => ! the leader's log leaves this one at offset 1, and what is below 2 is committed: is `/a/__cluster_metadata-0` the directory of another cluster? Else the controller has lost records: stop it, and restore its newest directory. Removing this folder gives up what the controller lacks
        "#]],
    );
}

/// A leader that was started with an older copy of its directory has led anew, through epochs and offsets that the
/// observer knows.
#[test]
fn an_observer_that_starts_knows_a_leader_that_has_led_anew_through_what_it_has_lost() {
    script::check(
        observer(),
        "learn 2 5
         poll
         2 5 records 3 0:5:a 1:5:b 2:5:c
         restart
         poll
         2 5 records 5 2:5:x 3:5:y,z",
        &expect_test::expect![[r#"
            learn 2 5 => Observer { leader_id: 2 } epoch 5 log 0..0 high watermark 0
            poll => Leader(2) in 5 Log { fetch_offset: 0, last_fetched_epoch: 0, high_watermark: 0 }
            2 5 records 3 0:5:a 1:5:b 2:5:c => Observer { leader_id: 2 } epoch 5 log 0..3 high watermark 3
            restart => Observer { leader_id: 2 } epoch 5 log 0..3 high watermark 3
            poll => Leader(2) in 5 Log { fetch_offset: 2, last_fetched_epoch: 5, high_watermark: 3 }
            2 5 records 5 2:5:x 3:5:y,z => ! the leader's log leaves this one at offset 2, and what is below 3 is committed: is `/a/__cluster_metadata-0` the directory of another cluster? Else the controller has lost records: stop it, and restore its newest directory. Removing this folder gives up what the controller lacks
        "#]],
    );
}

#[test]
fn an_observer_that_could_not_reach_its_leader_knows_whether_that_has_led_anew() {
    script::check(
        observer(),
        "learn 2 5
         poll
         2 5 records 3 0:5:a 1:5:b 2:5:c
         poll
         lost
         wait 20
         poll
         2 5 records 4 2:5:c 3:5:d
         poll
         wait 2000
         poll
         2 5 records 5 3:5:x 4:5:y",
        &expect_test::expect![[r#"
            learn 2 5 => Observer { leader_id: 2 } epoch 5 log 0..0 high watermark 0
            poll => Leader(2) in 5 Log { fetch_offset: 0, last_fetched_epoch: 0, high_watermark: 0 }
            2 5 records 3 0:5:a 1:5:b 2:5:c => Observer { leader_id: 2 } epoch 5 log 0..3 high watermark 3
            poll => Leader(2) in 5 Log { fetch_offset: 3, last_fetched_epoch: 5, high_watermark: 3 }
            lost => 
            wait 20 => 
            poll => Anyone in 5 Log { fetch_offset: 2, last_fetched_epoch: 5, high_watermark: 3 }
            2 5 records 4 2:5:c 3:5:d => Observer { leader_id: 2 } epoch 5 log 0..4 high watermark 4
            poll => Leader(2) in 5 Log { fetch_offset: 4, last_fetched_epoch: 5, high_watermark: 4 }
            wait 2000 => 
            poll => Anyone in 5 Log { fetch_offset: 3, last_fetched_epoch: 5, high_watermark: 4 }
            2 5 records 5 3:5:x 4:5:y => ! the leader's log leaves this one at offset 3, and what is below 4 is committed: is `/a/__cluster_metadata-0` the directory of another cluster? Else the controller has lost records: stop it, and restore its newest directory. Removing this folder gives up what the controller lacks
        "#]],
    );
}

/// Neither bytes that were damaged on their way nor a disk that has damaged its own are a leader that has lost records.
#[test]
fn a_damaged_batch_is_not_taken_for_another_history() {
    let disk = new_disk();
    let leader = LeaderAndEpoch {
        leader_id: Some(BrokerId(2)),
        epoch: LeaderEpoch(5),
    };
    let sent = [0, 1].map(|base_offset| {
        let place = BatchPlace {
            base_offset: Offset(base_offset),
            leader_epoch: LeaderEpoch(5),
            timestamp_ms: 1_000,
        };
        batch(place, &["value"])
    });
    let answer = |replica: &mut Replica<SimDisk>, now_ms, bytes: &[u8]| {
        let now = Now::at_ms(now_ms);
        let asked = replica.poll_request(now).expect("a question").number;
        let content = Content::Records {
            bytes,
            high_watermark: Offset(2),
        };
        let answer = Answer::Answer {
            error: model::ErrorCode::None,
            leader,
            content,
        };
        replica.handle_answer(asked, answer, now)
    };
    let mut replica = open_observer(&disk);
    let learnt = replica.handle_leader(leader, Now::at_ms(1_000));
    learnt.expect("a leader");
    answer(&mut replica, 1_000, &sent.concat()).expect("sound");

    let mut replica = open_observer(&disk);
    let mut damaged = sent[1].clone();
    *damaged.last_mut().expect("some") ^= 1;
    for (now_ms, bytes) in [(2_000, &damaged[..]), (3_000, &sent[1][..9])] {
        let refused = answer(&mut replica, now_ms, bytes);
        let is_refused = matches!(refused, Err(ObserverError::Records(_)));
        assert!(is_refused && !replica.has_failed(), "{refused:?}");
    }
    let file = disk.open(Path::new(LOG), OpenMode::Write).expect("there");
    let position = length(&disk) - sent[1].len() as u64;
    file.write_at(&damaged, position).expect("works");
    let refused = answer(&mut replica, 4_000, &sent[1]);
    let is_refused = matches!(refused, Err(ObserverError::Append(AppendError::Log(_))));
    assert!(is_refused && replica.has_failed(), "{refused:?}");

    let mut replica = open_observer(&disk);
    assert_eq!(replica.end_offset(), Offset(1));
    answer(&mut replica, 5_000, &sent[1]).expect("sound");
    assert_eq!(
        (replica.end_offset(), replica.high_watermark()),
        (Offset(2), Offset(2))
    );
}

/// What is not committed may be another leader's.
#[test]
fn a_last_batch_that_is_not_the_leaders_is_cut_while_it_is_not_committed() {
    script::check(
        observer(),
        "learn 2 5
         poll
         2 5 records 1 0:5:a 1:5:b
         restart
         poll
         2 5 records -1
         restart
         poll
         2 5 records 3 1:5:c 2:5:d
         poll
         restart
         poll
         2 5 records 3
         poll",
        &expect_test::expect![[r#"
            learn 2 5 => Observer { leader_id: 2 } epoch 5 log 0..0 high watermark 0
            poll => Leader(2) in 5 Log { fetch_offset: 0, last_fetched_epoch: 0, high_watermark: 0 }
            2 5 records 1 0:5:a 1:5:b => Observer { leader_id: 2 } epoch 5 log 0..2 high watermark 1
            restart => Observer { leader_id: 2 } epoch 5 log 0..2 high watermark 1
            poll => Leader(2) in 5 Log { fetch_offset: 1, last_fetched_epoch: 5, high_watermark: 1 }
            2 5 records -1 => Observer { leader_id: 2 } epoch 5 log 0..2 high watermark 1
            restart => Observer { leader_id: 2 } epoch 5 log 0..2 high watermark 1
            poll => Leader(2) in 5 Log { fetch_offset: 1, last_fetched_epoch: 5, high_watermark: 1 }
            2 5 records 3 1:5:c 2:5:d => Observer { leader_id: 2 } epoch 5 log 0..3 high watermark 3
            poll => Leader(2) in 5 Log { fetch_offset: 3, last_fetched_epoch: 5, high_watermark: 3 }
            restart => Observer { leader_id: 2 } epoch 5 log 0..3 high watermark 3
            poll => Leader(2) in 5 Log { fetch_offset: 2, last_fetched_epoch: 5, high_watermark: 3 }
            2 5 records 3 => Observer { leader_id: 2 } epoch 5 log 0..3 high watermark 3
            poll => Leader(2) in 5 Log { fetch_offset: 3, last_fetched_epoch: 5, high_watermark: 3 }
        "#]],
    );
}

/// Its note may be the one before, but there is one.
#[test]
fn an_observer_whose_machine_has_crashed_knows_what_was_noted_first() {
    script::check(
        observer(),
        "learn 2 5
         poll
         2 5 records 1 0:5:a
         poll
         2 5 records 2 1:5:b 2:5:c
         crash",
        &expect_test::expect![[r#"
            learn 2 5 => Observer { leader_id: 2 } epoch 5 log 0..0 high watermark 0
            poll => Leader(2) in 5 Log { fetch_offset: 0, last_fetched_epoch: 0, high_watermark: 0 }
            2 5 records 1 0:5:a => Observer { leader_id: 2 } epoch 5 log 0..1 high watermark 1
            poll => Leader(2) in 5 Log { fetch_offset: 1, last_fetched_epoch: 5, high_watermark: 1 }
            2 5 records 2 1:5:b 2:5:c => Observer { leader_id: 2 } epoch 5 log 0..3 high watermark 2
            crash => Observer { leader_id: 2 } epoch 5 log 0..3 high watermark 1
        "#]],
    );
}

/// A leader that others have elected may lack what was not committed, and an observer's note is none of that.
#[test]
fn an_observer_that_was_killed_cuts_what_was_not_committed() {
    script::check(
        observer(),
        "learn 2 5
         poll
         2 5 records 1 0:5:a 1:5:b
         restart
         learn 3 6
         poll
         3 6 diverging 5 1
         poll
         3 6 records 2 1:6:c
         restart",
        &expect_test::expect![[r#"
            learn 2 5 => Observer { leader_id: 2 } epoch 5 log 0..0 high watermark 0
            poll => Leader(2) in 5 Log { fetch_offset: 0, last_fetched_epoch: 0, high_watermark: 0 }
            2 5 records 1 0:5:a 1:5:b => Observer { leader_id: 2 } epoch 5 log 0..2 high watermark 1
            restart => Observer { leader_id: 2 } epoch 5 log 0..2 high watermark 1
            learn 3 6 => Observer { leader_id: 3 } epoch 6 log 0..2 high watermark 1
            poll => Leader(3) in 6 Log { fetch_offset: 1, last_fetched_epoch: 5, high_watermark: 1 }
            3 6 diverging 5 1 => Observer { leader_id: 3 } epoch 6 log 0..1 high watermark 1
            poll => Leader(3) in 6 Log { fetch_offset: 1, last_fetched_epoch: 5, high_watermark: 1 }
            3 6 records 2 1:6:c => Observer { leader_id: 3 } epoch 6 log 0..2 high watermark 2
            restart => Observer { leader_id: 3 } epoch 6 log 0..2 high watermark 2
        "#]],
    );
}

#[test]
fn an_observer_knows_after_an_orderly_stop_what_is_committed() {
    let disk = new_disk();
    let mut replica = open_observer(&disk);
    let now = Now::at_ms(1_000);
    let leader = LeaderAndEpoch {
        leader_id: Some(BrokerId(2)),
        epoch: LeaderEpoch(5),
    };
    replica.handle_leader(leader, now).expect("a leader");
    let asked = replica.poll_request(now).expect("a question").number;
    let place = |base_offset| BatchPlace {
        base_offset,
        leader_epoch: LeaderEpoch(5),
        timestamp_ms: 1_000,
    };
    let bytes = [
        batch(place(Offset(0)), &["a"]),
        batch(place(Offset(1)), &["b"]),
    ]
    .concat();
    let answer = Answer::Answer {
        error: model::ErrorCode::None,
        leader,
        content: Content::Records {
            bytes: &bytes,
            high_watermark: Offset(1),
        },
    };
    replica.handle_answer(asked, answer, now).expect("sound");
    replica.close(2_000).expect("works");
    assert_eq!(open_observer(&disk).high_watermark(), Offset(1));
    // What is not here any more is fetched again.
    truncate(&disk, 0);
    assert_eq!(open_observer(&disk).high_watermark(), Offset(0));
}

fn open_observer(disk: &SimDisk) -> Replica<SimDisk> {
    let opened = Replica::open(disk.clone(), options(observer()));
    opened.expect("an observer fetches what it lacks").replica
}

#[test]
fn an_orderly_stop_on_a_full_disk_tells_where_the_log_ended() {
    let disk = new_disk();
    let (mut replica, _) = lead(&disk).expect("new");
    append(&mut replica, &["a"]).expect("fits");
    let with_one = length(&disk);
    append(&mut replica, &["b"]).expect("fits");
    disk.set_full(true);
    append(&mut replica, &["c"]).expect_err("no room");
    replica.close(3_000).expect_err("no room to mend it");
    drop(replica);
    disk.set_full(false);
    truncate(&disk, with_one);
    let refused = refusal(&disk);
    assert!(
        matches!(&refused, OpenError::Damaged { position, note: Some(_), .. } if *position == with_one),
        "{refused:?}"
    );
}

#[test]
fn who_closes_the_log_hears_of_a_note_that_could_not_be_left() {
    for place in ["/a", "/a/__cluster_metadata-0"] {
        let disk = new_disk();
        let (mut replica, _) = lead(&disk).expect("new");
        append(&mut replica, &["a"]).expect("fits");
        let note = format!("{place}/{:020}.synced", replica.high_watermark());
        disk.create_directory(Path::new(&note))
            .expect("its name is taken");
        let closed = replica.close(3_000).expect("the log itself is well");
        let error = closed.note.expect_err("no note").to_string();
        assert!(error.contains(place), "{error}");
    }
    let (mut replica, _) = lead(&new_disk()).expect("new");
    let closed = replica.close(3_000).expect("all is well");
    closed.note.expect("there is one");
}

/// It has led already, and not reached what it was started for.
#[test]
fn a_start_that_fails_forgets_nothing_of_the_log_before() {
    let disk = new_disk();
    let (mut replica, _) = lead(&disk).expect("new");
    append(&mut replica, &["a"]).expect("fits");
    let with_one = length(&disk);
    append(&mut replica, &["b"]).expect("fits");
    replica.close(3_000).expect("works");
    drop(replica);
    drop(lead(&disk).expect("whole"));
    truncate(&disk, with_one);
    let refused = refusal(&disk);
    assert!(matches!(refused, OpenError::Damaged { note: Some(_), .. }));
}

#[test]
fn a_log_whose_files_are_gone_is_not_begun_anew() {
    let losses: [&[&str]; 4] = [&[".log"], &[".log", ".synced"], &[".log", "state"], &[""]];
    for (loss, stops_in_order) in losses.iter().flat_map(|loss| [(loss, false), (loss, true)]) {
        let disk = new_disk();
        let (mut replica, _) = lead(&disk).expect("new");
        append(&mut replica, &["a"]).expect("fits");
        if stops_in_order {
            replica.close(3_000).expect("works");
        }
        drop(replica);
        remove(&disk, loss);
        let before = files(&disk);
        for _ in 0..2 {
            let refused = refusal(&disk);
            let is_missing = matches!(refused, OpenError::Missing { .. });
            assert!(is_missing, "{loss:?} {stops_in_order}: {refused:?}");
            assert!(refused.to_string().contains("restore the folder"));
            assert_eq!(files(&disk), before);
        }
    }
}
