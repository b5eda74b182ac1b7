//! The invariants of a cluster by small histories, as the promises to clients have them (`crate::judge::tests`).
//!
//! ```text
//!   partition replicas=1,2 isr=1,2 elr=3 leader=1 epoch=1 change=1 fenced=3    as the controller has it
//!   view 1 start=0 high=1 end=1 epoch=1 leader    a replica as it is; without values it is there no more
//!   match 1/2:a@0:1,b@1:1 2/2:a@0:1               broker/high watermark:records of two replicas
//!   restarted 1     now 7000     silent 1 since=0
//!   died 1 start=0                                the start of the log that it had noted
//!   deleted 5 epoch=1 alive=2 others=3            a leader answers; the other replicas, as it knows them
//! ```

use super::{Deleted, Judge, ReplicaRecord, ReplicaView};
use crate::judge::Promise;
use crate::judge::tests::{Row, Step, check};
use metadata::{BrokerRegistration, MIGRATING_DIRECTORY, MetadataImage, MetadataRecord, Partition};
use model::{BrokerEpoch, BrokerId, LeaderEpoch, Uuid};
use std::collections::BTreeMap;

const LOG: (Uuid, i32) = (Uuid::from_u128(1), 0);

fn play(history: &str) -> Option<Promise> {
    let (mut judge, mut image) = (Judge::default(), MetadataImage::default());
    for step in Step::all(history) {
        let broker = || BrokerId(step.first() as i32);
        match step.verb {
            "partition" => {
                image = image_of(&step);
                judge.controller(&image);
            }
            "view" => judge.replicas(broker(), &view(&step), Some(&image)),
            "restarted" => judge.restarted(broker()),
            "died" => {
                let noted = step.number("start").map(|start| (LOG, start));
                judge.died(broker(), &noted.into_iter().collect());
                judge.restarted(broker());
            }
            "deleted" => judge.deleted(&deleted(&step)),
            "now" => judge.promises.now_ms = step.first(),
            "silent" => judge.silent(broker(), step.number("since").unwrap(), &image),
            "match" => {
                let [one, other] = [0, 1].map(|at| replica(step.words[at]));
                judge.matching(LOG, (one.0, one.1, &one.2), (other.0, other.1, &other.2));
            }
            verb => panic!("`{verb}` is no step"),
        }
    }
    judge.verdict().map(|verdict| verdict.promise)
}

fn ids(step: &Step<'_>, name: &str) -> Vec<BrokerId> {
    let ids = step.text(name).unwrap_or_default().split(',');
    let ids = ids.filter(|id| !id.is_empty());
    ids.map(|id| BrokerId(id.parse().unwrap())).collect()
}

fn image_of(step: &Step<'_>) -> MetadataImage {
    let fenced = ids(step, "fenced");
    let brokers = [1, 2, 3].map(|id| {
        MetadataRecord::RegisterBroker(BrokerRegistration {
            id: BrokerId(id),
            epoch: BrokerEpoch(1),
            incarnation_id: Uuid::from_u128(1),
            endpoints: Vec::new(),
            features: BTreeMap::new(),
            rack: None,
            is_fenced: fenced.contains(&BrokerId(id)),
            is_in_controlled_shutdown: false,
            is_migrating_zk_broker: false,
            directories: Vec::new(),
            cordoned_directories: None,
        })
    });
    let replicas = ids(step, "replicas");
    let partition = Partition {
        directories: vec![MIGRATING_DIRECTORY; replicas.len()],
        replicas,
        isr: ids(step, "isr"),
        eligible_leader_replicas: ids(step, "elr"),
        leader: BrokerId(step.number("leader").unwrap() as i32),
        leader_epoch: LeaderEpoch(step.number("epoch").unwrap_or(1) as i32),
        partition_epoch: step.number("change").unwrap_or(1) as i32,
        ..Partition::default()
    };
    let topic = MetadataRecord::Topic {
        name: "t".to_owned(),
        topic_id: LOG.0,
    };
    let partition = MetadataRecord::Partition {
        topic_id: LOG.0,
        partition_id: LOG.1,
        partition,
    };
    let mut image = MetadataImage::default();
    for record in brokers.into_iter().chain([topic, partition]) {
        image.replay(&record).unwrap();
    }
    image
}

