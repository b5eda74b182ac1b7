//! The file `quorum-state`: the epoch of the quorum, its leader, and whom this node voted for.
//!
//! One line of JSON. Version 0 belongs to quorums with fixed voters (`kraft.version` 0), version 1
//! to those whose voters can change. A missing file is epoch 0 with neither leader nor vote.

use model::{BrokerId, LeaderEpoch, Uuid};
use serde_json::Value;

/// What is in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuorumState {
    /// The leader of the epoch, if known.
    pub leader_id: Option<BrokerId>,
    /// The epoch.
    pub leader_epoch: LeaderEpoch,
    /// Whom this node voted for in the epoch.
    pub voted_id: Option<BrokerId>,
    /// The directory of the one it voted for; all zero when unknown.
    pub voted_directory_id: Uuid,
    /// The fixed voters, which makes this a file of version 0; version 1 has none.
    pub fixed_voters: Option<Vec<BrokerId>>,
}

/// Why a `quorum-state` file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuorumStateError {
    /// The text is not JSON.
    #[error("`quorum-state` is not JSON: {0}")]
    Json(String),
    /// The file is of a version that this build does not know.
    #[error("`quorum-state` has data_version {0}, only 0 and 1 are known")]
    Version(i64),
    /// A field is missing or has no sensible value.
    #[error("`quorum-state` has no valid `{0}`")]
    Field(&'static str),
}

impl QuorumState {
    /// The file's text, byte for byte as Apache Kafka writes it.
    pub fn to_text(&self) -> String {
        let leader_id = self.leader_id.unwrap_or(BrokerId::NONE);
        let voted_id = self.voted_id.unwrap_or(BrokerId::NONE);
        let epoch = self.leader_epoch;
        match &self.fixed_voters {
            Some(voters) => {
                let voters: Vec<_> = voters
                    .iter()
                    .map(|id| format!(r#"{{"voterId":{id}}}"#))
                    .collect();
                format!(
                    r#"{{"clusterId":"","leaderId":{leader_id},"leaderEpoch":{epoch},"votedId":{voted_id},"appliedOffset":0,"currentVoters":[{}],"data_version":0}}"#,
                    voters.join(",")
                )
            }
            None => format!(
                r#"{{"leaderId":{leader_id},"leaderEpoch":{epoch},"votedId":{voted_id},"votedDirectoryId":"{}","data_version":1}}"#,
                self.voted_directory_id
            ),
        }
    }

    /// Reads the file's text.
    ///
    /// # Errors
    /// A [`QuorumStateError`] when it is not such a file.
    pub fn from_text(text: &str) -> Result<Self, QuorumStateError> {
        let json: Value = serde_json::from_str(text)
            .map_err(|error| QuorumStateError::Json(error.to_string()))?;
        let number = |field: &'static str| {
            json.get(field)
                .and_then(Value::as_i64)
                .and_then(|number| i32::try_from(number).ok())
                .ok_or(QuorumStateError::Field(field))
        };
        let id = |field| number(field).map(|id| (id >= 0).then_some(BrokerId(id)));
        let state = Self {
            leader_id: id("leaderId")?,
            leader_epoch: LeaderEpoch(number("leaderEpoch")?),
            voted_id: id("votedId")?,
            voted_directory_id: Uuid::ZERO,
            fixed_voters: None,
        };
        if state.leader_epoch.is_none() {
            return Err(QuorumStateError::Field("leaderEpoch"));
        }
        match json.get("data_version").and_then(Value::as_i64) {
            Some(0) => Ok(Self {
                fixed_voters: Some(fixed_voters(&json)?),
                ..state
            }),
            Some(1) => Ok(Self {
                voted_directory_id: json
                    .get("votedDirectoryId")
                    .and_then(Value::as_str)
                    .and_then(|text| text.parse().ok())
                    .ok_or(QuorumStateError::Field("votedDirectoryId"))?,
                ..state
            }),
            Some(other) => Err(QuorumStateError::Version(other)),
            None => Err(QuorumStateError::Field("data_version")),
        }
    }
}

/// The voters of a file of version 0, which may be null.
fn fixed_voters(json: &Value) -> Result<Vec<BrokerId>, QuorumStateError> {
    let invalid = QuorumStateError::Field("currentVoters");
    match json.get("currentVoters") {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(voters)) => voters
            .iter()
            .map(|voter| {
                i32::try_from(voter.get("voterId")?.as_i64()?)
                    .ok()
                    .map(BrokerId)
            })
            .collect::<Option<_>>()
            .ok_or(invalid),
        Some(_) => Err(invalid),
    }
}

/// Fuzz entry: any text; what was read is written and read again unchanged.
pub fn fuzz_quorum_state(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(state) = QuorumState::from_text(text) {
        assert_eq!(QuorumState::from_text(&state.to_text()), Ok(state));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &QuorumState) {
        assert_eq!(QuorumState::from_text(text).as_ref(), Ok(expected));
        assert_eq!(expected.to_text(), text);
    }

    #[test]
    fn files_of_kafka_are_read_and_written_byte_for_byte() {
        let dynamic = QuorumState {
            leader_id: Some(BrokerId(1)),
            leader_epoch: LeaderEpoch(1),
            voted_id: None,
            voted_directory_id: Uuid::ZERO,
            fixed_voters: None,
        };
        check(
            r#"{"leaderId":1,"leaderEpoch":1,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}"#,
            &dynamic,
        );
        check(
            r#"{"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,"currentVoters":[{"voterId":1}],"data_version":0}"#,
            &QuorumState {
                fixed_voters: Some(vec![BrokerId(1)]),
                ..dynamic
            },
        );
    }

    #[test]
    fn other_texts_are_refused() {
        let refused = |text| QuorumState::from_text(text).map_err(|error| error.to_string());
        let field = |field| Err(format!("`quorum-state` has no valid `{field}`"));
        assert!(refused("{").is_err());
        assert_eq!(refused("{}"), field("leaderId"));
        assert_eq!(
            refused(r#"{"leaderId":1,"leaderEpoch":-1,"votedId":1,"data_version":0}"#),
            field("leaderEpoch")
        );
        assert_eq!(
            refused(r#"{"leaderId":1,"leaderEpoch":1,"votedId":1,"data_version":1}"#),
            field("votedDirectoryId")
        );
        assert_eq!(
            refused(r#"{"leaderId":1,"leaderEpoch":1,"votedId":1,"data_version":2}"#),
            Err("`quorum-state` has data_version 2, only 0 and 1 are known".to_owned())
        );
        assert_eq!(
            refused(
                r#"{"leaderId":1,"leaderEpoch":1,"votedId":1,"data_version":0,"currentVoters":[1]}"#
            ),
            field("currentVoters")
        );
    }
}
