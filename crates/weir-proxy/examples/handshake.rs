//! Measures the time that the server side spends on a TLS handshake, and the memory of an idle TLS
//! connection. Everything runs in memory on one thread, without sockets. It asserts nothing.
//!
//! ```text
//! cargo run --release -p weir-proxy --example handshake
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};

use rcgen::{CertificateParams, CertifiedIssuer, IsCa, KeyPair, PKCS_RSA_SHA256, RsaKeySize};
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::ServerName;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use weir_proxy::tls::{CertificateMaterial, PemFile, ProtocolSettings, ServerTls, Tickets};

const ROUNDS: usize = 2000;
const CONNECTIONS: usize = 2000;

type Failure = Box<dyn std::error::Error>;

/// The client's offer; by default X25519 and the library's cipher suites, which begin with AES-256
/// and SHA-384.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Offer {
    Default,
    Hybrid,
    Aes128,
}

fn main() -> Result<(), Failure> {
    let authority_key = KeyPair::generate()?;
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, authority_key)?;
    let mut roots = RootCertStore::empty();
    roots.add(authority.der().clone())?;
    for (kind, key) in [
        ("P-256", KeyPair::generate()?),
        ("RSA 2048", KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048)?),
    ] {
        let params = CertificateParams::new(vec!["a.example".to_owned()])?;
        let leaf = params.signed_by(&key, &authority)?;
        let pem = |label: &str, text: String| PemFile {
            label: label.to_owned(),
            bytes: text.into_bytes().into(),
        };
        let material = CertificateMaterial {
            chain: pem("chain", leaf.pem()),
            key: Some(pem("key", key.serialize_pem())),
        };
        let server =
            ServerTls::new(&[material], &ProtocolSettings::default(), Tickets::new()?)?.config;
        for (label, version, offer, resumption) in [
            ("TLS 1.3 full, X25519", &TLS13, Offer::Default, Resumption::disabled()),
            ("TLS 1.3 full, X25519MLKEM768", &TLS13, Offer::Hybrid, Resumption::disabled()),
            ("TLS 1.3 full, X25519, SHA-256", &TLS13, Offer::Aes128, Resumption::disabled()),
            ("TLS 1.3 resumed", &TLS13, Offer::Default, Resumption::in_memory_sessions(8)),
            ("TLS 1.2 full", &TLS12, Offer::Default, Resumption::disabled()),
            ("TLS 1.2 resumed", &TLS12, Offer::Default, Resumption::in_memory_sessions(8)),
        ] {
            let mut client = client(&roots, version, offer)?;
            client.resumption = resumption;
            println!("{kind:8} {label:32} {:8.1} us server", cost(&Arc::new(client), &server)?);
        }
        memory(kind, &Arc::new(client(&roots, &TLS13, Offer::Default)?), &server)?;
    }
    Ok(())
}

fn client(
    roots: &RootCertStore,
    version: &'static rustls::SupportedProtocolVersion,
    offer: Offer,
) -> Result<ClientConfig, Failure> {
    let mut provider: CryptoProvider = aws_lc_rs::default_provider();
    if offer != Offer::Hybrid {
        provider.kx_groups = vec![aws_lc_rs::kx_group::X25519];
    }
    if offer == Offer::Aes128 {
        provider.cipher_suites = vec![aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256];
    }
    Ok(ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[version])?
        .with_root_certificates(roots.clone())
        .with_no_client_auth())
}

/// The time of the server's calls per handshake in microseconds: the median, because other load on
/// the machine affects it least.
fn cost(client: &Arc<ClientConfig>, server: &Arc<ServerConfig>) -> Result<f64, Failure> {
    let mut spent =
        (0..ROUNDS).map(|_| Ok(shake(client, server)?.1)).collect::<Result<Vec<_>, Failure>>()?;
    spent.sort_unstable();
    let median = spent.get(spent.len() / 2).copied().unwrap_or_default();
    Ok(median.as_secs_f64() * 1e6)
}

/// Runs a handshake up to and including the session ticket; returns the time that the server spent
/// on it.
fn shake(
    client: &Arc<ClientConfig>,
    server: &Arc<ServerConfig>,
) -> Result<(ServerConnection, Duration), Failure> {
    let mut client = ClientConnection::new(Arc::clone(client), ServerName::try_from("a.example")?)?;
    let start = Instant::now();
    let mut server = ServerConnection::new(Arc::clone(server))?;
    let mut spent = start.elapsed();
    let mut wire = Vec::with_capacity(16 * 1024);
    while client.is_handshaking() || server.is_handshaking() || server.wants_write() {
        wire.clear();
        while client.wants_write() {
            client.write_tls(&mut wire)?;
        }
        let start = Instant::now();
        let mut rest = wire.as_slice();
        while !rest.is_empty() {
            server.read_tls(&mut rest)?;
            server.process_new_packets()?;
        }
        let mut back = Vec::with_capacity(16 * 1024);
        while server.wants_write() {
            server.write_tls(&mut back)?;
        }
        spent += start.elapsed();
        let mut rest = back.as_slice();
        while !rest.is_empty() {
            client.read_tls(&mut rest)?;
            client.process_new_packets()?;
        }
    }
    Ok((server, spent))
}

/// Prints the memory per idle connection, computed from the growth of the process's resident
/// memory.
fn memory(
    kind: &str,
    client: &Arc<ClientConfig>,
    server: &Arc<ServerConfig>,
) -> Result<(), Failure> {
    let mut kept = Vec::with_capacity(CONNECTIONS);
    for _ in 0..CONNECTIONS / 4 {
        shake(client, server)?;
    }
    let before = resident_kib()?;
    for _ in 0..CONNECTIONS {
        kept.push(shake(client, server)?.0);
    }
    let grown = resident_kib()?.saturating_sub(before);
    println!("idle connection, {kind}: {:.1} KiB", grown as f64 / kept.len() as f64);
    Ok(())
}

fn resident_kib() -> Result<u64, Failure> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}
