//! Java: the class path that Maven resolves and the programs compiled from a folder of sources.
//!
//! Both are kept under the cache directory beside a copy of what they were made from, and made
//! again when that differs. Apache Kafka itself runs from the same class path.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::process::run_quietly;

/// Short programs start faster with one compiler tier and one collector thread.
const FLAGS: [&str; 6] = [
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
    "-Dorg.slf4j.simpleLogger.showShortLogName=true",
];

/// Whether the compiler runs the annotation processors that it finds on the class path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Annotations {
    /// None of them.
    Ignore,
    /// All of them.
    Process,
}

/// An installed set of Java programs.
#[derive(Clone, Debug)]
pub struct Java {
    class_path: String,
}

impl Java {
    /// Resolves and compiles what is not in `cache` yet. `source` has a `pom.xml` and `src`.
    pub fn install(source: &Path, cache: &Path, annotations: Annotations) -> Result<Self> {
        fs::create_dir_all(cache)?;
        let jars = resolve(source, cache, None)?;
        let classes = compile(source, cache, &jars, annotations)?;
        Ok(Self {
            class_path: format!("{}:{jars}", classes.display()),
        })
    }

    /// Resolves a release of Apache Kafka, whose `pom.xml` is in `source`, without programs of ours.
    pub fn install_kafka(source: &Path, cache: &Path, release: &str) -> Result<Self> {
        fs::create_dir_all(cache)?;
        let class_path = resolve(source, cache, Some(release))?;
        Ok(Self { class_path })
    }

    /// What runs on these jars and folders, the first of which win.
    pub fn on(class_path: &[&str]) -> Self {
        Self {
            class_path: class_path.join(":"),
        }
    }

    /// What `java -cp` takes.
    pub fn class_path(&self) -> &str {
        &self.class_path
    }

    /// A command that runs `class`.
    pub fn command(&self, class: &str) -> Command {
        self.command_with(
            class,
            &["-Xmx768m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"],
        )
    }

    /// A command that runs `class` with further flags of the virtual machine.
    pub fn command_with(&self, class: &str, flags: &[&str]) -> Command {
        let mut command = Command::new("java");
        command
            .args(FLAGS)
            .args(flags)
            .arg("-cp")
            .arg(&self.class_path)
            .arg(class);
        command
    }
}

/// The class path of the dependencies in `pom.xml`, of another release of Kafka than it names.
pub fn resolve(source: &Path, cache: &Path, release: Option<&str>) -> Result<String> {
    let pom = fs::read_to_string(source.join("pom.xml"))?;
    let stamp = cache.join("class-path.pom.xml");
    let output = cache.join("class-path.txt");
    if fs::read_to_string(&stamp).is_ok_and(|made_from| made_from == pom)
        && let Ok(jars) = fs::read_to_string(&output)
        && jars.split(':').all(|jar| Path::new(jar).exists())
    {
        return Ok(jars);
    }
    let mut maven = Command::new("mvn");
    maven
        .args([
            "-q",
            "-B",
            "dependency:build-classpath",
            "-Dmdep.includeScope=runtime",
        ])
        .arg(format!("-Dmdep.outputFile={}", output.display()))
        .args(release.map(|release| format!("-Dkafka.version={release}")))
        .current_dir(source);
    run_quietly(&mut maven)
        .with_context(|| format!("Maven cannot resolve {}/pom.xml", source.display()))?;
    fs::write(stamp, pom)?;
    Ok(fs::read_to_string(output)?.trim().to_owned())
}

/// Compiles every source file and returns the directory of the classes.
pub fn compile(
    source: &Path,
    cache: &Path,
    jars: &str,
    annotations: Annotations,
) -> Result<PathBuf> {
    let files = java_files(&source.join("src"))?;
    ensure!(
        !files.is_empty(),
        "no Java source under {}",
        source.display()
    );
    let mut made_from = jars.to_owned();
    for file in &files {
        made_from.push_str(&fs::read_to_string(file)?);
    }
    let classes = cache.join("classes");
    let stamp = cache.join("classes.stamp");
    if classes.exists() && fs::read_to_string(&stamp).is_ok_and(|text| text == made_from) {
        return Ok(classes);
    }
    if classes.exists() {
        fs::remove_dir_all(&classes)?;
    }
    let mut javac = Command::new("javac");
    javac.args([
        "--release",
        "17",
        "-Xlint:all,-processing,-options,-try",
        "-Werror",
    ]);
    if annotations == Annotations::Ignore {
        javac.arg("-proc:none");
    }
    fs::create_dir_all(&classes)?;
    javac.args(["-cp", jars, "-d"]).arg(&classes).args(&files);
    run_quietly(&mut javac).with_context(|| format!("cannot compile {}", source.display()))?;
    fs::write(stamp, made_from)?;
    Ok(classes)
}

/// The source files below `dir`, sorted.
fn java_files(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut pending = vec![dir.to_owned()];
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(&dir).with_context(|| format!("no {}", dir.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                pending.push(path);
            } else if path
                .extension()
                .is_some_and(|extension| extension == "java")
            {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}
