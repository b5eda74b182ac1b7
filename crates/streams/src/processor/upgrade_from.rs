//! `upgrade.from`: which version the other instances have while an application is upgraded one instance at a time.

/// A version of Kafka Streams that an application is upgraded from, 2.4 to 4.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct UpgradeFrom {
    major: u8,
    minor: u8,
}

impl UpgradeFrom {
    /// The versions that there are, as they are written.
    pub const ALL: [&'static str; 18] = [
        "2.4", "2.5", "2.6", "2.7", "2.8", "3.0", "3.1", "3.2", "3.3", "3.4", "3.5", "3.6", "3.7",
        "3.8", "3.9", "4.0", "4.1", "4.2",
    ];

    /// Reads a version; none if an upgrade from it is not possible.
    pub fn of_text(text: &str) -> Option<Self> {
        let (major, minor) = text.split_once('.').filter(|_| Self::ALL.contains(&text))?;
        Some(Self {
            major: major.parse().ok()?,
            minor: minor.parse().ok()?,
        })
    }

    /// Whether the other instances do not know changes with both values in the repartition topics of tables (KIP-904),
    /// which came with 3.5.
    pub(crate) fn parts_changes(self) -> bool {
        (self.major, self.minor) <= (3, 4)
    }

    /// Whether the other instances do not know subscriptions of foreign-key joins that tell the partition of the left
    /// record, which came with 3.4.
    pub(crate) fn omits_primary_partition(self) -> bool {
        (self.major, self.minor) <= (3, 3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_decide_what_others_can_read() {
        let check = |text: &str, expected: Option<(bool, bool)>| {
            let read = UpgradeFrom::of_text(text);
            let told = read.map(|from| (from.parts_changes(), from.omits_primary_partition()));
            assert_eq!(told, expected, "{text}");
        };
        check("2.4", Some((true, true)));
        check("3.3", Some((true, true)));
        check("3.4", Some((true, false)));
        check("3.5", Some((false, false)));
        check("4.2", Some((false, false)));
        check("2.3", None);
        check("4.3", None);
        check("", None);
    }
}
