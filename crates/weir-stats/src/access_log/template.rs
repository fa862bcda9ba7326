//! Text with `$variables`: parsed once, appended per exchange.

use std::cell::RefCell;
use std::fmt;
use std::hint::black_box;

use regex::bytes::Captures;

use crate::access_log::value;
use crate::{Clock, Entry, Escape, Variable};

/// Text with `$name` or `${name}`; `$$` is a dollar. Two templates are equal if their sources and
/// the definitions of their variables are.
#[derive(Clone)]
pub struct Template {
    source: Box<str>,
    parts: Box<[TemplatePart]>,
}

/// Literal text, and the variable after it.
#[derive(Clone)]
struct TemplatePart {
    text: Literal,
    /// `None` only in the last part.
    variable: Option<Variable>,
}

/// The largest number of bytes of a short literal.
const SHORT: usize = 16;

/// Literal text. A short one is appended by a copy of fixed size, which takes a third of the
/// instructions of one of any size.
#[derive(Clone)]
enum Literal {
    Short { text: [u8; SHORT], length: usize },
    Long(Box<[u8]>),
}

impl Literal {
    fn new(text: String) -> Self {
        let text = text.into_bytes();
        let mut short = [0; SHORT];
        match short.get_mut(..text.len()) {
            Some(place) => {
                place.copy_from_slice(&text);
                Self::Short { text: short, length: text.len() }
            }
            None => Self::Long(text.into()),
        }
    }

    fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Short { text, length } => &text[..*length],
            Self::Long(text) => text,
        }
    }

    #[inline]
    fn append(&self, out: &mut Vec<u8>) {
        match self {
            Self::Short { text, length } => {
                let end = out.len() + length;
                out.extend_from_slice(text);
                out.truncate(end);
            }
            Self::Long(text) => out.extend_from_slice(text),
        }
    }
}

/// The reason why a text is no template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateError {
    /// One sentence without a full stop.
    pub message: String,
    /// Byte offset of the dollar.
    pub offset: usize,
    /// The name, if no variable has it; [`Variable::names`] has the candidates for a suggestion.
    pub unknown: Option<String>,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for TemplateError {}

impl Template {
    /// Parses a template with the variables of Weir itself.
    pub fn parse(source: &str) -> Result<Self, TemplateError> {
        Self::parse_with(source, &Variable::named)
    }

    /// Parses a part of this template, which may have its variables, those that a configuration
    /// defines included.
    pub fn parse_part(&self, source: &str) -> Result<Self, TemplateError> {
        let own = |name: &str| {
            let mut all = self.variables();
            all.find(|one| one.to_string().strip_prefix('$') == Some(name)).cloned()
        };
        Self::parse_with(source, &|name| own(name).or_else(|| Variable::named(name)))
    }

    /// Parses a template; `variable` returns the variable of a name.
    pub(crate) fn parse_with(
        source: &str,
        variable: &dyn Fn(&str) -> Option<Variable>,
    ) -> Result<Self, TemplateError> {
        let mut parts = Vec::new();
        let mut text = String::new();
        let mut rest = source;
        while let Some((before, after)) = rest.split_once('$') {
            text.push_str(before);
            let offset = source.len() - after.len() - 1;
            let (name, tail) = split_name(after, offset)?;
            rest = tail;
            if name == "$" {
                text.push('$');
                continue;
            }
            let variable = variable(name).ok_or_else(|| unknown(name, offset))?;
            let text = Literal::new(std::mem::take(&mut text));
            parts.push(TemplatePart { text, variable: Some(variable) });
        }
        text.push_str(rest);
        if !text.is_empty() {
            parts.push(TemplatePart { text: Literal::new(text), variable: None });
        }
        Ok(Self { source: source.into(), parts: parts.into() })
    }

    /// The text it was parsed from.
    pub fn as_str(&self) -> &str {
        &self.source
    }

    /// The variables, in order.
    pub fn variables(&self) -> impl Iterator<Item = &Variable> {
        self.parts.iter().filter_map(|part| part.variable.as_ref())
    }

    /// The text, if it has no variables and so is the same for every exchange.
    pub fn constant(&self) -> Option<&[u8]> {
        match &*self.parts {
            [] => Some(b""),
            [TemplatePart { text, variable: None }] => Some(text.as_bytes()),
            _ => None,
        }
    }

