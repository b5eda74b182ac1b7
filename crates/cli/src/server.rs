//! `riverrun server`: configuration from its sources, a runtime, and a clean shutdown.

use crate::arguments::ServerArguments;
use crate::{complain, fail};
use broker::loggers::{LOGGERS, Levels, Loggers, ROOT};
use broker::{Server, ServerOptions};
use config::sources::{self, PropertiesText, Sources};
use config::{ServerConfig, ServerConfigError, ValueError};
use rustix::process::{Resource, getrlimit, setrlimit};
use std::fmt::Display;
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;

/// Runs a server until SIGTERM, SIGINT or SIGHUP.
pub(crate) fn run(arguments: &ServerArguments) -> ExitCode {
    let loggers = log_to_stderr();
    raise_open_files();
    crate::free_memory::start();
    match configure(arguments) {
        Ok(config) => {
            let reserve_workers = broker::reserve_workers(&config);
            let options = ServerOptions {
                loggers,
                reserve_workers,
            };
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(workers() + reserve_workers)
                .enable_all()
                .build();
            match runtime {
                Ok(runtime) => {
                    let code = runtime.block_on(serve(config, options));
                    // A start that was given up goes on until the process ends, which is now.
                    runtime.shutdown_background();
                    code
                }
                Err(error) => fail(&format!("no threads can be started: {error}")),
            }
        }
        Err(reasons) => {
            for reason in reasons {
                complain(&reason);
            }
            ExitCode::FAILURE
        }
    }
}

/// How many workers there are for requests, but for those in reserve.
fn workers() -> usize {
    let asked = std::env::var("TOKIO_WORKER_THREADS").ok();
    let asked = asked.and_then(|asked| asked.parse().ok());
    let processors = || std::thread::available_parallelism().map_or(1, usize::from);
    asked.filter(|asked| *asked > 0).unwrap_or_else(processors)
}

/// Logs to the standard error, at the levels that `RIVERRUN_LOG` sets: a level for all, or
/// `target=level` pairs, separated by commas. Clients may change them while the server runs.
fn log_to_stderr() -> Loggers {
    let given = std::env::var("RIVERRUN_LOG").unwrap_or_default();
    let parsed: Result<Targets, _> = match given.trim() {
        // An empty directive would be a level: ERROR.
        "" => Ok(Targets::new()),
        given => given.parse(),
    };
    let targets = parsed.as_ref().cloned().unwrap_or_default();
    let mut levels: Levels = targets
        .iter()
        .map(|(target, level)| (target.replace("::", "."), level))
        .collect();
    let root = targets.default_level().unwrap_or(LevelFilter::INFO);
    levels.insert(ROOT.to_owned(), root);
    let (filter, handle) = reload::Layer::new(filter(&levels));
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false);
    tracing_subscriber::registry()
        .with(filter)
        .with(lines)
        .init();
    if let Err(error) = parsed {
        tracing::warn!(
            "`RIVERRUN_LOG={given}` is not a list of levels and `target=level` pairs ({error}): INFO \
             holds"
        );
    }
    let is_coarse = |logger: &&&str| logger.matches('.').count() < 2;
    let coarse: Vec<&str> = LOGGERS.iter().filter(is_coarse).copied().collect();
    for name in levels.keys().filter(|name| !is_logger(name)) {
        tracing::warn!(
            "`RIVERRUN_LOG={given}`: no logger is named `{name}`; the levels are error, warn, info, \
             debug, trace and off, the loggers {}, and those below them that `kafka-configs.sh --entity-type \
             broker-loggers --describe` lists",
            coarse.join(", ")
        );
    }
    Loggers::new(levels, move |levels| {
        // It fails only when the subscriber is gone, and then nobody logs.
        let _ = handle.reload(self::filter(levels));
    })
}

