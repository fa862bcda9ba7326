//! Weir's own responses: refusals, fixed responses, redirects. A status has a small built-in page,
//! or the configured one. `weir_stats::Cause::status` maps causes to statuses; `weir-files` answers
//! requests for files.

use std::borrow::Cow;
use std::io;
use std::path::Path;

use weir_config::model::ErrorPage;
use weir_stats::{Entry, Escape, Headers, Template};
use weir_wire::{encode, reason_phrase};

use crate::http::edits::Edits;
use crate::http::expires::ExpiresLines;
use crate::http::head_writer::{ConnectionLine, write_kept_lines};

const HTML: &str = "text/html; charset=utf-8";

/// nginx's own status for a request without TLS at an address with TLS. It names pages; clients get
/// 400.
pub(crate) const PLAIN_HTTP: u16 = 497;

/// The reason on the built-in page for such a client, in nginx's words.
const PLAIN_HTTP_REASON: &str = "The plain HTTP request was sent to HTTPS port";

/// Configured pages for statuses that Weir answers itself, read when the configuration is loaded.
#[derive(Clone, Debug, Default)]
pub struct ErrorPages {
    /// Sorted by status.
    pages: Box<[(u16, Page)]>,
}

/// A configured page.
#[derive(Clone, Debug)]
pub struct Page {
    content_type: Cow<'static, str>,
    body: std::sync::Arc<[u8]>,
    /// The body, if it has variables.
    text: Option<Template>,
}

impl Page {
    /// Reads the page; without a configured type, the type follows from the file's extension.
    pub(crate) fn load(
        path: &Path,
        content_type: Option<&str>,
        read: &dyn Fn(&Path) -> io::Result<Vec<u8>>,
    ) -> Result<Self, String> {
        let text = read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let whole = WholeResponse::of(&text);
        let found = whole.as_ref().and_then(|whole| whole.content_type);
        let content_type = match content_type.or(found) {
            Some(own) => Cow::Owned(own.to_owned()),
            None => Cow::Borrowed(content_type_of(path)),
        };
        let body = whole.map_or(text.as_slice(), |whole| whole.body);
        Ok(Self { content_type, body: body.into(), text: None })
    }
}

impl Page {
    fn of_text(text: &Template, content_type: &str) -> Self {
        let content_type = Cow::Owned(content_type.to_owned());
        let body = text.constant().unwrap_or_default().into();
        Self { content_type, body, text: text.constant().is_none().then(|| text.clone()) }
    }
}

/// A file that is a response with its head, as HAProxy's `errorfile` has it.
struct WholeResponse<'t> {
    content_type: Option<&'t str>,
    body: &'t [u8],
}

impl<'t> WholeResponse<'t> {
    /// Returns the parts of a text that begins with a status line.
    fn of(text: &'t [u8]) -> Option<Self> {
        if !text.starts_with(b"HTTP/1.") {
            return None;
        }
        let mut rest = text;
        let mut content_type = None;
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            let (line, after) = rest.split_at(end);
            rest = after.get(1..).unwrap_or_default();
            let line = std::str::from_utf8(line).unwrap_or_default().trim();
            if line.is_empty() {
                return Some(Self { content_type, body: rest });
            }
            let named =
                line.split_once(':').filter(|(name, _)| name.eq_ignore_ascii_case("content-type"));
            let value = named.map(|(_, value)| value.trim());
            content_type = value.filter(|value| value.is_ascii()).or(content_type);
        }
        None
    }
}

