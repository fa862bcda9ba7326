//! Tests of forwarded heads, case by case, and the property that a forwarded head is valid and has
//! exactly the permitted lines.

use proptest::prelude::*;
use weir_config::model::{Expires, HeaderEdit, ReceivedForwarded};
use weir_stats::{Template, TlsParameters};
use weir_wire::{Framing, Method, Scan};

use super::*;
use crate::http::edits::EditedMessage;
use crate::http::expires::{CompiledExpires, CurrentTime};
use crate::http::sample::{LIMITS, SampleRequest, blank_entry, response};

/// A cookie that only Weir and the client see.
const HIDDEN: RequestCookie<'static> = RequestCookie { name: b"SRV", is_prefixed: false };

/// The inputs that the tests vary; the rest is as in `blank_entry`, with the peer 198.51.100.1.
struct Setting {
    trust: PeerTrust,
    forwarded: Forwarded,
    request_id: RequestIdSettings,
    edits: Vec<HeaderEdit>,
    framing: BodyFraming,
    upgrade: Option<Protocols>,
    counts_hops: bool,
    tls: Option<TlsParameters<'static>>,
    peer: &'static str,
    sticky_cookie: Option<RequestCookie<'static>>,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            trust: PeerTrust::Untrusted,
            forwarded: Forwarded { x_forwarded: false, ..Forwarded::default() },
            request_id: RequestIdSettings { header: None, respond: false },
            edits: Vec::new(),
            framing: BodyFraming::None,
            upgrade: None,
            counts_hops: false,
            tls: None,
            peer: "198.51.100.1:4000",
            sticky_cookie: None,
        }
    }
}

