//! How the broker in the node of the controller hands its partitions over before both stop: it asks its own controller
//! as any broker does, while that still serves the others.

use crate::api::broker::Broker;
use crate::scheduling::clock::monotonic;
use controller::BrokerHeartbeat;
use std::time::Duration;

/// How long it is waited for brokers that do not follow the metadata.
const PATIENCE: Duration = Duration::from_secs(30);

/// Between two questions.
const PAUSE: Duration = Duration::from_millis(50);

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
