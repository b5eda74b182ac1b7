//! The file of profiles: names of clusters, and the client settings that reach each.
//!
//! ```text
//!   profile=production           the one in use where no other is named
//!   [production]
//!   bootstrap.servers=one.example:9092,two.example:9092
//!   client.id=me
//! ```

use riverrun_client::Error;
use riverrun_client::admin::AdminConfig;
use riverrun_client::config::Settings;
use riverrun_client::consumer::ConsumerConfig;
use riverrun_client::producer::ProducerConfig;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// The variable that names another file.
const FILE_VARIABLE: &str = "RIVERRUN_PROFILES";

/// The profiles of a file. Changes leave the other lines as they are, comments too.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Profiles {
    /// The one in use.
    pub(crate) current: Option<String>,
    /// The settings of each.
    pub(crate) named: BTreeMap<String, BTreeMap<String, String>>,
    lines: Vec<String>,
}

/// What a line of the file is.
enum Line<'a> {
    /// Empty, or a comment.
    Nothing,
    /// The head of a profile.
    Head(&'a str),
    Pair(&'a str, &'a str),
}

impl<'a> Line<'a> {
    fn parse(line: &'a str) -> Result<Self, &'static str> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return Ok(Self::Nothing);
        }
        if let Some(name) = line.strip_prefix('[') {
            let name = name.strip_suffix(']').map(str::trim);
            return name
                .map(Self::Head)
                .ok_or("the name of a profile stands in brackets, as [NAME]");
        }
        line.split_once('=')
            .map(|(key, value)| Self::Pair(key.trim(), value.trim()))
            .ok_or("write it as KEY=VALUE or [NAME]")
    }

    fn is_pair_of(&self, name: &str) -> bool {
        matches!(self, Self::Pair(key, _) if *key == name)
    }
}

/// Checks a setting of a profile: each command takes those that it knows, but some client must.
///
/// # Errors
/// No client knows the key, or none takes the value.
pub(crate) fn check_setting(key: &str, value: &str) -> Result<(), String> {
    refuse_security(key, value)?;
    let checked = AnyClient::default().set(key, value);
    checked.map_err(|error| match error {
        // The value may be secret.
        Error::Configuration { key, reason, .. } => format!("`{key}`: {reason}"),
        error => error.to_string(),
    })
}

/// Whether some client has this setting.
pub(crate) fn is_key(key: &str) -> bool {
    AnyClient::keys().contains(&key)
}

/// Refuses what would encrypt or log in.
///
/// # Errors
/// The key stands for that, and the value is not that of a plain connection.
pub(crate) fn refuse_security(key: &str, value: &str) -> Result<(), String> {
    let is_plain = key == "security.protocol" && value.trim() == "PLAINTEXT";
    let is_secure =
        key == "security.protocol" || key.starts_with("ssl.") || key.starts_with("sasl.");
    match is_secure && !is_plain {
        true => Err(format!(
            "`{key}`: TLS and SASL are not supported yet; use `security.protocol=PLAINTEXT`"
        )),
        false => Ok(()),
    }
}

/// Takes what some client takes.
#[derive(Debug, Default)]
struct AnyClient {
    admin: AdminConfig,
    producer: ProducerConfig,
    consumer: ConsumerConfig,
}

