//! The scenario `crash/clock`: the wall clock of a running server is set, back and forth, while
//! groups rebalance and transactions are open (`interop/rust/src/clock.rs`). A library that is loaded
//! before the C library shifts it (`interop/clock/shift.c`), for riverrun and a virtual machine alike.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::SUITE;
use crate::application::Application;
use crate::run::Run;
use crate::server::{Against, Server, ServerPlan};
use harness::process::run_quietly;

const HOUR_MS: i64 = 3_600_000;
/// More than Kafka keeps records and offsets for, more than any timeout.
const DAYS_MS: i64 = 8 * 24 * HOUR_MS;

/// How far ahead of the machine's the server's clock is: from one step to the next.
const SHIFTS_MS: [i64; 7] = [2_000, HOUR_MS, 0, -HOUR_MS, DAYS_MS, -DAYS_MS, 0];

/// The same against Apache Kafka 4.3: set back, it assigns nothing to members of consumer groups until
/// its clock is where it was.
const FORWARD_MS: [i64; 3] = [2_000, HOUR_MS, DAYS_MS];

/// With no delay at all a timer would not be needed for the first assignment.
const DELAY: (&str, &str) = ("group.initial.rebalance.delay.ms", "300");

/// What is overdue is looked for twice a second.
const PROPERTIES: &[(&str, &str)] = &[
    DELAY,
    ("group.consumer.min.heartbeat.interval.ms", "200"),
    ("group.consumer.heartbeat.interval.ms", "200"),
    ("group.consumer.min.session.timeout.ms", "1000"),
    ("group.consumer.session.timeout.ms", "10000"),
    ("offsets.retention.check.interval.ms", "500"),
    ("log.initial.task.delay.ms", "500"),
    ("log.retention.check.interval.ms", "500"),
    ("log.segment.delete.delay.ms", "500"),
    ("producer.id.expiration.check.interval.ms", "500"),
    (
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        "500",
    ),
    (
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        "500",
    ),
];

/// Sets the clock of an idle server, then that of one with clients again and again. What Apache Kafka
/// loses by it is told; riverrun may lose nothing.
pub(crate) fn steps(run: &mut Run) -> Result<()> {
    idle_server(run)?;
    let (server, clock, mut application) = begin(run, PROPERTIES)?;
    let mut obey = |command: &str| {
        let obeyed = application.obey(command);
        obeyed.map_err(|error| error.context(server.log_tail()))
    };
    obey("begin")?;
    let shifts_ms = match run.options.against {
        Against::Riverrun => &SHIFTS_MS[..],
        Against::Kafka => &FORWARD_MS[..],
    };
    for &shift_ms in shifts_ms {
        obey("before")?;
        clock.set(shift_ms)?;
        let figures = obey("after").with_context(|| format!("the clock is {shift_ms} ms ahead"))?;
        ensure_kept(run, &figures).with_context(|| format!("the clock is {shift_ms} ms ahead"))?;
    }
    let ended = obey("end")?;
    ensure_kept(run, &ended)?;
    println!("    {} steps of the clock; {ended}", shifts_ms.len());
    application.end()?;
    server.stop()?;
    run.read_disk(SUITE)
}

/// Only what is looked for every ten minutes is waited for when the clock is set: that must not be
/// what the next group waits for.
fn idle_server(run: &mut Run) -> Result<()> {
    let (server, clock, mut application) = begin(run, &[DELAY])?;
    let steps = [
        ("offset first", 0),
        ("newcomers forward", HOUR_MS),
        ("newcomers back", -HOUR_MS),
    ];
    for (command, shift_ms) in steps {
        clock.set(shift_ms)?;
        let obeyed = application.obey(command);
        obeyed.map_err(|error| error.context(server.log_tail()))?;
    }
    application.end()?;
    server.stop()
}

fn begin(
    run: &mut Run,
    properties: &[(&str, &str)],
) -> Result<(Server, ShiftedClock, Application)> {
    let mut command = run.built("interop-client")?;
    let dir = run.suite_dir(SUITE);
    let plan = ServerPlan::new(run.options.against, &dir, properties)?;
    let clock = ShiftedClock::build(&run.source("clock/shift.c"), &dir)?;
    let plan = plan
        .with_environment("LD_PRELOAD", clock.library.clone())
        .with_environment("SHIFTED_CLOCK", clock.file.clone());
    let server = run.start_planned(&plan)?;
    let application = Application::start(command.args(["clock", &server.bootstrap()]), &dir)?;
    Ok((server, clock, application))
}

fn ensure_kept(run: &Run, figures: &str) -> Result<()> {
    let is_whole = figures == "aborted=0 offsets-lost=0 records-lost=0";
    ensure!(
        is_whole || run.options.against == Against::Kafka,
        "lost: {figures}"
    );
    Ok(())
}

/// The clock of a process that is started with the library and the file in its environment.
#[derive(Debug)]
struct ShiftedClock {
    library: PathBuf,
    file: PathBuf,
}

impl ShiftedClock {
    fn build(source: &Path, dir: &Path) -> Result<Self> {
        let library = dir.join("shift.so");
        let mut cc = Command::new("cc");
        cc.args(["-std=gnu11", "-O2", "-shared", "-fPIC", "-o"]);
        run_quietly(cc.arg(&library).arg(source).arg("-ldl"))?;
        let file = dir.join("shift");
        fs::write(&file, 0_i64.to_ne_bytes())?;
        Ok(Self { library, file })
    }

    /// Lets the clock be so far ahead from now on.
    fn set(&self, shift_ms: i64) -> Result<()> {
        let file = fs::File::options().write(true).open(&self.file)?;
        // In place: the process has the file mapped.
        file.write_all_at(&shift_ms.to_ne_bytes(), 0)?;
        Ok(())
    }
}
