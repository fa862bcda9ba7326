//! Directives of listeners. The checks are in `check/listen.rs`.

use super::route::{ERROR_TARGET, RESPOND};
use super::spec::{
    Arrow, BlockRule, Context, EDITS, LISTEN, MANY, OptionSpec, Spec, TOP, directive, flag, option,
};

/// The directives, in the order of the reference page.
pub(super) const DIRECTIVES: &[Spec] = &[
    directive("listen", TOP, "ADDRESS…", "A listener: the addresses on which connections are accepted, and the hosts and routes served there. `:80` is IPv6 and IPv4, `0.0.0.0:80` is IPv4 only; `[::1]:80`, `unix:/path` and `unix:@name` (a Unix socket without a file) are allowed too. With `tcp` it passes bytes on instead of requests (`listen tcp :5432 -> db;`).")
        .words(1, MANY)
        .options(LISTEN_OPTIONS)
        .block(BlockRule::Optional(Context::Listen))
        .arrow(Arrow::Optional)
        .many()
        .example("listen :8080 -> 127.0.0.1:3000;"),
    directive("certificate", LISTEN, "FILE", "A certificate chain in PEM, leaf first, with its key in the same file or in `key=`. Among several certificates the server name decides, then the signature algorithms that the client supports; the first certificate is the default.")
        .options(&[option("key", "FILE", "", "The key, if it is not in the same file.")])
        .many()
        .example("certificate /etc/weir/site.pem key=/etc/weir/site.key;"),
    directive("client_ca", LISTEN, "FILE", "Asks the clients of a `tls` listener for a certificate of one of these authorities (PEM). The variables `$ssl_client_…` have what it says, for conditions, headers and logs.")
        .options(&[
            option("verify", "required | optional | request", "required", "The clients that get a connection: those with a valid certificate; those without one too; or all, of which `$ssl_client_verify` tells the result (`SUCCESS`, `NONE`, `FAILED:reason`), so that routes decide. HAProxy has the first two as `verify` of `bind`, nginx answers requests with 400 as routes with the last one can. A certificate of version 1 of X.509 is never valid, with any issuer: issue one of version 3."),
            option("trusted", "FILE", "", "Further authorities (PEM) that are trusted like those of FILE, but whose names clients are not shown, as with nginx's `ssl_trusted_certificate`."),
            option("crl", "FILE", "", "Lists of revoked certificates (PEM), one for each authority. No certificate is valid by a list that is out of date."),
        ])
        .example("client_ca /etc/weir/clients.pem verify=optional;"),
    directive("tls", LISTEN, "", "The protocol versions, cipher suites and key-exchange groups of a `tls` listener, and the server names for which it makes handshakes. Suites have their OpenSSL or IANA names.")
        .words(0, 0)
        .options(LISTEN_TLS)
        .example("tls min=1.3 ciphers=TLS_AES_256_GCM_SHA384;"),
    directive("log", EDITS, "NAME… | off", "The access logs that record the requests of this listener, or of this route instead of those of the listener.").words(1, MANY).example("log access;"),
    directive("timeout", LISTEN, "", "Timeouts on the client side.")
        .words(0, 0)
        .options(CLIENT_TIMEOUT)
        .example("timeout head=5s keepalive=30s;"),
    directive("tcp_keepalive", &[Context::Listen, Context::Pool], "[off]", "TCP keep-alive: the kernel probes the peer of a silent connection, so that a peer that disappeared does not hold the connection open. In `listen` for client connections, in `pool` for connections to servers.")
        .words(0, 1)
        .options(TCP_KEEPALIVE)
        .example("tcp_keepalive idle=30s interval=10s probes=3;"),
    directive("limits", LISTEN, "", "Limits on the size and number of requests of a client.")
        .words(0, 0)
        .options(LIMITS)
        .example("limits head=16k body=8m;"),
    directive("path", LISTEN, "", "Path normalisation. The same form of the path is matched by routes, logged as `$uri`, looked up below a directory and sent to servers, so that no rule sees a different path than the server. It is the normal form of RFC 3986 section 6: escapes of letters, digits and `-._~` are decoded, other escapes are written in capitals, dot segments are resolved (those above the root end at the root), and repeated slashes become one. Routes match the path decoded once. A malformed escape gets 400, and so do characters that servers interpret differently, unless they are kept: `%2F` (if kept, it is not a slash for routes and is sent as `%2F`), backslashes, `;` and `%00`. A dot segment with a parameter, as in `/..;/`, is always refused. The query and the request line in logs are unchanged. For comparison: nginx matches a normalised path, but `proxy_pass` without a URI sends the received one; HAProxy matches and sends the received path unless `http-request normalize-uri` is used; so does Envoy unless `normalize_path`, `merge_slashes` and `path_with_escaped_slashes_action` are set.")
        .words(0, 0)
        .options(PATH)
        .example("path encoded_slash=keep parameters=keep;"),
    directive("header_names", LISTEN, "", "The treatment of request headers whose names servers read differently: `keep`, `remove`, or `refuse` (400). A removed header is seen by no condition, variable or server. nginx removes both kinds by default.")
        .words(0, 0)
        .options(&[
            option("underscores", "keep | remove | refuse", "keep", "Names with `_`, which CGI and its successors do not distinguish from `-`."),
            option("unusual", "keep | remove | refuse", "keep", "Names with other characters than letters, digits, `-` and `_`."),
        ])
        .example("header_names underscores=remove unusual=refuse;"),
    directive("trusted_proxies", &[Context::Top, Context::Listen], "NETWORK…", "The peers whose `X-Forwarded-For`, or another header, is trusted: the client is the last address in it that is not trusted itself. At the top level it applies to every listener without a `trusted_proxies` of its own.")
        .words(1, MANY)
        .options(&[
            option("header", "HEADER", "X-Forwarded-For", "The header that names the client: one address, or a list to which each proxy adds one at the end."),
            option("recursive", "on | off", "on", "Follows the list from its end past the addresses of trusted proxies. With `off` the last address is the client, whatever it is."),
        ])
        .example("trusted_proxies 10.0.0.0/8 2001:db8::/32;"),
    directive("proxy_protocol", LISTEN, "NETWORK… | all", "The peers whose connections begin with a header of the PROXY protocol, version 1 or 2, before TLS and everything else: load balancers in front that pass bytes on. The client's address is then the one that the header tells: for access rules, limits, logs and headers. A connection of such a peer with a malformed header or none is closed; so is one whose header does not come within `timeout handshake=`. Connections of other peers have no header. With `all` every peer sends one, and can claim any address: then only the proxies may be able to reach the listener. HAProxy calls this `accept-proxy`, nginx `proxy_protocol`.")
        .words(1, MANY)
        .example("proxy_protocol 10.0.0.0/8;"),
    directive("http2", LISTEN, "auto | on | off | only", "HTTP/2 (RFC 9113). `auto`, the default, is `on` with TLS and `off` without. With `on` a TLS client chooses between HTTP/2 and HTTP/1.1 in its handshake (ALPN), and a client without TLS by its first bytes (prior knowledge). With `only` all connections are HTTP/2. Each stream is a request like any other: the limits of `limits` and `timeout` apply to it, `limits requests=` and `timeout age= keepalive=` to its connection. `Upgrade: h2c` is ignored. nginx calls this `http2 on`, HAProxy `alpn h2,http/1.1` and `proto h2`.")
        .words(1, 1)
        .options(&[
            option("streams", "NUMBER", "128", "The streams of one connection that may be open at once; a client learns this number first."),
            option("window", "SIZE", "64k", "The bytes of a request's body that a client may send before they are read, for each stream; a connection may hold this amount for each of its streams. A window that limits a client grows while the server keeps up, by at most 4 MB for a connection and 64 MB for all."),
        ])
        .default("off")
        .example("http2 on streams=250;"),
    directive("grpc", LISTEN, "", "gRPC over HTTP/2. Calls, which are requests with the content type `application/grpc`, need no setting: their `grpc-timeout` bounds the whole request with its wait in the queue (a shorter `timeout request=` holds), errors of Weir's own are responses of gRPC with a status and no page, and `$grpc_service`, `$grpc_method` and `$grpc_status` are known to logs. See also `retry on=grpc-unavailable` and `passive on=grpc-unavailable`.")
        .words(0, 0)
        .options(&[flag("metrics", "Counts calls by service, method and status, with their times (`weir_grpc_calls`, `weir_grpc_call_seconds`). At most 256 methods of a listener are counted apart, those that a server has answered with OK; the others count as one."),
            flag("web", "Converts calls of gRPC-Web, as browsers send them over HTTP/1.1 and HTTP/2 (content type `application/grpc-web` or `application/grpc-web-text`), into calls of gRPC for the servers, and the responses back: the trailers are the last frame of the body. Without it such calls are passed on as they are, for servers that speak gRPC-Web themselves. A page of another origin also needs headers of CORS.")])
        .example("grpc metrics web;"),
    directive("forwarded", LISTEN, "", "The headers that forward the client's address to servers.")
        .words(0, 0)
        .options(&[
            option("x_forwarded", "on | off", "on", "Sends `X-Forwarded-For`, `-Proto` and `-Host`."),
            option("forwarded", "on | off", "off", "Sends `Forwarded` (RFC 7239)."),
            option("received", "drop | keep", "drop", "The fate of such headers that peers send which are not trusted: all `X-Forwarded-…`, `X-Real-IP` and `Forwarded`. With `keep` those that Weir does not write itself pass as other headers do, so that servers must not rely on them, as with HAProxy and nginx."),
        ])
        .example("forwarded forwarded=on;"),
    directive("request_id", LISTEN, "[HEADER | off]", "The header that carries the request id to servers. The id of a trusted proxy is kept; otherwise an id is generated.")
        .words(0, 1)
        .options(&[flag("respond", "Adds the header to the response as well.")])
        .default("X-Request-Id")
        .example("request_id X-Trace-Id respond;"),
    directive("cause_header", LISTEN, "[HEADER]", "Adds this response header (by default `Weir-Cause`) to error responses that Weir itself generates (status 400 and above). Its value is the cause, such as `queue_timeout`, `no_endpoint` or `connect_failed`, as `$cause` in logs. Without this directive the cause is not sent to clients.")
        .words(0, 1)
        .options(&[flag("trusted", "Only for peers in `trusted_proxies`.")])
        .example("cause_header X-Cause trusted;"),
    directive("explain_header", LISTEN, "[HEADER]", "Adds this response header (by default `Weir-Why`), which explains how the request was handled, as `$why` in logs: its route and pool, its time in the queue and the requests ahead of it, the chosen server and the runner-up, and the time of each phase up to the head of the response. It contains names of servers and ids of other requests, so it is only sent if the request has the header of `when=` or comes from `trusted_proxies`; if both are configured, both are required.")
        .words(0, 1)
        .options(&[
            option("when", "NAME[=VALUE]", "", "Only for requests with this header and this value, which should be a secret."),
            flag("trusted", "Only for peers in `trusted_proxies`."),
        ])
        .example("explain_header when=X-Explain=fcd73b6fa3a04ae1;"),
    directive("upgrade", EDITS, "PROTOCOL… | off", "The protocols that a client connection may switch to (`Upgrade` and 101, RFC 9110 section 7.8). Bytes after the switch are passed on unchanged and are neither matched by rules nor logged. Of the protocols that a client offers, only these are offered to the server; the others are removed, and without any the request continues as an ordinary one. A 101 response that names another protocol or none is an invalid response (502). The directive of a route replaces that of the listener. nginx passes the headers that its configuration sets; Envoy has a list as well.")
        .words(1, MANY)
        .default("websocket")
        .example("upgrade websocket postgres;"),
    directive("allow", EDITS, "NETWORK… | all", "Allows these clients. The first matching `allow` or `deny` decides; a client that matches none is allowed.")
        .words(1, MANY)
        .many()
        .example("allow 192.0.2.0/24;"),
    directive("deny", EDITS, "NETWORK… | all", "Refuses these clients with 403.").words(1, MANY).many().example("deny all;"),
    directive("header", EDITS, "set NAME VALUE | add NAME VALUE | remove NAME | remove ~REGEX | replace NAME PATTERN VALUE | replace_item NAME PATTERN VALUE | replace_attribute NAME ATTRIBUTE PATTERN VALUE | replace_prefix NAME TEXT VALUE", "Changes a header of the request to the server. Values may contain `$variables`. Changes of the listener are applied before those of the route. `replace` gives each received line of that name that the pattern matches (an exact text, one with `*`, `~regex` or `~*regex`) another value, in which `$1` to `$9` are the groups of the regex; several for one name apply in order. `replace_item` does so for each item of a list with commas, `replace_attribute` for the value of an attribute behind a semicolon, such as `Domain` of `Set-Cookie`. `replace_prefix` gives lines that begin with a text, in which variables may stand too, another beginning. A line that would lengthen the head beyond 256 KB is left out. `remove ~*REGEX` removes the headers whose names the regex matches (`~` minds case), of those that a route may change at all. `Connection` can only be set to a blank (`\" \"`), which requests without an upgrade then have, as with nginx's `proxy_set_header Connection ' '`: some old servers want the header to be there.")
        .words(2, 5)
        .options(HEADER_EDIT)
        .many()
        .example("header set X-Client $remote_addr;"),
    directive("response_header", EDITS, "set NAME VALUE | add NAME VALUE | remove NAME | remove ~REGEX | replace NAME PATTERN VALUE | replace_item NAME PATTERN VALUE | replace_attribute NAME ATTRIBUTE PATTERN VALUE | replace_prefix NAME TEXT VALUE", "Changes a header of the response to the client, as `header` does for the request.")
        .words(2, 5)
        .options(HEADER_EDIT)
        .many()
        .example("response_header replace Location ~^http://app/(.*)$ https://$host/$1;"),
    directive("error_page", LISTEN, "STATUS… FILE | STATUS… text=TEXT | STATUS… -> TARGET", "A custom page for error responses that Weir itself generates. It is read when the configuration is loaded. Of a file that begins with a status line (`HTTP/1.`), as HAProxy's `errorfile` does, the body and the `Content-Type` are used. With a target, `internal` or `redirect`, it is what `error_page` of a route is, for the routes that have none.")
        .words(1, MANY)
        .arrow(Arrow::Optional)
        .options(ERROR_PAGE)
        .many()
        .example("error_page 502 503 504 /etc/weir/sorry.html;"),
    directive("redirect", LISTEN, "https [STATUS] | STATUS URL", "Redirects all requests that match no host block; short for `default -> redirect …`.")
        .words(1, 2)
        .example("redirect https 301;"),
    directive("respond", LISTEN, "STATUS [\"TEXT\"]", "Answers all requests that match no host block; short for `default -> respond …`.")
        .words(1, 2)
        .options(RESPOND)
        .example("respond 403 \"not here\";"),
];