impl Settings for AnyClient {
    fn keys() -> Vec<&'static str> {
        let keys = [
            AdminConfig::keys(),
            ProducerConfig::keys(),
            ConsumerConfig::keys(),
        ];
        keys.concat()
    }

    fn assign(&mut self, key: &str, value: &str) -> Option<Result<(), Error>> {
        let assigned = [
            self.admin.assign(key, value),
            self.producer.assign(key, value),
            self.consumer.assign(key, value),
        ];
        assigned.into_iter().flatten().reduce(Result::and)
    }

    fn text_of(&self, key: &str) -> Option<String> {
        self.admin
            .text_of(key)
            .or_else(|| self.producer.text_of(key))
            .or_else(|| self.consumer.text_of(key))
    }
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
        let mut profiles = Self {
            lines: text.lines().map(str::to_owned).collect(),
            ..Self::default()
        };
        let mut section: Option<&str> = None;
        for (at, line) in text.lines().enumerate() {
            let wrong = |reason: &str| (at + 1, reason.to_owned());
            match (Line::parse(line).map_err(wrong)?, section) {
                (Line::Nothing, _) => {}
                (Line::Head(name), _) => {
                    profiles.named.entry(name.to_owned()).or_default();
                    section = Some(name);
                }
                (Line::Pair(key, value), Some(name)) => {
                    let settings = profiles.named.entry(name.to_owned()).or_default();
                    settings.insert(key.to_owned(), value.to_owned());
                }
                (Line::Pair("profile", value), None) => {
                    profiles.current = Some(value.to_owned());
                }
                (Line::Pair(..), None) => {
                    return Err(wrong("only `profile=NAME` stands before the first [NAME]"));
                }
            }
        }
        Ok(profiles)
    }

    fn text(&self) -> String {
        self.lines.iter().map(|line| format!("{line}\n")).collect()
    }

    /// Sets a setting of a profile, which is made if there is none of the name.
    pub(crate) fn set(&mut self, name: &str, key: &str, value: &str) {
        if !self.named.contains_key(name) {
            self.lines.push(format!("[{name}]"));
        }
        let pair = format!("{key}={value}");
        let places = self.section(name);
        let known = places
            .clone()
            .rev()
            .find(|at| self.line(*at).is_pair_of(key));
        match known {
            Some(at) => self.lines[at] = pair,
            None => self.lines.insert(places.end, pair),
        }
        let settings = self.named.entry(name.to_owned()).or_default();
        settings.insert(key.to_owned(), value.to_owned());
    }

    /// Makes a profile the one in use; or none.
    pub(crate) fn choose(&mut self, name: Option<&str>) {
        let end = (0..self.lines.len()).find(|at| matches!(self.line(*at), Line::Head(_)));
        let mut places = 0..end.unwrap_or(self.lines.len());
        let known = places.rfind(|at| self.line(*at).is_pair_of("profile"));
        let line = name.map(|name| format!("profile={name}"));
        match (known, line) {
            (Some(at), Some(line)) => self.lines[at] = line,
            (Some(at), None) => drop(self.lines.remove(at)),
            (None, Some(line)) => self.lines.insert(0, line),
            (None, None) => {}
        }
        self.current = name.map(str::to_owned);
    }

    /// Removes a profile; if it is the one in use, none is.
    pub(crate) fn remove(&mut self, name: &str) {
        while self.named.remove(name).is_some() {
            let places = self.section(name);
            self.lines.drain(places);
        }
        if self.current.as_deref() == Some(name) {
            self.choose(None);
        }
    }

    /// The lines of a profile, its head first. What stands before the next head, comments and empty
    /// lines, belongs to that.
    fn section(&self, name: &str) -> Range<usize> {
        let mut heads = (0..self.lines.len()).filter_map(|at| match self.line(at) {
            Line::Head(name) => Some((at, name)),
            _ => None,
        });
        let start = heads.by_ref().find(|(_, head)| *head == name);
        let start = start.map_or(self.lines.len(), |(at, _)| at);
        let next = heads.next().map_or(self.lines.len(), |(at, _)| at);
        let last = (start..next).rfind(|at| !matches!(self.line(*at), Line::Nothing));
        start..last.map_or(start, |last| last + 1)
    }

    fn line(&self, at: usize) -> Line<'_> {
        Line::parse(&self.lines[at]).unwrap_or(Line::Nothing)
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
                    "no profile `{name}`: `riverrun profile set {name} \
                     bootstrap.servers=HOST:PORT` creates it"
                ),
                false => format!("no profile `{name}`; there are: {}", names.join(", ")),
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
    fn a_change_leaves_the_other_lines_as_they_are() {
        let text = "# mine\nprofile=a\n\n# the first\n[ a ]\n# where\nx = 1 # no comment\n\n\
                    # the second\n[b]\ny=2\n# end\n";
        let changed = |change: &dyn Fn(&mut Profiles)| {
            let mut profiles = Profiles::parse(text).unwrap();
            change(&mut profiles);
            assert_eq!(Profiles::parse(&profiles.text()), Ok(profiles.clone()));
            profiles.text()
        };
        assert_eq!(changed(&|_| {}), text);
        let set = changed(&|profiles| profiles.set("a", "x", "3"));
        assert_eq!(set, text.replace("x = 1 # no comment", "x=3"));
        let added = changed(&|profiles| profiles.set("a", "z", "3"));
        assert_eq!(added, text.replace("comment\n", "comment\nz=3\n"));
        let made = changed(&|profiles| profiles.set("c", "z", "3"));
        assert_eq!(made, format!("{text}[c]\nz=3\n"));
        let chosen = changed(&|profiles| profiles.choose(Some("b")));
        assert_eq!(chosen, text.replace("profile=a", "profile=b"));
        let removed = changed(&|profiles| profiles.remove("a"));
        let expected = "# mine\n\n# the first\n\n# the second\n[b]\ny=2\n# end\n";
        assert_eq!(removed, expected);
        let removed = changed(&|profiles| profiles.remove("b"));
        assert_eq!(removed, text.replace("[b]\ny=2\n", ""));
        let mut new = Profiles::default();
        new.set("a", "x", "1");
        new.choose(Some("a"));
        assert_eq!(new.text(), "profile=a\n[a]\nx=1\n");
    }

    #[test]
    fn what_no_client_knows_is_refused() {
        for (key, value, expected) in [
            ("bootstrap.servers", "x:1", Ok(())),
            ("linger.ms", "5", Ok(())),
            ("fetch.max.wait.ms", "5", Ok(())),
            (
                "bootstrap.server",
                "x:1",
                Err(
                    "`bootstrap.server`: there is no such setting; did you mean `bootstrap.servers`?",
                ),
            ),
            (
                "security.protocol",
                "SSL",
                Err("`security.protocol`: TLS and SASL are not supported yet; use"),
            ),
            ("linger.ms", "x", Err("`linger.ms`: must be a whole number")),
        ] {
            let checked = check_setting(key, value);
            match (checked, expected) {
                (Ok(()), Ok(())) => {}
                (Err(error), Err(part)) => assert!(error.starts_with(part), "{error}"),
                (checked, _) => panic!("{key}={value}: {checked:?}"),
            }
        }
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
        assert_eq!(other, "no profile `c`; there are: a, b");
    }
}
