//! How commands reach a cluster, and how they run.

use crate::output::{Output, OutputFormat};
use crate::profiles::{self, Profiles};
use clap::Args;
use model::ErrorCode;
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

/// The settings of an admin client that `--timeout` is.
const ADMIN_TIMEOUTS: &[&str] = &["default.api.timeout.ms", "request.timeout.ms"];

/// What every command that talks to a cluster takes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection and output")]
pub(crate) struct ConnectionArguments {
    /// Bootstrap servers, as host:port, separated by commas; by default those of the profile, or
    /// 127.0.0.1:9092
    /// [env: RIVERRUN_BROKERS]
    // Kafka's tools name it otherwise.
    #[arg(
        short,
        long,
        alias = "bootstrap-server",
        global = true,
        value_name = "BROKERS"
    )]
    brokers: Option<String>,
    /// A profile that `riverrun profile set` made [env: RIVERRUN_PROFILE]
    #[arg(long, global = true, value_name = "NAME")]
    profile: Option<String>,
    /// A client setting by Kafka's name, such as client.id=me
    #[arg(short = 'X', long = "set", global = true, value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// How long to wait for the cluster, such as 10s or 500ms
    #[arg(long, global = true, default_value = "10s", value_name = "DURATION", value_parser = crate::time::duration_ms)]
    timeout: i64,
    /// Output format: text for people, or json for programs, one object a line
    #[arg(
        long,
        global = true,
        value_enum,
        default_value = "text",
        hide_possible_values = true,
        value_name = "FORMAT"
    )]
    pub(crate) output: OutputFormat,
}

impl ConnectionArguments {
    /// The settings of a client of this kind: the timeout, those of the profile that this kind knows,
    /// then what `--brokers` and `-X` say.
    pub(crate) fn config<C: Settings + Default>(&self, timeout_keys: &[&str]) -> Result<C, Error> {
        let set = |config: &mut C, key: &str, value: &str| match config.assign(key, value) {
            Some(outcome) => outcome,
            None if profiles::is_key(key) => Err(Error::Configuration {
                key: key.to_owned(),
                value: value.to_owned(),
                reason: "this command does not use this setting".to_owned(),
            }),
            None => config.set(key, value),
        };
        self.config_with(C::default(), timeout_keys, set)
    }

    /// The same over the command's own defaults, for one of several clients that settings may be meant
    /// for.
    pub(crate) fn config_beside<C: Settings>(
        &self,
        defaults: C,
        timeout_keys: &[&str],
    ) -> Result<C, Error> {
        self.config_with(defaults, timeout_keys, |config: &mut C, key, value| {
            profiles::check_setting(key, value).map_err(Error::Invalid)?;
            config.assign(key, value).unwrap_or(Ok(()))
        })
    }

    /// The same, where `set` does what `-X` says.
    fn config_with<C: Settings>(
        &self,
        mut config: C,
        timeout_keys: &[&str],
        set: impl Fn(&mut C, &str, &str) -> Result<(), Error>,
    ) -> Result<C, Error> {
        config.set("bootstrap.servers", DEFAULT_BROKERS)?;
        let timeout = self.timeout.to_string();
        for key in timeout_keys {
            config.set(key, &timeout)?;
        }
        let target = self.target();
        for (key, value) in target.profile_settings()? {
            // A producer's setting means nothing to a consumer; nobody's is a mistake.
            profiles::check_setting(&key, &value).map_err(Error::Invalid)?;
            config.assign(&key, &value).transpose()?;
        }
        if let Some(brokers) = &target.brokers {
            config
                .set("bootstrap.servers", brokers)
                .map_err(as_brokers)?;
        }
        for pair in &self.settings {
            let (key, value) = pair
                .split_once('=')
                .ok_or_else(|| Error::Invalid(format!("`-X {pair}`: write it as KEY=VALUE")))?;
            profiles::refuse_security(key.trim(), value).map_err(Error::Invalid)?;
            set(&mut config, key.trim(), value)?;
        }
        Ok(config)
    }

    fn target(&self) -> Target {
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        Target::choose(
            (self.brokers.clone(), self.profile.clone()),
            (variable("RIVERRUN_BROKERS"), variable("RIVERRUN_PROFILE")),
        )
    }

    /// How long to try.
    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_millis(u64::try_from(self.timeout).unwrap_or(0))
    }

    /// A client for operators.
    pub(crate) fn admin(&self) -> Result<Admin, Error> {
        Admin::new(self.config::<AdminConfig>(ADMIN_TIMEOUTS)?)
    }

    /// A client for operators beside a producer or a consumer, for which settings may be meant.
    pub(crate) fn admin_beside(&self) -> Result<Admin, Error> {
        let assign = |config: &mut AdminConfig, key: &str, value: &str| {
            config.assign(key, value).unwrap_or(Ok(()))
        };
        Admin::new(self.config_with(AdminConfig::default(), ADMIN_TIMEOUTS, assign)?)
    }
}

