use super::*;
use crate::test_cluster::TestCluster;

fn key(user: &str, mechanism: i8) -> ScramKey {
    ScramKey {
        mechanism,
        user: user.to_owned(),
    }
}

fn upsert(user: &str, mechanism: i8) -> ScramUpsertion {
    ScramUpsertion {
        key: key(user, mechanism),
        iterations: 4096,
        salt: b"salt".to_vec(),
        salted_password: b"salted password".to_vec(),
    }
}

/// Alters, and shows each user with its error.
fn alter(
    cluster: &mut TestCluster,
    deletions: &[ScramKey],
    upsertions: &[ScramUpsertion],
) -> Vec<String> {
    let decision = alter_scram_credentials(&cluster.image, deletions, upsertions);
    cluster.replay(&decision.records);
    let results = decision.response.into_iter();
    results
        .map(|(user, result)| match result {
            Ok(()) => format!("{user} ok"),
            Err(error) => format!("{user} {error}"),
        })
        .collect()
}

#[test]
fn keys_are_those_of_rfc_5802() {
    // The user `user` of RFC 7677 with the password `pencil`.
    let hex = |text: &str| -> Vec<u8> {
        let digits = text.as_bytes().chunks(2);
        digits
            .map(|two| u8::from_str_radix(str::from_utf8(two).unwrap(), 16).unwrap())
            .collect()
    };
    let salted = hex("c4a49510323ab4f952cac1fa99441939e78ea74d6be81ddf7096e87513dc615d");
    let (stored_key, server_key) = Mechanism::Sha256.keys(&salted);
    assert_eq!(stored_key[..16], hex("586e5df283e6dceb5c3e791d8b8528ec"));
    assert_eq!(server_key[..16], hex("c1f3cbc1c13a9d35a14c0990eed97629"));
    let salted = hex(concat!(
        "f16efe1be67f1d09502ebd5ed9262fddffba5a377ab4f0b687e5ed5ba0f50686",
        "b8a4ae166476da8ab3b951d2fa9238b63998f45461bc33a464814949cec9631d"
    ));
    let (stored_key, server_key) = Mechanism::Sha512.keys(&salted);
    assert_eq!((stored_key.len(), server_key.len()), (64, 64));
    assert_eq!(stored_key[..16], hex("e8002e6f7d3ae446119b216933644dc2"));
    assert_eq!(server_key[..16], hex("8d91db6230b5687874fe129bc7206e18"));
}

#[test]
fn credentials_are_set_described_and_deleted() {
    let mut cluster = TestCluster::new(&[]);
    let both = [upsert("alice", 1), upsert("bob", 2)];
    assert_eq!(alter(&mut cluster, &[], &both), ["alice ok", "bob ok"]);
    assert_eq!(
        alter(&mut cluster, &[], &[upsert("alice", 2)]),
        ["alice ok"]
    );
    let all = describe_scram_credentials(&cluster.image, &[]);
    assert_eq!(
        all,
        [
            ("alice".to_owned(), Ok(vec![(1, 4096), (2, 4096)])),
            ("bob".to_owned(), Ok(vec![(2, 4096)]))
        ]
    );
    assert_eq!(alter(&mut cluster, &[key("alice", 1)], &[]), ["alice ok"]);
    let users = ["alice", "carol", "bob", "bob"].map(str::to_owned);
    let described = describe_scram_credentials(&cluster.image, &users);
    assert_eq!(described[0], ("alice".to_owned(), Ok(vec![(2, 4096)])));
    let code = |at: usize| described[at].1.as_ref().unwrap_err().code;
    assert_eq!(code(1), ErrorCode::DuplicateResource);
    assert_eq!(code(2), ErrorCode::ResourceNotFound);
}

#[test]
fn what_is_wrong_is_refused() {
    let mut cluster = TestCluster::new(&[]);
    let few = ScramUpsertion {
        iterations: 4095,
        ..upsert("few", 1)
    };
    let many = ScramUpsertion {
        iterations: 16385,
        ..upsert("many", 1)
    };
    let keyless = ScramUpsertion {
        salted_password: Vec::new(),
        ..upsert("keyless", 1)
    };
    let salty = ScramUpsertion {
        salt: vec![0; 4097],
        ..upsert("salty", 1)
    };
    let refused = alter(
        &mut cluster,
        &[key("nobody", 1), key("twice", 9)],
        &[
            few,
            many,
            salty,
            keyless,
            upsert("", 1),
            upsert("unknown", 3),
            upsert("twin", 1),
            upsert("twin", 2),
            upsert("twin", 1),
        ],
    );
    assert_eq!(
        refused,
        [
            " UNACCEPTABLE_CREDENTIAL: Username must not be empty",
            "few UNACCEPTABLE_CREDENTIAL: Too few iterations",
            "keyless UNKNOWN_SERVER_ERROR: The server experienced an unexpected error when \
             processing the request.",
            "many UNACCEPTABLE_CREDENTIAL: Too many iterations",
            "nobody RESOURCE_NOT_FOUND: Attempt to delete a user credential that does not exist",
            "salty UNACCEPTABLE_CREDENTIAL: The salt is too long",
            "twice UNSUPPORTED_SASL_MECHANISM: Unknown SCRAM mechanism",
            "twin DUPLICATE_RESOURCE: A user credential cannot be altered twice in the same request",
            "unknown UNSUPPORTED_SASL_MECHANISM: Unknown SCRAM mechanism",
        ]
    );
    assert!(cluster.image.scram.iter().next().is_none());

    cluster.replay(&[MetadataRecord::FeatureLevel {
        name: "metadata.version".to_owned(),
        level: 10,
    }]);
    assert_eq!(
        alter(&mut cluster, &[], &[upsert("alice", 1)]),
        ["alice UNSUPPORTED_VERSION: The current metadata.version does not support SCRAM"]
    );
}
