//! When a request is answered and what is refused, and scripts of what the controller does over time.

mod heartbeats;
mod partitions;
mod script;
mod sessions;
mod tasks;

use super::*;
use crate::alter_configs::{AlterOptions, AlteredResource, ConfigChange, ConfigOperation};
use crate::create_topics::NewTopic;
use crate::requests::{AlterConfigs, CreateTopics, Request as _};
use crate::test_cluster::TestCluster;
use model::{BrokerId, ErrorCode, Offset};

const NOW: MonotonicTime = MonotonicTime::from_ms(0);

/// A controller, and the log that it writes to.
struct Script {
    cluster: TestCluster,
    controller: ActiveController<&'static str>,
    end_offset: Offset,
    proposal: Option<Proposal>,
}

impl Script {
    fn new() -> Self {
        let cluster = TestCluster::new(&[]).with_brokers(&[BrokerId(1)]);
        let image = Arc::new(cluster.image.clone());
        Self {
            controller: ActiveController::new(image, 1, Offset(10), &cluster.context(), NOW),
            cluster,
            end_offset: Offset(10),
            proposal: None,
        }
    }

    /// Lets `asker` create a topic; whether that proposes something.
    fn create(&mut self, asker: &'static str, topic: &str) -> bool {
        let request = CreateTopics {
            topics: vec![NewTopic::of_defaults(topic)],
            validate_only: false,
        };
        self.propose(asker, &request.into(), NOW)
    }

    /// Lets somebody set whether the topic may have leaders that lack records.
    fn set_unclean_election(&mut self, topic: &str, value: &str, now: MonotonicTime) {
        let operation = ConfigOperation {
            operation: 0,
            name: "unclean.leader.election.enable".to_owned(),
            value: Some(value.to_owned()),
        };
        let resource = AlteredResource {
            resource_type: 2,
            resource_name: topic.to_owned(),
            change: ConfigChange::Operations(vec![operation]),
        };
        let request = AlterConfigs {
            resources: vec![resource],
            options: AlterOptions::default(),
        };
        assert!(self.propose("operator", &request.into(), now));
        self.accept();
    }

    fn propose(
        &mut self,
        asker: &'static str,
        request: &ControllerRequest,
        now: MonotonicTime,
    ) -> bool {
        let context = ControllerContext::new(&self.cluster.config);
        let mut drawn = self.end_offset.0 as u128;
        let mut random = || {
            drawn += 1 << 70;
            drawn.to_be_bytes()
        };
        let controller = &mut self.controller;
        let proposal = controller.propose(request, asker, &context, now, &mut random);
        let is_some = !proposal.is_empty();
        self.proposal = Some(proposal).filter(|one| !one.is_empty());
        is_some
    }

    fn accept(&mut self) {
        let proposal = self.proposal.take().expect("there is one");
        self.end_offset += proposal.records.len() as i64;
        self.cluster.replay(&proposal.records);
        let image = Arc::new(self.cluster.image.clone());
        self.controller.appended(image, 1, self.end_offset);
        self.controller.accepted();
    }

    /// Who is answered, and how, when all before this is committed.
    fn committed(&mut self, high_watermark: Offset) -> Vec<(&'static str, ErrorCode)> {
        let answers = self.controller.committed(high_watermark).into_iter();
        let code = |response| {
            let results = CreateTopics::response_of(response).expect("of its kind");
            let result = results[0].result.as_ref();
            result.map_or_else(|error| error.code, |_| ErrorCode::None)
        };
        answers
            .map(|(asker, response)| (asker, code(response)))
            .collect()
    }
}

