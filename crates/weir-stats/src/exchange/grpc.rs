//! Calls of gRPC, as far as a proxy sees them: requests of a content type whose path names the
//! method, and a status in the response's trailers (gRPC over HTTP/2, "PROTOCOL-HTTP2").

use std::fmt;

/// The status of a call.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GrpcStatus(u8);

/// The words of the statuses, by code.
const WORDS: [&str; 17] = [
    "ok",
    "cancelled",
    "unknown",
    "invalid-argument",
    "deadline-exceeded",
    "not-found",
    "already-exists",
    "permission-denied",
    "resource-exhausted",
    "failed-precondition",
    "aborted",
    "out-of-range",
    "unimplemented",
    "internal",
    "unavailable",
    "data-loss",
    "unauthenticated",
];

impl GrpcStatus {
    /// The number of statuses.
    pub const COUNT: usize = WORDS.len();
    /// The status of an answered call.
    pub const OK: Self = Self(0);
    /// The status of a call that failed for a reason without a status of its own.
    pub const UNKNOWN: Self = Self(2);
    /// The status of a call whose deadline passed.
    pub const DEADLINE_EXCEEDED: Self = Self(4);
    /// The status of a call that may be tried again.
    pub const UNAVAILABLE: Self = Self(14);

    /// The status with this code; others than the known ones are [`GrpcStatus::UNKNOWN`], as the
    /// specification has it. `None` if the text is no number.
    pub fn of_value(text: &[u8]) -> Option<Self> {
        let code: u32 = std::str::from_utf8(text).ok()?.parse().ok()?;
        let known = u8::try_from(code).ok().filter(|code| usize::from(*code) < WORDS.len());
        Some(known.map_or(Self::UNKNOWN, Self))
    }

    /// The status with this word, such as `unavailable`.
    pub fn named(word: &str) -> Option<Self> {
        let code = WORDS.iter().position(|own| *own == word)?;
        u8::try_from(code).ok().map(Self)
    }

    /// The status that stands for a response of HTTP ("HTTP to gRPC Status Code Mapping").
    pub fn of_http(status: u16) -> Self {
        Self(match status {
            400 => 13,
            401 => 16,
            403 => 7,
            404 => 12,
            429 | 502..=504 => 14,
            _ => 2,
        })
    }

    /// The status with this code, 0 to 16.
    pub fn of_code(code: usize) -> Option<Self> {
        let known = u8::try_from(code).ok().filter(|code| usize::from(*code) < WORDS.len());
        known.map(Self)
    }

    /// Its code, 0 to 16.
    pub fn code(self) -> u8 {
        self.0
    }

    /// Its word, such as `unavailable`.
    pub fn as_str(self) -> &'static str {
        WORDS[usize::from(self.0)]
    }
}

impl fmt::Debug for GrpcStatus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// The method that a call names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrpcMethod<'a> {
    /// The service with its package, such as `shop.v1.Cart`.
    pub service: &'a [u8],
    /// The method, such as `Add`.
    pub name: &'a [u8],
}

impl<'a> GrpcMethod<'a> {
    /// The method of a path such as `/shop.v1.Cart/Add`; a service may be below a prefix.
    pub fn of_path(path: &'a [u8]) -> Option<Self> {
        let rest = path.strip_prefix(b"/")?;
        let at = rest.iter().rposition(|byte| *byte == b'/')?;
        let (service, name) = (rest.get(..at)?, rest.get(at + 1..)?);
        (!service.is_empty() && !name.is_empty()).then_some(Self { service, name })
    }
}

/// Returns true for the content type of a call, such as `application/grpc+proto`; that of gRPC-Web
/// is another.
pub fn is_grpc(content_type: &[u8]) -> bool {
    const TYPE: &[u8] = b"application/grpc";
    let begins = content_type.get(..TYPE.len()).is_some_and(|own| own.eq_ignore_ascii_case(TYPE));
    begins && matches!(content_type.get(TYPE.len()), None | Some(b'+' | b';' | b' '))
}

/// A content type of gRPC-Web, such as `application/grpc-web-text+proto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrpcWebType<'a> {
    /// Set if the body is in base64.
    pub is_text: bool,
    /// The rest of the type, such as `+proto`.
    pub rest: &'a [u8],
}

impl<'a> GrpcWebType<'a> {
    /// Reads a content type; `None` if it is another.
    pub fn of(content_type: &'a [u8]) -> Option<Self> {
        let behind = |own: &[u8], text: &'a [u8]| {
            let (begin, rest) = text.split_at_checked(own.len())?;
            begin.eq_ignore_ascii_case(own).then_some(rest)
        };
        let binary = behind(b"application/grpc-web", content_type)?;
        let text = behind(b"-text", binary);
        let rest = text.unwrap_or(binary);
        let ends = matches!(rest.first(), None | Some(b'+' | b';' | b' '));
        ends.then_some(Self { is_text: text.is_some(), rest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_have_a_code_and_a_word() {
        for code in 0..17_u8 {
            let status = GrpcStatus::of_value(code.to_string().as_bytes()).unwrap();
            assert_eq!(status.code(), code);
            assert_eq!(GrpcStatus::named(status.as_str()), Some(status));
        }
        assert_eq!(GrpcStatus::named("unavailable"), Some(GrpcStatus::UNAVAILABLE));
        assert_eq!(GrpcStatus::of_value(b"17"), Some(GrpcStatus::UNKNOWN));
        assert_eq!(GrpcStatus::of_value(b"4000000000"), Some(GrpcStatus::UNKNOWN));
        for text in [&b""[..], b"x", b"-1", b"1 ", b"\xff"] {
            assert_eq!(GrpcStatus::of_value(text), None);
        }
        assert_eq!(GrpcStatus::named("gone"), None);
    }

    #[test]
    fn a_response_of_http_stands_for_a_status() {
        let mapped = [400, 401, 403, 404, 429, 502, 503, 504, 413, 500].map(GrpcStatus::of_http);
        assert_eq!(mapped.map(GrpcStatus::code), [13, 16, 7, 12, 14, 14, 14, 14, 2, 2]);
    }

    #[test]
    fn a_path_names_the_service_and_the_method() {
        let method = |path: &'static [u8]| {
            GrpcMethod::of_path(path).map(|method| (method.service, method.name))
        };
        assert_eq!(method(b"/shop.v1.Cart/Add"), Some((&b"shop.v1.Cart"[..], &b"Add"[..])));
        assert_eq!(method(b"/api/Cart/Add"), Some((&b"api/Cart"[..], &b"Add"[..])));
        for path in [&b""[..], b"/", b"/Cart", b"//Add", b"/Cart/", b"Cart/Add"] {
            assert_eq!(method(path), None);
        }
    }

    #[test]
    fn the_content_type_of_a_call_is_not_that_of_its_form_for_browsers() {
        for own in ["application/grpc", "Application/gRPC+proto", "application/grpc;charset=utf-8"]
        {
            assert!(is_grpc(own.as_bytes()), "{own}");
        }
        for other in ["application/grpc-web", "application/grpcx", "application/json", ""] {
            assert!(!is_grpc(other.as_bytes()), "{other}");
        }
        for own in ["application/grpc-web", "Application/gRPC-Web-Text+proto"] {
            let kind = GrpcWebType::of(own.as_bytes()).unwrap();
            assert_eq!(kind.is_text, own.contains("Text"), "{own}");
        }
        for other in ["application/grpc", "application/grpc-webs", "application/grpc-web-texts"] {
            assert_eq!(GrpcWebType::of(other.as_bytes()), None, "{other}");
        }
    }
}
