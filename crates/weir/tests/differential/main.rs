//! The real nginx and haproxy and Weir run the same file, get the same requests and must agree on
//! the status, the headers, the body and what the origins received. The cases are files in
//! `cases/`; `cases/README.md` describes them.
//!
//! `WEIR_CASE=TEXT` runs the cases whose names contain the text, `WEIR_SHOW=1` prints what the
//! other program does, and `WEIR_BLESS=1` writes the refused directives of today into the cases and
//! the numbers into `docs/status.md`.

mod case;
mod checked;
mod client;
mod compare;
mod counts;
mod generated;
mod origin;
mod programs;
mod run;
mod stage;
#[expect(dead_code, reason = "other end-to-end tests use the rest")]
#[path = "../e2e/support/mod.rs"]
mod support;

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Mutex;

use case::{Case, read_folder};
use programs::Reference;
use run::{Outcome, run_case};

/// The number of cases at a time. They wait for programs most of the time.
const THREADS: usize = 4;

#[test]
fn nginx_and_weir_agree() {
    agree(Reference::Nginx);
}

#[test]
fn haproxy_and_weir_agree() {
    agree(Reference::Haproxy);
}

/// Runs all cases of a program.
fn agree(reference: Reference) {
    let cases = run_all(reference);
    if std::env::var_os("WEIR_BLESS").is_some() {
        counts::write(reference, &read_folder(reference.name()));
    } else if std::env::var_os("WEIR_CASE").is_none() {
        counts::check(reference, &cases);
    }
}

/// Runs all cases of a program and returns them.
fn run_all(reference: Reference) -> Vec<Case> {
    let wanted = std::env::var("WEIR_CASE").unwrap_or_default();
    let cases: Vec<Case> = read_folder(reference.name());
    let chosen = cases.iter().filter(|case| case.name.contains(&wanted));
    let queue: Mutex<VecDeque<&Case>> = Mutex::new(chosen.collect());
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let Some(case) = queue.lock().unwrap().pop_front() else { break };
                    let outcome = guarded(|| run_case(case, reference));
                    results.lock().unwrap().push((case, outcome));
                }
            });
        }
    });
    let results = results.into_inner().unwrap();
    let mut failures: Vec<String> = results
        .iter()
        .filter_map(|(case, outcome)| match outcome {
            Outcome::Failed(why) => Some(format!("{} ({}):\n{why}", case.name, place(case))),
            _ => None,
        })
        .collect();
    failures.sort();
    if std::env::var_os("WEIR_BLESS").is_some() {
        counts::write_refused(&results);
    }
    assert!(failures.is_empty(), "{} cases fail:\n{}", failures.len(), failures.join("\n"));
    cases
}

fn place(case: &Case) -> String {
    let file = case.file.file_name().unwrap().to_str().unwrap();
    format!("{file}:{}", case.line + 1)
}

/// Runs a case, in which a panic is a failure of that case only.
fn guarded(run: impl FnOnce() -> Outcome) -> Outcome {
    let outcome = std::panic::catch_unwind(AssertUnwindSafe(run));
    outcome.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Outcome::Failed(format!("  {}\n", text.unwrap_or_default()))
    })
}
