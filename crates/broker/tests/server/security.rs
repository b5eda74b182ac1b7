//! Quotas and credentials, which are kept, and access control entries, which need an authorizer.

use model::ErrorCode;
use testkit::TestServer;
use wire::messages::alter_client_quotas_request::{EntityData, EntryData, OpData};
use wire::messages::alter_user_scram_credentials_request::ScramCredentialUpsertion;
use wire::messages::create_acls_request::AclCreation;
use wire::messages::delete_acls_request::DeleteAclsFilter;
use wire::messages::{
    AlterClientQuotasRequest, AlterClientQuotasResponse, AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse, CreateAclsRequest, CreateAclsResponse, DeleteAclsRequest,
    DeleteAclsResponse, DescribeAclsRequest, DescribeAclsResponse, DescribeClientQuotasRequest,
    DescribeClientQuotasResponse, DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
};

/// Sets a quota of an entity; the error's name.
fn set_quota(server: &TestServer, entity: (&str, &str), quota: (&str, f64)) -> &'static str {
    let entry = EntryData {
        entity: vec![EntityData {
            entity_type: entity.0,
            entity_name: Some(entity.1),
        }]
        .into(),
        ops: vec![OpData {
            key: quota.0,
            value: quota.1,
            remove: false,
        }]
        .into(),
    };
    let request = AlterClientQuotasRequest {
        entries: vec![entry].into(),
        validate_only: false,
    };
    let answer = server.connect().call(1, &request);
    let response: AlterClientQuotasResponse<'_> = answer.read();
    let entry = response.entries.iter().next().unwrap();
    ErrorCode::from_code(entry.error_code).name()
}

/// Every quota, as `name: key=value`.
fn quotas(server: &TestServer) -> Vec<String> {
    let answer = server
        .connect()
        .call(1, &DescribeClientQuotasRequest::default());
    let response: DescribeClientQuotasResponse<'_> = answer.read();
    assert_eq!(response.error_code, 0);
    let mut shown = Vec::new();
    for entry in response.entries.unwrap().iter() {
        let name = entry
            .entity
            .iter()
            .next()
            .unwrap()
            .entity_name
            .unwrap_or("-");
        for value in entry.values.iter() {
            shown.push(format!("{name}: {}={}", value.key, value.value));
        }
    }
    shown.sort();
    shown
}

fn scram_users(server: &TestServer) -> Vec<String> {
    let answer = server
        .connect()
        .call(0, &DescribeUserScramCredentialsRequest::default());
    let response: DescribeUserScramCredentialsResponse<'_> = answer.read();
    let results = response.results.iter();
    results
        .map(|user| {
            let credential = user.credential_infos.iter().next().unwrap();
            format!(
                "{} {} {}",
                user.user, credential.mechanism, credential.iterations
            )
        })
        .collect()
}

#[test]
fn quotas_and_credentials_outlive_the_server() {
    let directory = trials::directory();
    let server = TestServer::start_in(directory.path(), &[]).unwrap();
    let rate = ("producer_byte_rate", 1024.0);
    assert_eq!(set_quota(&server, ("user", "alice"), rate), "NONE");
    assert_eq!(set_quota(&server, ("group", "g"), rate), "INVALID_REQUEST");
    let connections = ("connection_creation_rate", 5.0);
    assert_eq!(set_quota(&server, ("ip", "127.0.0.1"), connections), "NONE");
    let no_host = ("ip", "no such host");
    assert_eq!(set_quota(&server, no_host, connections), "INVALID_REQUEST");

    let request = AlterUserScramCredentialsRequest {
        upsertions: vec![ScramCredentialUpsertion {
            name: "alice",
            mechanism: 2,
            iterations: 8192,
            salt: b"salt",
            salted_password: b"salted",
        }]
        .into(),
        ..Default::default()
    };
    let answer = server.connect().call(0, &request);
    let response: AlterUserScramCredentialsResponse<'_> = answer.read();
    assert_eq!(response.results.iter().next().unwrap().error_code, 0);

    let kept = [
        "127.0.0.1: connection_creation_rate=5",
        "alice: producer_byte_rate=1024",
    ];
    assert_eq!(quotas(&server), kept);
    assert_eq!(scram_users(&server), ["alice 2 8192"]);
    server.crash();
    let server = TestServer::start_in(directory.path(), &[]).unwrap();
    assert_eq!(quotas(&server), kept);
    assert_eq!(scram_users(&server), ["alice 2 8192"]);
}

#[test]
fn access_control_entries_need_an_authorizer() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    let disabled = ErrorCode::SecurityDisabled.code();
    for version in 1..=3 {
        let filter = DescribeAclsRequest {
            resource_type_filter: 1,
            pattern_type_filter: 1,
            operation: 1,
            permission_type: 1,
            ..Default::default()
        };
        let answer = client.call(version, &filter);
        let response: DescribeAclsResponse<'_> = answer.read();
        assert_eq!(response.error_code, disabled);

        let creation = AclCreation {
            resource_type: 2,
            resource_name: "topic",
            resource_pattern_type: 3,
            principal: "User:alice",
            host: "*",
            operation: 3,
            permission_type: 3,
        };
        let request = CreateAclsRequest {
            creations: vec![creation].into(),
        };
        let answer = client.call(version, &request);
        let response: CreateAclsResponse<'_> = answer.read();
        assert_eq!(response.results.iter().next().unwrap().error_code, disabled);

        let filter = DeleteAclsFilter {
            resource_type_filter: 1,
            pattern_type_filter: 1,
            operation: 1,
            permission_type: 1,
            ..Default::default()
        };
        let request = DeleteAclsRequest {
            filters: vec![filter].into(),
        };
        let answer = client.call(version, &request);
        let response: DeleteAclsResponse<'_> = answer.read();
        let results: Vec<_> = response.filter_results.iter().collect();
        assert_eq!(results[0].error_code, disabled);
    }
    let unknown = DescribeAclsRequest::default();
    client.send(3, &unknown);
    client.assert_closed();
}
