//! Directives of hosts, routes, their conditions and their targets. The checks are in
//! `check/route.rs`, `check/expression.rs` and `check/target.rs`.

use super::spec::{
    Arrow, BlockRule, CONDITION, Context, LISTEN, MANY, OptionSpec, ROUTES, Spec, TARGET, TOP,
    directive, flag, option,
};

/// The directives, in the order of the reference page.
pub(super) const DIRECTIVES: &[Spec] = &[
    directive("rule", TOP, "NAME { EXPRESSION } | NAME EXPRESSION", "Defines a named expression, which routes and other rules use as `rule NAME`.")
        .words(1, MANY)
        .block(BlockRule::Expression)
        .many()
        .example("rule staff { client 192.0.2.0/24 or header X-Staff=yes }"),
    directive("host", LISTEN, "NAME…", "The routes for these hosts: `shop.example.com`, `*.example.com` (any depth), `~regex`, or `*` for every host. Host blocks are tried in order.")
        .words(1, MANY)
        .block(BlockRule::Required(Context::Host))
        .many()
        .example("host shop.example.com *.shop.example.com { route -> app; }"),
    directive("sni", LISTEN, "NAME…", "In a `tcp` listener: the pool of TLS connections whose client asks for one of these server names, written as in `host`. Without `tls` in `listen` the connection is passed on as it is: Weir reads the beginning of the client's handshake (its `ClientHello`) and ends no TLS. A connection that begins with something else, asks for no name or for another, or whose `ClientHello` does not come within `timeout handshake=`, takes the routes outside `sni`; without any it is closed. One whose `ClientHello` is over Weir's limits (12 KB, and the length of its lists) is closed in any case.")
        .words(1, MANY)
        .arrow(Arrow::Required)
        .many()
        .example("sni db.example.com *.db.example.com -> app;"),
    directive("route", ROUTES, "[EXPRESSION]", "Sends matching requests to a target. Routes are tried from top to bottom and the first match wins; if none matches, the response is 404. Routes directly in `listen` are for requests that match no host block. The expression combines the conditions below with `and` (which may be left out), `or`, `not` and parentheses, which need spaces around them.")
        .words(0, MANY)
        .block(BlockRule::Optional(Context::Route))
        .arrow(Arrow::Required)
        .many()
        .example("route path /admin/* not client 192.0.2.0/24 -> respond 403;"),
    directive("default", LISTEN, "", "The target of requests that match no host block and no route: a last `route` without conditions.")
        .words(0, 0)
        .block(BlockRule::Optional(Context::Route))
        .arrow(Arrow::Required)
        .example("default -> respond 421;"),
    directive("name", &[Context::Route], "NAME", "The name of the route in logs; by default a generated one such as `:80/shop.example.com/2`.").example("name checkout;"),
    directive("timeout", &[Context::Route], "", "Time limits of the exchanges of this route, instead of those of the listener and the pool. Those that are not given stay.")
        .words(0, 0)
        .options(ROUTE_TIMEOUT)
        .example("timeout request=10m read=5m;"),
    directive("limits", &[Context::Route], "", "The limit on the bodies of this route's requests, instead of the listener's. It holds for every target; a request with a larger `Content-Length` gets 413 before anything else is done with it.")
        .words(0, 0)
        .options(ROUTE_LIMITS)
        .example("limits body=64m;"),
    directive("rewrite", &[Context::Route], "strip_prefix PREFIX | prefix FROM TO | regex ~REGEX TEXT | path TEXT | query TEXT | target TEXT | target_regex ~REGEX TEXT", REWRITE)
        .words(2, 3)
        .many()
        .example("rewrite prefix /api/ /v2/;"),
    directive("query", &[Context::Route], "set NAME VALUE | add NAME VALUE | remove NAME", "Changes a parameter of the query that the server gets: `set` replaces all of that name by one at the end, `add` appends one, `remove` removes all. Values are in the form of a URL; a character that cannot stand in a value, such as `&`, is percent-encoded.")
        .words(2, 3)
        .many()
        .example("query set client $remote_addr;"),
    directive("error_page", &[Context::Route], "STATUS…", ERROR_PAGE)
        .words(1, MANY)
        .arrow(Arrow::Required)
        .options(ERROR_TARGET)
        .many()
        .example("error_page 502 503 504 -> internal /sorry.html;"),
    directive("expires", &[Context::Route], "TIME | -TIME | @TIME | epoch | max | $NAME", "The time for which clients may keep a response with a status such as 200, 206, 301 or 304: `Expires` and `Cache-Control`, instead of received ones. A negative time and `epoch` make it `no-cache`; `max` is ten years, as in nginx. A time behind `@` is one of the day, such as `@6h` or `@930m`: they are fresh until it comes. A variable of a `map` or `split`, every value of which has one of these forms or is `off`, decides for each response; it may depend on its headers (`$sent_http_content_type`), also for files.")
        .options(&[flag("modified", "Counts the time from the `Last-Modified` of the response, if it has one.")])
        .example("expires 30d;"),
    directive("intercept", &[Context::Route], "", INTERCEPT)
        .words(0, 0)
        .arrow(Arrow::Required)
        .options(INTERCEPT_OPTIONS)
        .many()
        .example("intercept if=$sent_http_x_sorry -> internal @sorry;"),
    directive("response_status", &[Context::Route], "STATUS", "Gives responses of servers another status (200 to 599, but not 204, 205 and 304, which end a response without a body). Of several lines that hold the last counts. Conditions of `response_header` see the status of the server, logs the one that was sent. Responses with 101, 204 and 304 keep theirs. HAProxy has it as `http-response set-status`, and with `always` as `http-after-response set-status`.")
        .options(STATUS_OPTIONS)
        .many()
        .example("response_status 503 if=$sent_http_x_busy;"),
    directive("request_method", &[Context::Route], "METHOD", "Sends requests to servers with another method. Of several lines that hold the last counts. Routes, logs and `$request_method` have the received one. The method may contain `$variables`; a text that is no method changes nothing. Requests with HEAD and CONNECT keep theirs, and no request gets these. nginx calls this `proxy_method`, HAProxy `http-request set-method`.")
        .options(SERVER_CONDITION)
        .many()
        .example("request_method POST if=$http_x_submit;"),
    directive("use_server", &[Context::Route], "NAME", "Sends requests to this server of the pool while it is available, whatever the policy and a sticky cookie say: the first line that holds and whose server is up counts, a draining one included. If it is full, requests wait for it as those of sticky clients do. Where no line counts, the policy picks. The name may contain `$variables`; one that no server has ends the list. HAProxy has it as `use-server`.")
        .options(SERVER_CONDITION)
        .many()
        .example("use_server 10.0.0.1:80 if=$cookie_canary;"),
    directive("path", CONDITION, "PATTERN…", "The normalised (`path` in `listen`) and decoded path matches one of these: `/exact`, `/prefix/*` (everything below, and `/prefix` itself, unlike nginx's `/prefix/` and Caddy's paths), a glob such as `/a/*/b` (`*` within one segment) or `*.php`, `~regex`, or `~*regex` (case-insensitive). A regex that contains `{` must be quoted.")
        .example("path /static/* *.css"),
    directive("method", CONDITION, "NAME…", "The method is one of these.").example("method GET HEAD"),
    directive("header", CONDITION, "NAME[=PATTERN]", "The header is present and has this value: an exact text, a text with `*` for anything, `~regex` or `~*regex`.").example("header X-Channel=canary"),
    directive("cookie", CONDITION, "NAME[=PATTERN]", "The cookie is present and has this value.").example("cookie beta=1"),
    directive("query", CONDITION, "NAME[=PATTERN]", "The query parameter is present and has this value.").example("query debug"),
    directive("client", CONDITION, "NETWORK…", "The client's address is in one of these networks.").example("client 10.0.0.0/8"),
    directive("alpn", CONDITION, "PROTOCOL…", "In a `tcp` listener without `tls`: the client offers one of these application protocols in its TLS handshake (ALPN, RFC 7301), such as `h2`, `acme-tls/1` or `postgresql`. Weir reads the beginning of the handshake for it, as for `sni`, and ends no TLS. It is short for a pattern of `variable $ssl_preread_alpn_protocols`.").example("alpn acme-tls/1"),
    directive("variable", CONDITION, "$NAME[=PATTERN]", "The text with variables has this value; without a pattern, it is neither empty nor `0`. The variables must be known before a route is found.").example("variable $ssl_protocol=TLSv1.2"),
    directive("servers", CONDITION, "POOL[/SERVER]=NUMBER", "The number of the pool's servers that are up and in no maintenance or drain is this one, or in a range (`1..`, `..2`, `1..2`). Backups count only where no other server is up; servers that failures in traffic eject count. With the name of a server only that one counts: `servers app/a=1` holds while it is up. HAProxy has them as `nbsrv` and `srv_is_up`.").example("servers app=0"),
    directive("in_flight", CONDITION, "POOL[/SERVER]=NUMBER", "The number of requests at the pool's servers, or at one of them, over all workers. HAProxy has it as `srv_conn`.").example("in_flight app=100.."),
    directive("queued", CONDITION, "POOL[/SERVER]=NUMBER", "The number of requests that wait in the pool's queue; with the name of a server of those that wait for this one. HAProxy has them as `queue` and `srv_queue`.").example("queued app=10.."),
    directive("load", CONDITION, "POOL[/SERVER]=NUMBER", "The number of requests at the pool's servers and in its queue together. HAProxy has it as `be_conn`.").example("load app=500.."),
    directive("queued_per_server", CONDITION, "POOL=NUMBER", "The number of requests that wait in the pool's queue for each server that is up, rounded up; while none is up, twice their number. HAProxy has it as `avg_queue`.").example("queued_per_server app=10.."),
    directive("file", CONDITION, "PATH", FILE_TEST).example("file /srv/maintenance"),
    directive("directory", CONDITION, "PATH", "The same for a directory.").example("directory /srv/www"),
    directive("exists", CONDITION, "PATH", "The same for anything with this path.").example("exists /srv/maintenance"),
    directive("executable", CONDITION, "PATH", "The same for something that its owner may execute.").example("executable /srv/run"),
    directive("internal", CONDITION, "[@NAME]", "The request comes from an internal redirect (the target `internal`, or `fallback=` of `files`): with a name from one to that name, otherwise from one to a path without a name. Clients cannot reach a route with this condition.")
        .words(0, 1)
        .example("internal @app"),
    directive("rule", CONDITION, "NAME", "The named rule matches.").example("rule staff"),
    directive("POOL", TARGET, "", "A pool, by its name.").example("route -> app;"),
    directive("SHARE POOL", TARGET, "SHARE POOL, SHARE POOL…", "Several pools by shares, `90%`, or `*` for the rest. The shares are exact over all workers (of every ten requests, one goes to a tenth); with a key, requests with the same key go to the same pool, and the shares are those of keys. A request whose key is empty counts as one without.")
        .options(&[option("key", "TEXT", "", "The text with `$variables` by which a client keeps its pool.")])
        .example("route -> 90% app, 10% app key=$cookie_id;"),
    directive("$NAME", TARGET, "", "The pool that a variable names. Every value of the variable, which a `map` or `split` defines, must be the name of a pool.")
        .example("route -> $variant;"),
    directive("ADDRESS…", TARGET, "", "Servers without a named pool, with every default.").example("route -> 10.0.0.1:80 10.0.0.2:80;"),
    directive("respond", TARGET, "STATUS [\"TEXT\"]", "A fixed response. The text may contain `$variables`; without a text, a short standard page for the status is sent. With 444 the connection is closed without a response, as in nginx.")
        .words(1, 2)
        .options(RESPOND)
        .example("route path /ping -> respond 200 pong;"),
    directive("redirect", TARGET, "https [STATUS] | STATUS URL", "A redirect (301, 302, 303, 307 or 308). `https` keeps host, path and query. The URL may contain `$variables`, and `$1` to `$9` for the groups of the regex in `path`.")
        .words(1, 2)
        .example("route path ~^/old/(.*)$ -> redirect 301 /new/$1;"),
    directive("internal", TARGET, "PATH | @NAME [PATH]", "An internal redirect: the request is served again with this path, or under this name with its own path or a new one, and the routes of its host are tried again from the top, so that the route of a name stands before those that match its path. The text may contain `$variables` and groups of the route's regex, and its query has the rules of `rewrite path`. Later `$uri` and `$args` are those of the new target, `$request_uri` and logs have the received one. After ten internal redirects of a request the response is 500, as in nginx (`rewrite … last`, named locations); with a name and a path, a hundred of them may come one after the other.")
        .words(1, 2)
        .example("route path ~^/old/(.*)$ -> internal /new/$1;"),
    directive("files", TARGET, "DIRECTORY", "Static files below a directory.")
        .options(FILES)
        .example("route path /static/* -> files /srv/static strip=/static;"),
];

