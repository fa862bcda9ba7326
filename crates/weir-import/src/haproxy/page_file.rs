//! The file of an error page, which HAProxy has as a whole response. It reads no file.

use std::collections::HashSet;

use weir_config::model::forbidden_edit;
use weir_config::source::SourceSpan;
use weir_config::syntax::tree::Directive;

use super::empty_values::with_empty;
use crate::native::NativeLine;

/// The word for a page whose file names no type: it is sent without one.
const NO_TYPE: &str = "none";

/// A page with its headers, but for those that Weir writes.
pub(super) struct PageFile {
    /// The status in its first line, if it has one.
    pub(super) status: Option<u16>,
    pub(super) body: String,
    pub(super) kind: String,
    pub(super) headers: Vec<(String, String)>,
    /// The names of headers that belong to a connection, which HAProxy sends and Weir does not.
    pub(super) dropped: Vec<String>,
}

impl PageFile {
    /// Reads a response as HAProxy's files of pages have it.
    pub(super) fn of(text: &str) -> Self {
        let end = text.find("\r\n\r\n").map(|at| (at, 4));
        let end = end.into_iter().chain(text.find("\n\n").map(|at| (at, 2))).min();
        let (head, body) = match end {
            Some((at, length)) => (&text[..at], &text[at + length..]),
            None => (text, ""),
        };
        let mut page = Self {
            status: head.split_whitespace().nth(1).and_then(|status| status.parse().ok()),
            body: body.replace('$', "$$"),
            kind: NO_TYPE.to_owned(),
            headers: Vec::new(),
            dropped: Vec::new(),
        };
        for (name, value) in header_lines(head) {
            let value = value.trim().replace('$', "$$");
            match name.to_ascii_lowercase().as_str() {
                "content-type" => page.kind = value,
                "connection" | "content-length" | "transfer-encoding" | "date" | "server" => {}
                _ if forbidden_edit(&name).is_some() => page.dropped.push(name),
                _ => page.headers.push((name, value)),
            }
        }
        page
    }

    /// Returns the lines that send the headers: those of one name are all sent.
    pub(super) fn edits(&self, span: SourceSpan) -> Vec<Directive> {
        let mut known = HashSet::new();
        let edit = |(name, value): &(String, String)| {
            let verb = if known.insert(name.to_ascii_lowercase()) { "set" } else { "add" };
            let line = NativeLine::new("response_header", span).keyword(verb);
            with_empty(line.value(name).value(value), value).end()
        };
        self.headers.iter().map(edit).collect()
    }
}

/// Returns the headers below a status line, each with the lines that continue it.
fn header_lines(head: &str) -> Vec<(String, String)> {
    let mut headers: Vec<(String, String)> = Vec::new();
    for line in head.lines().skip(1) {
        if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = headers.last_mut() {
                value.push(' ');
                value.push_str(line.trim());
            }
        } else if let Some((name, value)) = line.split_once(':') {
            headers.push((name.to_owned(), value.trim().to_owned()));
        }
    }
    headers
}

/// Returns the first line below a status line that is no header, with which HAProxy refuses a file.
pub(super) fn faulty_header(text: &str) -> Option<&str> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let is_header = |line: &str| {
        let name = line.split_once(':').map_or("", |(name, _)| name);
        !name.is_empty() && name.bytes().all(is_token)
    };
    let mut lines = text.lines().skip(1).take_while(|line| !line.is_empty());
    lines.find(|line| !line.starts_with([' ', '\t']) && !is_header(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_may_go_on_in_further_lines() {
        let page = PageFile::of("HTTP/1.1 200 OK\r\nX-A: a\r\n b: c\r\n\r\nbody");
        assert_eq!(page.headers, [("X-A".to_owned(), "a b: c".to_owned())]);
    }

    #[test]
    fn lines_that_are_no_headers_are_found() {
        let faulty = |lines: &str| {
            let text = format!("HTTP/1.0 503 Sorry\r\n{lines}\r\n\r\nno header");
            faulty_header(&text).map(str::to_owned)
        };
        for line in ["X-Bad Name: 1", "no colon", ": 1", "X-A : 1"] {
            assert_eq!(faulty(line).as_deref(), Some(line));
        }
        for lines in ["X-A: 1\r\n more", "Keep-Alive: timeout=5", "X-A:"] {
            assert_eq!(faulty(lines), None);
        }
    }
}
