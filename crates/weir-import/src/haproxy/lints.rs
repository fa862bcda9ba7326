//! Lints about HAProxy's lines: what a file may say and its author most likely did not mean. They
//! look at the file as written; lints about the conversion are those of `weir-config`, with the
//! words of [`WORDS`].

use std::collections::HashSet;

use weir_config::lints::Lint;
use weir_config::{Diagnostic, ForeignWords};

use super::sections::{LineId, Section, SectionId, Sections};

/// Versions and ciphers that are broken.
const BROKEN_VERSIONS: [&str; 5] = ["SSLv3", "TLSv1.0", "TLSv1.1", "force-tlsv10", "force-tlsv11"];
const BROKEN_CIPHERS: [&str; 8] = ["RC4", "3DES", "DES", "NULL", "aNULL", "eNULL", "MD5", "EXPORT"];
/// Headers of a single connection.
const HOP_BY_HOP: [&str; 6] =
    ["connection", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade"];
/// The lines that close connections of clients.
pub(super) const CLOSE_CLIENTS: &str = "write `option httpclose` in the frontend, which closes connections of clients after a response";
/// Actions that end a request.
const ENDINGS: [&str; 6] = ["deny", "return", "redirect", "tarpit", "reject", "silent-drop"];

/// The lints of this file, besides those that `weir-config` has for every syntax.
pub(crate) const LINTS: &[Lint] = &[
    Lint {
        code: "unused-acl",
        what: "an `acl` that no rule of its section uses (haproxy)",
        why: "It has no effect. Most often its name is spelt otherwise where it should be used, or the rule \
              that used it is gone.",
        example: "frontend web\n    mode http\n    bind 127.0.0.1:80\n    acl is_api path_beg /api\n    default_backend app\nbackend app\n    mode http\n    server a 127.0.0.1:3000\n",
        better: "frontend web\n    mode http\n    bind 127.0.0.1:80\n    acl is_api path_beg /api\n    http-request deny if is_api\n    default_backend app\nbackend app\n    mode http\n    server a 127.0.0.1:3000\n",
    },
    Lint {
        code: "unreachable-rule",
        what: "a rule behind one that takes every request (haproxy)",
        why: "`use_backend` lines are tried from top to bottom, and the first one whose condition holds decides; one \
              without a condition decides always. In the same way no `http-request` rule is reached behind a \
              `deny`, `return` or `redirect` without a condition.",
        example: "frontend web\n    mode http\n    bind 127.0.0.1:80\n    use_backend app\n    use_backend other if { path_beg /other }\nbackend app\n    mode http\n    server a 127.0.0.1:3000\nbackend other\n    mode http\n    server o 127.0.0.1:3001\n",
        better: "frontend web\n    mode http\n    bind 127.0.0.1:80\n    use_backend other if { path_beg /other }\n    use_backend app\nbackend app\n    mode http\n    server a 127.0.0.1:3000\nbackend other\n    mode http\n    server o 127.0.0.1:3001\n",
    },
    Lint {
        code: "rule-order",
        what: "`http-request` rules behind `use_backend` lines (haproxy)",
        why: "HAProxy runs all `http-request` rules before it picks a backend, wherever they stand, and warns of \
              them. A reader takes the order of the lines for that of their work.",
        example: "frontend web\n    mode http\n    bind 127.0.0.1:80\n    use_backend app if { path_beg /app }\n    http-request deny if { path_beg /private }\nbackend app\n    mode http\n    server a 127.0.0.1:3000\n",
        better: "frontend web\n    mode http\n    bind 127.0.0.1:80\n    http-request deny if { path_beg /private }\n    use_backend app if { path_beg /app }\nbackend app\n    mode http\n    server a 127.0.0.1:3000\n",
    },
    Lint {
        code: "maxconn-above-global",
        what: "a `maxconn` of a frontend that the process never reaches (haproxy)",
        why: "The `maxconn` of `global` holds for all frontends together, so that a higher one has no effect.",
        example: "global\n    maxconn 1000\nlisten web\n    mode http\n    bind 127.0.0.1:80\n    maxconn 5000\n    server a 127.0.0.1:3000\n",
        better: "global\n    maxconn 5000\nlisten web\n    mode http\n    bind 127.0.0.1:80\n    maxconn 5000\n    server a 127.0.0.1:3000\n",
    },
];

/// The words of the lints about the conversion for files of HAProxy.
pub(crate) const WORDS: &[ForeignWords] = &[
    ForeignWords {
        code: "missing-timeout",
        words: &[
            ("`connect=` is so long", "`timeout connect` is missing or so long"),
            ("`response=` is so long", "`timeout server` is missing or so long"),
            (
                "`send=` is so long that a silent server",
                "`timeout server` is missing or so long that a silent server",
            ),
            ("`handshake=` is so long", "`timeout client` is missing or so long"),
            ("`head=` is so long", "`timeout http-request` is missing or so long"),
            ("`body=` is so long", "`timeout client` is missing or so long"),
            ("`send=` is so long", "`timeout client` is missing or so long"),
        ],
        help: "write `timeout connect`, `timeout client` and `timeout server` into `defaults`, where they hold for all sections",
    },
    ForeignWords {
        code: "max-conn-without-queue",
        words: &[("`max_conn=`", "`maxconn`")],
        help: "let them wait: `timeout queue 5s`",
    },
    ForeignWords {
        code: "no-health-check",
        words: &[],
        help: "write `check` behind each `server`, or once in `default-server`, and `option httpchk` for a check by HTTP",
    },
    ForeignWords {
        code: "same-server-twice",
        words: &[("the pool", "the backend")],
        help: "give the first one a higher `weight` instead",
    },
    ForeignWords {
        code: "no-keepalive",
        words: &[],
        help: "remove `option http-server-close` and `option httpclose`, so that connections to servers are used again",
    },
    ForeignWords {
        code: "few-requests-per-connection",
        words: &[],
        help: "remove `option httpclose`, or raise `max-reuse` of the servers",
    },
    ForeignWords { code: "short-keepalive", words: &[], help: "raise `timeout http-keep-alive`" },
    ForeignWords {
        code: "weak-tls",
        words: &[],
        help: "remove `ssl-max-ver TLSv1.2`, `force-tlsv12` or `no-tlsv13`",
    },
    ForeignWords {
        code: "unverified-server",
        words: &[],
        help: "write `verify required ca-file FILE` behind the `server`",
    },
    ForeignWords {
        code: "retry-repeats-effects",
        words: &[],
        help: "leave `empty-response`, `response-timeout` and the statuses out of `retry-on`, or write `http-request disable-l7-retry if METH_POST`",
    },
    ForeignWords {
        code: "retry-without-budget",
        words: &[],
        help: "lower `retries`, or leave `response-timeout` and the statuses out of `retry-on`",
    },
    ForeignWords {
        code: "buffer-holds-streams",
        words: &[],
        help: "use a backend without `option http-buffer-request` for streams",
    },
    ForeignWords {
        code: "unreachable-route",
        words: &[("this route", "this rule")],
        help: "put the narrower condition first, or remove it",
    },
    ForeignWords {
        code: "impossible-condition",
        words: &[("this route", "this rule")],
        help: "its ACLs exclude each other: write `or` between them, or remove one",
    },
    ForeignWords {
        code: "redirect-loop",
        words: &[],
        help: "add `if !{ ssl_fc }` to the redirect",
    },
    ForeignWords {
        code: "hop-by-hop-header",
        words: &[],
        help: "remove the line, or use a header of your own",
    },
];

/// Returns what the lints find in a file.
pub(super) fn find(sections: &Sections) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let most = sections
        .all()
        .find(|(_, section)| section.kind == "global")
        .and_then(|(_, section)| last_maxconn(sections, section));
    for (id, section) in sections.all() {
        match section.kind.as_str() {
            "frontend" | "listen" | "backend" => {
                unused_acls(sections, id, section, &mut found);
                unreachable_rules(sections, section, &mut found);
                above_global(sections, section, most, &mut found);
            }
            _ => {}
        }
        for &line in &section.lines {
            found.extend(weak_tls(sections, line));
            found.extend(hop_by_hop(sections, line));
        }
    }
    found
}