const REWRITE: &str = "Changes the path and query that the server gets, or the path of the file that `files` sends. Several lines apply in order, each to the result of those before it. Routes, keys and limits still look at the path as received, and logs show it; `$upstream_uri` is what the server gets. `strip_prefix /api` makes `/api/x` into `/x` and leaves `/apix` alone. `prefix FROM TO` replaces text at the start of the path, as nginx's `proxy_pass` with a path and Envoy's `prefix_rewrite` do. `regex` replaces the whole path if the regex matches (`~*` ignores case); `$1` to `$9` are its groups. `path` replaces it in any case; there the groups are those of the route's own regex. Prefixes and regexes look at the decoded path. A text is in the form of a URL; in the values of its variables, characters that cannot stand in a path are percent-encoded. As in nginx, a query in the text of `regex` or `path` precedes the received one, and a text that ends with `?` drops the received one; `query` replaces it. `target` replaces path and query, which the first `?` separates, whether it is in the text or in the value of a variable; `target_regex` does so if the regex matches both as they are sent, not decoded (HAProxy's `set-pathq` and `replace-pathq`). The result is normalised as received paths are, and a result that is ambiguous is refused with 400.";

const FILE_TEST: &str = "There is a file with this path, such as one that closes a site for maintenance. Weir looks at it once a second and when the configuration is loaded, not for each request, so a request may see the state of a second ago. What cannot be looked at is not there.";

