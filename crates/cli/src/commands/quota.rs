//! `riverrun quota`: shows and changes what users, client ids and addresses may use.

use crate::connect::{ConnectionArguments, Failure, Stdout, pair, run, succeeded};
use crate::output::{Cell, Row};
use clap::{Args, Subcommand};
use riverrun_client::Error;
use riverrun_client::admin::{Admin, QuotaEntity, QuotaFilter, QuotaMatch};
use std::collections::BTreeMap;
use std::process::ExitCode;

/// The arguments of `quota`.
#[derive(Debug, Args)]
pub(crate) struct QuotaArguments {
    #[command(subcommand)]
    command: QuotaCommand,
    #[command(flatten)]
    connection: ConnectionArguments,
}

/// Whom a quota is for.
#[derive(Debug, Clone, Args)]
struct Whom {
    /// This user
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// This client id
    #[arg(long, value_name = "NAME")]
    client_id: Option<String>,
    /// This address
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["user", "client_id"])]
    ip: Option<String>,
    /// The default quota of a type: user, client-id or ip
    #[arg(long, value_name = "TYPE", value_parser = ["user", "client-id", "ip"])]
    default: Vec<String>,
}

impl Whom {
    fn named(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let names = [
            ("user", &self.user),
            ("client-id", &self.client_id),
            ("ip", &self.ip),
        ];
        names
            .into_iter()
            .filter_map(|(kind, name)| Some((kind, name.as_ref()?)))
    }

    /// Each type that is given, with its name; none is the default.
    fn parts(&self) -> Result<QuotaEntity, Error> {
        let named = self.named();
        let named = named.map(|(kind, name)| (kind.to_owned(), Some(name.clone())));
        let mut parts: QuotaEntity = named.collect();
        for kind in &self.default {
            if let Some(Some(_)) = parts.insert(kind.clone(), None) {
                let reason = format!("`--{kind}` and `--default {kind}` exclude each other");
                return Err(Error::Invalid(reason));
            }
        }
        if parts.contains_key("ip") && parts.len() > 1 {
            let reason = "a quota is for an address, or for users and client ids, never for both";
            return Err(Error::Invalid(reason.to_owned()));
        }
        Ok(parts)
    }

    fn filter(&self) -> Result<QuotaFilter, Error> {
        let parts = self.parts()?.into_iter();
        let parts = parts.map(|(kind, name)| match name {
            Some(name) => (kind, QuotaMatch::Name(name)),
            None => (kind, QuotaMatch::Default),
        });
        Ok(QuotaFilter {
            parts: parts.collect(),
            is_strict: false,
        })
    }

    fn entity(&self) -> Result<QuotaEntity, Error> {
        let entity = self.parts()?;
        if entity.is_empty() {
            let reason = "say whom it is for: `--user`, `--client-id`, `--ip` or `--default`";
            return Err(Error::Invalid(reason.to_owned()));
        }
        Ok(entity)
    }
}

#[derive(Debug, Subcommand)]
enum QuotaCommand {
    /// List quotas, of all entities or of one
    #[command(visible_aliases = ["ls", "describe"])]
    List {
        #[command(flatten)]
        whom: Whom,
    },
    /// Set quotas: producer_byte_rate and consumer_byte_rate in bytes a second, request_percentage,
    /// controller_mutation_rate, connection_creation_rate for addresses
    Set {
        #[command(flatten)]
        whom: Whom,
        /// The quotas
        #[arg(required = true, value_name = "KEY=NUMBER", value_parser = limit)]
        limits: Vec<(String, f64)>,
        /// Validate only
        #[arg(long)]
        dry_run: bool,
    },
    /// Remove quotas
    Unset {
        #[command(flatten)]
        whom: Whom,
        /// Their keys
        #[arg(required = true, value_name = "KEY")]
        keys: Vec<String>,
    },
}

fn limit(text: &str) -> Result<(String, f64), String> {
    let (key, number) = pair(text)?;
    let value = number.trim().parse::<f64>();
    let value = value.map_err(|_| format!("`{number}` is not a valid number"))?;
    Ok((key, value))
}

/// Runs the command.
pub(crate) fn main(arguments: &QuotaArguments) -> ExitCode {
    let connection = &arguments.connection;
    let command = async |output| {
        let admin = connection.admin()?;
        match &arguments.command {
            QuotaCommand::List { whom } => list(&admin, &whom.filter()?, output).await,
            QuotaCommand::Set {
                whom,
                limits,
                dry_run,
            } => {
                let limits = limits.iter().cloned();
                let limits = limits.map(|(key, value)| (key, Some(value))).collect();
                alter(&admin, whom.entity()?, limits, *dry_run).await
            }
            QuotaCommand::Unset { whom, keys } => {
                let entity = whom.entity()?;
                refuse_unset(&admin, whom, &entity, keys).await?;
                let keys = keys.iter().map(|key| (key.clone(), None)).collect();
                alter(&admin, entity, keys, false).await
            }
        }
    };
    run(command, connection.output)
}

async fn list(admin: &Admin, filter: &QuotaFilter, mut output: Stdout) -> Result<(), Failure> {
    let described = admin.describe_client_quotas(filter).await?;
    let mut rows = Vec::new();
    for (entity, quotas) in described {
        let name = |kind: &str| {
            let name = entity.get(kind)?;
            Some(name.clone().unwrap_or_else(|| "<default>".to_owned()))
        };
        for (key, value) in quotas {
            let row = Row::new()
                .with("user", name("user"))
                .with("clientId", name("client-id"))
                .with("ip", name("ip"))
                .with("key", key)
                .with("value", Cell::Decimal(value));
            rows.push(row);
        }
    }
    output.list(&rows, "quotas")?;
    Ok(output.flush()?)
}

/// Fails for quotas that are not set: nothing would be removed.
async fn refuse_unset(
    admin: &Admin,
    whom: &Whom,
    entity: &QuotaEntity,
    keys: &[String],
) -> Result<(), Failure> {
    let filter = QuotaFilter {
        is_strict: true,
        ..whom.filter()?
    };
    let described = admin.describe_client_quotas(&filter).await?;
    let set = described.get(entity);
    let is_set = |key: &&String| set.is_some_and(|set| set.contains_key(*key));
    match keys.iter().find(|key| !is_set(key)) {
        Some(key) => Err(Error::Invalid(format!("quota `{key}` is not set")).into()),
        None => Ok(()),
    }
}

async fn alter(
    admin: &Admin,
    entity: QuotaEntity,
    limits: BTreeMap<String, Option<f64>>,
    dry_run: bool,
) -> Result<(), Failure> {
    let done = match dry_run {
        true => "could be changed",
        false => "changed",
    };
    let keys: Vec<_> = limits.keys().cloned().collect();
    let changes = BTreeMap::from([(entity, limits)]);
    succeeded(admin.alter_client_quotas(&changes, dry_run).await).1?;
    crate::tell(&format!("{done}: {}", keys.join(", ")));
    Ok(())
}
