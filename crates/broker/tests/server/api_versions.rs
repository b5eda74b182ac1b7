//! ApiVersions: what a client and a server that do not know each other yet agree on.

use broker::served::SERVED;
use model::ErrorCode;
use testkit::{Client, Response, TestServer};
use wire::ApiKey;
use wire::messages::update_features_request::FeatureUpdateKey;
use wire::messages::{
    ApiVersionsRequest, ApiVersionsResponse, UpdateFeaturesRequest, UpdateFeaturesResponse,
};

fn named<'a>(name: &'a str, version: &'a str) -> ApiVersionsRequest<'a> {
    ApiVersionsRequest {
        client_software_name: name,
        client_software_version: version,
    }
}

/// The error and the ranges of an answer.
fn read(answer: &Response, version: i16) -> (ErrorCode, Vec<(i16, i16, i16)>) {
    let response: ApiVersionsResponse<'_> = answer.read_as(version);
    let keys = response.api_keys.iter();
    let ranges = keys.map(|one| (one.api_key, one.min_version, one.max_version));
    (ErrorCode::from_code(response.error_code), ranges.collect())
}

#[test]
fn every_version_tells_what_is_served() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    for version in 0..=4 {
        let answer = client.call(version, &named("a", "1"));
        let (error, ranges) = read(&answer, version);
        assert_eq!(error, ErrorCode::None);
        let expected: Vec<_> = SERVED
            .iter()
            .filter(|one| one.api.facts().broker)
            .map(|one| match one.api {
                // librdkafka stops at a broker that does not claim to know the oldest Produce.
                ApiKey::Produce => (0, 0, one.max_version),
                api => (api as i16, one.min_version, one.max_version),
            })
            .collect();
        assert_eq!(ranges, expected, "version {version}");
    }
}

#[test]
fn the_level_of_the_quorum_is_among_the_finalized_features() {
    let fixed_voter = ("controller.quorum.voters", "1@127.0.0.1:9093");
    for (keys, expected) in [(&[][..], Some(1)), (&[fixed_voter][..], None)] {
        let server = TestServer::start(keys);
        let answer = server.connect().call(4, &named("a", "1"));
        let response: ApiVersionsResponse<'_> = answer.read();
        let mut finalized = response.finalized_features.iter();
        let kraft = finalized.find(|feature| feature.name == "kraft.version");
        assert_eq!(kraft.map(|one| one.max_version_level), expected, "{keys:?}");
    }
}

#[test]
fn the_level_of_a_quorum_with_a_fixed_voter_is_raised() {
    let fixed_voter = ("controller.quorum.voters", "1@127.0.0.1:9093");
    let directory = trials::directory();
    let start = || TestServer::start_in(directory.path(), &[fixed_voter]).expect("it starts");
    let level = |client: &mut Client| {
        let answer = client.call(4, &named("a", "1"));
        let response: ApiVersionsResponse<'_> = answer.read();
        let mut finalized = response.finalized_features.iter();
        let kraft = finalized.find(|feature| feature.name == "kraft.version");
        (
            kraft.map(|one| one.max_version_level),
            response.finalized_features_epoch,
        )
    };
    let update = |client: &mut Client, to: i16, upgrade_type: i8, validate_only: bool| {
        let feature = |feature, max_version_level, upgrade_type| FeatureUpdateKey {
            feature,
            max_version_level,
            upgrade_type,
            ..FeatureUpdateKey::default()
        };
        let updates = vec![
            feature("kraft.version", to, upgrade_type),
            feature("group.version", 1, 1),
        ];
        let request = UpdateFeaturesRequest {
            feature_updates: updates.into(),
            validate_only,
            ..UpdateFeaturesRequest::default()
        };
        let answer = client.call(2, &request);
        let response: UpdateFeaturesResponse<'_> = answer.read();
        let words = response.error_message.map(str::to_owned);
        (ErrorCode::from_code(response.error_code), words)
    };
    let server = start();
    let mut client = server.connect();
    assert_eq!(update(&mut client, 1, 1, true), (ErrorCode::None, None));
    let (before, epoch) = level(&mut client);
    assert_eq!(before, None);
    assert_eq!(update(&mut client, 1, 1, false), (ErrorCode::None, None));
    let (after, later_epoch) = level(&mut client);
    assert_eq!(after, Some(1));
    assert!(later_epoch > epoch, "{later_epoch}");
    assert_eq!(update(&mut client, 1, 1, false), (ErrorCode::None, None));
    let (error, words) = update(&mut client, 0, 2, false);
    assert_eq!(error, ErrorCode::InvalidUpdateVersion);
    let words = words.expect("it says why");
    assert!(words.ends_with("Can't downgrade the version of this feature."));
    server.crash();
    let server = start();
    assert_eq!(level(&mut server.connect()).0, Some(1));
}

