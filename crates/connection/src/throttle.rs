//! How long a broker asks its client to send it nothing more (KIP-219).
//!
//! Pure. Nearly every answer begins with that time, from some version on. Produce has it at its end:
//! there the producer, which reads all of it anyway, tells the connection.

use wire::ApiKey;

/// The APIs that are used here, and the first version whose answer begins with the time.
const FIRST_VERSIONS: &[(ApiKey, i16)] = &[
    (ApiKey::Fetch, 1),
    (ApiKey::ListOffsets, 2),
    (ApiKey::Metadata, 3),
    (ApiKey::OffsetCommit, 3),
    (ApiKey::OffsetFetch, 3),
    (ApiKey::FindCoordinator, 1),
    (ApiKey::JoinGroup, 2),
    (ApiKey::Heartbeat, 1),
    (ApiKey::LeaveGroup, 1),
    (ApiKey::SyncGroup, 1),
    (ApiKey::DescribeGroups, 1),
    (ApiKey::ListGroups, 1),
    (ApiKey::CreateTopics, 2),
    (ApiKey::DeleteTopics, 1),
    (ApiKey::DeleteRecords, 0),
    (ApiKey::InitProducerId, 0),
    (ApiKey::OffsetForLeaderEpoch, 2),
    (ApiKey::AddPartitionsToTxn, 0),
    (ApiKey::AddOffsetsToTxn, 0),
    (ApiKey::EndTxn, 0),
    (ApiKey::TxnOffsetCommit, 0),
    (ApiKey::DescribeConfigs, 0),
    (ApiKey::IncrementalAlterConfigs, 0),
    (ApiKey::CreatePartitions, 0),
    (ApiKey::DeleteGroups, 0),
    (ApiKey::DescribeCluster, 0),
    (ApiKey::DescribeProducers, 0),
    (ApiKey::DescribeTransactions, 0),
    (ApiKey::ListTransactions, 0),
    (ApiKey::ConsumerGroupHeartbeat, 0),
    (ApiKey::ConsumerGroupDescribe, 0),
    (ApiKey::DescribeClientQuotas, 0),
    (ApiKey::AlterClientQuotas, 0),
    (ApiKey::DescribeUserScramCredentials, 0),
    (ApiKey::AlterUserScramCredentials, 0),
];

/// The time that an answer begins with, in ms; 0 for none.
pub(crate) fn throttle_ms(api: ApiKey, version: i16, body: &[u8]) -> u64 {
    let is_told = |(one, first): &(ApiKey, i16)| *one == api && version >= *first;
    match body.first_chunk() {
        Some(time) if FIRST_VERSIONS.iter().any(is_told) => {
            u64::try_from(i32::from_be_bytes(*time)).unwrap_or(0)
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    /// The first version in which the answer begins with the time, as the schema says.
    fn first_version(schema: &str) -> Option<i16> {
        let response = schema
            .lines()
            .skip_while(|line| !line.starts_with("response"));
        let first = response.skip(1).find(|line| !line.trim().is_empty())?;
        let field = first.trim().strip_prefix("ThrottleTimeMs: int32")?;
        match field.strip_prefix(", versions ") {
            None => Some(0),
            Some(versions) => versions.split(['+', ',', '-']).next()?.parse().ok(),
        }
    }

    #[test]
    fn the_table_says_what_the_schemas_say() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wire/schema");
        for (api, first) in FIRST_VERSIONS {
            let name = format!("{:02}_{}.txt", *api as i16, api.facts().name);
            let text = fs::read_to_string(folder.join(&name)).expect("every API has a schema");
            let told = first_version(&text).unwrap_or_else(|| panic!("{name} has no time"));
            // Schemas know no versions that nobody serves any more.
            let lowest = api.facts().min_version;
            assert_eq!(told.max(lowest), (*first).max(lowest), "{name}");
        }
    }

    #[test]
    fn the_time_is_read_where_there_is_one() {
        let body = [0, 0, 1, 0, 9];
        assert_eq!(throttle_ms(ApiKey::Fetch, 12, &body), 256);
        assert_eq!(throttle_ms(ApiKey::JoinGroup, 1, &body), 0);
        assert_eq!(throttle_ms(ApiKey::Produce, 9, &body), 0);
        assert_eq!(throttle_ms(ApiKey::Fetch, 12, &[0xff; 4]), 0);
        assert_eq!(throttle_ms(ApiKey::Fetch, 12, &[0]), 0);
    }
}
