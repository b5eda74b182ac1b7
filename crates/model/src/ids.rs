//! Names of things in a cluster.

use std::fmt;
use std::num::ParseIntError;
use std::ops::{Add, AddAssign, Sub};
use std::str::FromStr;

/// A number that must not be taken for another one of the same width: shown as the number, and as fast.
macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $name(pub $inner);

        impl $name {
            /// Where there is none, or nobody says: -1, as on the wire and on disk.
            pub const NONE: Self = Self(-1);

            /// Whether it stands for none: Kafka takes any negative number so.
            #[inline]
            pub const fn is_none(self) -> bool {
                self.0 < 0
            }
        }

        impl FromStr for $name {
            type Err = ParseIntError;

            fn from_str(digits: &str) -> Result<Self, ParseIntError> {
                digits.parse().map(Self)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

number! {
    /// The id of a node: `node.id` of a broker or a controller.
    #[derive(Default)]
    BrokerId(i32)
}

number! {
    /// Which registration of a broker with the controller: the offset of its record in the metadata log.
    #[derive(Default)]
    BrokerEpoch(i64)
}

number! {
    /// How many times a partition, or the quorum's log, has had a leader elected: each batch bears the epoch
    /// in which it was written.
    #[derive(Default)]
    LeaderEpoch(i32)
}

number! {
    /// Whose batches these are: an id that the cluster gives once, to one producer or one transactional id.
    ProducerId(i64)
}

number! {
    /// How many times a producer has begun anew under its id: one of an older epoch is fenced.
    #[derive(Default)]
    ProducerEpoch(i16)
}

impl ProducerEpoch {
    /// The epoch of the producer that comes after.
    #[inline]
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl LeaderEpoch {
    /// The epoch of the next leader.
    #[inline]
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

number! {
    /// Where a record stands in its partition's log, or the quorum's: no time, no size and no position in a
    /// file, which are as wide. A count of records moves it, and two of them are a count apart.
    #[derive(Default)]
    Offset(i64)
}

impl Offset {
    /// The first of every log.
    pub const ZERO: Self = Self(0);

    /// Before every log.
    pub const MIN: Self = Self(i64::MIN);

    /// Beyond every log.
    pub const MAX: Self = Self(i64::MAX);

    /// The offset `count` further, around the end of the range: of a batch that nobody has checked.
    #[inline]
    #[must_use]
    pub const fn wrapping_add(self, count: i64) -> Self {
        Self(self.0.wrapping_add(count))
    }

    /// The offset `count` further, or the greatest.
    #[inline]
    #[must_use]
    pub const fn saturating_add(self, count: i64) -> Self {
        Self(self.0.saturating_add(count))
    }
}

impl Add<i64> for Offset {
    type Output = Self;

    #[inline]
    fn add(self, count: i64) -> Self {
        Self(self.0 + count)
    }
}

impl AddAssign<i64> for Offset {
    #[inline]
    fn add_assign(&mut self, count: i64) {
        self.0 += count;
    }
}

impl Sub<i64> for Offset {
    type Output = Self;

    #[inline]
    fn sub(self, count: i64) -> Self {
        Self(self.0 - count)
    }
}

impl Sub for Offset {
    type Output = i64;

    #[inline]
    fn sub(self, other: Self) -> i64 {
        self.0 - other.0
    }
}

/// A partition of a topic by name, shown as Kafka does: `topic-3`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    /// The topic's name.
    pub topic: String,
    /// The partition's index within the topic, from zero.
    pub partition: i32,
}

impl TopicPartition {
    /// The partition `partition` of `topic`.
    pub fn new(topic: impl Into<String>, partition: i32) -> Self {
        Self {
            topic: topic.into(),
            partition,
        }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_shown_and_read_as_the_number() {
        let check = |epoch: LeaderEpoch, expect: &str| {
            assert_eq!(
                (format!("{epoch}"), format!("{epoch:?}")),
                (expect.into(), expect.into())
            );
            assert_eq!(expect.parse(), Ok(epoch));
            assert_eq!(epoch.is_none(), expect.starts_with('-'), "{expect}");
        };
        check(LeaderEpoch::NONE, "-1");
        check(LeaderEpoch(-7), "-7");
        check(LeaderEpoch(0), "0");
        check(LeaderEpoch(6).next(), "7");
        check(LeaderEpoch(i32::MAX).next(), "2147483647");
        assert!("7x".parse::<LeaderEpoch>().is_err());
        assert_eq!(ProducerEpoch(i16::MAX).next(), ProducerEpoch(i16::MAX));
        assert_eq!(
            format!("{} {:?}", ProducerId(4711), ProducerEpoch(3)),
            "4711 3"
        );
    }

    #[test]
    fn a_count_moves_an_offset_and_two_offsets_are_a_count_apart() {
        let mut offset = Offset::ZERO + 7;
        offset += 2;
        assert_eq!(
            (offset, offset - 1, offset - Offset(4)),
            (Offset(9), Offset(8), 5)
        );
        assert_eq!(format!("{offset:020}"), "00000000000000000009");
        assert_eq!(Offset::MAX.saturating_add(1), Offset::MAX);
        assert_eq!(Offset::MAX.wrapping_add(1), Offset(i64::MIN));
        assert!(Offset::NONE < Offset::ZERO && offset < Offset::MAX);
    }
}
