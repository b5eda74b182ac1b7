//! The application of `crash/campaign`: clients that live through every kill of the broker, and know
//! what was acknowledged to them.
//!
//! ```text
//!   numbers.rs    an idempotent producer           each number once, in order, where it was acknowledged
//!   copies.rs     transactions from there to here  each number once, each transaction whole or not at all
//!   groups.rs     members that commit and leave    offsets never go back
//!   compacted.rs  transactions over few keys       the last committed value of each key
//! ```
//!
//! `interop-client campaign HOST:PORT SEED` takes commands from standard input and answers each with a
//! line, `done` and figures or `FAILED` and why:
//! - `begin` starts the clients, `progress` waits until each has gone on;
//! - `check` looks at what has come since the last check, `check-all` at everything;
//! - `pause` lets every transaction end and begins none until `resume`;
//! - `end` stops the clients and looks at everything.

mod compacted;
mod copies;
mod groups;
mod numbers;
pub(crate) mod reading;

use std::collections::BTreeSet;
use std::io::BufRead as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use riverrun_client::admin::{GroupFilter, TransactionFilter};
use tokio::sync::OwnedMutexGuard;
use tokio::task::JoinHandle;

use crate::lab::Lab;
use compacted::Compacted;
use copies::Copies;
use groups::Group;
use numbers::Numbers;

/// How long the clients may take to go on after a restart.
const PROGRESS_LIMIT: Duration = Duration::from_secs(60);
/// How long they may take to end, or one check.
const END_LIMIT: Duration = Duration::from_secs(100);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Settings of clients that outlast a broker's absence.
const PATIENCE: [(&str, &str); 3] = [
    ("reconnect.backoff.max.ms", "200"),
    ("retry.backoff.max.ms", "200"),
    ("request.timeout.ms", "10000"),
];

/// The settings that every client has, and these.
fn patient<'a>(settings: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    PATIENCE.iter().chain(settings).copied().collect()
}

/// Tells the clients to end.
#[derive(Debug, Default)]
struct Control {
    ends: AtomicBool,
}

impl Control {
    fn ends(&self) -> bool {
        self.ends.load(Ordering::Relaxed)
    }
}

/// Obeys the commands of standard input.
pub(crate) fn run(bootstrap: &str, seed: u64) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let mut campaign = Campaign::new(bootstrap, seed);
    for line in std::io::stdin().lock().lines() {
        let command = line?;
        eprintln!("=== {command}");
        match runtime.block_on(campaign.obey(&command)) {
            Ok(figures) => println!("done {figures}"),
            Err(error) => println!("FAILED {}", format!("{error:#}").replace('\n', "\t")),
        }
    }
    runtime.shutdown_background();
    Ok(())
}

#[derive(Debug)]
struct Campaign {
    lab: Lab,
    control: Arc<Control>,
    numbers: Arc<Numbers>,
    copies: Vec<Arc<Copies>>,
    groups: Vec<Arc<Group>>,
    compacted: Arc<Compacted>,
    seed: u64,
    tasks: Vec<(String, JoinHandle<Result<()>>)>,
    paused: Vec<Paused>,
}

