//! The scenarios, and on which mixtures each of them runs.

mod chance;
mod clients;
mod follower_fetch;
mod log_dir_failure;
mod reassignment;
mod replica_failure;
mod replication;
mod rolling;
mod round_trip;
mod transactions;
mod truncation;

use anyhow::Result;

use super::lab::Extra;
use super::layout::{
    KAFKA, KAFKA_CONTROLLERS, KAFKA_QUORUM, Layout, Mixture, ONE_RIVERRUN, RIVERRUN,
    RIVERRUN_APART, RIVERRUN_CONTROLS, THREE_BROKERS, TWO_RIVERRUN,
};
use super::stage::{Stage, Told};

/// A scenario.
#[derive(Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) layout: Layout,
    pub(crate) run: fn(&mut Stage) -> Result<Told>,
    pub(crate) extra: Option<Extra>,
    /// The mixtures of every run against riverrun.
    pub(crate) short: &'static [Mixture],
    /// Those of a long run, beside them.
    pub(crate) long: &'static [Mixture],
    /// Those of a run against Apache Kafka.
    pub(crate) kafka: &'static [Mixture],
}

/// Long runs have most scenarios on all mixtures.
const ALL_BUT_RIVERRUN: &[Mixture] = &[
    RIVERRUN_APART,
    KAFKA_CONTROLLERS,
    ONE_RIVERRUN,
    TWO_RIVERRUN,
    RIVERRUN_CONTROLS,
];

/// What a run of all suites has: what takes little time, on riverrun alone and beside Apache Kafka.
pub(crate) const ALWAYS: &[&str] = &[
    "round-trip-faults@riverrun",
    "directory-fails@riverrun",
    "reassignment@riverrun",
    "transactions-brokers-bounce@riverrun",
    "follower-cut-off@riverrun",
    "unclean-election@riverrun",
    "hard-bounces@riverrun",
    "leader-killed@one-riverrun",
    "leader-stopped@riverrun",
    "nearest-replica@riverrun",
    "kgo@riverrun",
];

