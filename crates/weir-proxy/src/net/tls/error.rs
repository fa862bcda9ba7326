//! The errors in an operator's TLS settings: one sentence each, with the file or the name at fault.

use std::fmt;

/// The reason why TLS settings were refused. `Display` is one sentence for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsError {
    /// A TLS listener without any certificate.
    NoCertificates,
    /// The file holds no `CERTIFICATE` section.
    NoCertificateIn {
        /// The file.
        file: String,
    },
    /// The file holds no `X509 CRL` section.
    NoRevocationListIn {
        /// The file.
        file: String,
    },
    /// The file's PEM encoding is broken.
    BadPem {
        /// The file.
        file: String,
        /// The decoder's message.
        reason: String,
    },
    /// A `CERTIFICATE` section that is no X.509 certificate.
    BadCertificate {
        /// The file.
        file: String,
    },
    /// The file holds no private key.
    NoKeyIn {
        /// The file.
        file: String,
    },
    /// The private key needs a passphrase.
    EncryptedKey {
        /// The file.
        file: String,
    },
    /// The private key is of a kind or size that is not supported.
    UnusableKey {
        /// The file.
        file: String,
    },
    /// The key belongs to another certificate.
    KeyMismatch {
        /// The certificate's file.
        certificate: String,
        /// The key's file.
        key: String,
    },
    /// `min` is above `max`.
    NoVersion,
    /// A name that is no suite, or an unsupported one.
    UnknownSuite {
        /// The name as written.
        name: String,
        /// The nearest known name, if one is near.
        suggestion: Option<&'static str>,
    },
    /// A suite of a version that `min` and `max` exclude.
    SuiteOutsideVersions {
        /// The name as written.
        name: String,
        /// The version that the suite belongs to.
        version: &'static str,
    },
    /// No TLS 1.2 suite in the list fits the kind of key (ECDSA or RSA) of any certificate.
    NoSuiteForCertificates,
    /// A name that is no curve, or an unsupported one.
    UnknownCurve {
        /// The name as written.
        name: String,
        /// The nearest known name, if one is near.
        suggestion: Option<&'static str>,
    },
    /// Every curve in the list needs TLS 1.3 while TLS 1.2 is allowed.
    NoCurveForTls12,
    /// A server name to verify that is neither a host name nor an address.
    BadServerName {
        /// The name as written.
        name: String,
    },
    /// The system has no trusted root certificates.
    NoSystemRoots,
    /// The TLS library refused the settings for another reason.
    Library {
        /// The library's message.
        reason: String,
    },
}

impl std::error::Error for TlsError {}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCertificates => f.write_str("a TLS listener needs at least one certificate"),
            Self::NoCertificateIn { file } => write!(f, "no certificate in {file}"),
            Self::NoRevocationListIn { file } => {
                write!(f, "no list of revoked certificates in {file}")
            }
            Self::BadPem { file, reason } => write!(f, "{file} is not valid PEM: {reason}"),
            Self::BadCertificate { file } => {
                write!(f, "a certificate in {file} is damaged: it is not valid X.509")
            }
            Self::NoKeyIn { file } => write!(f, "no private key in {file}"),
            Self::EncryptedKey { file } => write!(
                f,
                "the private key in {file} is encrypted: decrypt it first, for example with `openssl pkey`"
            ),
            Self::UnusableKey { file } => write!(
                f,
                "the private key in {file} cannot be used: RSA of 2048 to 8192 bits, ECDSA P-256, P-384, P-521 and Ed25519 can"
            ),
            Self::KeyMismatch { certificate, key } if certificate == key => {
                write!(f, "the private key in {key} does not fit any certificate there")
            }
            Self::KeyMismatch { certificate, key } => {
                write!(f, "the private key in {key} does not fit the certificate in {certificate}")
            }
            Self::NoVersion => f.write_str("no TLS version is left: min is above max"),
            Self::UnknownSuite { name, suggestion } => {
                unknown(f, "cipher suite", name, *suggestion)?;
                list(f, super::suites::suite_names())
            }
            Self::SuiteOutsideVersions { name, version } => {
                write!(f, "cipher suite {name} belongs to {version}, which min and max do not allow here")
            }
            Self::NoSuiteForCertificates => f.write_str(
                "none of the TLS 1.2 cipher suites listed fits a certificate: ECDSA suites need an ECDSA \
                 certificate and RSA suites an RSA certificate",
            ),
            Self::UnknownCurve { name, suggestion } => {
                unknown(f, "curve", name, *suggestion)?;
                list(f, super::suites::curve_names())
            }
            Self::NoCurveForTls12 => f.write_str(
                "every curve listed needs TLS 1.3 while TLS 1.2 is allowed: add X25519 or P-256, or set min=1.3",
            ),
            Self::BadServerName { name } => write!(f, "`{name}` is neither a host name nor an IP address"),
            Self::NoSystemRoots => f.write_str(
                "the system has no trusted root certificates: install ca-certificates, or give ca=FILE",
            ),
            Self::Library { reason } => write!(f, "the TLS settings cannot work: {reason}"),
        }
    }
}

fn unknown(
    f: &mut fmt::Formatter<'_>,
    what: &str,
    name: &str,
    suggestion: Option<&str>,
) -> fmt::Result {
    write!(f, "unknown or unsupported {what} `{name}`")?;
    suggestion.map_or(Ok(()), |near| write!(f, ", did you mean `{near}`?"))
}

fn list(f: &mut fmt::Formatter<'_>, names: impl Iterator<Item = &'static str>) -> fmt::Result {
    f.write_str(" (known:")?;
    for (idx, name) in names.enumerate() {
        write!(f, "{} {name}", if idx == 0 { "" } else { "," })?;
    }
    f.write_str(")")
}

impl From<rustls::Error> for TlsError {
    fn from(error: rustls::Error) -> Self {
        Self::Library { reason: error.to_string() }
    }
}
