//! Turns between the partitions of a fetch.

use super::*;
use std::pin::pin;
use std::task::Poll;

fn unknown(index: i32) -> Part {
    Part {
        topic: SessionTopic::Name("topic".into()),
        index,
        request: FetchPartition {
            current_leader_epoch: LeaderEpoch::NONE,
            fetch_offset: 0,
            last_fetched_epoch: LeaderEpoch::NONE,
            log_start_offset: -1,
            max_bytes: 1,
        },
        slot: PartitionSlot(index as u32),
        partition: Err(Absence::Unknown),
        seen: Seen::default(),
        result: Err(ErrorCode::UnknownServerError),
        leader: (NO_LEADER, LeaderEpoch::NONE),
        failure: None,
    }
}

/// How often others have their turn while three partitions are read.
async fn turns_of_others(mut turn: Option<Turn>) -> usize {
    let limits = Limits {
        max_bytes: 1,
        min_bytes: 0,
        max_wait: Duration::ZERO,
        isolation: Isolation::LogEnd,
        is_follower: false,
        node_id: 1,
    };
    let mut parts = [unknown(0), unknown(1), unknown(2)];
    let mut turns = 0;
    {
        let disks = DiskWatch::new(std::iter::empty());
        let mut reading = pin!(read(&disks, &mut parts, 0.., 0, limits, &mut turn));
        std::future::poll_fn(|context| match reading.as_mut().poll(context) {
            Poll::Ready(_) => Poll::Ready(()),
            Poll::Pending => {
                turns += 1;
                Poll::Pending
            }
        })
        .await;
    }
    let read = parts.iter().filter(|part| {
        part.result
            .as_ref()
            .is_err_and(|error| *error == ErrorCode::UnknownTopicOrPartition)
    });
    assert_eq!(read.count(), 3);
    turns
}

#[tokio::test]
async fn others_have_their_turn_between_the_partitions() {
    let began = std::time::Instant::now() - Duration::from_secs(1);
    assert!(turns_of_others(Some(Turn(began))).await >= 1);
    assert_eq!(turns_of_others(None).await, 0);
}
