//! Turns between the partitions of a fetch.

use super::*;
use metadata::NO_LEADER;
use model::{LeaderEpoch, Offset, Uuid};
use replication::{Seen, TopicRef};
use std::pin::pin;
use std::task::Poll;

const LIMITS: Limits = Limits {
    max_bytes: 1,
    min_bytes: 0,
    max_wait: Duration::ZERO,
    isolation: Isolation::LogEnd,
    follower: None,
    is_leader_asked: true,
    rack: None,
    node_id: BrokerId(1),
};

fn unknown(index: i32) -> Part {
    Part {
        topic: SessionTopic::Name("topic".into()),
        index,
        request: FetchPartition {
            current_leader_epoch: LeaderEpoch::NONE,
            fetch_offset: Offset(0),
            last_fetched_epoch: LeaderEpoch::NONE,
            log_start_offset: Offset::NONE,
            max_bytes: 1,
        },
        slot: PartitionSlot(index as u32),
        partition: Err(Unavailable::Unknown),
        seen: Seen::default(),
        seen_high_watermark: None,
        preferred_read_replica: BrokerId::NONE,
        result: Err(ErrorCode::UnknownServerError),
        leader: (NO_LEADER, LeaderEpoch::NONE),
        failure: None,
    }
}

/// As in an answer for which there is no file descriptor any more.
#[test]
fn who_is_put_off_hears_of_the_leader() {
    use model::TopicPartition;
    use replication::{LogHost, Role};
    use storage::{Log, LogOpening, OpenFiles, RealDisk};
    let directory = trials::directory();
    let path = directory.path().join("topic-0");
    let name = TopicPartition::new("topic", 0);
    let log = Log::create(LogOpening::new(RealDisk, path, name)).unwrap();
    let host = Arc::new(LogHost::new(RealDisk, Arc::new(OpenFiles::new(usize::MAX))));
    let role = Role::Follower {
        leader: BrokerId(7),
        leader_epoch: LeaderEpoch(3),
    };
    let place = directory.path().display().to_string().into();
    let partition = Partition::host(&host, log, Uuid::ZERO, place, (role, Offset(0))).unwrap();
    let mut part = Part {
        partition: Ok(Arc::new(partition)),
        ..unknown(0)
    };
    part.put_off(&LIMITS);
    assert_eq!(part.outcome().error, ErrorCode::NotLeaderOrFollower);
    assert_eq!(part.current_leader(), Some((BrokerId(7), LeaderEpoch(3))));
}

/// How often others have their turn while three partitions are read.
async fn turns_of_others(mut turn: Option<Turn>) -> usize {
    let mut parts = [unknown(0), unknown(1), unknown(2)];
    let mut turns = 0;
    {
        let disks = DiskWatch::new(std::iter::empty());
        let mut reading = pin!(read(&disks, &mut parts, 0.., 0, &LIMITS, &mut turn));
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

/// It may be as long as the request, which may name any number of them.
#[test]
fn partitions_of_a_topic_share_its_name() {
    let mut topics = OwnedTopics::default();
    let owned = ["topic", "topic", "other"].map(|name| topics.owned(TopicRef::Name(name)));
    let [
        SessionTopic::Name(first),
        SessionTopic::Name(second),
        SessionTopic::Name(other),
    ] = owned
    else {
        panic!("{owned:?}");
    };
    assert!(Arc::ptr_eq(&first, &second));
    assert_eq!(&*other, "other");
}
