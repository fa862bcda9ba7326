//! Directives of pools. The checks are in `check/pool.rs` and the modules beside it.

use super::listen::PROTOCOL;
use super::spec::{
    BlockRule, CHECK, Context, MANY, OptionSpec, POOL, POOL_AND_ROUTE, Spec, TOP, directive, flag,
    option,
};

/// The directives, in the order of the reference page.
pub(super) const DIRECTIVES: &[Spec] = &[
    directive("pool", TOP, "NAME", "A named group of servers with one policy.")
        .block(BlockRule::Required(Context::Pool))
        .many()
        .example("pool app { server 10.0.0.11:8000; server 10.0.0.12:8000; }"),
    directive("balance", POOL, "round_robin | least_conn | fair | random | random2 | least_time [header | last_byte] | peak_ewma | first | hash KEY | ring_hash KEY | maglev KEY", "The load balancing policy. `round_robin` takes servers in turn by weight, smoothly interleaved. `least_conn` picks the server with the fewest exchanges in flight and waiting for it, relative to its weight. `fair` works as nginx-upstream-fair: an idle server in turn, otherwise the one with the fewest exchanges, and among equals the one that was picked longest ago. `random` draws a server by weight, `random2` picks the better of two drawn ones. `least_time` picks the server with the lowest product of its average response time and the exchanges in flight, this one included, relative to its weight; `peak_ewma` does so by an average that rises at once to a longer response time and falls slowly. The averages are those of all workers, up to the head of the response or, with `last_byte`, to its end (a request whose body is still arriving when it is sent on is not measured); they fall while a server does not respond, so that it is tried again, and a failure (see `passive`) doubles them. Error responses count, too: a server that fails fast is kept away by `passive on=status`. A server that has not responded yet counts as fast as the fastest one. In pools of more than 64 servers the better of two drawn ones is taken. `first` picks the first server below its `max_conn`. `hash`, `ring_hash` and `maglev` always map a key to the same server while it is available, on every worker and after a restart, whatever the order in the file. KEY is a text with `$variables`, such as `$remote_addr`, `$request_uri`, `$http_NAME`, `$cookie_NAME` or `$arg_NAME`. A request with an empty key goes to any server, by weight. A key whose server is full goes to the next server for this key, always the same one, or waits for its own server if the pool has a queue. `hash` (rendezvous hashing) distributes keys exactly by weight; `ring_hash` corresponds to nginx's `consistent`; `maglev` has the fastest lookup for very many servers. When servers are added or removed, only their keys move (with `maglev` a few more when the file changes).")
        .words(1, 3)
        .options(BALANCE)
        .default("round_robin")
        .example("balance least_conn;"),
    directive("server", POOL, "ADDRESS", "A server: `10.0.0.1:80`, `[::1]:80`, `name:80`, `unix:/path`, `unix:@name` (a Unix socket without a file) or `srv:SERVICE`. A name stands for one server per address, each with these options; they follow the DNS answers (see `resolver`) and are called `name:80`, `name:80~2` and so on. `srv:_http._tcp.example.com` resolves the servers of a service from SRV records, which contain ports, weights and priorities; the lowest priority is the first tier.")
        .options(SERVER)
        .many()
        .example("server 10.0.0.12:8000 name=app2 max_conn=1 weight=2;"),
    directive("keepalive", POOL, "[off]", "Idle connections kept open to the servers, and their limits. With `off` each connection is closed after its exchange.")
        .words(0, 1)
        .options(KEEPALIVE)
        .example("keepalive idle=200 timeout=30s;"),
    directive("check", POOL, "http [METHOD] [PATH] | tcp | tls | grpc", "Active health checks: each server is probed with an HTTP request, a TCP connection, a TLS handshake with the pool's `tls` settings, or a call of `grpc.health.v1.Health/Check` over HTTP/2. A server counts as up until `fall` probes in a row have failed (at the start, until the first probe has failed); `rise` passed probes bring it up again. Each server is probed once per interval, independent of the number of workers; the first probes of all pools are spread over the interval, in the order of the file. Probes of HTTP and gRPC use TLS if the pool does. A block makes a probe of several steps, which all have to pass within its timeout: the conversation of a `tcp` probe, or further requests of an `http` probe.")
        .words(1, 3)
        .options(CHECK_OPTIONS)
        .block(BlockRule::Optional(Context::Check))
        .example("check http GET /healthz expect=200-399 interval=2s timeout=1s rise=2 fall=3 spread=50%;"),
    directive("connect", CHECK, "", "`tcp`: opens a connection for the steps after it, in place of the one before. Without it the conversation begins on a connection to the check's port, without TLS. HAProxy calls this `tcp-check connect`.")
        .words(0, 0)
        .options(&[
            option("port", "PORT", "", "The port; by default that of the check."),
            option("tls", "on | off", "off", "Uses TLS with the pool's `tls` settings."),
            flag("send_proxy", "Begins the connection with a PROXY header, in the version of the pool's `send_proxy`, or else version 1."),
        ])
        .many()
        .example("connect port=6380;"),
    directive("header", CHECK, "NAME VALUE", "`http`: a header of the `request` before it, or else of the first request. `Host` is its option `host=`.")
        .words(2, 2)
        .many()
        .example("header X-Probe weir;"),
    directive("send", CHECK, "[TEXT]", "`tcp`: sends a text, or bytes. `http`: the body of the `request` before it, or else of the first request.")
        .words(0, 1)
        .options(&[option("hex", "DIGITS", "", "The bytes, as two hexadecimal digits each.")])
        .many()
        .example("send \"PING\\r\\n\";"),
    directive("expect", CHECK, "TEXT", "`tcp`: waits until what the server sent since the latest `send` or `connect` contains a text or matches a `~regex` or `~*regex`; at most the first 64k are looked at. Several in a row look at the same reply. Bytes are written as `~(?-u:\\xff\\x00)`.")
        .options(&[
            flag("absent", "Fails if the reply contains it. It passes once `min_bytes` have come, or else at the end of the reply: a server that neither closes the connection nor sends it does not pass."),
            option("min_bytes", "NUMBER", "", "Judges the reply once so many bytes have come, instead of waiting for more. HAProxy calls this `min-recv`."),
        ])
        .many()
        .example("expect +PONG;"),
    directive("request", CHECK, "[METHOD] PATH", "`http`: a further request, after those before it have passed, on a connection of its own. Its options are those of `check http`; without them they have their defaults.")
        .words(1, 2)
        .options(&[
            option("expect", "STATUS,…", "200-399", "The statuses that pass."),
            option("host", "NAME", "", "The `Host` header; by default the server's own name or address."),
            option("header", "NAME[=PATTERN]", "", "A header that the response must have."),
            option("body", "TEXT", "", "A text, `~regex` or `~*regex` that the body must contain."),
            option("not_header", "NAME[=PATTERN]", "", "A header that the response must not have."),
            option("not_body", "TEXT", "", "A text, `~regex` or `~*regex` that the body must not contain."),
            option("version", "1.0 | 1.1", "1.1", "The version of the request."),
            flag("bare", "Sends no `Host`, `User-Agent` and `Accept` but those that are given."),
            option("tls", "on | off", "", "Uses TLS or not; by default as the pool."),
            option("port", "PORT", "", "The port; by default that of the check."),
        ])
        .many()
        .example("request GET /ready expect=204;"),
    directive("agent_check", POOL, "", "Asks a program beside each server how the server is, as HAProxy's `agent-check` does: Weir connects, sends the text of `send=` if there is one, and reads one line of at most 1024 bytes. Its words, separated by blanks or commas: `up` and `down`, `fail`, `failed` or `stopped` (with a description after `#`) are a verdict beside that of `check`, and both have to be good; `ready`, `drain` and `maint` are orders; `50%` is the weight in percent of the one in the file, rounded down (with 0 the server drains, beside any order), so that weights like `weight=100` leave room for it; servers that were added at run time and those of a service have none in the file and keep theirs; `maxconn:30` is `max_conn=`. Orders, weights and limits are changes at run time as an operator makes them, and hold until the agent or an operator changes them. What the agent does not say stays; an agent that does not answer, or says something else, changes nothing.")
        .words(0, 0)
        .options(AGENT_CHECK)
        .example("agent_check port=9707 interval=5s;"),
    directive("passive", POOL, "[off]", "Passive health checks: a server is ejected after failures in traffic. When the ejection ends, the first exchange decides: another failure ejects the server again.")
        .words(0, 1)
        .options(PASSIVE)
        .example("passive errors=3 window=5s eject=30s;"),
    directive("on_down", POOL, "keep | close", "The fate of exchanges and TCP connections at a server whose health checks begin to fail, which failures in traffic eject, or which is put into maintenance: they go on (`keep`), or end at once with the cause `endpoint_down` (`close`), so that clients of a database leave a server that is no longer the primary. HAProxy has it as `on-marked-down shutdown-sessions`.")
        .words(1, 1)
        .default("keep")
        .example("on_down close;"),
    directive("on_up", POOL, "keep | close_backups", "The fate of exchanges and TCP connections at servers of later tiers (`backup`, or a higher `priority=`) when a server's health checks pass again, its ejection ends or its maintenance is over: they go on (`keep`), or end at once with the cause `endpoint_down` (`close_backups`), so that clients return to the server that they belong to. HAProxy has it as `on-marked-up shutdown-backup-sessions`.")
        .words(1, 1)
        .default("keep")
        .example("on_up close_backups;"),
    directive("stall", POOL, "[off]", "Detects servers that accept requests and do not answer. A server is stalled if two or more requests have waited far longer than its usual response time while another server of the pool answers; it gets no further requests until it answers, and requests in flight keep waiting. In a pool without `max_conn`, a server that is silent for longer than usual is avoided even before that, as long as another server that answers has far fewer requests in flight. At most half of a pool's servers count as stalled, and sticky clients stay at their server. After 10 seconds, if nothing is in flight there, one request tries the server.")
        .words(0, 1)
        .options(STALL)
        .example("stall factor=5 floor=50ms;"),
    directive("queue", POOL, "[off]", "The queue for requests while all servers are at their `max_conn`. A slot that becomes free goes to the request that arrived first, over all workers. A request whose client disconnects leaves the queue at once. With `off`, if the queue is full, or after the timeout, the response is an error. Without `max_conn` no request waits.")
        .words(0, 1)
        .options(QUEUE)
        .example("queue timeout=5s max=500 status=503 retry_after=1s page=sorry.html;"),
    directive("retry", POOL_AND_ROUTE, "[NUMBER | off]", "The number of further attempts, by default 2, after an attempt fails before anything was sent to the client. A retry goes to a server that has not been tried yet, while there is one. A request that may have had an effect (POST, PATCH) is not retried once bytes of it were sent, and a body can only be sent again up to 64 KiB, or if it is buffered by `buffer_request`. A request that the queue refused is not retried; a retry that has to wait joins the end of the queue. In a route it replaces the pool's, with all options but `budget=`, which is the pool's alone.")
        .words(0, 1)
        .options(RETRY)
        .example("retry 2 on=connect,reset,503 backoff=25ms;"),
    directive("timeout", POOL, "", "Timeouts on the server side.")
        .words(0, 0)
        .options(UPSTREAM_TIMEOUT)
        .example("timeout connect=1s response=10s;"),
    directive("tls", POOL, "", "TLS to the servers. Their certificates are verified, except with `verify=off`.")
        .words(0, 0)
        .options(CLIENT_TLS)
        .example("tls name=backend.internal ca=/etc/weir/ca.pem;"),
    directive("check_tls", POOL, "", "TLS of health checks, for servers that requests reach without it, such as those of a `tcp` listener that passes TLS on: what `check tls` and `tls=on` of a check verify. HAProxy calls this `check-ssl`.")
        .words(0, 0)
        .options(CLIENT_TLS)
        .example("check_tls ca=/etc/weir/ca.pem;"),
    directive("source", POOL, "ADDRESS", "The address of this machine that connections to the servers come from, probes included: an IP address, and a port if each of them is to come from the same one, so that there is at most one to each server at a time. A port that a reload brings needs an upgrade of the process if it runs in the sandbox and no `source` had a port at its start. Without it the kernel chooses. HAProxy calls this `source`, nginx `proxy_bind`.")
        .example("source 192.0.2.7;"),
    directive("send_proxy", POOL, "v1 | v2", "Begins each connection to a server with a header of the PROXY protocol, which tells the client's address and the one that it connected to; probes tell that the connection is Weir's own. Each connection then serves one client: none is kept for others (`keepalive` has no effect). HAProxy calls this `send-proxy`, nginx `proxy_protocol on`.")
        .options(SEND_PROXY)
        .example("send_proxy v2 tlv=tls,authority,unique_id;"),
    directive("http_version", POOL, "1 | 2 | auto", "The version of HTTP that servers are asked in. With `2`, requests share connections of HTTP/2, each as a stream, within the server's limit; with TLS the server has to choose it in the handshake (ALPN), without TLS it is spoken at once (prior knowledge). With `auto` the server chooses in the TLS handshake; without TLS it is HTTP/1.1. `max_conn=` counts streams. A WebSocket goes to a server of HTTP/2 if that permits it (RFC 8441); otherwise it has a connection of HTTP/1.1 with `auto`, and fails with 501 and the cause `no_websocket` with `2`. HAProxy calls this `proto h2` and `alpn`, nginx `proxy_http_version 2`, Envoy `http2_protocol_options`.")
        .default("1")
        .example("http_version 2;"),
    directive("sticky", POOL, "cookie NAME insert | rewrite | prefix | follow", "Session affinity by a cookie: a client returns to the server that served it first. With `insert` Weir sets the cookie. Its value is opaque to clients, the same in every instance with this configuration, and stays valid over restarts, unless servers have values of their own (`server … cookie=`). Servers do not see the cookie, and a `Set-Cookie` of a server with the same name is dropped. With the other modes, which need `server … cookie=`, servers set the cookie themselves: Weir replaces its value with that of the server (`rewrite`), puts that and `~` before it and takes both from later requests (`prefix`), or changes nothing (`follow`). The cookie is set if a request has none or was served by another server; that response gets `Cache-Control: private` unless it has it already. A server that is `down`, unhealthy or ejected is replaced by another, and the cookie with it; a draining server keeps its clients. If the server is full, its clients wait in the pool's queue in order of arrival, or go to another server if the pool has no queue.")
        .words(3, MANY)
        .options(STICKY)
        .example("sticky cookie SRV insert httponly secure samesite=lax secret_file=/etc/weir/sticky.secret;"),
    directive("connect_status", POOL, "STATUS", "The status of the response if no connection to a server comes about, after all attempts: by default 502, or 504 if the time for it ran out. HAProxy answers 503.")
        .example("connect_status 503;"),
    directive("buffer_request", POOL_AND_ROUTE, "SIZE | off", "Reads the whole body of a request, up to this size, before a server is picked, so that slow clients do not occupy servers. Larger bodies get 413. In a route it replaces the pool's.")
        .default("off")
        .example("buffer_request 1m;"),
    directive("limits", POOL, "", "Limits on the pool as a whole, over all workers: a circuit breaker by concurrency. A request beyond the limit gets 503 at once (cause `pool_full`); a retry beyond it is not made. They are in addition to `max_conn=` of servers (the connections in use of a server are its requests in flight), `max=` of `queue` and `budget=` of `retry`.")
        .words(0, 0)
        .options(&[
            option("max_in_flight", "NUMBER", "", "The number of requests at its servers and in its queue."),
            option("max_retries", "NUMBER", "", "The number of retries among them."),
        ])
        .example("limits max_in_flight=1000 max_retries=10;"),
];

