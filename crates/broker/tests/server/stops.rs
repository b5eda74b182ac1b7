//! A node with the controller that stops, and others that stop at the same time.

use crate::cluster::ids;
use crate::followers::{Follower, create_topic, server};
use testkit::{Client, wait_until};

/// One that stops waits for those that do not know yet who leads in its place, and for the controller to tell it.
#[test]
fn brokers_that_stop_with_their_controller_are_let_go_before_it_stops() {
    let server = server(&[]);
    let [stopping, other] = [2, 3].map(|id| Follower::start(&server, id, None));
    let mut controller = Client::connect(server.address_of("CONTROLLER"));
    let mut client = server.connect();
    create_topic(&mut client, "topic", &[2, 3], &[]);
    other.heartbeat(&mut controller, 0, false);
    let standing = stopping.heartbeat(&mut controller, i64::MAX, true);
    assert!(!standing.should_shut_down);
    let stop = std::thread::spawn(move || server.stop());
    wait_until("its own broker is fenced", || {
        !ids(&mut client).contains(&1)
    });
    let standing = stopping.heartbeat(&mut controller, i64::MAX, true);
    assert!(!standing.should_shut_down);
    other.heartbeat(&mut controller, i64::MAX, false);
    let standing = stopping.heartbeat(&mut controller, i64::MAX, true);
    assert!(standing.should_shut_down);
    stop.join().expect("it stops");
}