/// Keeps a part from beginning a transaction.
#[derive(Debug)]
enum Paused {
    Copies(#[expect(dead_code, reason = "held")] OwnedMutexGuard<copies::State>),
    Compacted(#[expect(dead_code, reason = "held")] OwnedMutexGuard<compacted::State>),
}

impl Campaign {
    fn new(bootstrap: &str, seed: u64) -> Self {
        let protocols = ["classic", "consumer"];
        Self {
            lab: Lab::new(bootstrap, "campaign"),
            control: Arc::default(),
            numbers: Arc::new(Numbers::new(bootstrap)),
            copies: protocols
                .map(|protocol| Arc::new(Copies::new(bootstrap, protocol)))
                .into(),
            groups: protocols
                .map(|protocol| Arc::new(Group::new(bootstrap, protocol)))
                .into(),
            compacted: Arc::new(Compacted::new(bootstrap)),
            seed,
            tasks: Vec::new(),
            paused: Vec::new(),
        }
    }

    async fn obey(&mut self, command: &str) -> Result<String> {
        match command {
            "begin" => {
                self.begin().await?;
                self.progress().await?;
            }
            "progress" => self.progress().await?,
            "pause" => {
                self.pause().await?;
                // The figures wait for transactions, and these now rest.
                return Ok(String::new());
            }
            "resume" => self.paused.clear(),
            "check" => self.check(false).await?,
            "check-all" => self.check(true).await?,
            "end" => {
                self.end().await?;
                self.check(true).await?;
            }
            other => bail!("unknown command `{other}`"),
        }
        Ok(self.figures().await)
    }

    async fn begin(&mut self) -> Result<()> {
        self.numbers.create().await?;
        self.compacted.create().await?;
        for copies in &self.copies {
            copies.create().await?;
        }
        let (control, seed) = (self.control.clone(), self.seed);
        let numbers = self.numbers.clone().work(control.clone());
        self.tasks
            .push(("numbers".to_owned(), tokio::spawn(numbers)));
        let compacted = self.compacted.clone().work(control.clone(), seed);
        self.tasks
            .push(("compacted".to_owned(), tokio::spawn(compacted)));
        for (index, copies) in self.copies.iter().enumerate() {
            let work = copies.clone().work(control.clone(), seed + index as u64);
            self.tasks
                .push((copies.name().to_owned(), tokio::spawn(work)));
        }
        for (index, group) in self.groups.iter().enumerate() {
            for member in 0..groups::MEMBERS {
                let seed = seed + (10 * index + member) as u64;
                let work = group.clone().work(control.clone(), seed);
                let name = format!("{}, member {member}", group.name());
                self.tasks.push((name, tokio::spawn(work)));
            }
        }
        Ok(())
    }

    /// Fails if one of the clients has.
    async fn ensure_alive(&mut self) -> Result<()> {
        for (name, task) in &mut self.tasks {
            if task.is_finished() && !self.control.ends() {
                let ended = task.await?;
                ended.with_context(|| format!("{name} has failed"))?;
                bail!("{name} has ended by itself");
            }
        }
        Ok(())
    }

    /// What each client has achieved so far.
    async fn achieved(&self) -> Vec<(String, u64)> {
        let mut achieved = vec![("numbers".to_owned(), self.numbers.acknowledged())];
        for copies in &self.copies {
            achieved.push((copies.name().to_owned(), copies.tally().await.committed));
        }
        for group in &self.groups {
            achieved.push((group.name().to_owned(), group.commits()));
        }
        achieved.push((
            "compacted".to_owned(),
            self.compacted.tally().await.committed,
        ));
        achieved
    }

    async fn progress(&mut self) -> Result<()> {
        let before = self.achieved().await;
        let deadline = Instant::now() + PROGRESS_LIMIT;
        loop {
            self.ensure_alive().await?;
            let now = self.achieved().await;
            let mut stuck = before.iter().zip(&now).filter(|(then, now)| then == now);
            let Some(((name, count), _)) = stuck.next() else {
                return Ok(());
            };
            ensure!(
                Instant::now() < deadline,
                "{name} stands at {count} for {PROGRESS_LIMIT:?}"
            );
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    async fn check(&mut self, is_whole: bool) -> Result<()> {
        self.ensure_alive().await?;
        let checked = tokio::time::timeout(END_LIMIT, self.check_parts(is_whole)).await;
        checked.with_context(|| format!("the check is not done after {END_LIMIT:?}"))?
    }

    async fn check_parts(&self, is_whole: bool) -> Result<()> {
        self.numbers.check(is_whole).await.context("numbers")?;
        for copies in &self.copies {
            let checked = copies.check(is_whole).await;
            checked.with_context(|| copies.name().to_owned())?;
        }
        for group in &self.groups {
            let checked = group.check().await;
            checked.with_context(|| group.name().to_owned())?;
        }
        self.compacted.check().await.context("compacted")?;
        self.check_names().await
    }

    /// Every group and every transactional id is there still.
    async fn check_names(&self) -> Result<()> {
        let admin = self.lab.admin()?;
        let listed = admin.list_groups(&GroupFilter::default()).await?;
        let listed: BTreeSet<&str> = listed.iter().map(|group| &*group.id).collect();
        let copies = self.copies.iter().map(|copies| copies.name());
        let groups = self.groups.iter().map(|group| group.name());
        for name in groups.chain(copies.clone()) {
            ensure!(listed.contains(name), "no group {name} in {listed:?}");
        }
        let listed = admin
            .list_transactions(&TransactionFilter::default())
            .await?;
        let listed: BTreeSet<&str> = listed.iter().map(|listing| &*listing.id).collect();
        for name in copies.chain([self.compacted.name()]) {
            ensure!(
                listed.contains(name),
                "no transactional id {name} in {listed:?}"
            );
        }
        Ok(())
    }

    /// Waits until no transaction is open, nor waits for its markers.
    async fn pause(&mut self) -> Result<()> {
        for copies in &self.copies {
            self.paused.push(Paused::Copies(copies.pause().await));
        }
        self.paused
            .push(Paused::Compacted(self.compacted.pause().await));
        let admin = self.lab.admin()?;
        for copies in &self.copies {
            reading::await_completed(&admin, copies.name()).await?;
        }
        reading::await_completed(&admin, self.compacted.name()).await
    }

    async fn end(&mut self) -> Result<()> {
        self.ensure_alive().await?;
        self.control.ends.store(true, Ordering::Relaxed);
        for (name, task) in std::mem::take(&mut self.tasks) {
            let ended = tokio::time::timeout(END_LIMIT, task).await;
            let ended = ended.with_context(|| format!("{name} does not end"))?;
            ended?.with_context(|| format!("{name} has failed"))?;
        }
        Ok(())
    }

    async fn figures(&self) -> String {
        let mut transactions = self.compacted.tally().await;
        for copies in &self.copies {
            transactions.add(copies.tally().await);
        }
        let commits: u64 = self.groups.iter().map(|group| group.commits()).sum();
        format!(
            "{} acknowledged records, {} committed, {} aborted and {} abandoned transactions, \
             {commits} commits of offsets",
            self.numbers.acknowledged(),
            transactions.committed,
            transactions.aborted,
            transactions.abandoned,
        )
    }
}

/// How many transactions have come to which end.
#[derive(Debug, Default, Clone, Copy)]
struct Tally {
    committed: u64,
    aborted: u64,
    /// Left open by a producer that is gone.
    abandoned: u64,
}

impl Tally {
    const fn add(&mut self, other: Self) {
        self.committed += other.committed;
        self.aborted += other.aborted;
        self.abandoned += other.abandoned;
    }
}