const BALANCE: &[OptionSpec] = &[
    option(
        "decay",
        "TIME",
        "10s",
        "With `peak_ewma`: the time after which a response time counts about a third (1/e). With `least_time` it is 10 seconds.",
    ),
    flag(
        "no_rr",
        "With `fair`: the search for an idle server always begins at the first one, so that the last servers in the file get requests only while the others are busy.",
    ),
    option(
        "weight_mode",
        "default | idle | peak",
        "default",
        "With `fair`: the meaning of weights. `default`: shares; `idle`: the number of exchanges up to which a server counts as idle; `peak`: the largest number of exchanges, as `max_conn`.",
    ),
    option(
        "balance_factor",
        "PERCENT",
        "",
        "With `hash`, `ring_hash` and `maglev`: a server gets at most this multiple of its fair share of the exchanges in flight; further ones go to the next server for the key. By default there is no such limit.",
    ),
    option(
        "ipv4",
        "BITS",
        "32",
        "With `hash`, `ring_hash` and `maglev` of `$remote_addr`: the prefix length; IPv4 addresses with the same prefix get the same server. nginx's `ip_hash` corresponds to `hash $remote_addr ipv4=24`.",
    ),
    option("ipv6", "BITS", "128", "The prefix length for IPv6 addresses."),
];

