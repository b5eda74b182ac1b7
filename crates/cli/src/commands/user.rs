//! `riverrun user`: the SCRAM credentials that users log in with.

use crate::connect::{ConnectionArguments, Failure, Stdout, run, succeeded};
use crate::output::Row;
use clap::{Args, Subcommand, ValueEnum};
use riverrun_client::Error;
use riverrun_client::admin::{Admin, ScramChange, ScramMechanism};
use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::process::ExitCode;

/// The arguments of `user`.
#[derive(Debug, Args)]
pub(crate) struct UserArguments {
    #[command(subcommand)]
    command: UserCommand,
    #[command(flatten)]
    connection: ConnectionArguments,
}

/// How a password is hashed.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Mechanism {
    #[value(name = "SCRAM-SHA-256", alias = "scram-sha-256")]
    Sha256,
    #[value(name = "SCRAM-SHA-512", alias = "scram-sha-512")]
    Sha512,
}

impl Mechanism {
    const fn scram(self) -> ScramMechanism {
        match self {
            Self::Sha256 => ScramMechanism::Sha256,
            Self::Sha512 => ScramMechanism::Sha512,
        }
    }
}

#[derive(Debug, Subcommand)]
enum UserCommand {
    /// List users with their mechanisms
    #[command(visible_aliases = ["ls", "describe"])]
    List {
        /// Only these
        #[arg(value_name = "USER")]
        users: Vec<String>,
    },
    /// Create a user or change its password, read from the first line of standard input
    Set {
        /// The user
        user: String,
        /// The password; other users may see the command line
        #[arg(long, env = "RIVERRUN_PASSWORD", hide_env_values = true, value_parser = not_empty)]
        password: Option<String>,
        /// How the password is hashed
        #[arg(long, value_enum, default_value = "SCRAM-SHA-512")]
        mechanism: Mechanism,
        /// Iterations of the hash
        #[arg(long, default_value_t = 8192, value_parser = clap::value_parser!(i32).range(4096..=16384))]
        iterations: i32,
    },
    /// Delete a user's credentials
    #[command(visible_alias = "rm")]
    Delete {
        /// The user
        user: String,
        /// The mechanism
        #[arg(long, value_enum, default_value = "SCRAM-SHA-512")]
        mechanism: Mechanism,
    },
}

/// Runs the command.
pub(crate) fn main(arguments: &UserArguments) -> ExitCode {
    let connection = &arguments.connection;
    let command = async |output| match &arguments.command {
        UserCommand::List { users } => list(&connection.admin()?, users, output).await,
        UserCommand::Set {
            user,
            password,
            mechanism,
            iterations,
        } => {
            let password = match password {
                Some(password) => password.clone(),
                None => typed_password()?,
            };
            let change = ScramChange::Set {
                password,
                iterations: *iterations,
            };
            alter(&connection.admin()?, user, *mechanism, change).await
        }
        UserCommand::Delete { user, mechanism } => {
            alter(&connection.admin()?, user, *mechanism, ScramChange::Delete).await
        }
    };
    run(command, connection.output)
}

fn not_empty(password: &str) -> Result<String, String> {
    match password {
        "" => Err("a password must not be empty".to_owned()),
        password => Ok(password.to_owned()),
    }
}

/// The first line of the standard input.
fn typed_password() -> Result<String, Failure> {
    if io::stdin().is_terminal() {
        crate::tell("type the password and end it with Enter (it is shown):");
    }
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    let password = line.trim_end_matches(['\n', '\r']);
    if password.is_empty() {
        let reason = "no password: write it as the first line of standard input, or set \
                      RIVERRUN_PASSWORD";
        return Err(Error::Invalid(reason.to_owned()).into());
    }
    Ok(password.to_owned())
}

async fn list(admin: &Admin, users: &[String], mut output: Stdout) -> Result<(), Failure> {
    let names: Vec<&str> = users.iter().map(String::as_str).collect();
    let wanted = (!names.is_empty()).then_some(&names[..]);
    let (described, outcome) = succeeded(admin.describe_scram_credentials(wanted).await?);
    let mut rows = Vec::new();
    for (user, mechanisms) in described {
        for (mechanism, iterations) in mechanisms {
            let row = Row::new()
                .with("user", user.as_str())
                .with("mechanism", mechanism.name())
                .with("iterations", iterations);
            rows.push(row);
        }
    }
    match outcome {
        Ok(()) => output.list(&rows, "credentials")?,
        Err(_) => output.table(&rows)?,
    }
    output.flush()?;
    outcome
}

async fn alter(
    admin: &Admin,
    user: &str,
    mechanism: Mechanism,
    change: ScramChange,
) -> Result<(), Failure> {
    let done = match change {
        ScramChange::Set { .. } => "set",
        ScramChange::Delete => "deleted",
    };
    let changes = BTreeMap::from([((user.to_owned(), mechanism.scram()), change)]);
    succeeded(admin.alter_scram_credentials(&changes).await?).1?;
    crate::tell(&format!("{done}: {} of `{user}`", mechanism.scram().name()));
    Ok(())
}