impl ErrorPages {
    /// Reads the pages; of two for one status the last counts, so that later entries override
    /// earlier ones.
    pub(crate) fn load(
        pages: &[ErrorPage],
        read: &dyn Fn(&Path) -> io::Result<Vec<u8>>,
    ) -> Result<Self, String> {
        let mut all: Vec<(u16, Page)> = Vec::new();
        for page in pages {
            let loaded = match &page.text {
                Some(text) => Page::of_text(text, &page.content_type),
                None => Page::load(&page.page, None, read)
                    .map_err(|error| format!("error page {error}"))?,
            };
            all.retain(|(status, _)| !page.statuses.contains(status));
            all.extend(page.statuses.iter().map(|status| (*status, loaded.clone())));
        }
        all.sort_by_key(|(status, _)| *status);
        all.dedup_by_key(|(status, _)| *status);
        Ok(Self { pages: all.into() })
    }

    /// Returns the texts of pages that have variables.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &Template> {
        self.pages.iter().filter_map(|(_, page)| page.text.as_ref())
    }

    fn page(&self, status: u16) -> Option<&Page> {
        let at = self.pages.binary_search_by_key(&status, |(status, _)| *status).ok()?;
        self.pages.get(at).map(|(_, page)| page)
    }
}

/// The type of a page by its file's extension; HTML by default.
fn content_type_of(path: &Path) -> &'static str {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("json") => "application/json",
        Some("txt") => "text/plain; charset=utf-8",
        Some("xml") => "application/xml",
        _ => HTML,
    }
}

/// The part of a response that the client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyWanted {
    /// Headers and body.
    Yes,
    /// HEAD: only the headers that describe the body are sent.
    HeadOnly,
}

/// A response of Weir's own.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'a> {
    status: u16,
    /// The status whose page it has, unless that has none.
    page: u16,
    /// The status that is sent instead.
    imposed: Option<u16>,
    body: Option<Body<'a>>,
    headers: &'a [(&'static str, String)],
    location: Option<&'a [u8]>,
    allow: Option<&'a str>,
    retry_after_seconds: Option<u64>,
    connection: ConnectionLine,
    body_wanted: BodyWanted,
}

impl<'a> Reply<'a> {
    /// Creates a reply with this status, and the page configured for it or the built-in one.
    pub fn of(status: u16) -> Self {
        Self {
            status,
            page: status,
            imposed: None,
            body: None,
            headers: &[],
            location: None,
            allow: None,
            retry_after_seconds: None,
            connection: ConnectionLine::None,
            body_wanted: BodyWanted::Yes,
        }
    }

    /// Sets the status whose page it has.
    #[must_use]
    pub fn with_page_of(self, page: u16) -> Self {
        Self { page, ..self }
    }

    /// Sets a body.
    #[must_use]
    pub fn with_body(self, content_type: &'a str, body: &'a [u8]) -> Self {
        Self { body: Some(Body::Given(content_type, body)), ..self }
    }

    /// Sets the status that is sent; the page stays that of the reply.
    #[must_use]
    pub fn with_imposed_status(self, imposed: Option<u16>) -> Self {
        Self { imposed, ..self }
    }

    /// Sets this page as the body.
    #[must_use]
    pub fn with_page(self, page: &'a Page) -> Self {
        self.with_body(&page.content_type, &page.body)
    }

    /// Announces a body of this many bytes that the caller sends itself.
    #[must_use]
    pub fn with_streamed_body(self, content_type: &'a str, bytes: u64) -> Self {
        Self { body: Some(Body::Streamed(content_type, bytes)), ..self }
    }

