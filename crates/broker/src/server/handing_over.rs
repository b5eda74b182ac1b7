//! What a node with the controller does before it stops, while it still serves other brokers.
//!
//! 1. Its own broker, if it has one, hands its partitions over: it asks the controller as any broker does.
//! 2. Brokers that stop at the same time are served until they may, as long as the controller works. Without it they
//!    would wait for it. Apache Kafka's controller does not wait for them.

use crate::api::broker::Broker;
use crate::api::cluster_node::ClusterNode;
use crate::scheduling::clock::monotonic;
use controller::BrokerHeartbeat;
use metadata::BrokerRegistration;
use std::time::Duration;

/// How long it is waited for brokers that do not follow the metadata.
const PATIENCE: Duration = Duration::from_secs(30);

/// Between two questions.
const PAUSE: Duration = Duration::from_millis(50);

/// Within so long brokers say that they stop, too, if whoever stops this node stops all.
const MOMENT: Duration = Duration::from_millis(250);

/// Has others lead what this broker leads, and waits until they know. Nothing is to be done where there are no others.
pub(super) async fn hand_over_to_others(broker: &Broker) {
    let is_wanted = broker
        .node
        .config
        .controller
        .lifecycle
        .controlled_shutdown_enable;
    if !is_wanted || !has_others(broker) {
        return;
    }
    tracing::info!("the broker hands its partitions over to others");
    match tokio::time::timeout(PATIENCE, hand_over(broker)).await {
        Ok(true) => tracing::info!("others have taken over the broker's partitions"),
        Ok(false) => tracing::warn!("the broker stops without handing its partitions over"),
        Err(_) => tracing::warn!("others have not taken over in time; the broker stops anyway"),
    }
}

fn has_others(broker: &Broker) -> bool {
    let image = broker.node.image();
    let mut brokers = image.cluster.brokers().values();
    brokers.any(|one| one.id != broker.node.id && one.is_active())
}

/// Whether the controller lets the broker stop in the end.
async fn hand_over(broker: &Broker) -> bool {
    loop {
        let heartbeat = BrokerHeartbeat {
            broker_id: broker.node.id,
            broker_epoch: broker.node.broker_epoch(),
            metadata_offset: broker.node.image().provenance.last_offset,
            wants_fence: false,
            wants_shut_down: true,
            offline_directories: Vec::new(),
            cordoned_directories: None,
            deadline: monotonic().plus_ms(PATIENCE.as_millis() as i64),
        };
        match broker.controller.request(heartbeat).await {
            Ok(Ok(standing)) if standing.should_shut_down => return true,
            Ok(Ok(_)) => tokio::time::sleep(PAUSE).await,
            Ok(Err(_)) | Err(_) => return false,
        }
    }
}

/// Why brokers that are about to stop are not waited for any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waited {
    /// They have stopped, or there are none.
    UntilStopped,
    /// They have not stopped in time.
    TooLong,
    /// Nobody lets them stop: the controller of this node has failed, or its disk does not answer.
    WithoutController,
}

/// Waits for brokers that are about to stop, but not for those that serve on.
pub(super) async fn let_others_stop(node: &ClusterNode) {
    let session_ms = node.node.config.controller.tasks.broker_session_timeout_ms;
    let silence_max = Duration::from_millis(session_ms.unsigned_abs());
    match wait_for_others(node, silence_max).await {
        Waited::UntilStopped => {}
        Waited::TooLong => {
            tracing::warn!("other brokers have not stopped in time; the controller stops anyway")
        }
        Waited::WithoutController => tracing::warn!(
            "the controller of this node does not answer and lets no broker stop; the node stops"
        ),
    }
}

/// The same; a controller that is silent for so long is as good as none.
pub(super) async fn wait_for_others(node: &ClusterNode, silence_max: Duration) -> Waited {
    let has_unfenced = |is_meant: fn(&BrokerRegistration) -> bool| {
        let (image, id) = (node.node.image(), node.node.id);
        let mut brokers = image.cluster.brokers().values();
        brokers.any(|one| one.id != id && !one.is_fenced && is_meant(one))
    };
    if !has_unfenced(|_| true) {
        return Waited::UntilStopped;
    }
    tokio::time::sleep(MOMENT).await;
    let others_stop = async {
        while has_unfenced(|one| one.is_in_controlled_shutdown) {
            tokio::time::sleep(PAUSE).await;
        }
        // Their answers are on the way.
        tokio::time::sleep(PAUSE).await;
    };
    tokio::select! {
        biased;
        () = others_stop => Waited::UntilStopped,
        () = controller_fails(node, silence_max) => Waited::WithoutController,
        () = tokio::time::sleep(PATIENCE) => Waited::TooLong,
    }
}

/// Waits until the controller of this node, or whoever follows it, has failed, or it has been silent for so long.
async fn controller_fails(node: &ClusterNode, silence_max: Duration) {
    let is_silent = async {
        loop {
            let question = node.controller.ask_quorum(|_| ());
            match tokio::time::timeout(silence_max, question).await {
                Ok(Ok(())) => tokio::time::sleep(PAUSE).await,
                Ok(Err(_)) | Err(_) => return,
            }
        }
    };
    let mut halted = node.node.halted.subscribe();
    tokio::select! {
        _ = halted.wait_for(|reason| !reason.is_empty()) => {}
        () = is_silent => {}
    }
}
