//! Maps the usual names of versions, cipher suites and curves to a `CryptoProvider`.
//!
//! As in nginx and HAProxy, the suites of TLS 1.2 and 1.3 are two lists: naming suites of one
//! version selects those for that version and leaves the other version at its default. The curves
//! are a set; among those that both sides have, the client's order decides (rustls reads the
//! client's list first).

use rustls::crypto::aws_lc_rs::{self, cipher_suite as suite, kx_group};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::version::{TLS12, TLS13};
use rustls::{CipherSuite, ProtocolVersion, SupportedCipherSuite, SupportedProtocolVersion};
use weir_config::model::{CipherPreference, TlsVersion};

use super::error::TlsError;
use super::hkdf;

/// The protocol settings of an operator. Empty lists select the safe defaults.
#[derive(Clone, Copy, Debug)]
pub struct ProtocolSettings<'a> {
    /// The lowest version.
    pub min: TlsVersion,
    /// The highest version.
    pub max: TlsVersion,
    /// The suites by OpenSSL or IANA name, in order of preference.
    pub ciphers: &'a [String],
    /// The key-exchange groups by any of their names.
    pub curves: &'a [String],
    /// The side whose order of suites decides at a listener; `None` for the server's if it lists
    /// suites, and the client's otherwise.
    pub prefer: Option<CipherPreference>,
}

impl Default for ProtocolSettings<'_> {
    fn default() -> Self {
        Self {
            min: TlsVersion::Tls12,
            max: TlsVersion::Tls13,
            ciphers: &[],
            curves: &[],
            prefer: None,
        }
    }
}

/// Checks that the names and versions fit together, without a certificate.
///
/// # Errors
/// One sentence that names the word at fault.
pub fn check(settings: &ProtocolSettings<'_>) -> Result<(), TlsError> {
    provider(settings).map(|_| ())
}

/// A suite with its two names.
struct SuiteName {
    iana: &'static str,
    openssl: &'static str,
    suite: SupportedCipherSuite,
}

macro_rules! suite_table {
    ($($iana:literal $openssl:literal $suite:ident),* $(,)?) => {
        &[$(SuiteName { iana: $iana, openssl: $openssl, suite: suite::$suite }),*]
    };
}

static SUITES: &[SuiteName] = suite_table![
    "TLS_AES_256_GCM_SHA384" "TLS_AES_256_GCM_SHA384" TLS13_AES_256_GCM_SHA384,
    "TLS_AES_128_GCM_SHA256" "TLS_AES_128_GCM_SHA256" TLS13_AES_128_GCM_SHA256,
    "TLS_CHACHA20_POLY1305_SHA256" "TLS_CHACHA20_POLY1305_SHA256" TLS13_CHACHA20_POLY1305_SHA256,
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384" "ECDHE-ECDSA-AES256-GCM-SHA384"
        TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256" "ECDHE-ECDSA-AES128-GCM-SHA256"
        TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256" "ECDHE-ECDSA-CHACHA20-POLY1305"
        TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384" "ECDHE-RSA-AES256-GCM-SHA384"
        TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256" "ECDHE-RSA-AES128-GCM-SHA256"
        TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256" "ECDHE-RSA-CHACHA20-POLY1305"
        TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
];

/// All groups with their names; the first name of a group is used in messages.
static CURVES: &[(&[&str], &dyn SupportedKxGroup)] = &[
    (&["X25519MLKEM768"], kx_group::X25519MLKEM768),
    (&["X25519"], kx_group::X25519),
    (&["P-256", "prime256v1", "secp256r1"], kx_group::SECP256R1),
    (&["P-384", "secp384r1"], kx_group::SECP384R1),
    (&["SecP256r1MLKEM768"], kx_group::SECP256R1MLKEM768),
    (&["MLKEM768"], kx_group::MLKEM768),
    (&["MLKEM1024"], kx_group::MLKEM1024),
];

/// The suites' names for messages: OpenSSL's spelling.
pub(super) fn suite_names() -> impl Iterator<Item = &'static str> {
    SUITES.iter().map(|entry| entry.openssl)
}

/// The curves' names for messages.
pub(super) fn curve_names() -> impl Iterator<Item = &'static str> {
    CURVES.iter().filter_map(|(names, _)| names.first().copied())
}

/// The IANA and OpenSSL names of a suite.
pub(super) fn names_of(suite: CipherSuite) -> Option<(&'static str, &'static str)> {
    let entry = SUITES.iter().find(|entry| entry.suite.suite() == suite)?;
    Some((entry.iana, entry.openssl))
}

