//! Events of coordinators that are served by who brings them: quick ones, while nobody else has their partition.

use super::stuck::StuckCall;
use super::*;
use crate::coordinators::groups::Groups;
use crate::coordinators::runtime::{PendingResponse, unparked};
use crate::scheduling::disk_watch::DiskUse;
use coordinator::Decision;
use coordinator::group::{GroupConfig, GroupShard};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;
use wire::messages::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, JoinGroupRequest,
};

const GROUP: &str = "group";

/// Where an event waits until it may go on. It does not sleep: a thread that does is one whose disk is slow.
#[derive(Clone, Default)]
struct Gate(Arc<(AtomicBool, AtomicBool)>);

impl Gate {
    fn pass(&self) {
        let (is_reached, is_open) = &*self.0;
        is_reached.store(true, Ordering::SeqCst);
        let begun = Instant::now();
        while !is_open.load(Ordering::SeqCst) {
            assert!(begun.elapsed() < testkit::LIMIT, "nobody opens the gate");
            thread::yield_now();
        }
    }

    fn wait_until_reached(&self) {
        wait_until("the gate is reached", || self.0.0.load(Ordering::SeqCst));
    }

    fn open(&self) {
        self.0.1.store(true, Ordering::SeqCst);
    }
}

fn own_name() -> String {
    thread::current().name().unwrap_or_default().to_owned()
}

fn is_of_coordinators(name: &str) -> bool {
    name.starts_with("coordinator-")
}

/// A server that coordinates [`GROUP`].
struct Coordinating {
    running: Running,
    client: Client,
    _directory: trials::Directory,
}

impl Coordinating {
    fn start() -> Self {
        let directory = trials::directory();
        let running = Running::start(&[directory.path()]);
        let mut client = running.connect();
        client.create_topic("topic", 1, &[]);
        client.wait_for_coordinator(GROUP);
        Self {
            running,
            client,
            _directory: directory,
        }
    }

    fn groups(&self) -> &Arc<Groups> {
        &self.running.broker().coordinators.groups
    }

    /// Brings an event; it gives the name of the thread that serves it.
    fn bring(
        &self,
        is_quick: bool,
        event: impl FnOnce(&mut GroupShard) + Send + 'static,
    ) -> PendingResponse<String> {
        self.bring_bytes(0, is_quick, event)
    }

    /// The same, with a request of so many bytes.
    fn bring_bytes(
        &self,
        bytes: usize,
        is_quick: bool,
        event: impl FnOnce(&mut GroupShard) + Send + 'static,
    ) -> PendingResponse<String> {
        let room = self.groups().room_for(GROUP, bytes);
        let room = self.running.runtime.block_on(room).unwrap();
        let decide = |shard: &mut GroupShard, _| {
            event(shard);
            Decision::reply(own_name())
        };
        match is_quick {
            true => room.decide_quickly(&|_| true, None, decide),
            false => room.decide(None, decide, unparked),
        }
    }

    fn answer<R>(&self, asked: PendingResponse<R>) -> Result<R, ErrorCode> {
        let answer = async { tokio::time::timeout(testkit::LIMIT, asked.answer()).await };
        self.running.runtime.block_on(answer).unwrap()
    }

    fn wait_until_idle(&self) {
        wait_until("nobody has the partition", || {
            !self.groups().is_at_work(GROUP)
        });
    }

    /// The thread that serves a quick event when nothing else is to be done, as is so after it.
    fn quick_thread(&self) -> String {
        self.wait_until_idle();
        let name = self.answer(self.bring(true, |_| ())).unwrap();
        self.wait_until_idle();
        name
    }
}

#[test]
fn a_quick_event_is_served_where_it_is_brought() {
    let coordinating = Coordinating::start();
    // The coordinator takes over what it is told.
    coordinating.quick_thread();
    assert_eq!(coordinating.quick_thread(), own_name());
    let slow = coordinating.answer(coordinating.bring(false, |_| ()));
    assert!(is_of_coordinators(&slow.unwrap()));
    coordinating.wait_until_idle();
    let small = coordinating.answer(coordinating.bring_bytes(2_047, true, |_| ()));
    assert_eq!(small.unwrap(), own_name());
    let large = coordinating.answer(coordinating.bring_bytes(2_048, true, |_| ()));
    assert!(is_of_coordinators(&large.unwrap()));
}