/// Whether something of this program may log under the name.
fn is_logger(name: &str) -> bool {
    let is_below = |name: &str, logger: &str| {
        let rest = name.strip_prefix(logger);
        rest.is_some_and(|rest| rest.starts_with('.'))
    };
    // Where the modules are loggers of their own, a name is one of them or lies in one.
    let is_leaf = |logger: &str| !LOGGERS.iter().any(|one| is_below(one, logger));
    let is_it = |logger: &&str| *logger == name || is_leaf(logger) && is_below(name, logger);
    let given = name.split('.').next().unwrap_or_default();
    name == ROOT || OTHER_CRATES.contains(&given) || LOGGERS.iter().any(is_it)
}

/// Crates that log seldom, and have no logger of their own from the start.
const OTHER_CRATES: &[&str] = &[
    "config",
    "controller",
    "coordinator",
    "metadata",
    "mio",
    "record",
    "replication",
    "storage",
    "tokio",
    "wire",
];

/// The target of a logger.
fn target_of(logger: &str) -> String {
    logger.replace('.', "::")
}

fn filter(levels: &Levels) -> Targets {
    let root = levels.get(ROOT).copied();
    let targets = levels.iter().filter(|(name, _)| *name != ROOT);
    Targets::new()
        .with_default(root.unwrap_or(LevelFilter::INFO))
        .with_targets(targets.map(|(name, level)| (target_of(name), *level)))
}

fn configure(arguments: &ServerArguments) -> Result<ServerConfig, Vec<String>> {
    let mut overrides = Vec::new();
    for pair in &arguments.set {
        let (key, value) = sources::split_pair(pair)
            .ok_or_else(|| vec![format!("`--set {pair}`: write it as KEY=VALUE")])?;
        overrides.push((key.to_owned(), value.to_owned()));
    }
    let name = arguments
        .properties
        .as_ref()
        .map(|path| path.display().to_string());
    let text = match &arguments.properties {
        Some(path) => Some(read_properties(path).map_err(|error| {
            vec![format!(
                "cannot read `{}`: {error}{}",
                path.display(),
                advice(path)
            )]
        })?),
        None => None,
    };
    let environment: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(key, value)| Some((key.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let properties = match (&name, &text) {
        (Some(name), Some(text)) => Some(PropertiesText { name, text }),
        _ => None,
    };
    let sources = Sources {
        properties,
        environment: &environment,
        overrides: &overrides,
    };
    let given = sources::load(&sources).map_err(texts)?;
    for warning in &given.warnings {
        tracing::warn!("{warning}");
    }
    for note in given.without_effect() {
        match note.is_warning {
            true => tracing::warn!("{}", note.text),
            false => tracing::info!("{}", note.text),
        }
    }
    let values = given.values;
    let mut config = ServerConfig::read(&values).map_err(|errors| {
        let is_incomplete = errors.iter().any(is_missing);
        let mut reasons = texts(errors);
        if let (true, Some(name)) = (is_incomplete, &name) {
            reasons.push(format!(
                "`{name}` is not the properties file of a KRaft broker. A single node needs \
                 process.roles=broker,controller, node.id=1, \
                 listeners=PLAINTEXT://:9092,CONTROLLER://:9093, \
                 controller.listener.names=CONTROLLER and \
                 controller.quorum.voters=1@localhost:9093. Or start without a file and use --set"
            ));
        }
        reasons
    })?;
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    config.new_cluster_id = cluster_id()?;
    Ok(config)
}

/// The id for a cluster that is yet to be made, as Kafka's container image takes it.
fn cluster_id() -> Result<Option<String>, Vec<String>> {
    let Some(id) = std::env::var("CLUSTER_ID").ok().filter(|id| !id.is_empty()) else {
        return Ok(None);
    };
    // Kafka takes any word; its own are those that `kafka-storage.sh random-uuid` prints.
    match id.chars().any(|c| c.is_whitespace() || c.is_control()) {
        false => Ok(Some(id)),
        true => Err(vec![format!(
            "environment variable CLUSTER_ID: `{id}` is not a valid cluster id; use one word, such as \
             `kafka-storage.sh random-uuid` prints"
        )]),
    }
}

fn is_missing(error: &ServerConfigError) -> bool {
    matches!(error, ServerConfigError::Value(ValueError::Missing { .. }))
}

/// The text of a properties file. Java reads it as Latin-1, so a comment may have been written so.
fn read_properties(path: &Path) -> std::io::Result<String> {
    let text = String::from_utf8(std::fs::read(path)?);
    Ok(text.unwrap_or_else(|error| error.as_bytes().iter().copied().map(char::from).collect()))
}

/// What somebody may have meant by a file that cannot be read.
fn advice(path: &Path) -> String {
    let text = path.display().to_string();
    match text.contains('=') {
        true => format!("; to set a key, write `--set {text}`"),
        false => String::new(),
    }
}

fn texts<E: Display>(errors: Vec<E>) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// Each connection takes an open file, and so does each log in use: the soft limit goes as far as the
/// hard one.
fn raise_open_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::debug!(%error, "the limit of open files stays as it is");
    }
}

