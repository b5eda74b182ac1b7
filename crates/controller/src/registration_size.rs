//! How much a node may say of itself when it registers: every node keeps it, every snapshot has it, and one record
//! holds all of it.

use crate::decision::ApiError;
use metadata::{Endpoint, SupportedFeatures};
use model::ErrorCode;

/// More than any node has.
const LISTENERS_MAX: usize = 100;
/// More than there will be for long.
const FEATURES_MAX: usize = 1_000;
/// More than a machine has disks.
pub(crate) const DIRECTORIES_MAX: usize = 1_000;
/// What listeners, hosts, features and rack are called, in all. A broker of Apache Kafka takes one or two thousand.
const NAMES_BYTES_MAX: usize = 64 << 10;

/// What takes room of what a node says of itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RegistrationSize<'a> {
    /// Broker or controller, with its article.
    pub(crate) node: &'static str,
    /// Its listeners.
    pub(crate) endpoints: &'a [Endpoint],
    /// What it can work with.
    pub(crate) features: &'a SupportedFeatures,
    /// Where it stands.
    pub(crate) rack: Option<&'a str>,
    /// How many log directories it has.
    pub(crate) directory_count: usize,
}

impl RegistrationSize<'_> {
    /// Checks it.
    ///
    /// # Errors
    /// INVALID_REGISTRATION when it is more than a node has to say.
    pub(crate) fn check(&self) -> Result<(), ApiError> {
        let counts = [
            ("listeners", self.endpoints.len(), LISTENERS_MAX),
            ("features", self.features.len(), FEATURES_MAX),
            ("log directories", self.directory_count, DIRECTORIES_MAX),
            ("bytes of names", self.names_bytes(), NAMES_BYTES_MAX),
        ];
        let excess = counts.iter().find(|(_, count, max)| count > max);
        excess.map_or(Ok(()), |(what, count, max)| {
            let words = format!(
                "{} registers with {count} {what}; {max} are the most.",
                self.node
            );
            Err(ApiError::new(ErrorCode::InvalidRegistration, words))
        })
    }

    fn names_bytes(&self) -> usize {
        let endpoints = self.endpoints.iter();
        let endpoints = endpoints.map(|one| one.name.len() + one.host.len());
        let features = self.features.keys().map(String::len);
        let rack = self.rack.map_or(0, str::len);
        endpoints.chain(features).sum::<usize>() + rack
    }
}
