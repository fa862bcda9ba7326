//! Directives of listeners. The checks are in `check/listen.rs`.

use super::route::RESPOND;
use super::spec::{
    Arrow, BlockRule, Context, EDITS, LISTEN, MANY, OptionSpec, Spec, TOP, directive, flag, option,
};

/// The directives, in the order of the reference page.
pub(super) const DIRECTIVES: &[Spec] = &[
    directive("listen", TOP, "ADDRESS…", "Addresses to accept on, and what is served there. `:80` is IPv6 and IPv4, `0.0.0.0:80` IPv4 only; `[::1]:80` and `unix:/path` work too.")
        .words(1, MANY)
        .options(LISTEN_OPTIONS)
        .block(BlockRule::Optional(Context::Listen))
        .arrow(Arrow::Optional)
        .many()
        .example("listen :8080 -> 127.0.0.1:3000;"),
    directive("certificate", LISTEN, "FILE", "A certificate chain in PEM, leaf first, with its key in the same file or in `key=`. With several, the server name decides, then what the client can verify; the first is the default.")
        .options(&[option("key", "FILE", "", "The key, when it is not in the same file.")])
        .many()
        .example("certificate /etc/weir/site.pem key=/etc/weir/site.key;"),
    directive("tls", LISTEN, "", "Protocols, suites and groups of a `tls` listener. Suites are written as OpenSSL or IANA write them.")
        .words(0, 0)
        .options(PROTOCOL)
        .example("tls min=1.3 ciphers=TLS_AES_256_GCM_SHA384;"),
    directive("log", LISTEN, "NAME…", "Access logs written to.").words(1, MANY).example("log access;"),
    directive("timeout", LISTEN, "", "How long Weir waits on the clients' side.")
        .words(0, 0)
        .options(CLIENT_TIMEOUT)
        .example("timeout head=5s keepalive=30s;"),
    directive("tcp_keepalive", &[Context::Listen, Context::Pool], "[off]", "Has the kernel ask the other end of a silent TCP connection whether it is still there, so that one that is gone without a word does not hold a connection for ever: of clients in `listen`, of servers in a `pool`.")
        .words(0, 1)
        .options(TCP_KEEPALIVE)
        .example("tcp_keepalive idle=30s interval=10s probes=3;"),
    directive("limits", LISTEN, "", "What a client may send.")
        .words(0, 0)
        .options(LIMITS)
        .example("limits head=16k body=8m;"),
    directive("path", LISTEN, "", "In which form the path of a request is matched, logged as `$uri`, looked up below a directory and sent to servers: one form for all, so that no rule sees another path than the server does. It is the normal form of RFC 3986 section 6: escapes of letters, digits and `-._~` are decoded, other escapes written in capitals, dot segments resolved (above the root, at the root), slashes in a row made one; routes match it decoded once. A malformed escape gets 400, and so does what servers read in different ways, unless it is kept: `%2F` (kept, it is no slash to routes and goes on as `%2F`), backslashes, `;`, and `%00`; a dot segment with a parameter, as in `/..;/`, is refused even then. The query and the request line in logs stay as they came. For comparison: nginx matches a normalised path but with a `proxy_pass` without URI sends the one received; HAProxy matches and sends it as received unless `http-request normalize-uri` is used; Envoy does so unless `normalize_path`, `merge_slashes` and `path_with_escaped_slashes_action` are set.")
        .words(0, 0)
        .options(PATH)
        .example("path encoded_slash=keep parameters=keep;"),
    directive("trusted_proxies", &[Context::Top, Context::Listen], "NETWORK…", "Peers whose `X-Forwarded-For` is believed: the client is its last address that is not trusted. At the top level, for every listener that does not say otherwise.")
        .words(1, MANY)
        .example("trusted_proxies 10.0.0.0/8 2001:db8::/32;"),
    directive("forwarded", LISTEN, "", "Which headers tell servers about the client.")
        .words(0, 0)
        .options(&[
            option("x_forwarded", "on | off", "on", "Send `X-Forwarded-For`, `-Proto` and `-Host`."),
            option("forwarded", "on | off", "off", "Send `Forwarded` (RFC 7239)."),
        ])
        .example("forwarded forwarded=on;"),
    directive("request_id", LISTEN, "[HEADER | off]", "The header in which a request's id is sent on. It is taken over from trusted proxies, else made.")
        .words(0, 1)
        .options(&[flag("respond", "Put it on the response too.")])
        .default("X-Request-Id")
        .example("request_id X-Trace-Id respond;"),
    directive("cause_header", LISTEN, "[HEADER]", "Tells why in this response header, `Weir-Cause` unless it says otherwise, whenever Weir itself answers with 400 or above: `queue_timeout`, `no_endpoint`, `connect_failed` and so on, as `$cause` in logs. Without it clients are told nothing.")
        .words(0, 1)
        .options(&[flag("trusted", "Only to `trusted_proxies`.")])
        .example("cause_header X-Cause trusted;"),
    directive("explain_header", LISTEN, "[HEADER]", "Tells in this response header, `Weir-Why` unless it says otherwise, where a request went and why, as `$why` in logs: its route and pool, how long it waited and who was ahead, the server and the runner-up, and the time of each part until the response's head. Names of servers and ids of other requests are in it: only who shows `when=`, or `trusted_proxies`, or who does both if both are asked for, is told.")
        .words(0, 1)
        .options(&[
            option("when", "NAME[=VALUE]", "", "Only to requests with this header, and with this value of it: a secret that only you know."),
            flag("trusted", "Only to `trusted_proxies`."),
        ])
        .example("explain_header when=X-Explain=fcd73b6fa3a04ae1;"),
    directive("upgrade", EDITS, "PROTOCOL… | off", "Protocols that a client's connection may switch to (`Upgrade` and 101, RFC 9110 section 7.8); what follows the switch passes as it is, seen by no rule and no log. Of what a client offers these are offered to the server, the others are taken out, and the request goes on as an ordinary one. A 101 that names another one, or none, is a bad response (502). A route's line replaces the listener's. nginx passes what its configuration sets; Envoy takes a list, too.")
        .words(1, MANY)
        .default("websocket")
        .example("upgrade websocket postgres;"),
    directive("allow", EDITS, "NETWORK… | all", "Lets these clients in. The first `allow` or `deny` that matches decides; who matches none is let in.")
        .words(1, MANY)
        .many()
        .example("allow 192.0.2.0/24;"),
    directive("deny", EDITS, "NETWORK… | all", "Answers these clients with 403.").words(1, MANY).many().example("deny all;"),
    directive("header", EDITS, "set NAME VALUE | add NAME VALUE | remove NAME", "Changes a header of the request sent to the server. Values may have `$variables`; a listener's changes come before a route's.")
        .words(2, 3)
        .options(HEADER_EDIT)
        .many()
        .example("header set X-Client $remote_addr;"),
    directive("response_header", EDITS, "set NAME VALUE | add NAME VALUE | remove NAME", "Changes a header of the response sent to the client.")
        .words(2, 3)
        .options(HEADER_EDIT)
        .many()
        .example("response_header remove Server;"),
    directive("error_page", LISTEN, "STATUS… FILE", "An own page for statuses that Weir itself answers with. It is read when the configuration is loaded.")
        .words(2, MANY)
        .many()
        .example("error_page 502 503 504 /etc/weir/sorry.html;"),
    directive("redirect", LISTEN, "https [STATUS] | STATUS URL", "Redirects everything that no host block takes: `default -> redirect …` in short.")
        .words(1, 2)
        .example("redirect https 301;"),
    directive("respond", LISTEN, "STATUS [\"TEXT\"]", "Answers everything that no host block takes: `default -> respond …` in short.")
        .words(1, 2)
        .options(RESPOND)
        .example("respond 403 \"not here\";"),
];

