//! The affinity of a backend by a cookie.

use weir_config::syntax::tree::Directive;

use super::convert::HaproxyConverter;
use super::sections::{LineId, SectionId};
use crate::native::NativeLine;

/// The reason for a cookie whose value the servers do not have.
const OPAQUE: &str =
    "the value is opaque: a client with a cookie of HAProxy gets a new one; servers never see it";

/// The words of `cookie` that become another directive than themselves.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a word of the line")]
struct CookieWords<'a> {
    mode: Option<&'a str>,
    indirect: bool,
    nocache: bool,
    dynamic: bool,
    preserve: bool,
    postonly: bool,
    /// A word that says for how long the cookie is valid.
    bounded: Option<&'a str>,
    httponly: bool,
    secure: bool,
    domain: Option<&'a str>,
    samesite: Option<String>,
}

impl HaproxyConverter<'_> {
    /// Returns true if clients are bound to servers of the section by a cookie.
    pub(super) fn binds_by_cookie(&self, id: SectionId) -> bool {
        self.sections.last(id, "cookie").is_some_and(|line| !self.sections.is_negated(line))
    }

    /// Converts `cookie`.
    pub(super) fn cookie(&mut self, id: SectionId, servers: bool) -> Option<Directive> {
        let line = self.sections.last(id, "cookie")?;
        if self.sections.is_negated(line) {
            self.outcomes.honour(line);
            return None;
        }
        let sections = self.sections;
        let words: Vec<&str> = sections.words(line).iter().map(|word| word.text.as_str()).collect();
        let name = words.first().copied().unwrap_or_default();
        let read = match read_words(words.get(1..).unwrap_or_default()) {
            Ok(read) => read,
            Err(reason) => {
                self.outcomes.refuse(line, reason);
                return None;
            }
        };
        if !servers && !read.dynamic {
            self.outcomes.ignore(line, "no server of the section has a `cookie`");
            return None;
        }
        let mode = read.mode.unwrap_or("follow");
        let native = NativeLine::new("sticky", self.sections.span(line));
        let mut native = native.keyword("cookie").value(name).keyword(mode);
        let is_visible = mode == "insert" && !read.indirect && !read.dynamic;
        for (word, given) in [
            ("visible", is_visible),
            ("preserve", read.preserve && mode == "insert"),
            ("postonly", read.postonly && mode == "insert"),
            ("httponly", read.httponly),
            ("secure", read.secure),
        ] {
            if given {
                native = native.keyword(word);
            }
        }
        for (option, value) in [("domain", read.domain), ("samesite", read.samesite.as_deref())] {
            if let Some(value) = value {
                native = native.option(option, value);
            }
        }
        self.note_cookie(line, &read, mode, servers);
        Some(native.end())
    }

    fn note_cookie(&mut self, line: LineId, read: &CookieWords<'_>, mode: &str, servers: bool) {
        if read.dynamic && !servers {
            self.outcomes.differs(line, OPAQUE);
        } else if let Some(word) = read.bounded {
            self.outcomes.differs(
                line,
                format!("`{word}`: a cookie is valid as long as the client keeps it"),
            );
        } else if mode == "insert" && !read.nocache {
            let how =
                "a response that sets the cookie has `Cache-Control: private`, as with `nocache`";
            self.outcomes.differs(line, how);
        } else {
            self.outcomes.honour(line);
        }
    }
}

fn read_words<'a>(words: &[&'a str]) -> Result<CookieWords<'a>, String> {
    let mut read = CookieWords::default();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        match *word {
            "insert" | "rewrite" | "prefix" => read.mode = Some(word),
            "indirect" => read.indirect = true,
            "nocache" => read.nocache = true,
            "postonly" => read.postonly = true,
            "preserve" => read.preserve = true,
            "dynamic" => read.dynamic = true,
            "httponly" => read.httponly = true,
            "secure" => read.secure = true,
            "domain" => {
                let value = rest.next().copied().unwrap_or_default().trim_start_matches('.');
                if read.domain.replace(value).is_some() {
                    return Err("a cookie has one `domain`".to_owned());
                }
            }
            "maxidle" | "maxlife" => {
                rest.next();
                read.bounded = Some(word);
            }
            "attr" => {
                let value = rest.next().copied().unwrap_or_default();
                let site = value.to_ascii_lowercase();
                match site.strip_prefix("samesite=") {
                    Some(site @ ("lax" | "strict" | "none")) => {
                        read.samesite = Some(site.to_owned());
                    }
                    _ => return Err(format!("the attribute `{value}` has no conversion")),
                }
            }
            other => return Err(format!("`{other}` has no conversion")),
        }
    }
    match read.mode {
        Some("rewrite" | "prefix") if read.indirect => {
            Err("`indirect` takes the cookie away from clients that have one: leave it out"
                .to_owned())
        }
        _ => Ok(read),
    }
}