/// The signals that shut a server down cleanly.
struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
    /// The terminal is gone; not for a process that was started to outlive it.
    hangup: Option<Signal>,
}

impl StopSignals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: match ignores_hangup() {
                true => None,
                false => Some(signal(SignalKind::hangup())?),
            },
        })
    }

    async fn received(&mut self) {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            _ = hangup => {}
        }
    }
}

/// Keeps signals from ending the server that end no JVM either: operators ask one for its threads by
/// SIGQUIT, and a write beyond a limit of file sizes (SIGXFSZ) fails.
fn outlive_signals() -> std::io::Result<()> {
    // The handler stays when this is dropped.
    drop(signal(SignalKind::from_raw(libc::SIGXFSZ))?);
    let mut quit = signal(SignalKind::quit())?;
    tokio::spawn(async move {
        while quit.recv().await.is_some() {
            tracing::warn!(
                "SIGQUIT does not stop the server, and it has no threads of a JVM to print; send \
                 SIGTERM to stop it"
            );
        }
    });
    Ok(())
}

/// Whether the process was started with SIGHUP ignored, as by `nohup`.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & 1 == 1)
}

async fn serve(config: ServerConfig, options: ServerOptions) -> ExitCode {
    let (Ok(mut stop), Ok(())) = (StopSignals::listen(), outlive_signals()) else {
        return fail("signals cannot be received");
    };
    let started = std::time::Instant::now();
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        node_id = %config.node_id,
        log_dirs = config.log.log_dirs.join(","),
        metadata_log_dir = config.log.metadata_log_dir,
        "starting"
    );
    let max_startup_ms = config.max_startup_time_ms;
    // Recovery may take long, and is begun anew by the next start wherever this one ends.
    let server = tokio::select! {
        server = Server::start_with(config, options) => server,
        () = stop.received() => {
            tracing::info!("stopped before it was ready");
            return ExitCode::SUCCESS;
        }
        () = tokio::time::sleep(Duration::from_millis(max_startup_ms.max(0).unsigned_abs())) => {
            return fail(&format!(
                "not ready within server.max.startup.time.ms ({max_startup_ms}); a start after a \
                 crash checks the logs, so give it longer"
            ));
        }
    };
    let server = match server {
        Ok(server) => server,
        Err(error) => return fail(&error.to_string()),
    };
    for (listener, address) in server.addresses() {
        tracing::info!(listener, %address, "listening");
    }
    tracing::info!(
        cluster_id = server.cluster_id(),
        milliseconds = started.elapsed().as_millis() as u64,
        "riverrun is ready"
    );
    crate::free_memory::drop_program_pages();
    tokio::select! {
        () = stop.received() => {}
        reason = server.halted() => return fail(&format!("{reason}: mend it, then start again")),
    }
    tracing::info!("stopping");
    server.stop().await;
    tracing::info!("stopped");
    ExitCode::SUCCESS
}
