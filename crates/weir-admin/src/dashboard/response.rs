//! HTML responses, with the security headers for browsers.

use hyper::StatusCode;
use hyper::header::{self, HeaderName};

use super::page;
use crate::http::reply::HttpReply;

/// The content security policy of the pages: they load only from this address, and inline scripts
/// and styles are forbidden.
pub(super) const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// A page with the reason that there is no other.
pub(super) fn sorry(status: StatusCode, sentence: &str) -> HttpReply {
    HttpReply { status, ..html_reply(page::sentence(sentence)) }
}

/// An HTML response, with the security headers for its browser.
pub(super) fn html_reply(html: String) -> HttpReply {
    HttpReply::new("text/html; charset=utf-8", html)
        .header(header::CONTENT_SECURITY_POLICY, POLICY.to_owned())
        // Forms need the referrer; other sites do not get it.
        .header(header::REFERRER_POLICY, "same-origin".to_owned())
        .header(HeaderName::from_static("cross-origin-opener-policy"), "same-origin".to_owned())
}
