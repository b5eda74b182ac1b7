//! The cluster: its brokers, their log directories, its features.

use super::fan_out::Route;
use super::partitions::version_from;
use super::{Admin, PerKey, checked, timeout_ms};
use crate::Error;
use crate::cluster::{Connection, Deadline};
use crate::config::Endpoint;
use model::{BrokerId, TopicPartition};
use std::collections::BTreeMap;
use wire::ApiKey;
use wire::messages::describe_log_dirs_response::DescribeLogDirsResult;
use wire::messages::update_features_request::FeatureUpdateKey;
use wire::messages::{
    ApiVersionsRequest, ApiVersionsResponse, DescribeClusterRequest, DescribeClusterResponse,
    DescribeLogDirsRequest, DescribeLogDirsResponse, MetadataRequest, MetadataResponse,
    UnregisterBrokerRequest, UnregisterBrokerResponse, UpdateFeaturesRequest,
    UpdateFeaturesResponse,
};

/// The first version that tells the features of a cluster.
const FEATURES_FROM: i16 = 3;
/// The kind of endpoints that brokers are.
const ENDPOINT_BROKER: i8 = 1;

/// A broker of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerDescription {
    /// Its `node.id`.
    pub id: BrokerId,
    /// Where it advertises that it listens; `None` if what it advertises is no address.
    pub endpoint: Option<Endpoint>,
    /// Where it stands, if it says.
    pub rack: Option<String>,
    /// Whether the controller keeps clients away from it.
    pub is_fenced: bool,
}

/// A cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterDescription {
    /// Its id.
    pub cluster_id: String,
    /// The broker that takes the controller's requests.
    pub controller: Option<BrokerId>,
    /// Its brokers by id; fenced ones only if the brokers are new enough to tell.
    pub brokers: Vec<BrokerDescription>,
}

/// A replica in a log directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplicaSize {
    /// Bytes of its log.
    pub size_bytes: i64,
    /// How many records it is behind the leader, or behind the replica that it is to replace.
    pub offset_lag: i64,
    /// Whether it is to replace the one in another directory.
    pub is_future: bool,
}

/// A log directory of a broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogDirDescription {
    /// Its path on the broker.
    pub path: String,
    /// Why it is out of use, if it is.
    pub error: Option<Error>,
    /// Bytes of its volume, if the broker tells.
    pub total_bytes: Option<i64>,
    /// Bytes of its volume that are left, if the broker tells.
    pub usable_bytes: Option<i64>,
    /// Whether it takes no new partitions.
    pub is_cordoned: bool,
    /// What is in it.
    pub replicas: BTreeMap<TopicPartition, ReplicaSize>,
}

/// A range of levels of a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeatureLevels {
    /// The lowest.
    pub min: i16,
    /// The highest.
    pub max: i16,
}

/// The features of a cluster (KIP-584).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeaturesDescription {
    /// What the cluster works with, by name.
    pub finalized: BTreeMap<String, FeatureLevels>,
    /// Counts the changes of that, if the broker tells.
    pub finalized_epoch: Option<i64>,
    /// What the broker that was asked could work with.
    pub supported: BTreeMap<String, FeatureLevels>,
}

/// Which way the level of a feature may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpgradeKind {
    /// Up.
    Upgrade,
    /// Down, if nothing is lost.
    SafeDowngrade,
    /// Down, whatever is lost.
    UnsafeDowngrade,
}

/// A change of a feature's level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeatureUpdate {
    /// The level; 0 takes the feature away.
    pub level: i16,
    /// Which way it may go.
    pub kind: UpgradeKind,
}

impl Admin {
    /// The cluster and its brokers.
    ///
    /// # Errors
    /// What the brokers say until `default.api.timeout.ms`.
    pub async fn describe_cluster(&self) -> Result<ClusterDescription, Error> {
        let call = |connection: Connection, deadline: Deadline| async move {
            describe_cluster(&connection, deadline).await
        };
        self.ask(Route::Any, call).await
    }

