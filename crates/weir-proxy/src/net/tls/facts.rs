//! The result of a finished handshake, in the spelling of logs and `$variables`. It does not take
//! part in the handshake.

use std::rc::Rc;

use rustls::{HandshakeKind, NamedGroup, ProtocolVersion, ServerConnection};
use weir_stats::ClientCertificate;

use super::suites;

/// The outcome of a client's handshake. Fields are `None` until it is complete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFacts<'a> {
    /// `TLSv1.3` or `TLSv1.2`, as in OpenSSL, nginx and HAProxy.
    pub version: Option<&'static str>,
    /// The suite's IANA name.
    pub suite: Option<&'static str>,
    /// The suite's OpenSSL name, which nginx and HAProxy log.
    pub suite_openssl: Option<&'static str>,
    /// The key-exchange group's IANA name.
    pub group: Option<&'static str>,
    /// The name that the client asked for, in lower case.
    pub server_name: Option<&'a str>,
    /// Set if a session was resumed.
    pub resumed: bool,
    /// The client's certificate, at a listener that asks for one. [`facts`] does not know it.
    pub client: Option<Rc<ClientCertificate>>,
}

impl TlsFacts<'_> {
    /// The facts without the name, which is borrowed from the connection: these can be stored
    /// beside it.
    pub fn without_name(self) -> TlsFacts<'static> {
        let Self { version, suite, suite_openssl, group, resumed, client, .. } = self;
        TlsFacts { version, suite, suite_openssl, group, server_name: None, resumed, client }
    }
}

/// Reads the facts of a connection; allocates nothing.
pub fn facts(connection: &ServerConnection) -> TlsFacts<'_> {
    let names =
        connection.negotiated_cipher_suite().and_then(|suite| suites::names_of(suite.suite()));
    TlsFacts {
        version: connection.protocol_version().and_then(version_name),
        suite: names.map(|(iana, _)| iana),
        suite_openssl: names.map(|(_, openssl)| openssl),
        group: connection
            .negotiated_key_exchange_group()
            .and_then(|group| group_name(group.name())),
        server_name: connection.server_name(),
        resumed: connection.handshake_kind() == Some(HandshakeKind::Resumed),
        client: None,
    }
}

fn version_name(version: ProtocolVersion) -> Option<&'static str> {
    match version {
        ProtocolVersion::TLSv1_2 => Some("TLSv1.2"),
        ProtocolVersion::TLSv1_3 => Some("TLSv1.3"),
        _ => None,
    }
}

fn group_name(group: NamedGroup) -> Option<&'static str> {
    match group {
        NamedGroup::X25519MLKEM768 => Some("X25519MLKEM768"),
        NamedGroup::X25519 => Some("x25519"),
        NamedGroup::secp256r1 => Some("secp256r1"),
        NamedGroup::secp384r1 => Some("secp384r1"),
        NamedGroup::secp256r1MLKEM768 => Some("SecP256r1MLKEM768"),
        NamedGroup::MLKEM768 => Some("MLKEM768"),
        NamedGroup::MLKEM1024 => Some("MLKEM1024"),
        _ => None,
    }
}
