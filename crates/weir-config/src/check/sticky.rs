//! Checks `sticky …` of a pool. The checks that the JSON form passes too are in
//! `model/validate/sticky.rs`.

use foldhash::{HashMap, HashMapExt};

use super::arguments::Arguments;
use super::checker::Checker;
use crate::diagnostic::Diagnostic;
use crate::model::validate::sticky as validate;
use crate::model::{
    AdminState, Listener, Pool, SameSite, Secret, Secure, Sticky, StickyMode, values,
};
use crate::source::SourceSpan;
use crate::units;

/// Words of nginx and HAProxy, with their equivalents.
const FOREIGN: [(&str, &str); 5] = [
    ("indirect", "this is always the case: servers never see the cookie"),
    ("nocache", "this is always the case: a response that sets the cookie is `private` for caches"),
    ("dynamic", "write `secret=`: the value depends on names and the secret, not on addresses"),
    ("maxidle", "write `max_age=`"),
    ("maxlife", "write `max_age=`"),
];

const MODES: [(&str, StickyMode); 4] = [
    ("insert", StickyMode::Insert),
    ("rewrite", StickyMode::Rewrite),
    ("prefix", StickyMode::Prefix),
    ("follow", StickyMode::Follow),
];

impl<'a> Checker<'a> {
    pub(super) fn sticky(&mut self, line: &Arguments<'a>) -> Option<Sticky> {
        let (kind, name, how) = (line.word(0)?, line.word(1)?, line.word(2)?);
        if kind.text() != "cookie" {
            let message = format!("`{}` is not a kind of affinity", kind.text());
            let error = Diagnostic::error(kind.span(), message).suggest(kind.text(), ["cookie"]);
            self.report(error.help(
                "write `sticky cookie NAME insert`, or for affinity by a key `balance hash KEY`",
            ));
            return None;
        }
        let cookie =
            self.value(name, |text| values::token(text, "a cookie").map(|()| text.to_owned()));
        let mode = MODES.iter().find(|(name, _)| *name == how.text()).map(|(_, mode)| *mode);
        if mode.is_none() {
            let message = format!("`{}` is not a mode of a sticky cookie", how.text());
            let names = MODES.map(|(name, _)| name);
            let error = Diagnostic::error(how.span(), message).suggest(how.text(), names);
            self.report(error.help("write `sticky cookie NAME insert`, and options after it"));
        }
        for word in line.words.iter().skip(3) {
            let message = format!("`{}` is not an option of a sticky cookie", word.text());
            let known = line.spec.options.iter().map(|option| option.name);
            let error = Diagnostic::error(word.span(), message).suggest(word.text(), known);
            let foreign = FOREIGN.iter().find(|(name, _)| *name == word.text());
            self.report(match foreign {
                Some((_, hint)) => error.help(*hint),
                None => error,
            });
        }
        let mut sticky = Sticky { mode: mode.unwrap_or_default(), ..Sticky::new(cookie?) };
        sticky.visible = line.flag("visible");
        sticky.preserve = line.flag("preserve");
        sticky.post_only = line.flag("postonly");
        sticky.http_only = line.flag("httponly");
        self.set(line, "secure", &mut sticky.secure, secure);
        sticky.same_site = self.setting(line, "samesite", same_site);
        self.set(line, "path", &mut sticky.path, |text| {
            validate::path(text).map(|()| text.to_owned())
        });
        sticky.domain =
            self.setting(line, "domain", |text| validate::domain(text).map(|()| text.to_owned()));
        sticky.max_age = self.setting(line, "max_age", |text| {
            let age = units::duration::parse(text)?;
            validate::max_age(age).map(|()| age)
        });
        sticky.secret = self.secret(line);
        for objection in validate::cross_objections(&sticky) {
            let place = objection.options.iter().find_map(|option| line.option(option));
            let place = place.map_or(name.span(), |value| value.word.span);
            self.report(Diagnostic::error(place, objection.message).help(objection.help));
        }
        Some(sticky)
    }

