//! Directives that the table does not have one by one: families by the beginning of their names,
//! each with what becomes of them.

use std::fmt::Write as _;

use crate::coverage::CoverageOutcome;

/// A family of directives.
struct DirectiveFamily {
    /// The beginning of the names.
    start: &'static str,
    /// Set if they may be left out without harm.
    is_harmless: bool,
    reason: &'static str,
}

const fn ignored(start: &'static str, reason: &'static str) -> DirectiveFamily {
    DirectiveFamily { start, is_harmless: true, reason }
}

const fn refused(start: &'static str, reason: &'static str) -> DirectiveFamily {
    DirectiveFamily { start, is_harmless: false, reason }
}

const HTTP2: &str = "Weir offers HTTP/2 and HTTP/1.1; clients fall back to them";
const INSIDE: &str = "it tunes the inside of nginx and has no counterpart";
const COUNTED: &str = "metrics count listeners, routes and pools in any case";
const LICENCE: &str = "Weir needs no licence and reports nothing";
const SCRIPTS: &str = "Weir runs no scripts: write a `map`, or leave it to a server behind Weir";
const BODIES: &str = "Weir changes no bodies: keep that in the application";
const NATIVE_TLS: &str = "it belongs to reports of usage or to mail, which Weir does not have: remove it, or write `tls` of a native listener or pool";
const NATIVE_CHECK: &str = "write `check` in a native pool";
const GUARD: &str =
    "Weir checks no passwords: leave that to the servers, or refuse clients by address with `deny`";

/// The families; of several for a name the first counts.
const FAMILIES: [DirectiveFamily; 46] = [
    ignored("http2_", INSIDE),
    ignored("http3_", HTTP2),
    ignored("quic_", HTTP2),
    ignored("spdy_", HTTP2),
    ignored("keepalive_disable", "it is about browsers of long ago"),
    ignored("msie_", "it is about browsers of long ago"),
    ignored("google_perftools_", INSIDE),
    ignored("gunzip_buffers", INSIDE),
    ignored("status_", COUNTED),
    ignored("license_token", LICENCE),
    ignored("usage_report", LICENCE),
    ignored("uuid_file", LICENCE),
    ignored("mgmt", LICENCE),
    refused("health_check", NATIVE_CHECK),
    refused("match", NATIVE_CHECK),
    refused("proxy_ssl", NATIVE_TLS),
    refused("ssl_", NATIVE_TLS),
    refused(
        "proxy_",
        "nginx has no directive of this name in the versions that Weir reads: remove it",
    ),
    refused("auth_", GUARD),
    refused("oidc_provider", GUARD),
    refused(
        "secure_link_",
        "Weir checks no signatures of links: let the application that makes them check them",
    ),
    refused("js_", SCRIPTS),
    refused("perl_", SCRIPTS),
    refused(
        "otel_",
        "Weir sends no spans: pass `traceparent` of clients on, which it does, and let servers write spans",
    ),
    refused("mqtt", "messages of MQTT are not read: pass connections on with `proxy_pass` alone"),
    refused(
        "hls",
        "files are sent whole or in ranges: prepare the pieces beforehand, and serve them as files",
    ),
    refused(
        "f4f",
        "files are sent whole or in ranges: prepare the pieces beforehand, and serve them as files",
    ),
    refused(
        "mp4_",
        "files are sent whole or in ranges: prepare the pieces beforehand, and serve them as files",
    ),
    refused("image_filter_", BODIES),
    refused("xslt_", BODIES),
    refused("xml_entities", BODIES),
    refused("ssi_", BODIES),
    refused("userid_", "Weir makes no ids of users: let the application set the cookie"),
    refused("session_log", "every request has its line in `access_log`: remove it"),
    refused(
        "slice",
        "ranges are asked of the server as the client asks, and nothing is cached: remove it",
    ),
    refused(
        "geoip_",
        "Weir reads no databases of places: write the networks that matter into a `geo` block",
    ),
    refused("keyval", "write a `map` whose entries an `include` brings: a reload reads it again"),
    refused("zone_sync", "the state of limits is that of one process: remove it"),
    refused("ancient_browser", "write a `map` of `$http_user_agent`"),
    refused("modern_browser", "write a `map` of `$http_user_agent`"),
    refused(
        "dav_",
        "Weir serves files for reading: send these methods with `proxy_pass` to a server that stores files",
    ),
    refused("imap_", "Weir has no mail proxy: pass connections on in `stream`"),
    refused("pop3_", "Weir has no mail proxy: pass connections on in `stream`"),
    refused("smtp_", "Weir has no mail proxy: pass connections on in `stream`"),
    refused("acme_", "obtain certificates with a program for that, and name the files"),
    refused("limit_zone", "write `limit_conn_zone`, which has replaced it"),
];

