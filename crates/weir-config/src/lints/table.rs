//! The table of lints. Each row has a configuration in which the lint finds something and one in
//! which no lint does; a test holds both, and `docs/lints.md` shows them.

/// A lint.
#[derive(Clone, Copy, Debug)]
pub struct Lint {
    /// The code, by which it is silenced.
    pub code: &'static str,
    /// The thing that it finds, as the object of a sentence.
    pub what: &'static str,
    /// The reason why that is most likely a mistake.
    pub why: &'static str,
    /// A configuration in which it finds something.
    pub example: &'static str,
    /// The same without it.
    pub better: &'static str,
}

/// The lints about configurations in any syntax, those that the check itself reports included.
pub const LINTS: &[Lint] = &[
    Lint {
        code: "unreachable-route",
        what: "a route that no request reaches, because the routes before it take all its requests",
        why: "Routes are tried from top to bottom, and the first match wins. A prefix behind a wider prefix, a \
              condition that stands twice, and everything behind a route for all requests are dead lines: most \
              often the order is wrong. Paths, methods, headers, cookies, parameters and clients are compared, \
              regexes only as far as their literal beginning; in a list of more than 1,000 routes each is \
              compared with as many before it as time allows.",
        example: "listen :80 {\n    route path /api/* -> 127.0.0.1:3000;\n    route path /api/admin/* -> respond 403;\n    default -> respond 404;\n}\n",
        better: "listen :80 {\n    route path /api/admin/* -> respond 403;\n    route path /api/* -> 127.0.0.1:3000;\n    default -> respond 404;\n}\n",
    },
    Lint {
        code: "unreachable-host",
        what: "a host block whose names all belong to a block before it",
        why: "The first block with a matching host serves the request, also if a later one has the exact name.",
        example: "listen :80 {\n    host *.example.com { route -> respond 404; }\n    host www.example.com { route -> 127.0.0.1:3000; }\n}\n",
        better: "listen :80 {\n    host www.example.com { route -> 127.0.0.1:3000; }\n    host *.example.com { route -> respond 404; }\n}\n",
    },
    Lint {
        code: "impossible-condition",
        what: "a route whose condition no request can meet",
        why: "Conditions side by side all have to hold. Two methods, two paths or two networks that exclude each \
              other never do.",
        example: "listen :80 {\n    route path /a/* path /b/* -> 127.0.0.1:3000;\n    default -> respond 404;\n}\n",
        better: "listen :80 {\n    route path /a/* /b/* -> 127.0.0.1:3000;\n    default -> respond 404;\n}\n",
    },
    Lint {
        code: "named-route-too-late",
        what: "a route of a name (`internal @NAME`) behind one that leads to it",
        why: "After an internal redirect the routes are tried from the top again, and a name leaves the path as it is. \
              The route that leads to the name then takes the request a second time: an error gets no page, and \
              other requests end with 500 after ten rounds.",
        example: "listen :80 {\n    route path /api/* -> 127.0.0.1:3000 { error_page 502 -> internal @sorry; }\n    route internal @sorry -> respond 503 \"back soon\";\n    default -> respond 404;\n}\n",
        better: "listen :80 {\n    route internal @sorry -> respond 503 \"back soon\";\n    route path /api/* -> 127.0.0.1:3000 { error_page 502 -> internal @sorry; }\n    default -> respond 404;\n}\n",
    },
    Lint {
        code: "unused-definition",
        what: "a pool, log or rule that nothing uses",
        why: "It has no effect, and is most likely misspelt where it should be used.",
        example: "pool app { server 127.0.0.1:3000; }\nlisten :80 -> 127.0.0.1:3001;\n",
        better: "pool app { server 127.0.0.1:3000; }\nlisten :80 -> app;\n",
    },
    Lint {
        code: "redirect-loop",
        what: "a redirect of an HTTPS URL to itself",
        why: "Browsers give up after about twenty rounds.",
        example: "listen :443 tls {\n    certificate site.pem;\n    route path /old/* -> redirect 301 https://$host$request_uri;\n    default -> 127.0.0.1:3000;\n}\n",
        better: "listen :443 tls {\n    certificate site.pem;\n    route path ~^/old/(.*)$ -> redirect 301 /new/$1;\n    default -> 127.0.0.1:3000;\n}\n",
    },
    Lint {
        code: "missing-timeout",
        what: "a timeout that is so long that a silent peer is never given up",
        why: "Weir's defaults bound every wait. A timeout of hours takes that away: a peer that is gone without a \
              word holds its connection, its memory and its place at the server until then.",
        example: "pool app {\n    server 127.0.0.1:3000;\n    timeout response=2h;\n}\nlisten :80 -> app;\n",
        better: "pool app {\n    server 127.0.0.1:3000;\n    timeout response=5m;\n}\nlisten :80 -> app;\n",
    },
    Lint {
        code: "max-conn-without-queue",
        what: "a pool with `max_conn=` and without a queue",
        why: "Arrivals come in bursts. Without a queue each request beyond the limit gets 503, although a server \
              would be free a few milliseconds later.",
        example: "pool app {\n    server 127.0.0.1:3000 max_conn=4;\n    queue off;\n}\nlisten :80 -> app;\n",
        better: "pool app {\n    server 127.0.0.1:3000 max_conn=4;\n    queue timeout=5s;\n}\nlisten :80 -> app;\n",
    },
    Lint {
        code: "no-health-check",
        what: "a pool with several servers that notices no failure",
        why: "Without a check and without ejection after failures, a server that is down gets its share of the \
              requests for as long as it is down.",
        example: "pool app {\n    server 10.0.0.11:8000;\n    server 10.0.0.12:8000;\n    passive off;\n}\nlisten :80 -> app;\n",
        better: "pool app {\n    server 10.0.0.11:8000;\n    server 10.0.0.12:8000;\n    passive off;\n    check http GET /healthz;\n}\nlisten :80 -> app;\n",
    },
    Lint {
        code: "same-server-twice",
        what: "a server whose address is in its pool already",
        why: "The two are different servers to Weir: limits, health and failures are counted apart, so that \
              `max_conn=` is exceeded and a retry goes to the same machine.",
        example: "pool app {\n    server 10.0.0.11:8000 name=a max_conn=4;\n    server 10.0.0.11:8000 name=b max_conn=4;\n}\nlisten :80 -> app;\n",
        better: "pool app {\n    server 10.0.0.11:8000 name=a max_conn=8;\n}\nlisten :80 -> app;\n",
    },
    Lint {
        code: "no-keepalive",
        what: "a pool that keeps no idle connections to its servers",
        why: "Each request then waits for a new connection, and over TLS for a handshake, which costs both sides \
              far more than the request. nginx before 1.29.7 does so unless the file has `keepalive`.",
        example: "pool app {\n    server 127.0.0.1:3000;\n    keepalive off;\n}\nlisten :80 -> app;\n",
        better: "pool app {\n    server 127.0.0.1:3000;\n    keepalive idle=32;\n}\nlisten :80 -> app;\n",
    },
    Lint {
        code: "few-requests-per-connection",
        what: "a limit on the requests of a connection that makes handshakes frequent",
        why: "The report states the number of handshakes that the limit makes at 1,000 requests per second, or at \
              those of `weir check --rate`; more than 10 per second are reported. A \
              TLS handshake costs about as much as a hundred small requests.",
        example: "listen :80 {\n    limits requests=10;\n    default -> 127.0.0.1:3000;\n}\n",
        better: "listen :80 {\n    limits requests=10000;\n    default -> 127.0.0.1:3000;\n}\n",
    },
    Lint {
        code: "short-keepalive",
        what: "client connections that are closed almost as soon as they are idle",
        why: "A browser asks for a page, reads it, and asks for what is in it. If the connection is closed in \
              between, it connects again, with a handshake.",
        example: "listen :80 {\n    timeout keepalive=500ms;\n    default -> 127.0.0.1:3000;\n}\n",
        better: "listen :80 {\n    timeout keepalive=30s;\n    default -> 127.0.0.1:3000;\n}\n",
    },
    Lint {
        code: "weak-tls",
        what: "TLS without version 1.3, or in a file of another program with versions and ciphers that are broken",
        why: "TLS 1.3 needs one round trip less and hides the certificates. Weir has no version below 1.2 and no \
              broken cipher; where a file of another program asks for them, clients that have nothing else are \
              turned away.",
        example: "listen :443 tls {\n    certificate site.pem;\n    tls max=1.2;\n    default -> 127.0.0.1:3000;\n}\n",
        better: "listen :443 tls {\n    certificate site.pem;\n    tls min=1.2;\n    default -> 127.0.0.1:3000;\n}\n",
    },
    Lint {
        code: "unverified-server",
        what: "TLS to servers whose certificates are not verified",
        why: "An attacker on the network path can then read and change everything. A certificate authority of \
              your own is named with `ca=FILE`.",
        example: "pool app {\n    server app.internal:8443;\n    tls verify=off;\n}\nlisten :80 -> app;\n",
        better: "pool app {\n    server app.internal:8443;\n    tls ca=/etc/weir/internal-ca.pem;\n}\nlisten :80 -> app;\n",
    },
    Lint {
        code: "hop-by-hop-header",
        what: "a header of a single connection that is set by hand",
        why: "Such headers concern Weir and its peer (RFC 9110 section 7.6.1). Weir writes those that are needed, \
              refuses edits of `Connection`, `Transfer-Encoding` and the like, and the rest misleads the peer.",
        example: "listen :80 {\n    header set Proxy-Authorization \"Basic YTpi\";\n    default -> 127.0.0.1:3000;\n}\n",
        better: "listen :80 {\n    header set Authorization \"Basic YTpi\";\n    default -> 127.0.0.1:3000;\n}\n",
    },
    Lint {
        code: "forwarded-by-hand",
        what: "an `X-Forwarded-` header that is set by hand although Weir sends it",
        why: "Weir sends `X-Forwarded-For`, `-Proto` and `-Host`, and continues what a trusted proxy says. A line \
              by hand replaces that: behind another proxy the server then sees `http` and the proxy's address.",
        example: "listen :80 {\n    default -> 127.0.0.1:3000 { header set X-Forwarded-Proto $scheme; }\n}\n",
        better: "listen :80 {\n    default -> 127.0.0.1:3000;\n}\n",
    },
    Lint {
        code: "trusts-everyone",
        what: "`trusted_proxies` with all addresses",
        why: "Every client can then write any address into `X-Forwarded-For`, and evades access rules and limits.",
        example: "listen :80 {\n    trusted_proxies 0.0.0.0/0;\n    default -> 127.0.0.1:3000;\n}\n",
        better: "listen :80 {\n    trusted_proxies 10.0.0.0/8;\n    default -> 127.0.0.1:3000;\n}\n",
    },
    Lint {
        code: "allow-without-deny",
        what: "`allow` without any `deny`",
        why: "Without a matching rule a client is allowed. A list of allowed networks restricts no client until \
              `deny all;` follows it.",
        example: "listen :80 {\n    route path /admin/* -> 127.0.0.1:3000 { allow 10.0.0.0/8; }\n    default -> respond 404;\n}\n",
        better: "listen :80 {\n    route path /admin/* -> 127.0.0.1:3000 { allow 10.0.0.0/8; deny all; }\n    default -> respond 404;\n}\n",
    },
    Lint {
        code: "unreachable-access-rule",
        what: "an access rule after one for all clients",
        why: "The first matching rule decides, and `all` matches everyone.",
        example: "listen :80 {\n    deny all;\n    allow 10.0.0.0/8;\n    default -> 127.0.0.1:3000;\n}\n",
        better: "listen :80 {\n    allow 10.0.0.0/8;\n    deny all;\n    default -> 127.0.0.1:3000;\n}\n",
    },
    Lint {
        code: "forgeable-key",
        what: "a rate limit whose key is a header that clients choose",
        why: "A client with another `X-Forwarded-For` or `User-Agent` for each request is never limited.",
        example: "listen :80 {\n    limit rate $http_x_forwarded_for rate=10/s;\n    default -> 127.0.0.1:3000;\n}\n",
        better: "listen :80 {\n    limit rate $remote_addr rate=10/s;\n    default -> 127.0.0.1:3000;\n}\n",
    },
    Lint {
        code: "retry-repeats-effects",
        what: "retries of requests that may have taken effect",
        why: "A POST that was sent to a server and got no answer may have been carried out. A second server \
              carries it out again.",
        example: "pool app {\n    server 10.0.0.11:8000;\n    server 10.0.0.12:8000;\n    retry 1 on=connect,reset non_idempotent;\n}\nlisten :80 -> app;\n",
        better: "pool app {\n    server 10.0.0.11:8000;\n    server 10.0.0.12:8000;\n    retry 1 on=connect,reset;\n}\nlisten :80 -> app;\n",
    },
    Lint {
        code: "retry-without-budget",
        what: "retries of sent requests without a budget",
        why: "When all servers are slow, each request is sent several times, which makes them slower.",
        example: "pool app {\n    server 10.0.0.11:8000;\n    server 10.0.0.12:8000;\n    retry 2 on=connect,timeout budget=off;\n}\nlisten :80 -> app;\n",
        better: "pool app {\n    server 10.0.0.11:8000;\n    server 10.0.0.12:8000;\n    retry 2 on=connect,timeout budget=10%;\n}\nlisten :80 -> app;\n",
    },
    Lint {
        code: "buffer-holds-streams",
        what: "a route for gRPC to a pool that reads request bodies whole",
        why: "With `buffer_request` a server gets a request when its body has ended. A stream ends when the client \
              is done, so the server would get nothing of it before.",
        example: "pool app {\n    server 127.0.0.1:3000;\n    buffer_request 1m;\n}\nlisten :80 {\n    route header Content-Type=application/grpc* -> app;\n    default -> app;\n}\n",
        better: "pool app {\n    server 127.0.0.1:3000;\n    buffer_request 1m;\n}\npool streams { server 127.0.0.1:3000; }\nlisten :80 {\n    route header Content-Type=application/grpc* -> streams;\n    default -> app;\n}\n",
    },
];
