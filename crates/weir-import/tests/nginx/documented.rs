//! Every directive and variable of nginx's documentation has an answer, and the page tells it.

use std::path::Path;

use weir_import::nginx_text;

use super::{outcome, server, stream};

#[test]
fn the_page_of_directives_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/nginx-directives.md");
    let page = weir_import::reference();
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let current = std::fs::read_to_string(&path).unwrap();
    assert!(current == page, "docs/nginx-directives.md is not current: run with WEIR_BLESS=1");
}

/// `nginx/documented.txt` has the names of nginx's own index of directives.
#[test]
fn every_documented_directive_is_known() {
    let names = include_str!("documented.txt");
    assert!(names.lines().count() > 597);
    // A file that `include` names must exist.
    for name in names.lines().filter(|name| *name != "include") {
        let imported = server(&format!("{name} x;"));
        let (_, reason) = outcome(&imported.coverage, &format!("{name} x"));
        assert!(!reason.contains("not known"), "{name}");
        // It says why, and what to do.
        assert!(!reason.contains("it has no counterpart:"), "{name}: {reason}");
    }
    let (word, _) = outcome(&server("fastcgi_buffers 8 16k;").coverage, "fastcgi_buffers");
    assert_eq!(word, "ignored");
    let used = server("location / { fastcgi_pass 127.0.0.1:9; fastcgi_cache x; }");
    assert_eq!(outcome(&used.coverage, "fastcgi_cache").0, "refused");
    assert_eq!(outcome(&server("made_up x;").coverage, "made_up").0, "refused");
    assert_eq!(outcome(&server("ssl_ocsp_responder x;").coverage, "ssl_ocsp").0, "refused");
}

#[test]
fn every_documented_variable_is_known() {
    let list = include_str!("documented_variables.txt");
    assert!(list.lines().count() > 230);
    let page = weir_import::reference();
    for line in list.lines() {
        let (part, name) = line.split_once(": ").unwrap();
        let (text, log) = match part {
            "http" => (
                server(&format!(
                    "location / {{ root /x; add_header X-A \"a${{{name}}}\"; }}
                     location /p {{ proxy_pass http://127.0.0.1:2; add_header X-A \"b${{{name}}}\"; }}"
                )),
                nginx_text(
                    "/etc/nginx/nginx.conf",
                    &format!(
                        "events {{}} http {{ log_format x \"$msec ${{{name}}}\"; access_log /x x;
                         server {{ listen 127.0.0.1:1; location / {{ root /x; }} }} }}"
                    ),
                )
                .unwrap(),
            ),
            _ => (
                stream(&format!("server {{ listen 127.0.0.1:1; return \"a${{{name}}}\"; }}")),
                stream(&format!(
                    "log_format x \"$msec ${{{name}}}\"; access_log /x x;
                     server {{ listen 127.0.0.1:1; proxy_pass 127.0.0.1:2; }}"
                )),
            ),
        };
        let directive = if part == "http" { "add_header" } else { "return" };
        let in_texts = outcome(&text.coverage, directive);
        let in_lines = outcome(&log.coverage, "log_format");
        // The effect is the one that the page says.
        let row = |name: &str| page.lines().find(|row| row.starts_with(&format!("| `${name}` |")));
        let starts = (0..name.len()).rev().filter(|end| name[..*end].ends_with('_'));
        let mut rows = starts.map(|end| format!("{}NAME", &name[..end]));
        let own = row(name).or_else(|| rows.find_map(|name| row(&name)));
        let own = own.unwrap_or_else(|| panic!("{name} is not in the page"));
        let is_in = |(word, reason): (&str, &str)| {
            let shown = if word == "refused" { "refused" } else { "taken" };
            assert!(shown == "taken" || reason.contains(name), "{line}: {reason}");
            assert!(!reason.contains("Weir has no variable"), "{line}: {reason}");
            shown == "taken"
        };
        let found = (is_in(in_texts), is_in(in_lines));
        // These have a value where a listener expects no header of the PROXY protocol.
        let is_empty = name.starts_with("proxy_protocol_") && !name.contains("tlv");
        let expected = match () {
            () if own.contains("| converted |") || is_empty => (true, true),
            // In `stream` they are known as the connection goes on.
            () if own.contains("| in logs |") => (part == "stream", true),
            () => (false, false),
        };
        assert_eq!(found, expected, "{line}: {in_texts:?} {in_lines:?}");
    }
    let made_up = server("location / { return 200 $made_up; }");
    let (word, reason) = outcome(&made_up.coverage, "return");
    assert!(word == "refused" && reason.contains("Weir has no variable `$made_up`"));
}
