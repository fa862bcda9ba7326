//! TLS on both sides: certificates, protocols, and whom to trust. Files are named here and read elsewhere.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// TLS to endpoints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TlsClient {
    /// Verify the endpoint's certificate. On unless the file says `verify=off`.
    pub verify: bool,
    /// Name sent as SNI and verified; `None` uses the endpoint's own name or address.
    pub server_name: Option<String>,
    /// The name that servers of a service are verified by, where `server_name` is `None`.
    pub srv_name: SrvName,
    /// PEM bundle of trusted roots; `None` uses the system's.
    pub ca: Option<PathBuf>,
    /// Client certificate to present.
    pub certificate: Option<Certificate>,
    /// Protocols, suites and curves.
    pub protocol: TlsProtocol,
}

/// The name by which servers of a service (SRV records) are verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SrvName {
    /// The domain of the service, which the configuration names (RFC 6125 section 6.2.1, RFC 9525 section 6.1).
    #[default]
    Domain,
    /// The target of the record. Whoever can forge DNS answers chooses it.
    Target,
}

/// TLS at a listener.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsServer {
    /// Certificates, chosen by server name and by what the client can verify; the first is the default.
    pub certificates: Vec<Certificate>,
    /// Protocols, suites and curves.
    #[serde(default)]
    pub protocol: TlsProtocol,
}

/// A certificate chain and its key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Certificate {
    /// PEM file with the chain, leaf first; may hold the key too.
    pub chain: PathBuf,
    /// PEM file with the key; `None` when it is in `chain`.
    #[serde(default)]
    pub key: Option<PathBuf>,
}

/// Versions, suites and groups allowed. Empty lists mean the library's safe default order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TlsProtocol {
    /// Lowest version.
    pub min: TlsVersion,
    /// Highest version.
    pub max: TlsVersion,
    /// Suites by OpenSSL or IANA name, in order of preference.
    pub ciphers: Vec<String>,
    /// Key-exchange groups by name (`X25519MLKEM768`, `X25519`, `P-256`/`secp256r1`/`prime256v1`, …), in order.
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
