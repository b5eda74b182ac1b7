//! Settings from a properties file, such as Java's clients read: `key = value` lines.
//!
//! One file may serve several clients, of this library and of others. So there are two ways to read
//! it: strictly, where an unknown key is an error, and leniently, where the keys that this client
//! does not have are listed. A value that is not allowed is an error in both.

use super::{Settings, not_allowed};
use crate::Error;
use std::fmt;
use std::path::Path;

/// Keys and values of a properties file. Of two lines with one key the later one counts.
///
/// ```
/// use riverrun_client::config::Properties;
/// use riverrun_client::consumer::ConsumerConfig;
///
/// let properties = Properties::parse(
///     "bootstrap.servers = localhost:9092\n\
///      group.id = billing\n\
///      key.deserializer = org.apache.kafka.common.serialization.StringDeserializer\n",
/// )?;
/// let (config, ignored) = ConsumerConfig::from_properties_lenient(&properties)?;
/// assert_eq!(config.group_id.as_deref(), Some("billing"));
/// assert_eq!(ignored, ["key.deserializer"]);
/// assert!(ConsumerConfig::from_properties(&properties).is_err());
/// # Ok::<(), riverrun_client::Error>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Properties {
    /// In the order of the file.
    pairs: Vec<(String, String)>,
}

/// Only the keys: values may be secrets.
impl fmt::Debug for Properties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self.pairs.iter().map(|(key, _)| key);
        f.debug_list().entries(keys).finish()
    }
}

impl Properties {
    /// Reads the file at `path`, which is UTF-8.
    ///
    /// # Errors
    /// [`Error::Configuration`] when it cannot be read or is not in the format of properties.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, Error> {
        let source = path.as_ref().display().to_string();
        let text = std::fs::read_to_string(&path)
            .map_err(|error| not_allowed("properties", &source, error.to_string()))?;
        Self::of(&text, &source)
    }

    /// Reads the text of such a file.
    ///
    /// # Errors
    /// [`Error::Configuration`] when it is not in the format of properties.
    pub fn parse(text: &str) -> Result<Self, Error> {
        Self::of(text, "the text")
    }

    fn of(text: &str, source: &str) -> Result<Self, Error> {
        let parsed = config::properties::parse(text)
            .map_err(|error| not_allowed("properties", source, error.to_string()))?;
        let pairs = parsed.into_iter().map(|one| (one.key, one.value));
        Ok(Self {
            pairs: pairs.collect(),
        })
    }

    /// Keys and values, in the order of the file.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// The value of `key`, if it has one.
    pub fn value_of(&self, key: &str) -> Option<&str> {
        let found = self.pairs.iter().rev().find(|(name, _)| name == key);
        found.map(|(_, value)| value.as_str())
    }

    /// Sets what `config` has, and returns the other keys, each once, in the order of the file.
    pub(crate) fn apply(&self, config: &mut impl Settings) -> Result<Vec<String>, Error> {
        let mut ignored = Vec::new();
        for (key, value) in &self.pairs {
            match config.assign(key, value) {
                Some(assigned) => assigned?,
                None if ignored.contains(key) => {}
                None => ignored.push(key.clone()),
            }
        }
        Ok(ignored)
    }

    /// As [`apply`](Self::apply), but a key that `config` does not have is an error.
    pub(crate) fn apply_strictly(&self, config: &mut impl Settings) -> Result<(), Error> {
        for (key, value) in &self.pairs {
            config.set(key, value)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::AdminConfig;
    use crate::consumer::ConsumerConfig;
    use crate::producer::ProducerConfig;

    /// A file that several clients share.
    const SHARED: &str = "\
        # of all clients\n\
        bootstrap.servers = one:9092,\\\n\
            two:9092\n\
        linger.ms: 7\n\
        linger.ms: 8\n\
        group.id billing\n\
        sasl.jaas.config = secret\n\
        sasl.jaas.config = secret\n";

    #[test]
    fn a_shared_file_makes_each_client_and_names_what_it_ignores() {
        let directory = trials::directory();
        let file = directory.path().join("clients.properties");
        std::fs::write(&file, SHARED).expect("is written");
        let properties = Properties::read(&file).expect("is read");
        let (producer, ignored) =
            ProducerConfig::from_properties_lenient(&properties).expect("a producer's");
        assert_eq!(producer.linger_ms, 8);
        assert_eq!(producer.client.bootstrap_text(), "one:9092,two:9092");
        assert_eq!(ignored, ["group.id", "sasl.jaas.config"]);
        let (consumer, ignored) =
            ConsumerConfig::from_properties_lenient(&properties).expect("a consumer's");
        assert_eq!(consumer.group_id.as_deref(), Some("billing"));
        assert_eq!(ignored, ["linger.ms", "sasl.jaas.config"]);
        let (_, ignored) = AdminConfig::from_properties_lenient(&properties).expect("an admin's");
        assert_eq!(ignored, ["linger.ms", "group.id", "sasl.jaas.config"]);
        assert!(!format!("{properties:?}").contains("secret"));
    }

    #[test]
    fn a_strict_reader_refuses_what_a_client_does_not_have() {
        let refused = |text: &str| {
            let properties = Properties::parse(text).expect("properties");
            let config = ProducerConfig::from_properties(&properties);
            config.expect_err("is refused").to_string()
        };
        assert_eq!(
            refused("group.id=billing"),
            "`group.id` = `billing`: there is no such setting"
        );
        assert_eq!(
            refused("linger=5"),
            "`linger` = `5`: there is no such setting; did you mean `linger.ms`?"
        );
    }

    #[test]
    fn a_value_that_is_not_allowed_is_an_error_however_lenient_the_reader_is() {
        let properties = Properties::parse("security.protocol=SASL_SSL").expect("properties");
        let refused = ConsumerConfig::from_properties_lenient(&properties);
        let refused = refused.expect_err("is no PLAINTEXT").to_string();
        assert!(refused.starts_with("`security.protocol` = `SASL_SSL`"));
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let missing = Properties::read("no/such.properties").expect_err("there is none");
        assert!(missing.to_string().contains("no/such.properties"));
        let broken = Properties::parse("a=\\u12").expect_err("is cut");
        assert!(broken.to_string().contains("line 1"), "{broken}");
    }
}