    /// The log directories of these brokers, or of all of them.
    ///
    /// # Errors
    /// Why the brokers are not known until `default.api.timeout.ms`.
    pub async fn describe_log_dirs(
        &self,
        brokers: Option<&[BrokerId]>,
    ) -> Result<PerKey<BrokerId, Vec<LogDirDescription>>, Error> {
        let ids = match brokers {
            Some(ids) => ids.to_vec(),
            None => self.broker_ids().await?,
        };
        let call = |connection: Connection, ids: Vec<BrokerId>, deadline: Deadline| async move {
            let request = DescribeLogDirsRequest { topics: None };
            let answer = connection.call(&request, deadline).await?;
            let response: DescribeLogDirsResponse<'_> = answer.read()?;
            let directories = || response.results.iter().map(log_dir).collect();
            let answered = ids.iter().map(|id| {
                let subject = format!("log directories of broker {id}");
                let checked = checked(response.error_code, subject, None);
                (*id, checked.map(|()| directories()))
            });
            Ok(answered.collect())
        };
        Ok(self.fan_out(ids, |id| Route::Broker(*id), call).await)
    }

    /// The features that the cluster works with.
    ///
    /// # Errors
    /// What the brokers say until `default.api.timeout.ms`.
    pub async fn describe_features(&self) -> Result<FeaturesDescription, Error> {
        let call = |connection: Connection, deadline: Deadline| async move {
            describe_features(&connection, deadline).await
        };
        self.ask(Route::Any, call).await
    }

    /// Changes the levels of features: all of them, or none.
    ///
    /// # Errors
    /// What the controller says.
    pub async fn update_features(
        &self,
        updates: &BTreeMap<String, FeatureUpdate>,
        validate_only: bool,
    ) -> Result<(), Error> {
        let call = |connection: Connection, deadline: Deadline| async move {
            update_features(&connection, updates, validate_only, deadline).await
        };
        self.ask(Route::Any, call).await
    }

    /// Lets the cluster forget a broker that has gone for good.
    ///
    /// # Errors
    /// What the controller says: a broker that is alive is not forgotten.
    pub async fn unregister_broker(&self, id: BrokerId) -> Result<(), Error> {
        let call = |connection: Connection, deadline: Deadline| async move {
            let request = UnregisterBrokerRequest { broker_id: id };
            let answer = connection.call(&request, deadline).await?;
            let response: UnregisterBrokerResponse<'_> = answer.read()?;
            let subject = format!("broker {id}");
            checked(response.error_code, subject, response.error_message)
        };
        self.ask(Route::Any, call).await
    }

    /// The ids of the brokers that are up.
    pub(super) async fn broker_ids(&self) -> Result<Vec<BrokerId>, Error> {
        let metadata = self.brokers.refreshed(self.deadline()).await?;
        Ok(metadata.brokers().map(|broker| broker.id).collect())
    }
}

async fn describe_cluster(
    connection: &Connection,
    deadline: Deadline,
) -> Result<ClusterDescription, Error> {
    if !connection.versions().serves(ApiKey::DescribeCluster) {
        return describe_cluster_by_metadata(connection, deadline).await;
    }
    let request = DescribeClusterRequest {
        endpoint_type: ENDPOINT_BROKER,
        include_fenced_brokers: true,
        ..DescribeClusterRequest::default()
    };
    let answer = connection.call(&request, deadline).await?;
    let response: DescribeClusterResponse<'_> = answer.read()?;
    checked(response.error_code, "cluster", response.error_message)?;
    let brokers = response.brokers.iter().map(|broker| BrokerDescription {
        id: broker.broker_id,
        endpoint: endpoint(broker.host, broker.port),
        rack: broker.rack.map(str::to_owned),
        is_fenced: broker.is_fenced,
    });
    let mut brokers: Vec<BrokerDescription> = brokers.collect();
    brokers.sort_by_key(|broker| broker.id);
    Ok(ClusterDescription {
        cluster_id: response.cluster_id.to_owned(),
        controller: Some(response.controller_id).filter(|id| !id.is_none()),
        brokers,
    })
}

