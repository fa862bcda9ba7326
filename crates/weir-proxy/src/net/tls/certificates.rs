//! Chooses the certificate for a client: by server name, then by the signatures that the client can
//! verify. A look-up is one or two hash probes and allocates nothing.

use std::collections::HashMap;
use std::sync::Arc;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::{CertifiedKey, SigningKey};
use rustls::{SignatureAlgorithm, SignatureScheme};
use smallvec::SmallVec;

use super::material::Loaded;

/// The certificates of a listener by name.
#[derive(Debug)]
pub(super) struct Certificates {
    exact: HashMap<Box<str>, Group>,
    /// Indexed by the name after `*.`; a wildcard stands for exactly one label (RFC 6125 section
    /// 6.4.3).
    wildcard: HashMap<Box<str>, Group>,
    /// The certificates for clients that send no name, or an unknown one: the first configured
    /// certificate and its twins (the same first name with another kind of key), then the others.
    fallback: Group,
}

/// Certificates in the order in which they are tried. A certificate is left out if an earlier one
/// fits every client that it fits, so a group has at most one certificate of each kind of key.
type Group = SmallVec<[CertificateCandidate; 2]>;

/// A certificate with the signature schemes that its key supports.
#[derive(Clone, Debug)]
struct CertificateCandidate {
    certified: Arc<CertifiedKey>,
    schemes: SmallVec<[SignatureScheme; 6]>,
}

impl Certificates {
    /// Groups certificates by name. For one name the cheapest signature comes first: ECDSA before
    /// RSA.
    pub(super) fn new(loaded: &[Loaded]) -> Self {
        let (mut exact, mut wildcard) = (HashMap::new(), HashMap::new());
        for certificate in loaded {
            let candidate = CertificateCandidate::new(&certificate.certified);
            for name in &certificate.names {
                let (map, key) = name
                    .strip_prefix("*.")
                    .map_or((&mut exact, name.as_str()), |parent| (&mut wildcard, parent));
                insert(map.entry(Box::from(key)).or_default(), candidate.clone());
            }
        }
        Self { exact, wildcard, fallback: fallback(loaded) }
    }

    fn pick(
        &self,
        name: Option<&str>,
        offered: &[SignatureScheme],
    ) -> Option<&CertificateCandidate> {
        let exact = name.and_then(|name| self.exact.get(name));
        let wildcard = || name.and_then(|name| self.wildcard.get(name.split_once('.')?.1));
        let (first, second) = match exact {
            Some(group) => (group, wildcard()),
            None => (wildcard().unwrap_or(&self.fallback), None),
        };
        let fitting = |group: &'_ Group| group.iter().position(|candidate| candidate.fits(offered));
        if let Some(position) = fitting(first) {
            return first.get(position);
        }
        // If none fits, the first one lets rustls name the reason in its alert.
        second.and_then(|group| group.get(fitting(group)?)).or_else(|| first.first())
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.pick(hello.server_name(), hello.signature_schemes())
            .map(|found| Arc::clone(&found.certified))
    }
}

impl CertificateCandidate {
    fn new(certified: &Arc<CertifiedKey>) -> Self {
        let schemes = SCHEMES
            .iter()
            .copied()
            .filter(|scheme| can_make(certified.key.as_ref(), *scheme))
            .collect();
        Self { certified: Arc::clone(certified), schemes }
    }

    fn fits(&self, offered: &[SignatureScheme]) -> bool {
        self.schemes.iter().any(|scheme| offered.contains(scheme))
    }

    /// The relative cost of a signature with its key.
    fn cost(&self) -> u8 {
        match self.schemes.first() {
            Some(&SignatureScheme::ECDSA_NISTP256_SHA256) => 0,
            Some(&SignatureScheme::ED25519) => 1,
            Some(
                &(SignatureScheme::ECDSA_NISTP384_SHA384 | SignatureScheme::ECDSA_NISTP521_SHA512),
            ) => 2,
            _ => 3,
        }
    }
}

/// Returns true if any TLS 1.2 suite in `suites` can be used with one of the certificates.
pub(super) fn any_fits_tls12(loaded: &[Loaded], suites: &[rustls::SupportedCipherSuite]) -> bool {
    let kinds: Vec<SignatureAlgorithm> =
        loaded.iter().map(|entry| entry.certified.key.algorithm()).collect();
    suites
        .iter()
        .filter(|suite| suite.tls13().is_none())
        .any(|suite| kinds.iter().any(|kind| suite.usable_for_signature_algorithm(*kind)))
}

