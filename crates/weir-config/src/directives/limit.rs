//! Directives of limits on clients and keys. The checks are in `check/limit.rs`.

use super::spec::{LIMITED, OptionSpec, Spec, TOP, directive, flag, option};

/// The directives, in the order of the reference page.
pub(super) const DIRECTIVES: &[Spec] = &[
    directive("limit", TOP, "client", "Bounds what one client may have open and ask for, over all listeners and workers together, exactly. Connections, new connections and TLS handshakes are bounded by the address of the peer, requests by the address of the client behind `trusted_proxies`; peers in `trusted_proxies` are not bounded themselves, only the clients behind them by their requests. A connection over a bound is closed at once, a request over one gets 429 with `Retry-After`, `RateLimit` and `RateLimit-Policy`. A rate is `10/s`, `600/m` or `5/h`, kept as a token bucket: so many in the long run, and up to `burst=` more at once. Clients without an address (Unix sockets) are not limited.")
        .words(1, 3)
        .options(LIMIT)
        .many()
        .example("limit client connections=100 rate=50/s burst=100 except=10.0.0.0/8;"),
    directive("limit", LIMITED, "client | rate KEY | bandwidth [KEY]", "`limit client`, in `listen`, bounds one client there; where the top level has one too, both hold. `limit rate` bounds the requests with one key: KEY is a text with `$variables`, such as `$remote_addr`, `$http_X_API_Key`, `$cookie_session`, `$host$uri`; requests for which it comes to nothing are not limited. Those of a listener are asked before those of the route, and all of them before a server is picked. `limit bandwidth` bounds how fast bodies of pools' responses, files and what tunnels carry to clients (`down=`), and of requests to pools and what tunnels carry from clients (`up=`) move: each body by itself, or with a KEY all bodies with this key together; a route's own holds instead of the listener's. A server whose response was read whole is free meanwhile.")
        .words(1, 3)
        .options(LIMIT)
        .many()
        .example("limit rate $remote_addr rate=10/s burst=20;"),
    directive("limit_table", TOP, "SIZE", "Memory for what is kept of limited clients and keys, allocated when the first limit is used: 24 bytes for each pair of a limit and a client or key. When it is full, whoever is nearest to a full allowance is forgotten first, and so gets a new one.")
        .default("4m")
        .example("limit_table 16m;"),
];

const LIMIT: &[OptionSpec] = &[
    option("connections", "NUMBER", "", "`client`: connections open at once."),
    option(
        "in_flight",
        "NUMBER",
        "",
        "`client`: requests in flight at once, from the end of the head to the end of the response.",
    ),
    option("rate", "RATE", "", "`client`, `rate`: requests, such as `10/s`, `600/m`, `5/h`."),
    option(
        "burst",
        "NUMBER",
        "",
        "`client`, `rate`: requests beyond the rate that may come at once; without it, those of one second.",
    ),
    option("new_connections", "RATE", "", "`client`: connections opened."),
    option("handshakes", "RATE", "", "`client`: TLS handshakes begun."),
    option("except", "NETWORK,…", "", "`client`: addresses without these bounds."),
    option("ipv4", "BITS", "32", "`client`: addresses alike in so many bits are one client."),
    option("ipv6", "BITS", "64", "`client`: the same of IPv6."),
    option(
        "delay",
        "NUMBER",
        "",
        "`rate`: of the burst, so many go through at once and the rest waits until the rate allows it (a leaky bucket). `delay=0` is what nginx does without `nodelay`. Without it, nothing waits.",
    ),
    flag("nodelay", "`rate`: nothing waits, as is the default."),
    option("down", "SIZE", "", "`bandwidth`: bytes a second to the client."),
    option("up", "SIZE", "", "`bandwidth`: bytes a second from the client."),
    option("after", "SIZE", "0", "`bandwidth`: the first bytes of a body that go unlimited."),
    option(
        "name",
        "NAME",
        "",
        "`rate`, `bandwidth`: its name in figures and headers; without it, that of its route or listener.",
    ),
    option("status", "STATUS", "429", "The status that refused requests get."),
    option(
        "action",
        "answer | close",
        "answer",
        "What happens to a refused request: it is answered, or its connection is closed without a word.",
    ),
    option(
        "headers",
        "off | refused | all",
        "refused",
        "`rate`: which responses tell the limit, in `RateLimit` and `RateLimit-Policy`.",
    ),
    flag("dry_run", "Refuses and delays nothing; only counts what it would have."),
];