/// Directives that have nothing in common and no counterpart, each with its reason.
const OTHERS: [(&str, &str); 31] = [
    (
        "add_trailer_inherit",
        "no trailers are added: leave it out with `add_trailer`, and write `add_header`",
    ),
    (
        "addition_types",
        "Weir changes no bodies: leave it out with `add_before_body` and `add_after_body`",
    ),
    ("api", "write a native `admin` address: it has state and changes as JSON, and metrics"),
    (
        "autoindex_format",
        "no lists of folders are made: leave it out with `autoindex`, or write an index file",
    ),
    ("charset_map", "Weir changes no bodies: store the files, or let servers write them, in UTF-8"),
    (
        "create_full_put_path",
        "Weir stores no files: send `PUT` with `proxy_pass` to a server that does",
    ),
    (
        "internal_redirect",
        "write `rewrite ^ URI last` in a `location`, or `try_files`, which lead to another location too",
    ),
    ("max_errors", "Weir has no mail proxy: pass connections on in `stream`"),
    (
        "min_delete_depth",
        "Weir stores and deletes no files: send `DELETE` with `proxy_pass` to a server that does",
    ),
    (
        "num_map",
        "write a `map` of the texts, with a regex such as `~^[5-9][0-9]$` for a range of numbers",
    ),
    (
        "pass",
        "write `proxy_pass` with the address of that server, and `proxy_protocol on` so that it knows the client",
    ),
    ("protocol", "Weir has no mail proxy: pass connections on in `stream`"),
    ("proxy_buffer", "Weir has no mail proxy: pass connections on in `stream`"),
    ("proxy_pass_error_message", "Weir has no mail proxy: pass connections on in `stream`"),
    (
        "proxy_protocol_tlv",
        "values of the PROXY header come from connections of a native pool: `send_proxy v2 tlv=…`",
    ),
    (
        "proxy_request_dynamic",
        "a request is written once, and goes in the same words to the next server: remove it",
    ),
    (
        "proxy_session_drop",
        "connections to a server that goes down end with `on_down close` in a native pool",
    ),
    ("proxy_smtp_auth", "Weir has no mail proxy: pass connections on in `stream`"),
    (
        "proxy_ssl_alpn",
        "of servers Weir asks HTTP/2 and HTTP/1.1 only, by `proxy_http_version`; to others it offers no protocol",
    ),
    (
        "source_charset",
        "Weir changes no bodies: store the files, or let servers write them, in UTF-8",
    ),
    (
        "ssl_alpn",
        "a listener that passes bytes on chooses no protocol: end TLS in `http`, or leave it to the server with `ssl_preread`",
    ),
    (
        "ssl_ech_file",
        "names of clients are not encrypted (ECH): remove it, and clients send them as before",
    ),
    (
        "ssl_encrypted_hello_key",
        "names of clients are not encrypted (ECH): remove it, and clients send them as before",
    ),
    ("ssl_ocsp_cache", "Weir asks no OCSP responder about clients: leave it out with `ssl_ocsp`"),
    (
        "ssl_ocsp_responder",
        "Weir asks no OCSP responder about clients: name a list of revoked certificates in `ssl_crl`",
    ),
    ("starttls", "Weir has no mail proxy: pass connections on in `stream`"),
    (
        "state",
        "write the servers into the `upstream`; changes at run time are kept by `state_file`",
    ),
    ("timeout", "Weir has no mail proxy: pass connections on in `stream` with `proxy_timeout`"),
    (
        "tunnel_pass",
        "Weir opens no tunnels for `CONNECT`: clients that need a forward proxy want another program",
    ),
    (
        "upstream_conf",
        "write a native `admin` address, through which servers are drained, added and removed",
    ),
    (
        "xclient",
        "Weir has no mail proxy: pass connections on in `stream`, with `proxy_protocol on`",
    ),
];

/// The beginnings of directives about servers that do not speak HTTP.
const PROTOCOLS: [&str; 4] = ["fastcgi_", "uwsgi_", "scgi_", "memcached_"];

/// Appends the families to the page of directives.
pub(crate) fn write_rows(page: &mut String) {
    for DirectiveFamily { start, is_harmless, reason } in &FAMILIES {
        let word = if *is_harmless { "ignored" } else { "refused" };
        let more = if start.ends_with('_') { "…" } else { "" };
        let _ = writeln!(page, "| `{start}{more}` | all | {word} | {reason} |");
    }
    for start in PROTOCOLS {
        let _ = writeln!(
            page,
            "| `{start}…` | all | ignored or refused | without effect in a file without `{start}pass` |"
        );
    }
    for (name, reason) in OTHERS {
        let _ = writeln!(page, "| `{name}` | all | refused | {reason} |");
    }
}

/// Returns the outcome of a setting for a protocol of servers that no block of the file uses.
pub(crate) fn of_unused_protocol(
    name: &str,
    has: impl Fn(&str) -> bool,
) -> Option<CoverageOutcome> {
    let start = PROTOCOLS.into_iter().find(|start| name.starts_with(start))?;
    let pass = format!("{start}pass");
    (!has(&pass)).then(|| CoverageOutcome::Ignored(format!("no `{pass}` is in this file")))
}

/// Returns the outcome of a directive that the table does not have.
pub(crate) fn of_family(name: &str) -> CoverageOutcome {
    if PROTOCOLS.iter().any(|start| name.starts_with(start)) {
        let reason =
            "Weir speaks HTTP to servers only: put a web server in front of the application";
        return CoverageOutcome::Refused(reason.to_owned());
    }
    if let Some((_, reason)) = OTHERS.iter().find(|(own, _)| *own == name) {
        return CoverageOutcome::Refused((*reason).to_owned());
    }
    match FAMILIES.iter().find(|family| name.starts_with(family.start)) {
        Some(family) if family.is_harmless => CoverageOutcome::Ignored(family.reason.to_owned()),
        Some(family) => CoverageOutcome::Refused(family.reason.to_owned()),
        None => CoverageOutcome::Refused("this directive is not known".to_owned()),
    }
}