/// To take them over may take long.
#[test]
fn news_are_taken_over_by_a_thread_of_the_coordinators() {
    let coordinating = Coordinating::start();
    coordinating.quick_thread();
    coordinating.groups().set_config(GroupConfig::default());
    assert!(is_of_coordinators(&coordinating.quick_thread()));
    assert_eq!(coordinating.quick_thread(), own_name());
    let image = coordinating.running.broker().node.image();
    let topic = coordinator::group::DeletedTopic {
        name: "gone",
        topic_id: model::Uuid::from_u128(7),
    };
    coordinating.groups().note_deleted_topics(&image, &[topic]);
    assert!(is_of_coordinators(&coordinating.quick_thread()));
    assert_eq!(coordinating.quick_thread(), own_name());
}

#[test]
fn a_quick_event_waits_for_the_thread_that_has_its_partition() {
    let coordinating = Coordinating::start();
    coordinating.quick_thread();
    let gate = Gate::default();
    let kept = gate.clone();
    let first = coordinating.bring(false, move |_| kept.pass());
    gate.wait_until_reached();
    let second = coordinating.bring(true, |_| ());
    assert_eq!(coordinating.groups().queued_count(GROUP), 1);
    gate.open();
    for asked in [first, second] {
        assert!(is_of_coordinators(&coordinating.answer(asked).unwrap()));
    }
}

#[test]
fn what_comes_during_a_quick_event_is_served_after_it_in_its_order() {
    let coordinating = Coordinating::start();
    coordinating.quick_thread();
    let (gate, served) = (Gate::default(), Arc::new(Mutex::new(Vec::new())));
    let note = |number| {
        let served = served.clone();
        move |_: &mut GroupShard| served.lock().push(number)
    };
    thread::scope(|scope| {
        let (passed, note_first) = (gate.clone(), note(0));
        let coordinating = &coordinating;
        let first = scope.spawn(move || {
            let first = coordinating.bring(true, move |shard| {
                passed.pass();
                note_first(shard);
            });
            (coordinating.answer(first).unwrap(), own_name())
        });
        gate.wait_until_reached();
        let later = [(1, false), (2, true), (3, false)];
        let later = later.map(|(number, is_quick)| coordinating.bring(is_quick, note(number)));
        assert_eq!(coordinating.groups().queued_count(GROUP), 3);
        gate.open();
        let (served_by, brought_by) = first.join().unwrap();
        assert_eq!(served_by, brought_by);
        for asked in later {
            assert!(is_of_coordinators(&coordinating.answer(asked).unwrap()));
        }
    });
    assert_eq!(*served.lock(), [0, 1, 2, 3]);
}

#[test]
fn of_many_events_none_is_forgotten_and_none_is_served_beside_another() {
    const BRINGERS: usize = 4;
    const EVENTS: usize = 500;
    let coordinating = Coordinating::start();
    let is_serving = Arc::new(AtomicBool::new(false));
    let served = Arc::new(AtomicUsize::new(0));
    thread::scope(|scope| {
        for bringer in 0..BRINGERS {
            let (coordinating, is_serving, served) = (&coordinating, &is_serving, &served);
            scope.spawn(move || {
                let mut asked = Vec::new();
                for number in 0..EVENTS {
                    let (is_serving, served) = (is_serving.clone(), served.clone());
                    let event = move |_: &mut GroupShard| {
                        assert!(!is_serving.swap(true, Ordering::SeqCst), "two at a time");
                        served.fetch_add(1, Ordering::SeqCst);
                        is_serving.store(false, Ordering::SeqCst);
                    };
                    asked.push(coordinating.bring((bringer + number) % 3 != 0, event));
                    // Now and then nothing is left to be done.
                    if number % 5 == 0 {
                        for one in asked.drain(..) {
                            coordinating.answer(one).unwrap();
                        }
                    }
                }
                for one in asked {
                    coordinating.answer(one).unwrap();
                }
            });
        }
    });
    assert_eq!(served.load(Ordering::SeqCst), BRINGERS * EVENTS);
}

/// The log directory is slow for as long as somebody waits for a log in it.
#[test]
fn an_event_of_a_slow_disk_is_served_by_a_thread_of_the_coordinators() {
    let coordinating = Coordinating::start();
    coordinating.quick_thread();
    let stuck = StuckCall::begin(&coordinating.running, "topic");
    thread::scope(|scope| {
        let mut client = coordinating.running.connect();
        let producing = scope.spawn(move || client.produce("topic", 0, &batch(&["value"])).error);
        let disks = &coordinating.running.broker().logs.disks;
        wait_until("the directory is slow", || disks.is_slow(0, DiskUse::Write));
        assert!(is_of_coordinators(&coordinating.quick_thread()));
        stuck.end();
        assert_eq!(producing.join().unwrap(), ErrorCode::None);
    });
}

