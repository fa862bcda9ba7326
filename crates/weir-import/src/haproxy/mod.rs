//! The HAProxy front end. The lines of a file (`lexer`, `preprocess`) belong to sections with
//! `defaults` (`sections`), which are converted (`convert` and the modules beside it) by the rules
//! of the table `keywords`. Each line gets an outcome; one that no rule took is refused.

mod acl;
mod actions;
mod affinity;
mod agents;
mod asked_names;
mod backends;
mod check_steps;
mod checks;
mod client_certificates;
mod client_source;
mod condition_texts;
mod conditions;
mod connection_rules;
mod convert;
mod definitions;
mod documented_samples;
mod empty_values;
mod expressions;
mod format;
mod format_fields;
mod forwarded;
mod frontends;
mod header_actions;
mod http_checks;
mod keywords;
mod lexer;
mod lints;
mod logs;
mod maps;
mod own_responses;
mod page_file;
mod pages;
mod patterns;
mod pool_counts;
mod preprocess;
mod process;
mod responses;
mod rewrites;
mod route_timeouts;
mod rule_effect;
mod rules;
mod sample;
mod scope;
mod sections;
mod send_proxy;
mod server_names;
mod server_versions;
mod servers;
mod source_address;
mod statistics;
mod statistics_route;
mod tcp;
mod tls_defaults;
mod tls_protocol;
mod tracking;
mod unique_id;
mod use_server;
mod userlists;
mod uuid_uses;
mod values;
mod variable_actions;
mod variable_tests;
mod version;
mod worker_cores;

use std::path::Path;

use weir_config::Diagnostic;
use weir_config::source::{FileId, MOST_FILE_BYTES, Sources, read_bounded, system_message};
use weir_config::syntax::lexer::Environment;
use weir_config::syntax::tree::Directive;

use crate::Coverage;

pub use keywords::reference;
pub(crate) use lints::{LINTS, WORDS};
pub use version::HaproxyVersion;

/// The most bytes of a file that a line names.
const MOST_NAMED_BYTES: u64 = 1 << 20;
/// The most lines of a text that are looked at to find its language.
const RECOGNISED_LINES: usize = 2_000;

/// Reads a file. Bytes that are not UTF-8 are allowed in comments.
pub(crate) fn read(path: &Path, sources: &mut Sources) -> Result<FileId, String> {
    let fail = |error| format!("cannot read {}: {}", path.display(), system_message(&error));
    let bytes = read_bounded(path, MOST_FILE_BYTES).map_err(fail)?;
    Ok(sources.add(path.display().to_string(), text_of(&bytes)))
}

/// Reads a text file that a line names.
fn named_text(path: &str) -> Result<String, String> {
    let bytes = read_bounded(Path::new(path), MOST_NAMED_BYTES)
        .map_err(|error| format!("cannot read {path}: {}", system_message(&error)))?;
    String::from_utf8(bytes).map_err(|_| format!("{path} is not UTF-8 text"))
}

/// Returns bytes as text, in which each byte that is not UTF-8 is one character.
pub(crate) fn text_of(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| lexer::INVALID));
    }
    text
}

/// Converts a file, or returns the errors of its syntax.
pub(crate) fn import(
    sources: &Sources,
    file: FileId,
    environment: Environment<'_>,
    version: HaproxyVersion,
) -> Result<(Vec<Directive>, Coverage, Vec<Diagnostic>), Vec<Diagnostic>> {
    let (lines, mut errors) = preprocess::lines(sources, file, environment, version);
    match sections::Sections::of(lines) {
        Ok(sections) if errors.is_empty() => {
            let (directives, coverage) = convert::convert(sources, file, &sections, version);
            Ok((directives, coverage, lints::find(&sections)))
        }
        Ok(_) => Err(errors),
        Err(more) => {
            errors.extend(more);
            Err(errors)
        }
    }
}

/// Returns true if a text has a line that begins a section of HAProxy, or a keyword that no other
/// language has.
pub(crate) fn recognise(text: &str) -> bool {
    let mut known = 0;
    for line in text.lines().take(RECOGNISED_LINES) {
        let line = line.trim_start_matches('\u{feff}').trim();
        if line.starts_with('#') || line.is_empty() {
            continue;
        }
        if line.ends_with([';', '{', '}']) {
            return false;
        }
        let mut words = line.split_whitespace();
        match (words.next().unwrap_or_default(), words.next(), words.next()) {
            ("global" | "defaults", None, _) => return true,
            ("defaults" | "frontend" | "backend" | "listen", Some(name), following)
                if !name.contains("->")
                    && following.is_none_or(|word| word == "from" || word.starts_with('#')) =>
            {
                return true;
            }
            ("global", Some(comment), _) if comment.starts_with('#') => return true,
            (
                "nbproc" | "nbthread" | "cpu-map" | "default_backend" | "ssl-server-verify"
                | "maxconn",
                Some(_),
                _,
            ) => known += 1,
            _ => {}
        }
        // A file whose section lines are lost.
        if known >= 2 {
            return true;
        }
    }
    false
}
