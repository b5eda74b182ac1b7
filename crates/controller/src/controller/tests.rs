//! Requests that share a flush of the metadata log: what they cost, and what becomes of them when the log
//! does not take them.

use super::*;
use crate::brokers::NewRegistration;
use crate::create_topics::NewTopic;
use crate::heartbeats::BrokerHeartbeat;
use crate::metadata_log::tests::{fixed_voter, new_disk, open, open_with};
use crate::requests::{CreateTopics, RegisterBroker, UnfenceBroker, UnregisterBroker};
use crate::test_cluster::TestCluster;
use crate::update_features::{FeatureUpdate, UpgradeType};
use crate::{UpdateFeatures, broker_features};
use model::{BrokerEpoch, BrokerId, ErrorCode, Offset, Uuid};
use storage::sim::SimDisk;

const BROKER: BrokerId = BrokerId(1);

struct World {
    disk: SimDisk,
    cluster: TestCluster,
    controller: Controller<&'static str, SimDisk>,
    drawn: u128,
}

impl World {
    /// A controller with one broker, which is its own.
    fn new() -> Self {
        let disk = new_disk();
        let log = open(&disk).expect("new");
        Self::over(disk, log)
    }

    fn over(disk: SimDisk, log: MetadataLog<SimDisk>) -> Self {
        let cluster = TestCluster::new(&[]);
        let controller = Controller::new(log, &cluster.context(), Now::at_ms(1_000));
        let mut world = Self {
            disk,
            cluster,
            controller,
            drawn: 0,
        };
        let registered = world.at_start(registration(BROKER, 7));
        let unfenced = world.at_start(UnfenceBroker {
            broker_id: BROKER,
            broker_epoch: registered.expect("it is the first"),
        });
        unfenced.expect("it has registered");
        world
    }

    /// Decides by itself; gives the answer.
    fn decide<R: Request>(&mut self, request: R, now_ms: i64) -> R::Response {
        let context = ControllerContext::new(&self.cluster.config);
        let drawn = &mut self.drawn;
        let mut random = || draw(drawn);
        let (request, now) = (request.into(), Now::at_ms(now_ms));
        let decided = self
            .controller
            .decide(&request, "", &context, now, &mut random);
        let answer = decided.answers.into_iter().next().expect("it is committed");
        R::response_of(answer.1).expect("of its kind")
    }

    /// Does all that is due.
    fn ticks(&mut self, now_ms: i64) {
        let context = ControllerContext::new(&self.cluster.config);
        let done = (0..10).find(|_| self.controller.tick(&context, Now::at_ms(now_ms)).is_none());
        assert!(done.is_some(), "there is always more to do");
    }

    /// What has become of brokers since it was asked for last.
    fn transitions(&mut self) -> Vec<String> {
        let transitions = self.controller.take_transitions().into_iter();
        let told = transitions.map(|one| format!("{} {:?}", one.broker_id, one.kind));
        told.collect()
    }

    fn at_start<R: Request>(&mut self, request: R) -> R::Response {
        let context = ControllerContext::new(&self.cluster.config);
        let now = Now::at_ms(1_000);
        let drawn = &mut self.drawn;
        let mut random = || draw(drawn);
        let decided = self
            .controller
            .decide_at_start(request, "start", &context, now, &mut random);
        decided.expect("there is room")
    }

    fn stage(&mut self, request: impl Request, asker: &'static str) {
        let context = ControllerContext::new(&self.cluster.config);
        let now = Now::at_ms(2_000);
        let drawn = &mut self.drawn;
        let mut random = || draw(drawn);
        self.controller
            .stage(&request.into(), asker, &context, now, &mut random);
    }

    /// Who is answered, whether a change was told, and who is refused.
    fn flush(&mut self) -> (Vec<String>, bool, Vec<&'static str>) {
        let decided = self.controller.flush(Now::at_ms(2_000));
        let answers = decided.answers.into_iter();
        let answers = answers.map(|(asker, response)| format!("{asker} {:?}", told(response)));
        let refused = decided.refused.into_iter().flat_map(|one| one.askers);
        (
            answers.collect(),
            decided.change.is_some(),
            refused.collect(),
        )
    }

    fn topics(&self) -> Vec<String> {
        let topics = self.controller.log.image().topics.iter();
        let mut names: Vec<_> = topics.map(|topic| topic.name.to_string()).collect();
        names.sort();
        names
    }
}

fn draw(drawn: &mut u128) -> [u8; 16] {
    *drawn += 1 << 70;
    drawn.to_be_bytes()
}

