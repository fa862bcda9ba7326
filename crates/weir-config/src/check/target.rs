//! Checks the target after `->`.

use weir_stats::Template;

use super::arguments::{ArgumentValue, Arguments};
use super::checker::Checker;
use crate::defaults;
use crate::diagnostic::Diagnostic;
use crate::directives::{self, Arrow, Context};
use crate::model::{
    Action, Endpoint, FileCandidate, Files, NO_RESPONSE, Pool, PoolChoice, PoolShare, PoolSplit,
    Redirect, Respond, below_fault, internal_fault, values,
};
use crate::syntax::lexer::Word;
use crate::syntax::tree::Directive;
use crate::words;

/// The `Location` of `redirect https`.
const HTTPS: &str = "https://$host$request_uri";

impl<'a> Checker<'a> {
    /// Parses the target of a directive that has one.
    pub(super) fn target(&mut self, arguments: &Arguments<'a>) -> Option<Action> {
        let (arrow, words) = arguments.target?;
        let Some((first, rest)) = words.split_first() else {
            let error = Diagnostic::error(arrow.span, "there is no target after `->`");
            self.report(error.help("write a pool, an address, `respond`, `redirect` or `files`"));
            return None;
        };
        if first.is_bare()
            && matches!(first.text.as_str(), "respond" | "redirect" | "files" | "internal")
        {
            let target = self.target_words(arguments.directive, first, rest)?;
            return self.own_answer(&target);
        }
        if is_address(first) {
            return self.anonymous_pool(words).map(Action::Pool);
        }
        if first.text.starts_with('$') && rest.is_empty() {
            return self.pool_by(ArgumentValue::new(first)).map(Action::PoolBy);
        }
        if first.is_bare() && (first.text.ends_with('%') || first.is("*")) {
            return self.pool_split(words).map(Action::Split);
        }
        let pool = self.pool_named(ArgumentValue::new(first)).map(Action::Pool);
        if let Some(extra) = rest.first() {
            let mut error = Diagnostic::error(
                extra.span,
                format!("`{}` is one word too many after a pool", extra.text),
            );
            let line = |word: &Word| self.sources.position(word.span).line;
            if line(extra) > line(first) {
                error = error.help(format!(
                    "is a `;` missing after `{}` on line {}?",
                    first.text,
                    line(first)
                ));
            }
            self.report(error);
            return None;
        }
        pool
    }

    /// Parses `respond …` and `redirect …`, as a target or as a line of a listener.
    pub(super) fn own_answer(&mut self, target: &Arguments<'a>) -> Option<Action> {
        match target.name() {
            "respond" => self.respond(target).map(Action::Respond),
            "redirect" => self.redirect(target).map(Action::Redirect),
            "internal" => self.internal_target(target, internal_fault).map(Action::Internal),
            _ => self.files(target).map(Action::Files),
        }
    }