#[test]
fn a_version_from_the_future_is_answered_in_version_0_with_error_35() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    for version in [5, 6, 1_000, i16::MAX, -1] {
        // The body of a version that nobody knows may hold anything.
        let frame = client.frame_of(18, version, version >= 3, &[0xab; 40]);
        client.send_bytes(&frame);
        let frame = client.receive_frame();
        let answer = Response {
            version: 0,
            body: frame[4..].to_vec(),
        };
        let (error, ranges) = read(&answer, 0);
        assert_eq!(error, ErrorCode::UnsupportedVersion);
        assert_eq!(ranges, [(18, 0, 4)]);
    }
    // The same connection goes on in a version that both have.
    let (error, _) = read(&client.call(4, &named("a", "1")), 4);
    assert_eq!(error, ErrorCode::None);
    server.assert_serves();
}

#[test]
fn software_must_have_a_name_and_a_version() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    let mut error = |name: &str, version: &str, api_version: i16| {
        read(
            &client.call(api_version, &named(name, version)),
            api_version,
        )
        .0
    };
    for name in ["", "-a", "a-", ".", "a b", "a_b", "é", "a\0", "a\n"] {
        assert_eq!(error(name, "1", 3), ErrorCode::InvalidRequest, "{name:?}");
        assert_eq!(error("a", name, 4), ErrorCode::InvalidRequest, "{name:?}");
    }
    let long = "x".repeat(10_000);
    for name in ["a", "apache-kafka-java", "4.3.1-rc.1", &long] {
        assert_eq!(error(name, name, 3), ErrorCode::None);
    }
    // Older versions do not have the fields.
    assert_eq!(error("", "", 2), ErrorCode::None);
    server.assert_serves();
}

#[test]
fn a_controller_listener_serves_what_controllers_serve() {
    let server = TestServer::start(&[]);
    let mut client = Client::connect(server.address_of("CONTROLLER"));
    let (error, ranges) = read(&client.call(4, &named("a", "1")), 4);
    assert_eq!(error, ErrorCode::None);
    let expected: Vec<i16> = SERVED
        .iter()
        .filter(|one| one.api.facts().controller)
        .map(|one| one.api as i16)
        .collect();
    let told: Vec<i16> = ranges.iter().map(|(key, ..)| *key).collect();
    assert_eq!(told, expected);
    let mut client = Client::connect(server.address_of("CONTROLLER"));
    client.send_unanswered(9, &wire::messages::MetadataRequest::default());
    client.assert_closed();
}

/// What Apache Kafka's controllers offer beside that is asked by clients that have to prove who they are.
#[test]
fn a_controller_listener_lacks_what_unknown_clients_ask() {
    let server = TestServer::start(&[]);
    let mut client = Client::connect(server.address_of("CONTROLLER"));
    let (_, ranges) = read(&client.call(4, &named("a", "1")), 4);
    let told: Vec<i16> = ranges.iter().map(|(key, ..)| *key).collect();
    let offered: Vec<ApiKey> = ApiKey::all()
        .filter(|facts| facts.controller)
        .map(|facts| facts.key)
        .collect();
    assert_eq!(offered.len(), 41, "as Apache Kafka 4.3 has them");
    let lacking = offered
        .into_iter()
        .filter(|key| !told.contains(&(*key as i16)));
    let expected = [
        ApiKey::SaslHandshake,
        ApiKey::SaslAuthenticate,
        ApiKey::CreateDelegationToken,
        ApiKey::RenewDelegationToken,
        ApiKey::ExpireDelegationToken,
        ApiKey::DescribeDelegationToken,
    ];
    assert_eq!(lacking.collect::<Vec<_>>(), expected);
}