fn registration(broker_id: BrokerId, incarnation: u128) -> RegisterBroker {
    let registration = NewRegistration {
        broker_id,
        incarnation_id: Uuid::from_u128(incarnation),
        endpoints: Vec::new(),
        features: broker_features(),
        rack: None,
        directories: vec![Uuid::from_u128(
            1_000 * u128::from(broker_id.0.unsigned_abs()),
        )],
        previous_broker_epoch: BrokerEpoch::NONE,
        is_migrating_zk_broker: false,
    };
    RegisterBroker {
        registration,
        detects_clean_shutdown: true,
    }
}

/// Of a broker that has followed all metadata and wants to serve.
fn heartbeat(broker_id: BrokerId, broker_epoch: BrokerEpoch) -> BrokerHeartbeat {
    BrokerHeartbeat {
        broker_id,
        broker_epoch,
        metadata_offset: Offset::MAX,
        wants_fence: false,
        wants_shut_down: false,
        offline_directories: Vec::new(),
        cordoned_directories: None,
        deadline: MonotonicTime::MAX,
    }
}

fn create(topic: &str) -> CreateTopics {
    CreateTopics {
        topics: vec![NewTopic::of_defaults(topic)],
        validate_only: false,
    }
}

fn raise(feature: &str, level: i16) -> UpdateFeatures {
    UpdateFeatures {
        updates: vec![FeatureUpdate {
            feature: feature.to_owned(),
            level,
            upgrade_type: UpgradeType::Upgrade,
        }],
        validate_only: false,
    }
}

fn told(response: ControllerResponse) -> ErrorCode {
    match response {
        ControllerResponse::CreateTopics(results) => {
            let result = results[0].result.as_ref();
            result.map_or_else(|error| error.code, |_| ErrorCode::None)
        }
        ControllerResponse::UpdateFeatures(result) => {
            result.map_or_else(|error| error.code, |_| ErrorCode::None)
        }
        response => panic!("{response:?}"),
    }
}

#[test]
fn requests_that_share_a_flush_are_answered_together() {
    let mut world = World::new();
    let before = world.controller.log.end_offset();
    world.stage(create("a"), "first");
    world.stage(create("b"), "second");
    // It has seen what nobody has acknowledged yet.
    world.stage(create("a"), "again");
    assert!(world.topics().is_empty());
    let changes = world.disk.change_count();
    let (answers, is_told, refused) = world.flush();
    assert_eq!(
        answers,
        ["first None", "second None", "again TopicAlreadyExists"]
    );
    assert_eq!((is_told, refused), (true, vec![]));
    assert_eq!(world.topics(), ["a", "b"]);
    assert!(world.controller.log.end_offset() > before + 2);
    // As much as one request alone costs.
    let shared = world.disk.change_count() - changes;
    world.stage(create("c"), "alone");
    let changes = world.disk.change_count();
    assert_eq!(world.flush().0, ["alone None"]);
    assert_eq!(world.disk.change_count() - changes, shared);
    assert_eq!(world.flush(), (vec![], false, vec![]));
}

#[test]
fn what_a_flush_has_lost_is_refused_with_all_that_has_seen_it() {
    let mut world = World::new();
    world.stage(create("a"), "kept");
    assert_eq!(world.flush().0, ["kept None"]);
    world.stage(create("a"), "knows");
    world.stage(create("b"), "lost");
    world.stage(create("b"), "has seen it");
    world.disk.set_full(true);
    let (answers, is_told, refused) = world.flush();
    assert_eq!(answers, ["knows TopicAlreadyExists"]);
    assert_eq!((is_told, refused), (false, vec!["lost", "has seen it"]));
    world.stage(create("b"), "too early");
    let (answers, _, refused) = world.flush();
    assert_eq!((answers, refused), (vec![], vec!["too early"]));
    world.disk.set_full(false);
    world.stage(create("b"), "later");
    assert_eq!(world.flush().0, ["later None"]);
    assert_eq!(world.topics(), ["a", "b"]);
}

#[test]
fn the_quorums_own_level_is_raised_among_others() {
    let disk = new_disk();
    let log = open_with(&disk, fixed_voter(&disk)).expect("new");
    let mut world = World::over(disk, log);
    assert_eq!(world.controller.log.kraft_version(), 0);
    world.stage(create("a"), "first");
    world.stage(raise("kraft.version", 1), "level");
    world.stage(create("b"), "second");
    let (answers, is_told, refused) = world.flush();
    assert_eq!(answers, ["first None", "level None", "second None"]);
    assert_eq!((is_told, refused), (true, vec![]));
    assert_eq!(world.controller.log.kraft_version(), 1);
    assert_eq!(world.topics(), ["a", "b"]);
}

