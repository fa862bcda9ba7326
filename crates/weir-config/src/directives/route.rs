//! Directives of hosts, routes, their conditions and their targets. The checks are in
//! `check/route.rs`, `check/expression.rs` and `check/target.rs`.

use super::spec::{
    Arrow, BlockRule, CONDITION, Context, LISTEN, MANY, OptionSpec, ROUTES, Spec, TARGET, TOP,
    directive, option,
};

/// The directives, in the order of the reference page.
pub(super) const DIRECTIVES: &[Spec] = &[
    directive("rule", TOP, "NAME { EXPRESSION } | NAME EXPRESSION", "Names an expression, to be used as `rule NAME` in routes and other rules.")
        .words(1, MANY)
        .block(BlockRule::Expression)
        .many()
        .example("rule staff { client 192.0.2.0/24 or header X-Staff=yes }"),
    directive("host", LISTEN, "NAME…", "What is served for these hosts: `shop.example.com`, `*.example.com` (any depth), `~regex`, or `*` for every host. Blocks are tried in order.")
        .words(1, MANY)
        .block(BlockRule::Required(Context::Host))
        .many()
        .example("host shop.example.com *.shop.example.com { route -> app; }"),
    directive("route", ROUTES, "[EXPRESSION] -> TARGET", "Leads requests that match to a target. Routes are tried from top to bottom, the first match wins; when none does, the answer is 404. In `listen` itself, for requests that no host block takes. The expression is made of the conditions below: side by side or with `and` all have to hold; `or`, `not` and parentheses (with space around them) work as usual.")
        .words(0, MANY)
        .block(BlockRule::Optional(Context::Route))
        .arrow(Arrow::Required)
        .many()
        .example("route path /admin/* not client 192.0.2.0/24 -> respond 403;"),
    directive("default", LISTEN, "-> TARGET", "What is served when no host block and no route matches: a last `route` without conditions.")
        .words(0, 0)
        .block(BlockRule::Optional(Context::Route))
        .arrow(Arrow::Required)
        .example("default -> respond 421;"),
    directive("name", &[Context::Route], "NAME", "The route's name in logs, instead of one such as `:80/shop.example.com/2`.").example("name checkout;"),
    directive("timeout", &[Context::Route], "", "How long an exchange of this route may take, whatever its listener and its pool say.")
        .words(0, 0)
        .options(&[option("request", "TIME | off", "", "From a request's first byte to the last of its response.")])
        .example("timeout request=10m;"),
    directive("path", CONDITION, "PATTERN…", "The path, in its normal form (`path` in `listen`) and decoded, is one of these: `/exact`, `/prefix/*` (all below, and `/prefix` itself; nginx's `/prefix/` and a path of Caddy leave that out), a glob such as `/a/*/b` (between two slashes) or `*.php`, `~regex`, or `~*regex` where case does not count. A regex with `{` has to be quoted.")
        .example("path /static/* *.css"),
    directive("method", CONDITION, "NAME…", "The method is one of these.").example("method GET HEAD"),
    directive("header", CONDITION, "NAME[=PATTERN]", "The header is there, and has this value: exact, with `*` for anything, `~regex` or `~*regex`.").example("header X-Channel=canary"),
    directive("cookie", CONDITION, "NAME[=PATTERN]", "The cookie is there, and has this value.").example("cookie beta=1"),
    directive("query", CONDITION, "NAME[=PATTERN]", "The query parameter is there, and has this value.").example("query debug"),
    directive("client", CONDITION, "NETWORK…", "The client's address is in one of these networks.").example("client 10.0.0.0/8"),
    directive("rule", CONDITION, "NAME", "The named rule holds.").example("rule staff"),
    directive("POOL", TARGET, "", "A pool, by its name.").example("route -> app;"),
    directive("ADDRESS…", TARGET, "", "Servers without a pool of their own name; they have every default.").example("route -> 10.0.0.1:80 10.0.0.2:80;"),
    directive("respond", TARGET, "STATUS [\"TEXT\"]", "A fixed response. The text may have `$variables`; without one, the status's own small page is sent.")
        .words(1, 2)
        .options(RESPOND)
        .example("route path /ping -> respond 200 pong;"),
    directive("redirect", TARGET, "https [STATUS] | STATUS URL", "A redirect (301, 302, 303, 307 or 308). `https` keeps host, path and query. The URL may have `$variables`, and `$1` to `$9` for the groups of the path's regex.")
        .words(1, 2)
        .example("route path ~^/old/(.*)$ -> redirect 301 /new/$1;"),
    directive("files", TARGET, "DIRECTORY", "Static files below a directory.")
        .options(FILES)
        .example("route path /static/* -> files /srv/static strip=/static;"),
];

pub(super) const RESPOND: &[OptionSpec] =
    &[option("type", "TYPE", "text/plain; charset=utf-8", "The `Content-Type` of the text.")];

const FILES: &[OptionSpec] = &[
    option("strip", "PREFIX", "", "Cut off the path before looking below the directory."),
    option("index", "NAME,…", "index.html", "Files tried in order for a directory."),
];
