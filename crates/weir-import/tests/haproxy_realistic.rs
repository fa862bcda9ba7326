//! Files of HAProxy of the kinds that people write, in `haproxy/realistic`: the account of each is
//! recorded beside it, and those with nothing refused are whole configurations. `WEIR_BLESS=1`
//! writes the accounts.

use std::path::{Path, PathBuf};

use weir_config::source::Mappings;
use weir_import::{HaproxyVersion, Imported, haproxy_file};

/// The files of which lines are refused, with the beginnings of those lines.
const REFUSED: &[(&str, &[&str])] = &[(
    "rate-limits",
    &[
        "stick-table type ip size 200k expire 2m ",
        "http-request track-sc0 src",
        "http-request deny deny_status 429 if { s",
    ],
)];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/haproxy/realistic")
}

fn files() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder()).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "cfg"));
    files.sort();
    assert!(files.len() >= 20, "{} files", files.len());
    files
}

fn read(path: &Path) -> Imported {
    let read = haproxy_file(path, HaproxyVersion::LATEST, Mappings::default());
    read.unwrap_or_else(|errors| panic!("{}", errors.render(false)))
}

#[test]
fn the_account_of_each_file_is_the_recorded_one() {
    let bless = std::env::var_os("WEIR_BLESS").is_some();
    let mut different = Vec::new();
    for path in files() {
        let imported = read(&path);
        // Paths of this machine do not belong in the account.
        let folder = format!("{}/", path.parent().unwrap().display());
        let account = imported.coverage.text().replace(&folder, "");
        let recorded = path.with_extension("report");
        if bless {
            std::fs::write(&recorded, &account).unwrap();
        } else if std::fs::read_to_string(&recorded).unwrap_or_default() != account {
            different.push(format!("{}:\n{account}", recorded.display()));
        }
    }
    assert!(different.is_empty(), "WEIR_BLESS=1 writes them:\n{}", different.join("\n"));
}

#[test]
fn only_the_named_lines_are_refused() {
    for path in files() {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let expected = REFUSED.iter().find(|(file, _)| *file == name);
        let expected = expected.map_or(&[][..], |(_, lines)| lines);
        let imported = read(&path);
        let refused: Vec<&str> =
            imported.coverage.refused().map(|entry| entry.directive.as_str()).collect();
        let unexpected: Vec<&&str> = refused
            .iter()
            .filter(|line| !expected.iter().any(|begin| line.starts_with(begin)))
            .collect();
        assert!(unexpected.is_empty(), "{name}: {unexpected:#?}\n{}", imported.coverage.text());
        for begin in expected {
            assert!(refused.iter().any(|line| line.starts_with(begin)), "{name}: {begin}");
        }
    }
}

#[test]
fn the_native_form_of_each_file_is_the_same_configuration() {
    for path in files() {
        let imported = read(&path);
        let native = imported.native();
        let checked = imported.check();
        let checked = checked.unwrap_or_else(|errors| panic!("{}\n{native}", errors.render(false)));
        let parsed = weir_config::parse_str("/native.conf", &native);
        let parsed =
            parsed.unwrap_or_else(|errors| panic!("{}: {}", path.display(), errors.render(false)));
        assert_eq!(
            weir_config::to_json(&parsed.config),
            weir_config::to_json(&checked.config),
            "{}",
            path.display()
        );
    }
}
