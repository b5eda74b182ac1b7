//! How commands reach a cluster, and how they run.

use crate::output::{Output, OutputFormat};
use crate::profiles::{self, Profiles};
use clap::Args;
use riverrun_client::Error;
use riverrun_client::admin::{Admin, AdminConfig};
use riverrun_client::config::Settings;
use std::collections::BTreeMap;
use std::future::Future;
use std::io::{self, BufWriter, StdoutLock};
use std::process::ExitCode;
use std::time::Duration;

/// Where a server without a configuration listens.
const DEFAULT_BROKERS: &str = "127.0.0.1:9092";

/// What every command that talks to a cluster takes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection and output")]
pub(crate) struct ConnectionArguments {
    /// Brokers to ask first, as host:port, separated by commas; otherwise those of the profile, or
    /// 127.0.0.1:9092
    #[arg(
        short,
        long,
        global = true,
        env = "RIVERRUN_BROKERS",
        value_name = "BROKERS"
    )]
    brokers: Option<String>,
    /// A profile that `riverrun profile set` made
    #[arg(long, global = true, env = "RIVERRUN_PROFILE", value_name = "NAME")]
    profile: Option<String>,
    /// A setting of the client by Kafka's name, such as client.id=me
    #[arg(short = 'X', long = "set", global = true, value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// How long to try, such as 10s or 500ms
    #[arg(long, global = true, default_value = "10s", value_name = "DURATION", value_parser = crate::time::duration_ms)]
    timeout: i64,
    /// How to print
    #[arg(
        long,
        global = true,
        value_enum,
        default_value = "text",
        value_name = "FORMAT"
    )]
    pub(crate) output: OutputFormat,
}

impl ConnectionArguments {
    /// The settings of a client of this kind: the timeout, those of the profile that this kind knows,
    /// then what `--brokers` and `-X` say.
    pub(crate) fn config<C: Settings + Default>(&self, timeout_keys: &[&str]) -> Result<C, Error> {
        let mut config = C::default();
        config.set("bootstrap.servers", DEFAULT_BROKERS)?;
        let timeout = self.timeout.to_string();
        for key in timeout_keys {
            config.set(key, &timeout)?;
        }
        for (key, value) in self.profile_settings()? {
            // A producer's setting means nothing to a consumer.
            config.assign(&key, &value).transpose()?;
        }
        if let Some(brokers) = &self.brokers {
            config.set("bootstrap.servers", brokers)?;
        }
        for pair in &self.settings {
            let (key, value) = pair
                .split_once('=')
                .ok_or_else(|| Error::Invalid(format!("`-X {pair}`: write it as KEY=VALUE")))?;
            config.set(key.trim(), value)?;
        }
        Ok(config)
    }

    /// The settings of the profile that is named; of the one in use, where no brokers are.
    fn profile_settings(&self) -> Result<BTreeMap<String, String>, Error> {
        let path = match (&self.profile, &self.brokers) {
            (None, Some(_)) => None,
            _ => profiles::path(),
        };
        let Some(path) = path else {
            return Ok(BTreeMap::new());
        };
        let profiles = Profiles::read(&path).map_err(Error::Invalid)?;
        match self.profile.as_ref().or(profiles.current.as_ref()) {
            Some(name) => profiles.settings(name).cloned().map_err(Error::Invalid),
            None => Ok(BTreeMap::new()),
        }
    }

    /// How long to try.
    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_millis(u64::try_from(self.timeout).unwrap_or(0))
    }

    /// A client for operators.
    pub(crate) fn admin(&self) -> Result<Admin, Error> {
        let keys = ["default.api.timeout.ms", "request.timeout.ms"];
        Admin::new(self.config::<AdminConfig>(&keys)?)
    }
}

/// Why a command ended early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// What the cluster said, or what was wrong with the command.
    Client(Error),
    /// The output cannot be written.
    Output(io::Error),
    /// What went wrong has been told already.
    Told,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Client(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

/// Where the commands print to.
pub(crate) type Stdout = Output<BufWriter<StdoutLock<'static>>>;

/// Runs a command to its end.
pub(crate) fn run<F>(command: impl FnOnce(Stdout) -> F, format: OutputFormat) -> ExitCode
where
    F: Future<Output = Result<(), Failure>>,
{
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return crate::fail(&format!("no runtime can be started: {error}")),
    };
    match runtime.block_on(command(Output::stdout(format))) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads has seen enough: `riverrun topic list | head`.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(Failure::Output(error)) => crate::fail(&error.to_string()),
        Err(Failure::Client(error)) => crate::fail(&in_words(&error)),
        Err(Failure::Told) => ExitCode::FAILURE,
    }
}

/// The error, with the options of commands for the settings that they stand for.
fn in_words(error: &Error) -> String {
    let text = error.to_string();
    let is_typed_elsewhere = matches!(error, Error::Configuration { .. });
    if is_typed_elsewhere {
        return text;
    }
    text.replace("`bootstrap.servers`", "`--brokers`")
}

/// Splits answers into what came and what failed, and tells of each failure.
pub(crate) fn succeeded<K, T>(
    answers: impl IntoIterator<Item = (K, Result<T, Error>)>,
) -> (Vec<(K, T)>, Result<(), Failure>) {
    let mut outcome = Ok(());
    let mut values = Vec::new();
    for (key, answer) in answers {
        match answer {
            Ok(value) => values.push((key, value)),
            Err(error) => {
                crate::complain(&in_words(&error));
                outcome = Err(Failure::Told);
            }
        }
    }
    (values, outcome)
}

/// `KEY=VALUE`, split.
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text
        .split_once('=')
        .ok_or_else(|| format!("`{text}`: write it as KEY=VALUE"))?;
    Ok((key.trim().to_owned(), value.to_owned()))
}