const SERVER: &[OptionSpec] = &[
    option(
        "name",
        "NAME",
        "",
        "The name of the server in logs; by default the address as written.",
    ),
    option("weight", "1…65535", "1", "The share of the server."),
    option(
        "max_conn",
        "NUMBER",
        "",
        "The largest number of exchanges in flight, over all workers.",
    ),
    option(
        "slow_start",
        "TIME",
        "",
        "The time in which the server's share grows linearly from a hundredth to the whole after it was unavailable: when its probes succeed again, an ejection or maintenance ends, its name resolves again, or it joins a pool that is in use; not when Weir starts. The weight grows with `round_robin`, `least_conn`, `random`, `random2` and, as the basis of the bound, with `balance_factor=`; with `fair`, `first` and plain hashing it does not. With a queue `max_conn=` grows as well, from 1.",
    ),
    option(
        "priority",
        "0…254",
        "0",
        "The tier, 0 first. Servers with a higher number are used only if no server with a lower number is available.",
    ),
    flag("backup", "Used only if no other server is available: a tier below every `priority`."),
    flag("down", "Gets no requests (maintenance)."),
    option(
        "cookie",
        "VALUE",
        "",
        "The value of the sticky cookie for this server, as in HAProxy; anyone can write such a cookie. Of servers with the same value the first available one has its clients. A server without one binds no client if others of the pool have one.",
    ),
    flag("drain", "Gets only requests that a sticky cookie binds to it."),
    option(
        "host",
        "NAME",
        "",
        "The name that is requested (SNI) and verified in TLS, and the `Host` of probes; by default the name or address of the server.",
    ),
    option(
        "check",
        "ADDRESS | off",
        "",
        "The address to probe instead of the server's own (an IP address and port, or `unix:/path`), or `off` for no probes.",
    ),
    option(
        "http",
        "1 | 2 | auto",
        "",
        "The version of HTTP for this server, instead of the pool's.",
    ),
    option(
        "source",
        "ADDRESS",
        "",
        "The address that connections to this server come from, instead of the pool's `source`.",
    ),
    option(
        "agent",
        "ADDRESS | off",
        "",
        "The address of this server's agent (an IP address and port, or `unix:/path`) instead of the port of `agent_check`, or `off` for none.",
    ),
    option(
        "errors",
        "NUMBER | off",
        "",
        "The number of failures that eject this server, or `off` for never, instead of the pool's `passive errors=`.",
    ),
    option("window", "TIME", "", "The window in which they are counted, instead of the pool's."),
    option(
        "eject",
        "TIME",
        "",
        "The time for which this server stays ejected, instead of the pool's.",
    ),
];