const ERROR_PAGE: &str = "Serves a request again that would get an error response of Weir's own with one of these statuses: `-> internal PATH` asks for a path with GET (or HEAD), `-> internal @NAME` keeps method, path and body, `-> redirect STATUS URL` sends the client away. A `respond` with a text is no error. A route with `error_page` has none of the listener's; of several for a status the first counts. Without `recursive` it happens once for a request: the errors of the second route get the page of the status. The limits of both routes hold. A response with the status 204 or 304 has no body, so the target is not asked for. A body goes to the pool of a named route only if `buffer_request` keeps it until then; otherwise the client gets the error. For a path it is not sent on. 497 stands for requests that come without TLS to a listener with `tls`: they get 400 with that page, or are redirected, and are served in no other way.";

pub(super) const ERROR_TARGET: &[OptionSpec] = &[
    option(
        "status",
        "STATUS | own",
        "",
        "The status of the response; by default that of the error. `own` is that of the response itself, as nginx's `=` without a status is.",
    ),
    flag(
        "intercept",
        "Holds for responses of servers too, which are discarded then, as nginx's `proxy_intercept_errors` does. `WWW-Authenticate` of a 401 is kept.",
    ),
    flag(
        "recursive",
        "An error of the second route may lead on to a page of its own, as nginx's `recursive_error_pages` allows it, at most ten times.",
    ),
];

