//! The requirements of a test on the machine. A test that does not find it passes with a line on
//! the standard error of the test program, which is not captured; with the variable set to
//! `required` it fails.

use std::io::Write as _;

/// Says that a test, or a part of one, is not run. Fails the test if `variable` is `required`.
pub(crate) fn not_run(variable: &str, reason: &str) {
    let required = std::env::var_os(variable).is_some_and(|value| value == "required");
    assert!(!required, "{reason}");
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    // `eprintln!` would be captured.
    let _ = writeln!(std::io::stderr(), "NOT RUN: {test}: {reason} ({variable}=required fails)");
}

/// Returns true if the test runs as root; otherwise it says that the test is not run.
pub(crate) fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        not_run("WEIR_ROOT", "only root can change users and act as others");
    }
    root
}
