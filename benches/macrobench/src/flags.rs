//! Options of the form `--name value`, each taken once; what is left over is an error.

use std::collections::BTreeMap;
use std::str::FromStr;

use anyhow::{Context as _, Result, anyhow, bail};

/// Options that stand alone.
const SWITCHES: [&str; 1] = ["delete"];

/// The options of a command line.
#[derive(Debug)]
pub(crate) struct Flags(BTreeMap<String, String>);

impl Flags {
    /// Reads `--name value` pairs.
    pub(crate) fn parse(arguments: &[String]) -> Result<Self> {
        let mut flags = BTreeMap::new();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let Some(name) = argument.strip_prefix("--") else {
                bail!("`{argument}` is not an option");
            };
            let value = if SWITCHES.contains(&name) {
                String::new()
            } else {
                let value = arguments.next();
                value
                    .with_context(|| format!("--{name} needs a value"))?
                    .clone()
            };
            if flags.insert(name.to_owned(), value).is_some() {
                bail!("--{name} is given twice");
            }
        }
        Ok(Self(flags))
    }

    /// Takes an option that need not be there.
    pub(crate) fn optional<T: FromStr>(&mut self, name: &str) -> Result<Option<T>> {
        let Some(text) = self.0.remove(name) else {
            return Ok(None);
        };
        let value = text.parse();
        value
            .map(Some)
            .map_err(|_| anyhow!("--{name} cannot be `{text}`"))
    }

    /// Takes an option, or its default.
    pub(crate) fn or<T: FromStr>(&mut self, name: &str, default: T) -> Result<T> {
        Ok(self.optional(name)?.unwrap_or(default))
    }

    /// Takes an option that must be there.
    pub(crate) fn required<T: FromStr>(&mut self, name: &str) -> Result<T> {
        self.optional(name)?
            .with_context(|| format!("--{name} is missing"))
    }

    /// Takes an option without a value.
    pub(crate) fn switch(&mut self, name: &str) -> bool {
        self.0.remove(name).is_some()
    }

    /// Fails if an option was not taken.
    pub(crate) fn finish(self) -> Result<()> {
        match self.0.keys().next() {
            Some(name) => bail!("unknown option --{name}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(text: &str) -> Result<Flags> {
        let arguments: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        Flags::parse(&arguments)
    }

    #[test]
    fn each_option_is_taken_once() {
        let mut flags = flags("--topic t --delete --seconds 2.5").unwrap();
        assert_eq!(flags.required::<String>("topic").unwrap(), "t");
        assert!(flags.switch("delete"));
        assert_eq!(flags.or("partitions", 4).unwrap(), 4);
        assert_eq!(flags.or("seconds", 1.0).unwrap(), 2.5);
        flags.finish().unwrap();
    }

    #[test]
    fn what_nobody_takes_is_an_error() {
        assert!(flags("--colour red").unwrap().finish().is_err());
        assert!(flags("topic").is_err());
        assert!(flags("--topic").is_err());
        assert!(flags("--core 1 --core 2").is_err());
        let mut flags = flags("--core many").unwrap();
        assert!(flags.optional::<usize>("core").is_err());
    }
}
