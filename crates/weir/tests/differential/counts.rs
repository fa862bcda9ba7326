//! The numbers of compared cases, which `docs/status.md` has too.

use std::path::PathBuf;

use super::case::Case;
use super::programs::Reference;
use super::run::{Outcome, repository};

/// Returns the line of `docs/status.md` about a program.
fn line(reference: Reference, cases: &[Case]) -> String {
    let compared: Vec<&Case> = cases.iter().filter(|case| case.refused.is_empty()).collect();
    let requests: usize = compared.iter().map(|case| case.requests.len()).sum();
    let different = compared.iter().flat_map(|case| &case.requests);
    let different = different.filter(|request| request.differs.is_some()).count();
    let logs = compared.iter().filter(|case| case.log_differs.is_some()).count();
    format!(
        "- {}: {} cases, of which {} are compared with {} requests, and {} have directives that \
         Weir refuses by name; {} further requests and {} logs differ, for the \
         reasons in their files.",
        reference.name(),
        cases.len(),
        compared.len(),
        requests - different,
        cases.len() - compared.len(),
        different,
        logs,
    )
}

fn status() -> (PathBuf, String) {
    let path = repository().join("docs/status.md");
    let text = std::fs::read_to_string(&path).unwrap();
    (path, text)
}

/// Prints the numbers, and fails if `docs/status.md` has others.
pub(crate) fn check(reference: Reference, cases: &[Case]) {
    let line = line(reference, cases);
    println!("{line}");
    let (_, text) = status();
    assert!(
        text.lines().any(|own| own == line),
        "docs/status.md does not say (WEIR_BLESS=1 writes it):\n{line}"
    );
}

/// Writes the numbers into `docs/status.md`.
pub(crate) fn write(reference: Reference, cases: &[Case]) {
    let (path, text) = status();
    let begin = format!("- {}: ", reference.name());
    let line = line(reference, cases);
    let lines = text.lines().map(|own| {
        let own = if own.starts_with(&begin) { &line } else { own };
        format!("{own}\n")
    });
    std::fs::write(path, lines.collect::<String>()).unwrap();
}

/// Writes the refused directives of today into the files of the cases that name others.
pub(crate) fn write_refused(results: &[(&Case, Outcome)]) {
    let changed = results.iter().filter_map(|(case, outcome)| match outcome {
        Outcome::RefusedOthers(refused) => Some((*case, refused)),
        _ => None,
    });
    let mut changed: Vec<(&Case, &Vec<String>)> = changed.collect();
    // From the end, so that the numbers of the lines before stay.
    changed.sort_by_key(|(case, _)| std::cmp::Reverse(case.line));
    for (case, refused) in changed {
        let text = std::fs::read_to_string(&case.file).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let end = lines[case.line..].iter().position(|line| line.starts_with("--- ")).unwrap();
        let head = case.line + 1..case.line + end;
        let mut kept: Vec<String> = lines[head.clone()].to_vec();
        kept.retain(|line| !line.starts_with("refused: "));
        let at = kept.iter().rposition(|line| !line.is_empty()).map_or(0, |at| at + 1);
        for (index, directive) in refused.iter().enumerate() {
            kept.insert(at + index, format!("refused: {directive}"));
        }
        lines.splice(head, kept);
        std::fs::write(&case.file, lines.join("\n") + "\n").unwrap();
    }
}
