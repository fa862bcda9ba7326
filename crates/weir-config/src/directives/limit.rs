//! Directives of limits on clients and keys. The checks are in `check/limit.rs`.

use super::spec::{LIMITED, OptionSpec, Spec, TOP, directive, flag, option};

/// The directives, in the order of the reference page.
pub(super) const DIRECTIVES: &[Spec] = &[
    directive("limit", TOP, "client", "Limits the connections and requests of each client, exactly and over all listeners and workers. Connections, new connections and TLS handshakes are counted by the address of the peer, requests by the address of the client behind `trusted_proxies`. Peers in `trusted_proxies` are exempt; for clients behind them only requests are counted. A connection over a limit is closed at once; a request over a limit gets 429 with `Retry-After`, `RateLimit` and `RateLimit-Policy`. A rate is written `10/s`, `600/m` or `5/h` and enforced as a token bucket: this many on average, and up to `burst=` more at once. Clients without an address (Unix sockets) are not limited.")
        .words(1, 3)
        .options(LIMIT)
        .many()
        .example("limit client connections=100 rate=50/s burst=100 except=10.0.0.0/8;"),
    directive("limit", LIMITED, "client | rate KEY | in_flight KEY | bandwidth [KEY]", "`limit client` in `listen` limits each client at this listener, in addition to a limit at the top level. `limit rate` limits requests with the same key: KEY is a text with `$variables`, such as `$remote_addr`, `$http_X_API_Key`, `$cookie_session` or `$host$uri`; requests with an empty key are not limited. `limit in_flight` limits the requests with the same key that are in flight at once, from their admission to the end of their response; a request that `limit rate` delays is not in flight yet. Limits with the same `name=` count together, wherever they stand, and each request once; their keys and rates must be the same. The limits of the listener are applied before those of the route, and all of them before a server is picked. `limit bandwidth` limits the transfer rate of bodies and tunnels, to clients (`down=`) and from clients (`up=`): of each body by itself or, with a KEY, of all bodies with the same key together. The limit of a route replaces that of the listener. A server whose response has been read completely is free while the client still receives it.")
        .words(1, 3)
        .options(LIMIT)
        .many()
        .example("limit rate $remote_addr rate=10/s burst=20;"),
    directive("limit_table", TOP, "SIZE", "The memory of the table of limited clients and keys, allocated when the first limit is used: 24 bytes per pair of a limit and a client or key. When the table is full, the entry that is nearest to its full allowance is evicted and starts again with a full one.")
        .default("4m")
        .example("limit_table 16m;"),
];

const LIMIT: &[OptionSpec] = &[
    option("connections", "NUMBER", "", "`client`: the number of connections open at once."),
    option(
        "in_flight",
        "NUMBER",
        "",
        "`client`: the number of requests in flight at once, from the end of the head to the end of the response.",
    ),
    option(
        "rate",
        "RATE",
        "",
        "`client`, `rate`: the rate of requests, such as `10/s`, `600/m` or `5/h`.",
    ),
    option(
        "burst",
        "NUMBER",
        "",
        "`client`, `rate`: the number of requests beyond the rate that may arrive at once; by default those of one second.",
    ),
    option("new_connections", "RATE", "", "`client`: the rate of new connections."),
    option("handshakes", "RATE", "", "`client`: the rate of TLS handshakes."),
    option("except", "NETWORK,…", "", "`client`: networks that are exempt."),
    option(
        "ipv4",
        "BITS",
        "32",
        "`client`: the prefix length; IPv4 addresses with the same prefix are one client.",
    ),
    option("ipv6", "BITS", "64", "`client`: the prefix length for IPv6 addresses."),
    option(
        "delay",
        "NUMBER",
        "",
        "`rate`: the number of burst requests that pass at once; the others wait until the rate allows them (a leaky bucket). `delay=0` corresponds to nginx without `nodelay`. By default no request waits.",
    ),
    option("max", "NUMBER", "", "`in_flight`: the number of requests in flight at once."),
    flag("nodelay", "`rate`: no request waits. This is the default."),
    option("down", "SIZE", "", "`bandwidth`: bytes per second to the client."),
    option("up", "SIZE", "", "`bandwidth`: bytes per second from the client."),
    option(
        "after",
        "SIZE",
        "0",
        "`bandwidth`: the number of bytes at the start of a body that are not limited.",
    ),
    option(
        "name",
        "NAME",
        "",
        "`rate`, `in_flight`, `bandwidth`: the name of the limit in statistics and headers; by default that of its route or listener.",
    ),
    option("status", "STATUS", "429", "The status of the response to a refused request."),
    option(
        "action",
        "answer | close",
        "answer",
        "The treatment of a refused request: a response, or closing the connection without a response.",
    ),
    option(
        "headers",
        "off | refused | all",
        "refused",
        "`rate`: the responses that carry `RateLimit` and `RateLimit-Policy`.",
    ),
    flag("dry_run", "Only counts the requests that would be refused or delayed."),
];
