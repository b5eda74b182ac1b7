//! The steps of the workload: each does something that a crash, or a fault, may spoil.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use model::ErrorCode;
use rustix::io::Errno;

use crate::check::ensure_online;
use crate::control::{CREATE, FAILURES, Fault, MKDIR, OPEN, RENAME, SYNC_ALL, WRITE};
use crate::failure::caught;
use crate::workload::Workload;

/// A step.
pub(crate) type Step = fn(&mut Workload) -> Result<()>;

/// Every step, and how often a workload goes through it.
pub(crate) const ALL: &[(&str, usize, Step)] = &[
    ("write", 4, write),
    ("trim", 2, trim),
    ("recreate", 4, recreate),
    ("compact", 2, compact),
    ("policy", 2, policy),
    ("policy-in-compaction", 2, policy_in_compaction),
    ("retention", 2, retention),
    ("many", 1, many),
    ("move", 1, move_partitions),
    ("recreate-in-move", 2, recreate_in_move),
    ("reverse-moves", 1, reverse_moves),
    ("transactions", 4, transactions),
    ("offsets", 3, offsets),
    ("out-of-files", 1, out_of_files),
    ("leftover", 1, leftover),
    ("no-room-to-compact", 1, no_room_to_compact),
    ("no-room-for-new", 1, no_room_for_new),
    ("metadata-disk-full", 1, metadata_disk_full),
    ("disk-full", 1, disk_full),
    ("fault", 4, fault),
    ("restart", 2, Workload::restart),
    ("kill", 2, Workload::kill),
];

/// How long the server may take for what it does by itself.
const PATIENCE: Duration = Duration::from_secs(10);
/// A sync of a slow disk.
const SLOW_SYNC_US: u32 = 8000;

impl Workload {
    /// Goes through all steps, or those of the names, in an order that follows from the seed.
    pub(crate) fn run(&mut self, only: &[String]) -> Result<()> {
        let is_meant = |name: &str| only.is_empty() || only.iter().any(|one| one == name);
        let mut steps: Vec<_> = ALL
            .iter()
            .filter(|(name, ..)| is_meant(name))
            .flat_map(|(name, count, step)| std::iter::repeat_n((*name, *step), *count))
            .collect();
        for at in (1..steps.len()).rev() {
            steps.swap(at, self.random.below(at + 1));
        }
        for (name, step) in steps {
            self.mark(&[&"note", &name])?;
            let started = Instant::now();
            // A server that has ended answers nothing, and its log says why.
            caught(|| step(self).and_then(|()| ensure_online(self.client())))
                .with_context(|| self.log_tail())
                .with_context(|| format!("step {name}"))?;
            eprintln!("    {name}: {:.0?}", started.elapsed());
        }
        self.check_all()
            .with_context(|| self.log_tail())
            .context("at the end")?;
        self.stop()
    }
}

fn write(workload: &mut Workload) -> Result<()> {
    workload.ensure_topic("plain", 2, "")?;
    workload.ensure_topic("synced", 2, "f")?;
    for _ in 0..12 {
        let name = *workload.random.choice(&["plain", "synced"]);
        let index = workload.random.below(2);
        let count = 1 + workload.random.below(8) as u64;
        workload.write(name, index, count)?;
    }
    Ok(())
}

fn trim(workload: &mut Workload) -> Result<()> {
    write(workload)?;
    for name in ["plain", "synced"] {
        let index = workload.random.below(2);
        let records = workload.promises.topic(name)?.partitions[index]
            .records
            .clone();
        if let Some(offset) = records.keys().nth(records.len() / 2) {
            workload.trim(name, index, *offset)?;
        }
    }
    workload.rest(300);
    Ok(())
}

/// A topic is written, trimmed, deleted and made again under its name.
fn recreate(workload: &mut Workload) -> Result<()> {
    let name = *workload.random.choice(&["again", "anew"]);
    let flags = *workload.random.choice(&["", "f"]);
    workload.ensure_topic(name, 2, flags)?;
    for _ in 0..6 {
        for index in 0..2 {
            workload.write(name, index, 5)?;
        }
    }
    workload.commit(name, false)?;
    for index in 0..2 {
        workload.trim(name, index, 25)?;
    }
    match workload.random.chance(1, 2) {
        true => workload.restart()?,
        false => workload.rest(400),
    }
    ensure!(workload.delete(name)?, "{name} is not deleted");
    workload.create(name, 2, flags)?;
    for index in 0..2 {
        workload.write(name, index, 8)?;
    }
    if workload.random.chance(1, 2) {
        // At once: nobody has had the time to replace what was known of the name.
        workload.kill()?;
        return workload.check_all();
    }
    workload.rest(300);
    Ok(())
}