const LISTEN_OPTIONS: &[OptionSpec] = &[
    flag(
        "reuseport",
        "Opens a listening socket for each worker at each TCP address (`SO_REUSEPORT`). The kernel spreads new connections over them by a hash, and each worker keeps what it accepts; otherwise one worker accepts and the one with the fewest connections gets each. It saves work where very many connections are short; connections are spread less evenly, and those in the backlog of a socket that is closed are reset.",
    ),
    flag(
        "tls",
        "Connections use TLS; a `certificate` is required. A client that sends a request of HTTP/1 without TLS gets 400 and is told why; `error_page 497` leads it elsewhere, for example to `https:`.",
    ),
    flag(
        "tcp",
        "Connections are not HTTP: the bytes of each are passed on unchanged, both ways, to a server of a pool. What concerns requests is not available then; a route has conditions on the client alone, and leads to a pool or writes a text to the client and ends the connection (`respond 200 TEXT`, as `return` of nginx's `stream`).",
    ),
    option(
        "name",
        "NAME",
        "",
        "The name of the listener in logs; by default the first address as written.",
    ),
    option(
        "log_name",
        "NAME",
        "",
        "Another name for lines of logs and for `$listener`, which several listeners may have.",
    ),
    option(
        "max_connections",
        "NUMBER",
        "",
        "The largest number of client connections open at once at this listener. Near the limit, room is made as with the `max_connections` of the process; further connections wait in the kernel's backlog.",
    ),
    option("mode", "OCTAL", "", "The file mode of Unix sockets, such as `0660`."),
];