    /// Sets additional header lines.
    #[must_use]
    pub fn with_headers(self, headers: &'a [(&'static str, String)]) -> Self {
        Self { headers, ..self }
    }

    /// Makes it a response of gRPC, of this content type, whose trailers are these headers: it has
    /// no body.
    #[must_use]
    pub fn as_trailers_only(
        self,
        content_type: &'static str,
        headers: &'a [(&'static str, String)],
    ) -> Self {
        Self { body: Some(Body::Given(content_type, b"")), headers, ..self }
    }

    /// Sets `Location`.
    #[must_use]
    pub fn with_location(self, location: &'a [u8]) -> Self {
        Self { location: Some(location), ..self }
    }

    /// Sets `Allow`, for 405.
    #[must_use]
    pub fn with_allow(self, methods: &'a str) -> Self {
        Self { allow: Some(methods), ..self }
    }

    /// Sets `Retry-After`.
    #[must_use]
    pub fn with_retry_after(self, seconds: u64) -> Self {
        Self { retry_after_seconds: Some(seconds), ..self }
    }

    /// Sets the `Connection` header.
    #[must_use]
    pub fn with_connection(self, connection: ConnectionLine) -> Self {
        Self { connection, ..self }
    }

    /// Sets whether the body is sent.
    #[must_use]
    pub fn with_body_wanted(self, body_wanted: BodyWanted) -> Self {
        Self { body_wanted, ..self }
    }

    /// Appends the whole response and returns the number of its body bytes.
    pub fn write(&self, surroundings: &ReplySurroundings<'_>, out: &mut Vec<u8>) -> usize {
        let mut scratch = Vec::new();
        let body = self.body(surroundings, &mut scratch);
        let edits = surroundings.edits;
        encode::status_line(out, self.imposed.unwrap_or(self.status));
        write_line(edits, b"Server", b"weir", out);
        write_line(edits, b"Date", surroundings.date, out);
        if let Some(location) = self.location {
            write_line(edits, b"Location", location, out);
        }
        for (name, value) in self.headers {
            write_line(edits, name.as_bytes(), value.as_bytes(), out);
        }
        if let Some(methods) = self.allow {
            write_line(edits, b"Allow", methods.as_bytes(), out);
        }
        if let Some(seconds) = self.retry_after_seconds
            && !edits.drops(b"retry-after")
        {
            out.extend_from_slice(b"Retry-After: ");
            encode::decimal(out, seconds);
            out.extend_from_slice(b"\r\n");
        }
        if let Some(name) = surroundings.request_id_header {
            write_line(edits, name.as_bytes(), surroundings.entry.request_id, out);
        }
        if let Some(name) = surroundings.cause_header.filter(|_| self.status >= 400) {
            let cause = surroundings.entry.cause.of_our_own().as_str();
            write_line(edits, name.as_bytes(), cause.as_bytes(), out);
        }
        for (name, value) in surroundings.limits {
            write_line(edits, name.as_bytes(), value.as_bytes(), out);
        }
        write_kept_lines(edits, surroundings.expires.as_ref(), surroundings.kept_lines, out);
        if let Some((name, text)) = surroundings.why {
            write_line(edits, name.as_bytes(), text, out);
        }
        if let Some(body) = body.as_ref().filter(|body| !body.content_type().is_empty()) {
            write_line(edits, b"Content-Type", body.content_type().as_bytes(), out);
        }
        if let Some(expires) = &surroundings.expires {
            expires.write(edits, out);
        }
        edits.write(Some(surroundings.entry), out);
        if let Some(body) = &body {
            encode::content_length(out, body.len());
        }
        match self.connection {
            ConnectionLine::None | ConnectionLine::Upgrade => {}
            ConnectionLine::Close => out.extend_from_slice(b"Connection: close\r\n"),
            ConnectionLine::KeepAlive => out.extend_from_slice(b"Connection: keep-alive\r\n"),
        }
        out.extend_from_slice(encode::HEAD_END);
        let head_end = out.len();
        match body {
            Some(body) if self.body_wanted == BodyWanted::Yes => body.write(out),
            _ => {}
        }
        out.len() - head_end
    }

    /// The body; `None` if the status has none (RFC 9110 sections 15.3.5 and 15.4.5).
    fn body<'b>(
        &self,
        surroundings: &ReplySurroundings<'b>,
        scratch: &'b mut Vec<u8>,
    ) -> Option<Body<'b>>
    where
        'a: 'b,
    {
        if matches!(self.status, 100..200 | 204 | 304) {
            return None;
        }
        let pages = surroundings.pages;
        let page = pages.page(self.page).or_else(|| pages.page(self.status));
        Some(match (self.body, page) {
            (Some(body), _) => body,
            (None, Some(Page { content_type, text: Some(text), .. })) => {
                text.append(surroundings.entry, Escape::None, scratch);
                Body::Given(content_type, scratch)
            }
            (None, Some(page)) => Body::Given(&page.content_type, &page.body),
            (None, None) => Body::OwnPage { status: self.status, reason: page_reason(self.page) },
        })
    }
}