const INTERCEPT: &str = "Discards a server's response and serves the request again: `-> internal @NAME` keeps method and path, `-> internal PATH` asks for a path with GET (or HEAD). The first line that holds counts; a line without `if=` holds for every response. An `error_page … intercept` of the route comes before these lines. Without `recursive` it happens once for a request, and not after `error_page` led to the route. A body goes to the pool of the next route only if `buffer_request` keeps it until then; otherwise the client gets 502, or the error of the response. HAProxy has it as `http-response return`, `deny` and `redirect`: write `respond` or `redirect` as the target of the named route. nginx does it for responses with `X-Accel-Redirect`.";

const INTERCEPT_OPTIONS: &[OptionSpec] = &[
    RESPONSE_IF,
    option(
        "keep",
        "NAME,…",
        "",
        "Headers of the discarded response that the next one gets besides its own, with the changes of this route and without those that it sets or removes, such as `Content-Disposition` or `Set-Cookie`; a `Content-Type` stands in the place of that of a file, and only there.",
    ),
    flag(
        "recursive",
        "Holds after other lines or `error_page` led to the route too, ten times for a request: after that the client gets 500. Errors of the next route may lead to its error pages.",
    ),
];

const RESPONSE_IF: OptionSpec = option(
    "if",
    "TEXT",
    "",
    "Holds for responses for which the text with `$variables` is neither empty nor `0`. `$status` and `$sent_http_NAME` are those of the server.",
);