impl Setting {
    fn write(&self, request: &SampleRequest) -> String {
        let view = request.view();
        let entry =
            Entry { tls: self.tls, peer: self.peer.parse().ok(), ..request.entry(&view, &()) };
        let edits = Edits::compile(EditedMessage::Request, &self.edits).unwrap();
        let mut out = Vec::new();
        let input = UpstreamHead {
            method: view.method(),
            rewritten: b"",
            content_type: None,
            head: &request.head,
            bytes: &request.bytes,
            peer: entry.peer,
            tls: entry.tls.is_some(),
            request_id_value: entry.request_id,
            endpoint_address: entry.endpoint_address,
            entry: Some(&entry),
            forwarded: &self.forwarded,
            request_id: &self.request_id,
            edits: &edits,
            trust: self.trust,
            sticky_cookie: self.sticky_cookie,
            framing: self.framing,
            upgrade: self.upgrade.as_ref(),
            takes_trailers: false,
            counts_hops: self.counts_hops,
        };
        write_request_head(&input, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn check(&self, received: &str, expected: &str) {
        let text = self.write(&SampleRequest::new(received));
        assert_eq!(text, expected, "from {received:?}");
    }

    /// Checks the lines after `Host: a` that a request with these lines is forwarded with.
    fn check_lines(&self, received: &str, expected: &str) {
        let received = format!("GET / HTTP/1.1\r\nHost: a\r\n{received}\r\n");
        self.check(&received, &format!("GET / HTTP/1.1\r\nHost: a\r\n{expected}\r\n"));
    }
}

fn replace(name: &str, pattern: &str, value: &str) -> HeaderEdit {
    HeaderEdit::Replace(name.into(), pattern.parse().unwrap(), Template::parse(value).unwrap())
}

fn set(name: &str, value: &str) -> HeaderEdit {
    HeaderEdit::Set(name.into(), Template::parse(value).unwrap())
}

#[test]
fn request_lines_are_forwarded_in_origin_form() {
    let check = |received: &str, expected: &str| {
        let expected = format!("{expected} HTTP/1.1\r\nHost: a:81\r\n\r\n");
        Setting::default().check(&format!("{received} HTTP/1.1\r\nHost: a:81\r\n\r\n"), &expected);
    };
    check("GET /a/../b%2e?x=%20&", "GET /a/../b%2e?x=%20&");
    check("PURGE //x?", "PURGE //x?");
    check("GET http://a:81/x?y", "GET /x?y");
    check("GET http://a:81", "GET /");
    check("GET http://a:81?y", "GET /?y");
    check("OPTIONS *", "OPTIONS *");
    check("OPTIONS http://a:81", "OPTIONS *");
}

#[test]
fn host_is_the_clients_or_the_edited_one_or_the_endpoints() {
    let plain = Setting::default();
    plain.check("GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n", "GET / HTTP/1.1\r\nHost: b\r\n\r\n");
    plain.check("GET / HTTP/1.0\r\n\r\n", "GET / HTTP/1.1\r\nHost: 10.0.0.1:80\r\n\r\n");
    let edited = |value: &str| Setting { edits: vec![set("host", value)], ..Setting::default() };
    let received = "GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n\r\n";
    edited("$pool.internal")
        .check(received, "GET / HTTP/1.1\r\nHost: pool.internal\r\nX: 1\r\n\r\n");
    edited("$http_none").check(received, "GET / HTTP/1.1\r\nHost: a\r\nX: 1\r\n\r\n");
}

#[test]
fn hop_by_hop_lines_are_not_forwarded() {
    let check = |received: &str, expected: &str| Setting::default().check_lines(received, expected);
    check("", "");
    check("A: 1\r\nB:2\r\nC:   3  \r\nD: 4\r\n", "A: 1\r\nB:2\r\nC:   3\r\nD: 4\r\n");
    check("A:\r\nB: 1\r\nC: \r\nD:\r\n", "A:\r\nB: 1\r\nC:\r\nD:\r\n");
    check("A: 1\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nB: 2\r\n", "A: 1\r\nB: 2\r\n");
    check("Keep-Alive: 5\r\nTE: trailers\r\nProxy-Connection: a\r\nA: 1\r\n", "A: 1\r\n");
    check("Upgrade: websocket\r\nConnection: upgrade\r\nA: 1\r\n", "A: 1\r\n");
    check("Content-Length: 5\r\nExpect: 100-continue\r\nA: 1\r\n", "A: 1\r\n");
    check("Cookie: a\r\nCookie: b\r\n", "Cookie: a\r\nCookie: b\r\n");
}

#[test]
fn the_sticky_cookie_is_not_forwarded_and_other_cookies_are() {
    let setting = Setting { sticky_cookie: Some(HIDDEN), ..Setting::default() };
    let check = |received: &str, expected: &str| setting.check_lines(received, expected);
    check("A: 1\r\nCookie: SRV=x\r\nB: 2\r\n", "A: 1\r\nB: 2\r\n");
    check("A: 1\r\ncookie: a=1; SRV=x;b=2\r\nB: 2\r\n", "A: 1\r\nCookie: a=1; b=2\r\nB: 2\r\n");
    check("cookie: a=1;b=2\r\nX-Cookie: SRV=x\r\n", "cookie: a=1;b=2\r\nX-Cookie: SRV=x\r\n");
    check("Cookie: SRV=x\r\nCookie: a\r\nCookie: SRV=y\r\n", "Cookie: a\r\n");
    let edits = vec![HeaderEdit::Remove("cookie".into())];
    Setting { edits, ..setting }.check_lines("Cookie: a=1; SRV=x\r\nA: 1\r\n", "A: 1\r\n");
}

#[test]
fn values_are_replaced_however_the_name_is_spelt() {
    let edits = vec![replace("X-Role", "~admin", "user")];
    let setting = Setting { edits, ..Setting::default() };
    setting.check_lines("X-Role: admin\r\nA: 1\r\n", "X-Role: user\r\nA: 1\r\n");
    setting.check_lines("x_role: admin\r\nA: admin\r\n", "x_role: user\r\nA: admin\r\n");
}

#[test]
fn a_replaced_cookie_line_does_not_show_the_sticky_cookie() {
    let edits = vec![replace("Cookie", "~^(.*)$", "$1; more")];
    let setting = Setting { sticky_cookie: Some(HIDDEN), edits, ..Setting::default() };
    setting.check_lines("Cookie: a=1; SRV=x\r\n", "Cookie: a=1; more\r\n");
    setting.check_lines("cookie: a=1\r\nB: 2\r\n", "cookie: a=1; more\r\nB: 2\r\n");
}

#[test]
fn framing_and_connection_lines_are_those_of_the_caller() {
    let check = |framing, upgrade, expected: &str| {
        let setting = Setting { framing, upgrade, ..Setting::default() };
        setting.check_lines("A: 1\r\nConnection: upgrade\r\nUpgrade: h2c, websocket\r\n", expected);
    };
    check(BodyFraming::Length(0), None, "A: 1\r\nContent-Length: 0\r\n");
    check(BodyFraming::Chunked, None, "A: 1\r\nTransfer-Encoding: chunked\r\n");
    check(
        BodyFraming::None,
        Some(Protocols::new(&["websocket"])),
        "A: 1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n",
    );
}

#[test]
fn hops_are_counted_only_if_configured() {
    let counts = Setting { counts_hops: true, ..Setting::default() };
    counts.check_lines("A: 1\r\n", "A: 1\r\nWeir-Hops: 1\r\n");
    counts.check_lines("Weir-Hops: 9\r\nA: 1\r\nWeir-Hops: 3\r\n", "A: 1\r\nWeir-Hops: 10\r\n");
    counts.check_lines("Weir-Hops: x\r\n", "Weir-Hops: 65536\r\n");
    Setting::default().check_lines("Weir-Hops: 9\r\nA: 1\r\n", "A: 1\r\n");
}

const CLAIMS: &str = "X-Forwarded-For: 1.1.1.1\r\nX-Forwarded-For: 2.2.2.2\r\nX-Forwarded-Proto: ftp\r\n\
                      X-Forwarded-Host: evil\r\nForwarded: for=6.6.6.6\r\nX-Forwarded-Prefix: /x\r\n\
                      X-Forwarded-Port: 1\r\nX-Real-IP: 6.6.6.6\r\nA: 1\r\n";

fn told(trust: PeerTrust, x_forwarded: bool, forwarded: bool) -> Setting {
    let forwarded = Forwarded { x_forwarded, forwarded, ..Forwarded::default() };
    Setting { trust, forwarded, ..Setting::default() }
}

#[test]
fn forwarding_headers_of_an_untrusted_peer_are_dropped() {
    let for_proto_host =
        "X-Forwarded-For: 198.51.100.1\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: a\r\n";
    let forwarded = "Forwarded: for=198.51.100.1;host=a;proto=http\r\n";
    let check = |x_forwarded, ours, expected: String| {
        told(PeerTrust::Untrusted, x_forwarded, ours).check_lines(CLAIMS, &expected);
    };
    check(false, false, "A: 1\r\n".into());
    check(true, false, format!("A: 1\r\n{for_proto_host}"));
    check(false, true, format!("A: 1\r\n{forwarded}"));
    check(true, true, format!("A: 1\r\n{for_proto_host}{forwarded}"));
}

#[test]
fn forwarding_headers_of_any_peer_pass_where_they_are_kept() {
    let kept = |trust, x_forwarded, ours| {
        let mut setting = told(trust, x_forwarded, ours);
        setting.forwarded.received = ReceivedForwarded::Keep;
        setting
    };
    for trust in [PeerTrust::Trusted, PeerTrust::Untrusted] {
        kept(trust, false, false).check_lines(CLAIMS, CLAIMS);
        let underscores = "X_Forwarded_For: 6.6.6.6\r\nX_Real_IP: 6.6.6.6\r\n";
        kept(trust, false, false).check_lines(underscores, underscores);
    }
    // Weir's own lines do not continue those of an untrusted peer.
    let rest = "X-Forwarded-Prefix: /x\r\nX-Forwarded-Port: 1\r\nX-Real-IP: 6.6.6.6\r\nA: 1\r\n";
    let expected = format!(
        "{rest}X-Forwarded-For: 198.51.100.1\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: a\r\n\
         Forwarded: for=198.51.100.1;host=a;proto=http\r\n"
    );
    kept(PeerTrust::Untrusted, true, true).check_lines(CLAIMS, &expected);
}

#[test]
fn forwarding_headers_of_a_trusted_peer_are_continued() {
    let lists = "X-Forwarded-Prefix: /x\r\nX-Forwarded-Port: 1\r\nX-Real-IP: 6.6.6.6\r\nA: 1\r\n";
    told(PeerTrust::Trusted, false, false).check_lines(CLAIMS, CLAIMS);
    let continued = format!(
        "{lists}X-Forwarded-For: 1.1.1.1, 2.2.2.2, 198.51.100.1\r\nX-Forwarded-Proto: ftp\r\n\
         X-Forwarded-Host: evil\r\nForwarded: for=6.6.6.6, for=198.51.100.1;host=a;proto=http\r\n"
    );
    told(PeerTrust::Trusted, true, true).check_lines(CLAIMS, &continued);
}

#[test]
fn a_name_with_underscores_is_treated_as_the_name_with_hyphens() {
    let claims =
        "X_Forwarded_For: 6.6.6.6\r\nx-forwarded_proto: https\r\nX_Real_IP: 6.6.6.6\r\nX_Y: 1\r\n";
    for trust in [PeerTrust::Trusted, PeerTrust::Untrusted] {
        told(trust, false, false).check_lines(claims, "X_Y: 1\r\n");
        let setting = Setting { edits: vec![set("X-Y", "2")], ..told(trust, false, false) };
        setting.check_lines(claims, "X-Y: 2\r\n");
        let request_id = RequestIdSettings { header: Some("X-Id".into()), respond: false };
        let setting = Setting { request_id, ..Setting::default() };
        setting.check_lines("X_Id: 1\r\n", "X-Id: 0123456789abcdef0123456789abcdef\r\n");
    }
}

#[test]
fn forwarding_headers_describe_ipv6_ipv4_mapped_and_unix_peers() {
    let check = |peer, tls, host: &str, expected: &str| {
        let setting = Setting { tls, peer, ..told(PeerTrust::Untrusted, true, true) };
        let received = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
        setting.check(&received, &format!("GET / HTTP/1.1\r\nHost: {host}\r\n{expected}\r\n"));
    };
    let tls = Some(TlsParameters::default());
    check(
        "[2001:db8::1]:1",
        tls,
        "a:8443",
        "X-Forwarded-For: 2001:db8::1\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: a:8443\r\n\
         Forwarded: for=\"[2001:db8::1]\";host=\"a:8443\";proto=https\r\n",
    );
    check(
        "[::ffff:10.0.0.255]:1",
        None,
        "a",
        "X-Forwarded-For: 10.0.0.255\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: a\r\n\
         Forwarded: for=10.0.0.255;host=a;proto=http\r\n",
    );
    check(
        "unix",
        None,
        "a",
        "X-Forwarded-Proto: http\r\nX-Forwarded-Host: a\r\nForwarded: for=unknown;host=a;proto=http\r\n",
    );
}

#[test]
fn edits_override_lines_of_weirs_own() {
    let request_id = RequestIdSettings { header: Some("X-Request-Id".into()), respond: false };
    let check = |edits: Vec<HeaderEdit>, expected: &str| {
        let setting = Setting {
            edits,
            request_id: request_id.clone(),
            ..told(PeerTrust::Untrusted, true, true)
        };
        setting.check_lines("x-request-id: theirs\r\nA: 1\r\na: 2\r\nB: 3\r\n", expected);
    };
    let remove = |name: &str| HeaderEdit::Remove(name.into());
    let gone = ["x-forwarded-for", "X-Forwarded-Host", "forwarded", "X-REQUEST-ID"].map(remove);
    let mut edits = gone.to_vec();
    edits.extend([set("X-Forwarded-Proto", "$scheme"), set("a", "$request_method")]);
    check(edits, "B: 3\r\nX-Forwarded-Proto: http\r\na: GET\r\n");
    let ours = ["x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "forwarded", "A", "B"];
    check(ours.map(remove).to_vec(), "X-Request-Id: 0123456789abcdef0123456789abcdef\r\n");
}

#[test]
fn a_blank_connection_is_sent_unless_the_connection_may_switch() {
    let edits = vec![set("Connection", " ")];
    let setting = Setting { edits, ..Setting::default() };
    setting.check_lines("A: 1\r\nConnection: close\r\n", "A: 1\r\nConnection:  \r\n");
    let upgrade = Some(Protocols::new(&["websocket"]));
    let setting = Setting { upgrade, ..setting };
    setting.check_lines(
        "A: 1\r\nConnection: upgrade\r\nUpgrade: websocket\r\n",
        "A: 1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n",
    );
}

/// Checks a response: `lines` are the endpoint's and `expected` those sent to the client.
fn check_response(setting: &DownstreamSetting, status: &str, lines: &str, expected: &str) {
    let text = format!("HTTP/1.1 {status}\r\n{lines}\r\n");
    let written = setting.write(&text);
    let status = status.trim_end();
    let status = if status == "200" { "200 OK" } else { status };
    assert_eq!(written, format!("HTTP/1.1 {status}\r\n{expected}\r\n"));
}

#[derive(Clone)]
struct DownstreamSetting {
    edits: Vec<HeaderEdit>,
    request_id_header: Option<&'static str>,
    cookie: Option<ResponseCookie<'static>>,
    expires: Option<ExpiresLines>,
    framing: BodyFraming,
    connection: ConnectionLine,
    method: Method,
}

impl DownstreamSetting {
    fn new(framing: BodyFraming, connection: ConnectionLine) -> Self {
        Self {
            edits: Vec::new(),
            request_id_header: None,
            cookie: None,
            expires: None,
            framing,
            connection,
            method: Method::Get,
        }
    }

    fn write(&self, text: &str) -> String {
        let mut out = Vec::new();
        let input = DownstreamHead {
            limits: &[],
            kept_lines: &[],
            why: None,
            status: None,
            content_type: None,
            expires: self.expires,
            head: &response(text, self.method),
            bytes: text.as_bytes(),
            entry: Some(&blank_entry()),
            edits: &Edits::compile(EditedMessage::Response, &self.edits).unwrap(),
            cookie: self.cookie,
            request_id: self.request_id_header.map(|header| (header, blank_entry().request_id)),
            date: &|| *b"Thu, 01 Jan 1970 00:00:00 GMT",
            framing: self.framing,
            connection: self.connection,
        };
        write_response_head(&input, &mut out);
        String::from_utf8(out).unwrap()
    }
}

#[test]
fn responses_keep_the_status_and_the_end_to_end_lines_of_the_endpoint() {
    let plain = DownstreamSetting::new(BodyFraming::Length(3), ConnectionLine::None);
    check_response(
        &plain,
        "299 Quite Fine",
        "Server: x\r\nDate: then\r\nContent-Length: 3\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n",
        "Server: x\r\nDate: then\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nContent-Length: 3\r\n",
    );
    let chunked = DownstreamSetting::new(BodyFraming::Chunked, ConnectionLine::None);
    check_response(
        &chunked,
        "200",
        "Connection: x-hop\r\nX-Hop: 1\r\nKeep-Alive: 1\r\nA: 1\r\n",
        "A: 1\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nTransfer-Encoding: chunked\r\n",
    );
    let close = DownstreamSetting::new(BodyFraming::Close, ConnectionLine::Close);
    check_response(
        &close,
        "404 Not Found",
        "",
        "Date: Thu, 01 Jan 1970 00:00:00 GMT\r\nConnection: close\r\n",
    );
    let upgrade = DownstreamSetting::new(BodyFraming::None, ConnectionLine::Upgrade);
    check_response(
        &upgrade,
        "101 Switching Protocols",
        "Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n",
        "Sec-WebSocket-Accept: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n",
    );
    let mut as_received =
        DownstreamSetting::new(BodyFraming::AsReceived, ConnectionLine::KeepAlive);
    as_received.method = Method::Head;
    check_response(
        &as_received,
        "200",
        "Content-Length: 77\r\nDate: x\r\n",
        "Date: x\r\nContent-Length: 77\r\nConnection: keep-alive\r\n",
    );
    check_response(&as_received, "200", "Date: x\r\n", "Date: x\r\nConnection: keep-alive\r\n");
}

#[test]
fn the_sticky_cookie_is_set_after_all_edits_and_not_stored_by_shared_caches() {
    let line = Some(b"Set-Cookie: SRV=x; Path=/\r\n".as_slice());
    let cookie = Some(ResponseCookie { name: b"SRV", of_endpoint: EndpointCookie::Removed, line });
    let plain = DownstreamSetting::new(BodyFraming::None, ConnectionLine::None);
    let setting = DownstreamSetting { cookie, ..plain };
    let set = "Set-Cookie: SRV=x; Path=/\r\n";
    let private = "Cache-Control: private\r\n";
    for (lines, added) in [
        ("", private),
        ("Cache-Control: public, max-age=60\r\n", private),
        ("Cache-Control: private=\"x\"\r\n", private),
        ("X: private\r\n", private),
        ("Cache-Control: max-age=60, Private\r\n", ""),
        ("Cache-Control: max-age=60\r\ncache-control: no-store\r\n", ""),
    ] {
        let lines = format!("Date: x\r\n{lines}");
        check_response(&setting, "200", &lines, &format!("{lines}{set}{added}"));
    }
    let now = CurrentTime { now: std::time::UNIX_EPOCH, clock: &weir_stats::Clock::utc() };
    let expires = CompiledExpires::compile(&Expires::Epoch).lines(200, now, None);
    let expiring = DownstreamSetting { expires, ..setting.clone() };
    let own = "Expires: Thu, 01 Jan 1970 00:00:01 GMT\r\nCache-Control: no-cache\r\n";
    check_response(
        &expiring,
        "200",
        "Date: x\r\nCache-Control: private\r\n",
        &format!("Date: x\r\n{own}{set}{private}"),
    );
    let edits = vec![replace("Cache-Control", "~private", "public")];
    let replaced = DownstreamSetting { edits, ..setting.clone() };
    check_response(
        &replaced,
        "200",
        "Date: x\r\nCache-Control: private\r\n",
        &format!("Date: x\r\nCache-Control: public\r\n{set}{private}"),
    );
    let removed = ["set-cookie", "Cache-Control"].map(|name| HeaderEdit::Remove(name.into()));
    let edited = DownstreamSetting { edits: removed.to_vec(), ..setting };
    let lines = "Date: x\r\nSet-Cookie: a=1\r\nCache-Control: private\r\n";
    check_response(&edited, "200", lines, &format!("Date: x\r\n{set}{private}"));
}

#[test]
fn an_endpoints_cookie_with_the_name_of_the_sticky_one_is_dropped() {
    let cookie =
        Some(ResponseCookie { name: b"SRV", of_endpoint: EndpointCookie::Removed, line: None });
    let plain = DownstreamSetting::new(BodyFraming::None, ConnectionLine::None);
    check_response(
        &DownstreamSetting { cookie, ..plain },
        "200",
        "Date: x\r\nSet-Cookie: SRV=mine; Path=/\r\nSet-Cookie: SRVX=SRV=1\r\nset-cookie: SRV =b\r\n",
        "Date: x\r\nSet-Cookie: SRVX=SRV=1\r\n",
    );
}

#[test]
fn response_edits_and_the_request_id_replace_lines() {
    let edits = vec![
        HeaderEdit::Remove("server".into()),
        set("Date", "never"),
        HeaderEdit::Add("Vary".into(), Template::parse("Origin").unwrap()),
    ];
    let setting = DownstreamSetting {
        edits,
        request_id_header: Some("X-Request-Id"),
        ..DownstreamSetting::new(BodyFraming::None, ConnectionLine::None)
    };
    check_response(
        &setting,
        "200",
        "Server: x\r\nVary: Accept\r\nx-request-id: theirs\r\nDate: x\r\n",
        "Vary: Accept\r\nX-Request-Id: 0123456789abcdef0123456789abcdef\r\nDate: never\r\nVary: Origin\r\n",
    );
}

#[test]
fn interim_responses_pass_without_removed_lines_and_framing() {
    let text = "HTTP/1.1 103 Early Hints\r\nX-Inner: 1\r\nLink: </a>\r\nKeep-Alive: 1\r\n\r\n";
    let edits = [HeaderEdit::Remove("x-inner".into()), set("Link", "</b>")];
    let edits = Edits::compile(EditedMessage::Response, &edits).unwrap();
    let mut out = Vec::new();
    write_interim_head(&response(text, Method::Get), text.as_bytes(), &edits, &mut out);
    assert_eq!(out, b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
}

/// Header names of all kinds: ordinary, hop-by-hop, listed by `Connection`, and Weir's own.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[!#$%&'*+.^_`|~0-9A-Za-z-]{1,12}",
        prop::sample::select(vec![
            "connection",
            "Keep-Alive",
            "X-Hop",
            "TE",
            "Upgrade",
            "Trailer",
            "Proxy-Connection",
            "Cookie",
            "Via",
            "X-Forwarded-For",
            "x-forwarded-prefix",
            "Forwarded",
            "X-Request-Id",
            "Proxy-Authorization",
            "Accept",
        ])
        .prop_map(str::to_owned),
    ]
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~\t]{0,20}",
        Just("X-Hop".to_owned()),
        Just("upgrade, x-hop".to_owned()),
        Just(String::new())
    ]
}

