//! The directive table: every word of the language once, with where it may stand, what it takes, what holds without it, what
//! it does and how it is written.

use crate::table::{Arrow, BlockRule, Context, OptionSpec, Spec, directive, flag, option};

const MANY: usize = usize::MAX;
const TOP: &[Context] = &[Context::Top];
const LOG: &[Context] = &[Context::Log];
const POOL: &[Context] = &[Context::Pool];
const LISTEN: &[Context] = &[Context::Listen];
const CONDITION: &[Context] = &[Context::Condition];
const TARGET: &[Context] = &[Context::Target];
const EDITS: &[Context] = &[Context::Listen, Context::Route];
const ROUTES: &[Context] = &[Context::Listen, Context::Host];

/// Words that are planned but do nothing yet: an error says so, so that nobody counts on them.
pub(crate) const LATER: &[(Context, &str)] = &[];

/// Policies that are planned.
pub(crate) const LATER_POLICIES: &[&str] = &["peak_ewma"];

/// Every directive.
pub(crate) const DIRECTIVES: &[Spec] = &[
    directive("workers", TOP, "auto | NUMBER", "Worker threads. `auto` is one per core of the allowed set; each is pinned to its core.")
        .default("auto")
        .example("workers 4;"),
    directive(
        "max_connections",
        TOP,
        "NUMBER",
        "Client connections open at once over all listeners. The surplus waits in the kernel's backlog. \
         Without it, as many as the limit of open files allows.",
    )
    .example("max_connections 20000;"),
    directive("shutdown_timeout", TOP, "TIME", "How long a graceful stop waits for running exchanges.")
        .default("30s")
        .example("shutdown_timeout 1m;"),
    directive("admin", TOP, "ADDRESS", "An address where the process is looked at and changed while it runs: an HTTP API, and on a Unix socket also HAProxy's command line. `unix:/path` for whoever the file's owner and mode let in; an IP address and port for whoever brings the token, or only to look.")
        .options(ADMIN)
        .many()
        .example("admin unix:/run/weir/admin.sock mode=0660 group=weir;"),
    directive("state_file", TOP, "FILE", "Keeps what is changed at run time (orders, limits, weights, servers added and removed) over restarts. Reloads keep it anyway. `weir ctl diff` shows what differs from the configuration, `weir ctl adopt` the lines that would take it over, `weir ctl revert` gives it up.")
        .example("state_file /var/lib/weir/state.json;"),
    directive("pid_file", TOP, "FILE", "Holds the number of the process that serves, while it does: written when it serves, also by one that takes over in an upgrade. systemd needs none.")
        .example("pid_file /run/weir/weir.pid;"),
    directive("cpu_credits", TOP, "[KIND]", "This machine has processor credits: it may use more than its baseline as long as it has saved up some, and is slow when they are used up. With this line Weir keeps its books (what it earns, and what all programs use of all cores), says in time when credits will be used up at this rate, and with `shed=` lowers what is asked of it before that. KIND is the name that its cloud gives it: Amazon's `t2.…`, `t3.…`, `t3a.…` and `t4g.…`, Azure's first B series (`Standard_B2s`); else `earn=` and `max=` say it. One credit is one core, fully used, for a minute. A machine that is held to its baseline although it wants more has used up its credits, whatever the books say.")
        .words(0, 1)
        .options(CPU_CREDITS)
        .example("cpu_credits t3.small shed=weight,connections within=15m;"),
    directive("agent", TOP, "ADDRESS", "Tells a balancer in front how much of its share this instance wants, in HAProxy's agent protocol (`agent-check`): whoever connects gets one line, `100%`, or less while processor credits are spared (`cpu_credits … shed=weight`), or `0%` while it stops. Whoever can connect may know.")
        .options(AGENT)
        .many()
        .example("agent :9777;"),
    directive("user", TOP, "USER [GROUP]", "Whom Weir becomes before it serves, by name or number, when root starts it: listening sockets, certificates, logs and the pid file are open by then, and belong to this user as far as they were made for Weir. Without GROUP it is the user's own group; the user's further groups come along. Of root's rights one is kept, to bind ports below 1024 (`CAP_NET_BIND_SERVICE`), so that reloads and upgrades can. Who is not root when it starts is warned that this does nothing. Reloads and upgrades read keys and write logs as this user.")
        .words(1, 2)
        .example("user weir;"),
    directive("group", TOP, "GROUP", "The group that goes with `user`, on a line of its own.")
        .example("group weir;"),
    directive("chroot", TOP, "DIR", "All that Weir sees of the file system while it serves. Certificates, pages, logs and sockets are opened before that, outside; directories of `files` are looked for inside, and so is everything that a reload reads, the configuration included, and the program that an upgrade starts. It takes root, and `user`, since root can leave such a place.")
        .example("chroot /var/lib/weir;"),
    directive("resolver", TOP, "[ADDRESS…]", "The DNS servers that are asked for the names of servers, by IP address, with port 53 if none is given. Without addresses, `/etc/hosts` and the servers of `/etc/resolv.conf`. Names are looked up beside the traffic, again and again: an answer holds for its TTL; when none comes, the last good one stays.")
        .words(0, MANY)
        .options(RESOLVER)
        .example("resolver 10.0.0.53 [2001:db8::53]:5353 valid=10s timeout=2s;"),
    directive("error_log", TOP, "FILE | stdout | stderr | syslog:… [LEVEL]", "Where Weir says what happens to it (servers that go and come, reloads, faults), and the least grave that is written there: `emerg`, `alert`, `crit`, `error`, `warning`, `notice`, `info` or `debug`. Several lines are several places. Without any it is standard error, with `notice`. Files get a time stamp; standard error gets none, and where it is the systemd journal, each line has its level. What ends a start is always told on standard error.")
        .words(1, 2)
        .many()
        .default("stderr notice")
        .example("error_log /var/log/weir/error.log warning;"),
    directive("include", TOP, "FILE | PATTERN", "Puts the directives of these files here. May stand in any block. The path is relative to the file that has the line; a pattern (`*`, `?`, `[…]`) may match nothing and is taken in alphabetical order.")
        .many()
        .example("include conf.d/*.conf;"),
    directive("log", TOP, "NAME", "An access log, written by the listeners that name it.")
        .block(BlockRule::Required(Context::Log))
        .many()
        .example("log access { to /var/log/weir/access.log; format haproxy; }"),
    directive("to", LOG, "FILE | stdout | stderr | syslog:SOCKET[,OPTION…] | syslog:udp:ADDRESS[,OPTION…]", "Where the lines go; several `to` send them to each place, and one that is slow or gone does not hold up the others. A file is appended to and opened anew on USR1. What syslog is told can be set with `,facility=` (`local0`), `,severity=` (`info`) and `,format=` (`rfc3164`, or `rfc5424` with year, zone, microseconds and the log's name); a Unix socket may be of datagrams or a stream.")
        .many()
        .example("to syslog:/dev/log,facility=local1,severity=notice;"),
    directive("format", LOG, "combined | main | haproxy | json | \"TEXT\"", "How a line looks: nginx's `combined`, the same with `X-Forwarded-For` (`main`), HAProxy's `httplog`, one JSON object with times in microseconds, or a text with `$variables`.")
        .default("combined")
        .example("format \"$remote_addr $request $status $t_queue\";"),
    directive("rule", TOP, "NAME { EXPRESSION } | NAME EXPRESSION", "Names an expression, to be used as `rule NAME` in routes and other rules.")
        .words(1, MANY)
        .block(BlockRule::Expression)
        .many()
        .example("rule staff { client 192.0.2.0/24 or header X-Staff=yes }"),
    directive("pool", TOP, "NAME", "A named group of servers with one policy.")
        .block(BlockRule::Required(Context::Pool))
        .many()
        .example("pool app { server 10.0.0.11:8000; server 10.0.0.12:8000; }"),
    directive("balance", POOL, "round_robin | least_conn | fair | random | random2 | first | hash KEY | ring_hash KEY | maglev KEY", "How the pool picks a server: in turn by weight (smoothly interleaved); the one with the fewest exchanges in flight and waiting for it, for its weight; as nginx-upstream-fair does, an idle one in turn, else the one with the fewest exchanges, the longest time ago; one drawn at random by weight; the better of two drawn at random; or the first below its `max_conn`. The last three give a key always to the same server, as long as that may be had, on every worker and after a restart, whatever the order in the file: KEY is a text with `$variables`, such as `$remote_addr`, `$request_uri`, `$http_NAME`, `$cookie_NAME` or `$arg_NAME`. A request for which it comes to nothing goes to any server, by weight. A key whose server is full goes to the next one for it, always the same, or where the pool has a queue waits for its own. `hash` (rendezvous) shares keys exactly by weight; `ring_hash` is nginx's `consistent`; `maglev` looks up fastest among very many servers. When servers come or go, only their own keys move (with `maglev` a few more when the file changes).")
        .words(1, 3)
        .options(BALANCE)
        .default("round_robin")
        .example("balance least_conn;"),
    directive("server", POOL, "ADDRESS", "A server: `10.0.0.1:80`, `[::1]:80`, `name:80`, `unix:/path` or `srv:SERVICE`. A name stands for as many servers as it has addresses, each with these options; they come and go with the answers of DNS (see `resolver`) and are called `name:80`, `name:80~2` and so on. `srv:_http._tcp.example.com` asks for the servers of a service, whose records bring ports, weights and priorities: the lowest priority is the first tier.")
        .options(SERVER)
        .many()
        .example("server 10.0.0.12:8000 name=app2 max_conn=1 weight=2;"),
    directive("keepalive", POOL, "[off]", "Idle connections kept to the servers, and their four limits. `off` closes each connection after its exchange.")
        .words(0, 1)
        .options(KEEPALIVE)
        .example("keepalive idle=200 timeout=30s;"),
    directive("check", POOL, "http [METHOD] [PATH] | tcp | tls", "Probes every server on its own: an HTTP request, a TCP connection, or a TLS handshake by the pool's `tls`. A server is up until proven otherwise: after `fall` failed probes in a row, at the start after the first one; `rise` passed ones bring it back. Each server is probed once an interval, however many workers there are; the first probes of all pools are spread over the interval, in the order of the file. HTTP probes speak TLS when the pool does.")
        .words(1, 3)
        .options(CHECK)
        .example("check http GET /healthz expect=200-399 interval=2s timeout=1s rise=2 fall=3 spread=50%;"),
    directive("passive", POOL, "[off]", "When a server is left out for failures seen in traffic. When it may come back, its first exchange decides: another failure leaves it out again.")
        .words(0, 1)
        .options(PASSIVE)
        .example("passive errors=3 window=5s eject=30s;"),
    directive("stall", POOL, "[off]", "A server that takes requests and does not answer gets no more of them until it answers: when two or more are without an answer for far longer than its answers usually take, while another server of the pool answers. What is in flight there waits on. In a pool without `max_conn`, one that is silent for longer than usual is passed over even before that, while another that answers has far fewer requests in flight. At most half of a pool's servers count as stalled; sticky clients stay; after 10 seconds, and when nothing is in flight there, one request tries it.")
        .words(0, 1)
        .options(STALL)
        .example("stall factor=5 floor=50ms;"),
    directive("queue", POOL, "[off]", "What happens when all servers are at their `max_conn`: requests wait, and a place that becomes free goes to the one that came first, whichever worker has it. A client that leaves is taken out at once. With `off`, and when the queue is full or the wait was too long, the answer is an error at once. Where no server has `max_conn`, nobody waits.")
        .words(0, 1)
        .options(QUEUE)
        .example("queue timeout=5s max=500 status=503 retry_after=1s page=sorry.html;"),
    directive("retry", POOL, "[NUMBER | off]", "Further attempts, 2 by default, when one at a server fails before the client was sent anything: at a server that was not tried yet, as long as there is one. A request that may have had an effect (POST, PATCH) is not retried once bytes of it were sent, and a body can only be sent again if it came whole with the head or is held by `buffer_request`. A request that the queue turned away is not retried; one that is retried waits, where it has to wait, behind those who wait already.")
        .words(0, 1)
        .options(RETRY)
        .example("retry 2 on=connect,reset,503 budget=10% backoff=25ms;"),
    directive("timeout", POOL, "", "How long Weir waits on the servers' side.")
        .words(0, 0)
        .options(UPSTREAM_TIMEOUT)
        .example("timeout connect=1s response=10s;"),
    directive("tls", POOL, "", "TLS to the servers. Their certificates are verified unless `verify=off`.")
        .words(0, 0)
        .options(CLIENT_TLS)
        .example("tls name=backend.internal ca=/etc/weir/ca.pem;"),
    directive("sticky", POOL, "cookie NAME insert", "Brings a client back to the server that served it first, by a cookie of Weir's own. Its value says nothing to clients, is the same in every instance with this configuration and survives restarts. Servers never see the cookie, and a `Set-Cookie` of theirs with its name is dropped. It is set when a client comes without one or was served by another server; that response gets `Cache-Control: private`, unless it has that already. A server that is `down`, unhealthy or left out is replaced by another, and so is the cookie; one that drains keeps its clients. For one that is full its clients wait in the pool's queue, in order of arrival with everybody else who may have it; without a queue they go to another.")
        .words(3, MANY)
        .options(STICKY)
        .example("sticky cookie SRV insert httponly secure samesite=lax secret_file=/etc/weir/sticky.secret;"),
    directive("buffer_request", POOL, "SIZE | off", "Reads a request's whole body, up to this size, before a server is picked, so that slow clients take no server's time. Larger ones get 413.")
        .default("off")
        .example("buffer_request 1m;"),
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
    directive("limits", LISTEN, "", "What a client may send.")
        .words(0, 0)
        .options(LIMITS)
        .example("limits head=16k body=8m;"),
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
    directive("allow", EDITS, "NETWORK… | all", "Lets these clients in. The first `allow` or `deny` that matches decides; who matches none is let in.")
        .words(1, MANY)
        .many()
        .example("allow 192.0.2.0/24;"),
    directive("deny", EDITS, "NETWORK… | all", "Answers these clients with 403.").words(1, MANY).many().example("deny all;"),
    directive("header", EDITS, "set NAME VALUE | add NAME VALUE | remove NAME", "Changes a header of the request sent to the server. Values may have `$variables`; a listener's changes come before a route's.")
        .words(2, 3)
        .many()
        .example("header set X-Client $remote_addr;"),
    directive("response_header", EDITS, "set NAME VALUE | add NAME VALUE | remove NAME", "Changes a header of the response sent to the client.")
        .words(2, 3)
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
    directive("path", CONDITION, "PATTERN…", "The path is one of these: `/exact`, `/prefix/*`, a glob such as `/a/*/b` (between two slashes) or `*.php`, `~regex`, or `~*regex` where case does not count. A regex with `{` has to be quoted.")
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

const BALANCE: &[OptionSpec] = &[
    flag(
        "no_rr",
        "With `fair`: looks for an idle server from the first on every time, so that the last ones in the file get something only when the others are busy.",
    ),
    option(
        "weight_mode",
        "default | idle | peak",
        "default",
        "With `fair`, what weights are: shares; the number of exchanges up to which a server counts as idle; or the most it takes, as `max_conn` would be.",
    ),
    option(
        "balance_factor",
        "PERCENT",
        "",
        "With `hash`, `ring_hash` and `maglev`: a server takes at most this much of its fair share of the exchanges in flight, the next one for the key takes what is over. Without it, a key's server takes all of its requests.",
    ),
];

const SERVER: &[OptionSpec] = &[
    option("name", "NAME", "", "Its name in logs; without it, the address as written."),
    option("weight", "1…65535", "1", "Its share."),
    option("max_conn", "NUMBER", "", "Most exchanges in flight at once, over all workers."),
    option(
        "priority",
        "0…254",
        "0",
        "Its tier. A lower tier (a higher number) is used only when no server of the higher ones can be.",
    ),
    flag("backup", "Used only when no other server can be: a tier below every `priority`."),
    flag("down", "Takes nothing: maintenance."),
    flag("drain", "Takes only clients that a sticky cookie binds to it."),
    option(
        "host",
        "NAME",
        "",
        "Its own name, asked for and verified in TLS and the `Host` of probes; without it, the name or address that it is found by.",
    ),
    option(
        "check",
        "ADDRESS | off",
        "",
        "Where it is probed when not at its own address (an IP address and port, or `unix:/path`), or that it is not.",
    ),
];

const CHECK: &[OptionSpec] = &[
    option("interval", "TIME", "2s", "From the start of one probe to the start of the next."),
    option(
        "timeout",
        "TIME",
        "1s",
        "For the whole probe; by default half the interval when that is shorter.",
    ),
    option("rise", "NUMBER", "2", "Passed probes in a row that bring a server back."),
    option("fall", "NUMBER", "3", "Failed probes in a row that take it out."),
    option("fast", "TIME", "", "The interval while the latest results contradict the verdict."),
    option("down", "TIME", "", "The interval while the server is down."),
    option(
        "spread",
        "PERCENT",
        "10%",
        "By how much of the interval each wait is drawn shorter or longer, at most `50%`.",
    ),
    option(
        "panic",
        "PERCENT | off",
        "off",
        "With a smaller share of the servers up, and no backup up, probes do not count: the probes are rather wrong than right.",
    ),
    option("port", "PORT", "", "Port to probe, when it is not the server's own."),
    option(
        "expect",
        "STATUS,… | TEXT",
        "200-399",
        "`http`: statuses that pass, as `200` or `200-299,301`. `tcp`: what has to come back, a text or `~regex`; without it, the connection is enough.",
    ),
    option(
        "host",
        "NAME",
        "",
        "`http`: the `Host` header; without it, the server's own name or address.",
    ),
    option(
        "header",
        "NAME[=PATTERN]",
        "",
        "`http`: a header that the response has to have, with this value if there is one: exact, with `*` for anything, `~regex` or `~*regex`.",
    ),
    option(
        "body",
        "TEXT",
        "",
        "`http`: what the body has to hold within its first 64k, a text, `~regex` or `~*regex`.",
    ),
    option("tls", "on | off", "", "`http`: whether TLS is spoken; without it, as the pool does."),
    option("send", "TEXT", "", "`tcp`: sent once connected."),
];

const KEEPALIVE: &[OptionSpec] = &[
    option("idle", "NUMBER", "100", "Most idle connections per server, over all workers."),
    option("timeout", "TIME", "55s", "An idle connection is closed after this."),
    option("max_requests", "NUMBER", "100000", "Exchanges over one connection."),
    option("max_age", "TIME", "1h", "Age at which a connection is closed instead of kept."),
];

const PASSIVE: &[OptionSpec] = &[
    option("errors", "NUMBER", "5", "Failures within the window."),
    option(
        "on",
        "CAUSE,…",
        "connect",
        "What is a failure: `connect` (no connection, or no TLS on it), `reset` (the connection ended before the head of a response), `timeout` (no head in time), `status` (a 502, 503 or 504).",
    ),
    option("window", "TIME", "10s", "The window they are counted in."),
    option(
        "eject",
        "TIME",
        "10s",
        "How long the server stays out: this long, or by chance up to a fifth longer, so that one that fails in a rhythm is not always met in the same moment of it, and several instances do not come back to it at once.",
    ),
    option("max_ejected", "PERCENT", "50%", "Share of the pool that may be out at once."),
];

const STALL: &[OptionSpec] = &[
    option(
        "factor",
        "NUMBER",
        "3",
        "How many times longer than 99 of 100 of its answers took. Until ten answers are known, the server has a second.",
    ),
    option("floor", "TIME", "20ms", "And at least this long."),
];

const QUEUE: &[OptionSpec] = &[
    option(
        "timeout",
        "TIME",
        "",
        "Longest wait of a request, over all its attempts; without it, the pool's `timeout connect=`.",
    ),
    option("max", "NUMBER", "1024", "Most requests that wait at once, over all workers."),
    option(
        "per_endpoint",
        "NUMBER",
        "",
        "Most that wait at once for one server because a cookie or a hash leads them there; who comes later takes any. Without it, only `max` counts.",
    ),
    option(
        "status",
        "STATUS",
        "503",
        "The answer when there is no room, or the wait was too long.",
    ),
    option(
        "retry_after",
        "TIME",
        "",
        "Tells the client in `Retry-After` when to come again, in whole seconds.",
    ),
    option(
        "page",
        "FILE",
        "",
        "A page for that answer, read when the configuration is loaded; without it, the `error_page` of the status.",
    ),
    option("type", "TYPE", "", "The page's `Content-Type`; without it, by the file's ending."),
];

const STICKY: &[OptionSpec] = &[
    flag("httponly", "Hides the cookie from scripts."),
    option(
        "secure",
        "auto",
        "",
        "Like `secure`, but only where the request came over TLS, to Weir or to a trusted proxy that says so.",
    ),
    flag("secure", "Browsers send the cookie over TLS only."),
    option(
        "samesite",
        "lax | strict | none",
        "",
        "Whether browsers send it with requests that other sites caused: when a link is followed, never, or always. With `secure=auto`, `none` is said over TLS only, since browsers refuse it elsewhere.",
    ),
    option("path", "PATH", "/", "The paths it is sent for."),
    option(
        "domain",
        "NAME",
        "",
        "The domain whose hosts it is sent to; without it, the host that set it.",
    ),
    option(
        "max_age",
        "TIME",
        "",
        "How long it lasts, from when it was set; without it, until the browser is closed.",
    ),
    option(
        "secret",
        "TEXT",
        "",
        "Signs the value, so that nobody can make one that was not given out. At least 16 bytes, the same in every instance. Another secret, another pool or server name makes every cookie given out so far unknown. Without a secret cookies survive restarts as well, but who knows the servers' names can make one; `weir check` says so.",
    ),
    option(
        "secret_file",
        "FILE",
        "",
        "The same, read from a file when the configuration is loaded; white space at its end does not count.",
    ),
];

const RETRY: &[OptionSpec] = &[
    option(
        "on",
        "WORD,…",
        "connect",
        "After what. `connect`: no connection, for whatever reason. `refused`: only when it was refused. `reset`: the connection ended before the head of a response. `timeout`: the request was not taken or not answered in time. `invalid`: the response was no HTTP. `400` to `599`: a response of this status; it is thrown away unless it is the last.",
    ),
    option(
        "budget",
        "PERCENT | auto | off",
        "auto",
        "Retries in the pool at most, as a share of the requests of the last ten seconds; three more a second are always allowed. `auto` is 20%, or no bound where only `connect` and `refused` are retried.",
    ),
    option(
        "backoff",
        "TIME | off",
        "off",
        "When no other server is left, a tried one is asked again, after a random part of this time; the time is doubled with each such wait, up to ten times. With `off` no server is asked twice.",
    ),
    option(
        "within",
        "TIME | off",
        "off",
        "No retry begins later than this after the request's head.",
    ),
    flag(
        "non_idempotent",
        "Retry POST, PATCH and unknown methods too, although they may then take effect twice.",
    ),
];

const UPSTREAM_TIMEOUT: &[OptionSpec] = &[
    option("connect", "TIME", "5s", "Until connected, TLS handshake included."),
    option("send", "TIME", "1m", "Without progress while a request is sent."),
    option("response", "TIME", "1m", "From the request sent to the head of the response."),
    option("read", "TIME", "1m", "Between two reads of a response's body."),
    option("tunnel", "TIME", "1h", "Without a byte either way in a tunnel."),
];

const CLIENT_TIMEOUT: &[OptionSpec] = &[
    option("handshake", "TIME", "10s", "TLS handshake."),
    option("head", "TIME", "10s", "First byte of a request's head to its end."),
    option("body", "TIME", "30s", "Between two reads of a request's body."),
    option("keepalive", "TIME", "75s", "Idle between requests."),
    option("send", "TIME", "1m", "Without progress while a response is written."),
];

const LIMITS: &[OptionSpec] = &[
    option("head", "SIZE", "32k", "Request line and header lines together; more gets 431."),
    option("headers", "NUMBER", "100", "Header lines; more gets 431."),
    option("body", "SIZE | off", "off", "Body; more gets 413."),
    option("requests", "NUMBER | off", "off", "Requests on one connection."),
];

const PROTOCOL: &[OptionSpec] = &[
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

const CLIENT_TLS: &[OptionSpec] = &[
    option("verify", "on | off", "on", "Verify the server's certificate."),
    option(
        "name",
        "NAME",
        "",
        "Name asked for and verified; without it, the server's own name or address.",
    ),
    option("ca", "FILE", "", "Trusted roots in PEM; without it, the system's."),
    option("certificate", "FILE", "", "Client certificate to present."),
    option("key", "FILE", "", "Its key, when it is not in the same file."),
    PROTOCOL[0],
    PROTOCOL[1],
    PROTOCOL[2],
    PROTOCOL[3],
];

const RESOLVER: &[OptionSpec] = &[
    option("valid", "TIME", "", "How long an answer holds, whatever its TTL."),
    option("min_ttl", "TIME", "1s", "A shorter TTL counts as this."),
    option("max_ttl", "TIME", "1h", "A longer TTL counts as this."),
    option("timeout", "TIME", "5s", "For a whole look-up, all tries included."),
    option("ipv4", "on | off", "on", "Whether IPv4 addresses are asked for."),
    option(
        "ipv6",
        "on | off",
        "on",
        "Whether IPv6 addresses are asked for; they are used where a name has none of IPv4.",
    ),
];

const CPU_CREDITS: &[OptionSpec] = &[
    option("earn", "NUMBER", "", "Credits earned in an hour; 60 are one core all the time."),
    option("max", "NUMBER", "", "Most credits that are saved up."),
    option("launch", "NUMBER", "0", "Credits that the machine is started with."),
    option(
        "balance",
        "NUMBER",
        "",
        "Credits that it has when Weir starts. Without it, what `file=` kept, or an estimate from what was used since the machine was started.",
    ),
    option(
        "file",
        "FILE",
        "",
        "Keeps the books over restarts and upgrades of Weir, until the machine itself is started anew.",
    ),
    option(
        "warn",
        "TIME | off",
        "30m",
        "It is said when credits will be used up within this time, again at a quarter of it, when they are, and when they last again.",
    ),
    option(
        "shed",
        "WHAT,…",
        "",
        "What is lowered so that credits last: `weight` (what `agent` and `/v1/weight` say) and `connections` (how many may be open; those beyond it wait in the kernel's backlog, and those that are open stay). Without it, nothing.",
    ),
    option(
        "within",
        "TIME",
        "15m",
        "It is lowered when credits would be used up within this time, as far as it takes for them to last that long: they get fewer ever more slowly, down to what the baseline carries.",
    ),
    option("floor", "PERCENT", "10%", "It is lowered to this share at most."),
];

const AGENT: &[OptionSpec] =
    &[option("mode", "MODE", "", "Permissions of a Unix socket, in octal.")];

const ADMIN: &[OptionSpec] = &[
    option("mode", "MODE", "0660", "Permissions of a Unix socket, in octal."),
    option(
        "owner",
        "USER",
        "",
        "The user a Unix socket belongs to; without it, whoever runs Weir.",
    ),
    option("group", "GROUP", "", "The group a Unix socket belongs to."),
    flag("read_only", "Nothing can be changed over it."),
    option(
        "token_file",
        "FILE",
        "",
        "File with the token that every request over TCP has to bring, as `Authorization: Bearer TOKEN`.",
    ),
];

const LISTEN_OPTIONS: &[OptionSpec] = &[
    flag("tls", "Clients speak TLS; a `certificate` is needed."),
    option("name", "NAME", "", "Its name in logs; without it, the first address as written."),
    option(
        "max_connections",
        "NUMBER",
        "",
        "Client connections open at once here; the surplus waits in the kernel's backlog.",
    ),
    option("mode", "OCTAL", "", "File mode of Unix sockets, such as `0660`."),
];

const RESPOND: &[OptionSpec] =
    &[option("type", "TYPE", "text/plain; charset=utf-8", "The `Content-Type` of the text.")];

const FILES: &[OptionSpec] = &[
    option("strip", "PREFIX", "", "Cut off the path before looking below the directory."),
    option("index", "NAME,…", "index.html", "Files tried in order for a directory."),
];
