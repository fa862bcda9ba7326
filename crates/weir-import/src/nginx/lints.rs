//! Lints about nginx's directives: what an nginx file may say and its author most likely did not
//! mean. They look at the file as written; lints about the conversion are those of `weir-config`.

use weir_config::lints::Lint;
use weir_config::syntax::tree::Directive;
use weir_config::{Diagnostic, ForeignWords};

/// Protocols and ciphers that are broken.
const BROKEN_PROTOCOLS: [&str; 4] = ["SSLv2", "SSLv3", "TLSv1", "TLSv1.1"];
const BROKEN_CIPHERS: [&str; 8] = ["RC4", "3DES", "DES", "NULL", "aNULL", "eNULL", "MD5", "EXPORT"];
/// Headers that concern one connection, except `Connection` and `Upgrade`.
const HOP_BY_HOP: [&str; 5] =
    ["keep-alive", "te", "trailer", "transfer-encoding", "proxy-connection"];
/// Directives of which the innermost block that has one counts alone.
const REPLACED: [&str; 2] = ["add_header", "proxy_set_header"];

/// The lints of this file, besides those that `weir-config` has for every syntax.
pub(crate) const LINTS: &[Lint] = &[
    Lint {
        code: "proxy-pass-drops-path",
        what: "a `proxy_pass` with a path, which replaces the one of the location (nginx)",
        why: "With a path in `proxy_pass`, be it only `/`, nginx replaces the part of the request's path that \
              the location names. That is often not meant, and where only one of the two ends with `/`, the rest \
              is glued on: `/api/users` becomes `//users` or `/v1users`.",
        example: "events {}\nhttp {\n    server {\n        listen 127.0.0.1:80;\n        location /api {\n            proxy_pass http://127.0.0.1:3000/;\n        }\n    }\n}\n",
        better: "events {}\nhttp {\n    server {\n        listen 127.0.0.1:80;\n        location /api {\n            proxy_pass http://127.0.0.1:3000;\n        }\n    }\n}\n",
    },
    Lint {
        code: "if-file-per-request",
        what: "`if (-f …)`, for which nginx asks the file system about each request",
        why: "A look-up of a file for each request costs time and, on a slow disk, all requests of the worker. Weir \
              looks once a second and lets requests see what it found last. A reload, or an order at run time \
              with `weir ctl`, switches at once.",
        example: "events {}\nhttp {\n    server {\n        listen 127.0.0.1:80;\n        if (-f /srv/maintenance) {\n            return 503;\n        }\n        location / {\n            proxy_pass http://127.0.0.1:3000;\n        }\n    }\n}\n",
        better: "events {}\nhttp {\n    server {\n        listen 127.0.0.1:80;\n        location / {\n            proxy_pass http://127.0.0.1:3000;\n        }\n    }\n}\n",
    },
    Lint {
        code: "alias-traversal",
        what: "an `alias` that lets requests out of its directory (nginx)",
        why: "The location `/img` also takes `/img../secret`, which `alias /srv/img/` turns into \
              `/srv/img/../secret`. The location needs a `/` at its end if the alias has one.",
        example: "events {}\nhttp {\n    server {\n        listen 127.0.0.1:80;\n        location /img {\n            alias /srv/img/;\n        }\n    }\n}\n",
        better: "events {}\nhttp {\n    server {\n        listen 127.0.0.1:80;\n        location /img/ {\n            alias /srv/img/;\n        }\n    }\n}\n",
    },
    Lint {
        code: "headers-not-inherited",
        what: "headers of an outer block that are lost in an inner one (nginx)",
        why: "`add_header` and `proxy_set_header` of a block are inherited only by blocks that have none of their \
              own. One more header in a location takes away all those of the server, such as those for security.",
        example: "events {}\nhttp {\n    server {\n        listen 127.0.0.1:80;\n        add_header X-Frame-Options DENY;\n        location / {\n            add_header X-App shop;\n            proxy_pass http://127.0.0.1:3000;\n        }\n    }\n}\n",
        better: "events {}\nhttp {\n    server {\n        listen 127.0.0.1:80;\n        location / {\n            add_header X-Frame-Options DENY;\n            add_header X-App shop;\n            proxy_pass http://127.0.0.1:3000;\n        }\n    }\n}\n",
    },
];