    /// The variable, if there is one and no text beside it.
    pub fn lone_variable(&self) -> Option<&Variable> {
        match &*self.parts {
            [TemplatePart { text, variable }] if text.as_bytes().is_empty() => variable.as_ref(),
            _ => None,
        }
    }

    /// Returns true if response headers are needed, so that they must be kept until the exchange
    /// ends.
    pub fn needs_response_headers(&self) -> bool {
        self.variables().any(Variable::is_response_header)
    }

    /// Returns true if the template needs the body of the request, so that it must be kept.
    pub fn needs_request_body(&self) -> bool {
        self.variables().any(Variable::is_request_body)
    }

    /// Returns true if the template needs the reasons of an exchange.
    pub fn tells_why(&self) -> bool {
        self.variables().any(Variable::is_why)
    }

    /// Appends the text for one exchange. A worker that has a [`Clock`] calls
    /// [`Template::append_at`].
    pub fn append(&self, entry: &Entry<'_>, escape: Escape, out: &mut Vec<u8>) {
        thread_local! {
            static CLOCK: RefCell<Clock> = RefCell::new(Clock::new());
        }
        if self.variables().any(Variable::is_time) {
            CLOCK.with_borrow_mut(|clock| self.append_at(entry, clock, escape, out));
        } else {
            self.append_at(entry, &mut Clock::utc(), escape, out);
        }
    }

    /// Returns true if the text for one exchange, a condition, is neither empty nor `0`. `buffer`
    /// is overwritten.
    pub fn holds(&self, entry: &Entry<'_>, buffer: &mut Vec<u8>) -> bool {
        buffer.clear();
        self.append(entry, Escape::None, buffer);
        !matches!(buffer.as_slice(), b"" | b"0")
    }

    /// Appends the text for one exchange, with the caller's clock.
    pub fn append_at(
        &self,
        entry: &Entry<'_>,
        clock: &mut Clock,
        escape: Escape,
        out: &mut Vec<u8>,
    ) {
        for part in &self.parts {
            part.text.append(out);
            if let Some(variable) = &part.variable {
                // Without this the addresses of all fields are computed before the loop, and kept
                // on the stack: 270 instructions for the few that a line uses.
                let entry = black_box(entry);
                value::of(variable, entry).append(clock, escape, out);
            }
        }
    }
}

impl Template {
    /// Appends the value of an entry of a map, with the groups of the entry's regex.
    pub(crate) fn append_with(
        &self,
        entry: &Entry<'_>,
        clock: &mut Clock,
        groups: Option<&Captures<'_>>,
        out: &mut Vec<u8>,
    ) {
        for part in &self.parts {
            part.text.append(out);
            let Some(variable) = &part.variable else { continue };
            match variable.group() {
                Some(number) => {
                    let group = groups.and_then(|groups| groups.get(number));
                    out.extend_from_slice(group.map(|group| group.as_bytes()).unwrap_or_default());
                }
                None => value::of(variable, entry).append(clock, Escape::None, out),
            }
        }
    }
}

impl PartialEq for Template {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source && self.variables().eq(other.variables())
    }
}

impl Eq for Template {}

impl fmt::Debug for Template {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Template").field(&self.source).finish()
    }
}

/// Splits the text after a dollar into the name and the rest; the name of `$$` is `$`.
fn split_name(after: &str, offset: usize) -> Result<(&str, &str), TemplateError> {
    let error =
        |message: &str| TemplateError { message: message.to_owned(), offset, unknown: None };
    if let Some(braced) = after.strip_prefix('{') {
        return braced.split_once('}').ok_or_else(|| error("`${` without its `}`"));
    }
    let end = match after.bytes().next() {
        Some(b'$' | b'0'..=b'9') => 1,
        _ => after
            .bytes()
            .position(|byte| !(byte.is_ascii_alphanumeric() || byte == b'_'))
            .unwrap_or(after.len()),
    };
    if end == 0 {
        return Err(error("`$` without a name; write `$$` for a dollar"));
    }
    Ok(after.split_at(end))
}

