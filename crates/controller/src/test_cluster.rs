//! A cluster for tests: an image, the controller's configuration, and repeatable random bytes.

use crate::brokers::NewRegistration;
use crate::create_topics::{NewTopic, PartitionAssignment};
use crate::{ControllerContext, Decision};
use config::{ConfigMap, ServerConfig};
use metadata::{BrokerRegistration, MetadataImage, MetadataRecord, Provenance};
use model::{BrokerEpoch, BrokerId, LeaderEpoch, Uuid};

/// A cluster that decisions are made over and applied to.
#[derive(Debug)]
pub(crate) struct TestCluster {
    pub(crate) image: MetadataImage,
    pub(crate) config: ServerConfig,
    drawn: u64,
}

impl TestCluster {
    /// A controller with these pairs over its minimal configuration, and metadata version 4.3-IV0.
    pub(crate) fn new(pairs: &[(&str, &str)]) -> Self {
        let mut given: ConfigMap = [
            ("process.roles", "broker,controller"),
            ("node.id", "1"),
            ("listeners", "PLAINTEXT://:9092,CONTROLLER://:9093"),
            ("advertised.listeners", "PLAINTEXT://localhost:9092"),
            ("controller.listener.names", "CONTROLLER"),
            ("controller.quorum.voters", "1@localhost:9093"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        given.extend(
            pairs
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
        );
        let mut cluster = Self {
            image: MetadataImage::default(),
            config: ServerConfig::read(&given).unwrap(),
            drawn: 0,
        };
        cluster.replay(&[MetadataRecord::FeatureLevel {
            name: "metadata.version".to_owned(),
            level: 30,
        }]);
        cluster
    }

    /// Adds active brokers with one directory each, of the number of the broker.
    pub(crate) fn with_brokers(mut self, ids: &[BrokerId]) -> Self {
        for id in ids {
            self.replay(&[MetadataRecord::RegisterBroker(active_broker(*id))]);
        }
        self
    }

    /// Changes the registration of a broker.
    pub(crate) fn change_broker(
        &mut self,
        id: BrokerId,
        change: impl FnOnce(&mut BrokerRegistration),
    ) {
        let mut broker = (**self.image.cluster.broker(id).unwrap()).clone();
        change(&mut broker);
        self.replay(&[MetadataRecord::RegisterBroker(broker)]);
    }

    /// Enables eligible leader replicas (KIP-966).
    pub(crate) fn enable_eligible_leader_replicas(&mut self) {
        self.replay(&[MetadataRecord::FeatureLevel {
            name: metadata::ELIGIBLE_LEADER_REPLICAS_FEATURE.to_owned(),
            level: 1,
        }]);
    }

    /// What decisions are made with.
    pub(crate) fn context(&self) -> ControllerContext<'_> {
        ControllerContext::new(&self.config)
    }

    /// Replays records, each at its offset; all of them must fit.
    pub(crate) fn replay(&mut self, records: &[MetadataRecord]) {
        for record in records {
            self.image.replay(record).unwrap();
            self.image.provenance = Provenance {
                last_offset: self.image.provenance.last_offset + 1,
                last_epoch: LeaderEpoch(1),
                last_timestamp_ms: 0,
            };
        }
    }

    /// Applies a decision made by `decide` and returns its response.
    pub(crate) fn apply<R>(
        &mut self,
        decide: impl FnOnce(
            &MetadataImage,
            &ControllerContext<'_>,
            &mut crate::Random<'_>,
        ) -> Decision<R>,
    ) -> R {
        let Decision {
            records, response, ..
        } = decide(
            &self.image,
            &ControllerContext::new(&self.config),
            &mut counting_random(&mut self.drawn),
        );
        self.replay(&records);
        response
    }
}

/// `text` with its long lines broken between words, so that snapshots fit on the page.
pub(crate) fn wrapped(text: &str) -> String {
    const COLUMNS_MAX: usize = 90;
    let mut out = String::new();
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        out += line.get(..indent).unwrap_or_default();
        let mut column = indent;
        for (index, word) in line.trim_start().split(' ').enumerate() {
            let is_full = column + 1 + word.len() > COLUMNS_MAX && index > 0;
            if is_full {
                out += &format!("\n{:indent$}    ", "");
                column = indent + 4;
            } else if index > 0 {
                out.push(' ');
                column += 1;
            }
            out += word;
            column += word.len();
        }
        out.push('\n');
    }
    out
}

/// Bytes that are never the same twice and the same in every run.
pub(crate) fn counting_random(drawn: &mut u64) -> impl FnMut() -> [u8; 16] {
    move || {
        *drawn += 1;
        // An odd multiplier spreads the counter over all bits.
        u128::from(*drawn)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
            .to_be_bytes()
    }
}

/// The directory of a broker of the tests.
pub(crate) fn directory(id: BrokerId) -> Uuid {
    Uuid::from_u128(1000 + u128::from(id.0.unsigned_abs()))
}

/// What a broker of the tests registers with: two directories, of its number and of a hundred more.
pub(crate) fn registration(broker_id: BrokerId) -> NewRegistration {
    NewRegistration {
        broker_id,
        incarnation_id: Uuid::ZERO,
        endpoints: Vec::new(),
        features: crate::SUPPORTED_FEATURES
            .iter()
            .map(|feature| (feature.name.to_owned(), feature.versions))
            .collect(),
        rack: None,
        directories: vec![directory(broker_id), directory(BrokerId(broker_id.0 + 100))],
        previous_broker_epoch: BrokerEpoch::NONE,
        is_migrating_zk_broker: false,
    }
}

/// A topic of `name replicas replicas ...`; `1,2*3` stands for three partitions with these replicas.
pub(crate) fn assigned_topic(words: &[&str]) -> NewTopic {
    let replicas = words[1..].iter().flat_map(|word| {
        let (replicas, count) = word.split_once('*').unwrap_or((word, "1"));
        vec![replicas; count.parse().unwrap()]
    });
    let assignments = (0..).zip(replicas).map(|(partition_index, replicas)| {
        let ids = replicas.split(',').map(|id| id.parse().unwrap());
        PartitionAssignment {
            partition_index,
            broker_ids: ids.collect(),
        }
    });
    NewTopic {
        assignments: assignments.collect(),
        ..NewTopic::of_defaults(words[0])
    }
}

fn active_broker(id: BrokerId) -> BrokerRegistration {
    BrokerRegistration {
        id,
        epoch: BrokerEpoch(100 + i64::from(id.0)),
        incarnation_id: Uuid::from_u128(2000 + u128::from(id.0.unsigned_abs())),
        endpoints: Vec::new(),
        features: crate::SUPPORTED_FEATURES
            .iter()
            .map(|feature| (feature.name.to_owned(), feature.versions))
            .collect(),
        rack: None,
        is_fenced: false,
        is_in_controlled_shutdown: false,
        is_migrating_zk_broker: false,
        directories: vec![directory(id)],
        cordoned_directories: Some(Vec::new()),
    }
}
