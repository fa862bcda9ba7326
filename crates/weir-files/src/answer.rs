//! Heads and bodies of responses, for files and for errors. Nothing is sent from here.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt::Write;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::body::{BodyPart, BodyProgress, FileBody, Patience, Pieces};
use crate::conditions::{PreconditionVerdict, Validators};
use crate::ranges::{FileSpan, Selection, select};
use crate::request::FileRequest;
use crate::types::{FileTypes, content_type};

/// Largest body in bytes that is read together with the head.
const READ_AT_ONCE: u64 = 64 * 1024;

/// A response to send.
#[derive(Debug)]
pub enum Answer {
    /// A status without any bytes of the file.
    Status(StatusAnswer),
    /// The file, or parts of it.
    File(FileAnswer),
}

/// A status and its headers: 301, 304, 400, 403, 404, 412 or 416.
#[derive(Debug, PartialEq, Eq)]
pub struct StatusAnswer {
    /// The status code.
    pub code: u16,
    /// `Location`, `Content-Range`, `ETag` and `Last-Modified`, as the status requires.
    pub headers: Vec<(&'static str, String)>,
}

/// A file's head and body. The caller adds `Accept-Ranges: bytes`.
#[derive(Debug)]
pub struct FileAnswer {
    /// 200 or 206.
    pub status: u16,
    /// `Content-Type`.
    pub content_type: Cow<'static, str>,
    /// `Content-Length`: the length of the body that a GET would return, also for HEAD.
    pub content_length: u64,
    /// `ETag`, quotes included.
    pub etag: String,
    /// `Last-Modified`.
    pub last_modified: Option<String>,
    /// `Content-Range` of a single range.
    pub content_range: Option<String>,
    /// The bytes.
    pub body: FileBody,
}

/// An open regular file.
pub(crate) struct OpenFile<'r> {
    pub file: OwnedFd,
    pub size: u64,
    pub name: Vec<u8>,
    pub types: Option<&'r FileTypes>,
    pub validators: Validators,
}

impl Answer {
    /// Returns an answer without headers.
    pub fn status(code: u16) -> Self {
        Self::Status(StatusAnswer { code, headers: Vec::new() })
    }
}

/// Returns a path without its leading slashes and backslashes, which browsers read as slashes. A
/// redirect to a path begins with one slash: `//elsewhere.example` would be another site.
pub fn without_slashes(path: &[u8]) -> &[u8] {
    let is_slash = |byte: &u8| matches!(byte, b'/' | b'\\');
    let name = path.iter().position(|byte| !is_slash(byte)).unwrap_or(path.len());
    path.get(name..).unwrap_or_default()
}

/// A redirect to the same target with a slash after its path.
pub(crate) fn redirect(target: &[u8]) -> Answer {
    let query = target.iter().position(|byte| *byte == b'?').unwrap_or(target.len());
    let (path, query) = target.split_at(query);
    let name = without_slashes(path);
    let mut location = String::from("/");
    let slash: &[u8] = if name.is_empty() { b"" } else { b"/" };
    for byte in name.iter().chain(slash).chain(query) {
        if byte.is_ascii_graphic() {
            location.push(char::from(*byte));
        } else {
            // Writing to a `String` cannot fail.
            let _ = write!(location, "%{byte:02X}");
        }
    }
    Answer::Status(StatusAnswer { code: 301, headers: vec![("Location", location)] })
}