fn warning(
    sections: &Sections,
    line: LineId,
    code: &'static str,
    message: impl Into<String>,
    help: &str,
) -> Diagnostic {
    Diagnostic::warning(sections.span(line), message).code(code).help(help)
}

fn unused_acls(sections: &Sections, id: SectionId, section: &Section, found: &mut Vec<Diagnostic>) {
    let own = sections.own(id, "acl");
    if own.is_empty() {
        return;
    }
    let mut used: HashSet<&str> = HashSet::new();
    for &line in section.lines.iter().filter(|line| sections.keyword(**line) != "acl") {
        used.extend(sections.words(line).iter().map(|word| word.text.trim_start_matches('!')));
    }
    let mut told = HashSet::new();
    for &line in own {
        let name = sections.word(line, 0);
        if !used.contains(name) && told.insert(name) {
            let message = format!("no rule of this section uses the ACL `{name}`");
            let help = "remove it, or name it behind the `if` of a rule";
            found.push(warning(sections, line, "unused-acl", message, help));
        }
    }
}

/// Returns true if a line has a condition.
fn is_conditional(sections: &Sections, line: LineId) -> bool {
    sections.words(line).iter().any(|word| matches!(word.text.as_str(), "if" | "unless"))
}

fn unreachable_rules(sections: &Sections, section: &Section, found: &mut Vec<Diagnostic>) {
    let mut ended: Option<LineId> = None;
    let mut chosen: Option<LineId> = None;
    let mut picks: Option<LineId> = None;
    for &line in &section.lines {
        let (keyword, first) = (sections.keyword(line), sections.word(line, 0));
        let before = match keyword {
            "http-request" => &mut ended,
            "use_backend" => &mut chosen,
            _ => continue,
        };
        if let Some(before) = *before {
            let message = "this rule is never reached: one without a condition stands before it";
            let help = "put the rule without a condition last";
            let lint = warning(sections, line, "unreachable-rule", message, help);
            found.push(lint.related(sections.span(before), "this takes all requests"));
            continue;
        }
        let ends = keyword == "use_backend" || ENDINGS.contains(&first);
        if ends && !is_conditional(sections, line) && !first.contains('%') {
            *before = Some(line);
        }
        match (keyword, picks) {
            ("use_backend", None) => picks = Some(line),
            ("http-request", Some(pick)) => {
                let message =
                    "this rule runs before a backend is picked, although it stands behind";
                let help = "move it before the first `use_backend`";
                let lint = warning(sections, line, "rule-order", message, help);
                found.push(lint.related(sections.span(pick), "this comes after all rules"));
            }
            _ => {}
        }
    }
}

