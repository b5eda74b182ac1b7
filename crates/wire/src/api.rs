//! The table of APIs: number, name, versions, listeners.

include!(concat!(env!("OUT_DIR"), "/api_keys.rs"));

/// What the protocol says of an API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApiFacts {
    /// Which API.
    pub key: ApiKey,
    /// Kafka's name, such as `Produce`.
    pub name: &'static str,
    /// What it is for, in a sentence.
    pub purpose: &'static str,
    /// The lowest version that 4.3 has.
    pub min_version: i16,
    /// The highest version that 4.3 has.
    pub max_version: i16,
    /// The highest version whose layout is settled; those above are offered only on demand.
    pub max_stable_version: i16,
    /// The first version with a flexible request, or beyond the last.
    pub request_flexible_from: i16,
    /// The first version with a flexible response, or beyond the last.
    pub response_flexible_from: i16,
    /// Whether a broker's listener serves it.
    pub broker: bool,
    /// Whether a controller's listener serves it.
    pub controller: bool,
}

/// A message that asks for an API, and the message that answers it.
pub trait Request<'a>: model::Message<'a> {
    /// What it asks for.
    const API: ApiKey;
    /// What answers it, in the same version.
    type Response: model::Message<'a>;
}

impl ApiKey {
    /// Every API, by number.
    pub fn all() -> impl Iterator<Item = &'static ApiFacts> {
        APIS.iter()
    }

    /// The API of a number from a request header.
    pub fn from_number(number: i16) -> Option<Self> {
        Self::facts_of(number).map(|facts| facts.key)
    }

    /// The facts of the API.
    pub fn facts(self) -> &'static ApiFacts {
        Self::facts_of(self as i16).expect("every key is in the table")
    }

    /// Whether a request of `version` and its header are flexible.
    pub fn is_request_flexible(self, version: i16) -> bool {
        version >= self.facts().request_flexible_from
    }

    /// The version of the header before a response of `version`. An ApiVersions response keeps
    /// header 0 at every version: its reader cannot know yet which versions the peer has.
    pub fn response_header_version(self, version: i16) -> i16 {
        let flexible = version >= self.facts().response_flexible_from;
        i16::from(flexible && self != Self::ApiVersions)
    }

    fn facts_of(number: i16) -> Option<&'static ApiFacts> {
        let index = APIS
            .binary_search_by_key(&number, |facts| facts.key as i16)
            .ok()?;
        APIS.get(index)
    }
}

impl std::fmt::Display for ApiKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.facts().name)
    }
}
