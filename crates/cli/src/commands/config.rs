//! `riverrun config`: shows and changes the configuration of topics, brokers, loggers and groups.

use crate::connect::{ConnectionArguments, Failure, Stdout, pair, run, succeeded};
use crate::output::Row;
use clap::{Args, Subcommand, ValueEnum};
use riverrun_client::Error;
use riverrun_client::admin::{
    Admin, AlterOperation, ConfigEntry, ConfigResource, ConfigSource, DescribeConfigsOptions,
    ResourceKind,
};
use std::collections::BTreeMap;
use std::process::ExitCode;

/// The arguments of `config`.
#[derive(Debug, Args)]
pub(crate) struct ConfigArguments {
    #[command(subcommand)]
    command: ConfigCommand,
    #[command(flatten)]
    connection: ConnectionArguments,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Show the configuration
    #[command(visible_alias = "describe")]
    Get {
        #[command(flatten)]
        resource: ResourceArguments,
        /// Only these keys
        #[arg(value_name = "KEY")]
        keys: Vec<String>,
        /// Include keys at their defaults
        #[arg(short, long)]
        all: bool,
    },
    /// Set keys, without a restart
    Set {
        #[command(flatten)]
        resource: ResourceArguments,
        /// The keys and their values
        #[arg(required = true, value_name = "KEY=VALUE", value_parser = pair)]
        pairs: Vec<(String, String)>,
        /// Validate only
        #[arg(long)]
        dry_run: bool,
    },
    /// Reset keys to their defaults
    Unset {
        #[command(flatten)]
        resource: ResourceArguments,
        /// The keys
        #[arg(required = true, value_name = "KEY")]
        keys: Vec<String>,
        /// Validate only
        #[arg(long)]
        dry_run: bool,
    },
}

#[derive(Debug, Args)]
struct ResourceArguments {
    /// The kind of resource
    #[arg(value_enum, value_name = "KIND")]
    kind: Kind,
    /// Its name; for a broker its id, or `default` for the defaults of all brokers
    #[arg(value_name = "NAME")]
    name: String,
}

/// What has a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    Topic,
    Broker,
    /// The levels of a broker's loggers
    Logger,
    Group,
    ClientMetrics,
}

impl ResourceArguments {
    fn resource(&self) -> ConfigResource {
        let kind = match self.kind {
            Kind::Topic => ResourceKind::Topic,
            Kind::Broker => ResourceKind::Broker,
            Kind::Logger => ResourceKind::BrokerLogger,
            Kind::Group => ResourceKind::Group,
            Kind::ClientMetrics => ResourceKind::ClientMetrics,
        };
        let is_default = self.kind == Kind::Broker && self.name == "default";
        ConfigResource::new(kind, if is_default { "" } else { &self.name })
    }
}

/// Runs the command.
pub(crate) fn main(arguments: &ConfigArguments) -> ExitCode {
    let connection = &arguments.connection;
    let command = async |output| {
        let admin = connection.admin()?;
        match &arguments.command {
            ConfigCommand::Get {
                resource,
                keys,
                all,
            } => get(&admin, resource.resource(), keys, *all, output).await,
            ConfigCommand::Set {
                resource,
                pairs,
                dry_run,
            } => {
                let pairs = pairs.iter().cloned();
                let changes = pairs.map(|(key, value)| (key, AlterOperation::Set(value)));
                alter(&admin, resource.resource(), changes.collect(), *dry_run).await
            }
            ConfigCommand::Unset {
                resource,
                keys,
                dry_run,
            } => {
                let resource = resource.resource();
                refuse_unset(&admin, &resource, keys).await?;
                let keys = keys.iter().cloned();
                let changes = keys.map(|key| (key, AlterOperation::Delete)).collect();
                alter(&admin, resource, changes, *dry_run).await
            }
        }
    };
    run(command, connection.output)
}

