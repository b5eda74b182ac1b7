//! The settings of the clients of an instance: what the application wants of them, but for what is the library's to
//! say.

use super::failure::client_error;
use super::{Pairs, ProcessingGuarantee, StreamsConfig};
use crate::error::StreamsError;
use riverrun_client::admin::AdminConfig;
use riverrun_client::consumer::ConsumerConfig;
use riverrun_client::producer::ProducerConfig;

/// What the library says of all clients, and what it uses.
const OF_ALL: [(&str, &str); 2] = [
    ("bootstrap.servers", "those of the application"),
    ("client.id", "the name of the thread"),
];

const OF_CONSUMERS: [(&str, &str); 6] = [
    ("allow.auto.create.topics", "false"),
    ("enable.auto.commit", "false"),
    ("group.id", "`application.id`"),
    ("group.protocol", "that of the application"),
    ("group.remote.assignor", "none"),
    ("partition.assignment.strategy", "that of streams"),
];

const OF_AUXILIARY_CONSUMERS: [(&str, &str); 2] =
    [("auto.offset.reset", "none"), ("group.instance.id", "none")];

const OF_EXACT_CONSUMERS: [(&str, &str); 1] = [("isolation.level", "read_committed")];

const OF_EXACT_PRODUCERS: [(&str, &str); 2] = [
    ("enable.idempotence", "true"),
    ("transactional.id", "one of the thread"),
];

/// Of a key, what is used instead, if the library has the say.
type Instead<'a> = &'a dyn Fn(&str) -> Option<&'static str>;