const CLIENT_TIMEOUT: &[OptionSpec] = &[
    option("handshake", "TIME", "10s", "The TLS handshake."),
    option("head", "TIME", "10s", "From the first byte of a request's head to its end."),
    option("body", "TIME", "30s", "Between two reads of a request body."),
    option("keepalive", "TIME", "75s", "An idle connection between requests."),
    option("send", "TIME", "1m", "Without progress while a response is written."),
    option(
        "request",
        "TIME | off",
        "off",
        "The whole exchange, from the first byte of the request to the last byte of the response. After that the response is 504 or, if a part of a response has been sent, the connection ends. Tunnels are exempt. Routes and pools may set their own.",
    ),
    option(
        "age",
        "TIME | off",
        "1h",
        "The age at which a connection is closed, after its next response.",
    ),
    option(
        "min_rate",
        "SIZE | off",
        "off",
        "The lowest average rate, in bytes per second, at which a client must send a request body and receive a response, measured over `after` of waiting for the client.",
    ),
    option(
        "slot_min_rate",
        "SIZE | off",
        "512b",
        "The same while the request holds a slot of a server with `max_conn`, so that a slow client cannot keep the slot. Time in which the server is silent does not count, and tunnels are exempt.",
    ),
    option(
        "after",
        "TIME",
        "30s",
        "The period of waiting for the client over which the rates are measured.",
    ),
    option(
        "half_closed",
        "TIME | off",
        "off",
        "In a tunnel whose server has ended its side: without a byte of the client, in place of the pool's `timeout tunnel=`. HAProxy calls this `timeout client-fin`.",
    ),
];