const AGENT_CHECK: &[OptionSpec] = &[
    option("port", "PORT", "", "The port of the agents, at the addresses of the servers."),
    option("interval", "TIME", "2s", "The time from one question to the next."),
    option(
        "timeout",
        "TIME",
        "1s",
        "The time limit of one question; by default the interval if that is shorter.",
    ),
    option("send", "TEXT", "", "A text that is sent first, such as `\"app1\\n\"`."),
];

const CHECK_OPTIONS: &[OptionSpec] = &[
    option(
        "service",
        "NAME",
        "",
        "`grpc`: the service that is asked for; without it the server answers for itself as a whole.",
    ),
    option(
        "interval",
        "TIME",
        "2s",
        "The time from the start of one probe to the start of the next.",
    ),
    option(
        "timeout",
        "TIME",
        "1s",
        "The time limit of a whole probe; by default half the interval if that is shorter.",
    ),
    option(
        "rise",
        "NUMBER",
        "2",
        "The number of passed probes in a row after which a server is up.",
    ),
    option(
        "fall",
        "NUMBER",
        "3",
        "The number of failed probes in a row after which a server is down.",
    ),
    option(
        "fast",
        "TIME",
        "",
        "The interval while the latest results contradict the server's state.",
    ),
    option("down", "TIME", "", "The interval while the server is down."),
    option("spread", "PERCENT", "10%", "The random deviation of each interval, at most `50%`."),
    option(
        "panic",
        "PERCENT | off",
        "off",
        "If fewer than this share of the servers and no backup are up, probe results are ignored, because the probes are then probably wrong.",
    ),
    option("port", "PORT", "", "The port to probe; by default the server's own."),
    option(
        "drain_on",
        "STATUS,…",
        "",
        "`http`: while a server that is up answers its probe with one of these statuses instead of an expected one, it drains: it gets only requests that a sticky cookie binds to it. HAProxy calls this `http-check disable-on-404`.",
    ),
    option(
        "expect",
        "STATUS,… | TEXT",
        "200-399",
        "`http`: the statuses that pass, such as `200` or `200-299,301`. `tcp`: a text or `~regex` that the reply must contain; by default a connection is enough.",
    ),
    option(
        "host",
        "NAME",
        "",
        "`http`: the `Host` header; by default the server's own name or address.",
    ),
    option(
        "header",
        "NAME[=PATTERN]",
        "",
        "`http`: a header that the response must have, optionally with a value: an exact text, a text with `*` for anything, `~regex` or `~*regex`.",
    ),
    option(
        "body",
        "TEXT",
        "",
        "`http`: a text, `~regex` or `~*regex` that the first 64k of the body must contain.",
    ),
    option(
        "not_header",
        "NAME[=PATTERN]",
        "",
        "`http`: a header that the response must not have, optionally with a value.",
    ),
    option(
        "not_body",
        "TEXT",
        "",
        "`http`: a text, `~regex` or `~*regex` that the first 64k of the body must not contain.",
    ),
    option(
        "version",
        "1.0 | 1.1",
        "1.1",
        "`http`: the version of the request. With `1.1` it has `Connection: close`.",
    ),
    flag("bare", "`http`: sends no `Host`, `User-Agent` and `Accept` but those that are given."),
    option("tls", "on | off", "", "`http`: uses TLS or not; by default as the pool."),
    option("send", "TEXT", "", "`tcp`: the text to send after connecting."),
];