/// The headers that tell what is sent; those that depend on the configuration are left out.
impl Headers for Reply<'_> {
    fn value(&self, name: &str) -> Option<&[u8]> {
        let is_it = |known: &str| name.eq_ignore_ascii_case(known);
        if is_it("content-type") {
            let page = if matches!(self.status, 100..200 | 204 | 304) { "" } else { HTML };
            let kind = self.body.as_ref().map_or(page, Body::content_type);
            return Some(kind.as_bytes()).filter(|kind| !kind.is_empty());
        }
        if is_it("location") {
            return self.location;
        }
        let own = self.headers.iter().find(|(known, _)| is_it(known));
        own.map(|(_, value)| value.as_bytes())
    }
}

/// The data that all replies of a listener need.
#[derive(Clone, Copy)]
pub struct ReplySurroundings<'a> {
    /// The listener's error pages.
    pub pages: &'a ErrorPages,
    /// The route's edits of responses, or the listener's if there is no route.
    pub edits: &'a Edits,
    /// The lines about the time for which the client may keep it.
    pub expires: Option<ExpiresLines>,
    /// The exchange, for variables and the request id.
    pub entry: &'a Entry<'a>,
    /// The name of the header that tells the client the request id; `None` sends none.
    pub request_id_header: Option<&'a str>,
    /// The name of the header that tells the client the cause of an error; `None` sends none.
    pub cause_header: Option<&'a str>,
    /// Header lines about limits.
    pub limits: &'a [(&'static str, String)],
    /// Lines of a response that was discarded for this one.
    pub kept_lines: &'a [u8],
    /// The name and value of the header that explains how the request was handled; `None` sends
    /// none.
    pub why: Option<(&'a str, &'a [u8])>,
    /// The value of `Date`.
    pub date: &'a [u8],
}

fn write_line(edits: &Edits, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    if !edits.drops(name) {
        encode::header(out, name, value);
    }
}

#[derive(Clone, Copy, Debug)]
enum Body<'a> {
    Given(&'a str, &'a [u8]),
    /// Sent by the caller.
    Streamed(&'a str, u64),
    /// The small built-in page of a status: its number and its reason, without the name of the
    /// server.
    OwnPage {
        status: u16,
        reason: &'static str,
    },
}

/// The reason that the built-in page of a status tells.
fn page_reason(page: u16) -> &'static str {
    if page == PLAIN_HTTP { PLAIN_HTTP_REASON } else { reason_phrase(page) }
}

impl Body<'_> {
    fn content_type(&self) -> &str {
        match self {
            Self::Given(content_type, _) | Self::Streamed(content_type, _) => content_type,
            Self::OwnPage { .. } => HTML,
        }
    }

    fn len(&self) -> u64 {
        match self {
            Self::Given(_, body) => body.len() as u64,
            Self::Streamed(_, bytes) => *bytes,
            Self::OwnPage { reason, .. } => {
                let text = "404 ".len() + reason.len();
                (PAGE.iter().map(|piece| piece.len()).sum::<usize>() + 2 * text) as u64
            }
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Given(_, body) => out.extend_from_slice(body),
            Self::Streamed(..) => {}
            Self::OwnPage { status, reason } => {
                let [before, between, after] = PAGE;
                for piece in [before, between] {
                    out.extend_from_slice(piece.as_bytes());
                    encode::decimal(out, (*status).into());
                    out.push(b' ');
                    out.extend_from_slice(reason.as_bytes());
                }
                out.extend_from_slice(after.as_bytes());
            }
        }
    }
}

