//! Listeners: what the server binds, what it tells others to connect to, and which security
//! protocol each has.
//!
//! ```text
//!   listeners=PLAINTEXT://0.0.0.0:9092,CONTROLLER://:9093      bound
//!   advertised.listeners=PLAINTEXT://broker-1.example:9092     told to clients and brokers
//!   listener.security.protocol.map=CONTROLLER:PLAINTEXT,...    protocol of each name
//!   controller.listener.names=CONTROLLER                       who is a controller listener
//! ```
//!
//! Names are compared in upper case. An empty host binds every interface.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::constraint::is_host_character;
use crate::layers::ConfigMap;
use crate::typed::TypedValues;
use crate::value::split_list;

mod error;

pub use error::ListenerError;

/// How connections of a listener are secured; the numbers are those of Kafka's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i16)]
pub enum SecurityProtocol {
    /// No encryption, no authentication.
    Plaintext = 0,
    /// TLS.
    Ssl = 1,
    /// SASL without encryption.
    SaslPlaintext = 2,
    /// SASL over TLS.
    SaslSsl = 3,
}

impl SecurityProtocol {
    const ALL: [Self; 4] = [
        Self::Plaintext,
        Self::Ssl,
        Self::SaslPlaintext,
        Self::SaslSsl,
    ];

    /// Number of the protocol in registration records.
    pub const fn code(self) -> i16 {
        self as i16
    }

    /// The protocol with this number.
    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|protocol| protocol.code() == code)
    }

    /// Kafka's name of the protocol.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plaintext => "PLAINTEXT",
            Self::Ssl => "SSL",
            Self::SaslPlaintext => "SASL_PLAINTEXT",
            Self::SaslSsl => "SASL_SSL",
        }
    }

    /// The protocol of this name, in any case of letters.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|protocol| protocol.name().eq_ignore_ascii_case(name))
    }

    /// Whether connections are encrypted.
    pub const fn uses_tls(self) -> bool {
        matches!(self, Self::Ssl | Self::SaslSsl)
    }

    /// Whether connections authenticate with SASL.
    pub const fn uses_sasl(self) -> bool {
        matches!(self, Self::SaslPlaintext | Self::SaslSsl)
    }
}

/// Name of a listener, in upper case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerName(String);

impl ListenerName {
    /// The listener of this name, in any case of letters.
    pub fn new(name: &str) -> Self {
        Self(name.to_uppercase())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What the keys of this listener alone begin with: `listener.name.<name>.`.
    pub fn config_prefix(&self) -> String {
        format!("listener.name.{}.", self.0.to_lowercase())
    }
}

impl fmt::Display for ListenerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An address of a listener, to bind or to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Name of the listener.
    pub listener: ListenerName,
    /// Its protocol.
    pub protocol: SecurityProtocol,
    /// Host name or address without brackets; empty means every interface, and when advertised
    /// the host's own name.
    pub host: String,
    /// Port; 0 lets the operating system choose.
    pub port: u16,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            listener,
            host,
            port,
            ..
        } = self;
        if host.contains(':') {
            write!(f, "{listener}://[{host}]:{port}")
        } else {
            write!(f, "{listener}://{host}:{port}")
        }
    }
}

/// Roles of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Roles {
    /// The node holds partitions and serves clients.
    pub broker: bool,
    /// The node is part of the metadata quorum.
    pub controller: bool,
}

/// Every listener of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listeners {
    /// What the server binds, as in `listeners`.
    pub bound: Vec<Endpoint>,
    /// What clients and brokers are told.
    pub advertised_to_clients: Vec<Endpoint>,
    /// What brokers and other controllers are told about this controller.
    pub advertised_by_controller: Vec<Endpoint>,
    /// Names of controller listeners, the one to use first.
    controller_names: Vec<ListenerName>,
    /// Protocol of every name.
    pub protocols: BTreeMap<ListenerName, SecurityProtocol>,
    /// The listener over which brokers talk to each other.
    pub inter_broker: ListenerName,
    /// Its protocol.
    pub(crate) inter_broker_protocol: SecurityProtocol,
}

