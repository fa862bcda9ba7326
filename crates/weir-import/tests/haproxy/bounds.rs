//! Long files whose parts multiply: their result has a bound, what exceeds it is
//! refused by name, and the processor time grows no faster than the file does.

use std::fmt::Write as _;

use weir_import::{HaproxyVersion, Imported, haproxy_bytes};

use super::{config, outcome, text};

/// The most bytes of a result, printed in Weir's syntax.
const MOST_PRINTED: usize = 64 << 20;

/// Returns the processor time of this thread in nanoseconds.
fn processor_time() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

/// Imports a file with this many lines of a shape; returns the time that it took.
fn time_of(shape: &dyn Fn(usize) -> String, lines: usize) -> (u64, Imported) {
    let text = shape(lines);
    let before = processor_time();
    let imported = haproxy_bytes("/etc/haproxy.cfg", text.as_bytes(), HaproxyVersion::LATEST);
    let imported = imported.unwrap_or_else(|errors| panic!("{}", errors.render(false)));
    (processor_time() - before, imported)
}

/// Checks that a shape of file is imported in a time that grows like its length: work that grows
/// with the square would take sixteen times as long for four times as many lines.
fn check(name: &str, shape: impl Fn(usize) -> String) {
    let short = time_of(&shape, 10_000).0.min(time_of(&shape, 10_000).0);
    let (mut long, imported) = time_of(&shape, 40_000);
    if long >= 9 * short {
        long = long.min(time_of(&shape, 40_000).0);
    }
    assert!(long < 9 * short, "{name}: {short} ns, four times as many lines {long} ns");
    let printed = imported.native().len();
    assert!(printed < MOST_PRINTED, "{name}: {printed} bytes");
}

/// Writes a line for each number.
fn each(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).fold(String::new(), |mut out, number| {
        let _ = writeln!(out, " {}", line(number));
        out
    })
}

const FRONTEND: &str = "frontend f\n mode http\n bind 127.0.0.1:1\n";
const BACKEND: &str = "backend b\n mode http\n server s 127.0.0.1:2\n";

#[test]
fn a_long_list_in_many_rules_is_bounded() {
    check("a list in each rule", |lines| {
        let list = each(lines / 400, |n| {
            format!(
                "acl long path_beg {}",
                (0..200).fold(String::new(), |mut out, m| {
                    let _ = write!(out, "/p{n}-{m} ");
                    out
                })
            )
        });
        let rules = each(lines, |n| format!("use_backend b if long {{ path_end /{n} }}"));
        format!("{FRONTEND}{list}{rules}{BACKEND}")
    });
    check("a list of headers in each rule", |lines| {
        let list = each(lines / 2, |n| format!("acl long hdr(x-a) v{n}"));
        let rules = each(lines / 2, |n| format!("use_backend b if long {{ path_end /{n} }}"));
        format!("{FRONTEND}{list}{rules}{BACKEND}")
    });
}

#[test]
fn what_is_allowed_before_other_rules_is_bounded() {
    check("allow and deny", |lines| {
        let allowed = each(lines / 2, |n| format!("http-request allow if {{ path /a{n} }}"));
        let denied = each(lines / 2, |n| format!("http-request deny if {{ path /d{n} }}"));
        format!("{FRONTEND}{allowed}{denied} default_backend b\n{BACKEND}")
    });
    check("accept and reject", |lines| {
        let net = |n: usize| format!("10.{}.{}.0/24", n / 250, n % 250);
        let accepted =
            each(lines / 2, |n| format!("tcp-request connection accept if {{ src {} }}", net(n)));
        let rejected =
            each(lines / 2, |n| format!("tcp-request connection reject if {{ src {} }}", net(n)));
        format!("{FRONTEND}{accepted}{rejected} default_backend b\n{BACKEND}")
    });
    // A rule that keeps clients away is not lost with its condition.
    let allowed = each(10_000, |n| format!("http-request allow if {{ path /a{n} }}"));
    let imported =
        text(&format!("{FRONTEND}{allowed} http-request deny\n default_backend b\n{BACKEND}"));
    let (word, reason) = outcome(&imported.coverage, "http-request deny");
    assert!(word == "refused" && reason.contains("403 to all"), "{reason}");
    assert_eq!(config(imported).listeners[0].default.len(), 1);
}