const KEEPALIVE: &[OptionSpec] = &[
    option(
        "idle",
        "NUMBER",
        "100",
        "The largest number of idle connections per server, over all workers. Beyond it the one that has been idle the longest is closed, of those that the worker has or that belong to no worker.",
    ),
    option("timeout", "TIME", "55s", "The time after which an idle connection is closed."),
    option(
        "max_requests",
        "NUMBER",
        "100000",
        "The number of exchanges after which a connection is closed.",
    ),
    option("max_age", "TIME", "1h", "The age at which a connection is closed instead of kept."),
    option(
        "reuse",
        "never | safe | aggressive | always",
        "always",
        "The requests that take idle connections. A server can close a connection while a request is on its way there; a request that may not be sent again then gets 502, which a client repeats by itself if it was not the first one of its connection. `always`: every request. `safe`: all but the first one of a client connection, which opens a new one. `aggressive`: first ones take only connections that were reused before. `never`: a connection serves only the client connection that it was opened for, and is closed with it, whatever `idle` and `timeout` say, of which each keeps at most five, as in HAProxy; for servers that remember a user by the connection. HAProxy calls this `http-reuse`, with `safe` as its default; nginx always reuses.",
    ),
];

const PASSIVE: &[OptionSpec] = &[
    option(
        "errors",
        "NUMBER",
        "5",
        "The number of failures within the window that eject a server.",
    ),
    option(
        "on",
        "CAUSE,…",
        "connect",
        "The events that count as failures: `connect` (the connection or its TLS handshake failed), `reset` (the connection ended before the head of a response), `timeout` (no head in time), `invalid` (the response was not valid HTTP), `status` (a response with 502, 503 or 504), `400` to `599` (a response with this status), `grpc-unavailable` and the like (a call of gRPC that ends with this status, in the head or in the trailers).",
    ),
    option("window", "TIME", "10s", "The window in which failures are counted."),
    option(
        "eject",
        "TIME",
        "10s",
        "The time for which a server stays ejected, plus a random part of up to a fifth, so that several instances do not return to the server at once and a server that fails periodically is tried at different moments.",
    ),
    option(
        "max_ejected",
        "PERCENT",
        "50%",
        "The share of the pool's servers that may be ejected at once.",
    ),
];