fn view(step: &Step<'_>) -> Vec<ReplicaView> {
    let view = step.number("end").map(|log_end_offset| ReplicaView {
        broker: BrokerId(step.first() as i32),
        log: LOG,
        is_leader: step.has("leader"),
        leader_epoch: LeaderEpoch(step.number("epoch").unwrap_or(1) as i32),
        log_start_offset: step.number("start").unwrap_or(0),
        last_stable_offset: 0,
        high_watermark: step.number("high").unwrap_or(log_end_offset),
        log_end_offset,
    });
    view.into_iter().collect()
}

fn deleted(step: &Step<'_>) -> Deleted {
    let named = |name, is_alive| ids(step, name).into_iter().map(move |id| (id, is_alive));
    Deleted {
        log: LOG,
        end_offset: step.first(),
        leader_epoch: LeaderEpoch(step.number("epoch").unwrap_or(1) as i32),
        followers: named("alive", true).chain(named("others", false)).collect(),
    }
}

fn replica(word: &str) -> (BrokerId, i64, Vec<ReplicaRecord>) {
    let (of, records) = word.split_once(':').unwrap();
    let (broker, high_watermark) = of.split_once('/').unwrap();
    let records = records.split(',').filter(|record| !record.is_empty());
    let records = records.map(|record| {
        let (value, at) = record.split_once('@').unwrap();
        let (offset, epoch) = at.split_once(':').unwrap();
        let epoch = LeaderEpoch(epoch.parse().unwrap());
        (offset.parse().unwrap(), epoch, value.to_owned())
    });
    (
        BrokerId(broker.parse().unwrap()),
        high_watermark.parse().unwrap(),
        records.collect(),
    )
}

