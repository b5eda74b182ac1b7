//! Which groups with members the broker converts to the other type.

/// Which conversions of groups with members are allowed (`group.consumer.migration.policy`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MigrationPolicy {
    /// None.
    Disabled,
    /// From consumer to classic.
    Downgrade,
    /// From classic to consumer.
    Upgrade,
    /// Both.
    #[default]
    Bidirectional,
}

impl MigrationPolicy {
    pub(super) const fn allows_any(self) -> bool {
        !matches!(self, Self::Disabled)
    }

    pub(super) const fn allows_upgrade(self) -> bool {
        matches!(self, Self::Upgrade | Self::Bidirectional)
    }

    pub(super) const fn allows_downgrade(self) -> bool {
        matches!(self, Self::Downgrade | Self::Bidirectional)
    }
}
