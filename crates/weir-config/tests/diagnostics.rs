//! Invalid configurations and their reports: each file under `bad/` contains texts, each followed
//! by its report. With `WEIR_BLESS=1` the test writes the reports anew.

use std::fs;
use std::path::{Path, PathBuf};

use weir_config::parse_str;

/// Splits a file into title, text and report: sections begin with `=== title`, reports with
/// `--- report`.
fn sections(text: &str) -> Vec<(String, String, String)> {
    let parts = text.split("=== ").skip(1);
    parts
        .map(|part| {
            let (title, rest) = part.split_once('\n').unwrap();
            let (text, report) = rest.split_once("--- report\n").unwrap_or((rest, ""));
            (title.to_owned(), text.to_owned(), report.to_owned())
        })
        .collect()
}

fn report(text: &str) -> String {
    let diagnostics = match parse_str("weir.conf", text) {
        Ok(checked) => checked.warnings,
        Err(diagnostics) => diagnostics,
    };
    assert!(!diagnostics.is_empty(), "nothing is wrong with:\n{text}");
    diagnostics.render(false) + "\n"
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad");
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn reports_are_as_written_down() {
    let bless = std::env::var_os("WEIR_BLESS").is_some();
    let mut cases = 0;
    let mut wrong = Vec::new();
    for path in files() {
        let before = fs::read_to_string(&path).unwrap();
        let mut after = String::new();
        for (title, text, expected) in sections(&before) {
            let found = report(&text);
            after.extend(["=== ", &title, "\n", &text, "--- report\n", &found]);
            cases += 1;
            if found != expected {
                wrong.push(format!("{title}\nexpected:\n{expected}\nfound:\n{found}"));
            }
        }
        if bless {
            fs::write(&path, after).unwrap();
        }
    }
    assert!(bless || wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(cases >= 60, "only {cases} cases were read");
}

#[test]
fn every_section_but_the_warnings_is_refused() {
    for path in files() {
        let warnings = path.ends_with("warnings.txt");
        for (title, text, _) in sections(&fs::read_to_string(&path).unwrap()) {
            assert_eq!(parse_str("weir.conf", &text).is_ok(), warnings, "{title}");
        }
    }
}

#[test]
fn colour_adds_escapes_and_nothing_else() {
    let error = parse_str("weir.conf", "lisen :80;").unwrap_err();
    let coloured = error.render(true);
    assert!(coloured.contains("\u{1b}["));
    let mut plain = String::new();
    let mut rest = coloured.as_str();
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        plain.push_str(before);
        rest = after.split_once('m').unwrap().1;
    }
    plain.push_str(rest);
    assert_eq!(plain, error.to_string());
    assert_eq!(error.count(), 1);
}