#[test]
fn changes_of_all_responses_under_many_conditions_are_refused() {
    let rules = |count: usize| {
        each(count, |n| {
            format!("http-after-response set-header X-{n} 1 if {{ src 10.0.{n}.0/24 }}")
        })
    };
    let config_of =
        |count| config(text(&format!("{FRONTEND}{} default_backend b\n{BACKEND}", rules(count))));
    assert_eq!(config_of(6).listeners[0].default.len(), 64);
    let imported = text(&format!("{FRONTEND}{} default_backend b\n{BACKEND}", rules(8)));
    let refused = imported.coverage.refused().count();
    assert_eq!(refused, 8, "{}", imported.coverage.text());
    let (_, reason) = outcome(&imported.coverage, "http-after-response set-header X-7");
    assert!(reason.contains("more than 6 changes"), "{reason}");
    check("changes of all responses", |lines| {
        let changes = rules(6);
        let routes = each(lines, |n| format!("use_backend b if {{ path /{n} }}"));
        format!("{FRONTEND}{changes}{routes}{BACKEND}")
    });
}

#[test]
fn what_many_sections_inherit_is_bounded() {
    let sections = |count: usize| {
        (0..count).fold(String::new(), |mut out, n| {
            let _ = write!(out, "frontend f{n}\n bind 127.0.0.1:1\n default_backend b\n");
            out
        })
    };
    for line in ["log 127.0.0.1:514 local0", "errorfile 503 /nonexistent", "option httplog"] {
        check(line, |lines| {
            let inherited = each(lines / 2, |_| line.to_owned());
            format!("defaults\n mode http\n{inherited}{}{BACKEND}", sections(lines / 6))
        });
    }
    // Ordinary files are far below the bound.
    let imported = text(&format!(
        "defaults\n mode http\n{}{}{BACKEND}",
        each(30, |n| format!("errorfile {} /nonexistent", 400 + n)),
        sections(5_000)
    ));
    assert_eq!(imported.coverage.refused().count(), 0);
}

#[test]
fn pages_by_the_names_of_their_groups_are_found_at_once() {
    check("groups of pages", |lines| {
        let groups = (0..lines / 3).fold(String::new(), |mut out, n| {
            let _ = write!(out, "http-errors e{n}\n errorfile 503 /nonexistent\n");
            out
        });
        let used = each(lines / 3, |n| format!("errorfiles e{n}"));
        format!("{groups}{FRONTEND} default_backend b\n{used}{BACKEND}")
    });
}

#[test]
fn many_rules_of_a_backend_that_many_lines_name_are_bounded() {
    check("rules of a backend", |lines| {
        let used = each(lines / 2, |n| format!("use_backend b if {{ path /{n} }}"));
        let rules = each(lines / 2, |n| format!("http-request set-header X-{n} 1"));
        format!("{FRONTEND}{used}{BACKEND}{rules}")
    });
}

#[test]
fn names_of_pools_that_become_the_same_are_numbered_at_once() {
    check("names of pools", |lines| {
        // All of them become `x---…`.
        let name = |mut n: usize| {
            let marks = ['!', '$', '%', '&', '+', '=', '~', '^'];
            let mut name = String::from("x");
            for _ in 0..6 {
                name.push(marks[n % 8]);
                n /= 8;
            }
            name
        };
        let used = each(lines / 4, |n| format!("use_backend {} if {{ path /{n} }}", name(n)));
        let backends = (0..lines / 4).fold(String::new(), |mut out, n| {
            let _ = write!(out, "backend {}\n mode http\n server s 127.0.0.1:2\n", name(n));
            out
        });
        format!("{FRONTEND}{used}{backends}")
    });
}

#[test]
fn addresses_with_options_of_their_own_are_grouped_at_once() {
    check("groups of addresses", |lines| {
        let binds = each(lines, |n| format!("bind 127.0.0.1:{} maxconn {}", n % 60_000 + 1, n + 1));
        format!("frontend f\n mode http\n{binds} default_backend b\n{BACKEND}")
    });
}

