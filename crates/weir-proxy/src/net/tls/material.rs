//! Turns PEM into a certificate with its key: finds the leaf that fits the key, orders the chain,
//! and describes a fault in one sentence. The caller reads the files; it opens none.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{PemObject, SectionKind};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SigningKey};
use zeroize::Zeroizing;

use super::error::TlsError;
use super::x509::{self, CertificateFacts};

/// The bytes of a PEM file, and its name in messages.
#[derive(Clone)]
pub struct PemFile {
    /// The file's name in messages.
    pub label: String,
    /// The file's content, which may be a key.
    pub bytes: Zeroizing<Vec<u8>>,
}

/// A certificate chain and its key, as read from disk. One bundle may hold both, in any order.
#[derive(Clone)]
pub struct CertificateMaterial {
    /// The chain, and the key too when `key` is `None`.
    pub chain: PemFile,
    /// The key.
    pub key: Option<PemFile>,
}

/// A chain that fits its key, with the data for the choice between certificates.
#[derive(Debug)]
pub(super) struct Loaded {
    /// The chain, leaf first, with its key.
    pub certified: Arc<CertifiedKey>,
    /// The names in lower case, wildcards as `*.example.com`.
    pub names: Vec<String>,
    /// A problem for the operator that does not prevent the start.
    pub warning: Option<String>,
}

/// Reads one chain with its key; `now` is Unix time, for the warning about validity.
pub(super) fn load(
    material: &CertificateMaterial,
    provider: &CryptoProvider,
    now: i64,
) -> Result<Loaded, TlsError> {
    let file = &material.chain.label;
    let key_file = material.key.as_ref().unwrap_or(&material.chain);
    let chain = certificates(&material.chain)?;
    let facts = chain
        .iter()
        .map(|der| CertificateFacts::read(der))
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| TlsError::BadCertificate { file: file.clone() })?;
    let keys = private_keys(key_file, provider)?;
    let (leaf, key) = keys
        .iter()
        .find_map(|key| Some((position_of_leaf(&facts, key.as_ref())?, key)))
        .ok_or_else(|| TlsError::KeyMismatch {
            certificate: file.clone(),
            key: key_file.label.clone(),
        })?;
    let leaf_facts = facts.get(leaf);
    Ok(Loaded {
        certified: Arc::new(CertifiedKey::new(ordered(&chain, &facts, leaf), Arc::clone(key))),
        names: leaf_facts.map(|facts| facts.names.clone()).unwrap_or_default(),
        warning: leaf_facts.and_then(|facts| validity_warning(file, facts, now)),
    })
}

/// All certificates of a file, at least one.
pub(super) fn certificates(file: &PemFile) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found =
        CertificateDer::pem_slice_iter(&file.bytes).collect::<Result<Vec<_>, _>>().map_err(
            |error| TlsError::BadPem { file: file.label.clone(), reason: error.to_string() },
        )?;
    if found.is_empty() {
        return Err(TlsError::NoCertificateIn { file: file.label.clone() });
    }
    Ok(found)
}

/// All lists of revoked certificates of a file, at least one.
pub(super) fn revocation_lists(
    file: &PemFile,
) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    let lists = CertificateRevocationListDer::pem_slice_iter(&file.bytes)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| TlsError::BadPem {
            file: file.label.clone(),
            reason: error.to_string(),
        })?;
    if lists.is_empty() {
        return Err(TlsError::NoRevocationListIn { file: file.label.clone() });
    }
    Ok(lists)
}

/// All usable private keys of a file, at least one: PKCS#8, SEC1 or PKCS#1.
fn private_keys(
    file: &PemFile,
    provider: &CryptoProvider,
) -> Result<Vec<Arc<dyn SigningKey>>, TlsError> {
    // Checked before decoding: a `Proc-Type` header is no base64, and the decoder would report that
    // instead.
    if contains(&file.bytes, b"BEGIN ENCRYPTED PRIVATE KEY")
        || contains(&file.bytes, b"Proc-Type: 4,ENCRYPTED")
    {
        return Err(TlsError::EncryptedKey { file: file.label.clone() });
    }
    let mut keys = Vec::new();
    let mut unusable = false;
    for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(&file.bytes) {
        let (kind, der) = section.map_err(|error| TlsError::BadPem {
            file: file.label.clone(),
            reason: error.to_string(),
        })?;
        let Some(der) = PrivateKeyDer::from_pem(kind, der) else { continue };
        match provider.key_provider.load_private_key(der) {
            Ok(key) => keys.push(key),
            Err(_) => unusable = true,
        }
    }
    match (keys.is_empty(), unusable) {
        (false, _) => Ok(keys),
        (true, true) => Err(TlsError::UnusableKey { file: file.label.clone() }),
        (true, false) => Err(TlsError::NoKeyIn { file: file.label.clone() }),
    }
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    memchr::memmem::find(haystack, needle).is_some()
}

/// The position of the certificate that the key belongs to, found by the bits of the public key.
fn position_of_leaf(chain: &[CertificateFacts<'_>], key: &dyn SigningKey) -> Option<usize> {
    let info = key.public_key()?;
    let public_key = x509::public_key_bits(x509::sequence(&info)?)?;
    chain.iter().position(|certificate| certificate.public_key == public_key)
}

/// The leaf, then issuer after issuer, then the other certificates of the file, in its order. A
/// self-signed root at the end is left out: a client either has it already or will not trust it,
/// and it costs bytes in each handshake.
fn ordered(
    chain: &[CertificateDer<'static>],
    facts: &[CertificateFacts<'_>],
    leaf: usize,
) -> Vec<CertificateDer<'static>> {
    let mut rest: Vec<usize> = (0..chain.len()).filter(|idx| *idx != leaf).collect();
    let mut order = vec![leaf];
    let mut last = facts.get(leaf);
    while let Some(certificate) = last {
        let next = rest.iter().position(|idx| {
            facts.get(*idx).is_some_and(|issuer| {
                issuer.subject == certificate.issuer && certificate.issuer != certificate.subject
            })
        });
        last = next.map(|position| rest.remove(position)).and_then(|idx| {
            order.push(idx);
            facts.get(idx)
        });
    }
    order.extend(rest);
    let mut sent = Vec::with_capacity(order.len());
    for idx in order {
        let is_root = facts.get(idx).is_some_and(|facts| facts.issuer == facts.subject);
        if let Some(certificate) = chain.get(idx)
            && (idx == leaf || !is_root)
            && !sent.contains(certificate)
        {
            sent.push(certificate.clone());
        }
    }
    sent
}

fn validity_warning(file: &str, facts: &CertificateFacts<'_>, now: i64) -> Option<String> {
    if facts.not_after < now {
        return Some(format!("the certificate in {file} expired {}", days(now - facts.not_after)));
    }
    (facts.not_before > now).then(|| {
        format!(
            "the certificate in {file} is not valid yet: it starts in {} days",
            (facts.not_before - now).div_euclid(86_400)
        )
    })
}

fn days(seconds: i64) -> String {
    match seconds / 86_400 {
        0 => "today".to_owned(),
        1 => "yesterday".to_owned(),
        days => format!("{days} days ago"),
    }
}
