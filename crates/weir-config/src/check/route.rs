//! Checks `route … -> …`, `default -> …`, and the directives of their blocks and of the listener's:
//! access rules and header changes.

use super::arguments::{ArgumentValue, Arguments};
use super::checker::Checker;
use super::route_upstream::route_size;
use crate::diagnostic::Diagnostic;
use crate::directives::Context;
use crate::model::{
    AccessRule, Expires, HeaderEdit, RequestTimeout, ResponseRules, Route, RouteSize,
    RouteUpstream, Rule, Verdict, values,
};
use crate::pattern::TextPattern;
use crate::source::SourceSpan;

const REPLACING_VERBS: [&str; 4] =
    ["replace", "replace_item", "replace_attribute", "replace_prefix"];
const EDIT_VERBS: [&str; 7] =
    ["set", "add", "remove", "replace", "replace_item", "replace_attribute", "replace_prefix"];

/// The routes of one block.
pub(super) struct BlockRoutes {
    pub(super) routes: Vec<Route>,
    /// The prefix of generated route names.
    prefix: String,
    /// The route that matches every request, so that later ones are never reached.
    catch_all: Option<SourceSpan>,
    /// The path of the list in the model.
    part: String,
}

impl BlockRoutes {
    pub(super) fn new(listener: &str, site: &str, part: String) -> Self {
        let site = site.replace(values::unfit_for_names, "_");
        Self { routes: Vec::new(), prefix: format!("{listener}/{site}"), catch_all: None, part }
    }

    /// Returns the path of the last route in the model.
    pub(super) fn last_part(&self) -> String {
        format!("{}[{}]", self.part, self.routes.len().saturating_sub(1))
    }

    /// Adds a route with a generated name and an empty block.
    pub(super) fn push(&mut self, when: Rule, action: crate::model::Action) {
        let name = format!("{}/{}", self.prefix, self.routes.len() + 1);
        let CommonLines { upgrade, access, request_headers, response_headers } =
            CommonLines::default();
        let request_timeout = RequestTimeout::Inherited;
        self.routes.push(Route {
            name,
            when,
            action,
            upgrade,
            request_timeout,
            access,
            rate_limits: Vec::new(),
            in_flight_limits: Vec::new(),
            bandwidth: None,
            logs: None,
            rewrite: Vec::new(),
            upstream: RouteUpstream::default(),
            error_targets: Vec::new(),
            expires: None,
            responses: ResponseRules::default(),
            body: RouteSize::Inherited,
            request_headers,
            response_headers,
        });
    }
}

impl<'a> Checker<'a> {
    /// Adds a `route` or `default` to a list.
    pub(super) fn route(&mut self, arguments: &Arguments<'a>, list: &mut BlockRoutes) {
        let words = arguments.words.iter().map(|value| value.word).collect();
        let reported = self.diagnostics.len();
        let when = self.expression(words);
        // After an error in its condition it is unknown whether the route matches every request.
        let everything = takes_everything(&when) && self.diagnostics.len() == reported;
        let action = self.target(arguments);
        let place = arguments.directive.name.span;
        self.unreachable(place, "route", list.catch_all);
        if everything && list.catch_all.is_none() {
            list.catch_all = Some(arguments.span());
        }
        let Some(action) = action else {
            self.block(arguments.block(), Context::Route);
            return;
        };
        list.push(when, action);
        let outer = self.begin_part(list.last_part(), arguments.span());
        let mut lines = CommonLines::default();
        let mut name = None;
        let mut limits = Vec::new();
        let mut logs = None;
        let (mut rewrite, mut upstream) = (Vec::new(), Vec::new());
        let mut errors = Vec::new();
        let mut responses = Vec::new();
        let (mut expires, mut body) = (None, RouteSize::Inherited);
        let mut timeout = RequestTimeout::Inherited;
        for line in self.block(arguments.block(), Context::Route) {
            match line.name() {
                "name" => name = line.word(0).and_then(|value| self.value(value, values::name)),
                "limit" => limits.push(line),
                "log" => logs = Some(self.use_logs(&line)),
                "rewrite" | "query" => rewrite.push(line),
                "expires" => expires = self.expires(&line),
                "limits" => self.set(&line, "body", &mut body, route_size),
                "error_page" => errors.extend(self.error_target(&line)),
                "intercept" | "response_status" => responses.push(line),
                "retry" | "buffer_request" | "use_server" | "request_method" => upstream.push(line),
                "timeout" => {
                    self.set(&line, "request", &mut timeout, |text| {
                        let wait = values::wait_or_off(text)?;
                        Ok(wait.map_or(RequestTimeout::Off, RequestTimeout::After))
                    });
                    upstream.push(line);
                }
                _ => self.line(&line, &mut lines),
            }
        }
        if let Some(route) = list.routes.last_mut() {
            if let Some(name) = name {
                route.name = name;
            }
            for line in &limits {
                self.route_limit(line, route);
            }
            self.rewrites(&rewrite, route);
            self.route_upstream(&upstream, route);
            route.logs = logs;
            route.error_targets = errors;
            route.expires = expires;
            self.response_rules(&responses, route);
            route.body = body;
            route.upgrade = lines.upgrade;
            route.request_timeout = timeout;
            route.access = lines.access;
            route.request_headers = lines.request_headers;
            route.response_headers = lines.response_headers;
        }
        self.part = outer;
    }