#[test]
fn removals_of_headers_by_patterns_are_bounded() {
    check("headers set and removed by pattern", |lines| {
        let set = each(lines / 2, |n| format!("http-request set-header x-a{n} v"));
        let removed = each(lines / 2, |n| format!("http-request del-header zz{} -m beg", n % 60));
        format!("{FRONTEND}{set}{removed} default_backend b\n{BACKEND}")
    });
}

#[test]
fn texts_that_read_the_one_before_many_times_are_bounded() {
    let chain = |times: usize, rules: &dyn Fn(usize, &str) -> String| {
        let rules = each(4, |n| rules(n, &format!("%[var(txn.v{n})]").repeat(times)));
        text(&format!(
            "{FRONTEND} http-request set-var(txn.v0) str({})\n{rules} default_backend b\n{BACKEND}",
            "x".repeat(100)
        ))
    };
    let set = |n: usize, texts: &str| format!("http-request set-var-fmt(txn.v{}) {texts}", n + 1);
    let long = chain(20, &set);
    let (word, reason) = outcome(&long.coverage, "http-request set-var-fmt(txn.v2)");
    assert!(word == "refused" && reason.contains("more than 8192 bytes"), "{reason}");
    let short = chain(2, &set);
    assert!(short.coverage.refused().next().is_none(), "{}", short.coverage.text());
    // A header that is set to itself, too.
    let own = each(20, |_| "http-request set-header X-A \"%[hdr(x-a)]%[hdr(x-a)]\"".to_owned());
    let imported = text(&format!(
        "{FRONTEND} http-request set-header X-A {}\n{own} default_backend b\n{BACKEND}",
        "x".repeat(1000)
    ));
    let reasons: Vec<_> = imported.coverage.refused().map(|entry| entry.outcome.reason()).collect();
    assert!(reasons.iter().any(|reason| reason.contains("more than 8192 bytes")), "{reasons:?}");
    // So are converters that join texts.
    let joins = ",concat(,txn.v0,)".repeat(10);
    let imported = text(&format!(
        "{FRONTEND} http-request set-var(txn.v0) str({})\n http-request set-var(txn.j) str(){joins}\n default_backend b\n{BACKEND}",
        "x".repeat(1000)
    ));
    let (word, reason) = outcome(&imported.coverage, "http-request set-var(txn.j)");
    assert!(word == "refused" && reason.contains("more than 8192 bytes"), "{reason}");
}

#[test]
fn variables_of_the_environment_that_grow_are_bounded() {
    let lines = each(40, |_| "setenv GROWS \"$GROWS$GROWS\"".to_owned());
    let file = format!("global\n setenv GROWS {}\n{lines}{FRONTEND}{BACKEND}", "x".repeat(1000));
    let errors = haproxy_bytes("/etc/haproxy.cfg", file.as_bytes(), HaproxyVersion::LATEST);
    assert!(errors.unwrap_err().render(false).contains("longer than 16777216 bytes"));
}

#[test]
fn the_files_that_rules_send_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page");
    std::fs::write(&page, format!("HTTP/1.0 503 Gone\r\n\r\n{}", "x".repeat(900_000))).unwrap();
    let binds = each(10, |n| format!("bind 127.0.0.1:{}", n + 100));
    for kind in ["errorfile", "content-type text/plain file", "content-type text/plain lf-file"] {
        let send = |count: usize| {
            let rules = each(count, |n| {
                format!(
                    "http-request return status 503 {kind} {} if {{ path /{n} }}",
                    page.display()
                )
            });
            let imported = text(&format!("{FRONTEND}{binds}{rules} default_backend b\n{BACKEND}"));
            (imported.coverage.refused().count(), imported)
        };
        let (refused, imported) = send(1);
        assert_eq!(refused, 0, "{kind}: {}", imported.coverage.text());
        let (refused, imported) = send(200);
        let (_, reason) = outcome(&imported.coverage, "http-request return status 503");
        assert!(refused > 190, "{kind}: {refused}");
        let reasons = imported.coverage.refused().map(|entry| entry.outcome.reason());
        assert!(reasons.into_iter().all(|reason| reason.contains("too large")), "{reason}");
        let printed = imported.native().len();
        assert!(printed < MOST_PRINTED, "{kind}: {printed} bytes");
    }
}
