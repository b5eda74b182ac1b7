//! What contradicts what a consumer has read, by small histories: `read 3:1` the record at 3 of epoch 1, `ends 4` by
//! ListOffsets, `epoch 1 4` the answer to OffsetForLeaderEpoch.

use super::{Answer, Probes};
use crate::judge::tests::{Row, Step, check};
use crate::judge::{Judge, Promise};
use crate::protocol::{self, Fetched};
use model::{ErrorCode, LeaderEpoch, Uuid};
use record::{BatchBuilder, BatchHeader};

const LOG: (Uuid, i32) = (Uuid::from_u128(1), 0);

fn play(history: &str) -> Option<Promise> {
    let (mut judge, mut probes) = (Judge::of_cluster(), Probes::default());
    for step in Step::all(history) {
        let answer = match step.verb {
            "read" => {
                fetch(&mut probes, step.words[0]);
                continue;
            }
            "ends" => Answer::EndOffset(Ok(step.first())),
            "epoch" => {
                let end_offset = step.words[1].parse().unwrap();
                Answer::EpochEnd(Ok((LeaderEpoch(step.first() as i32), end_offset)))
            }
            "refused" => Answer::EndOffset(Err(ErrorCode::OffsetNotAvailable)),
            verb => panic!("`{verb}` is no step"),
        };
        probes.asked = Some((LOG, LeaderEpoch(9)));
        probes.answered(answer, &mut judge);
    }
    judge.verdict().map(|verdict| verdict.promise)
}

fn fetch(probes: &mut Probes, word: &str) {
    let (offset, epoch) = word.split_once(':').unwrap();
    let mut builder = BatchBuilder::new(BatchHeader {
        base_offset: offset.parse().unwrap(),
        partition_leader_epoch: LeaderEpoch(epoch.parse().unwrap()),
        ..BatchHeader::default()
    });
    builder.append(0, None, Some(b"a"), &[]);
    let ask = protocol::Ask::Fetch {
        topic_id: LOG.0,
        partition: LOG.1,
        offset: 0,
        is_committed: false,
    };
    let fetched = Fetched {
        records: builder.into_uncompressed(),
        ..Fetched::refused(ErrorCode::None)
    };
    probes.fetched(&ask, &fetched);
}

#[rustfmt::skip]
pub(crate) const PROBED: &[Row] = {
    use Promise::*;
    &[
    (EndNeverGoesBack, "ends 4; ends 3", "ends 4; refused; ends 4"),
    (EndNeverGoesBack, "ends 4; ends 5; ends 4", "ends 4; ends 5"),
    (EndNeverGoesBack, "read 3:1; ends 3", "read 3:1; ends 4"),
    (ReadIsOfItsEpoch, "read 3:1; epoch 1 3", "read 3:1; epoch 1 4"),
    (ReadIsOfItsEpoch, "read 3:2; epoch 1 9", "read 3:2; epoch 3 1"),
    (ReadIsOfItsEpoch, "read 3:2; epoch -1 -1", "epoch -1 -1"),
    ]
};

#[test]
fn probes_are_judged() {
    check(PROBED, play);
}