fn unknown(name: &str, offset: usize) -> TemplateError {
    TemplateError {
        message: format!("unknown variable `${name}`"),
        offset,
        unknown: Some(name.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::exchange::sample;

    fn check(source: &str, expected: &str) {
        let mut out = Vec::new();
        Template::parse(source).unwrap().append(&sample::entry(), Escape::Log, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expected, "{source}");
    }

    #[test]
    fn variables_take_their_values() {
        check("", "");
        check("plain", "plain");
        check("$$1 ${host}x$host.", "$1 shop.example.comxshop.example.com.");
        check("$remote_addr:$remote_port $remote_user", "192.0.2.7:40000 alice");
        check("$request_method $request_uri $uri $args $arg_b $arg_none", "GET /a?b=c /a b=c c -");
        check("$http_user_agent|$http_none|$cookie_srv|$sent_http_x_cache", "curl/8\\x22|-|s1|hit");
        check("$status $body_bytes_sent $bytes_sent $request_length", "200 1024 1200 80");
        check("$request_time $upstream_connect_time $upstream_header_time", "0.124 0.002 0.104");
        check("$upstream_response_time $upstream_addr", "0.123 10.0.0.1:80");
        check("$upstream_protocol", "HTTP/2.0");
        check("$scheme $server_protocol $server_addr:$server_port", "https HTTP/1.1 10.9.9.9:443");
        check(
            "$ssl_protocol $ssl_cipher $ssl_server_name $ssl_curve $ssl_session_reused",
            "TLSv1.3 C S G r",
        );
        check(
            "$listener $route $pool $endpoint $cause $attempts $queue_position",
            "fe r app app1 complete 1 0",
        );
        check("$t_handshake $t_idle $t_request $t_queue $t_connect", "- 10 1000 500 2000");
        check("$t_response $t_data $t_active $t_own $t_total", "102000 19000 124500 90 124510");
        check("$1 $2 $3 $worker $connection_requests $request_id", "one two - 3 9 id-1");
        check(
            "$why",
            "route=r pool=app server=app1 request=1000 connect=2000 response=102000 data=19000",
        );
        check("$msec", "1234567890.131");
        check("$request", "GET /a?b=c HTTP/1.1");
    }

    #[test]
    fn absent_values_are_nothing_outside_logs() {
        let mut out = Vec::new();
        Template::parse("<$http_none$arg_none>$t_handshake").unwrap().append(
            &sample::entry(),
            Escape::None,
            &mut out,
        );
        assert_eq!(out, b"<>-");
    }

    #[test]
    fn errors_say_where() {
        let check = |source: &str, offset: usize, message: &str| {
            let error = Template::parse(source).unwrap_err();
            assert_eq!((error.offset, error.message.as_str()), (offset, message), "{source}");
        };
        check("é $hots", 3, "unknown variable `$hots`");
        check("a$", 1, "`$` without a name; write `$$` for a dollar");
        check("$ b", 0, "`$` without a name; write `$$` for a dollar");
        check("${host", 0, "`${` without its `}`");
        check("$0", 0, "unknown variable `$0`");
        check("${}", 0, "unknown variable `$`");
        assert_eq!(Template::parse("$hots").unwrap_err().unknown.as_deref(), Some("hots"));
    }

    #[test]
    fn knows_what_it_needs() {
        let parse = |source: &str| Template::parse(source).unwrap();
        assert!(parse("$sent_http_etag").needs_response_headers());
        assert!(!parse("$http_etag").needs_response_headers());
        assert!(parse("x $why").tells_why() && !parse("$t_queue").tells_why());
        assert_eq!(parse("a$$b").constant(), Some(&b"a$b"[..]));
        assert_eq!(parse("$host").constant(), None);
        assert_eq!(parse("$host"), parse("$host"));
        assert_ne!(parse("$host"), parse("${host}"));
    }

    #[test]
    fn a_part_has_the_variables_of_the_whole() {
        let whole = Template::parse("/$host/$$/${uri}?a=$args").unwrap();
        let part = whole.parse_part("/${uri}$$$host").unwrap();
        assert_eq!(part, Template::parse("/${uri}$$$host").unwrap());
    }

    proptest! {
        #[test]
        fn any_text_parses_or_says_where(source in "[$a-z{}_0-9é ]{0,20}") {
            match Template::parse(&source) {
                Ok(template) => prop_assert_eq!(template.as_str(), source),
                Err(error) => prop_assert_eq!(source.as_bytes()[error.offset], b'$'),
            }
        }
    }
}