#[test]
fn nothing_is_served_after_the_end_of_the_threads() {
    let coordinating = Coordinating::start();
    coordinating.quick_thread();
    coordinating.running.broker().coordinators.end();
    let asked = coordinating.bring(true, |_| ());
    assert_eq!(coordinating.answer(asked), Err(ErrorCode::NotCoordinator));
}

#[test]
fn after_a_quick_event_that_failed_the_state_is_what_the_log_says() {
    let mut coordinating = Coordinating::start();
    let committed = coordinating.client.commit_offset(GROUP, "topic", 7);
    assert_eq!(committed, ErrorCode::None);
    coordinating.quick_thread();
    let thread = Arc::new(Mutex::new(String::new()));
    let noted = thread.clone();
    let failed = coordinating.bring(true, move |shard| {
        *noted.lock() = own_name();
        *shard = GroupShard::new(GroupConfig::default());
        panic!("a test of this");
    });
    // Nobody knows what has become of it.
    let failed = coordinating.answer(failed);
    assert_eq!(failed, Err(ErrorCode::UnknownServerError));
    assert_eq!(*thread.lock(), own_name());
    let client = &mut coordinating.client;
    wait_until("it is loaded again", || {
        client.try_committed_offset(GROUP, "topic", 0) != Err(ErrorCode::CoordinatorLoadInProgress)
    });
    assert_eq!(client.committed_offset(GROUP, "topic", 0), 7);
    coordinating.quick_thread();
    assert_eq!(coordinating.quick_thread(), own_name());
}

/// A heartbeat of a member of a consumer group; in epoch 0 it joins. Gives its epoch.
fn beat(client: &mut Client, group: &str, epoch: i32) -> i32 {
    let joins = epoch == 0;
    let request = ConsumerGroupHeartbeatRequest {
        group_id: group,
        member_id: "member",
        member_epoch: epoch,
        rebalance_timeout_ms: if joins { 10_000 } else { -1 },
        subscribed_topic_names: joins.then(|| vec!["topic"].into()),
        topic_partitions: joins.then(|| Vec::new().into()),
        ..ConsumerGroupHeartbeatRequest::default()
    };
    let answer = client.call(1, &request);
    let response: ConsumerGroupHeartbeatResponse<'_> = answer.read();
    assert_eq!(response.error_code, 0, "{:?}", response.error_message);
    response.member_epoch
}

/// The coordinators' only thread is at an event of one partition. What is quick in another one needs no thread, and
/// what has a group assign its partitions waits for one: no worker does that.
#[test]
fn who_joins_waits_for_a_thread_and_who_lives_on_does_not() {
    let apart = coordinators::Apart::start();
    let [group, kept_group] = apart.groups.clone();
    let mut client = apart.running.connect();
    let epoch = beat(&mut client, &group, 0);
    // It is told of its partitions, and takes them.
    let epoch = beat(&mut client, &group, epoch);
    let groups = &apart.running.broker().coordinators.groups;
    let gate = Gate::default();
    let kept = gate.clone();
    let keeping = groups.room_for(&kept_group, 0);
    let keeping = apart.running.runtime.block_on(keeping).unwrap();
    let keep = move |_: &mut GroupShard, _| {
        kept.pass();
        Decision::reply(())
    };
    let keeping = keeping.decide(None, keep, unparked);
    gate.wait_until_reached();
    assert_eq!(beat(&mut client, &group, epoch), epoch);
    assert_eq!(client.committed_offset(&group, "topic", 0), 1);
    thread::scope(|scope| {
        let mut joining = apart.running.connect();
        let mut joining_classic = apart.running.connect();
        let request = JoinGroupRequest {
            group_id: &group,
            session_timeout_ms: 10_000,
            rebalance_timeout_ms: 10_000,
            protocol_type: "consumer",
            ..JoinGroupRequest::default()
        };
        let group = &group;
        let joined = scope.spawn(move || beat(&mut joining, group, 0));
        wait_until("it waits", || groups.queued_count(group) == 1);
        joining_classic.send(5, &request);
        wait_until("both wait", || groups.queued_count(group) == 2);
        gate.open();
        assert!(joined.join().unwrap() > 0);
        joining_classic.receive();
    });
    let kept = apart.running.runtime.block_on(keeping.answer());
    assert_eq!(kept, Ok(()));
}
