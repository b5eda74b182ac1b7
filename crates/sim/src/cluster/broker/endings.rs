//! The ends of transactions on their way to their last markers, as the broker's tasks drive them: leaders of the
//! partitions are asked, here and elsewhere, and again until each partition has its marker.

use super::waiting::{Gathered, Replicated};
use super::{BrokerNode, SimPartition};
use crate::cluster::message::{Answer, Caller, Outbox};
use crate::cluster::planted::PlantedInCluster;
use crate::coordinators::{Finishing, OFFSETS_TOPIC};
use crate::protocol;
use coordinator::runtime::TransactionMarker;
use coordinator::transaction::{MarkerFate, MarkersToWrite, PartitionsByLeader, is_led_by_others};
use metadata::MetadataImage;
use model::{BrokerId, ErrorCode, MonotonicTime, Now, Offset, TopicPartition};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How long a partition that took no marker is left alone.
const RETRY_PAUSE_MS: i64 = 100;
/// How long an answer waits for replicas and other brokers.
const ANSWER_PATIENCE_MS: i64 = 100;
/// How long a marker waits for replicas.
const MARKER_TIMEOUT_MS: i64 = 1_800;

/// An end on its way.
#[derive(Debug)]
pub(super) struct Ending {
    finishing: Finishing,
    reply: Option<(Caller, protocol::Answer)>,
    reply_at: MonotonicTime,
    /// By number, whom it has asked about which partitions; itself among them.
    asked: BTreeMap<u64, (BrokerId, Vec<TopicPartition>)>,
    /// When it is tried again.
    retry_at: Option<MonotonicTime>,
}

impl Ending {
    pub(super) fn deadline(&self) -> Option<MonotonicTime> {
        let reply_at = self.reply.as_ref().map(|_| self.reply_at);
        reply_at.into_iter().chain(self.retry_at).min()
    }
}

impl BrokerNode {
    /// Begins to write the markers of an end.
    pub(super) fn finish(
        &mut self,
        finishing: Finishing,
        reply: Option<(Caller, protocol::Answer)>,
        now: Now,
        out: &mut Outbox,
    ) -> Result<(), String> {
        let number = self.next_number();
        let ending = Ending {
            finishing,
            reply,
            reply_at: now.monotonic.plus_ms(ANSWER_PATIENCE_MS),
            asked: BTreeMap::new(),
            retry_at: None,
        };
        self.endings.insert(number, ending);
        self.try_to_finish(number, now, out)
    }

    /// Writes the markers that are left.
    fn try_to_finish(&mut self, number: u64, now: Now, out: &mut Outbox) -> Result<(), String> {
        let Some(mut ending) = self.endings.remove(&number) else {
            return Ok(());
        };
        ending.retry_at = None;
        let Some(marker) = self.transactions.marker_of(&ending.finishing) else {
            // Another coordinator writes the markers.
            self.reply(&mut ending, out);
            return Ok(());
        };
        let left = std::mem::take(&mut ending.finishing.left);
        let by_leader = PartitionsByLeader::of(left, &self.image, self.id);
        ending.finishing.left = by_leader.nowhere;
        let version = ending.finishing.prepared.client_transaction_version;
        for (leader, partitions) in by_leader.elsewhere {
            let asked = self.next_number();
            let markers = MarkersToWrite {
                marker,
                transaction_version: version,
                partitions: partitions.clone(),
            };
            self.markers_out.add(leader, asked, markers);
            self.asked_of.insert(asked, number);
            ending.asked.insert(asked, (leader, partitions));
        }
        if !by_leader.here.is_empty() {
            let asked = self.next_number();
            self.asked_of.insert(asked, number);
            let here = by_leader.here;
            ending.asked.insert(asked, (self.id, here.clone()));
            self.endings.insert(number, ending);
            self.write_markers(Gathered::Own(asked), &[(marker, version, here)], now, out)?;
        } else {
            self.endings.insert(number, ending);
        }
        self.settle(number, now, out)
    }

