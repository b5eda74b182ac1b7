//! The keys of quotas: of users and client ids, of addresses, and of a broker's replication.
//!
//! The first two are set by `AlterClientQuotas`. Those of a broker are set by
//! `IncrementalAlterConfigs` on the broker, although they are not among its static keys.

use crate::definition::{ConfigDefinition, double, int, long};
use crate::table::{ConfigTable, sorted};

/// Every quota of a user or client id.
pub static CLIENT_QUOTA: ConfigTable = ConfigTable::new(|| sorted(&[CLIENT_QUOTA_DEFINITIONS]));

/// Every quota of a client address.
pub static IP_QUOTA: ConfigTable = ConfigTable::new(|| sorted(&[IP_QUOTA_DEFINITIONS]));

/// Every quota of a broker; changeable while it runs, unknown to its properties file.
pub static BROKER_QUOTA: ConfigTable = ConfigTable::new(|| sorted(&[BROKER_QUOTA_DEFINITIONS]));

#[rustfmt::skip]
const CLIENT_QUOTA_DEFINITIONS: &[ConfigDefinition] = &[
    long("consumer_byte_rate").default("9223372036854775807").medium().cluster_wide()
        .doc("Bytes a second that a broker lets the client fetch before it is throttled."),
    double("controller_mutation_rate").default("2.147483647E9").medium().cluster_wide()
        .doc("Partitions created or deleted a second, over topic creations, deletions and \
              partition additions, before the client is throttled."),
    long("producer_byte_rate").default("9223372036854775807").medium().cluster_wide()
        .doc("Bytes a second that a broker lets the client produce before it is throttled."),
    double("request_percentage").default("2.147483647E9").medium().cluster_wide()
        .doc("Share of the request threads' time that the client may use, where one thread \
              counts 100, before it is throttled."),
];

#[rustfmt::skip]
const IP_QUOTA_DEFINITIONS: &[ConfigDefinition] = &[
    int("connection_creation_rate").default("2147483647").at_least(0).medium().cluster_wide()
        .doc("New connections a second that a broker accepts from the address."),
];

#[rustfmt::skip]
const BROKER_QUOTA_DEFINITIONS: &[ConfigDefinition] = &[
    long("follower.replication.throttled.rate").default("9223372036854775807")
        .at_least(0).medium().cluster_wide()
        .doc("Bytes a second that the throttled replicas of this broker may fetch from their \
              leaders."),
    long("leader.replication.throttled.rate").default("9223372036854775807")
        .at_least(0).medium().cluster_wide()
        .doc("Bytes a second that this broker may send to followers of its throttled replicas."),
    long("replica.alter.log.dirs.io.max.bytes.per.second")
        .default("9223372036854775807").at_least(0).medium().cluster_wide()
        .doc("Bytes a second that this broker may move between its log directories."),
];