/// The response for a file, subject to the request's preconditions and ranges (RFC 9110 section
/// 13.2.2).
pub(crate) fn for_file(
    found: OpenFile<'_>,
    request: &FileRequest<'_>,
    patience: Patience,
) -> io::Result<Answer> {
    match found.validators.judge(request) {
        PreconditionVerdict::Failed => return Ok(Answer::status(412)),
        PreconditionVerdict::NotModified => return Ok(not_modified(&found.validators)),
        PreconditionVerdict::Proceed => {}
    }
    let selection = match request.range {
        // Ranges apply to GET only (section 14.2).
        Some(range)
            if !request.method_is_head && found.validators.permit_range(request.if_range) =>
        {
            select(range, found.size)
        }
        _ => Selection::Whole,
    };
    let content_type = content_type(&found.name, found.types);
    let layout = match selection {
        Selection::Unsatisfiable => {
            let headers = vec![("Content-Range", format!("bytes */{}", found.size))];
            return Ok(Answer::Status(StatusAnswer { code: 416, headers }));
        }
        Selection::Whole => Layout::whole(content_type, found.size),
        Selection::One(span) => Layout::one(content_type, span, found.size),
        Selection::Several(spans) => Layout::several(&content_type, &spans, found.size),
    };
    let content_length = layout.parts.iter().map(BodyPart::len).sum();
    Ok(Answer::File(FileAnswer {
        status: layout.status,
        content_type: layout.content_type,
        content_length,
        etag: found.validators.etag.clone(),
        last_modified: found.validators.last_modified(),
        content_range: layout.content_range,
        body: if request.method_is_head {
            FileBody::Whole(Vec::new())
        } else {
            body(Pieces::new(found.file, layout.parts), content_length, patience)?
        },
    }))
}

fn not_modified(validators: &Validators) -> Answer {
    let mut headers = vec![("ETag", validators.etag.clone())];
    headers.extend(validators.last_modified().map(|date| ("Last-Modified", date)));
    Answer::Status(StatusAnswer { code: 304, headers })
}

fn body(mut pieces: Pieces, len: u64, patience: Patience) -> io::Result<FileBody> {
    if len > READ_AT_ONCE {
        return Ok(FileBody::Pieces(pieces));
    }
    let mut bytes = Vec::with_capacity(len as usize);
    loop {
        let before = bytes.len();
        match pieces.read_with(&mut bytes, READ_AT_ONCE as usize, patience)? {
            BodyProgress::Done => return Ok(FileBody::Whole(bytes)),
            // The file system served the beginning from its cache, but would have to wait for the
            // rest.
            BodyProgress::More if bytes.len() == before => {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            BodyProgress::More => {}
        }
    }
}

/// The head fields and body parts for a selection.
struct Layout {
    status: u16,
    content_type: Cow<'static, str>,
    content_range: Option<String>,
    parts: VecDeque<BodyPart>,
}

impl Layout {
    fn whole(content_type: Cow<'static, str>, size: u64) -> Self {
        let parts =
            (size > 0).then_some(BodyPart::Stretch { offset: 0, len: size }).into_iter().collect();
        Self { status: 200, content_type, content_range: None, parts }
    }

    fn one(content_type: Cow<'static, str>, span: FileSpan, size: u64) -> Self {
        let parts = VecDeque::from([BodyPart::Stretch { offset: span.start, len: span.len }]);
        Self { status: 206, content_type, content_range: Some(span.content_range(size)), parts }
    }

    /// A multipart body (RFC 9110 section 14.6).
    fn several(content_type: &str, spans: &[FileSpan], size: u64) -> Self {
        let boundary = boundary();
        let mut parts = VecDeque::with_capacity(spans.len() * 2 + 1);
        for span in spans {
            let line = if parts.is_empty() { "" } else { "\r\n" };
            let range = span.content_range(size);
            let head = format!(
                "{line}--{boundary}\r\nContent-Type: {content_type}\r\nContent-Range: {range}\r\n\r\n"
            );
            parts.push_back(BodyPart::Text(head.into_bytes()));
            parts.push_back(BodyPart::Stretch { offset: span.start, len: span.len });
        }
        parts.push_back(BodyPart::Text(format!("\r\n--{boundary}--\r\n").into_bytes()));
        let content_type = Cow::Owned(format!("multipart/byteranges; boundary={boundary}"));
        Self { status: 206, content_type, content_range: None, parts }
    }
}

/// A boundary that occurs in a file with a probability of 2^-64 only: a hash with the random key of
/// the standard library.
fn boundary() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("{:016x}", RandomState::new().hash_one(COUNT.fetch_add(1, Ordering::Relaxed)))
}