proptest! {
    #[test]
    fn a_forwarded_request_is_one_valid_head_without_hop_by_hop_lines(
        lines in prop::collection::vec((name(), value()), 0..12),
        tainted in "[\\x00-\\x7f]{0,12}",
        target in "/[!-\"$-~]{0,20}",
    ) {
        let listed: Vec<String> = lines.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let listed = listed.concat();
        let text = format!("POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n{listed}\r\n");
        let mut head = RequestHead::default();
        prop_assume!(matches!(head.parse(text.as_bytes(), &mut Scan::default(), &LIMITS), Ok(Some(_))));
        let request = SampleRequest { head, bytes: text.into_bytes(), client: None };
        // The text beside a variable may hold any ASCII bytes.
        let tainted = tainted.replace('$', "$$");
        let setting = Setting {
            edits: vec![set("X-Tainted", &format!("${{request_method}}{tainted}"))],
            framing: BodyFraming::Length(3),
            ..told(PeerTrust::Untrusted, true, true)
        };
        let written = setting.write(&request).into_bytes();
        let mut again = RequestHead::default();
        let parsed = again.parse(&written, &mut Scan::default(), &LIMITS);
        prop_assert_eq!(parsed, Ok(Some(written.len())), "{:?}", String::from_utf8_lossy(&written));
        prop_assert_eq!(again.framing, Framing::Length(3));
        prop_assert_eq!(again.target.of(&written), target.as_bytes());
        let pair = |header: &Header, bytes: &[u8]| {
            (header.name.of(bytes).to_ascii_lowercase(), header.value.of(bytes).to_vec())
        };
        let ours: Vec<&[u8]> = vec![b"host", b"content-length", b"x-tainted", b"forwarded", b"x-real-ip"];
        let is_ours = |name: &[u8]| ours.contains(&name) || name.starts_with(b"x-forwarded-");
        let sent: Vec<_> =
            again.headers.iter().map(|header| pair(header, &written)).filter(|(name, _)| !is_ours(name)).collect();
        let meant: Vec<_> = request
            .head
            .forwarded(&request.bytes)
            .map(|header| pair(header, &request.bytes))
            .filter(|(name, _)| !is_ours(name))
            .collect();
        prop_assert_eq!(sent, meant);
        let hops = [Known::Connection, Known::KeepAlive, Known::Te, Known::Upgrade, Known::ProxyConnection];
        prop_assert!(again.headers.iter().all(|header| !hops.contains(&header.known)));
        for (known, count) in [(Known::Host, 1), (Known::XForwardedFor, 1), (Known::Forwarded, 1)] {
            prop_assert_eq!(again.headers.iter().filter(|header| header.known == known).count(), count);
        }
    }
}

#[test]
fn spaces_after_a_value_are_left_out_and_lines_keep_their_order() {
    let setting = Setting::default();
    setting.check_lines("A: b \r\nC: d\r\n", "A: b\r\nC: d\r\n");
    setting.check_lines("A: b\r\nC: d  \r\n", "A: b\r\nC: d\r\n");
    setting.check_lines("A: b\r\nC:\r\nD:  \r\nE: f\r\n", "A: b\r\nC:\r\nD:\r\nE: f\r\n");
    setting.check_lines("A:\r\nB: c\r\nTE: x\r\nD: e\r\n", "A:\r\nB: c\r\nD: e\r\n");
}