impl Listeners {
    /// Reads and checks the listeners of a server with `roles`; `given` tells a value that was
    /// given from a default.
    pub fn read(
        values: &TypedValues,
        given: &ConfigMap,
        roles: Roles,
    ) -> Result<Self, ListenerError> {
        let controller_names: Vec<_> = values
            .list("controller.listener.names")
            .iter()
            .map(|name| name.as_str().into())
            .collect();
        // What else is wrong follows from that.
        if roles.broker && roles.controller {
            check_has_controller(values, &controller_names)?;
        }
        let protocols = protocols(values, given, &controller_names)?;
        let bound = endpoints("listeners", values.list("listeners"), &protocols)?;
        check_ports(&bound)?;
        let advertised = match values.value("advertised.listeners") {
            Some(_) => {
                let texts = values.list("advertised.listeners");
                Some(endpoints("advertised.listeners", texts, &protocols)?)
            }
            None => None,
        };
        let (inter_broker, inter_broker_protocol) = inter_broker(values, given, &protocols)?;
        let is_controller = |endpoint: &Endpoint| controller_names.contains(&endpoint.listener);
        let advertised_to_clients = if roles.broker {
            let all = advertised.as_ref().unwrap_or(&bound);
            all.iter()
                .filter(|endpoint| !is_controller(endpoint))
                .cloned()
                .collect()
        } else {
            Vec::new()
        };
        let advertised_by_controller =
            controller_endpoints(&bound, advertised.as_deref(), &is_controller);
        check_early_start(values, &bound, &controller_names)?;
        let listeners = Self {
            bound,
            advertised_to_clients,
            advertised_by_controller,
            controller_names,
            protocols,
            inter_broker,
            inter_broker_protocol,
        };
        listeners.check(roles, advertised.as_deref())?;
        Ok(listeners)
    }

    /// Whether `name` is a listener of the controller.
    pub fn is_controller(&self, name: &ListenerName) -> bool {
        self.controller_names.contains(name)
    }

    /// What the server binds for clients and brokers.
    pub fn bound_for_clients(&self) -> impl Iterator<Item = &Endpoint> {
        self.bound
            .iter()
            .filter(|endpoint| !self.is_controller(&endpoint.listener))
    }

    /// What the server binds for the controller.
    pub fn bound_for_controller(&self) -> impl Iterator<Item = &Endpoint> {
        self.bound
            .iter()
            .filter(|endpoint| self.is_controller(&endpoint.listener))
    }

    fn check(&self, roles: Roles, advertised: Option<&[Endpoint]>) -> Result<(), ListenerError> {
        if roles.controller && !roles.broker {
            if let Some(endpoint) = self.bound_for_clients().next() {
                return Err(ListenerError::NotOfController(endpoint.to_string()));
            }
        } else if roles.controller {
            if self.bound_for_controller().next().is_none() {
                return Err(ListenerError::NoControllerListener(names(
                    &self.controller_names,
                )));
            }
        } else {
            if let Some(endpoint) = self.bound_for_controller().next() {
                return Err(ListenerError::ControllerListenerOnBroker(
                    endpoint.to_string(),
                ));
            }
            let unmapped = self
                .controller_names
                .iter()
                .find(|name| !self.protocols.contains_key(name));
            if let Some(name) = unmapped {
                return Err(ListenerError::ControllerWithoutProtocol(name.to_string()));
            }
        }
        if roles.broker {
            self.check_advertised_to_clients()?;
        }
        let explicit_by_controller = advertised
            .is_some()
            .then_some(&self.advertised_by_controller);
        check_routable(&self.advertised_to_clients)?;
        check_routable(explicit_by_controller.map_or(&[], Vec::as_slice))
    }

    /// The listener by which controllers are reached: the first of `controller.listener.names`.
    pub fn of_controllers(&self) -> Option<&ListenerName> {
        self.controller_names.first()
    }

    /// Refuses protocols that are not served, at the start only: what is configured may have them.
    ///
    /// # Errors
    /// [`ListenerError::NotServed`] for the first listener with another protocol than PLAINTEXT, and
    /// [`ListenerError::NotSpoken`] where other nodes are to be reached by one.
    pub fn check_served(&self) -> Result<(), ListenerError> {
        self.check_bound_served()?;
        let of_controllers = self.of_controllers();
        let spoken = [
            ("brokers", Some(&self.inter_broker)),
            ("controllers", of_controllers),
        ];
        for (to, name) in spoken {
            let protocol = name.and_then(|name| self.protocols.get(name));
            let protocol = protocol.filter(|protocol| **protocol != SecurityProtocol::Plaintext);
            if let (Some(name), Some(protocol)) = (name, protocol) {
                return Err(ListenerError::NotSpoken {
                    to,
                    name: name.to_string(),
                    protocol: protocol.name(),
                });
            }
        }
        Ok(())
    }

