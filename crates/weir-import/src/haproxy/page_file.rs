//! The file of an error page, which HAProxy has as a whole response. It reads no file.

/// The word for a page whose file names no type: it is sent without one.
const NO_TYPE: &str = "none";

/// A page with its headers, but for those that Weir writes.
pub(super) struct PageFile {
    /// The status in its first line, if it has one.
    pub(super) status: Option<u16>,
    pub(super) body: String,
    pub(super) kind: String,
    pub(super) headers: Vec<(String, String)>,
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
        };
        for (name, value) in head.lines().skip(1).filter_map(|line| line.split_once(':')) {
            let value = value.trim().replace('$', "$$");
            match name.to_ascii_lowercase().as_str() {
                "content-type" => page.kind = value,
                "connection" | "content-length" | "transfer-encoding" | "date" | "server" => {}
                _ => page.headers.push((name.to_owned(), value)),
            }
        }
        page
    }
}