    pub(super) fn target_words(
        &mut self,
        directive: &'a Directive,
        name: &'a Word,
        words: &'a [Word],
    ) -> Option<Arguments<'a>> {
        let spec = directives::find(&name.text, Context::Target)?;
        debug_assert!(spec.arrow == Arrow::Never);
        self.words_of(directive, spec, words)
    }

    /// Parses `$variable`: each of its values must name a pool.
    fn pool_by(&mut self, value: ArgumentValue<'a>) -> Option<PoolChoice> {
        let by = self.template(value)?;
        let names = self.value(value, |_| values::pool_values(&by))?;
        let mut pools = Vec::with_capacity(names.len());
        for name in names {
            let Some((index, _)) = self.pool_names.get(name.as_str()).copied() else {
                let message = if name.is_empty() {
                    "this variable may be empty, and then names no pool".to_owned()
                } else {
                    format!("a value of this variable is `{name}`, and there is no such pool")
                };
                let error = Diagnostic::error(value.span(), message);
                self.report(error.help("every value, `default` included, is the name of a pool"));
                return None;
            };
            self.used_pools.insert(index);
            pools.push((name, index));
        }
        Some(PoolChoice { by, pools })
    }

    /// Parses `90% stable, 10% canary key=TEXT`.
    fn pool_split(&mut self, words: &'a [Word]) -> Option<PoolSplit> {
        let mut words = words;
        let mut key = None;
        if let [before @ .., last] = words
            && let Some(("key", start)) = last.option()
        {
            let value = ArgumentValue::new(last).skip(start);
            let template = self.template(value)?;
            self.value(value, |_| values::sound_key(&template))?;
            key = Some(template);
            words = before;
        }
        let mut shares = Vec::new();
        for pair in words.chunks(2) {
            let [share, name] = pair else {
                let error = Diagnostic::error(pair[0].span, "a share needs a pool");
                self.report(error.help("route -> 90% stable, 10% canary;"));
                return None;
            };
            let share = self.value(ArgumentValue::new(share), words::share::parse)?;
            let pool = self.pool_of_name(name.text.trim_end_matches(','), name)?;
            shares.push(PoolShare { share, pool });
        }
        let place = ArgumentValue::new(words.first()?);
        self.value(place, |_| values::whole_shares(&shares))?;
        Some(PoolSplit { shares, key })
    }

    pub(super) fn pool_of_name(&mut self, name: &str, word: &'a Word) -> Option<usize> {
        if let Some((index, _)) = self.pool_names.get(name) {
            self.used_pools.insert(*index);
            return Some(*index);
        }
        let candidates = self.pool_names.keys().copied();
        let error = Diagnostic::error(word.span, format!("there is no pool `{name}`"));
        let error = error.suggest(name, candidates);
        self.report(error);
        None
    }

    fn pool_named(&mut self, value: ArgumentValue<'a>) -> Option<usize> {
        let text = value.text();
        if let Some((index, _)) = self.pool_names.get(text) {
            self.used_pools.insert(*index);
            return Some(*index);
        }
        if text.starts_with('/') {
            let error = Diagnostic::error(value.span(), format!("`{text}` is not a target"));
            self.report(error.help(format!(
                "for static files write `files {text}`, for a socket `unix:{text}`"
            )));
            return None;
        }
        if text.contains('.') || text == "localhost" || text.parse::<u16>().is_ok() {
            let candidates = self.pool_names.keys().copied();
            let error = Diagnostic::error(value.span(), format!("there is no pool `{text}`"));
            let error = error.suggest(text, candidates);
            let example = if text.parse::<u16>().is_ok() {
                format!("127.0.0.1:{text}")
            } else {
                format!("{text}:80")
            };
            self.report(error.help(format!("an address needs host and port: `{example}`")));
            return None;
        }
        let names = self.pool_names.keys().copied().collect();
        self.unknown("pool", value, names);
        None
    }

    fn anonymous_pool(&mut self, words: &'a [Word]) -> Option<usize> {
        let mut endpoints = Vec::new();
        for word in words {
            let value = ArgumentValue::new(word);
            let text = self.address_text(value);
            if let Some(address) = self.value(value, |_| values::endpoint_address(&text)) {
                endpoints.push(Endpoint::new(word.text.as_str(), address));
            }
        }
        if endpoints.len() < words.len() {
            return None;
        }
        let name = words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(",");
        for (at, word) in words.iter().enumerate() {
            if let Some(first) = words[..at].iter().find(|earlier| earlier.text == word.text) {
                self.first_of("server", ArgumentValue::new(word), Some(first.span));
            }
        }
        if let Some(index) = self.anonymous.get(&name) {
            return Some(*index);
        }
        let index = self.pools.len();
        if let (Some(first), Some(last)) = (words.first(), words.last()) {
            self.places.note(&format!("pools[{index}]"), first.span.to(last.span));
        }
        self.pools.push(Pool::new(name.clone(), endpoints));
        self.anonymous.insert(name, index);
        Some(index)
    }

    fn respond(&mut self, target: &Arguments<'a>) -> Option<Respond> {
        let status = self.value(target.word(0)?, values::status)?;
        let body = match target.word(1) {
            Some(text) => Some(self.template(text)?),
            None => None,
        };
        let content_type = self.setting(target, "type", |text| {
            let text = if text == "none" { "" } else { text };
            values::line_text(text).map(|()| text.to_owned())
        });
        if let (None, Some(value)) = (&body, target.option("type")) {
            self.report(Diagnostic::warning(
                value.word.span,
                "`type=` has no effect without a text",
            ));
        }
        if let (Some(_), 204 | 304 | NO_RESPONSE, Some(text)) = (&body, status, target.word(1)) {
            self.report(Diagnostic::error(
                text.span(),
                format!("a response with status {status} has no body"),
            ));
        }
        let content_type = content_type.unwrap_or_else(|| defaults::RESPOND_TYPE.to_owned());
        let denied = self.setting(target, "cause", |text| match text {
            "denied" => Ok(()),
            _ => Err("the only cause that a response can have is `denied`".to_owned()),
        });
        let denied = denied.is_some();
        let delay = self.setting(target, "delay", |text| {
            let delay = values::wait(text)?;
            values::response_delay(delay).map(|()| delay)
        });
        Some(Respond { status, body, content_type, denied, delay })
    }

    fn redirect(&mut self, target: &Arguments<'a>) -> Option<Redirect> {
        let first = target.word(0)?;
        if first.text() == "https" {
            let status = match target.word(1) {
                Some(status) => self.value(status, values::redirect_status)?,
                None => defaults::REDIRECT_STATUS,
            };
            return Template::parse(HTTPS).ok().map(|to| Redirect { status, to });
        }
        let status = self.value(first, values::redirect_status)?;
        let Some(place) = target.word(1) else {
            let error = Diagnostic::error(first.span(), "`redirect` needs a URL");
            self.report(
                error.help("`redirect https` or `redirect 301 https://example.com$request_uri`"),
            );
            return None;
        };
        if place.text() == "https" {
            let error = Diagnostic::error(place.span(), "the status comes last here");
            self.report(error.help(format!("write `redirect https {status}`")));
            return None;
        }
        self.value(place, values::location)?;
        self.template(place).map(|to| Redirect { status, to })
    }

    /// Parses `internal PATH`, `internal @NAME` or `internal @NAME PATH`.
    /// `fault` finds what is wrong with the path or the name.
    pub(super) fn internal_target(
        &mut self,
        target: &Arguments<'a>,
        fault: fn(&Template) -> Option<String>,
    ) -> Option<Template> {
        let first = target.word(0)?;
        let Some(path) = target.word(1) else { return self.internal(first, fault) };
        if !first.text().starts_with('@') {
            let error = Diagnostic::error(path.span(), "a path is one word");
            self.report(error.help("write `internal PATH`, or `internal @NAME PATH`"));
            return None;
        }
        self.value(first, |text| values::name(&text[1..]))?;
        let template = self.internal(path, fault)?;
        if template.as_str().starts_with('@') {
            self.report(Diagnostic::error(path.span(), "a path follows the name"));
            return None;
        }
        template.parse_part(&format!("{} {}", first.text(), template.as_str())).ok()
    }

    fn internal(
        &mut self,
        to: ArgumentValue<'a>,
        fault: fn(&Template) -> Option<String>,
    ) -> Option<Template> {
        let text = self.template(to)?;
        match fault(&text) {
            None => Some(text),
            Some(fault) => {
                self.report(Diagnostic::error(to.span(), fault));
                None
            }
        }
    }

    fn files(&mut self, target: &Arguments<'a>) -> Option<Files> {
        let root = self.path(target.word(0)?);
        let strip = self.setting(target, "strip", |text| {
            if text.starts_with('/') {
                Ok(text.trim_end_matches('/').to_owned())
            } else {
                Err(format!("a prefix of a path starts with `/`: did you mean `/{text}`?"))
            }
        });
        let prefix = self
            .setting(target, "prefix", |text| values::file_prefix(text).map(|()| text.to_owned()));
        if let (Some(_), None, Some(value)) = (&prefix, &strip, target.option("prefix")) {
            let error = Diagnostic::error(value.span(), "`prefix=` has nothing to stand for");
            self.report(error.help("it takes the place of `strip=`, which other paths lack"));
        }
        let index = self.setting(target, "index", |text| {
            let names: Vec<String> = text.split(',').map(str::to_owned).collect();
            match names.iter().find(|name| name.is_empty() || name.contains('/')) {
                Some(name) => Err(format!("`{name}` is not a file's name")),
                None => Ok(names),
            }
        });
        let index = index.unwrap_or_else(|| vec![defaults::INDEX.to_owned()]);
        let fallback = match target.option("fallback") {
            Some(to) => Some(self.internal(to, internal_fault)?),
            None => None,
        };
        let found = match target.option("found") {
            Some(to) => Some(self.internal(to, internal_fault)?),
            None => None,
        };
        let below = match target.option("below") {
            Some(text) => Some(self.below(text)?),
            None => None,
        };
        let strip = strip.filter(|prefix| !prefix.is_empty());
        let types = match target.option("types") {
            Some(name) => Some(self.type_table_named(name)?),
            None => None,
        };
        let optional = target.flag("optional");
        let candidates = match target.option("try") {
            Some(list) => self.candidates(list)?,
            None => Vec::new(),
        };
        Some(Files {
            root,
            below,
            strip,
            prefix,
            index,
            index_internal: target.flag("index_internal"),
            types,
            optional,
            candidates,
            fallback,
            found,
        })
    }

    /// Parses the paths of `try=`.
    fn candidates(&mut self, list: ArgumentValue<'a>) -> Option<Vec<FileCandidate>> {
        let mut all = Vec::new();
        let mut offset = 0;
        for text in list.text().split(',') {
            let place = list.skip(offset);
            offset += text.len() + 1;
            let mut unknown = false;
            let parsed = FileCandidate::parse(text, |path| {
                let template = self.template_of(path, place);
                unknown = template.is_none();
                template.ok_or_else(String::new)
            });
            // An unknown variable was reported.
            match parsed {
                Err(_) if unknown => return None,
                parsed => all.push(self.value(place, |_| parsed)?),
            }
        }
        Some(all)
    }

    fn below(&mut self, value: ArgumentValue<'a>) -> Option<Template> {
        let text = self.template(value)?;
        let Some(fault) = below_fault(&text) else { return Some(text) };
        self.report(Diagnostic::error(value.span(), fault));
        None
    }
}

/// Returns true if the word is meant as an address. Names of pools have no colon; an IP address
/// without a port gets a message about it.
fn is_address(word: &Word) -> bool {
    word.text.contains(':') || word.text.parse::<std::net::IpAddr>().is_ok()
}