const SERVER_CONDITION: &[OptionSpec] = &[option(
    "if",
    "TEXT",
    "",
    "Holds for requests for which the text with `$variables` is neither empty nor `0`.",
)];

const STATUS_OPTIONS: &[OptionSpec] = &[
    RESPONSE_IF,
    flag(
        "always",
        "Holds for Weir's own responses of the route too, which keep their body; parts of files (206, 416) and responses without a body (204, 304) keep their status.",
    ),
];

const ROUTE_LIMITS: &[OptionSpec] =
    &[option("body", "SIZE | off", "", "The size of the request body; larger ones get 413.")];

const ROUTE_TIMEOUT: &[OptionSpec] = &[
    option(
        "request",
        "TIME | off",
        "",
        "From the first byte of the request to the last byte of the response.",
    ),
    option("connect", "TIME", "", "For a connection to a server, TLS handshake included."),
    option("send", "TIME", "", "Without progress while the request is sent to a server."),
    option("response", "TIME", "", "From the end of the request to the head of the response."),
    option("read", "TIME", "", "Between two reads of the response's body."),
    option("tunnel", "TIME", "", "Without a byte in either direction of a tunnel."),
];

pub(super) const RESPOND: &[OptionSpec] = &[
    option("type", "TYPE | none", "text/plain; charset=utf-8", "The `Content-Type` of the text."),
    option(
        "cause",
        "denied",
        "",
        "The response refuses the request: its cause in logs and metrics is `denied`.",
    ),
    option(
        "delay",
        "TIME",
        "",
        "The response is held back for this time, unless the client leaves before. It keeps clients that try passwords from trying the next one; each of them holds a connection meanwhile. HAProxy has it as `tarpit`.",
    ),
];

const FILES: &[OptionSpec] = &[
    option(
        "below",
        "TEXT",
        "",
        "The directory below it in which files are looked up, such as `$host/public`, as with variables in nginx's `root`. The value of a variable is one name: where it is empty, `.` or `..`, or has a `/` or a NUL, there is no file. Only a variable of a `map` or `split`, alone between slashes and without variables in its values, may be a path; it has no `..` either.",
    ),
    option(
        "found",
        "PATH | @NAME",
        "",
        "An internal redirect if there is such a file, or a directory, which is not sent then: with `fallback` this is nginx's `if (-e $request_filename)`.",
    ),
    option(
        "strip",
        "PREFIX",
        "",
        "The prefix that is removed from the path before the file is looked up.",
    ),
    option(
        "prefix",
        "PATH",
        "",
        "The path that stands in place of the stripped prefix, in the form of a URL: with `files /srv strip=/docs prefix=/manual`, `/docs/a` and `/docs-old` lead to `/srv/manual/a` and `/srv/manual-old`, as with nginx's `alias` without a `/` at its end, which may also be one file.",
    ),
    option("index", "NAME,…", "index.html", "The files that are tried in order for a directory."),
    flag(
        "index_internal",
        "A request for a directory is served again as one for its index file, by the route for that path, as in nginx.",
    ),
    option(
        "types",
        "NAME",
        "",
        "The table that gives files their `Content-Type`, instead of Weir's own types.",
    ),
    flag(
        "optional",
        "The directory may be missing when the configuration is loaded; as long as it is, requests get 404.",
    ),
    option(
        "try",
        "TEXT,…",
        "",
        "What is looked for, in order, instead of the path alone, as with nginx's `try_files`: `$uri` (a file with the path), `$uri.html` (with a suffix), `$uri/` (a directory), `/page.html`, or a path with other `$variables`, such as `/cache/$host$uri.html` or `/$1.php`.",
    ),
    option(
        "fallback",
        "PATH | @NAME",
        "",
        "An internal redirect if there is no such file, as with the last word of nginx's `try_files`.",
    ),
];