/// The words of the lints about the conversion for files of nginx.
pub(crate) const WORDS: &[ForeignWords] = &[
    ForeignWords {
        code: "missing-timeout",
        words: &[
            ("`connect=`", "`proxy_connect_timeout`"),
            ("`response=`", "`proxy_read_timeout`"),
            (
                "`send=` is so long that a silent server",
                "`proxy_send_timeout` is so long that a silent server",
            ),
            ("`handshake=`", "`client_header_timeout`"),
            ("`head=`", "`client_header_timeout`"),
            ("`body=`", "`client_body_timeout`"),
            ("`send=`", "`send_timeout`"),
        ],
        help: "the defaults are 60s for each of nginx's timeouts",
    },
    ForeignWords {
        code: "max-conn-without-queue",
        words: &[("`max_conn=`", "`max_conns=`")],
        help: "let them wait: `queue 100 timeout=5s;` in the `upstream`",
    },
    ForeignWords {
        code: "no-health-check",
        words: &[],
        help: "leave `max_fails=0` out of the `server` lines, so that failures count",
    },
    ForeignWords {
        code: "same-server-twice",
        words: &[("the pool", "the upstream")],
        help: "give the first one a `weight=` instead",
    },
    ForeignWords {
        code: "no-keepalive",
        words: &[],
        help: "keep idle connections: `keepalive 32;` in the `upstream`, and `proxy_http_version 1.1;`",
    },
    ForeignWords {
        code: "few-requests-per-connection",
        words: &[],
        help: "raise `keepalive_requests`",
    },
    ForeignWords {
        code: "short-keepalive",
        words: &[],
        help: "raise `keepalive_timeout`; the default is 75s",
    },
    ForeignWords { code: "weak-tls", words: &[], help: "add `TLSv1.3` to `ssl_protocols`" },
    ForeignWords {
        code: "unverified-server",
        words: &[],
        help: "write `proxy_ssl_verify on;` and `proxy_ssl_trusted_certificate FILE;`",
    },
    ForeignWords {
        code: "retry-repeats-effects",
        words: &[],
        help: "leave `non_idempotent` out of `proxy_next_upstream`, unless each server recognises a repeated request",
    },
    ForeignWords {
        code: "retry-without-budget",
        words: &[],
        help: "set `proxy_next_upstream_tries 2;`, or leave `timeout` and the statuses out of `proxy_next_upstream`",
    },
    ForeignWords {
        code: "buffer-holds-streams",
        words: &[],
        help: "write `proxy_request_buffering off;` in the location of streams",
    },
    ForeignWords {
        code: "unreachable-route",
        words: &[("this route", "this location or rule")],
        help: "put the narrower one first, or remove it",
    },
    ForeignWords {
        code: "impossible-condition",
        words: &[("this route", "this location")],
        help: "its conditions exclude each other: remove one",
    },
    ForeignWords {
        code: "redirect-loop",
        words: &[],
        help: "the redirect belongs in the `server` with `listen 80`",
    },
    ForeignWords {
        code: "hop-by-hop-header",
        words: &[],
        help: "remove the line, or use a header of your own",
    },
    ForeignWords {
        code: "trusts-everyone",
        words: &[],
        help: "name the networks of your own proxies in `set_real_ip_from`",
    },
    ForeignWords { code: "allow-without-deny", words: &[], help: "add `deny all;` after it" },
    ForeignWords {
        code: "unreachable-access-rule",
        words: &[],
        help: "put the rule for `all` last",
    },
    ForeignWords {
        code: "forgeable-key",
        words: &[],
        help: "use `$binary_remote_addr` in `limit_req_zone`, and `set_real_ip_from` behind a proxy",
    },
];

/// Returns what the lints find in a file.
pub(super) fn find(tree: &[Directive]) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    walk(tree, None, Outer::default(), &mut found);
    found
}

/// The directives of the blocks around a place.
#[derive(Clone, Copy, Default)]
struct Outer<'a> {
    /// The first directive of each name that an inner block replaces, of the innermost block.
    replaced: [Option<&'a Directive>; REPLACED.len()],
    /// Set if a block says that inner ones add to its headers.
    merges: bool,
}

/// Looks through a block.
fn walk<'a>(
    block: &'a [Directive],
    location: Option<&'a Directive>,
    outer: Outer<'a>,
    found: &mut Vec<Diagnostic>,
) {
    for directive in block {
        match directive.name.text.as_str() {
            "proxy_pass" => found.extend(location.and_then(|at| dropped_path(at, directive))),
            "alias" => found.extend(location.and_then(|at| traversal(at, directive))),
            "if" => found.extend(file_per_request(directive)),
            "ssl_protocols" | "ssl_ciphers" => found.extend(weak_tls(directive)),
            "proxy_set_header" => found.extend(hop_by_hop(directive)),
            _ => {}
        }
    }
    let outer = lost_headers(block, outer, found);
    for directive in block {
        let Some(inner) = &directive.block else { continue };
        let location = match directive.name.text.as_str() {
            "location" => Some(directive),
            _ => location,
        };
        walk(&inner.directives, location, outer, found);
    }
}

fn warning(
    directive: &Directive,
    code: &'static str,
    message: impl Into<String>,
    help: &str,
) -> Diagnostic {
    Diagnostic::warning(directive.span(), message).code(code).help(help)
}

