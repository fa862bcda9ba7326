//! The parts of a request that determine the response for a file.

/// A request for a file. Header values are as received.
#[derive(Clone, Copy, Debug, Default)]
pub struct FileRequest<'a> {
    /// The path below the root, percent-encoded, without query, after any prefix was stripped.
    pub path: &'a [u8],
    /// The path and query as the client sent them, for a redirect's `Location`.
    pub target: &'a [u8],
    /// HEAD rather than GET.
    pub method_is_head: bool,
    /// `If-None-Match`.
    pub if_none_match: Option<&'a [u8]>,
    /// `If-Match`.
    pub if_match: Option<&'a [u8]>,
    /// `If-Modified-Since`.
    pub if_modified_since: Option<&'a [u8]>,
    /// `If-Unmodified-Since`.
    pub if_unmodified_since: Option<&'a [u8]>,
    /// `Range`.
    pub range: Option<&'a [u8]>,
    /// `If-Range`.
    pub if_range: Option<&'a [u8]>,
}