/// All of them. Those that take longest come first, so that none is left alone at the end.
pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "rolling",
        layout: THREE_BROKERS,
        run: rolling::there_and_back,
        extra: None,
        // They begin as Apache Kafka's, whatever is under test.
        short: &[KAFKA],
        long: &[KAFKA_QUORUM],
        kafka: &[KAFKA],
    },
    Scenario {
        name: "rolling-controller",
        layout: THREE_BROKERS,
        run: rolling::controller_there_and_back,
        extra: None,
        short: &[],
        long: &[KAFKA, ONE_RIVERRUN, TWO_RIVERRUN],
        kafka: &[KAFKA],
    },
    Scenario {
        name: "kgo",
        layout: clients::KGO_LAYOUT,
        run: clients::kgo,
        extra: Some(Extra::KgoTests),
        short: &[RIVERRUN],
        long: ALL_BUT_RIVERRUN,
        kafka: &[KAFKA],
    },
    Scenario {
        name: "campaign",
        layout: clients::CAMPAIGN_LAYOUT,
        run: clients::campaign,
        extra: Some(Extra::RiverrunClient),
        short: &[RIVERRUN],
        long: ALL_BUT_RIVERRUN,
        kafka: &[KAFKA],
    },
    Scenario {
        name: "faults-by-chance",
        layout: chance::LAYOUT,
        run: chance::faults,
        extra: None,
        short: &[RIVERRUN, TWO_RIVERRUN],
        long: &[
            RIVERRUN_APART,
            KAFKA_CONTROLLERS,
            ONE_RIVERRUN,
            RIVERRUN_CONTROLS,
        ],
        kafka: &[KAFKA],
    },
    Scenario {
        name: "round-trip-faults",
        layout: round_trip::LAYOUT,
        run: round_trip::faults,
        extra: None,
        short: &[RIVERRUN],
        long: ALL_BUT_RIVERRUN,
        kafka: &[KAFKA],
    },
    Scenario {
        name: "directory-fails",
        layout: log_dir_failure::LAYOUT,
        run: log_dir_failure::directory_fails,
        extra: None,
        short: &[RIVERRUN],
        long: ALL_BUT_RIVERRUN,
        kafka: &[KAFKA],
    },
    Scenario {
        name: "reassignment",
        layout: reassignment::LAYOUT,
        run: reassignment::with_bounces,
        extra: None,
        short: &[RIVERRUN],
        long: ALL_BUT_RIVERRUN,
        kafka: &[KAFKA],
    },
    Scenario {
        name: "throttle",
        layout: reassignment::LAYOUT,
        run: reassignment::throttled,
        extra: None,
        short: &[RIVERRUN],
        long: ALL_BUT_RIVERRUN,
        kafka: &[KAFKA],
    },
    Scenario {
        name: "transactions-brokers-bounce",
        layout: THREE_BROKERS,
        run: transactions::copies_with_broker_bounces,
        extra: None,
        short: &[TWO_RIVERRUN],
        long: &[
            RIVERRUN,
            RIVERRUN_APART,
            KAFKA_CONTROLLERS,
            ONE_RIVERRUN,
            RIVERRUN_CONTROLS,
        ],
        kafka: &[KAFKA],
    },
    Scenario {
        name: "transactions-copiers-bounce",
        layout: THREE_BROKERS,
        run: transactions::copies_with_copier_bounces,
        extra: None,
        short: &[RIVERRUN],
        long: ALL_BUT_RIVERRUN,
        kafka: &[KAFKA],
    },
    Scenario {
        name: "transactions-aborted-reads",
        layout: THREE_BROKERS,
        run: transactions::aborted_reads,
        extra: None,
        short: &[RIVERRUN],
        long: ALL_BUT_RIVERRUN,
        kafka: &[KAFKA],
    },
    Scenario {
        name: "follower-cut-off",
        layout: replica_failure::LAYOUT,
        run: replica_failure::follower_cut_off,
        extra: None,
        short: &[RIVERRUN],
        long: ALL_BUT_RIVERRUN,
        kafka: &[KAFKA],
    },
    Scenario {
        name: "unclean-election",
        layout: THREE_BROKERS,
        run: truncation::unclean_election,
        extra: None,
        short: &[RIVERRUN],
        long: ALL_BUT_RIVERRUN,
        kafka: &[KAFKA],
    },
    Scenario {
        name: "clean-bounces",
        layout: THREE_BROKERS,
        run: replication::clean_bounces,
        extra: None,
        short: &[KAFKA_CONTROLLERS],
        long: &[
            RIVERRUN,
            RIVERRUN_APART,
            ONE_RIVERRUN,
            TWO_RIVERRUN,
            RIVERRUN_CONTROLS,
        ],
        kafka: &[KAFKA],
    },
    Scenario {
        name: "hard-bounces",
        layout: THREE_BROKERS,
        run: replication::hard_bounces,
        extra: None,
        short: &[RIVERRUN],
        long: ALL_BUT_RIVERRUN,
        kafka: &[KAFKA],
    },
    Scenario {
        name: "leader-killed",
        layout: THREE_BROKERS,
        run: replication::leader_killed,
        extra: None,
        short: &[RIVERRUN_APART, ONE_RIVERRUN],
        long: &[RIVERRUN, KAFKA_CONTROLLERS, TWO_RIVERRUN, RIVERRUN_CONTROLS],
        kafka: &[KAFKA, KAFKA_QUORUM],
    },
    Scenario {
        name: "leader-stopped",
        layout: THREE_BROKERS,
        run: replication::leader_stopped,
        extra: None,
        short: &[RIVERRUN_CONTROLS],
        long: &[
            RIVERRUN,
            RIVERRUN_APART,
            KAFKA_CONTROLLERS,
            ONE_RIVERRUN,
            TWO_RIVERRUN,
        ],
        kafka: &[KAFKA],
    },
    Scenario {
        name: "nearest-replica",
        layout: follower_fetch::LAYOUT,
        run: follower_fetch::nearest_replica,
        extra: None,
        short: &[RIVERRUN],
        long: ALL_BUT_RIVERRUN,
        kafka: &[KAFKA],
    },
];
