//! Brokers that break while an admin uses them, one kind of request for each way in which it finds whom
//! to ask.

use super::admin;
use model::{ErrorCode, TopicPartition};
use riverrun_client::Error;
use riverrun_client::admin::{Admin, IsolationLevel, NewTopic, OffsetSpec};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use testkit::{Fault, Proxy};
use tokio::task::JoinSet;
use wire::ApiKey;

/// More than any of the settings below, on a machine that is busy.
const IN_TIME: Duration = Duration::from_secs(120);

/// Settings with which a test may wait for every timeout.
const SHORT: &[(&str, &str)] = &[
    ("request.timeout.ms", "400"),
    ("default.api.timeout.ms", "900"),
    ("retry.backoff.ms", "5"),
    ("retry.backoff.max.ms", "20"),
    ("reconnect.backoff.ms", "5"),
    ("reconnect.backoff.max.ms", "20"),
];

/// Asks something that needs this API.
async fn ask(admin: &Admin, api: ApiKey, name: &str) -> Result<(), Error> {
    match api {
        ApiKey::CreateTopics => {
            let created = admin.create_topics(&[NewTopic::new(name)]).await;
            match created.into_values().next().unwrap() {
                // The request before this one was carried out, and only its answer lost.
                Err(Error::Refused {
                    code: ErrorCode::TopicAlreadyExists,
                    ..
                }) => Ok(()),
                created => created.map(|_| ()),
            }
        }
        ApiKey::ListOffsets | ApiKey::Metadata => {
            let partition = TopicPartition::new("known", 0);
            let wanted = BTreeMap::from([(partition, OffsetSpec::Latest)]);
            let isolation = IsolationLevel::ReadUncommitted;
            let listed = admin.list_offsets(&wanted, isolation).await;
            listed.into_values().next().unwrap().map(|_| ())
        }
        _ => {
            let offsets = admin.list_group_offsets(name, None, false).await;
            offsets.map(|_| ())
        }
    }
}

/// Whether the time of a call has ended before its error: on a machine that is busy, anywhere.
fn is_late(error: &Error) -> bool {
    matches!(error, Error::TimedOut { .. } | Error::Unreachable { .. })
}

#[test]
fn every_fault_is_told_in_time_and_passes() {
    let apis = [
        ApiKey::Metadata,
        ApiKey::CreateTopics,
        ApiKey::ListOffsets,
        ApiKey::FindCoordinator,
        ApiKey::OffsetFetch,
    ];
    let of_api = |api: &ApiKey| {
        let api = *api;
        Fault::ALL.iter().map(move |fault| (api, *fault))
    };
    let cases: Vec<(ApiKey, Fault)> = apis.iter().flat_map(of_api).collect();
    let (server, proxies) = Proxy::start(cases.len(), &[]);
    let mut client = server.connect();
    client.create_topic("known", 1, &[]);
    // The first question makes the topic of the coordinators, which may take longer than a call.
    for index in 0..cases.len() {
        client.wait_for_coordinator(&format!("name-{index}"));
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let mut running = JoinSet::new();
        for (index, (proxy, (api, fault))) in proxies.into_iter().zip(cases).enumerate() {
            running.spawn(async move {
                let name = format!("name-{index}");
                let admin = admin(proxy.address(), SHORT);
                proxy.fail(&[api], fault);
                let address = proxy.address().to_string();
                let started = Instant::now();
                loop {
                    let asked = ask(&admin, api, &name).await;
                    let error = asked.expect_err("nobody answers");
                    assert!(started.elapsed() < IN_TIME, "{error}");
                    if error.to_string().contains(&address) {
                        break;
                    }
                    assert!(is_late(&error), "{api} {fault:?}: {error}");
                }
                proxy.behave();
                let started = Instant::now();
                while let Err(error) = ask(&admin, api, &name).await {
                    let is_excused = is_late(&error) && started.elapsed() < IN_TIME;
                    assert!(is_excused, "{api} {fault:?}: {error}");
                }
            });
        }
        while let Some(ended) = running.join_next().await {
            ended.unwrap();
        }
    });
}
