//! `metadata.version`: which records, and which versions of them, a cluster may write.

use std::fmt;

/// A level of the feature `metadata.version`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MetadataVersion(i16);

/// Level, name, and whether the level changes the records on disk.
const LEVELS: &[(i16, &str, bool)] = &[
    (7, "3.3-IV3", true),
    (8, "3.4-IV0", true),
    (9, "3.5-IV0", false),
    (10, "3.5-IV1", false),
    (11, "3.5-IV2", true),
    (12, "3.6-IV0", false),
    (13, "3.6-IV1", true),
    (14, "3.6-IV2", true),
    (15, "3.7-IV0", true),
    (16, "3.7-IV1", false),
    (17, "3.7-IV2", true),
    (18, "3.7-IV3", false),
    (19, "3.7-IV4", false),
    (20, "3.8-IV0", false),
    (21, "3.9-IV0", false),
    (22, "4.0-IV0", false),
    (23, "4.0-IV1", true),
    (24, "4.0-IV2", false),
    (25, "4.0-IV3", false),
    (26, "4.1-IV0", false),
    (27, "4.1-IV1", false),
    (28, "4.2-IV0", false),
    (29, "4.2-IV1", false),
    (30, "4.3-IV0", true),
];

impl MetadataVersion {
    /// The name of the feature.
    pub const FEATURE: &'static str = "metadata.version";
    /// The lowest level that can be read: 3.3-IV3.
    pub const MINIMUM: Self = Self(7);
    /// The level of a new cluster: 4.3-IV0.
    pub const LATEST: Self = Self(30);

    /// The version of this level; `None` when it is unknown.
    pub fn from_level(level: i16) -> Option<Self> {
        (Self::MINIMUM.0..=Self::LATEST.0)
            .contains(&level)
            .then_some(Self(level))
    }

    /// The version of this name, such as `4.3-IV0`, or of the newest of a release, such as `4.3`.
    pub fn from_name(name: &str) -> Option<Self> {
        let of_release = |full: &str| full.split_once("-IV").is_some_and(|(r, _)| r == name);
        LEVELS
            .iter()
            .rev()
            .find(|(_, full, _)| *full == name || of_release(full))
            .map(|(level, ..)| Self(*level))
    }

    /// The level as a number.
    pub const fn level(self) -> i16 {
        self.0
    }

    /// The name, such as `4.3-IV0`.
    pub fn name(self) -> &'static str {
        LEVELS
            .iter()
            .find(|(level, ..)| *level == self.0)
            .map_or("unknown", |(_, name, _)| name)
    }

    /// Whether going from one level to the other changes which records may be written.
    pub fn changes_records(self, other: Self) -> bool {
        let (low, high) = (self.min(other), self.max(other));
        LEVELS
            .iter()
            .any(|(level, _, changes)| *changes && *level > low.0 && *level <= high.0)
    }

    /// SCRAM credentials may be written.
    pub const fn supports_scram(self) -> bool {
        self.0 >= 11
    }

    /// Shrinking the ISR must raise the leader epoch.
    pub const fn raises_leader_epoch_on_isr_shrink(self) -> bool {
        self.0 < 12
    }

    /// Metadata transactions may be written.
    pub const fn supports_transactions(self) -> bool {
        self.0 >= 13
    }

    /// Delegation tokens may be written.
    pub const fn supports_delegation_tokens(self) -> bool {
        self.0 >= 14
    }

    /// Controllers register themselves.
    pub const fn supports_controller_registration(self) -> bool {
        self.0 >= 15
    }

    /// Replicas are assigned to log directories.
    pub const fn supports_directory_assignment(self) -> bool {
        self.0 >= 17
    }

    /// Log directories may be cordoned.
    pub const fn supports_cordoned_directories(self) -> bool {
        self.0 >= 30
    }

    /// The version of `RegisterBrokerRecord`.
    pub const fn register_broker_version(self) -> i16 {
        match self.0 {
            30.. => 4,
            17.. => 3,
            8.. => 2,
            _ => 1,
        }
    }

    /// The version of `PartitionRecord` and of `PartitionChangeRecord`.
    pub const fn partition_version(self) -> i16 {
        match self.0 {
            23.. => 2,
            17.. => 1,
            _ => 0,
        }
    }
}

impl fmt::Display for MetadataVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_names_go_both_ways() {
        for (level, name, _) in LEVELS {
            let version = MetadataVersion::from_level(*level).expect("listed");
            assert_eq!(version.name(), *name);
            assert_eq!(MetadataVersion::from_name(name), Some(version));
        }
        assert_eq!(MetadataVersion::from_level(6), None);
        assert_eq!(MetadataVersion::from_level(31), None);
        assert_eq!(MetadataVersion::from_name("4.0"), Some(MetadataVersion(25)));
        assert_eq!(MetadataVersion::from_name("5.0"), None);
    }

    #[test]
    fn only_some_levels_change_the_records() {
        let check = |low, high, changes| {
            let (low, high) = (MetadataVersion(low), MetadataVersion(high));
            assert_eq!(low.changes_records(high), changes);
            assert_eq!(high.changes_records(low), changes);
        };
        check(30, 30, false);
        check(29, 30, true);
        check(23, 29, false);
        check(22, 23, true);
    }
}