    fn expires(&mut self, line: &Arguments<'a>) -> Option<Expires> {
        let value = line.word(0)?;
        if line.flag("modified") {
            return self.value(value, |text| Expires::parse(text)?.since_change());
        }
        if !value.text().contains('$') {
            return self.value(value, Expires::parse);
        }
        let by = self.template(value)?;
        self.value(value, |_| values::expires_values(&by))?;
        Some(Expires::By(by))
    }

    /// Warns of a route or line that comes after one that matches every request.
    pub(super) fn unreachable(
        &mut self,
        place: SourceSpan,
        what: &str,
        catch_all: Option<SourceSpan>,
    ) {
        if let Some(before) = catch_all {
            let warning = Diagnostic::warning(place, format!("this {what} is never reached"));
            let warning = warning.code("unreachable-route");
            self.report(warning.related(before, "this matches every request before it"));
        }
    }

    /// Parses a directive that listeners and routes have in common; any other is ignored.
    pub(super) fn line(&mut self, line: &Arguments<'a>, lines: &mut CommonLines) {
        match line.name() {
            "upgrade" => lines.upgrade = Some(self.upgrade(line)),
            "allow" | "deny" => {
                lines.access.extend(self.access(line));
                self.note_last("access", lines.access.len(), line.span());
            }
            "header" => {
                lines.request_headers.extend(self.edit(line));
                self.note_last("request_headers", lines.request_headers.len(), line.span());
            }
            "response_header" => {
                lines.response_headers.extend(self.edit(line));
                self.note_last("response_headers", lines.response_headers.len(), line.span());
            }
            _ => {}
        }
    }

    fn upgrade(&mut self, line: &Arguments<'a>) -> Vec<String> {
        if let [only] = line.words.as_slice()
            && only.text() == "off"
        {
            return Vec::new();
        }
        line.words.iter().filter_map(|value| self.value(*value, values::protocol)).collect()
    }

    fn access(&mut self, line: &Arguments<'a>) -> Option<AccessRule> {
        let verdict = if line.name() == "allow" { Verdict::Allow } else { Verdict::Deny };
        if let [only] = line.words.as_slice()
            && only.text() == "all"
        {
            return Some(AccessRule { verdict, clients: Vec::new() });
        }
        let clients = self.networks(&line.words);
        (!clients.is_empty()).then_some(AccessRule { verdict, clients })
    }

    fn edit(&mut self, line: &Arguments<'a>) -> Option<HeaderEdit> {
        let condition = match line.option("if") {
            Some(text) => Some(self.template(text)?),
            None => None,
        };
        let edit = self.plain_edit(line)?;
        let edit = match line.option("empty").map(|word| (word, self.value(word, empty_value))) {
            None | Some((_, Some(false))) => edit,
            Some((_, None)) => return None,
            Some((word, Some(true))) if edit.value().is_none() => {
                let error = "`empty=send` has no effect without a value";
                self.report(Diagnostic::error(word.word.span, error));
                return None;
            }
            Some((_, Some(true))) => HeaderEdit::SendEmpty(Box::new(edit)),
        };
        Some(match condition {
            Some(text) => HeaderEdit::When(text, Box::new(edit)),
            None => edit,
        })
    }

    fn plain_edit(&mut self, line: &Arguments<'a>) -> Option<HeaderEdit> {
        let (verb, name) = (line.word(0)?, line.word(1)?);
        if verb.text() == "remove" && name.text().starts_with('~') && line.word(2).is_none() {
            return self.value(name, str::parse).map(HeaderEdit::RemoveMatching);
        }
        if let Some(edit) = self.blank_connection(line) {
            return Some(edit);
        }
        let header = self.value(name, values::header_name);
        if line.name() == "header"
            && name.text().eq_ignore_ascii_case("host")
            && EDIT_VERBS.contains(&verb.text())
            && verb.text() != "set"
        {
            let error = Diagnostic::error(name.span(), "a request has exactly one `Host`");
            self.report(error.help("write `header set Host VALUE;` to change it"));
            return None;
        }
        if let Some(mark) = line.option("secret") {
            match (&header, line.word(2)) {
                (Some(header), Some(_)) => {
                    self.hidden_headers.insert(header.to_ascii_lowercase());
                }
                (_, None) => {
                    let error =
                        Diagnostic::error(mark.word.span, "`secret` has no effect without a value");
                    self.report(error);
                }
                (None, Some(_)) => {}
            }
        }
        match (verb.text(), line.word(2)) {
            ("remove", None) => header.map(HeaderEdit::Remove),
            ("remove", Some(value)) => {
                self.report(Diagnostic::error(value.span(), "`remove` takes no value"));
                None
            }
            (verb, _) if REPLACING_VERBS.contains(&verb) => self.replacement(line, header?),
            ("set" | "add", None) => {
                let error =
                    Diagnostic::error(name.span(), format!("`{}` needs a value", verb.text()));
                self.report(error.help(format!(
                    "write `{} {} {} VALUE;`",
                    line.name(),
                    verb.text(),
                    name.text()
                )));
                None
            }
            ("set" | "add", Some(value)) if line.word(3).is_none() => {
                self.edit_with(verb, header, value)
            }
            ("set" | "add", Some(_)) => {
                let extra = line.words.last().map_or(line.span(), ArgumentValue::span);
                let error = format!("`{}` takes one value", verb.text());
                let error = Diagnostic::error(extra, error);
                self.report(error.help("quote a value that contains spaces"));
                None
            }
            (other, _) => {
                self.unknown_verb(line, verb, other);
                None
            }
        }
    }