const TCP_KEEPALIVE: &[OptionSpec] = &[
    option("idle", "TIME", "1m", "The silence before the first probe, in whole seconds."),
    option("interval", "TIME", "15s", "The time from one probe to the next, in whole seconds."),
    option(
        "probes",
        "NUMBER",
        "4",
        "The number of unanswered probes after which the connection is closed.",
    ),
    option(
        "user_timeout",
        "TIME | off",
        "off",
        "The longest time that sent bytes may stay unacknowledged before the connection is closed (`TCP_USER_TIMEOUT`); it also limits the probes. With `off` the kernel's limit applies, about 15 minutes.",
    ),
];

const LIMITS: &[OptionSpec] = &[
    option(
        "head",
        "SIZE",
        "32k",
        "The size of the request line and header lines together; larger heads get 431.",
    ),
    option(
        "request_line",
        "SIZE",
        "8k",
        "The size of the request line (method, target and version); longer ones get 414. It also counts towards `head`.",
    ),
    option("headers", "NUMBER", "100", "The number of header lines; more get 431."),
    option("body", "SIZE | off", "off", "The size of the request body; larger ones get 413."),
    option("requests", "NUMBER | off", "off", "The number of requests on one connection."),
    option(
        "hops",
        "NUMBER | off",
        "10",
        "The number of Weir instances that a request may have passed before, as counted in the header `Weir-Hops`; more indicate a loop and get 508. With `off` the header is neither evaluated nor passed on.",
    ),
];