#[rustfmt::skip]
pub(crate) const JUDGED: &[Row] = {
    use Promise::*;
    &[
    (ValidControllerIsrAndElr, "partition replicas=1,2 isr=1,3 leader=1", "partition replicas=1,2 isr=1,2 leader=1"),
    (ValidControllerIsrAndElr, "partition replicas=1,2 isr=1 elr=3 leader=1", "partition replicas=1,2 isr=1 elr=2 leader=1"),
    (ValidControllerIsrAndElr, "partition replicas=1,2 isr=1,2 elr=2 leader=1", "partition replicas=1,2 isr=1 elr=2 leader=1"),
    (LeaderIsInSync, "partition replicas=1,2 isr=2 leader=1", "partition replicas=1,2 isr=2 leader=2"),
    (LeaderIsInSync, "partition replicas=1,2 isr= leader=1", "partition replicas=1,2 isr= elr=1,2 leader=-1"),
    (ValidControllerState, "partition replicas=1,2 isr=1,2 leader=1 fenced=2", "partition replicas=1,2 isr=1 leader=1 fenced=2"),
    (ValidControllerState, "partition replicas=1,4 isr=1,4 leader=1", "partition replicas=1,4 isr=1 leader=1"),
    (PartitionEpochsNeverGoBack, "partition replicas=1 isr=1 leader=1 epoch=2; partition replicas=1 isr=1 leader=1 epoch=1",
        "partition replicas=1 isr=1 leader=1 epoch=2; partition replicas=1 isr=1 leader=1 epoch=2"),
    (PartitionEpochsNeverGoBack, "partition replicas=1 isr=1 leader=1 change=2; partition replicas=1 isr=1 leader=1 change=1",
        "partition replicas=1 isr=1 leader=1 change=1; partition replicas=1 isr=1 leader=1 change=2"),
    (LeaderCompleteness, "partition replicas=1,2 isr=1,2 leader=2; view 1 end=5 leader epoch=0; view 2 end=4 leader",
        "partition replicas=1,2 isr=1,2 leader=2; view 1 end=5 leader epoch=0; view 2 end=5 leader"),
    (LeaderCompleteness, "partition replicas=1 isr=1 leader=1; view 1 end=5 leader; view 1 end=4 leader",
        "partition replicas=1,2 isr=1 leader=1; view 1 end=5 leader; view 2 end=4"),
    // It led before, and does not know of the next leader yet.
    (LeaderCandidateCompleteness, "partition replicas=1,2 isr=1,2 leader=2 epoch=2; view 2 end=5 leader epoch=2; view 1 end=4 leader",
        "partition replicas=1,2 isr=2 leader=2 epoch=2; view 2 end=5 leader epoch=2; view 1 end=4 leader"),
    (LeaderCandidateCompleteness, "partition replicas=1,2 isr=1,2 leader=1; view 1 end=5 leader; view 2 end=4",
        "partition replicas=1,2 isr=1,2 leader=1; view 1 end=5 high=4 leader; view 2 end=4"),
    (LeaderCandidateCompleteness, "partition replicas=1,2 isr=1 elr=2 leader=1; view 1 end=5 leader; view 2 end=4",
        "partition replicas=1,2 isr=1 elr=2 leader=1; view 2 end=5; view 1 end=4 leader"),
    // The highest that a leader has shown counts, not the last.
    (LeaderCandidateCompleteness, "partition replicas=1,2 isr=1,2 leader=1; view 1 end=5 leader; view 1 end=5 high=3 leader; view 2 end=4",
        "partition replicas=1,2 isr=1,2 leader=1; view 1 end=5 leader; view 1 end=5 high=3 leader; view 2 end=5"),
    (LeaderEpochsNeverGoBack, "view 1 end=0 epoch=2; view 1 end=0 epoch=1", "view 1 end=0 epoch=2; view 2 end=0 epoch=1"),
    (LeaderEpochsNeverGoBack, "view 1 end=0 epoch=2; restarted 2; view 1 end=0 epoch=1",
        "view 1 end=0 epoch=2; restarted 1; view 1 end=0 epoch=1"),
    (WatermarksAreInOrder, "view 1 end=1 high=2", "view 1 end=2 high=1"),
    (WatermarksAreInOrder, "view 1 end=1 start=-1", "view 1 end=1 start=1"),
    (WatermarksAreInOrder, "view 1 end=3 high=1 start=2", "view 1 end=3 high=2 start=2"),
    (LogStartNeverGoesBack, "view 1 end=2 start=2; view 1 end=2 start=1", "view 1 end=2 start=2; view 2 end=2 start=1"),
    (LogStartNeverGoesBack, "view 1 end=2 start=2; view 2; view 1 end=2 start=1", "view 1 end=2 start=2; view 1; view 1 end=2 start=1"),
    (LogStartNeverGoesBack, "view 1 end=2 start=2; restarted 2; view 1 end=2 start=1",
        "view 1 end=2 start=2; restarted 1; view 1 end=2 start=1"),
    // A leader has waited for who is alive, and what was not alive has deleted nothing yet.
    (DeletionIsKept, "view 1 start=5 end=9 leader; view 2 end=9; deleted 5 alive=2", "view 1 start=5 end=9 leader; view 2 end=9; deleted 5 others=2"),
    (DeletionIsKept, "view 1 start=5 end=9 leader; view 2 start=4 end=9; deleted 5 alive=2",
        "view 1 start=5 end=9 leader; view 2 start=5 end=9; deleted 5 alive=2"),
    (DeletionIsKept, "view 2 start=5 end=9; restarted 2; deleted 5 alive=2; view 2 end=9 leader epoch=2",
        "view 2 end=9; deleted 5 others=2; view 2 end=9 leader epoch=2"),
    // It has followed meanwhile: it is no other than those that were alive.
    (DeletionIsKept, "view 2 end=9; deleted 5 others=2; view 2 start=5 end=9; restarted 2; view 2 end=9 leader epoch=2",
        "view 2 end=9; deleted 5 others=2; view 2 start=5 end=9; view 2 start=5 end=9 leader epoch=2"),
    // It dies before, or after, it has noted where its log starts, before or after the leader has answered.
    (DeletionIsKept, "view 2 start=5 end=9; deleted 5 alive=2; died 2 start=5; view 2 end=9 leader epoch=2",
        "view 2 start=5 end=9; deleted 5 alive=2; died 2 start=4; view 2 end=9 leader epoch=2"),
    (DeletionIsKept, "view 2 start=5 end=9; died 2 start=5; deleted 5 alive=2; view 2 end=9 leader epoch=2",
        "view 2 start=5 end=9; died 2 start=4; deleted 5 alive=2; view 2 end=9 leader epoch=2"),
    (DeletionIsKept, "view 2 start=5 end=9; deleted 5 alive=2; died 2; view 2 end=9 leader epoch=2",
        "view 2 start=5 end=9; deleted 5 alive=2; died 1 start=0; view 2 start=5 end=9 leader epoch=2"),
    (DeletionIsKept, "deleted 5; died 1 start=0; view 2 end=9 leader epoch=2", "deleted 5; died 1 start=0; view 1 end=9 leader epoch=2"),
    // What one such leader has counts for those that follow it; later deletions, and others', count on.
    (DeletionIsKept, "view 2 end=9; deleted 5 others=2; view 3 end=9 leader epoch=3",
        "view 2 end=9; deleted 5 others=2; view 2 end=9 leader epoch=2; view 3 end=9 leader epoch=3"),
    (DeletionIsKept, "deleted 5 others=2; view 2 end=9 leader epoch=2; deleted 3 epoch=2 alive=3",
        "deleted 5 others=2; view 2 end=9 leader epoch=2; deleted 3 epoch=2 others=3; view 3 end=9 leader epoch=3"),
    (DeletionIsKept, "view 2 start=5 end=9; deleted 5 alive=2; deleted 7 others=2; restarted 2; view 2 end=9 leader epoch=2",
        "view 2 start=5 end=9; deleted 5 alive=2; deleted 7 others=2; restarted 2; view 2 start=5 end=9 leader epoch=2"),
    // A leader that was replaced, and has not heard of it: neither may it undo, nor does it bind the next one.
    (DeletionIsKept, "deleted 5 epoch=2; view 1 end=9 leader epoch=3", "deleted 5 epoch=2; view 1 end=9 leader epoch=1"),
    (DeletionIsKept, "view 3 end=9 leader epoch=2; deleted 5 epoch=2; view 2 end=9 leader epoch=3",
        "view 3 end=9 leader epoch=2; deleted 5 epoch=1; view 3 end=9 leader epoch=2"),
    (EpochHasOneLeader, "view 1 end=0 leader; view 2 end=0 leader", "view 1 end=0 leader; view 2 end=0 leader epoch=2"),
    (EpochHasOneLeader, "view 1 end=0 leader; restarted 1; view 2 end=0 leader", "view 1 end=0 leader; restarted 1; view 1 end=0 leader"),
    (LogMatching, "match 1/1:a@0:1 2/1:b@0:1", "match 1/1:a@0:1 2/1:a@0:1"),
    (LogMatching, "match 1/1:a@0:1 2/1:a@0:2", "match 1/0:a@0:1 2/1:a@0:2"),
    (LogMatching, "match 1/2:a@0:1,b@1:1 2/2:a@0:1", "match 1/2:a@0:1,b@1:1 2/1:a@0:1"),
    (LogMatching, "match 1/3:a@0:1,b@1:1,c@2:1 2/3:b@1:1", "match 1/2:a@0:1,b@1:1 2/2:b@1:1"),
    (SilentBrokerIsFenced, "partition replicas=1 isr=1 leader=1; now 6001; silent 2 since=0", "partition replicas=1 isr=1 leader=1; now 6000; silent 2 since=0"),
    (SilentBrokerIsFenced, "partition replicas=1 isr=1 leader=1; now 6001; silent 2 since=0",
        "partition replicas=1 isr=1 leader=1 fenced=2; now 6001; silent 2 since=0"),
    (SilentBrokerIsFenced, "partition replicas=1 isr=1 leader=1; now 6001; silent 2 since=0", "now 6001; silent 2 since=0"),
    ]
};

#[test]
fn the_cluster_is_judged() {
    check(JUDGED, play);
}

#[test]
fn who_leads_in_an_older_epoch_than_another_one_was_replaced() {
    let mut judge = Judge::default();
    let mut look = |history: &str| {
        let step = Step::all(history).next().unwrap();
        let view = view(&step).remove(0);
        judge.replicas(view.broker, std::slice::from_ref(&view), None);
        judge.is_replaced(&view)
    };
    assert!(!look("view 1 end=0 epoch=4 leader"));
    assert!(!look("view 2 end=0 epoch=5 leader"));
    assert!(look("view 1 end=0 epoch=4 leader"));
    assert!(!look("view 1 end=0 epoch=4"));
    assert!(!look("view 1 end=0 epoch=6 leader"));
}
