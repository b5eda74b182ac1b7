//! What the applications do, in the words of Kafka Streams' DSL.

use std::str::FromStr;
use std::sync::Arc;

use anyhow::{Result, bail};
use riverrun_streams::dsl::{Materialized, StreamsBuilder, TimeWindows};
use riverrun_streams::serde::{DefaultSerde as _, time_windowed};
use riverrun_streams::state::StoreType;
use riverrun_streams::topology::{Produced, Topology};

/// The size of the windows.
const WINDOW_MS: i64 = 60_000;
const GRACE_MS: i64 = 10_000;

/// Which application.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Workload {
    /// How often each word is in `words`.
    Words,
    /// The sums of `windows` by key and minute.
    Windows,
    /// The last value of each key of `none`, which is empty: the store has what its changelog has.
    Restore,
}

impl FromStr for Workload {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        Ok(match text {
            "words" => Self::Words,
            "windows" => Self::Windows,
            "restore" => Self::Restore,
            _ => bail!("no workload `{text}`"),
        })
    }
}

impl Workload {
    /// The topology. `taken` is called for each record that is taken into an aggregate.
    pub(crate) fn topology(
        self,
        is_persistent: bool,
        taken: impl Fn() + Send + Sync + 'static,
    ) -> Result<Topology> {
        let store_type = match is_persistent {
            true => StoreType::Persistent,
            false => StoreType::InMemory,
        };
        let builder = StreamsBuilder::new();
        match self {
            Self::Words => {
                let kept = Materialized::named("store")
                    .with_value_serde(i64::serde())
                    .with_store_type(store_type);
                builder
                    .stream::<Option<String>, String>("words")
                    .flat_map_values(|line| line.split(' ').map(str::to_owned).collect::<Vec<_>>())
                    .group_by(|_, word| word.clone())
                    .aggregate_with(
                        || 0,
                        move |_, _, count: i64| {
                            taken();
                            count + 1
                        },
                        kept,
                    )
                    .to_stream()
                    .to("counts");
            }
            Self::Windows => {
                let kept = Materialized::named("store")
                    .with_value_serde(i64::serde())
                    .with_store_type(store_type);
                let key_serde = time_windowed(String::serde(), WINDOW_MS);
                builder
                    .stream::<String, i64>("windows")
                    .group_by_key()
                    .windowed_by(TimeWindows::of_size_and_grace(WINDOW_MS, GRACE_MS))
                    .aggregate_with(
                        || 0,
                        move |_, value, sum: i64| {
                            taken();
                            sum + value
                        },
                        kept,
                    )
                    .to_stream()
                    .to_with("sums", Produced::with(key_serde, <Option<i64>>::serde()));
            }
            Self::Restore => {
                let kept = Materialized::named("store")
                    .with_value_serde(<Vec<u8>>::serde())
                    .with_store_type(store_type);
                builder
                    .stream::<String, Vec<u8>>("none")
                    .group_by_key()
                    .reduce_with(|_, value| value.clone(), kept);
            }
        }
        Ok(builder.build()?)
    }
}

/// Calls `reached` when so many records were taken.
pub(crate) fn counter(
    milestones: [u64; 2],
    reached: impl Fn(usize) + Send + Sync + 'static,
) -> impl Fn() + Send + Sync + 'static {
    let count = Arc::new(std::sync::atomic::AtomicU64::new(0));
    move || {
        let taken = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
        if let Some(which) = milestones.iter().position(|milestone| *milestone == taken) {
            reached(which);
        }
    }
}
