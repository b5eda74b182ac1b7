//! The file of profiles: names of clusters, and the client settings that reach each.
//!
//! ```text
//!   profile=production           the one in use where no other is named
//!   [production]
//!   bootstrap.servers=one.example:9092,two.example:9092
//!   client.id=me
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The variable that names another file.
const FILE_VARIABLE: &str = "RIVERRUN_PROFILES";

/// The profiles of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Profiles {
    /// The one in use.
    pub(crate) current: Option<String>,
    /// The settings of each.
    pub(crate) named: BTreeMap<String, BTreeMap<String, String>>,
}

/// Where the profiles are kept; `None` where there is no home to keep them in.
pub(crate) fn path() -> Option<PathBuf> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    if let Some(file) = set(FILE_VARIABLE) {
        return Some(file.into());
    }
    let config = set("XDG_CONFIG_HOME").map(PathBuf::from);
    let config = config.or_else(|| Some(PathBuf::from(set("HOME")?).join(".config")))?;
    Some(config.join("riverrun").join("profiles"))
}

impl Profiles {
    /// Reads the file; one that is not there has no profiles.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        match fs::read_to_string(path) {
            Ok(text) => Self::parse(&text)
                .map_err(|(line, reason)| format!("`{}`, line {line}: {reason}", path.display())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(format!("cannot read `{}`: {error}", path.display())),
        }
    }

    /// Replaces the file, which only its owner may read: settings may be secret.
    ///
    /// # Errors
    /// Why it cannot be written.
    pub(crate) fn write(&self, path: &Path) -> Result<(), String> {
        let failed = |error: io::Error| format!("cannot write `{}`: {error}", path.display());
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).map_err(failed)?;
        }
        let beside = path.with_extension("tmp");
        write_private(&beside, &self.text()).map_err(failed)?;
        fs::rename(&beside, path).map_err(failed)
    }

    fn parse(text: &str) -> Result<Self, (usize, String)> {
        let mut profiles = Self::default();
        let mut section: Option<&str> = None;
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            let wrong = |reason: &str| (at + 1, reason.to_owned());
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(name) = line.strip_prefix('[') {
                let name = name
                    .strip_suffix(']')
                    .ok_or_else(|| wrong("the name of a profile stands in brackets, as [NAME]"))?;
                profiles.named.entry(name.trim().to_owned()).or_default();
                section = Some(name.trim());
                continue;
            }
            let (key, value) = line
                .split_once('=')
                .ok_or_else(|| wrong("write it as KEY=VALUE or [NAME]"))?;
            let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
            match section {
                Some(name) => {
                    let settings = profiles.named.entry(name.to_owned()).or_default();
                    settings.insert(key, value);
                }
                None if key == "profile" => profiles.current = Some(value),
                None => return Err(wrong("only `profile=NAME` stands before the first [NAME]")),
            }
        }
        Ok(profiles)
    }

    fn text(&self) -> String {
        let mut text = String::new();
        if let Some(current) = &self.current {
            text.push_str(&format!("profile={current}\n"));
        }
        for (name, settings) in &self.named {
            text.push_str(&format!("[{name}]\n"));
            for (key, value) in settings {
                text.push_str(&format!("{key}={value}\n"));
            }
        }
        text
    }

    /// The settings of a profile.
    ///
    /// # Errors
    /// There is no such profile.
    pub(crate) fn settings(&self, name: &str) -> Result<&BTreeMap<String, String>, String> {
        self.named.get(name).ok_or_else(|| {
            let names: Vec<&str> = self.named.keys().map(String::as_str).collect();
            match names.is_empty() {
                true => format!(
                    "there is no profile `{name}`: `riverrun profile set {name} \
                     bootstrap.servers=HOST:PORT` makes one"
                ),
                false => format!("there is no profile `{name}`, but {}", names.join(", ")),
            }
        })
    }
}

fn write_private(path: &Path, text: &str) -> io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = fs::OpenOptions::new();
    let options = options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path)?.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let text = "profile=b\n[a]\n[b]\nbootstrap.servers=x:1,y:2\nclient.id=a=b\n";
        let profiles = Profiles::parse(text).unwrap();
        assert_eq!(profiles.text(), text);
        assert_eq!(profiles.settings("b").unwrap()["client.id"], "a=b");
        let spaced = Profiles::parse("# note\n profile = b \n\n[ a ]\n[b]\nclient.id = a=b\n");
        assert_eq!(spaced.unwrap().settings("b").unwrap()["client.id"], "a=b");
    }

    #[test]
    fn a_mistake_names_the_line() {
        let wrong = |text| Profiles::parse(text).unwrap_err();
        assert_eq!(wrong("[a\n").0, 1);
        assert_eq!(wrong("\n[a]\nx\n").0, 3);
        assert!(wrong("x=1\n").1.contains("only `profile=NAME`"));
        let none = Profiles::default().settings("a").unwrap_err();
        assert!(none.contains("riverrun profile set a"), "{none}");
        let profiles = Profiles::parse("[a]\n[b]\n").unwrap();
        let other = profiles.settings("c").unwrap_err();
        assert_eq!(other, "there is no profile `c`, but a, b");
    }
}
