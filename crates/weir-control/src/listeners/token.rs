//! The token that TCP clients have to send. Digests are compared in constant time, so that the time
//! taken reveals nothing about the token, not even its length.

use std::path::Path;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{Digest, SHA256, digest};
use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// The shortest token, in bytes: a shorter one could be guessed.
const LEAST_BYTES: usize = 16;

/// The digest of a token, or of a user and a password.
pub struct TokenDigest {
    digest: Digest,
    /// Set for `USER:PASSWORD`, of which both have to be right.
    is_pair: bool,
}

impl PartialEq for TokenDigest {
    fn eq(&self, other: &Self) -> bool {
        self.is_pair == other.is_pair
            && verify_slices_are_equal(self.digest.as_ref(), other.digest.as_ref()).is_ok()
    }
}

impl TokenDigest {
    /// Reads it from the file's first line.
    ///
    /// # Errors
    /// One sentence for the operator.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let label = path.display();
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("cannot read the token file {label}: {error}"))?;
        let token = text.lines().next().unwrap_or_default().trim();
        if token.len() < LEAST_BYTES {
            return Err(format!(
                "the token in {label} has {} bytes: at least {LEAST_BYTES}, such as `openssl rand -hex 32` makes",
                token.len()
            ));
        }
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!("the token in {label} has a character that no header can have"));
        }
        Ok(Self::of(token))
    }

    /// The digest of this token.
    pub fn of(token: &str) -> Self {
        Self { digest: digest(&SHA256, token.as_bytes()), is_pair: false }
    }

    /// The digest of a user and a password, `USER:PASSWORD`.
    pub fn of_pair(pair: &str) -> Self {
        Self { digest: digest(&SHA256, pair.as_bytes()), is_pair: true }
    }

    /// Returns true if an `Authorization` header contains the token.
    pub fn is_in(&self, header: Option<&[u8]>) -> bool {
        let Some(header) = header else { return false };
        let scheme = |scheme: &str| {
            let (own, rest) = header.split_at_checked(scheme.len())?;
            own.eq_ignore_ascii_case(scheme.as_bytes()).then(|| rest.trim_ascii())
        };
        if let Some(brought) = scheme("bearer ") {
            return !self.is_pair && self.is(brought);
        }
        // A browser sends the token as the password, with any user name.
        let Some(pair) = scheme("basic ").and_then(from_base64) else { return false };
        if self.is_pair {
            return self.is(&pair);
        }
        let colon = pair.iter().position(|byte| *byte == b':');
        colon.is_some_and(|colon| self.is(&pair[colon + 1..]))
    }

    fn is(&self, brought: &[u8]) -> bool {
        let brought = digest(&SHA256, brought);
        verify_slices_are_equal(self.digest.as_ref(), brought.as_ref()).is_ok()
    }
}

/// Decodes base64 (RFC 4648 section 4) as browsers write it, with or without padding; `None` if it
/// is invalid.
fn from_base64(text: &[u8]) -> Option<Vec<u8>> {
    const PADDED_OR_NOT: GeneralPurpose = GeneralPurpose::new(
        &STANDARD,
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
    );
    PADDED_OR_NOT.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_will_do() {
        let token = TokenDigest::of("0123456789abcdef");
        let check = |header: &str, expected| {
            assert_eq!(token.is_in(Some(header.as_bytes())), expected, "{header}");
        };
        check("Bearer 0123456789abcdef", true);
        check("bearer  0123456789abcdef ", true);
        check("Bearer 0123456789abcde", false);
        check("Bearer 0123456789abcdeff", false);
        check("Bearer 0123456789abcdeF", false);
        check("Basic  0123456789abcdef", false);
        check("Basic d2VpcjowMTIzNDU2Nzg5YWJjZGVm", true);
        check("basic OjAxMjM0NTY3ODlhYmNkZWY=", true);
        check("Basic d2VpcjowMTIzNDU2Nzg5YWJjZGVn", false);
        check("Basic MDEyMzQ1Njc4OWFiY2RlZg==", false);
        check("Basic d2Vpc:owMTIz", false);
        check("Bearer", false);
        check("", false);
        assert!(!token.is_in(None));
    }

    #[test]
    fn user_and_password_are_right_together() {
        let digest = TokenDigest::of_pair("ops:secret");
        let check = |scheme: &str, pair: &str, expected| {
            let header =
                format!("{scheme} {}", base64::engine::general_purpose::STANDARD.encode(pair));
            assert_eq!(digest.is_in(Some(header.as_bytes())), expected, "{scheme} {pair}");
        };
        check("Basic", "ops:secret", true);
        check("basic", "ops:secret", true);
        check("Basic", "dev:secret", false);
        check("Basic", "ops:secret2", false);
        check("Basic", "ops", false);
        assert!(!digest.is_in(Some(b"Bearer ops:secret")));
        assert!(digest != TokenDigest::of("ops:secret"));
    }

    #[test]
    fn a_file_without_a_token_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        let check = |text: &str, expected: &str| {
            std::fs::write(&path, text).unwrap();
            let error = TokenDigest::read(&path).err().unwrap();
            assert!(error.contains(expected), "{error}");
        };
        check("", "has 0 bytes: at least 16");
        check("short\n0123456789abcdef", "has 5 bytes");
        check("0123456789 abcdef\n", "a character that no header can have");
        std::fs::write(&path, "0123456789abcdef\n").unwrap();
        assert!(TokenDigest::read(&path).unwrap().is_in(Some(b"Bearer 0123456789abcdef")));
        assert!(TokenDigest::read(&directory.path().join("none")).is_err());
    }
}