#[test]
fn an_answer_waits_until_all_that_its_decision_has_seen_is_committed() {
    let mut script = Script::new();
    assert!(script.create("first", "t"));
    script.accept();
    let first = script.end_offset;
    // It has seen the first one's topic, and changes nothing.
    assert!(!script.create("again", "t"));
    assert!(script.create("second", "u"));
    script.accept();
    assert_eq!(script.committed(first - 1), []);
    let expect = [
        ("first", ErrorCode::None),
        ("again", ErrorCode::TopicAlreadyExists),
    ];
    assert_eq!(script.committed(first), expect);
    assert_eq!(
        script.committed(script.end_offset),
        [("second", ErrorCode::None)]
    );
    // Whoever sees only what is committed has its answer at once.
    assert!(!script.create("later", "u"));
    let answered = script.committed(script.end_offset);
    assert_eq!(answered, [("later", ErrorCode::TopicAlreadyExists)]);
}

#[test]
fn an_unclean_election_that_becomes_allowed_does_not_wait_for_its_interval() {
    let mut script = Script::new();
    assert!(script.create("first", "t"));
    script.accept();
    let later = NOW.plus_ms(1);
    let is_due = |script: &Script| script.controller.next_task().is_some_and(|at| at <= later);
    assert!(!is_due(&script));
    script.set_unclean_election("t", "false", later);
    assert!(!is_due(&script));
    script.set_unclean_election("t", "true", later);
    assert!(is_due(&script));
    let context = ControllerContext::new(&script.cluster.config);
    assert!(script.controller.propose_task(&context, later).is_some());
    // Every partition has a leader: it is done with that.
    assert!(!is_due(&script));
}

#[test]
fn what_is_refused_was_never_decided() {
    let mut script = Script::new();
    assert!(script.create("refused", "t"));
    assert_eq!(script.controller.refused(), Some("refused"));
    assert_eq!(script.committed(Offset(10)), []);
    assert!(script.create("again", "t"), "there is no such topic");
    script.accept();
    assert_eq!(
        script.committed(script.end_offset),
        [("again", ErrorCode::None)]
    );
}

#[test]
fn a_task_waits_for_a_moment_when_the_log_has_not_taken_records() {
    let mut script = Script::new();
    let context = ControllerContext::new(&script.cluster.config);
    let controller = &mut script.controller;
    let due = controller.next_task().expect("a sign of life");
    let proposal = controller.propose_task(&context, due).expect("it is due");
    assert!(!proposal.is_empty());
    assert_eq!(controller.refused(), None);
    assert_eq!(controller.next_task(), Some(due.plus_ms(1_000)));

    // What was accepted, and has not come to be in the log, is as good as refused.
    let mut script = Script::new();
    assert!(script.create("lost", "t"));
    let before = Arc::new(script.cluster.image.clone());
    script.accept();
    let lost = script.controller.reverted(before, 1, Offset(10), due);
    assert_eq!(lost, ["lost"]);
    assert_eq!(script.controller.next_task(), Some(due.plus_ms(1_000)));
}

#[test]
fn what_the_log_has_lost_of_brokers_and_levels_has_never_been() {
    let mut script = Script::new();
    let before = Arc::new(script.cluster.image.clone());
    let broker_epoch = before.cluster.broker(BrokerId(1)).expect("is there").epoch;
    script.cluster.replay(&[MetadataRecord::UnregisterBroker {
        broker_id: BrokerId(1),
        broker_epoch,
    }]);
    let after = Arc::new(script.cluster.image.clone());
    let controller = &mut script.controller;
    controller.appended(after.clone(), 2, Offset(11));
    assert_eq!(controller.reverted(before, 1, Offset(10), NOW), [""; 0]);
    assert_eq!(controller.kraft_version, 1);
    controller.appended(after, 1, Offset(11));
    controller.committed(Offset(11));
    assert_eq!(controller.take_transitions().len(), 1, "once, not twice");
}

#[test]
fn who_waits_learns_that_leadership_is_lost() {
    let mut script = Script::new();
    assert!(script.create("answered", "t"));
    script.accept();
    script.committed(script.end_offset);
    assert!(script.create("appended", "u"));
    script.accept();
    assert!(!script.create("unchanged", "u"));
    assert!(script.create("proposed", "v"));
    assert_eq!(
        script.controller.resign(),
        ["appended", "unchanged", "proposed"]
    );
}