const PATH: &[OptionSpec] = &[
    option(
        "normalize",
        "on | off",
        "on",
        "Normalises the path. With `off` it is sent as received; a server that interprets it differently than routes do may then bypass rules.",
    ),
    option(
        "match",
        "resolved | received",
        "resolved",
        "With `normalize=off`: routes and rewrites see the path decoded once, with empty and dot segments resolved, as in nginx, or byte for byte as received, as in HAProxy. Files are looked up below their directory in the former form in any case.",
    ),
    option(
        "merge_slashes",
        "on | off",
        "on",
        "Merges repeated slashes into one; with `normalize=off`, in the path that routes and rewrites see resolved.",
    ),
    option("encoded_slash", "refuse | keep", "refuse", "The treatment of `%2F`."),
    option("backslash", "refuse | keep", "refuse", "The treatment of a backslash and of `%5C`."),
    option(
        "parameters",
        "refuse | keep",
        "refuse",
        "The treatment of `;`, as in `/page;jsessionid=1`, at which some servers end a segment.",
    ),
    option("nul", "refuse | keep", "refuse", "The treatment of `%00`."),
    option(
        "invalid",
        "refuse | keep",
        "keep",
        "With `normalize=off`: the treatment of malformed escapes, `%00` and dot segments above the root, which nginx refuses.",
    ),
];

