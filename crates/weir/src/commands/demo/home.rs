//! The directory of `weir demo`: a generated certificate and the access log. It is removed when the
//! demonstration ends.

use std::fs::{DirBuilder, OpenOptions, remove_dir_all};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256};
use rustls::pki_types::CertificateDer;

/// The names in the certificate.
const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// The directory and its contents, as paths for a configuration.
pub(crate) struct Home {
    directory: PathBuf,
    /// The certificate, a PEM file.
    pub(crate) certificate: String,
    /// The key, a PEM file.
    pub(crate) key: String,
    /// The access log; it does not exist before the first line.
    pub(crate) log: String,
    /// The certificate, for a client to trust.
    pub(crate) root: CertificateDer<'static>,
}

impl Home {
    /// Creates the directory and a new P-256 certificate in it.
    pub(crate) fn create() -> Result<Self, String> {
        let directory = std::env::temp_dir().join(format!("weir-demo-{}", std::process::id()));
        let failed = |error: io::Error| format!("cannot write to {}: {error}", directory.display());
        DirBuilder::new().mode(0o700).create(&directory).map_err(failed)?;
        let path = |name: &str| directory.join(name).display().to_string();
        let (key, certificate) =
            certify().map_err(|error| format!("cannot make a certificate: {error}"))?;
        let home = Self {
            certificate: path("certificate.pem"),
            key: path("key.pem"),
            log: path("access.log"),
            root: certificate.der().clone(),
            directory: directory.clone(),
        };
        write_private(&home.certificate, &certificate.pem()).map_err(failed)?;
        write_private(&home.key, &key.serialize_pem()).map_err(failed)?;
        Ok(home)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // Files that cannot be removed stay in the temporary directory.
        let _ = remove_dir_all(&self.directory);
    }
}

fn certify() -> Result<(KeyPair, rcgen::Certificate), rcgen::Error> {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let parameters = CertificateParams::new(NAMES.map(str::to_owned))?;
    let certificate = parameters.self_signed(&key)?;
    Ok((key, certificate))
}

fn write_private(path: impl AsRef<Path>, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}