const STALL: &[OptionSpec] = &[
    option(
        "factor",
        "NUMBER",
        "3",
        "A request is silent for too long after this multiple of the 99th percentile of the server's response times. Until ten responses are known, that is one second.",
    ),
    option("floor", "TIME", "20ms", "The shortest time that counts as too long."),
];

const QUEUE: &[OptionSpec] = &[
    option(
        "timeout",
        "TIME",
        "",
        "The longest wait of a request, over all its attempts; by default the pool's `timeout connect=`.",
    ),
    option("max", "NUMBER", "1024", "The largest number of waiting requests, over all workers."),
    option(
        "per_endpoint",
        "NUMBER",
        "",
        "The largest number of requests that wait for one server because a cookie or a hash binds them to it; further ones go to any server. By default only `max` applies.",
    ),
    option(
        "per_client",
        "NUMBER",
        "",
        "The largest number of waiting requests of one client (its address behind `trusted_proxies`, or its IPv6 /64), so that no client can fill the queue; further ones get the same response as if the queue were full.",
    ),
    option(
        "status",
        "STATUS",
        "503",
        "The status of the response if the queue is full or the wait exceeds the timeout.",
    ),
    option("retry_after", "TIME", "", "The `Retry-After` of that response, in whole seconds."),
    option(
        "page",
        "FILE",
        "",
        "The page of that response, read when the configuration is loaded; by default the `error_page` of the status.",
    ),
    option(
        "type",
        "TYPE",
        "",
        "The `Content-Type` of the page; by default derived from the file's extension.",
    ),
];