    fn check_bound_served(&self) -> Result<(), ListenerError> {
        let is_secured = |one: &&Endpoint| one.protocol != SecurityProtocol::Plaintext;
        match self.bound.iter().find(is_secured) {
            Some(endpoint) => Err(ListenerError::NotServed {
                endpoint: endpoint.to_string(),
                protocol: endpoint.protocol.name(),
            }),
            None => Ok(()),
        }
    }

    fn check_advertised_to_clients(&self) -> Result<(), ListenerError> {
        if self.advertised_to_clients.is_empty() {
            return Err(ListenerError::NoClientListener);
        }
        let is_inter_broker = |endpoint: &Endpoint| endpoint.listener == self.inter_broker;
        if self.advertised_to_clients.iter().any(is_inter_broker) {
            return Ok(());
        }
        // Who is told of the listener between brokers would hear of this one next.
        self.check_bound_served()?;
        let advertised = self
            .advertised_to_clients
            .iter()
            .map(|endpoint| &endpoint.listener);
        Err(ListenerError::InterBrokerNotAdvertised {
            name: self.inter_broker.to_string(),
            advertised: names(advertised),
        })
    }
}

impl From<&str> for ListenerName {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

fn names<'a>(names: impl IntoIterator<Item = &'a ListenerName>) -> String {
    names
        .into_iter()
        .map(ListenerName::as_str)
        .collect::<Vec<_>>()
        .join(",")
}

/// Whether a listener has a name of the controller's, whatever else may be wrong with it.
fn check_has_controller(
    values: &TypedValues,
    controller_names: &[ListenerName],
) -> Result<(), ListenerError> {
    let texts = values.list("listeners");
    let name = |text: &String| {
        text.split_once("://")
            .map(|(name, _)| ListenerName::new(name))
    };
    let named: Option<Vec<ListenerName>> = texts.iter().map(name).collect();
    match named {
        Some(named) if !named.iter().any(|one| controller_names.contains(one)) => {
            Err(ListenerError::NoControllerListener(names(controller_names)))
        }
        _ => Ok(()),
    }
}

fn check_routable(endpoints: &[Endpoint]) -> Result<(), ListenerError> {
    match endpoints.iter().find(|endpoint| endpoint.host == "0.0.0.0") {
        Some(endpoint) => Err(ListenerError::NotRoutable(endpoint.to_string())),
        None => Ok(()),
    }
}

/// The protocol of every name. As long as the map is not given and nobody uses TLS or SASL,
/// controller listeners are plaintext without being named in it.
fn protocols(
    values: &TypedValues,
    given: &ConfigMap,
    controller_names: &[ListenerName],
) -> Result<BTreeMap<ListenerName, SecurityProtocol>, ListenerError> {
    let text = values
        .text("listener.security.protocol.map")
        .unwrap_or_default();
    let mut protocols: BTreeMap<ListenerName, SecurityProtocol> = BTreeMap::new();
    for pair in split_list(text).iter().filter(|pair| !pair.is_empty()) {
        let (name, protocol) = pair
            .rsplit_once(':')
            .ok_or_else(|| ListenerError::MapEntry(pair.clone()))?;
        let protocol = protocol.trim();
        let protocol = SecurityProtocol::from_name(protocol)
            .ok_or_else(|| ListenerError::UnknownProtocol(protocol.to_owned()))?;
        let name = ListenerName::new(name.trim());
        let earlier = protocols.insert(name.clone(), protocol);
        if earlier.is_some_and(|earlier| earlier != protocol) {
            return Err(ListenerError::TwoProtocols(name.to_string()));
        }
    }
    let bound = values
        .list("listeners")
        .iter()
        .filter_map(|text| text.split_once("://"));
    let is_secured = |name: &ListenerName| {
        SecurityProtocol::from_name(name.as_str())
            .is_some_and(|protocol| protocol.uses_tls() || protocol.uses_sasl())
    };
    let any_secured = controller_names.iter().any(is_secured)
        || bound
            .map(|(name, _)| ListenerName::new(name))
            .any(|name| is_secured(&name));
    if !given.contains_key("listener.security.protocol.map") && !any_secured {
        for name in controller_names {
            protocols
                .entry(name.clone())
                .or_insert(SecurityProtocol::Plaintext);
        }
    }
    Ok(protocols)
}

