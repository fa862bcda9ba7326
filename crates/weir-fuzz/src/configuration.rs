//! Configuration texts, native and JSON. Every diagnostic points into the text and can be rendered,
//! their number is bounded by the length of the text, and an accepted configuration survives the
//! conversion to JSON and back. A text that can be formatted means the same afterwards.

use weir_config::{Config, Diagnostics, formatted, from_json, parse_str, to_json};

pub(crate) fn target(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    // Includes read files, and a fuzzer must not read the file system.
    if text.contains("include") {
        return;
    }
    match parse_str("weir.conf", text) {
        Err(diagnostics) => {
            assert!(!diagnostics.is_empty(), "refused without a reason");
            check_diagnostics(&diagnostics, text);
        }
        Ok(checked) => {
            check_diagnostics(&checked.warnings, text);
            let json = to_json(&checked.config);
            let again = from_json(&json);
            let again =
                again.unwrap_or_else(|error| panic!("its JSON form is refused:\n{error}\n{json}"));
            assert_eq!(again, checked.config, "another configuration came back from JSON");
            assert_eq!(to_json(&again), json);
            if !text.trim_start_matches('\u{feff}').trim_start().starts_with('{') {
                check_format(text, &checked.config);
            }
        }
    }
}

/// The formatted text means the same and stays as it is when it is formatted again.
fn check_format(text: &str, config: &Config) {
    let once = formatted("weir.conf", text).expect("what is accepted can be formatted");
    let after = parse_str("weir.conf", &once).expect("it is refused when it is formatted");
    assert_eq!(after.config, *config, "another configuration came from formatting");
    assert_eq!(formatted("weir.conf", &once).expect("formatted once"), once);
}

fn check_diagnostics(diagnostics: &Diagnostics, text: &str) {
    assert!(diagnostics.count() <= 8 + 4 * text.len(), "{} complaints", diagnostics.count());
    for diagnostic in diagnostics.iter() {
        assert!(!diagnostic.message.is_empty());
        let related = diagnostic.related.as_ref().map(|(span, _)| *span);
        for span in [diagnostic.span, related].into_iter().flatten() {
            assert!(
                span.start <= span.end && span.end <= text.len(),
                "{span:?} is not in a text of {} bytes: {}",
                text.len(),
                diagnostic.message
            );
            let position = diagnostics.sources().position(span);
            assert!(position.line <= 1 + text.matches('\n').count() && position.column > 0);
        }
    }
    assert_eq!(diagnostics.render(false).is_empty(), diagnostics.is_empty());
}
