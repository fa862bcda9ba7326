//! Directives of the process as a whole: workers, privileges, the admin interface, processor
//! credits, name resolution. Their checks are in `check`.

use super::spec::{
    ADMIN, BlockRule, Context, MANY, OptionSpec, Spec, TOP, directive, flag, option,
};

/// The directives, in the order of the reference page.
pub(super) const DIRECTIVES: &[Spec] = &[
    directive("workers", TOP, "auto | NUMBER", "Worker threads. `auto` is one per core of the allowed set; each is pinned to its core.")
        .default("auto")
        .example("workers 4;"),
    directive(
        "max_connections",
        TOP,
        "NUMBER",
        "Client connections open at once over all listeners. Near the limit, idle connections are closed for new ones: first those \
         of clients (addresses, or networks of 64 bits) with more than a sixteenth of the limit, then those that sent nothing for a second, then \
         the one that is idle for longest. Where none is idle, a client with more than a quarter of the limit gives way to others: it gets no \
         more connections, and for each newcomer with less than half as many its longest running request ends with 503, cause `connection_cap`; \
         `weir_connection_cap_losses` counts both. Peers in `trusted_proxies` are never such clients, and where no other client came within ten minutes, \
         or no client has so much, the surplus waits in the kernel's backlog. \
         Without it, as many as the limit of open files allows.",
    )
    .example("max_connections 20000;"),
    directive("memory", TOP, "", "The budget of memory: all that the process allocates counts, buffers, TLS sessions, held bodies, logs and statistics among it. Nobody's request fails for it before it is near. At 80 % of it idle client connections are closed, the oldest first; at 90 % bodies of `buffer_request` are not read on; at 95 % new connections are closed, requests on idle connections are not read, and the requests that hold most get 503 or are cut off, until it is below 90 % again. `weir ctl status`, the dashboard and the metrics `weir_memory_…` show it.")
        .words(0, 0)
        .options(MEMORY)
        .example("memory max=2g;"),
    directive("shutdown_timeout", TOP, "TIME", "How long a graceful stop waits for running exchanges.")
        .default("30s")
        .example("shutdown_timeout 1m;"),
    directive("watchdog", TOP, "TIME | off", "After how long a worker thread that does not answer is replaced. Its sockets stay, other workers serve on, and a new thread takes its number; its connections end, and what it held is given back. What it is at is said after a second, whatever stands here. `off`: it is said, and left as it is.")
        .default("10s")
        .example("watchdog 5s;"),
    directive("sandbox", TOP, "on | off", "Whether Weir shuts doors behind it once it has started: no new privileges, no core dump and no reading of its memory by other processes of its user, a seccomp filter for what no part of it calls, and for worker threads a list of what they may call and a Landlock domain in which they can change and execute no file. What the kernel lacks is said. `off` for `perf`, `gdb` and core dumps.")
        .default("on")
        .example("sandbox off;"),
    directive("supervisor", TOP, "on | off", "Whether `weir run` is two processes: one that serves, and a small one that holds duplicates of its listening sockets, passes signals on, and starts it again when it dies. Connections that wait in the kernel meanwhile are served then. `off`, or `weir run --no-supervisor`: one process, for a container whose runtime does that.")
        .default("on")
        .example("supervisor off;"),
    directive("admin", TOP, "ADDRESS", "An address where the process is looked at and changed while it runs: an HTTP API, and on a Unix socket also HAProxy's command line. `unix:/path` for whoever the file's owner and mode let in; an IP address and port for whoever brings the token, or only to look.")
        .options(ADMIN_OPTIONS)
        .block(BlockRule::Optional(Context::Admin))
        .many()
        .example("admin unix:/run/weir/admin.sock mode=0660 group=weir;"),
    directive("role", ADMIN, "read | operate | admin", "Who may do what at this address: `read` looks, `operate` also changes orders, weights and limits, gives such changes up and clears counters, `admin` does everything. Each line is for one user (at a Unix socket), one token or one client certificate. Where a Unix socket has such lines, other users may do nothing, or look where it is `read_only`; root and the user that Weir runs as stay admins. `read_only` bounds every role.")
        .options(ROLE)
        .many()
        .example("role operate user=deploy;"),
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
    directive("audit_log", TOP, "FILE | stdout | stderr | syslog:…", "Where it is written who changed what through the admin interface, by signals and by upgrades, and who wanted what the role does not allow: one JSON object a line, with the time, the kind (`change`, `reload`, `upgrade`, `process`, `denied`), who it was and what. Several lines are several places. It is opened anew on USR1. `error_log` says the same in words.")
        .many()
        .example("audit_log /var/log/weir/audit.log;"),
    directive("include", TOP, "FILE | PATTERN", "Puts the directives of these files here. May stand in any block. The path is relative to the file that has the line; a pattern (`*`, `?`, `[…]`) may match nothing and is taken in alphabetical order.")
        .many()
        .example("include conf.d/*.conf;"),
];

const MEMORY: &[OptionSpec] = &[option(
    "max",
    "SIZE | PERCENT | off",
    "60%",
    "The budget: a size, at least `32m`, or a share of what the control group allows or the machine has, whichever is less. What the kernel holds for sockets is not in it.",
)];

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

const ADMIN_OPTIONS: &[OptionSpec] = &[
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
    option(
        "name",
        "NAME[,NAME…]",
        "",
        "Host names that a TCP address answers to when no token or certificate is shown, besides addresses, `localhost`, the machine's own name and the names of its certificate. Requests for others are refused with 421: DNS that somebody else rules may have led a browser here.",
    ),
    flag("tls", "Speaks TLS, with this certificate. It is read again at a reload."),
    option("certificate", "FILE", "", "The certificate chain in PEM."),
    option("key", "FILE", "", "Its key, when it is not in the same file."),
    option(
        "client_ca",
        "FILE",
        "",
        "Authorities whose client certificates let somebody in. Without any token one has to be shown; `role … certificate=NAME` says which may do what, without such lines each may do what the address allows.",
    ),
];

const ROLE: &[OptionSpec] = &[
    option("user", "NAME", "", "The user at the other end of a Unix socket, by name or number."),
    option("token_file", "FILE", "", "File with the token that is shown."),
    option(
        "certificate",
        "NAME",
        "",
        "A DNS name of the client certificate that is shown, or its common name where it has none.",
    ),
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
