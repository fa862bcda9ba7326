//! Lints: what a configuration may say and its author most likely did not mean. They are found in
//! the checked model, so that they hold for every syntax, and reported at its places in the file.
//! `weir check` shows them; nothing that serves looks for them.
//!
//! A comment `# weir: allow CODE` on the line of the report, or in the comment lines directly above
//! it, silences one.

mod listeners;
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

/// Returns what the lints find in a configuration.
pub fn lint(checked: &Checked) -> Diagnostics {
    let mut linter = Linter { config: &checked.config, places: &checked.places, found: Vec::new() };
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
    found: Vec<Diagnostic>,
}

impl Linter<'_> {
    fn place(&self, part: &str) -> Option<SourceSpan> {
        self.places.find(part)
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
    fn another_code_silences_nothing() {
        let text = "# weir: allow no-health-check\npool app { server 10.0.0.1:80; }\n\nlisten :80 -> respond 204;\n";
        assert_eq!(codes(text), ["unused-definition"]);
    }
}