/// The provider that offers exactly the permitted suites and groups, and the versions for the
/// builder.
pub(super) fn provider(
    settings: &ProtocolSettings<'_>,
) -> Result<(CryptoProvider, Vec<&'static SupportedProtocolVersion>), TlsError> {
    let versions = match (settings.min, settings.max) {
        (TlsVersion::Tls12, TlsVersion::Tls12) => vec![&TLS12],
        (TlsVersion::Tls12, TlsVersion::Tls13) => vec![&TLS13, &TLS12],
        (TlsVersion::Tls13, TlsVersion::Tls13) => vec![&TLS13],
        (TlsVersion::Tls13, TlsVersion::Tls12) => return Err(TlsError::NoVersion),
    };
    let mut provider = aws_lc_rs::default_provider();
    let chosen = chosen_suites(settings.ciphers, &versions)?;
    provider.cipher_suites = chosen.into_iter().map(hkdf::with_cached_keys).collect();
    if !settings.curves.is_empty() {
        provider.kx_groups =
            settings.curves.iter().map(|name| curve(name)).collect::<Result<_, _>>()?;
    }
    if settings.min == TlsVersion::Tls12
        && !provider
            .kx_groups
            .iter()
            .any(|group| group.usable_for_version(ProtocolVersion::TLSv1_2))
    {
        return Err(TlsError::NoCurveForTls12);
    }
    Ok((provider, versions))
}

fn chosen_suites(
    names: &[String],
    versions: &[&SupportedProtocolVersion],
) -> Result<Vec<SupportedCipherSuite>, TlsError> {
    let mut listed = Vec::with_capacity(names.len());
    for name in names {
        let suite = suite_by_name(name)?;
        if !versions.contains(&suite.version()) {
            let version = if suite.tls13().is_some() { "TLS 1.3" } else { "TLS 1.2" };
            return Err(TlsError::SuiteOutsideVersions { name: name.clone(), version });
        }
        listed.push(suite);
    }
    let mut chosen = Vec::new();
    for version in versions {
        let pinned = listed.iter().filter(|suite| suite.version() == *version);
        let before = chosen.len();
        chosen.extend(pinned.copied());
        if chosen.len() == before {
            let defaults = aws_lc_rs::DEFAULT_CIPHER_SUITES.iter();
            chosen.extend(defaults.filter(|suite| suite.version() == *version).copied());
        }
    }
    Ok(chosen)
}

fn suite_by_name(name: &str) -> Result<SupportedCipherSuite, TlsError> {
    let found = SUITES.iter().find(|entry| {
        entry.iana.eq_ignore_ascii_case(name) || entry.openssl.eq_ignore_ascii_case(name)
    });
    found.map(|entry| entry.suite).ok_or_else(|| TlsError::UnknownSuite {
        name: name.to_owned(),
        suggestion: nearest(name, SUITES.iter().flat_map(|entry| [entry.openssl, entry.iana])),
    })
}

fn curve(name: &str) -> Result<&'static dyn SupportedKxGroup, TlsError> {
    let wanted = plain(name);
    let found = CURVES.iter().find(|(names, _)| names.iter().any(|known| plain(known) == wanted));
    found.map(|(_, group)| *group).ok_or_else(|| TlsError::UnknownCurve {
        name: name.to_owned(),
        suggestion: nearest(name, CURVES.iter().flat_map(|(names, _)| names.iter().copied())),
    })
}

/// The name without differences of spelling: `P-256`, `p256` and `P_256` are one curve.
fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

