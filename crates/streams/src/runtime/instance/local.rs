//! What an instance tells of its own threads and stores.

use super::{Instance, thread_name};
use crate::error::StreamsError;
use crate::runtime::lifecycle::ThreadState;
use crate::runtime::local_state::{LagInfo, LocalState, StorePlace, ThreadMetadata};
use riverrun_client::TopicPartition;
use std::collections::{BTreeMap, BTreeSet};

impl Instance {
    /// The stream threads that have not ended.
    pub(in crate::runtime) fn threads(&self) -> Vec<ThreadMetadata> {
        let threads: Vec<(usize, ThreadState)> =
            self.shared.look(|lifecycle| lifecycle.threads().collect());
        let threads = threads.into_iter().map(|(index, thread_state)| {
            let name = thread_name(&self.client_id, index);
            let LocalState {
                active, standby, ..
            } = self.boards.read(index);
            ThreadMetadata {
                thread_state,
                active_tasks: active,
                standby_tasks: standby,
                consumer_client_id: format!("{name}-consumer"),
                restore_consumer_client_id: format!("{name}-restore-consumer"),
                producer_client_id: format!("{name}-producer"),
                thread_name: name.to_string(),
            }
        });
        threads.collect()
    }

    /// How far each store of this instance is behind each partition of its changelog, given where these end.
    ///
    /// # Errors
    /// Those of `ends`.
    pub(in crate::runtime) fn lags(
        &self,
        ends: impl FnOnce(Vec<TopicPartition>) -> Result<BTreeMap<TopicPartition, i64>, StreamsError>,
    ) -> Result<BTreeMap<String, BTreeMap<i32, LagInfo>>, StreamsError> {
        let threads = self.shared.look(|lifecycle| {
            let threads = lifecycle.threads().map(|(index, _)| index);
            threads.collect::<Vec<usize>>()
        });
        let places = threads.into_iter();
        let places = places.flat_map(|index| self.boards.read(index).stores);
        let places: Vec<StorePlace> = places.collect();
        if places.is_empty() {
            return Ok(BTreeMap::new());
        }
        let changelogs = places.iter().map(|place| place.changelog.clone());
        let changelogs: BTreeSet<TopicPartition> = changelogs.collect();
        let ends = ends(changelogs.into_iter().collect())?;
        Ok(table(&places, &ends))
    }
}

/// A task may be moving from one thread of the instance to another: where it is written counts, and else who is
/// further.
fn table(
    places: &[StorePlace],
    ends: &BTreeMap<TopicPartition, i64>,
) -> BTreeMap<String, BTreeMap<i32, LagInfo>> {
    let mut table: BTreeMap<String, BTreeMap<i32, LagInfo>> = BTreeMap::new();
    for place in places {
        let Some(end_offset) = ends.get(&place.changelog) else {
            continue;
        };
        let lag = LagInfo::new(place.next_offset, *end_offset);
        let of_store = table.entry(place.store.to_string()).or_default();
        let known = of_store.entry(place.changelog.partition).or_insert(lag);
        if lag.offset_lag < known.offset_lag {
            *known = lag;
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn lags_are_those_of_the_nearest_task() {
        let place = |partition, next_offset| StorePlace {
            store: Arc::from("counts"),
            changelog: TopicPartition::new("app-counts-changelog", partition),
            next_offset,
        };
        let places = [
            place(0, Some(3)),
            place(0, None),
            place(1, Some(4)),
            place(1, Some(7)),
            // It has taken what was written after the end was asked for.
            place(2, Some(12)),
            // Nobody has told where it ends.
            place(3, Some(1)),
        ];
        let ends = (0..3).map(|partition| {
            let changelog = TopicPartition::new("app-counts-changelog", partition);
            (changelog, 10)
        });
        let lags = table(&places, &ends.collect());
        let lags: Vec<(i32, i64, i64, i64)> = lags["counts"]
            .iter()
            .map(|(partition, lag)| {
                let (current, end) = (lag.current_offset_position, lag.end_offset_position);
                (*partition, current, end, lag.offset_lag)
            })
            .collect();
        assert_eq!(lags, [(0, 10, 10, 0), (1, 7, 10, 3), (2, 12, 10, 0)]);
    }
}