fn endpoints(
    key: &'static str,
    texts: &[String],
    protocols: &BTreeMap<ListenerName, SecurityProtocol>,
) -> Result<Vec<Endpoint>, ListenerError> {
    let mut endpoints: Vec<Endpoint> = Vec::with_capacity(texts.len());
    for text in texts {
        let (name, host, port) = take_apart(text).ok_or_else(|| ListenerError::Form {
            key,
            text: text.clone(),
        })?;
        let listener = ListenerName::new(name);
        let protocol = *protocols
            .get(&listener)
            .ok_or_else(|| ListenerError::NoProtocol {
                key,
                name: listener.to_string(),
            })?;
        if endpoints.iter().any(|earlier| earlier.listener == listener) {
            return Err(ListenerError::NameTwice {
                key,
                name: listener.to_string(),
            });
        }
        endpoints.push(Endpoint {
            listener,
            protocol,
            host: host.to_owned(),
            port,
        });
    }
    Ok(endpoints)
}

/// `NAME://host:port` or `NAME://[host]:port` taken apart.
fn take_apart(text: &str) -> Option<(&str, &str, u16)> {
    let (name, address) = text.rsplit_once("://")?;
    let (host, port) = address.rsplit_once(':')?;
    let host = host.strip_prefix('[').unwrap_or(host);
    let host = host.strip_suffix(']').unwrap_or(host);
    let is_port = !port.is_empty() && port.bytes().all(|digit| digit.is_ascii_digit());
    if name.is_empty() || !is_port || !host.chars().all(is_host_character) {
        return None;
    }
    Some((name, host, port.parse().ok()?))
}

/// Two listeners may share a port only if one has an IPv4 address and the other an IPv6 one.
fn check_ports(endpoints: &[Endpoint]) -> Result<(), ListenerError> {
    for endpoint in endpoints.iter().filter(|endpoint| endpoint.port != 0) {
        let hosts: Vec<_> = endpoints
            .iter()
            .filter(|other| other.port == endpoint.port)
            .map(|other| other.host.as_str())
            .collect();
        let is_v4 = |host: &str| host.parse::<Ipv4Addr>().is_ok();
        let is_v6 = |host: &str| {
            host.split('%')
                .next()
                .is_some_and(|address| address.parse::<Ipv6Addr>().is_ok())
        };
        match hosts.as_slice() {
            [_] => {}
            [one, other] if (is_v4(one) && is_v6(other)) || (is_v6(one) && is_v4(other)) => {}
            _ => return Err(ListenerError::PortTwice(endpoint.port)),
        }
    }
    Ok(())
}

fn inter_broker(
    values: &TypedValues,
    given: &ConfigMap,
    protocols: &BTreeMap<ListenerName, SecurityProtocol>,
) -> Result<(ListenerName, SecurityProtocol), ListenerError> {
    let Some(name) = values.text("inter.broker.listener.name") else {
        let protocol = values
            .text("security.inter.broker.protocol")
            .unwrap_or_default();
        let protocol = SecurityProtocol::from_name(protocol)
            .ok_or_else(|| ListenerError::UnknownProtocol(protocol.to_owned()))?;
        return Ok((ListenerName::new(protocol.name()), protocol));
    };
    if given.contains_key("security.inter.broker.protocol") {
        return Err(ListenerError::InterBrokerTwice);
    }
    let name = ListenerName::new(name);
    match protocols.get(&name) {
        Some(protocol) => Ok((name, *protocol)),
        None => Err(ListenerError::InterBrokerWithoutProtocol(name.to_string())),
    }
}

/// What a controller tells others: its advertised listeners if there are any, or else what it
/// binds. An address that stands for every interface becomes the host's own name.
fn controller_endpoints(
    bound: &[Endpoint],
    advertised: Option<&[Endpoint]>,
    is_controller: &impl Fn(&Endpoint) -> bool,
) -> Vec<Endpoint> {
    let of_controller = |endpoints: &[Endpoint]| -> Vec<Endpoint> {
        endpoints
            .iter()
            .filter(|endpoint| is_controller(endpoint))
            .cloned()
            .collect()
    };
    let advertised = advertised.map(of_controller).unwrap_or_default();
    if !advertised.is_empty() {
        return advertised;
    }
    let mut endpoints = of_controller(bound);
    for endpoint in endpoints
        .iter_mut()
        .filter(|endpoint| endpoint.host == "0.0.0.0")
    {
        endpoint.host.clear();
    }
    endpoints
}

fn check_early_start(
    values: &TypedValues,
    bound: &[Endpoint],
    controller_names: &[ListenerName],
) -> Result<(), ListenerError> {
    let names = values.list("early.start.listeners").iter();
    let mut names = names.map(|name| ListenerName::new(name));
    let stranger = names.find(|name| {
        !controller_names.contains(name) && !bound.iter().any(|endpoint| endpoint.listener == *name)
    });
    match stranger {
        Some(name) => Err(ListenerError::EarlyStartUnknown(name.to_string())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
