//! Configurations of nginx and HAProxy. Every directive is accounted for at a place in the text,
//! and the native form that is printed is accepted exactly when the file itself is, as the same
//! configuration.

use weir_config::{Checked, Diagnostics, parse_str, to_json};
use weir_import::{HaproxyVersion, Imported, Language, haproxy_bytes, nginx_text};

pub(crate) fn nginx(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    if !names_files(text) {
        check(nginx_text("/nonexistent/nginx.conf", text), text);
    }
}

pub(crate) fn haproxy(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if !names_files(&text) {
        check(haproxy_bytes("/nonexistent/haproxy.cfg", data, HaproxyVersion::LATEST), &text);
    }
}

/// Tells whether a text names files of the machine, on which a fuzzer must not depend.
fn names_files(text: &str) -> bool {
    ["/dev", "/proc", "/sys", "/etc", "include", ".d/"].iter().any(|name| text.contains(name))
}

fn check(imported: Result<Imported, Diagnostics>, text: &str) {
    let _ = Language::of(text);
    let imported = match imported {
        Ok(imported) => imported,
        Err(diagnostics) => {
            assert!(!diagnostics.is_empty(), "refused without a reason");
            assert!(!diagnostics.render(false).is_empty());
            return;
        }
    };
    let lines = 1 + text.matches('\n').count();
    for entry in &imported.coverage.entries {
        assert!((1..=lines).contains(&entry.line), "line {} of {lines}", entry.line);
    }
    assert!(!imported.coverage.text().is_empty() && !imported.coverage.json().is_empty());
    let native = imported.native();
    let json = |checked: Checked| to_json(&checked.config);
    let own = imported.check().map(json);
    let printed = parse_str("/nonexistent/weir.conf", &native).map(json);
    match (own, printed) {
        (Ok(own), Ok(printed)) => assert_eq!(own, printed, "another configuration:\n{native}"),
        (Err(_), Err(_)) => {}
        (Ok(_), Err(errors)) | (Err(errors), Ok(_)) => {
            panic!("one form is refused:\n{native}\n{}", errors.render(false))
        }
    }
}
