//! TLS on both sides as configured: certificates, protocols and trusted authorities. The files are
//! read elsewhere.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use weir_stats::Template;

use crate::words;

/// TLS to endpoints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TlsClient {
    /// Set to verify the endpoint's certificate. On unless the file says `verify=off`.
    pub verify: bool,
    /// The name that is sent as SNI and verified; `None` for the endpoint's own name or address.
    pub server_name: Option<String>,
    /// The text for the same, if each request decides it; `None` otherwise. Where it is no name,
    /// `server_name` holds.
    #[serde(with = "words::template::option", skip_serializing_if = "Option::is_none")]
    pub request_name: Option<Template>,
    /// Set to send the name to the endpoint (SNI).
    pub sni: bool,
    /// The name by which endpoints of a service are verified, where `server_name` is `None`.
    pub srv_name: SrvName,
    /// The PEM bundle of trusted roots; `None` for the system's.
    pub ca: Option<PathBuf>,
    /// The lists of revoked certificates (PEM).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crl: Option<PathBuf>,
    /// The client certificate.
    pub certificate: Option<Certificate>,
    /// The protocol versions, cipher suites and curves.
    pub protocol: TlsProtocol,
}

/// The name by which endpoints of a service (SRV records) are verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SrvName {
    /// The domain of the service, which is the name in the configuration (RFC 6125 section 6.2.1,
    /// RFC 9525 section 6.1).
    #[default]
    Domain,
    /// The target of the record, which an attacker who forges DNS answers can choose.
    Target,
}

/// TLS at a listener.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsServer {
    /// The certificates, chosen by server name and by the algorithms that the client can verify;
    /// the first is the default.
    pub certificates: Vec<Certificate>,
    /// The protocol versions, cipher suites and curves.
    #[serde(default)]
    pub protocol: TlsProtocol,
    /// The certificates of clients; `None` if they are asked for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<ClientAuthority>,
    /// The names that clients may ask for.
    #[serde(default, skip_serializing_if = "ServedNames::is_any")]
    pub names: ServedNames,
    /// The side whose order of cipher suites decides; `None` for the server's if the file lists
    /// suites, and the client's otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefer: Option<CipherPreference>,
}

/// The side whose order of cipher suites decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CipherPreference {
    /// The listener's.
    Server,
    /// The client's, which knows what its hardware is fast at.
    Client,
}

/// The server names (SNI) for which handshakes are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServedNames {
    /// All, and without a name too.
    #[default]
    Any,
    /// Those of the certificates.
    Certificate,
    /// Those of the host blocks.
    Host,
}

impl ServedNames {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_any(&self) -> bool {
        *self == Self::Any
    }
}

/// The authorities of the certificates that clients present.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientAuthority {
    /// The PEM file with the authorities, whose names clients are shown.
    pub ca: PathBuf,
    /// The PEM file with further authorities, whose names they are not shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trusted: Option<PathBuf>,
    /// The PEM file with lists of revoked certificates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crl: Option<PathBuf>,
    /// The treatment of clients without a valid certificate.
    #[serde(default)]
    pub verify: ClientVerification,
}

/// The clients that get a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientVerification {
    /// Those with a valid certificate.
    #[default]
    Required,
    /// Those with a valid certificate, and those without one.
    Optional,
    /// All; `$ssl_client_verify` tells the result.
    Request,
}

/// A certificate chain and its key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Certificate {
    /// The PEM file with the chain, leaf first; may contain the key too.
    pub chain: PathBuf,
    /// The PEM file with the key; `None` when it is in `chain`.
    #[serde(default)]
    pub key: Option<PathBuf>,
}

/// The allowed versions, cipher suites and groups. An empty list stands for the library's default
/// order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TlsProtocol {
    /// The lowest version.
    pub min: TlsVersion,
    /// The highest version.
    pub max: TlsVersion,
    /// The suites by OpenSSL or IANA name, in order of preference.
    pub ciphers: Vec<String>,
    /// The key-exchange groups by name (`X25519MLKEM768`, `X25519`,
    /// `P-256`/`secp256r1`/`prime256v1`, …), in order.
    pub curves: Vec<String>,
}

/// A TLS version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TlsVersion {
    /// TLS 1.2.
    #[serde(rename = "1.2")]
    Tls12,
    /// TLS 1.3.
    #[serde(rename = "1.3")]
    Tls13,
}