const LISTEN_TLS: &[OptionSpec] = &[
    PROTOCOL[0],
    PROTOCOL[1],
    PROTOCOL[2],
    PROTOCOL[3],
    option(
        "names",
        "any | certificate | host",
        "any",
        "The server names (SNI) that get a handshake: all, and without a name too; those of the certificates (HAProxy's `strict-sni`); or those of the `host` blocks (nginx's `ssl_reject_handshake` in the default server). Other clients get an alert.",
    ),
    option(
        "prefer",
        "server | client",
        "",
        "The side whose order of cipher suites decides: by default that of the listener with `ciphers=`, and that of the client otherwise (nginx's `ssl_prefer_server_ciphers`, HAProxy's `prefer-client-ciphers`).",
    ),
];

pub(super) const PROTOCOL: &[OptionSpec] = &[
    option("min", "1.2 | 1.3", "1.2", "The lowest version."),
    option("max", "1.2 | 1.3", "1.3", "The highest version."),
    option(
        "ciphers",
        "NAME:…",
        "",
        "Cipher suites in order of preference; by default all that are considered secure.",
    ),
    option(
        "curves",
        "NAME:…",
        "",
        "Key-exchange groups; by default all that are considered secure. Towards servers they are offered in this order; at a listener the client's order decides.",
    ),
];

const ERROR_PAGE: &[OptionSpec] = &[
    option("text", "TEXT", "", "The page itself, in place of a file; it may contain `$variables`."),
    option("type", "TYPE", "text/plain; charset=utf-8", "The `Content-Type` of the text."),
    ERROR_TARGET[0],
    ERROR_TARGET[1],
    ERROR_TARGET[2],
];

const HEADER_EDIT: &[OptionSpec] = &[
    option(
        "empty",
        "omit | send",
        "omit",
        "A line whose value is empty, because its variables have none, is left out as in nginx, or sent as in HAProxy. Requests have a `Host` that is not empty in any case.",
    ),
    flag(
        "secret",
        "Hides the value in `/v1/config`, in `weir check --json` without `--show-secrets` and in the changes of a reload. Values of `Authorization`, `Cookie`, `Set-Cookie` and of headers whose names end in `-Key` or `-Auth` or contain `token`, `secret`, `passw`, `credential` or `session` are always hidden.",
    ),
    option(
        "if",
        "TEXT",
        "",
        "The change is made only if the text with `$variables` is neither empty nor `0`, for a response with the values that it has, such as `$status`. A route has at most 8 different conditions.",
    ),
];
