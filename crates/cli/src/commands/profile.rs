//! `riverrun profile`: names for clusters, kept in a file of the user.

use crate::connect::{Failure, Stdout, pair, run};
use crate::output::{OutputFormat, Row};
use crate::profiles::{self, Profiles};
use clap::{Args, Subcommand};
use riverrun_client::Error;
use std::path::PathBuf;
use std::process::ExitCode;

/// The arguments of `profile`.
#[derive(Debug, Args)]
pub(crate) struct ProfileArguments {
    #[command(subcommand)]
    command: ProfileCommand,
    /// Output format
    #[arg(
        long,
        global = true,
        value_enum,
        default_value = "text",
        value_name = "FORMAT"
    )]
    output: OutputFormat,
}

#[derive(Debug, Subcommand)]
enum ProfileCommand {
    /// List profiles
    #[command(visible_alias = "ls")]
    List,
    /// Show the settings of a profile
    Show {
        /// The profile
        name: String,
    },
    /// Change the settings of a profile, such as bootstrap.servers=HOST:PORT; creates it if it does
    /// not exist
    Set {
        /// The profile
        name: String,
        /// Client settings by Kafka's names; each command uses those that it knows
        #[arg(required = true, value_name = "KEY=VALUE", value_parser = pair)]
        settings: Vec<(String, String)>,
    },
    /// Make a profile the default
    Use {
        /// The profile
        name: String,
    },
    /// Delete a profile
    #[command(visible_alias = "rm")]
    Delete {
        /// The profile
        name: String,
    },
}

/// Runs the command.
pub(crate) fn main(arguments: &ProfileArguments) -> ExitCode {
    let command = async |output| profile(&arguments.command, output);
    run(command, arguments.output)
}

fn profile(command: &ProfileCommand, output: Stdout) -> Result<(), Failure> {
    let path = file()?;
    let mut profiles = Profiles::read(&path).map_err(invalid)?;
    match command {
        ProfileCommand::List => return list(&profiles, output),
        ProfileCommand::Show { name } => return show(&profiles, name, output),
        ProfileCommand::Set { name, settings } => {
            let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
            if name.is_empty() || !name.chars().all(is_name) {
                let reason =
                    format!("`{name}`: a profile's name has letters, digits, `.`, `_`, `-`");
                return Err(invalid(reason));
            }
            for (key, value) in settings {
                profiles::check_setting(key, value).map_err(invalid)?;
            }
            for (key, value) in settings {
                profiles.set(name, key, value);
            }
        }
        ProfileCommand::Use { name } => {
            profiles.settings(name).map_err(invalid)?;
            profiles.choose(Some(name));
        }
        ProfileCommand::Delete { name } => {
            profiles.settings(name).map_err(invalid)?;
            profiles.remove(name);
        }
    }
    profiles.write(&path).map_err(invalid)?;
    let done = match command {
        ProfileCommand::Use { name } => format!("in use: {name}"),
        ProfileCommand::Delete { name } => format!("deleted: {name}"),
        ProfileCommand::Set { name, .. } => format!("saved: {name}"),
        ProfileCommand::List | ProfileCommand::Show { .. } => return Ok(()),
    };
    crate::tell(&done);
    Ok(())
}

fn file() -> Result<PathBuf, Failure> {
    profiles::path().ok_or_else(|| {
        invalid("there is no home directory: name a file with `RIVERRUN_PROFILES`".to_owned())
    })
}

fn invalid(reason: String) -> Failure {
    Failure::Client(Error::Invalid(reason))
}

fn list(profiles: &Profiles, mut output: Stdout) -> Result<(), Failure> {
    let row = |name: &String| {
        let servers = profiles.named[name].get("bootstrap.servers");
        Row::new()
            .with("profile", name.as_str())
            .with("brokers", servers.cloned())
            .with("inUse", profiles.current.as_ref() == Some(name))
    };
    let rows: Vec<Row> = profiles.named.keys().map(row).collect();
    output.list(&rows, "profiles")?;
    Ok(output.flush()?)
}

fn show(profiles: &Profiles, name: &str, mut output: Stdout) -> Result<(), Failure> {
    let settings = profiles.settings(name).map_err(invalid)?;
    let rows: Vec<Row> = settings
        .iter()
        .map(|(key, value)| {
            let is_secret = key.contains("password") || key.contains("jaas");
            let value = if is_secret { "[hidden]" } else { value };
            Row::new().with("key", key.as_str()).with("value", value)
        })
        .collect();
    output.table(&rows)?;
    Ok(output.flush()?)
}