const STICKY: &[OptionSpec] = &[
    flag("visible", "`insert`: servers see the cookie."),
    flag(
        "preserve",
        "`insert`: a cookie of this name that a server sets is passed on, instead of Weir's.",
    ),
    flag("postonly", "`insert`: only a response to POST sets the cookie."),
    flag("httponly", "Hides the cookie from scripts (`HttpOnly`)."),
    option(
        "secure",
        "auto",
        "",
        "As `secure`, but only if the request arrived over TLS, at Weir or at a trusted proxy that says so.",
    ),
    flag("secure", "Browsers send the cookie over TLS only (`Secure`)."),
    option(
        "samesite",
        "lax | strict | none",
        "",
        "The `SameSite` attribute: requests from other sites carry the cookie only when a link is followed (`lax`), never (`strict`) or always (`none`). With `secure=auto`, `none` is set over TLS only, because browsers reject it otherwise.",
    ),
    option("path", "PATH", "/", "The `Path` attribute: the paths for which the cookie is sent."),
    option(
        "domain",
        "NAME",
        "",
        "The `Domain` attribute; by default the cookie is sent only to the host that set it.",
    ),
    option(
        "max_age",
        "TIME",
        "",
        "The lifetime of the cookie (`Max-Age`); by default until the browser is closed.",
    ),
    option(
        "secret",
        "TEXT",
        "",
        "The secret that signs the value, so that cookies cannot be forged: at least 16 bytes, the same in every instance. A new secret, pool name or server name invalidates all issued cookies. Without a secret, cookies stay valid over restarts too, but anyone who knows the names of the servers can forge one; `weir check` warns about that.",
    ),
    option(
        "secret_file",
        "FILE",
        "",
        "A file with the secret, read when the configuration is loaded; white space at its end is ignored.",
    ),
];