/// Which brokers and which profile are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Target {
    brokers: Option<String>,
    profile: Option<String>,
}

impl Target {
    /// From the options and the environment, brokers before the profile in each. Brokers of the
    /// environment do not go before a profile that the command line names.
    fn choose(
        (brokers, profile): (Option<String>, Option<String>),
        environment: (Option<String>, Option<String>),
    ) -> Self {
        let from_environment = environment.0.filter(|_| profile.is_none());
        Self {
            brokers: brokers.or(from_environment),
            profile: profile.or(environment.1),
        }
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
    if let Some(text) = absence(error) {
        return text;
    }
    let text = error.to_string();
    // What is wrong with a setting names it as it was typed.
    if matches!(error, Error::Configuration { .. } | Error::Invalid(_)) {
        return text;
    }
    let text = text.replace("`bootstrap.servers`", "`--brokers`");
    let text = ADMIN_TIMEOUTS.iter().fold(text, |text, setting| {
        let bound = format!("(`{setting}`)");
        text.replace(&bound, &format!("(`--timeout` or `{setting}`)"))
    });
    text + hint(error)
}

/// The error of a setting, by the option that it was given with.
fn as_brokers(error: Error) -> Error {
    match error {
        Error::Configuration { value, reason, .. } => Error::Configuration {
            key: "--brokers".to_owned(),
            value,
            reason,
        },
        other => other,
    }
}

/// What somebody may have overlooked, where an error of the protocol alone would not say it.
fn hint(error: &Error) -> &'static str {
    const CONTROLLER: &str =
        "; is this the listener of a controller? Name that of a broker in `--brokers`";
    match error {
        Error::Unsupported {
            api: "Metadata", ..
        } => CONTROLLER,
        Error::Refused {
            code: ErrorCode::MismatchedEndpointType,
            ..
        } => CONTROLLER,
        _ => "",
    }
}

/// What there is not, where that is all that is wrong.
fn absence(error: &Error) -> Option<String> {
    let Error::Refused {
        subject,
        code,
        message,
    } = error
    else {
        return None;
    };
    match code {
        ErrorCode::UnknownTopicOrPartition => match message {
            // Who has advice has the reason as well.
            Some(advice) if advice.contains("riverrun") => Some(format!("{subject}: {advice}")),
            _ => Some(format!("{subject} does not exist")),
        },
        ErrorCode::GroupIdNotFound | ErrorCode::TransactionalIdNotFound => {
            Some(format!("{subject} does not exist"))
        }
        ErrorCode::NoReassignmentInProgress => {
            Some(format!("no reassignment in progress for {subject}"))
        }
        _ => None,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_name_options_and_what_may_be_overlooked_or_does_not_exist() {
        let address = || "a:1".to_owned();
        let timed_out = Error::TimedOut {
            operation: "ApiVersions".to_owned(),
            address: address(),
            waited_ms: 5,
            setting: "request.timeout.ms",
        };
        let of_controller = Error::Unsupported {
            address: address(),
            api: "Metadata",
            detail: ": it does not serve this API".to_owned(),
        };
        let absent = |subject: &str, code| Error::Refused {
            subject: subject.to_owned(),
            code,
            message: None,
        };
        for (error, expected) in [
            (
                Error::Invalid("`bootstrap.servers`: `a` is not `host:port`".to_owned()),
                "`bootstrap.servers`: `a` is not `host:port`",
            ),
            (
                absent("topic `none`", ErrorCode::UnknownTopicOrPartition),
                "topic `none` does not exist",
            ),
            (
                absent("group `none`", ErrorCode::GroupIdNotFound),
                "group `none` does not exist",
            ),
            (
                absent(
                    "transactional id `none`",
                    ErrorCode::TransactionalIdNotFound,
                ),
                "transactional id `none` does not exist",
            ),
            (
                timed_out,
                "ApiVersions: no answer from a:1 within 5 ms (`--timeout` or `request.timeout.ms`)",
            ),
            (
                of_controller,
                "a:1 does not support Metadata: it does not serve this API; is this the listener of \
                 a controller? Name that of a broker in `--brokers`",
            ),
        ] {
            assert_eq!(in_words(&error), expected);
        }
    }

    #[test]
    fn an_option_goes_before_the_environment() {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        for (options, environment, expected) in [
            (("", ""), ("", ""), ("", "")),
            (("a", ""), ("b", ""), ("a", "")),
            (("", ""), ("b", ""), ("b", "")),
            (("", "p"), ("b", ""), ("", "p")),
            (("a", "p"), ("b", "q"), ("a", "p")),
            (("", ""), ("b", "q"), ("b", "q")),
            (("a", ""), ("", "q"), ("a", "q")),
        ] {
            let [options, environment] =
                [options, environment].map(|(brokers, profile)| (text(brokers), text(profile)));
            let target = Target::choose(options, environment);
            assert_eq!(
                (target.brokers, target.profile),
                (text(expected.0), text(expected.1))
            );
        }
    }
}
