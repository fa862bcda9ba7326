//! Lints: what a configuration may say and its author most likely did not mean. They are found in
//! the checked model, so that they hold for every syntax, and reported at its places in the file.
//! `weir check` shows them; nothing that serves looks for them.
//!
//! A comment `# weir: allow CODE` on the line of the report, or in the comment lines directly above
//! it, silences one.

mod listeners;
mod named;
mod page;
mod pools;
mod reach;
mod routes;
mod table;

use std::sync::Arc;

use crate::diagnostic::{Diagnostic, Diagnostics, is_silenced};
use crate::load::{Checked, ForeignWords};
use crate::model::Config;
use crate::source::{ModelPlaces, SourceSpan};

pub use page::lints_page;
pub use table::{LINTS, Lint};

/// The rate of requests for which costs are stated if no other one is known.
const STATED_RATE: u64 = 1_000;
/// New connections per second that a limit may cost before it is reported.
const CHEAP_CONNECTIONS: u64 = 10;

/// Returns what the lints find in a configuration.
pub fn lint(checked: &Checked) -> Diagnostics {
    lint_at(checked, STATED_RATE)
}

/// Does the same, and states what limits cost at this number of requests per second.
pub fn lint_at(checked: &Checked, rate: u64) -> Diagnostics {
    let mut linter =
        Linter { config: &checked.config, places: &checked.places, rate, found: Vec::new() };
    linter.listeners();
    linter.pools();
    linter.routes();
    let mut found = linter.found;
    for lint in &mut found {
        translate(lint, checked.foreign_words);
    }
    found.extend(checked.foreign_lints.iter().cloned());
    found.retain(|lint| !is_silenced(&checked.sources, lint));
    Diagnostics::new(found, Arc::clone(&checked.sources))
}

/// Puts the words of another program into a report.
fn translate(lint: &mut Diagnostic, table: &[ForeignWords]) {
    let Some(row) = table.iter().find(|row| lint.code == Some(row.code)) else { return };
    for (own, foreign) in row.words {
        lint.message = lint.message.replace(own, foreign);
    }
    lint.help = vec![row.help.to_owned()];
}

/// A configuration that is being looked through.
struct Linter<'a> {
    config: &'a Config,
    places: &'a ModelPlaces,
    /// The number of requests per second for which costs are stated.
    rate: u64,
    found: Vec<Diagnostic>,
}

impl Linter<'_> {
    fn place(&self, part: &str) -> Option<SourceSpan> {
        self.places.find(part)
    }

    /// Returns the number of new connections per second if each carries this many requests, or
    /// nothing if they cost little.
    fn new_connections(&self, requests: u64) -> Option<u64> {
        let requests = requests.max(1);
        (self.rate > requests.saturating_mul(CHEAP_CONNECTIONS)).then_some(self.rate / requests)
    }

    /// Reports a lint at a part of the configuration. A part without a place was not written by the
    /// user.
    fn report(
        &mut self,
        code: &'static str,
        part: &str,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        if let Some(place) = self.place(part) {
            self.found.push(Diagnostic::warning(place, message).code(code).help(help));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_str;

    fn codes(text: &str) -> Vec<&'static str> {
        let checked =
            parse_str("weir.conf", text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let found = lint(&checked);
        let all = checked.warnings.iter().chain(found.iter());
        all.filter_map(|lint| lint.code).collect()
    }

    #[test]
    fn each_lint_finds_its_example_and_nothing_in_the_better_one() {
        for Lint { code, example, better, .. } in LINTS {
            assert!(codes(example).contains(code), "{code}: {:?} in {example}", codes(example));
            assert_eq!(codes(better), Vec::<&str>::new(), "{code}: {better}");
        }
    }

    #[test]
    fn each_lint_can_be_silenced_above_its_line_and_on_it() {
        for Lint { code, example, .. } in LINTS {
            let checked = parse_str("weir.conf", example).unwrap();
            let found = lint(&checked);
            let all: Vec<&Diagnostic> = checked.warnings.iter().chain(found.iter()).collect();
            let own: Vec<usize> = all
                .iter()
                .filter(|lint| lint.code == Some(code))
                .map(|lint| checked.sources.position(lint.span.unwrap()).line)
                .collect();
            let above = |(number, line): (usize, &str)| {
                let comment = format!("# weir: allow {code}, as agreed\n# more\n");
                let comment = if own.contains(&(number + 1)) { comment } else { String::new() };
                format!("{comment}{line}\n")
            };
            let silenced: String = example.lines().enumerate().map(above).collect();
            assert!(!codes(&silenced).contains(code), "{code}: {silenced}");
            let behind = |(number, line): (usize, &str)| {
                let comment = if own.contains(&(number + 1)) { " # weir: allow x, " } else { "" };
                let code = if comment.is_empty() { "" } else { code };
                format!("{line}{comment}{code}\n")
            };
            let silenced: String = example.lines().enumerate().map(behind).collect();
            assert!(!codes(&silenced).contains(code), "{code}: {silenced}");
        }
    }

    #[test]
    fn limits_of_connections_are_judged_at_the_rate() {
        let text = "pool app { server 10.0.0.1:80; keepalive max_requests=500; }\n\
            listen :443 tls {\n    certificate site.pem;\n    limits requests=1000;\n    default -> app;\n}\n";
        let checked = parse_str("weir.conf", text).unwrap();
        let messages = |rate| -> Vec<String> {
            lint_at(&checked, rate).iter().map(|lint| lint.message.clone()).collect()
        };
        assert_eq!(messages(1_000), Vec::<String>::new());
        assert_eq!(messages(10_000).len(), 1, "at most ten a second are cheap");
        let [server, client] = &messages(85_000)[..] else { panic!("{:?}", messages(85_000)) };
        assert!(
            client
                .contains("at 85000 requests per second that makes 85 or more new TLS handshakes"),
            "{client}"
        );
        assert!(
            server.contains("at 85000 requests per second that makes 170 new connections"),
            "{server}"
        );
    }

    #[test]
    fn another_code_silences_nothing() {
        let text = "# weir: allow no-health-check\npool app { server 10.0.0.1:80; }\n\nlisten :80 -> respond 204;\n";
        assert_eq!(codes(text), ["unused-definition"]);
    }
}