/// The built-in page of a status, around the two places where the status is written.
const PAGE: [&str; 3] = [
    "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>",
    "</title>\n<h1>",
    "</h1>\n</html>\n",
];

#[cfg(test)]
mod tests {
    use weir_config::model::HeaderEdit;
    use weir_stats::Template;
    use weir_wire::Method;

    use super::*;
    use crate::http::edits::EditedMessage;
    use crate::http::sample::{blank_entry, response};

    const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

    fn write(reply: &Reply<'_>, pages: &ErrorPages, edits: &Edits) -> (String, usize) {
        let entry = blank_entry();
        let surroundings = ReplySurroundings {
            pages,
            edits,
            expires: None,
            entry: &entry,
            request_id_header: None,
            cause_header: None,
            limits: &[],
            kept_lines: &[],
            why: None,
            date: DATE.as_bytes(),
        };
        let mut out = Vec::new();
        let body_bytes = reply.write(&surroundings, &mut out);
        (String::from_utf8(out).unwrap(), body_bytes)
    }

    /// Checks a reply; `lines` are those after `Server` and `Date`.
    fn check(reply: &Reply<'_>, status: &str, lines: &str, body: &str) {
        let (text, body_bytes) = write(reply, &ErrorPages::default(), &Edits::default());
        let expected =
            format!("HTTP/1.1 {status}\r\nServer: weir\r\nDate: {DATE}\r\n{lines}\r\n{body}");
        assert_eq!(text, expected);
        assert_eq!(body_bytes, body.len());
    }

    #[test]
    fn a_reply_has_the_status_the_lines_and_the_body_that_were_set() {
        let page = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>404 Not Found</title>\n\
                    <h1>404 Not Found</h1>\n</html>\n";
        let html = "Content-Type: text/html; charset=utf-8\r\n";
        check(
            &Reply::of(404),
            "404 Not Found",
            &format!("{html}Content-Length: {}\r\n", page.len()),
            page,
        );
        let head = Reply::of(404)
            .with_body_wanted(BodyWanted::HeadOnly)
            .with_connection(ConnectionLine::Close);
        let lines = format!("{html}Content-Length: {}\r\nConnection: close\r\n", page.len());
        check(&head, "404 Not Found", &lines, "");
        let plain = Reply::of(200)
            .with_body("text/plain", b"hi")
            .with_connection(ConnectionLine::KeepAlive);
        let lines = "Content-Type: text/plain\r\nContent-Length: 2\r\nConnection: keep-alive\r\n";
        check(&plain, "200 OK", lines, "hi");
        let redirect = Reply::of(301).with_location(b"/a\r\nX: y").with_body("text/plain", b"");
        let lines = "Location: /a  X: y\r\nContent-Type: text/plain\r\nContent-Length: 0\r\n";
        check(&redirect, "301 Moved Permanently", lines, "");
        let lines =
            "Allow: GET, HEAD\r\nRetry-After: 3\r\nContent-Type: a\r\nContent-Length: 1\r\n";
        let refused =
            Reply::of(405).with_allow("GET, HEAD").with_retry_after(3).with_body("a", b"b");
        check(&refused, "405 Method Not Allowed", lines, "b");
        check(&Reply::of(204).with_body("text/plain", b"no"), "204 No Content", "", "");
        check(&Reply::of(304), "304 Not Modified", "", "");
    }

    #[test]
    fn edits_apply_to_local_replies() {
        let set = |name: &str, value| HeaderEdit::Set(name.into(), Template::parse(value).unwrap());
        let edits = [
            set("Strict-Transport-Security", "max-age=1"),
            set("server", "mine"),
            HeaderEdit::Remove("Date".into()),
        ];
        let edits = Edits::compile(EditedMessage::Response, &edits).unwrap();
        let (text, _) = write(&Reply::of(204), &ErrorPages::default(), &edits);
        assert_eq!(
            text,
            "HTTP/1.1 204 No Content\r\nStrict-Transport-Security: max-age=1\r\nserver: mine\r\n\r\n"
        );
    }