    fn secret(&mut self, line: &Arguments<'a>) -> Option<Secret> {
        match (line.option("secret"), line.option("secret_file")) {
            (Some(text), Some(file)) => {
                let error = Diagnostic::error(
                    file.word.span,
                    "a cookie is signed with one secret: `secret=` or `secret_file=`",
                );
                self.report(error.related(text.word.span, "first here"));
                None
            }
            (Some(text), None) => self.value(text, |text| {
                Secret::check(text.as_bytes()).map(|()| Secret::Text(text.to_owned()))
            }),
            (None, Some(file)) => Some(Secret::File(self.path(file))),
            (None, None) => None,
        }
    }

    /// Returns the order of a `server` line.
    pub(super) fn order(&mut self, line: &Arguments<'a>) -> AdminState {
        match (line.option("down"), line.option("drain")) {
            (Some(down), Some(drain)) => {
                let error = Diagnostic::error(
                    drain.word.span,
                    "a server is either `down` or draining; a server that is `down` gets no requests at all",
                );
                self.report(error.related(down.word.span, "first here"));
                AdminState::Maintenance
            }
            (Some(_), None) => AdminState::Maintenance,
            (None, Some(_)) => AdminState::Draining,
            (None, None) => AdminState::Ready,
        }
    }

    /// Compares the orders of the servers with the rest of their pool.
    pub(super) fn orders_fit(&mut self, name: SourceSpan, lines: &[Arguments<'a>], pool: &Pool) {
        let ready = pool.endpoints.iter().any(|endpoint| endpoint.order == AdminState::Ready);
        if !ready && !pool.endpoints.is_empty() {
            let message = "every server of this pool is `down` or draining: new clients get 503";
            let warning = Diagnostic::warning(name, message);
            self.report(warning.help("remove `down` or `drain` from a server that is to be used"));
        }
        if pool.sticky.is_some() || lines.iter().any(|line| line.name() == "sticky") {
            return;
        }
        for drain in lines.iter().filter(|line| line.name() == "server") {
            if let Some(drain) = drain.option("drain") {
                let message =
                    "no client is bound to a server of this pool, so `drain` is the same as `down`";
                let warning = Diagnostic::warning(drain.word.span, message);
                self.report(warning.help("clients are bound by `sticky cookie NAME insert`"));
            }
        }
    }

    /// Warns of two pools on one host whose cookies are the same cookie to browsers: each would
    /// replace the other's.
    pub(super) fn shared_cookies(&mut self, listeners: &[Listener]) {
        let spans: HashMap<usize, SourceSpan> = self.pool_names.values().copied().collect();
        let mut warnings = Vec::new();
        let hosts = listeners.iter().flat_map(|listener| {
            let sites = listener.sites.iter().map(|site| site.routes.as_slice());
            sites.chain([listener.default.as_slice()])
        });
        for routes in hosts {
            let mut first: HashMap<(&str, &str, Option<&str>), usize> = HashMap::new();
            for number in routes.iter().flat_map(|route| route.action.pools()) {
                let Some(sticky) = self.pools.get(number).and_then(|pool| pool.sticky.as_ref())
                else {
                    continue;
                };
                let key = (sticky.cookie.as_str(), sticky.path.as_str(), sticky.domain.as_deref());
                let other = *first.entry(key).or_insert(number);
                if let (true, Some(here), Some(there)) =
                    (other != number, spans.get(&number), spans.get(&other))
                {
                    let message = format!(
                        "two pools of one host have the same sticky cookie `{}`: each would replace the cookie of the other",
                        sticky.cookie
                    );
                    let warning =
                        Diagnostic::warning(*here, message).related(*there, "the other pool");
                    warnings.push(warning.help("give the cookies different names or paths"));
                }
            }
        }
        self.diagnostics.extend(warnings);
    }
}

fn secure(text: &str) -> Result<Secure, String> {
    match text {
        "secure" => Ok(Secure::On),
        "auto" => Ok(Secure::Auto),
        _ => Err(format!("`{text}` is neither `secure` alone nor `secure=auto`")),
    }
}

fn same_site(text: &str) -> Result<SameSite, String> {
    match text {
        "lax" => Ok(SameSite::Lax),
        "strict" => Ok(SameSite::Strict),
        "none" => Ok(SameSite::None),
        _ => Err(format!("`{text}` is none of `lax`, `strict` and `none`")),
    }
}