#[test]
fn a_level_that_is_not_raised_takes_along_what_was_to_be_flushed_before() {
    let disk = new_disk();
    let log = open_with(&disk, fixed_voter(&disk)).expect("new");
    let mut world = World::over(disk, log);
    world.stage(create("a"), "first");
    world.disk.set_full(true);
    world.stage(raise("kraft.version", 1), "level");
    world.disk.set_full(false);
    world.stage(create("b"), "second");
    let (answers, is_told, refused) = world.flush();
    assert_eq!(answers, ["second None"]);
    assert_eq!((is_told, refused), (true, vec!["first", "level"]));
    assert_eq!(world.controller.log.kraft_version(), 0);
    assert_eq!(world.topics(), ["b"]);
}

#[test]
fn each_step_in_the_life_of_a_broker_is_told_once() {
    let mut world = World::new();
    let own = ["1 Registered(AAAAAAAAAAAAAAAAAAAABw)", "1 Unfenced"];
    assert_eq!(world.transitions(), own);
    let other = BrokerId(2);
    let epoch = world
        .decide(registration(other, 8), 2_000)
        .expect("it is the first");
    assert_eq!(
        world.transitions(),
        ["2 Registered(AAAAAAAAAAAAAAAAAAAACA)"]
    );
    let heartbeat = |broker_epoch, wants_shut_down| BrokerHeartbeat {
        wants_shut_down,
        ..heartbeat(other, broker_epoch)
    };
    for expect in [&["2 Unfenced"] as &[_], &[]] {
        world
            .decide(heartbeat(epoch, false), 2_000)
            .expect("its epoch");
        assert_eq!(world.transitions(), expect);
    }
    world.ticks(60_000);
    assert_eq!(world.transitions(), ["2 Fenced(SessionExpired)"]);
    world
        .decide(heartbeat(epoch, false), 60_000)
        .expect("its epoch");
    assert_eq!(world.transitions(), ["2 Unfenced"]);
    let wants_fence = BrokerHeartbeat {
        wants_fence: true,
        ..heartbeat(epoch, false)
    };
    world.decide(wants_fence, 60_000).expect("its epoch");
    assert_eq!(world.transitions(), ["2 Fenced(Wanted)"]);
    world
        .decide(heartbeat(epoch, false), 60_000)
        .expect("its epoch");
    world
        .decide(heartbeat(epoch, true), 60_000)
        .expect("its epoch");
    assert_eq!(world.transitions(), ["2 Unfenced", "2 ShutdownEnded"]);

    // What is not committed is told of nobody.
    world.disk.set_full(true);
    let context = ControllerContext::new(&world.cluster.config);
    let request = registration(other, 9).into();
    let now = Now::at_ms(70_000);
    world
        .controller
        .stage(&request, "", &context, now, &mut || [0; 16]);
    assert_eq!(world.transitions(), [""; 0]);
    let _ = world.controller.flush(now);
    world.disk.set_full(false);
    let _ = world.controller.flush(now);
    assert_eq!(world.transitions(), [""; 0]);
}

/// Nobody is fenced but for silence, and whoever has the own broker's id is no more than that.
#[test]
fn who_takes_the_id_of_the_unregistered_own_broker_is_fenced_when_it_is_silent() {
    let mut world = World::new();
    // The own broker sends no heartbeats.
    world.ticks(60_000);
    let unregister = UnregisterBroker { broker_id: BROKER };
    let duplicate = world.decide(registration(BROKER, 8), 60_000);
    let duplicate = duplicate.expect_err("the own broker lives").code;
    assert_eq!(duplicate, ErrorCode::DuplicateBrokerRegistration);
    world.decide(unregister, 60_000).expect("it is registered");
    let epoch = world.decide(registration(BROKER, 8), 60_000);
    let broker_epoch = epoch.expect("nobody has the id");
    world
        .decide(heartbeat(BROKER, broker_epoch), 60_000)
        .expect("its epoch");
    let is_fenced = |world: &World| {
        let cluster = &world.controller.log.image().cluster;
        cluster.broker(BROKER).expect("it is registered").is_fenced
    };
    assert!(!is_fenced(&world));
    world.ticks(68_999);
    assert!(!is_fenced(&world));
    world.ticks(69_000);
    assert!(is_fenced(&world));
}

/// An unregistration that is not in the log has never been.
#[test]
fn the_own_broker_stays_live_when_the_log_does_not_take_its_unregistration() {
    let mut world = World::new();
    world.disk.set_full(true);
    world.stage(UnregisterBroker { broker_id: BROKER }, "lost");
    assert_eq!(world.flush().2, ["lost"]);
    world.disk.set_full(false);
    world.ticks(3_000);
    assert_eq!(world.controller.next_tick(), None, "it is alone");
    let cluster = &world.controller.log.image().cluster;
    assert!(!cluster.broker(BROKER).expect("it is back").is_fenced);
}