    fn unknown_verb(&mut self, line: &Arguments<'a>, verb: ArgumentValue<'a>, other: &str) {
        let known = "`set`, `add`, `remove`, `replace`, `replace_item`, `replace_attribute` and `replace_prefix`";
        let error = Diagnostic::error(verb.span(), format!("`{other}` is none of {known}"));
        let error = error.suggest(other, EDIT_VERBS);
        let help = || format!("write `{} set {other} VALUE;`", line.name());
        self.report(if line.words.len() == 2 { error.help(help()) } else { error });
    }

    /// Returns the change that gives requests a blank `Connection`, if the line is this one.
    fn blank_connection(&mut self, line: &Arguments<'a>) -> Option<HeaderEdit> {
        let [verb, name, value] = line.words.as_slice() else { return None };
        let blank = value.text().chars().all(|one| matches!(one, ' ' | '\t'));
        if line.name() != "header" || verb.text() != "set" || !blank {
            return None;
        }
        let edit = HeaderEdit::Set(name.text().to_owned(), self.template(*value)?);
        edit.is_blank_connection().then_some(edit)
    }

    fn replacement(&mut self, line: &Arguments<'a>, header: String) -> Option<HeaderEdit> {
        let verb = line.word(0).map_or("replace", |verb| verb.text());
        let of_attribute = verb == "replace_attribute";
        let (attribute, rest) = match line.words.as_slice() {
            [_, _, attribute, rest @ ..] if of_attribute => (Some(*attribute), rest),
            [_, _, rest @ ..] => (None, rest),
            _ => (None, &[][..]),
        };
        let [pattern, value] = rest else {
            let (more, form) =
                if of_attribute { ("an attribute, ", "ATTRIBUTE ") } else { ("", "") };
            let error = format!("`{verb}` needs {more}a pattern and a value");
            let error = Diagnostic::error(line.span(), error);
            let form = format!("{} {verb} {header} {form}PATTERN VALUE", line.name());
            self.report(error.help(format!("write `{form};`")));
            return None;
        };
        let attribute = match attribute {
            Some(name) => {
                self.value(name, |text| values::token(text, "an attribute"))?;
                name.text().to_owned()
            }
            None => String::new(),
        };
        self.value(*value, values::line_text)?;
        let value = self.template(*value)?;
        if verb == "replace_prefix" {
            return Some(HeaderEdit::ReplacePrefix(header, self.template(*pattern)?, value));
        }
        let pattern = self.value(*pattern, str::parse::<TextPattern>);
        Some(match verb {
            "replace" => HeaderEdit::Replace(header, pattern?, value),
            "replace_item" => HeaderEdit::ReplaceItem(header, pattern?, value),
            _ => HeaderEdit::ReplaceAttribute(header, attribute, pattern?, value),
        })
    }

    fn edit_with(
        &mut self,
        verb: ArgumentValue<'a>,
        header: Option<String>,
        value: ArgumentValue<'a>,
    ) -> Option<HeaderEdit> {
        self.value(value, values::line_text)?;
        let template = self.template(value)?;
        let header = header?;
        Some(if verb.text() == "set" {
            HeaderEdit::Set(header, template)
        } else {
            HeaderEdit::Add(header, template)
        })
    }
}

/// Parses the treatment of a line without a value: true if it is sent.
fn empty_value(text: &str) -> Result<bool, String> {
    match text {
        "send" => Ok(true),
        "omit" => Ok(false),
        other => Err(format!("`{other}` is neither `omit` nor `send`")),
    }
}

/// The directives that listeners and routes have in common.
#[derive(Default)]
pub(super) struct CommonLines {
    pub(super) upgrade: Option<Vec<String>>,
    pub(super) access: Vec<AccessRule>,
    pub(super) request_headers: Vec<HeaderEdit>,
    pub(super) response_headers: Vec<HeaderEdit>,
}

/// Returns true if the rule matches every request.
pub(super) fn takes_everything(rule: &Rule) -> bool {
    match rule {
        Rule::All(rules) => rules.iter().all(takes_everything),
        Rule::Any(rules) => rules.iter().any(takes_everything),
        Rule::Path(patterns) => patterns.iter().any(crate::pattern::PathPattern::is_any),
        _ => false,
    }
}