const LISTEN_OPTIONS: &[OptionSpec] = &[
    flag("tls", "Clients speak TLS; a `certificate` is needed."),
    option("name", "NAME", "", "Its name in logs; without it, the first address as written."),
    option(
        "max_connections",
        "NUMBER",
        "",
        "Client connections open at once here; near the limit, idle ones make room, then clients with most of them, as with the `max_connections` of the process; else the surplus waits in the kernel's backlog.",
    ),
    option("mode", "OCTAL", "", "File mode of Unix sockets, such as `0660`."),
];

const CLIENT_TIMEOUT: &[OptionSpec] = &[
    option("handshake", "TIME", "10s", "TLS handshake."),
    option("head", "TIME", "10s", "First byte of a request's head to its end."),
    option("body", "TIME", "30s", "Between two reads of a request's body."),
    option("keepalive", "TIME", "75s", "Idle between requests."),
    option("send", "TIME", "1m", "Without progress while a response is written."),
    option(
        "request",
        "TIME | off",
        "off",
        "The whole exchange, from a request's first byte to the last of its response: 504 where nothing was sent yet, else the connection ends. A tunnel is not bounded by it. A route or pool may say otherwise.",
    ),
    option(
        "age",
        "TIME | off",
        "1h",
        "A connection this old ends with the response to its next request.",
    ),
    option(
        "min_rate",
        "SIZE | off",
        "off",
        "Bytes a second that a client at least sends of a request's body while it is waited for, and takes of a response that waits for it, on average over `after`.",
    ),
    option(
        "slot_min_rate",
        "SIZE | off",
        "512b",
        "The same while the request holds a place of a server with `max_conn`, so that a body that dribbles gives it up. A stream whose server is silent is not meant, nor is a tunnel.",
    ),
    option(
        "after",
        "TIME",
        "30s",
        "How much time of waiting for the client a rate is measured over.",
    ),
];

