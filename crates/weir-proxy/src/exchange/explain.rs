//! The response header that explains, on request, how a request was handled.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use weir_config::model::ExplainHeader;
use weir_stats::{Entry, Escape, append_why};

use crate::exchange::client_side::ClientSide;
use crate::exchange::reasons::{Depth, with_reasons};
use crate::exchange::record;
use crate::exchange::state::Exchange;
use crate::http::client_address::PeerTrust;

/// The name and value of the header that explains how the request was handled, if the client asks
/// for it and may see it.
pub(crate) fn on_demand<'a, C: ClientSide>(
    exchange: &Exchange<'a, C>,
) -> Option<(&'a str, Vec<u8>)> {
    let scope = exchange.scope;
    let explain = scope.listener.explain_header.as_ref()?;
    if !exchange.arrival.has_head || !may_know(explain, exchange) {
        return None;
    }
    let mut text = Vec::new();
    record::with_entry(exchange, |entry| {
        with_reasons(exchange, Depth::LookedUp, |reasons| {
            append_why(&Entry { reasons: Some(reasons), ..*entry }, Escape::Header, &mut text);
        });
    });
    Some((&explain.header, text))
}

fn may_know<C: ClientSide>(explain: &ExplainHeader, exchange: &Exchange<'_, C>) -> bool {
    let Exchange { scope, client, heads, .. } = exchange;
    let trust = || PeerTrust::of(client.facts().peer_ip(), &scope.listener.forwarded.trusted);
    if explain.trusted && trust() != PeerTrust::Trusted {
        return false;
    }
    let Some(when) = &explain.when else { return true };
    let Some(shown) = heads.request.header(client.head(), &when.header) else { return false };
    when.value.as_ref().is_none_or(|secret| is_same(secret.as_bytes(), shown))
}

/// Compares in constant time, regardless of where the first difference is.
fn is_same(secret: &[u8], shown: &[u8]) -> bool {
    verify_slices_are_equal(secret, shown).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_matches_only_the_same_text() {
        for (secret, shown, same) in [
            ("abc", "abc", true),
            ("abc", "abd", false),
            ("abc", "ab", false),
            ("abc", "abcd", false),
            ("", "", true),
        ] {
            assert_eq!(is_same(secret.as_bytes(), shown.as_bytes()), same, "{secret} {shown}");
        }
    }
}