/// Returns the last `maxconn` of a section.
fn last_maxconn(sections: &Sections, section: &Section) -> Option<LineId> {
    let mut lines = section.lines.iter().copied();
    lines.rfind(|line| sections.keyword(*line) == "maxconn")
}

fn above_global(
    sections: &Sections,
    section: &Section,
    most: Option<LineId>,
    found: &mut Vec<Diagnostic>,
) {
    let number = |line: LineId| super::values::number(sections.word(line, 0));
    let Some(most) = most else { return };
    let Some(own) = last_maxconn(sections, section) else { return };
    if let (Some(most_number), Some(own_number)) = (number(most), number(own))
        && own_number > most_number
    {
        let message =
            format!("the process takes {most_number} connections, and never {own_number}");
        let help = "raise the `maxconn` of `global`, or lower this one";
        let lint = warning(sections, own, "maxconn-above-global", message, help);
        found.push(lint.related(sections.span(most), "the limit of the process"));
    }
}

/// Finds rules that set a header of a single connection.
fn hop_by_hop(sections: &Sections, line: LineId) -> Option<Diagnostic> {
    let keyword = sections.keyword(line);
    let of_response = matches!(keyword, "http-response" | "http-after-response");
    let (action, name) = (sections.word(line, 0), sections.word(line, 1));
    let sets =
        matches!(action, "set-header" | "add-header") && (of_response || keyword == "http-request");
    if !sets || !HOP_BY_HOP.iter().any(|own| name.eq_ignore_ascii_case(own)) {
        return None;
    }
    let closes = name.eq_ignore_ascii_case("connection")
        && sections.word(line, 2).eq_ignore_ascii_case("close");
    let message = format!("`{name}` belongs to a single connection (RFC 9110 section 7.6.1)");
    let help = match (closes, of_response) {
        (true, true) => CLOSE_CLIENTS,
        (true, false) => {
            "write `option http-server-close` in the backend, which closes connections to servers"
        }
        (false, _) => "remove the line: the proxy writes it where it is needed",
    };
    Some(warning(sections, line, "hop-by-hop-header", message, help))
}

fn weak_tls(sections: &Sections, line: LineId) -> Option<Diagnostic> {
    let keyword = sections.keyword(line);
    let words = || sections.words(line).iter().map(|word| word.text.as_str());
    let is_broken = |suite: &str| {
        !suite.starts_with(['!', '-'])
            && suite.split(['-', '+']).any(|part| BROKEN_CIPHERS.contains(&part))
    };
    let broken: Vec<&str> = match keyword {
        "bind"
        | "server"
        | "default-server"
        | "ssl-default-bind-options"
        | "ssl-default-server-options" => {
            let versions = words().filter(|word| BROKEN_VERSIONS.contains(word));
            let ciphers = words().skip_while(|word| *word != "ciphers").skip(1).take(1);
            let ciphers = ciphers.flat_map(|list| list.split(':')).filter(|one| is_broken(one));
            versions.chain(ciphers).collect()
        }
        "ssl-default-bind-ciphers" | "ssl-default-server-ciphers" => {
            words().flat_map(|word| word.split(':')).filter(|one| is_broken(one)).collect()
        }
        _ => return None,
    };
    (!broken.is_empty()).then(|| {
        let message = format!("{} is broken, and Weir does not have it", broken.join(" "));
        let help = "remove it; TLS 1.2 and 1.3 are what clients use";
        warning(sections, line, "weak-tls", message, help)
    })
}
