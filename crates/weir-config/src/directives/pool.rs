//! Directives of pools. The checks are in `check/pool.rs` and the modules beside it.

use super::listen::PROTOCOL;
use super::spec::{BlockRule, Context, MANY, OptionSpec, POOL, Spec, TOP, directive, flag, option};

/// The directives, in the order of the reference page.
pub(super) const DIRECTIVES: &[Spec] = &[
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
    directive("limits", POOL, "", "Bounds on the pool as a whole, over all workers: a circuit breaker by concurrency. What is beyond is answered with 503 at once (cause `pool_full`), or not retried. They stand beside `max_conn=` of servers (a server's connections in use are its requests in flight), `max=` of `queue` and `budget=` of `retry`.")
        .words(0, 0)
        .options(&[
            option("max_in_flight", "NUMBER", "", "Requests at its servers and in its queue at once."),
            option("max_retries", "NUMBER", "", "Of them, those that are sent once more."),
        ])
        .example("limits max_in_flight=1000 max_retries=10;"),
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
        "per_client",
        "NUMBER",
        "",
        "Most of one client (its address behind `trusted_proxies`, or its /64) that wait at once, so that none fills the queue; more are answered as if there were no room.",
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
    option(
        "request",
        "TIME | off",
        "off",
        "The whole exchange, as `timeout request=` of the listener; the shorter of the two holds.",
    ),
    option(
        "try",
        "TIME | off",
        "off",
        "One attempt at a server, from when it was picked to the head of its response, connecting included; time in which the client's body is waited for does not count. `retry on=timeout` may follow.",
    ),
    option(
        "min_rate",
        "SIZE | off",
        "off",
        "Bytes a second that a server at least sends of a response's body while it is waited for, on average over `after`. Not for streams of events, which are silent for long.",
    ),
    option(
        "after",
        "TIME",
        "30s",
        "How much time of waiting for the server the rate is measured over.",
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
    option(
        "srv_name",
        "domain | target",
        "domain",
        "For servers of a service (`srv:_https._tcp.example.com`) without `name=` and `host=`: the name asked for and verified is the service's domain (`example.com`), or the target that DNS gave, which whoever can forge DNS answers chooses (RFC 6125 section 6.2.1, RFC 9525 section 6.1).",
    ),
    option("ca", "FILE", "", "Trusted roots in PEM; without it, the system's."),
    option("certificate", "FILE", "", "Client certificate to present."),
    option("key", "FILE", "", "Its key, when it is not in the same file."),
    PROTOCOL[0],
    PROTOCOL[1],
    PROTOCOL[2],
    PROTOCOL[3],
];
