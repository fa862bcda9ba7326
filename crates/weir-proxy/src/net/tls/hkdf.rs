//! The key derivation of TLS 1.3 (RFC 5869), composed of rustls' HKDF and aws-lc's HMAC.
//!
//! By default rustls uses the HKDF of aws-lc-rs, which hashes the key again for each secret that it
//! derives from it, and for those of the handshake and master secret even extracts that key again.
//! The HMAC keys used here keep the state of the hash after the key. A full handshake then takes a
//! third fewer compressions, which are a third of its instructions with SHA-384.

use std::sync::LazyLock;

use aws_lc_rs::hmac;
use rustls::crypto::aws_lc_rs::ALL_CIPHER_SUITES;
use rustls::crypto::hmac::{Hmac, Key, Tag};
use rustls::crypto::tls13::{Hkdf, HkdfUsingHmac};
use rustls::{CipherSuite, CipherSuiteCommon, SupportedCipherSuite, Tls13CipherSuite};

static HKDF_SHA256: HkdfUsingHmac<'_> = HkdfUsingHmac(&AwsLcHmac(hmac::HMAC_SHA256));
static HKDF_SHA384: HkdfUsingHmac<'_> = HkdfUsingHmac(&AwsLcHmac(hmac::HMAC_SHA384));

/// The library's suites of TLS 1.3 with this key derivation.
static SUITES: LazyLock<Vec<Tls13CipherSuite>> = LazyLock::new(|| {
    let suites = ALL_CIPHER_SUITES.iter().filter_map(SupportedCipherSuite::tls13);
    suites.filter_map(with_hkdf).collect()
});

/// The same suite with this key derivation, if there is one for it; otherwise the suite itself.
pub(super) fn with_cached_keys(suite: SupportedCipherSuite) -> SupportedCipherSuite {
    let own = SUITES.iter().find(|own| own.common.suite == suite.suite());
    own.map_or(suite, SupportedCipherSuite::Tls13)
}

fn with_hkdf(suite: &Tls13CipherSuite) -> Option<Tls13CipherSuite> {
    let CipherSuiteCommon { suite: id, hash_provider, confidentiality_limit } = suite.common;
    let hkdf_provider: &dyn Hkdf = match id {
        CipherSuite::TLS13_AES_256_GCM_SHA384 => &HKDF_SHA384,
        CipherSuite::TLS13_AES_128_GCM_SHA256 | CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => {
            &HKDF_SHA256
        }
        _ => return None,
    };
    Some(Tls13CipherSuite {
        common: CipherSuiteCommon { suite: id, hash_provider, confidentiality_limit },
        hkdf_provider,
        aead_alg: suite.aead_alg,
        quic: suite.quic,
    })
}

/// HMAC with one of aws-lc's hash functions.
struct AwsLcHmac(hmac::Algorithm);

impl Hmac for AwsLcHmac {
    fn with_key(&self, key: &[u8]) -> Box<dyn Key> {
        Box::new(AwsLcKey(hmac::Key::new(self.0, key)))
    }

    fn hash_output_len(&self) -> usize {
        self.0.digest_algorithm().output_len()
    }
}

struct AwsLcKey(hmac::Key);

impl Key for AwsLcKey {
    fn sign_concat(&self, first: &[u8], middle: &[&[u8]], last: &[u8]) -> Tag {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(first);
        for part in middle {
            context.update(part);
        }
        context.update(last);
        Tag::new(context.sign().as_ref())
    }

    fn tag_len(&self) -> usize {
        self.0.algorithm().digest_algorithm().output_len()
    }
}

#[cfg(test)]
mod tests {
    use rustls::crypto::tls13::{HkdfExpander, OkmBlock};

    use super::*;

    /// The values that a key derivation gives, in the order of a handshake.
    fn derived(hkdf: &dyn Hkdf) -> Vec<Vec<u8>> {
        let mut values = Vec::new();
        let mut expand = |from: &dyn HkdfExpander| {
            let block = from.expand_block(&[b"label ", b"", b"context"]);
            for length in [0, 1, 12, 32, from.hash_len(), 2 * from.hash_len() + 1] {
                let mut out = vec![0; length];
                from.expand_slice(&[b"key", &[length as u8]], &mut out).unwrap();
                values.push(out);
            }
            let mut too_long = vec![0; 255 * from.hash_len() + 1];
            assert!(from.expand_slice(&[b"x"], &mut too_long).is_err());
            values.push(block.as_ref().to_vec());
            block
        };
        expand(&*hkdf.extract_from_zero_ikm(None));
        let salt = expand(&*hkdf.extract_from_zero_ikm(Some(b"a salt")));
        let okm = expand(&*hkdf.extract_from_secret(Some(salt.as_ref()), b"a shared secret"));
        expand(&*hkdf.extract_from_secret(None, b"another"));
        let traffic: OkmBlock = expand(&*hkdf.expander_for_okm(&okm));
        values.push(hkdf.hmac_sign(&traffic, b"a transcript").as_ref().to_vec());
        values
    }

    #[test]
    fn every_suite_derives_the_same_values_as_the_library() {
        let libraries: Vec<_> =
            ALL_CIPHER_SUITES.iter().filter(|suite| suite.tls13().is_some()).copied().collect();
        assert_eq!(libraries.len(), 3);
        for library in libraries {
            let (own, theirs) = (with_cached_keys(library).tls13(), library.tls13());
            let (own, theirs) = (own.unwrap(), theirs.unwrap());
            assert!(!std::ptr::eq(own, theirs), "{library:?} keeps the library's derivation");
            assert_eq!(own.common.suite, theirs.common.suite);
            assert_eq!(derived(own.hkdf_provider), derived(theirs.hkdf_provider), "{library:?}");
        }
    }

    #[test]
    fn a_suite_of_tls_1_2_stays_as_it_is() {
        let suites = ALL_CIPHER_SUITES.iter().filter(|suite| suite.tls13().is_none());
        for suite in suites {
            assert_eq!(with_cached_keys(*suite), *suite);
        }
    }
}