async fn get(
    admin: &Admin,
    resource: ConfigResource,
    keys: &[String],
    all: bool,
    mut output: Stdout,
) -> Result<(), Failure> {
    let options = DescribeConfigsOptions {
        keys: (!keys.is_empty()).then(|| keys.to_vec()),
        ..DescribeConfigsOptions::default()
    };
    let answers = admin.describe_configs(&[resource], &options).await;
    let (described, outcome) = succeeded(answers);
    let is_shown =
        |entry: &ConfigEntry| all || !keys.is_empty() || entry.source != ConfigSource::Default;
    let mut outcome = outcome;
    for key in keys {
        let has_key = |(_, entries): &(ConfigResource, Vec<ConfigEntry>)| {
            entries.iter().any(|entry| entry.name == *key)
        };
        if !described.is_empty() && !described.iter().any(has_key) {
            crate::complain(&format!(
                "there is no key `{key}`: `--all` shows those there are"
            ));
            outcome = Err(Failure::Told);
        }
    }
    let rows: Vec<Row> = described
        .into_iter()
        .flat_map(|(_, entries)| entries)
        .filter(is_shown)
        .map(|entry| {
            let value = if entry.is_sensitive {
                Some("(hidden)".to_owned())
            } else {
                entry.value
            };
            Row::new()
                .with("key", entry.name)
                .with("value", value)
                .with("source", source_name(entry.source))
                .with("readOnly", entry.is_read_only)
        })
        .collect();
    match outcome {
        Ok(()) => output.list(
            &rows,
            "keys are set; `--all` shows those with their defaults",
        )?,
        Err(_) => output.table(&rows)?,
    }
    output.flush()?;
    outcome
}

/// Fails for keys that are not set: nothing would be reset. The levels of loggers are not told apart
/// from what they inherit.
async fn refuse_unset(
    admin: &Admin,
    resource: &ConfigResource,
    keys: &[String],
) -> Result<(), Failure> {
    let set = match resource.kind {
        ResourceKind::Topic => ConfigSource::Topic,
        ResourceKind::Broker if resource.name.is_empty() => ConfigSource::DynamicDefaultBroker,
        ResourceKind::Broker => ConfigSource::DynamicBroker,
        ResourceKind::Group => ConfigSource::Group,
        ResourceKind::ClientMetrics => ConfigSource::ClientMetrics,
        _ => return Ok(()),
    };
    let options = DescribeConfigsOptions::default();
    let answers = admin
        .describe_configs(std::slice::from_ref(resource), &options)
        .await;
    let (described, outcome) = succeeded(answers);
    outcome?;
    let is_set = |key: &&String| {
        let mut entries = described.iter().flat_map(|(_, entries)| entries);
        entries.any(|entry| entry.name == **key && entry.source == set)
    };
    match keys.iter().find(|key| !is_set(key)) {
        Some(key) => Err(Error::Invalid(format!("`{key}` is not set")).into()),
        None => Ok(()),
    }
}

/// The names that Apache Kafka's tools show.
const fn source_name(source: ConfigSource) -> &'static str {
    match source {
        ConfigSource::Unknown => "UNKNOWN",
        ConfigSource::Topic => "DYNAMIC_TOPIC_CONFIG",
        ConfigSource::DynamicBroker => "DYNAMIC_BROKER_CONFIG",
        ConfigSource::DynamicDefaultBroker => "DYNAMIC_DEFAULT_BROKER_CONFIG",
        ConfigSource::StaticBroker => "STATIC_BROKER_CONFIG",
        ConfigSource::Default => "DEFAULT_CONFIG",
        ConfigSource::DynamicBrokerLogger => "DYNAMIC_BROKER_LOGGER_CONFIG",
        ConfigSource::ClientMetrics => "DYNAMIC_CLIENT_METRICS_CONFIG",
        ConfigSource::Group => "DYNAMIC_GROUP_CONFIG",
    }
}

async fn alter(
    admin: &Admin,
    resource: ConfigResource,
    changes: BTreeMap<String, AlterOperation>,
    dry_run: bool,
) -> Result<(), Failure> {
    if resource.kind == ResourceKind::Broker {
        tell_unknown(&changes);
    }
    let done = match dry_run {
        true => "could be changed",
        false => "changed",
    };
    let keys: Vec<_> = changes.keys().cloned().collect();
    let changes = BTreeMap::from([(resource, changes)]);
    let answers = if dry_run {
        admin.validate_configs(&changes).await
    } else {
        admin.alter_configs(&changes).await
    };
    succeeded(answers).1?;
    crate::tell(&format!("{done}: {}", keys.join(", ")));
    Ok(())
}

/// A broker takes any key, for plugins that may read it: a slip of the pen is told here.
fn tell_unknown(changes: &BTreeMap<String, AlterOperation>) {
    for key in changes.keys() {
        if let Some(unknown) = config::sources::unknown_key(key) {
            crate::tell(&format!("warning: {unknown}"));
        }
    }
}