/// What is used instead of a setting, if the library has the say.
fn instead(key: &str, said: &[&[(&str, &'static str)]]) -> Option<&'static str> {
    let mut said = said.iter().copied().flatten();
    let found = said.find(|(said, _)| *said == key);
    found.map(|(_, instead)| *instead)
}

impl StreamsConfig {
    fn is_exact(&self) -> bool {
        self.processing_guarantee == ProcessingGuarantee::ExactlyOnceV2
    }

    fn instead_of_consumers(&self, key: &str) -> Option<&'static str> {
        let of_exact: &[_] = match self.is_exact() {
            true => &OF_EXACT_CONSUMERS,
            false => &[],
        };
        instead(key, &[&OF_ALL, &OF_CONSUMERS, of_exact])
    }

    fn instead_of_producers(&self, key: &str) -> Option<&'static str> {
        let of_exact: &[_] = match self.is_exact() {
            true => &OF_EXACT_PRODUCERS,
            false => &[],
        };
        instead(key, &[&OF_ALL, of_exact])
    }

    /// Changes `config` of a consumer as the application wants: by what all consumers have, then by what this kind has.
    pub(super) fn override_consumer(
        &self,
        config: &mut ConsumerConfig,
        of_kind: &Pairs,
    ) -> Result<(), StreamsError> {
        for (key, value) in self.overrides.consumer.iter().chain(of_kind) {
            if self.instead_of_consumers(key).is_none() {
                config.set(key, value).map_err(client_error)?;
            }
        }
        Ok(())
    }

    /// As `override_consumer`, of a producer.
    pub(super) fn override_producer(
        &self,
        config: &mut ProducerConfig,
    ) -> Result<(), StreamsError> {
        for (key, value) in &self.overrides.producer {
            if self.instead_of_producers(key).is_none() {
                config.set(key, value).map_err(client_error)?;
            }
        }
        Ok(())
    }

    /// The configuration of admin clients.
    pub(super) fn admin(&self) -> Result<AdminConfig, StreamsError> {
        let mut config = AdminConfig {
            client: self.client.clone(),
            ..AdminConfig::default()
        };
        for (key, value) in &self.overrides.admin {
            if instead(key, &[&OF_ALL]).is_none() {
                config.set(key, value).map_err(client_error)?;
            }
        }
        Ok(config)
    }

    /// What the application has set of clients, and is not used, in words.
    pub(super) fn unused_client_settings(&self) -> Vec<String> {
        let overrides = &self.overrides;
        let of_auxiliary = |key: &str| {
            let own = instead(key, &[&OF_AUXILIARY_CONSUMERS]);
            own.or_else(|| self.instead_of_consumers(key))
        };
        let of_consumers = |key: &str| self.instead_of_consumers(key);
        let of_producers = |key: &str| self.instead_of_producers(key);
        let of_admins = |key: &str| instead(key, &[&OF_ALL]);
        let kinds: [(&str, &Pairs, Instead<'_>); 6] = [
            ("consumers", &overrides.consumer, &of_consumers),
            ("the main consumer", &overrides.main_consumer, &of_consumers),
            (
                "restoring consumers",
                &overrides.restore_consumer,
                &of_auxiliary,
            ),
            (
                "the global consumer",
                &overrides.global_consumer,
                &of_auxiliary,
            ),
            ("producers", &overrides.producer, &of_producers),
            ("admin clients", &overrides.admin, &of_admins),
        ];
        let mut unused = Vec::new();
        for (kind, pairs, instead) in kinds {
            for (key, value) in pairs {
                if let Some(instead) = instead(key).filter(|instead| instead != value) {
                    unused.push(format!(
                        "`{key}` = `{value}` of {kind} is not used, but {instead}"
                    ));
                }
            }
        }
        unused
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    /// What an application of one guarantee hears of the settings of its clients.
    fn check(guarantee: &str, pairs: &[(&str, &str)], expected: Expect) {
        let required = [
            ("application.id", "app"),
            ("bootstrap.servers", "one:9092"),
            ("processing.guarantee", guarantee),
        ];
        let pairs = required.iter().chain(pairs).copied();
        let config = StreamsConfig::from_pairs(pairs).expect("a configuration");
        let lines = config.unused_client_settings();
        let lines: Vec<String> = lines.into_iter().map(|line| line + "\n").collect();
        expected.assert_eq(&lines.concat());
    }

    #[test]
    fn what_the_library_says_of_clients_is_told() {
        let pairs = [
            ("enable.auto.commit", "true"),
            ("main.consumer.allow.auto.create.topics", "true"),
            ("consumer.isolation.level", "read_uncommitted"),
            ("restore.consumer.auto.offset.reset", "latest"),
            ("global.consumer.enable.auto.commit", "false"),
            ("consumer.auto.offset.reset", "latest"),
            ("producer.enable.idempotence", "false"),
            ("producer.linger.ms", "7"),
            ("admin.client.id", "anna"),
        ];
        check(
            "at_least_once",
            &pairs,
            expect![[r#"
                `enable.auto.commit` = `true` of consumers is not used, but false
                `allow.auto.create.topics` = `true` of the main consumer is not used, but false
                `auto.offset.reset` = `latest` of restoring consumers is not used, but none
                `client.id` = `anna` of admin clients is not used, but the name of the thread
            "#]],
        );
        check(
            "exactly_once_v2",
            &pairs,
            expect![[r#"
                `enable.auto.commit` = `true` of consumers is not used, but false
                `isolation.level` = `read_uncommitted` of consumers is not used, but read_committed
                `allow.auto.create.topics` = `true` of the main consumer is not used, but false
                `auto.offset.reset` = `latest` of restoring consumers is not used, but none
                `enable.idempotence` = `false` of producers is not used, but true
                `client.id` = `anna` of admin clients is not used, but the name of the thread
            "#]],
        );
    }

    #[test]
    fn what_the_library_says_of_clients_stays() -> Result<(), Box<dyn std::error::Error>> {
        let mut config = StreamsConfig::new("app", "one:9092")?;
        config.processing_guarantee = ProcessingGuarantee::ExactlyOnceV2;
        let pairs = |pairs: &[(&str, &str)]| -> Pairs {
            let pairs = pairs.iter();
            pairs
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect()
        };
        config.overrides.consumer = pairs(&[
            ("group.id", "other"),
            ("client.id", "other"),
            ("enable.auto.commit", "true"),
            ("fetch.min.bytes", "5"),
        ]);
        config.overrides.producer = pairs(&[("transactional.id", "other"), ("linger.ms", "5")]);
        let untouched = ConsumerConfig::default();
        let mut consumer = ConsumerConfig::default();
        config.override_consumer(&mut consumer, &Pairs::new())?;
        assert_eq!(consumer.fetch_min_bytes, 5);
        assert_eq!(consumer.group_id, untouched.group_id);
        assert_eq!(consumer.client.client_id, untouched.client.client_id);
        let mut producer = ProducerConfig::default();
        config.override_producer(&mut producer)?;
        assert_eq!((producer.linger_ms, producer.transactional_id), (5, None));
        Ok(())
    }
}