    /// Partitions that were asked for markers have answered.
    pub(super) fn markers_answered(
        &mut self,
        asked: u64,
        outcomes: &[ErrorCode],
        now: Now,
        out: &mut Outbox,
    ) -> Result<(), String> {
        let Some(number) = self.asked_of.remove(&asked) else {
            return Ok(());
        };
        let Some(ending) = self.endings.get_mut(&number) else {
            return Ok(());
        };
        let Some((_, partitions)) = ending.asked.remove(&asked) else {
            return Ok(());
        };
        for (partition, outcome) in partitions.into_iter().zip(outcomes) {
            let fate = MarkerFate::of(*outcome, &partition, &self.image);
            if fate == MarkerFate::Unwritten {
                ending.finishing.left.push(partition);
            }
        }
        self.settle(number, now, out)
    }

    /// Sees whether all that were asked have answered.
    fn settle(&mut self, number: u64, now: Now, out: &mut Outbox) -> Result<(), String> {
        let Some(mut ending) = self.endings.remove(&number) else {
            return Ok(());
        };
        if !ending.asked.is_empty() {
            self.endings.insert(number, ending);
            return Ok(());
        }
        self.reply(&mut ending, out);
        let is_over = match ending.finishing.left.is_empty() {
            true => {
                let completed = self.transactions.complete(&ending.finishing, now);
                completed.map_err(|halted| halted.reason)?
            }
            false => {
                self.transactions.note_unmarked(&ending.finishing);
                false
            }
        };
        if !is_over {
            ending.retry_at = Some(now.monotonic.plus_ms(RETRY_PAUSE_MS));
            self.endings.insert(number, ending);
        }
        Ok(())
    }

    #[expect(clippy::unused_self, reason = "it is the broker that answers")]
    fn reply(&self, ending: &mut Ending, out: &mut Outbox) {
        if let Some((caller, answer)) = ending.reply.take() {
            out.tell(caller, answer);
        }
    }

    /// Does what is due: answers that have waited for long enough, and another try.
    pub(super) fn keep_ending(&mut self, now: Now, out: &mut Outbox) -> Result<(), String> {
        let is_due = |one: &Ending| one.deadline().is_some_and(|at| at <= now.monotonic);
        let due = self.endings.iter().filter(|(_, one)| is_due(one));
        let due: Vec<u64> = due.map(|(number, _)| *number).collect();
        for number in due {
            let Some(mut ending) = self.endings.remove(&number) else {
                continue;
            };
            self.reply(&mut ending, out);
            let is_tried = ending.retry_at.is_some_and(|at| at <= now.monotonic);
            self.endings.insert(number, ending);
            if is_tried {
                self.try_to_finish(number, now, out)?;
            }
        }
        Ok(())
    }

    /// What leaders were asked that do not lead any more says nothing.
    pub(super) fn give_up_moved(
        &mut self,
        image: &MetadataImage,
        now: Now,
        out: &mut Outbox,
    ) -> Result<(), String> {
        let this = self.id;
        let asked = self.endings.values().flat_map(|ending| &ending.asked);
        let moved = asked.filter(|(_, (leader, partitions))| {
            *leader != this && is_led_by_others(partitions, image, *leader)
        });
        let moved: Vec<_> = moved
            .map(|(asked, (_, partitions))| (*asked, partitions.len()))
            .collect();
        for (asked, count) in moved {
            let outcomes = vec![ErrorCode::NotLeaderOrFollower; count];
            self.markers_answered(asked, &outcomes, now, out)?;
        }
        Ok(())
    }

    /// Appends markers to partitions that are led here; whoever asks hears when every in-sync replica has them.
    pub(super) fn write_markers(
        &mut self,
        gathered: Gathered,
        all: &[(TransactionMarker, i16, Vec<TopicPartition>)],
        now: Now,
        out: &mut Outbox,
    ) -> Result<(), String> {
        let counts = all.iter().map(|(_, _, partitions)| partitions.len());
        let gathering = self.begin_gathering(gathered, counts);
        for (at, (marker, version, partitions)) in all.iter().enumerate() {
            for (place, partition) in partitions.iter().enumerate() {
                let place = (gathering, at, place);
                match self.write_marker(*marker, *version, partition, now)? {
                    Ok(replicated) => {
                        let deadline = now.monotonic.plus_ms(MARKER_TIMEOUT_MS);
                        self.markers.push((place, deadline, replicated));
                    }
                    Err(error) => self.gather(place, error, now, out)?,
                }
            }
        }
        Ok(())
    }