async fn describe_cluster_by_metadata(
    connection: &Connection,
    deadline: Deadline,
) -> Result<ClusterDescription, Error> {
    let version = version_from(connection, ApiKey::Metadata, 1)?;
    let answer = connection
        .call_version(version, &MetadataRequest::default(), deadline)
        .await?;
    let response: MetadataResponse<'_> = answer.read()?;
    let brokers = response.brokers.iter().map(|broker| BrokerDescription {
        id: broker.node_id,
        endpoint: endpoint(broker.host, broker.port),
        rack: broker.rack.map(str::to_owned),
        is_fenced: false,
    });
    let mut brokers: Vec<BrokerDescription> = brokers.collect();
    brokers.sort_by_key(|broker| broker.id);
    Ok(ClusterDescription {
        cluster_id: response.cluster_id.unwrap_or_default().to_owned(),
        controller: Some(response.controller_id).filter(|id| !id.is_none()),
        brokers,
    })
}

fn endpoint(host: &str, port: i32) -> Option<Endpoint> {
    let port = u16::try_from(port).ok()?;
    Some(Endpoint::new(host, port))
}

fn log_dir(result: DescribeLogDirsResult<'_>) -> LogDirDescription {
    let mut replicas = BTreeMap::new();
    for topic in result.topics.iter() {
        for partition in topic.partitions.iter() {
            let key = TopicPartition::new(topic.name, partition.partition_index);
            let size = ReplicaSize {
                size_bytes: partition.partition_size,
                offset_lag: partition.offset_lag,
                is_future: partition.is_future_key,
            };
            replicas.insert(key, size);
        }
    }
    let subject = format!("log directory `{}`", result.log_dir);
    LogDirDescription {
        path: result.log_dir.to_owned(),
        error: checked(result.error_code, subject, None).err(),
        total_bytes: Some(result.total_bytes).filter(|bytes| *bytes >= 0),
        usable_bytes: Some(result.usable_bytes).filter(|bytes| *bytes >= 0),
        is_cordoned: result.is_cordoned,
        replicas,
    }
}

async fn describe_features(
    connection: &Connection,
    deadline: Deadline,
) -> Result<FeaturesDescription, Error> {
    let version = version_from(connection, ApiKey::ApiVersions, FEATURES_FROM)?;
    let request = ApiVersionsRequest {
        client_software_name: crate::SOFTWARE_NAME,
        client_software_version: crate::SOFTWARE_VERSION,
    };
    let answer = connection.call_version(version, &request, deadline).await?;
    let response: ApiVersionsResponse<'_> = answer.read()?;
    checked(response.error_code, "features", None)?;
    let finalized = response.finalized_features.iter().map(|feature| {
        let (min, max) = (feature.min_version_level, feature.max_version_level);
        (feature.name.to_owned(), FeatureLevels { min, max })
    });
    let supported = response.supported_features.iter().map(|feature| {
        let (min, max) = (feature.min_version, feature.max_version);
        (feature.name.to_owned(), FeatureLevels { min, max })
    });
    Ok(FeaturesDescription {
        finalized: finalized.collect(),
        finalized_epoch: Some(response.finalized_features_epoch).filter(|epoch| *epoch >= 0),
        supported: supported.collect(),
    })
}

async fn update_features(
    connection: &Connection,
    updates: &BTreeMap<String, FeatureUpdate>,
    validate_only: bool,
    deadline: Deadline,
) -> Result<(), Error> {
    let version = version_from(connection, ApiKey::UpdateFeatures, i16::from(validate_only))?;
    let update = |(feature, update): (&'_ String, &FeatureUpdate)| {
        let upgrade_type = match update.kind {
            UpgradeKind::Upgrade => 1,
            UpgradeKind::SafeDowngrade => 2,
            UpgradeKind::UnsafeDowngrade => 3,
        };
        (feature.clone(), update.level, upgrade_type)
    };
    let updates: Vec<(String, i16, i8)> = updates.iter().map(update).collect();
    let request = UpdateFeaturesRequest {
        timeout_ms: timeout_ms(deadline),
        feature_updates: updates
            .iter()
            .map(|(feature, level, upgrade_type)| FeatureUpdateKey {
                feature,
                max_version_level: *level,
                allow_downgrade: *upgrade_type > 1,
                upgrade_type: *upgrade_type,
            })
            .collect(),
        validate_only,
    };
    let answer = connection.call_version(version, &request, deadline).await?;
    let response: UpdateFeaturesResponse<'_> = answer.read()?;
    checked(response.error_code, "features", response.error_message)?;
    for result in response.results.iter() {
        let subject = format!("feature `{}`", result.feature);
        checked(result.error_code, subject, result.error_message)?;
    }
    Ok(())
}
