//! The outcome of conditions for display: what decided, with the part of the request that it looked
//! at. `condition.rs` evaluates them; no request that is served comes here.

use weir_config::pattern::{PathPattern, TextPattern};

use crate::http::cookie;
use crate::routing::condition::{Condition, RoutedRequest};

/// The outcome of a condition for one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionTrace {
    /// The condition, as a configuration writes it.
    pub what: String,
    /// The part of the request that it looked at; empty for one that has parts.
    pub seen: String,
    /// Set if it matches.
    pub holds: bool,
    /// The outcomes of its parts, up to the one that decided.
    pub parts: Vec<ConditionTrace>,
}

impl Condition {
    /// Evaluates the rule like [`Condition::holds`] and reports each part that decided.
    pub(crate) fn trace<'a>(&'a self, subject: RoutedRequest<'a>) -> ConditionTrace {
        let parts_until = |conditions: &'a [Self], end: bool| {
            let mut parts: Vec<ConditionTrace> = Vec::new();
            for condition in conditions {
                parts.push(condition.trace(subject));
                if parts.last().is_some_and(|part| part.holds == end) {
                    break;
                }
            }
            parts
        };
        let (parts, holds) = match self {
            Self::All(conditions) => {
                let parts = parts_until(conditions, false);
                let holds = parts.last().is_none_or(|last| last.holds);
                (parts, holds)
            }
            Self::Any(conditions) => {
                let parts = parts_until(conditions, true);
                let holds = parts.last().is_some_and(|last| last.holds);
                (parts, holds)
            }
            Self::Not(condition) => {
                let part = condition.trace(subject);
                let holds = !part.holds;
                (vec![part], holds)
            }
            leaf => (Vec::new(), leaf.leaf_holds(subject)),
        };
        ConditionTrace { what: describe(self), seen: seen(self, subject), holds, parts }
    }
}

/// Returns a condition as a configuration writes it.
fn describe(condition: &Condition) -> String {
    let texts =
        |list: &[Box<[u8]>]| list.iter().map(|text| text_of(text)).collect::<Vec<_>>().join(" ");
    let parts = |list: &[Condition], between: &str| {
        let part = |one: &Condition| match one {
            Condition::All(parts) | Condition::Any(parts) if parts.len() > 1 => {
                format!("( {} )", describe(one))
            }
            _ => describe(one),
        };
        list.iter().map(part).collect::<Vec<_>>().join(between)
    };
    let named = |kind: &str, name: &[u8], value: Option<&str>| match value {
        Some(value) => format!("{kind} {}={value}", text_of(name)),
        None => format!("{kind} {}", text_of(name)),
    };
    match condition {
        Condition::All(conditions) if conditions.is_empty() => "any request".to_owned(),
        Condition::Any(conditions) if conditions.is_empty() => "no request".to_owned(),
        Condition::All(conditions) => parts(conditions, " and "),
        Condition::Any(conditions) => parts(conditions, " or "),
        Condition::Not(inner) => match &**inner {
            Condition::All(_) | Condition::Any(_) => format!("not ( {} )", describe(inner)),
            inner => format!("not {}", describe(inner)),
        },
        Condition::Path(patterns) => {
            let patterns: Vec<&str> = patterns.iter().map(PathPattern::as_str).collect();
            format!("path {}", patterns.join(" "))
        }
        Condition::Method(methods) => format!("method {}", texts(methods)),
        Condition::Header(name, value) => {
            named("header", name, value.as_ref().map(TextPattern::as_str))
        }
        Condition::Cookie(name, value) => {
            named("cookie", name, value.as_ref().map(TextPattern::as_str))
        }
        Condition::Query(name, value) => {
            named("query", name, value.as_ref().map(TextPattern::as_str))
        }
        Condition::Client(networks) => {
            let networks: Vec<String> = networks.iter().map(ToString::to_string).collect();
            format!("client {}", networks.join(" "))
        }
        Condition::Internal(None) => "internal".to_owned(),
        Condition::Internal(Some(name)) => format!("internal @{name}"),
        Condition::File(switch) => {
            format!("{} {}", switch.test().as_str(), switch.path().display())
        }
        Condition::Count(count) => count.text(),
        Condition::Variable(text, value) => {
            named("variable", text.as_str().as_bytes(), value.as_ref().map(TextPattern::as_str))
        }
    }
}

/// Returns the part of the request that a condition looks at.
fn seen<'a>(condition: &'a Condition, subject: RoutedRequest<'a>) -> String {
    let view = subject.view;
    match condition {
        Condition::All(_) | Condition::Any(_) | Condition::Not(_) => String::new(),
        Condition::Path(_) => format!("the path is {}", text_of(subject.path)),
        Condition::Method(_) => {
            format!("the method is {}", text_of(view.head.method_span.of(view.bytes)))
        }
        Condition::Header(name, _) => {
            let lines = view.head.headers.iter();
            let named = lines.filter(|line| line.name.of(view.bytes).eq_ignore_ascii_case(name));
            listed("header", name, named.map(|line| line.value.of(view.bytes)))
        }
        Condition::Cookie(name, _) => {
            listed("cookie", name, cookie::values(view.head, view.bytes, name))
        }
        Condition::Query(..) => match view.query() {
            Some(query) => format!("the query is {}", text_of(query)),
            None => "there is no query".to_owned(),
        },
        Condition::Client(_) => match view.client {
            Some(client) => format!("the client is {client}"),
            None => "the client has no address".to_owned(),
        },
        Condition::Internal(_) if view.internal.is_some() => {
            "the request comes from an internal redirect".to_owned()
        }
        Condition::Internal(_) => "the request comes from the client".to_owned(),
        Condition::File(switch) if switch.holds() => "it was there at the last look".to_owned(),
        Condition::File(_) => "it was not there at the last look".to_owned(),
        Condition::Count(count) => count.seen(),
        Condition::Variable(text, _) => {
            let mut seen = String::new();
            subject.texts.test(text, |value| {
                seen = format!("{} is `{}`", text.as_str(), text_of(value));
                true
            });
            seen
        }
    }
}

fn listed<'a>(kind: &str, name: &[u8], values: impl Iterator<Item = &'a [u8]>) -> String {
    let values: Vec<String> = values.map(|value| format!("`{}`", text_of(value))).collect();
    let name = text_of(name);
    if values.is_empty() {
        format!("there is no {kind} {name}")
    } else {
        format!("the {kind} {name} is {}", values.join(" and "))
    }
}

/// Returns bytes of a request as text without control characters.
pub(crate) fn text_of(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars()
        .flat_map(|character| {
            let shown: Vec<char> = if character.is_control() {
                character.escape_default().collect()
            } else {
                vec![character]
            };
            shown
        })
        .collect()
}
