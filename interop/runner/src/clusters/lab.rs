//! What every scenario of the suite works with: the programs, and where they leave their files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use harness::java::Java;

use crate::run::Run;
use crate::server::{Against, ServerPlan};

/// A program that some scenarios need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extra {
    RiverrunClient,
    KgoTests,
}

/// Shared by all scenarios, some of which run at the same time.
#[derive(Debug)]
pub(crate) struct Lab {
    riverrun: Option<PathBuf>,
    /// With our programs.
    java: Java,
    /// Kafka alone, whose classes are all in archives.
    kafka: Java,
    /// Classes that Kafka loads at each start, in the form that a virtual machine maps.
    classes: PathBuf,
    /// riverrun's own clients, where a scenario has them.
    riverrun_client: Option<PathBuf>,
    /// franz-go's tests, and the folder where they expect to be.
    kgo_tests: Option<(PathBuf, PathBuf)>,
    pub(crate) dir: PathBuf,
    pub(crate) against: Against,
    pub(crate) is_long: bool,
    pub(crate) seed: u64,
}

impl Lab {
    /// Prepares the programs that a run needs, these among them.
    pub(crate) fn new(run: &mut Run, suite: &str, extras: &[Extra]) -> Result<Self> {
        let riverrun = match run.options.against {
            Against::Riverrun => Some(run.riverrun()?),
            Against::Kafka => None,
        };
        let java = run.java()?;
        let (_, jars) = java.class_path().split_once(':').context("jars")?;
        let kafka = Java::on(&[jars]);
        let dir = run.suite_dir(suite);
        fs::create_dir_all(&dir)?;
        let classes = shared_classes(run, &kafka, &dir)?;
        let path = |command: Command| PathBuf::from(command.get_program());
        let mut riverrun_client = None;
        if extras.contains(&Extra::RiverrunClient) {
            riverrun_client = Some(path(run.built("interop-client")?));
        }
        let mut kgo_tests = None;
        if extras.contains(&Extra::KgoTests) {
            let command = run.go()?.kgo_tests()?;
            let folder = command.get_current_dir().context("they have a folder")?;
            kgo_tests = Some((folder.to_owned(), path(command)));
        }
        Ok(Self {
            riverrun,
            java,
            kafka,
            classes,
            riverrun_client,
            kgo_tests,
            dir,
            against: run.options.against,
            is_long: run.options.long,
            seed: run.options.seed.unwrap_or(1),
        })
    }

    /// riverrun's binary.
    pub(crate) fn riverrun(&self) -> Result<&Path> {
        let path = self.riverrun.as_deref();
        path.context("riverrun takes no part in a run against Apache Kafka")
    }

    /// A command that runs a class of ours.
    pub(crate) fn command(&self, class: &str) -> Command {
        self.java.command(class)
    }

    /// A command that runs a class of Kafka's with these flags of the virtual machine.
    pub(crate) fn kafka_command(&self, class: &str, flags: &[&str]) -> Command {
        let archive = format!("-XX:SharedArchiveFile={}", self.classes.display());
        // A file that is of another virtual machine is left aside without a word.
        let quiet = ["-Xlog:disable", "-Xlog:all=error:stderr", &archive];
        self.kafka.command_with(class, &[&quiet, flags].concat())
    }

    /// A command that runs riverrun's own clients.
    pub(crate) fn riverrun_client(&self) -> Result<Command> {
        let path = self.riverrun_client.as_ref();
        Ok(Command::new(path.context("the scenario asks for it")?))
    }

    /// A command that runs franz-go's tests.
    pub(crate) fn kgo_tests(&self) -> Result<Command> {
        let tests = self.kgo_tests.as_ref();
        let (folder, path) = tests.context("the scenario asks for them")?;
        let mut command = Command::new(path);
        command.current_dir(folder);
        Ok(command)
    }

    /// A command that runs a client of Kafka's.
    pub(crate) fn client_command(&self, class: &str) -> Command {
        let level = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn";
        self.kafka_command(class, &["-Xmx192m", "-XX:-UsePerfData", level])
    }
}

/// Has a virtual machine note what Kafka loads when it starts: with that each start takes half the time.
fn shared_classes(run: &Run, java: &Java, dir: &Path) -> Result<PathBuf> {
    let archive = run.cache().join("kafka.jsa");
    let stamp = run.cache().join("kafka.jsa.class-path");
    if archive.exists() && fs::read_to_string(&stamp).is_ok_and(|text| text == java.class_path()) {
        return Ok(archive);
    }
    if archive.exists() {
        fs::remove_file(&archive)?;
    }
    let flag = format!("-XX:ArchiveClassesAtExit={}", archive.display());
    let plan = ServerPlan::new(Against::Kafka, &dir.join("classes"), &[])?;
    let programs = crate::server::Programs {
        riverrun: PathBuf::new(),
        java: java.clone(),
    };
    plan.with_environment("JAVA_TOOL_OPTIONS", PathBuf::from(flag))
        .start(&programs)?
        .stop()?;
    ensure!(archive.exists(), "Java has left no {}", archive.display());
    fs::write(stamp, java.class_path())?;
    Ok(archive)
}