/// The known name nearest to the written one, if at most a third of it differs.
fn nearest(written: &str, known: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    let written = plain(written);
    known
        .map(|name| (distance(&written, &plain(name)), name))
        .filter(|(distance, _)| *distance <= (written.len() / 3).clamp(1, 6))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Levenshtein's edit distance.
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (idx, left) in from.bytes().enumerate() {
        let mut diagonal = idx;
        let mut before = idx + 1;
        for (cell, right) in row.iter_mut().skip(1).zip(to.bytes()) {
            let cost = (diagonal + usize::from(left != right)).min(before + 1).min(*cell + 1);
            diagonal = std::mem::replace(cell, cost);
            before = cost;
        }
        if let Some(first) = row.first_mut() {
            *first = idx + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn suites(
        names: &[&str],
        min: TlsVersion,
        max: TlsVersion,
    ) -> Result<Vec<&'static str>, String> {
        let ciphers = strings(names);
        let settings =
            ProtocolSettings { min, max, ciphers: &ciphers, ..ProtocolSettings::default() };
        let (provider, _) = provider(&settings).map_err(|error| error.to_string())?;
        Ok(provider.cipher_suites.iter().map(|suite| names_of(suite.suite()).unwrap().0).collect())
    }

    #[test]
    fn the_suites_of_tls_1_3_have_the_derivation_that_keeps_hashed_keys() {
        let (provider, _) = provider(&ProtocolSettings::default()).unwrap();
        let chosen = provider.cipher_suites.iter().filter_map(SupportedCipherSuite::tls13);
        let library = aws_lc_rs::ALL_CIPHER_SUITES.iter().filter_map(SupportedCipherSuite::tls13);
        let library: Vec<_> = library.collect();
        let own = chosen.filter(|suite| !library.iter().any(|one| std::ptr::eq(*one, *suite)));
        assert_eq!(own.count(), 3);
    }

    fn curves(names: &[&str], min: TlsVersion) -> Result<Vec<String>, String> {
        let curves = strings(names);
        let settings = ProtocolSettings { min, curves: &curves, ..ProtocolSettings::default() };
        let (provider, _) = provider(&settings).map_err(|error| error.to_string())?;
        Ok(provider.kx_groups.iter().map(|group| format!("{:?}", group.name())).collect())
    }

    #[test]
    fn every_suite_of_the_library_has_its_names() {
        for suite in aws_lc_rs::ALL_CIPHER_SUITES {
            assert!(names_of(suite.suite()).is_some(), "{suite:?}");
        }
        assert_eq!(SUITES.len(), aws_lc_rs::ALL_CIPHER_SUITES.len());
    }

    #[test]
    fn both_spellings_of_suites_are_accepted_and_their_order_kept() {
        let names = ["ECDHE-RSA-AES256-GCM-SHA384", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"];
        assert_eq!(
            suites(&names, TlsVersion::Tls12, TlsVersion::Tls12).unwrap(),
            ["TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"]
        );
    }

    #[test]
    fn suites_of_one_version_leave_the_other_at_its_default() {
        let chosen =
            suites(&["TLS_AES_256_GCM_SHA384"], TlsVersion::Tls12, TlsVersion::Tls13).unwrap();
        assert_eq!(chosen.iter().filter(|name| !name.contains("ECDHE")).count(), 1);
        assert_eq!(chosen.len(), 7);
    }

    #[test]
    fn no_suite_of_an_excluded_version_is_offered() {
        let chosen = suites(&[], TlsVersion::Tls12, TlsVersion::Tls12).unwrap();
        assert!(chosen.iter().all(|name| name.contains("ECDHE")));
    }

    #[test]
    fn a_suite_of_an_excluded_version_is_refused() {
        let error = suites(&["ECDHE-RSA-AES256-GCM-SHA384"], TlsVersion::Tls13, TlsVersion::Tls13)
            .unwrap_err();
        assert!(error.contains("belongs to TLS 1.2"), "{error}");
        let error =
            suites(&["TLS_AES_128_GCM_SHA256"], TlsVersion::Tls12, TlsVersion::Tls12).unwrap_err();
        assert!(error.contains("belongs to TLS 1.3"), "{error}");
        assert!(
            suites(&[], TlsVersion::Tls13, TlsVersion::Tls12)
                .unwrap_err()
                .contains("min is above max")
        );
    }

    #[test]
    fn an_unknown_suite_has_a_suggestion_and_the_list_of_all() {
        let error =
            suites(&["ECDHE-ECDSA-AES256-GCM-SHA348"], TlsVersion::Tls12, TlsVersion::Tls13)
                .unwrap_err();
        assert!(error.contains("did you mean `ECDHE-ECDSA-AES256-GCM-SHA384`?"), "{error}");
        assert!(error.contains("TLS_CHACHA20_POLY1305_SHA256"), "{error}");
        let error = suites(&["HIGH:!aNULL"], TlsVersion::Tls12, TlsVersion::Tls13).unwrap_err();
        assert!(!error.contains("did you mean"), "{error}");
    }

    #[test]
    fn every_spelling_of_a_curve_is_accepted() {
        for name in ["P-256", "prime256v1", "secp256r1", "p256"] {
            assert_eq!(curves(&[name], TlsVersion::Tls12).unwrap(), ["secp256r1"], "{name}");
        }
        assert_eq!(
            curves(&["x25519mlkem768", "secp384r1"], TlsVersion::Tls12).unwrap(),
            ["X25519MLKEM768", "secp384r1"]
        );
        assert_eq!(curves(&[], TlsVersion::Tls12).unwrap()[0], "X25519MLKEM768");
    }

    #[test]
    fn unknown_curves_and_sets_without_one_for_an_allowed_version_are_refused() {
        let error = curves(&["X25591"], TlsVersion::Tls12).unwrap_err();
        assert!(error.contains("did you mean `X25519`?"), "{error}");
        let error = curves(&["X25519MLKEM768"], TlsVersion::Tls12).unwrap_err();
        assert!(error.contains("needs TLS 1.3"), "{error}");
        assert_eq!(curves(&["X25519MLKEM768"], TlsVersion::Tls13).unwrap(), ["X25519MLKEM768"]);
    }
}
