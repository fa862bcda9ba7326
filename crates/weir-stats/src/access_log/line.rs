//! The access-log formats: each writes one exchange as one line.

use crate::access_log::{haproxy, json};
use crate::{Clock, Entry, Escape, Template};

const COMBINED: &str = concat!(
    r#"$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "#,
    r#""$http_referer" "$http_user_agent""#
);

/// The `main` format of nginx's stock configuration.
const MAIN: &str = concat!(
    r#"$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "#,
    r#""$http_referer" "$http_user_agent" "$http_x_forwarded_for""#
);

/// An access-log format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line(LineFormat);

#[derive(Clone, Debug, PartialEq, Eq)]
enum LineFormat {
    Text(Template, Escape),
    Haproxy,
    Json,
}

impl Line {
    /// nginx's and Apache's `combined`, byte for byte.
    pub fn combined() -> Self {
        Self::built_in(COMBINED)
    }

    /// `combined` followed by `"$http_x_forwarded_for"`: the `main` of nginx's stock configuration.
    pub fn main() -> Self {
        Self::built_in(MAIN)
    }

    /// HAProxy's `option httplog`.
    pub fn haproxy() -> Self {
        Self(LineFormat::Haproxy)
    }

    /// One JSON object per line with the fields of [`Entry`], times in microseconds.
    pub fn json() -> Self {
        Self(LineFormat::Json)
    }

    /// Custom text; values are escaped as in nginx.
    pub fn text(template: Template) -> Self {
        Self::escaped(template, Escape::Log)
    }

    /// Custom text with another escaping of values.
    pub fn escaped(template: Template, escape: Escape) -> Self {
        Self(LineFormat::Text(template, escape))
    }

    fn built_in(source: &str) -> Self {
        Self::text(Template::parse(source).expect("built-in formats name variables that exist"))
    }

    /// Returns true if response headers are needed, so that they must be kept until the exchange
    /// ends.
    pub fn needs_response_headers(&self) -> bool {
        matches!(&self.0, LineFormat::Text(template, _) if template.needs_response_headers())
    }

    /// Appends the line of one exchange, with its line end. Allocates nothing once `out` is large
    /// enough.
    pub fn write_line(&self, entry: &Entry<'_>, clock: &mut Clock, out: &mut Vec<u8>) {
        match &self.0 {
            LineFormat::Text(template, escape) => template.append_at(entry, clock, *escape, out),
            LineFormat::Haproxy => haproxy::append(entry, clock, out),
            LineFormat::Json => json::append(entry, clock, out),
        }
        out.push(b'\n');
    }
}

#[cfg(test)]
mod tests;