    #[test]
    fn a_page_that_is_a_whole_response_gives_its_type_and_its_body() {
        let check = |file: &'static str, content_type: &str, body: &str| {
            let page = ErrorPage::of_file(vec![503], "503.http".into());
            let pages = ErrorPages::load(&[page], &|_: &Path| Ok(file.into())).unwrap();
            let (text, _) = write(&Reply::of(503), &pages, &Edits::default());
            assert!(text.contains(&format!("Content-Type: {content_type}\r\n")), "{text}");
            assert!(text.ends_with(&format!("\r\n\r\n{body}")), "{text}");
        };
        check(
            "HTTP/1.0 503 X\r\ncontent-type: text/x\r\nA: b\r\n\r\na\r\n\r\nb",
            "text/x",
            "a\r\n\r\nb",
        );
        check("HTTP/1.1 503 X\nContent-Type: text/x\n\nbody", "text/x", "body");
        check("HTTP/1.1 503 X\r\n\r\nbody", HTML, "body");
        // Without an end of its head, it is a page that begins so.
        check("HTTP/1.1 is a protocol\nx", HTML, "HTTP/1.1 is a protocol\nx");
    }

    #[test]
    fn a_page_may_be_a_text_with_variables() {
        let page = ErrorPage {
            text: Some(Template::parse("{\"status\":503,\"by\":\"$listener\"}").unwrap()),
            content_type: "application/json".to_owned(),
            ..ErrorPage::of_file(vec![503], "".into())
        };
        let pages = ErrorPages::load(&[page], &|_: &Path| panic!("no file is read")).unwrap();
        assert_eq!(pages.texts().count(), 1);
        let (text, _) = write(&Reply::of(503), &pages, &Edits::default());
        assert!(text.contains("Content-Type: application/json\r\n"), "{text}");
        assert!(text.contains("\r\n\r\n{\"status\":503,\"by\":\""), "{text}");
    }

    #[test]
    fn configured_pages_replace_the_built_in_pages_of_their_statuses() {
        let page = |statuses: &[u16], path: &str| ErrorPage::of_file(statuses.into(), path.into());
        let read = |path: &Path| Ok(format!("page {}", path.display()).into_bytes());
        let all = [page(&[502, 503], "a.html"), page(&[404, 502], "b.json"), page(&[500], "c.txt")];
        let pages = ErrorPages::load(&all, &read).unwrap();
        let check = |status, content_type: &str, body: &str| {
            let (text, _) = write(&Reply::of(status), &pages, &Edits::default());
            assert!(text.contains(&format!("Content-Type: {content_type}")), "{text}");
            assert!(text.ends_with(body), "{text}");
        };
        check(502, "application/json", "\r\n\r\npage b.json");
        check(503, HTML, "\r\n\r\npage a.html");
        check(404, "application/json", "\r\n\r\npage b.json");
        check(500, "text/plain", "\r\n\r\npage c.txt");
        check(504, HTML, "<h1>504 Gateway Timeout</h1>\n</html>\n");
        let (text, _) =
            write(&Reply::of(502).with_body("text/plain", b"own"), &pages, &Edits::default());
        assert!(text.ends_with("\r\n\r\nown"));
    }

    #[test]
    fn every_reply_is_a_valid_response_of_its_length() {
        for status in 200..600 {
            let (text, body_bytes) =
                write(&Reply::of(status), &ErrorPages::default(), &Edits::default());
            let head = response(&text, Method::Get);
            assert_eq!(head.status, status);
            assert_eq!(text.len() - head.head_bytes, body_bytes);
            assert_eq!(head.content_length.unwrap_or(0), body_bytes as u64);
        }
    }
}
