//! Files on disk: atomic replacement, opening without following links, and reading the files that a
//! configuration names. It knows no contents.

pub(crate) mod atomic_write;
pub(crate) mod checked_open;
pub(crate) mod files_read;
pub(crate) mod switches;

/// Returns true if a test runs as root. Otherwise it says that the test is not run, in a line that
/// is not captured, or fails it if `WEIR_ROOT` is `required`.
#[cfg(test)]
pub(crate) fn runs_as_root(reason: &str) -> bool {
    use std::io::Write as _;

    let root = rustix::process::geteuid().is_root();
    let required = std::env::var_os("WEIR_ROOT").is_some_and(|value| value == "required");
    assert!(root || !required, "{reason}");
    if !root {
        let thread = std::thread::current();
        let test = thread.name().unwrap_or("a test");
        let _ = writeln!(std::io::stderr(), "NOT RUN: {test}: {reason} (WEIR_ROOT=required fails)");
    }
    root
}