/// Returns the path of a location that is a prefix.
fn prefix_of(location: &Directive) -> Option<&str> {
    match location.words.as_slice() {
        [path] if path.text.starts_with('/') => Some(&path.text),
        [modifier, path] if modifier.text == "^~" => Some(&path.text),
        _ => None,
    }
}

fn dropped_path(location: &Directive, pass: &Directive) -> Option<Diagnostic> {
    const CODE: &str = "proxy-pass-drops-path";
    let prefix = prefix_of(location).filter(|prefix| *prefix != "/")?;
    let (_, rest) = pass.words.first()?.text.split_once("://")?;
    let uri = &rest[rest.find('/')?..];
    if rest.starts_with("unix:") || uri.contains('$') || uri == prefix {
        return None;
    }
    let sent = format!("{uri}{}", sample_of(prefix));
    let asked = format!("{prefix}{}", sample_of(prefix));
    let help = "leave the path out of `proxy_pass` to send it as it is";
    let message = format!("`{asked}` is sent as `{sent}`");
    Some(warning(pass, CODE, message, help).related(location.span(), "the path of this location"))
}

/// Returns the rest of a request's path below a location.
fn sample_of(prefix: &str) -> &'static str {
    if prefix.ends_with('/') { "users" } else { "/users" }
}

fn traversal(location: &Directive, alias: &Directive) -> Option<Diagnostic> {
    let prefix = prefix_of(location).filter(|prefix| !prefix.ends_with('/'))?;
    let path = alias.words.first().filter(|path| path.text.ends_with('/'))?;
    let message =
        format!("`{prefix}../x` is looked up as `{}../x`, outside the directory", path.text);
    let help = "end the location with `/` too";
    Some(warning(alias, "alias-traversal", message, help).related(location.span(), "this location"))
}

fn file_per_request(directive: &Directive) -> Option<Diagnostic> {
    let first = directive.words.first()?.text.trim_start_matches(['(', '!', ' ']);
    let looks_up = ["-f", "-d", "-e", "-x"].iter().any(|test| first.starts_with(test));
    looks_up.then(|| {
        warning(
            directive,
            "if-file-per-request",
            "nginx looks this file up for each request",
            "Weir looks once a second; a reload, or `weir ctl`, switches at once",
        )
    })
}

fn weak_tls(directive: &Directive) -> Option<Diagnostic> {
    let words = || directive.words.iter().map(|word| word.text.as_str());
    let broken: Vec<&str> = if directive.name.text == "ssl_protocols" {
        words().filter(|word| BROKEN_PROTOCOLS.contains(word)).collect()
    } else {
        let suites = words().flat_map(|word| word.split(':'));
        let wanted = suites.filter(|suite| !suite.starts_with(['!', '-']));
        let is_broken =
            |suite: &&str| suite.split(['-', '+']).any(|part| BROKEN_CIPHERS.contains(&part));
        wanted.filter(is_broken).collect()
    };
    (!broken.is_empty()).then(|| {
        let message = format!("{} is broken, and Weir does not have it", broken.join(" "));
        warning(directive, "weak-tls", message, "remove it; TLS 1.2 and 1.3 are what clients use")
    })
}

fn hop_by_hop(directive: &Directive) -> Option<Diagnostic> {
    const CODE: &str = "hop-by-hop-header";
    let [name, value] = directive.words.as_slice() else { return None };
    let lower = name.text.to_ascii_lowercase();
    if lower == "connection" && value.text.eq_ignore_ascii_case("upgrade") {
        let message = "every request asks for an upgrade, also those of clients that do not";
        let help = "Weir sends it for requests that ask for one: remove the line";
        return Some(warning(directive, CODE, message, help));
    }
    (HOP_BY_HOP.contains(&lower.as_str()) && !value.text.is_empty()).then(|| {
        let message = format!("`{}` belongs to a single connection", name.text);
        warning(directive, CODE, message, "remove the line")
    })
}

/// Finds headers of outer blocks that do not hold in this one, and returns what this block and
/// those around it have.
fn lost_headers<'a>(
    block: &'a [Directive],
    outer: Outer<'a>,
    found: &mut Vec<Diagnostic>,
) -> Outer<'a> {
    let merges = outer.merges || block.iter().any(|one| one.name.text == "add_header_inherit");
    let mut inner = Outer { merges, ..outer };
    for (name, around) in REPLACED.iter().zip(&mut inner.replaced) {
        let Some(first) = block.iter().find(|one| one.name.text == *name) else { continue };
        let Some(around) = around.replace(first).filter(|_| !merges) else { continue };
        let message = format!("the `{name}` of the outer block do not hold here");
        let help = "repeat them here, or put all of them into one block";
        let lint = warning(first, "headers-not-inherited", message, help);
        found.push(lint.related(around.span(), "these are replaced"));
    }
    inner
}
