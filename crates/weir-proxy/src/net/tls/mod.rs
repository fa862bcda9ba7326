//! TLS on both sides, on rustls with aws-lc-rs: turns certificates, keys and names of suites into
//! one `rustls::ServerConfig` per listener and one `rustls::ClientConfig` per pool and worker, and
//! reads the results of handshakes. It opens no file and no socket. The only records that it
//! transfers are those of a client's handshake, whose cost it limits.
//!
//! *Invariant:* nothing on the handshake path takes a lock that workers share. Tickets are
//! stateless, their keys are swapped with `arc-swap`, and each worker keeps its own cache of
//! upstream sessions.

mod certificates;
mod client;
mod client_certificates;
mod client_hello;
mod error;
mod facts;
mod hkdf;
mod known_names;
mod material;
mod passthrough;
mod server;
mod server_handshake;
mod suites;
mod tickets;
mod x509;

#[cfg(test)]
mod tests;

pub use self::client::{ClientSettings, ClientTls, H2, offering, server_name};
pub use self::client_certificates::{ClientVerifier, NoClient};
pub use self::error::TlsError;
pub use self::facts::{TlsFacts, facts};
pub(crate) use self::known_names::{KnownNames, NamedOnly};
pub use self::material::{CertificateMaterial, PemFile};
pub use self::passthrough::{Beginning, HelloFacts, read_beginning};
pub use self::server::{ClientCertificates, Demand, ServerTls};
pub use self::server_handshake::accept;
pub(crate) use self::server_handshake::{TlsStart, accept_or_text};
pub use self::suites::{ProtocolSettings, check as check_protocol};
pub use self::tickets::Tickets;
pub use self::x509::certificate_names;