const TCP_KEEPALIVE: &[OptionSpec] = &[
    option("idle", "TIME", "1m", "Silence before the first probe, in whole seconds."),
    option("interval", "TIME", "15s", "From one probe to the next, in whole seconds."),
    option("probes", "NUMBER", "4", "Probes without an answer that end the connection."),
    option(
        "user_timeout",
        "TIME | off",
        "off",
        "How long bytes that were sent may stay unacknowledged before the connection ends (`TCP_USER_TIMEOUT`); it then bounds the probes too. `off` is as long as the kernel tries, about 15 minutes.",
    ),
];

const LIMITS: &[OptionSpec] = &[
    option("head", "SIZE", "32k", "Request line and header lines together; more gets 431."),
    option(
        "request_line",
        "SIZE",
        "8k",
        "Method, target and version; more gets 414. It counts for `head` too.",
    ),
    option("headers", "NUMBER", "100", "Header lines; more gets 431."),
    option("body", "SIZE | off", "off", "Body; more gets 413."),
    option("requests", "NUMBER | off", "off", "Requests on one connection."),
    option(
        "hops",
        "NUMBER | off",
        "10",
        "Weirs that a request may have passed before, as the header `Weir-Hops` counts them; more is a loop and gets 508. `off` neither counts nor sends the header on.",
    ),
];

const PATH: &[OptionSpec] = &[
    option(
        "normalize",
        "on | off",
        "on",
        "Off sends the path as it was received; routes match it decoded and resolved all the same, and a server that reads it differently gets past them.",
    ),
    option("merge_slashes", "on | off", "on", "Make one slash of several in a row."),
    option("encoded_slash", "refuse | keep", "refuse", "What becomes of `%2F`."),
    option("backslash", "refuse | keep", "refuse", "What becomes of a backslash and of `%5C`."),
    option(
        "parameters",
        "refuse | keep",
        "refuse",
        "What becomes of `;`, as in `/page;jsessionid=1`: some servers cut a segment off there.",
    ),
    option("nul", "refuse | keep", "refuse", "What becomes of `%00`."),
];

pub(super) const PROTOCOL: &[OptionSpec] = &[
    option("min", "1.2 | 1.3", "1.2", "Lowest version."),
    option("max", "1.2 | 1.3", "1.3", "Highest version."),
    option("ciphers", "NAME:…", "", "Suites in order of preference; without it, all safe ones."),
    option(
        "curves",
        "NAME:…",
        "",
        "Key-exchange groups in order of preference; without it, all safe ones.",
    ),
];

const HEADER_EDIT: &[OptionSpec] = &[flag(
    "secret",
    "The value is not shown: neither in `/v1/config`, nor by `weir check --json` without `--show-secrets`, nor in what a reload changed. Nor are, without this word, those of `Authorization`, `Cookie`, `Set-Cookie` and headers whose names end in `-Key` or `-Auth` or hold `token`, `secret`, `passw`, `credential` or `session`.",
)];
