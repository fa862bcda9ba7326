//! Cryptographic digests of values, as bytes: a text has them after `hex` or `base64`.

use aws_lc_rs::{digest, hmac};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A digest, with a key or without one.
#[derive(Debug)]
pub(super) enum ValueDigest {
    Plain(&'static digest::Algorithm),
    Keyed(Box<hmac::Key>),
}

impl ValueDigest {
    /// Parses a digest; `None` for another converter.
    pub(super) fn parse(name: &str, arguments: &[&str]) -> Result<Option<Self>, String> {
        let argument = |at: usize| arguments.get(at).copied().unwrap_or_default();
        Ok(Some(match name {
            "sha1" => Self::Plain(&digest::SHA1_FOR_LEGACY_USE_ONLY),
            "sha2" => {
                let bits = if arguments.is_empty() { "256" } else { argument(0) };
                Self::Plain(plain(&format!("sha{bits}"))?)
            }
            "digest" => Self::Plain(plain(argument(0))?),
            "hmac" => {
                let key = STANDARD.decode(argument(1));
                let key = key.map_err(|_| "the key of `hmac` is written in base64")?;
                Self::Keyed(Box::new(hmac::Key::new(keyed(argument(0))?, &key)))
            }
            _ => return Ok(None),
        }))
    }

    /// Replaces a value by its digest.
    pub(super) fn apply(&self, value: &mut Vec<u8>) {
        let write = |bytes: &[u8], value: &mut Vec<u8>| {
            value.clear();
            value.extend_from_slice(bytes);
        };
        match self {
            Self::Plain(algorithm) => write(digest::digest(algorithm, value).as_ref(), value),
            Self::Keyed(key) => write(hmac::sign(key, value).as_ref(), value),
        }
    }
}

fn plain(name: &str) -> Result<&'static digest::Algorithm, String> {
    Ok(match name.to_ascii_lowercase().as_str() {
        "sha1" => &digest::SHA1_FOR_LEGACY_USE_ONLY,
        "sha224" => &digest::SHA224,
        "sha256" => &digest::SHA256,
        "sha384" => &digest::SHA384,
        "sha512" => &digest::SHA512,
        _ => return Err(unknown(name)),
    })
}

fn keyed(name: &str) -> Result<hmac::Algorithm, String> {
    Ok(match name.to_ascii_lowercase().as_str() {
        "sha1" => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
        "sha224" => hmac::HMAC_SHA224,
        "sha256" => hmac::HMAC_SHA256,
        "sha384" => hmac::HMAC_SHA384,
        "sha512" => hmac::HMAC_SHA512,
        _ => return Err(unknown(name)),
    })
}

fn unknown(name: &str) -> String {
    format!("`{name}` is none of `sha1`, `sha224`, `sha256`, `sha384` and `sha512`")
}