const RETRY: &[OptionSpec] = &[
    option(
        "on",
        "WORD,…",
        "connect",
        "The failures after which a request is retried. `connect`: no connection, for any reason. `refused`: only if the connection was refused. `reset`: the connection ended before the head of a response. `timeout`: sending the request or waiting for the response timed out. `invalid`: the response was not valid HTTP. `400` to `599`: a response with this status; it is discarded unless it is the last. `grpc-unavailable` and the like (`grpc-` and the status in lower case, with hyphens): the head of the response ends a call of gRPC with this status, as a server that did not begin it does.",
    ),
    option(
        "budget",
        "PERCENT | auto | off",
        "auto",
        "The largest number of retries in the pool, as a share of the requests of the last ten seconds, plus three per second that are always allowed. `auto` is 20%, or no limit if only `connect` and `refused` are retried.",
    ),
    option(
        "backoff",
        "TIME | off",
        "off",
        "If no untried server is left, a server is tried again after a random part of this time, which doubles with each such wait, up to ten times the value. With `off` no server is tried twice.",
    ),
    option(
        "within",
        "TIME | off",
        "off",
        "No retry begins later than this time after the head of the request.",
    ),
    flag(
        "non_idempotent",
        "Retries POST, PATCH and unknown methods too, although they may then take effect twice.",
    ),
];

const UPSTREAM_TIMEOUT: &[OptionSpec] = &[
    option("connect", "TIME", "5s", "Establishing a connection, including the TLS handshake."),
    option("send", "TIME", "1m", "Without progress while a request is sent."),
    option("response", "TIME", "1m", "From the end of the request to the head of the response."),
    option("read", "TIME", "1m", "Between two reads of a response body."),
    option("tunnel", "TIME", "1h", "Without a byte in either direction of a tunnel."),
    option(
        "half_closed",
        "TIME | off",
        "off",
        "In place of `tunnel=` once the client has ended its side of a tunnel: without a byte of the server, which may still answer. HAProxy calls this `timeout server-fin`.",
    ),
    option(
        "request",
        "TIME | off",
        "off",
        "The whole exchange, as `timeout request=` of the listener; the shorter of the two applies.",
    ),
    option(
        "try",
        "TIME | off",
        "off",
        "One attempt, from picking the server to the head of its response, including the connect; time spent waiting for the client's body does not count. With `retry on=timeout` a retry may follow.",
    ),
    option(
        "min_rate",
        "SIZE | off",
        "off",
        "The lowest average rate, in bytes per second, at which a server must send a response body, measured over `after` of waiting for it. Not suitable for event streams, which may be silent for a long time.",
    ),
    option(
        "after",
        "TIME",
        "30s",
        "The period of waiting for the server over which the rate is measured.",
    ),
];

const SEND_PROXY: &[OptionSpec] = &[option(
    "tlv",
    "VALUE,…",
    "",
    "What a header of version 2 tells beside the addresses: `alpn` and `authority` (the protocol and the name of the client's TLS), `tls` (its version and suite), `unique_id` (the request's id), `crc32c` (a checksum). Values that a connection does not have are left out. HAProxy calls this `proxy-v2-options`.",
)];

const CLIENT_TLS: &[OptionSpec] = &[
    option("verify", "on | off", "on", "Verifies the server's certificate."),
    option(
        "name",
        "NAME",
        "",
        "The name that is requested (SNI) and verified; by default the server's own name or address. In `tls` it may have `$variables`, such as `$http_host`, whose port is left out: connections are then kept for requests with the same name, and where the text is no name, the server's own holds.",
    ),
    option("sni", "on | off", "on", "Sends the name to the server (SNI)."),
    option(
        "srv_name",
        "domain | target",
        "domain",
        "For servers of a service (`srv:_https._tcp.example.com`) without `name=` and `host=`: the name that is requested and verified is the domain of the service (`example.com`) or the target in the SRV record, which an attacker who forges DNS answers can choose (RFC 6125 section 6.2.1, RFC 9525 section 6.1).",
    ),
    option("ca", "FILE", "", "The trusted roots (PEM); by default the system's."),
    option(
        "crl",
        "FILE",
        "",
        "Lists of revoked certificates (PEM), one for each authority of a chain. No certificate is valid by a list that is out of date.",
    ),
    option("certificate", "FILE", "", "The client certificate."),
    option("key", "FILE", "", "The key of the certificate, if it is not in the same file."),
    PROTOCOL[0],
    PROTOCOL[1],
    PROTOCOL[2],
    PROTOCOL[3],
];