const SCHEMES: [SignatureScheme; 10] = [
    SignatureScheme::ECDSA_NISTP256_SHA256,
    SignatureScheme::ECDSA_NISTP384_SHA384,
    SignatureScheme::ECDSA_NISTP521_SHA512,
    SignatureScheme::ED25519,
    SignatureScheme::RSA_PSS_SHA256,
    SignatureScheme::RSA_PSS_SHA384,
    SignatureScheme::RSA_PSS_SHA512,
    SignatureScheme::RSA_PKCS1_SHA256,
    SignatureScheme::RSA_PKCS1_SHA384,
    SignatureScheme::RSA_PKCS1_SHA512,
];

fn can_make(key: &dyn SigningKey, scheme: SignatureScheme) -> bool {
    key.choose_scheme(&[scheme]).is_some()
}

/// Adds a certificate to its group, behind those of equal cost: for one name and kind of key the
/// first configured certificate wins.
fn insert(group: &mut Group, candidate: CertificateCandidate) {
    let at = group.iter().position(|other| other.cost() > candidate.cost()).unwrap_or(group.len());
    insert_at(group, at, candidate);
}

/// Adds a certificate at this place of its group, unless one before it has all its schemes.
fn insert_at(group: &mut Group, at: usize, candidate: CertificateCandidate) {
    let covers = |other: &CertificateCandidate| {
        candidate.schemes.iter().all(|one| other.schemes.contains(one))
    };
    if !group.iter().take(at).any(covers) {
        group.insert(at, candidate);
    }
}

fn fallback(loaded: &[Loaded]) -> Group {
    let site = loaded.first().and_then(|first| first.names.first());
    let is_twin = |idx: usize, entry: &Loaded| {
        idx == 0 || site.is_some_and(|name| entry.names.contains(name))
    };
    let (mut twins, mut others) = (Group::new(), Group::new());
    for (idx, entry) in loaded.iter().enumerate() {
        let candidate = CertificateCandidate::new(&entry.certified);
        if is_twin(idx, entry) {
            insert(&mut twins, candidate);
        } else {
            let end = others.len();
            insert_at(&mut others, end, candidate);
        }
    }
    twins.extend(others);
    twins
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};
    use rustls::crypto::aws_lc_rs::default_provider;

    use super::*;
    use crate::net::tls::material::{CertificateMaterial, PemFile, load};

    /// A certificate for this name.
    fn certificate(name: &str, key: &KeyPair) -> Loaded {
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.self_signed(key).unwrap().pem();
        let pem =
            |text: String| PemFile { label: name.to_owned(), bytes: text.into_bytes().into() };
        let key = Some(pem(key.serialize_pem()));
        let material = CertificateMaterial { chain: pem(certificate), key };
        load(&material, &default_provider(), 0).unwrap()
    }

    /// A client that sends no name, or an unknown one, is compared with one certificate of each
    /// kind of key, however many there are.
    #[test]
    fn a_group_has_one_certificate_of_each_kind_of_key() {
        let first = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap();
        let other = KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        let mut loaded = vec![certificate("first.test", &first)];
        loaded.extend((0..300).map(|number| certificate(&format!("{number}.test"), &other)));
        let certificates = Certificates::new(&loaded);
        assert_eq!(certificates.fallback.len(), 2);
        let check = |name: Option<&str>, scheme, expected: usize| {
            let picked = certificates.pick(name, &[scheme]).unwrap();
            assert!(Arc::ptr_eq(&picked.certified, &loaded[expected].certified), "{name:?}");
        };
        check(None, SignatureScheme::ECDSA_NISTP384_SHA384, 0);
        check(None, SignatureScheme::ECDSA_NISTP256_SHA256, 1);
        check(Some("unknown.test"), SignatureScheme::ECDSA_NISTP256_SHA256, 1);
        check(Some("299.test"), SignatureScheme::ECDSA_NISTP256_SHA256, 300);
        // No certificate fits: rustls names the reason in its alert.
        check(None, SignatureScheme::ED25519, 0);
    }
}
