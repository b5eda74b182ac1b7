//! What can be wrong with listeners.

/// Why a server's listeners are refused. Messages name the key, the value and what is allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListenerError {
    /// An address is not in the form of a listener.
    #[error(
        "`{key}` has the entry `{text}`, which is not of the form NAME://host:port with a \
             port from 0 to 65535"
    )]
    Form {
        /// The key.
        key: &'static str,
        /// The entry.
        text: String,
    },
    /// A listener has no protocol.
    #[error(
        "`{key}` has the listener `{name}`, for which listener.security.protocol.map has no \
             security protocol; add one to it, such as `{name}:PLAINTEXT`"
    )]
    NoProtocol {
        /// The key.
        key: &'static str,
        /// The listener.
        name: String,
    },
    /// A name stands for two addresses.
    #[error("`{key}` has the listener `{name}` twice; each listener needs a name of its own")]
    NameTwice {
        /// The key.
        key: &'static str,
        /// The listener.
        name: String,
    },
    /// Two listeners bind one port.
    #[error(
        "`listeners` has port {0} more than once; two listeners may share a port only if one \
             has an IPv4 address and the other an IPv6 address"
    )]
    PortTwice(u16),
    /// An entry of the protocol map is not a pair.
    #[error(
        "`listener.security.protocol.map` has the entry `{0}`, which is not of the form \
             NAME:PROTOCOL"
    )]
    MapEntry(String),
    /// A protocol does not exist.
    #[error(
        "`{0}` is not a security protocol; there are PLAINTEXT, SSL, SASL_PLAINTEXT and \
             SASL_SSL"
    )]
    UnknownProtocol(String),
    /// The map has one name with two protocols.
    #[error("`listener.security.protocol.map` has two protocols for the listener `{0}`")]
    TwoProtocols(String),
    /// Both ways to choose the listener between brokers are used.
    #[error("only one of inter.broker.listener.name and security.inter.broker.protocol may be set")]
    InterBrokerTwice,
    /// The listener between brokers has no protocol.
    #[error(
        "`inter.broker.listener.name` is `{0}`, for which listener.security.protocol.map has \
             no security protocol"
    )]
    InterBrokerWithoutProtocol(String),
    /// The listener between brokers is not advertised.
    #[error(
        "brokers talk over the listener `{name}` (inter.broker.listener.name or \
             security.inter.broker.protocol), which is not advertised; advertised are: \
             {advertised}"
    )]
    InterBrokerNotAdvertised {
        /// The listener.
        name: String,
        /// The listeners that are advertised.
        advertised: String,
    },
    /// A listener has a protocol that is not served.
    #[error(
        "listener {endpoint} asks for {protocol}; this version serves PLAINTEXT listeners only"
    )]
    NotServed {
        /// The listener with its address.
        endpoint: String,
        /// Its protocol.
        protocol: &'static str,
    },
    /// Other nodes are to be reached by a protocol that is not spoken.
    #[error(
        "{to} are reached over the listener {name}, which asks for {protocol}; this version talks to \
             other nodes over PLAINTEXT only"
    )]
    NotSpoken {
        /// Which nodes.
        to: &'static str,
        /// Their listener.
        name: String,
        /// Its protocol.
        protocol: &'static str,
    },
    /// A node that is only a controller binds something else.
    #[error(
        "`listeners` has `{0}`, but with process.roles=controller all of them must be in \
             controller.listener.names"
    )]
    NotOfController(String),
    /// A node that is only a broker binds a controller's listener.
    #[error(
        "`listeners` has `{0}`, but with process.roles=broker none of them may be in \
             controller.listener.names"
    )]
    ControllerListenerOnBroker(String),
    /// A controller binds nothing.
    #[error(
        "no entry of `listeners` has the name `{0}` (`controller.listener.names`), which a node \
             with the role controller needs"
    )]
    NoControllerListener(String),
    /// A controller's listener has no protocol.
    #[error(
        "`controller.listener.names` has `{0}`, for which listener.security.protocol.map has \
             no security protocol; it is assumed only while the map is not set and nothing but \
             PLAINTEXT is in use"
    )]
    ControllerWithoutProtocol(String),
    /// A broker is told to nobody.
    #[error("there is no listener for clients: all of them are in controller.listener.names")]
    NoClientListener,
    /// An advertised address leads nowhere.
    #[error(
        "`advertised.listeners` cannot have `{0}`: nobody can connect to 0.0.0.0; set \
             advertised.listeners to an address that clients reach"
    )]
    NotRoutable(String),
    /// An early listener does not exist.
    #[error(
        "`early.start.listeners` has `{0}`, which is neither in listeners nor in \
             controller.listener.names"
    )]
    EarlyStartUnknown(String),
}