/// A checkpoint's offset for a partition.
fn checkpointed(workload: &Workload, file: &str, partition: &str) -> u64 {
    let offsets = (0..2).filter_map(|at| {
        let text = fs::read_to_string(workload.log_dir(at).join(file)).ok()?;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(partition)?.strip_prefix(' '))?;
        line.parse().ok()
    });
    offsets.max().unwrap_or(0)
}

/// Waits until a partition has been compacted beyond where it was.
fn await_compacted(workload: &Workload, partition: &str, before: u64) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while checkpointed(workload, CLEANED, partition) <= before {
        ensure!(
            Instant::now() < deadline,
            "{partition} is not compacted within {PATIENCE:?}"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

const CLEANED: &str = "cleaner-offset-checkpoint";

fn compact(workload: &mut Workload) -> Result<()> {
    workload.ensure_topic("compacted", 2, "c")?;
    workload.policy("compacted", "compact")?;
    let before = checkpointed(workload, CLEANED, "compacted 0");
    for _ in 0..15 {
        for index in 0..2 {
            workload.write("compacted", index, 3)?;
        }
    }
    await_compacted(workload, "compacted 0", before)
}

/// What is compacted no longer is; what is there stays.
fn policy(workload: &mut Workload) -> Result<()> {
    compact(workload)?;
    if workload.random.chance(1, 2) {
        // What is compacted from here on lies above a checkpoint.
        workload.restart()?;
        compact(workload)?;
    }
    workload.policy("compacted", "delete")?;
    for index in 0..2 {
        workload.write("compacted", index, 2)?;
    }
    workload.rest(300);
    if workload.random.chance(1, 2) {
        workload.policy("compacted", "compact")?;
    }
    Ok(())
}

/// The policy changes while the log is being compacted, perhaps more than once.
fn policy_in_compaction(workload: &mut Workload) -> Result<()> {
    workload.ensure_topic("compacted", 2, "c")?;
    for turn in 0..4 {
        workload.policy(
            "compacted",
            if turn % 2 == 0 { "compact" } else { "delete" },
        )?;
        for index in [0, 1, 0, 1, 0, 1] {
            workload.write("compacted", index, 6)?;
        }
        workload.rest(60);
    }
    Ok(())
}

/// Retention removes segments, while the log goes on.
fn retention(workload: &mut Workload) -> Result<()> {
    workload.ensure_topic("retained", 2, "")?;
    for index in [0, 1, 0, 1, 0, 1, 0, 1] {
        workload.write("retained", index, 8)?;
    }
    workload.keep_little("retained", "4000")?;
    for index in [0, 1] {
        workload.write("retained", index, 4)?;
    }
    workload.rest(900);
    workload
        .client()
        .alter_topic("retained", &[("retention.bytes", "-1")]);
    workload.write_everywhere()
}

/// More logs than are synced one by one; a sync of the whole file system may fail.
fn many(workload: &mut Workload) -> Result<()> {
    let count = 70;
    workload.ensure_topic("many", count, "")?;
    for index in 0..count as usize {
        workload.write("many", index, 1)?;
    }
    if workload.random.chance(1, 2) {
        workload.control.arm(&Fault {
            kinds: SYNC_ALL,
            error: Errno::IO,
            paths: ["", ""],
            count: 1,
            is_half: false,
        })?;
    }
    workload.restart()?;
    workload.control.disarm()?;
    workload.write("many", 0, 1)?;
    workload.restart()?;
    ensure!(workload.delete("many")?, "it is not deleted");
    Ok(())
}

fn move_partitions(workload: &mut Workload) -> Result<()> {
    let count = 16;
    workload.ensure_topic("moved", count, "")?;
    for index in 0..count as usize {
        workload.write("moved", index, 3)?;
    }
    for at in [1, 0] {
        workload.move_all("moved", at)?;
        for _ in 0..6 {
            let index = workload.random.below(count as usize);
            workload.write("moved", index, 3)?;
        }
        workload.await_moves()?;
    }
    Ok(())
}

/// Partitions are sent back before they have arrived, and on again before the first move has ended, while
/// they are compacted. Syncs are slow, so that moves and compactions take their time.
fn reverse_moves(workload: &mut Workload) -> Result<()> {
    let count = 2;
    workload.ensure_topic("reversed", count, "c")?;
    for turn in 0..25 {
        workload.write("reversed", turn % 2, 6)?;
        workload.move_all("reversed", turn % 2)?;
        workload.rest(25);
    }
    let usual = workload.control.delay_syncs(SLOW_SYNC_US)?;
    for turn in 0..7 {
        for index in [0, 1, 0, 1] {
            workload.write("reversed", index, 7)?;
        }
        for at in [turn, turn + 1, turn] {
            workload.move_all("reversed", at % 2)?;
            workload.rest(15);
        }
        workload.rest(200);
    }
    workload.control.delay_syncs(usual)?;
    workload.await_moves()
}

/// A topic is deleted while its partitions move, and made again.
fn recreate_in_move(workload: &mut Workload) -> Result<()> {
    workload.ensure_topic("moving", 4, "")?;
    for at in [1, 0] {
        for index in [0, 1, 2, 3, 0, 1, 2, 3] {
            workload.write("moving", index, 6)?;
        }
        workload.move_all("moving", at)?;
        workload.rest(40);
        ensure!(workload.delete("moving")?, "it is not deleted");
        ensure!(workload.create("moving", 4, "")?, "it is not made again");
        for index in 0..4 {
            workload.write("moving", index, 2)?;
        }
    }
    workload.await_moves()
}

fn transactions(workload: &mut Workload) -> Result<()> {
    workload.ensure_topic("tx", 2, "")?;
    for _ in 0..6 {
        workload.write_in_transaction(2)?;
    }
    Ok(())
}

fn offsets(workload: &mut Workload) -> Result<()> {
    workload.ensure_topic("plain", 2, "")?;
    for _ in 0..4 {
        let as_member = workload.random.chance(1, 2);
        workload.commit("plain", as_member)?;
    }
    Ok(())
}

/// For a while no file can be opened. When that has passed, everything works again.
fn out_of_files(workload: &mut Workload) -> Result<()> {
    workload.ensure_topic("plain", 2, "")?;
    // Closed segments that are to be flushed while no file can be opened.
    for index in [0, 1, 0, 1, 0, 1] {
        workload.write("plain", index, 7)?;
    }
    workload.control.arm(&Fault {
        kinds: OPEN,
        error: Errno::MFILE,
        paths: ["", ""],
        count: u32::MAX,
        is_half: false,
    })?;
    // Long enough for each of the server's tasks to meet it.
    let until = Instant::now() + Duration::from_millis(1200);
    while Instant::now() < until {
        for index in 0..2 {
            workload.try_write("plain", index, 5)?;
        }
        workload.rest(60);
    }
    workload.control.disarm()?;
    workload.ensure_topic("after-files", 1, "")?;
    workload.write_everywhere()
}

/// A topic whose directory could not be renamed when it was deleted is made again.
fn leftover(workload: &mut Workload) -> Result<()> {
    workload.ensure_topic("left", 1, "")?;
    workload.write("left", 0, 3)?;
    workload.control.arm(&Fault {
        kinds: RENAME,
        error: Errno::IO,
        paths: ["left-0", ""],
        count: 1,
        is_half: false,
    })?;
    workload.delete("left")?;
    workload.control.disarm()?;
    ensure!(
        workload.create("left", 1, "")?,
        "a topic cannot be made again"
    );
    workload.write("left", 0, 2)?;
    workload.write_everywhere()
}

/// One log has no room to be compacted; the others are compacted all the same.
fn no_room_to_compact(workload: &mut Workload) -> Result<()> {
    for name in ["stuck", "free"] {
        workload.ensure_topic(name, 1, "c")?;
    }
    // What has been compacted before is less dirty than what never could be.
    let before = checkpointed(workload, CLEANED, "free 0");
    for _ in 0..10 {
        workload.write("free", 0, 6)?;
    }
    await_compacted(workload, "free 0", before)?;
    workload.control.arm(&Fault {
        kinds: WRITE | CREATE,
        error: Errno::NOSPC,
        paths: ["stuck-0", ".cleaned"],
        count: u32::MAX,
        is_half: false,
    })?;
    for _ in 0..40 {
        workload.write("stuck", 0, 6)?;
    }
    let deadline = Instant::now() + PATIENCE;
    while workload.control.hits()? == 0 {
        ensure!(
            Instant::now() < deadline,
            "nobody has tried to compact what has no room"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    let before = checkpointed(workload, CLEANED, "free 0");
    for _ in 0..4 {
        workload.write("free", 0, 6)?;
    }
    await_compacted(workload, "free 0", before)?;
    workload.control.disarm()?;
    workload.write_everywhere()
}

/// New partitions have no room for their logs, which are made when there is some. Others go on.
fn no_room_for_new(workload: &mut Workload) -> Result<()> {
    workload.ensure_topic("plain", 2, "")?;
    if workload.is_present("later") {
        ensure!(workload.delete("later")?, "it is not deleted");
    }
    workload.control.arm(&Fault {
        kinds: WRITE | CREATE | MKDIR,
        error: Errno::NOSPC,
        paths: ["later-", ""],
        count: u32::MAX,
        is_half: false,
    })?;
    ensure!(workload.create("later", 2, "")?, "it cannot be made");
    ensure!(
        workload.try_write("later", 0, 1)? != ErrorCode::None,
        "there is room after all"
    );
    for index in 0..2 {
        workload.write("plain", index, 2)?;
    }
    workload.control.disarm()?;
    let deadline = Instant::now() + PATIENCE;
    for index in 0..2 {
        while workload.try_write("later", index, 1)? != ErrorCode::None {
            ensure!(
                Instant::now() < deadline,
                "later-{index} is not made within {PATIENCE:?}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    workload.write_everywhere()
}

/// The disk of the metadata has no room for a batch, half of which is there. What is there cannot be
/// looked at while no file can be opened. When both have passed topics are made again, without a restart
/// or after one.
fn metadata_disk_full(workload: &mut Workload) -> Result<()> {
    let no_room = Fault {
        kinds: WRITE,
        error: Errno::NOSPC,
        paths: ["__cluster_metadata-0/", ".log"],
        count: u32::MAX,
        is_half: true,
    };
    let no_files = Fault {
        kinds: OPEN,
        error: Errno::MFILE,
        paths: ["__cluster_metadata-0/", ""],
        count: u32::MAX,
        is_half: false,
    };
    let number = workload.random.below(1000);
    refuse_topic(workload, &format!("unmade-{number}"), &no_room)?;
    refuse_topic(workload, &format!("unopened-{number}"), &no_files)?;
    workload.ensure_topic("between-lacks", 1, "")?;
    refuse_topic(workload, &format!("unmade-again-{number}"), &no_room)?;
    match workload.random.chance(2, 3) {
        true => workload.restart()?,
        false => workload.kill()?,
    }
    workload.ensure_topic("after-metadata", 1, "")?;
    workload.write_everywhere()
}

/// A topic cannot be made while something fails.
fn refuse_topic(workload: &mut Workload, name: &str, fault: &Fault<'_>) -> Result<()> {
    workload.control.arm(fault)?;
    let is_made = workload.create(name, 1, "")?;
    workload.control.disarm()?;
    ensure!(!is_made, "{name} is made, whatever fails");
    Ok(())
}

/// The second disk is full for a while.
fn disk_full(workload: &mut Workload) -> Result<()> {
    workload.ensure_topic("plain", 2, "")?;
    workload.control.arm(&Fault {
        kinds: WRITE | CREATE | MKDIR,
        error: Errno::NOSPC,
        paths: ["d2/", ""],
        count: u32::MAX,
        is_half: true,
    })?;
    for (name, topic) in workload.present() {
        for index in 0..topic.partitions.len() {
            if name != "tx" {
                workload.try_write(&name, index, 4)?;
            }
        }
    }
    workload.control.disarm()?;
    // The directory stays offline until the next start.
    match workload.random.chance(1, 2) {
        true => workload.restart()?,
        false => workload.kill()?,
    }
    workload.write_everywhere()
}

/// Something fails once or for a while, somewhere. Whatever comes of it, the next start is sound.
fn fault(workload: &mut Workload) -> Result<()> {
    workload.ensure_topic("plain", 2, "")?;
    workload.ensure_topic("synced", 2, "f")?;
    let (kinds, error) = *workload.random.choice(&FAILURES);
    let fault = Fault {
        kinds,
        error,
        paths: ["", ""],
        count: *workload.random.choice(&[1, 1, 5, u32::MAX]),
        is_half: workload.random.chance(1, 2),
    };
    let skip = workload.random.below(80) as u32;
    workload.control.arm_after(&fault, skip)?;
    for _ in 0..15 {
        // A server that halts closes its connections.
        if caught(|| change_something(workload)).is_err() {
            break;
        }
    }
    workload.rest(300);
    workload.control.disarm()?;
    match workload.random.chance(1, 2) {
        _ if workload.has_ended() => workload.start_again()?,
        true => workload.kill()?,
        false if caught(|| workload.restart()).is_err() => workload.start_again()?,
        false => {}
    }
    workload.check_all()?;
    workload.write_everywhere()
}

/// Does one of the things that a fault may spoil.
fn change_something(workload: &mut Workload) -> Result<()> {
    let name = *workload.random.choice(&["plain", "synced"]);
    let index = workload.random.below(2);
    match workload.random.below(8) {
        0 => {
            // A name of its own: what has become of it may never be known.
            let name = format!("perhaps-{}", workload.promises.topics.len());
            workload.create(&name, 2, "").map(drop)
        }
        1 => {
            let topics = workload.present();
            let made = topics.iter().find(|(name, _)| name.starts_with("perhaps-"));
            made.map_or(Ok(()), |(name, _)| workload.delete(name).map(drop))
        }
        2 => {
            let topic = workload.promises.topic(name)?;
            let offsets = topic.partitions[index].records.keys();
            let offset = offsets.rev().nth(10).copied();
            // It may be refused.
            offset.map_or(Ok(()), |offset| workload.trim(name, index, offset))
        }
        _ => workload.try_write(name, index, 3).map(drop),
    }
}
