//! The account of a request's way: what `weir explain` prints, as text and as JSON. Each decision
//! has its place in the file that the user wrote.

use std::fmt::Write as _;

use serde::Serialize;
use weir_control::trace::ConditionTrace;

/// Of a longer list the last ones are shown: the one that decided is the last.
const MOST_LINES: usize = 100;

/// The account of a request's way.
#[derive(Debug, Serialize)]
pub(super) struct Account {
    pub(super) client: Option<String>,
    pub(super) listener: AccountLine,
    pub(super) hosts: Vec<AccountLine>,
    pub(super) routes: Vec<RouteLine>,
    pub(super) access: Vec<AccountLine>,
    pub(super) path: PathForms,
    pub(super) rewrites: Vec<AccountLine>,
    pub(super) limits: Vec<AccountLine>,
    pub(super) request_headers: Vec<AccountLine>,
    pub(super) response_headers: Vec<AccountLine>,
    /// The rules that discard responses of servers or change their status.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) response_rules: Vec<AccountLine>,
    pub(super) outcome: Outcome,
    /// Parts of the account that are unknown before the request is served.
    pub(super) depends: Vec<String>,
}

/// A statement with its place, as `file:line`.
#[derive(Debug, Serialize)]
pub(super) struct AccountLine {
    pub(super) place: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) matches: Option<bool>,
    pub(super) text: String,
}

/// A route that was tried.
#[derive(Debug, Serialize)]
pub(super) struct RouteLine {
    pub(super) place: Option<String>,
    pub(super) name: String,
    pub(super) matches: bool,
    pub(super) condition: ConditionLine,
}

/// The outcome of a condition.
#[derive(Debug, Serialize)]
pub(super) struct ConditionLine {
    what: String,
    seen: String,
    matches: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parts: Vec<ConditionLine>,
}

/// The path in its forms.
#[derive(Debug, Serialize)]
pub(super) struct PathForms {
    pub(super) received: String,
    pub(super) matched: String,
    pub(super) sent: String,
}

/// The end of the way.
#[derive(Debug, Serialize)]
pub(super) struct Outcome {
    pub(super) kind: &'static str,
    pub(super) place: Option<String>,
    pub(super) text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) status: Option<u16>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) details: Vec<AccountLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) server: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) runner_up: Option<String>,
    /// The request head as the server gets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) head: Option<String>,
}

impl Account {
    pub(super) fn json(&self) -> String {
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        format!("{text}\n")
    }

    pub(super) fn text(&self, asked: &str) -> String {
        let client = self.client.as_deref().unwrap_or("a Unix socket");
        let mut out = format!("{asked} from {client}\n");
        section(&mut out, "Listener", std::slice::from_ref(&self.listener));
        section(&mut out, "Access", &self.access);
        section(&mut out, "Hosts", &self.hosts);
        let routes: Vec<AccountLine> = self.routes.iter().map(RouteLine::line).collect();
        section(&mut out, "Routes", &routes);
        let PathForms { received, matched, sent } = &self.path;
        let path_sent = sent.split('?').next().unwrap_or_default();
        if [received, matched].iter().any(|form| *form != path_sent) && !matched.is_empty() {
            let _ = write!(
                out,
                "\nPath\n  received as {received}\n  matched as {matched}\n  sent as {sent}\n"
            );
        }
        section(&mut out, "Rewrites", &self.rewrites);
        section(&mut out, "Changes to request headers", &self.request_headers);
        let outcome = AccountLine {
            place: self.outcome.place.clone(),
            matches: None,
            text: self.outcome.text.clone(),
        };
        section(&mut out, "Outcome", &[outcome]);
        for line in &self.outcome.details {
            line.write(&mut out);
        }
        section(&mut out, "Limits", &self.limits);
        section(&mut out, "Rules for responses of the server", &self.response_rules);
        section(&mut out, "Changes to response headers", &self.response_headers);
        if let Some(head) = &self.outcome.head {
            out.push_str("\nThe server gets\n");
            for line in head.trim_end().lines() {
                let _ = writeln!(out, "  {line}");
            }
        }
        if !self.depends.is_empty() {
            out.push_str("\nNot known beforehand\n");
            for line in &self.depends {
                let _ = writeln!(out, "  {line}");
            }
        }
        out
    }
}

fn section(out: &mut String, title: &str, lines: &[AccountLine]) {
    if lines.is_empty() {
        return;
    }
    let _ = write!(out, "\n{title}\n");
    let left_out = lines.len().saturating_sub(MOST_LINES);
    if left_out > 0 {
        let _ = writeln!(out, "  … {left_out} before these; --json has all");
    }
    for line in lines.iter().skip(left_out) {
        line.write(out);
    }
}

impl AccountLine {
    fn write(&self, out: &mut String) {
        out.push_str("  ");
        if let Some(place) = &self.place {
            let _ = write!(out, "{place}: ");
        }
        out.push_str(match self.matches {
            Some(true) => "yes: ",
            Some(false) => "no: ",
            None => "",
        });
        let _ = writeln!(out, "{}", self.text);
    }
}

impl RouteLine {
    fn line(&self) -> AccountLine {
        let ConditionLine { what, .. } = &self.condition;
        let why = self.condition.why();
        let text = if why.is_empty() { what.clone() } else { format!("{what}: {why}") };
        AccountLine { place: self.place.clone(), matches: Some(self.matches), text }
    }
}

impl ConditionLine {
    pub(super) fn of(trace: &ConditionTrace) -> Self {
        Self {
            what: trace.what.clone(),
            seen: trace.seen.clone(),
            matches: trace.holds,
            parts: trace.parts.iter().map(Self::of).collect(),
        }
    }

    /// Returns what the parts that decided looked at.
    fn why(&self) -> String {
        let mut seen: Vec<&str> = Vec::new();
        self.collect(&mut seen);
        seen.join(", ")
    }

    fn collect<'a>(&'a self, seen: &mut Vec<&'a str>) {
        if !self.seen.is_empty() && !seen.contains(&self.seen.as_str()) {
            seen.push(&self.seen);
        }
        // Of several parts only those with the outcome of the whole decided, except below `not`.
        let decided = |part: &&Self| self.parts.len() == 1 || part.matches == self.matches;
        for part in self.parts.iter().filter(decided) {
            part.collect(seen);
        }
    }
}
