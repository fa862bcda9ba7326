//! The nginx front end. An nginx file becomes statements with contexts (`statements`), which are
//! converted block by block (`convert` and the modules beside it) by the rules of the table
//! `directives`. Each statement gets an outcome; one that no rule took is refused.

mod accel_redirects;
mod affinity;
mod body_bounds;
mod client_certificates;
mod conditions;
mod continuations;
mod convert;
mod directives;
mod documented_variables;
mod errors;
mod families;
mod file_tests;
mod file_types;
mod files;
mod geo_ranges;
mod grpc;
mod guards;
mod headers;
mod host_groups;
mod host_names;
mod index_takers;
mod internal_redirects;
mod limits;
mod lints;
mod listeners;
mod locations;
mod logs;
mod methods;
mod missing_files;
mod openssl_options;
mod pass_url;
mod place_variables;
mod pools;
mod precedence;
mod query_changes;
mod real_ip;
mod referers;
mod rewriting;
mod route_parts;
mod scope;
mod source_address;
mod state;
mod statements;
mod status_page;
mod stream;
mod stream_targets;
mod targets;
mod text_parts;
mod tls_settings;
mod unclosed;
mod upstream_protocol;
mod upstream_tls;
mod values;
mod variable_values;
mod variables;
mod varying_servers;
mod version;
mod worker_cores;

use weir_config::Diagnostic;
use weir_config::source::{FileId, Sources};
use weir_config::syntax::lexer::Dialect;
use weir_config::syntax::tree::{self, Directive};

use crate::{Coverage, Language};

pub use directives::reference;
pub(crate) use lints::{LINTS, WORDS};
pub use version::NginxVersion;

/// The most bytes of a text that are looked at to find its language.
const RECOGNISED_BYTES: usize = 64 * 1024;

/// The bytes of files for which a second thread is worth its start.
const LONG_BYTES: usize = 256 * 1024;

/// Reads the files and converts them with the defaults of this version, or returns the errors of
/// their syntax.
pub(crate) fn import(
    sources: &mut Sources,
    file: FileId,
    version: NginxVersion,
) -> Result<(Vec<Directive>, Coverage, Vec<Diagnostic>), Vec<Diagnostic>> {
    let (tree, mut errors) = tree::parse_with_includes(sources, file, Dialect::Nginx);
    unclosed::propose(&tree, sources, &mut errors);
    statements::faults(&tree, &mut errors);
    if !errors.is_empty() {
        return Err(errors);
    }
    let convert = || {
        let statements = statements::Statements::of(&tree);
        convert::convert(sources, file, &statements, version)
    };
    let is_long = sources.files().iter().map(|file| file.text.len()).sum::<usize>() > LONG_BYTES;
    let ((directives, coverage), lints) = if is_long {
        // Each needs the tree alone.
        std::thread::scope(|scope| {
            let beside = std::thread::Builder::new().spawn_scoped(scope, || lints::find(&tree));
            let converted = convert();
            let lints = match beside {
                Ok(beside) => {
                    beside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                }
                // The system gives no thread.
                Err(_) => lints::find(&tree),
            };
            (converted, lints)
        })
    } else {
        (convert(), lints::find(&tree))
    };
    Ok((directives, coverage, lints))
}

/// Returns the language of a text by its first directives.
pub(crate) fn recognise(text: &str) -> Language {
    let mut end = text.len().min(RECOGNISED_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let text = &text[..end];
    if text.trim_start_matches('\u{feff}').trim_start().starts_with('{') {
        return Language::Native;
    }
    let mut sources = Sources::default();
    let file = sources.add("", text);
    let (tree, _) = tree::parse(&sources, file, Dialect::Nginx);
    let is_nginx = tree.iter().any(|directive| {
        let name = directive.name.text.as_str();
        let block = directive.block.is_some();
        match name {
            "http" | "events" | "server" | "upstream" | "stream" | "mail" => block,
            "worker_processes" | "worker_rlimit_nofile" | "load_module" => !block,
            _ => false,
        }
    });
    if is_nginx { Language::Nginx } else { Language::Native }
}