    fn write_marker(
        &mut self,
        marker: TransactionMarker,
        version: i16,
        name: &TopicPartition,
        now: Now,
    ) -> Result<Result<Replicated, ErrorCode>, String> {
        let id = self.image.topics.id_of(&name.topic).unwrap_or_default();
        let partition = match self.find((id, name.partition)) {
            Ok(partition) => partition.clone(),
            Err(ErrorCode::UnknownTopicId) => return Ok(Err(ErrorCode::UnknownTopicOrPartition)),
            Err(error) => return Ok(Err(error)),
        };
        let leadership = partition.leadership();
        let appended = if name.topic == OFFSETS_TOPIC {
            let groups = &mut self.groups;
            let ended = groups.end_transaction(name.partition, marker, version, now);
            ended.map_err(|halted| halted.reason)?
        } else {
            let mut batch = marker.into_batch(now.wall_ms);
            let mut appended = partition.append_marker(&mut batch, version, now.wall_ms);
            if self.planted == PlantedInCluster::TakesOldMarkers && appended.is_err() {
                let mut batch = of_now(marker, &partition).into_batch(now.wall_ms);
                appended = partition.append_marker(&mut batch, 0, now.wall_ms);
            }
            match appended {
                Ok(appended) => Ok(appended.last_offset + 1),
                Err(error) if error.is_disk_failure() => return Err(error.to_string()),
                Err(error) => Err(error.code()),
            }
        };
        Ok(appended.map(|end_offset| replicated(partition, leadership, end_offset.0)))
    }

    /// Whether no end is on its way.
    pub(super) fn has_no_endings(&self) -> bool {
        self.endings.is_empty() && self.markers_out.is_empty() && self.adding_out.is_empty()
    }

    /// Another broker's WriteTxnMarkers.
    pub(super) fn take_markers(
        &mut self,
        caller: Caller,
        all: Vec<MarkersToWrite>,
        now: Now,
        out: &mut Outbox,
    ) -> Result<(), String> {
        let all: Vec<_> = all
            .into_iter()
            .map(|one| (one.marker, one.transaction_version, one.partitions))
            .collect();
        self.write_markers(Gathered::Others(caller), &all, now, out)
    }

    /// All of what was asked for has come out.
    pub(super) fn gathered(
        &mut self,
        gathered: Gathered,
        outcomes: Vec<Vec<ErrorCode>>,
        now: Now,
        out: &mut Outbox,
    ) -> Result<(), String> {
        match gathered {
            Gathered::Others(caller) => {
                out.answer(caller, Answer::Outcomes(outcomes));
                Ok(())
            }
            Gathered::Own(asked) => {
                let outcomes = outcomes.concat();
                self.markers_answered(asked, &outcomes, now, out)
            }
        }
    }
}

/// The mistake of taking an old marker for one of the epochs that the partition knows of.
fn of_now(marker: TransactionMarker, partition: &SimPartition) -> TransactionMarker {
    let known = partition.producers().unwrap_or_default();
    let producer = known
        .iter()
        .find(|known| known.producer_id == marker.producer_id);
    producer.map_or(marker, |known| TransactionMarker {
        producer_epoch: known.producer_epoch.max(marker.producer_epoch),
        coordinator_epoch: known.coordinator_epoch.max(marker.coordinator_epoch),
        ..marker
    })
}

/// Waits until a marker is on every in-sync replica.
fn replicated(
    partition: Arc<SimPartition>,
    leadership: replication::Leadership,
    end_offset: i64,
) -> Replicated {
    Box::pin(async move {
        partition
            .wait_until_replicated(leadership, Offset(end_offset))
            .await
    })
}
