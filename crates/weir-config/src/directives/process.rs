//! Directives of the process as a whole: workers, privileges, the admin interface, processor
//! credits, name resolution. Their checks are in `check`.

use super::spec::{
    ADMIN, BlockRule, Context, MANY, OptionSpec, Spec, TOP, directive, flag, option,
};

/// The directives, in the order of the reference page.
pub(super) const DIRECTIVES: &[Spec] = &[
    directive("workers", TOP, "auto | NUMBER", "The number of worker threads. `auto` starts one per core of the allowed set, or of `cpus=`. Each worker is pinned to its core.")
        .options(&[option(
            "cpus",
            "LIST",
            "",
            "The cores of the workers, in the order of the workers and round again: `0-3` or `0,2` for one each, `0+4,1+5` for two each. Cores that the process may not use are left out with a warning, because the file may have been written on another machine. nginx calls this `worker_cpu_affinity`, HAProxy `cpu-map`.",
        )])
        .default("auto")
        .example("workers auto cpus=0-3;"),
    directive("worker_connections", TOP, "NUMBER", "A limit on client connections in proportion to the workers: at most this number for each of them, over all workers together, so that one worker may have more. A lower `max_connections` holds. nginx's limit of this name holds for each worker alone and counts connections to servers too.")
        .options(&[flag(
            "servers",
            "Connections to servers count, too, idle ones included; those of health checks do not. An eighth of the limit is kept free of clients, as nginx does. At the limit, idle connections to servers are closed, then idle ones of clients, and a client with a large part of the connections gives way to others; new clients wait in the kernel's backlog, and a request that needs a new connection to a server waits for `timeout connect=` at most, then gets 503.",
        )])
        .example("worker_connections 1024;"),
    directive(
        "max_connections",
        TOP,
        "NUMBER",
        "The largest number of client connections open at once, over all listeners; by default as many as the limit of open files allows. \
         Near the limit, connections are closed to admit new ones, in this order. First, idle connections of clients (an IPv4 address or an IPv6 /64) that hold \
         more than a sixteenth of the limit. If there are none, a client that holds more than a quarter of the limit yields, even if connections of other clients are \
         idle: it gets no further connections, and for each new connection of a client with less than half as many, its longest-running request ends with 503 and \
         cause `connection_cap`; `weir_connection_cap_losses` counts both. If no client yields, an idle connection that has been open for a second without sending \
         anything is closed, otherwise the one that has been idle longest. Peers in `trusted_proxies` never yield, and no client yields if no other one connected within ten \
         minutes. If nothing can be closed, further connections wait in the kernel's backlog.",
    )
    .example("max_connections 20000;"),
    directive("memory", TOP, "", "The memory budget. Everything that the process allocates counts towards it, including buffers, TLS sessions, buffered bodies, logs and statistics. At 80 % of the budget idle client connections are closed, the oldest first. At 90 % reading of `buffer_request` bodies pauses. At 95 % new connections are closed, requests on idle connections are not read, and the requests that hold the most memory get 503 or are cut off until usage is below 90 % again. `weir ctl status`, the dashboard and the metrics `weir_memory_…` show the usage.")
        .words(0, 0)
        .options(MEMORY)
        .example("memory max=2g;"),
    directive("shutdown_timeout", TOP, "TIME", "The longest time that a graceful stop waits for running exchanges.")
        .default("30s")
        .example("shutdown_timeout 1m;"),
    directive("watchdog", TOP, "TIME | off", "The time after which a worker thread that does not respond is replaced. Its listening sockets stay open, the other workers continue, and a new thread takes its number; its connections end, and the slots that it held are released. What the worker is executing is logged after one second, whatever the setting. With `off` the worker is only logged, not replaced.")
        .default("10s")
        .example("watchdog 5s;"),
    directive("sandbox", TOP, "on | off", "Restricts the process once it has started: no new privileges, no core dumps, no access to its memory by other processes of the same user, and a seccomp filter against system calls that no part of it uses. Worker threads may only use a fixed list of system calls and run in a Landlock domain in which they cannot modify or execute any file. Features that the kernel lacks are logged. Set `off` to use `perf`, `gdb` or core dumps.")
        .default("on")
        .example("sandbox off;"),
    directive("supervisor", TOP, "on | off", "Makes `weir run` two processes: one that serves, and a small supervisor that holds duplicates of the listening sockets, forwards signals and restarts the serving process if it dies. Connections that arrive in the meantime wait in the kernel and are then served. With `off` or `weir run --no-supervisor` there is a single process, for containers whose runtime restarts it.")
        .default("on")
        .example("supervisor off;"),
    directive("admin", TOP, "ADDRESS", "An address of the admin interface, over which the running process is inspected and changed: an HTTP API, the dashboard and, on a Unix socket, HAProxy's command line as well. Access to `unix:/path` is controlled by the file's owner and mode; `unix:@name` has no file, and is for root, the user that Weir runs as, and users or passwords with a role. A route to a server at such an address can show the page `/statistics` (with `/statistics.csv` and `/statistics.json` as HAProxy has them) beside other requests; changes over an IP address and port need a token, a client certificate or a role, unless the address is `read_only`.")
        .options(ADMIN_OPTIONS)
        .block(BlockRule::Optional(Context::Admin))
        .many()
        .example("admin unix:/run/weir/admin.sock mode=0660 group=weir;"),
    directive("role", ADMIN, "read | operate | admin", "Grants a role at this address. `read` may only read; `operate` may also change states, weights and limits of servers, revert such changes and clear counters; `admin` may do everything. Each line is for one user (on a Unix socket), one token, one client certificate or one password. If a Unix socket has roles, other users have no access, or read access if the address is `read_only`; root and the user that Weir runs as are always `admin`, unless the socket has passwords. `read_only` limits every role.")
        .options(ROLE)
        .many()
        .example("role operate user=deploy;"),
    directive("state_file", TOP, "FILE", "The file that keeps changes made at run time (states, limits and weights of servers, added and removed servers) over restarts. Reloads always keep them. `weir ctl diff` shows the differences from the configuration, `weir ctl adopt` prints the lines that would make them permanent, and `weir ctl revert` undoes them.")
        .example("state_file /var/lib/weir/state.json;"),
    directive("pid_file", TOP, "FILE", "The file with the process id that signals are sent to: that of the supervisor or, without one, of the serving process. It is written when the process begins to serve, also after an upgrade, and removed when it ends. systemd does not need one.")
        .example("pid_file /run/weir/weir.pid;"),
    directive("cpu_credits", TOP, "[KIND]", "Declares that this machine has CPU credits: it may exceed its baseline while it has saved credits and is throttled when they run out. Weir then keeps an account (credits earned, and the processor time used by all programs), warns before credits run out at the current rate, and with `shed=` reduces its load before that. KIND is the cloud's name of the machine type: Amazon's `t2.…`, `t3.…`, `t3a.…` and `t4g.…`, or Azure's first B series (`Standard_B2s`); for other machines set `earn=` and `max=`. One credit is one core at full use for one minute. If the machine is throttled to its baseline, its credits count as used up, whatever the account shows.")
        .words(0, 1)
        .options(CPU_CREDITS)
        .example("cpu_credits t3.small shed=weight,connections within=15m;"),
    directive("agent", TOP, "ADDRESS", "An address at which load balancers in front read this instance's weight, in HAProxy's agent protocol (`agent-check`). Each connection gets one line: `100%`, less while CPU credits are being saved (`cpu_credits … shed=weight`), or `0%` while Weir stops. There is no authentication.")
        .options(AGENT)
        .many()
        .example("agent :9777;"),
    directive("user", TOP, "USER [GROUP]", "The user that Weir changes to before it serves, by name or number, if it is started as root. Listening sockets, certificates, logs and the pid file are opened before that; files that Weir creates belong to this user. GROUP defaults to the user's primary group; supplementary groups are set as well. One capability is kept, to bind ports below 1024 (`CAP_NET_BIND_SERVICE`) at reloads and upgrades. Without root the directive has no effect, and a warning says so. Reloads and upgrades read keys and write logs as this user.")
        .words(1, 2)
        .example("user weir;"),
    directive("group", TOP, "GROUP", "The group of `user`, as a directive of its own.")
        .example("group weir;"),
    directive("chroot", TOP, "DIR", "The directory that the process is confined to while it serves. Certificates, pages, logs and sockets are opened before that, outside of it. The directories of `files`, everything that a reload reads (including the configuration), and the program that an upgrade starts are looked up inside. It needs root, and `user`, because root can leave a chroot.")
        .example("chroot /var/lib/weir;"),
    directive("resolver", TOP, "[ADDRESS…]", "The DNS servers that resolve the names of servers, by IP address; the port defaults to 53. Without addresses, `/etc/hosts` and the servers of `/etc/resolv.conf` are used. Names are resolved repeatedly in the background: an answer is valid for its TTL, and if a lookup fails, the last good answer stays in use.")
        .words(0, MANY)
        .options(RESOLVER)
        .example("resolver 10.0.0.53 [2001:db8::53]:5353 valid=10s timeout=2s;"),
    directive("error_log", TOP, "FILE | stdout | stderr | syslog:… [LEVEL]", "A destination of Weir's own log (servers that go down or come up, reloads, errors), and the lowest severity that is written there: `emerg`, `alert`, `crit`, `error`, `warning`, `notice`, `info` or `debug`. Several directives write to several destinations. The default is standard error with `notice`. Lines in files have a time stamp; lines on standard error have none, and if standard error is the systemd journal, each line has its level. A failure to start is always reported on standard error.")
        .words(1, 2)
        .many()
        .default("stderr notice")
        .example("error_log /var/log/weir/error.log warning;"),
    directive("audit_log", TOP, "FILE | stdout | stderr | syslog:…", "A destination of the audit log: changes made through the admin interface, by signals and by upgrades, and requests that a role does not allow. Each line is a JSON object with the time, the kind (`change`, `reload`, `upgrade`, `process`, `denied`), the caller and the change. Several directives write to several destinations. Files are reopened on USR1. `error_log` has the same information as text.")
        .many()
        .example("audit_log /var/log/weir/audit.log;"),
    directive("include", TOP, "FILE | PATTERN", "Inserts the directives of these files. Allowed in any block. The path is relative to the file that contains the directive. A pattern (`*`, `?`, `[…]`) may match no file; matches are read in alphabetical order.")
        .many()
        .example("include conf.d/*.conf;"),
];

const MEMORY: &[OptionSpec] = &[option(
    "max",
    "SIZE | PERCENT | off",
    "60%",
    "The budget: a size of at least `32m`, or a percentage of the control group's limit or the machine's memory, whichever is less. Socket buffers in the kernel are not included.",
)];

const CPU_CREDITS: &[OptionSpec] = &[
    option("earn", "NUMBER", "", "Credits earned per hour; 60 equal one core."),
    option("max", "NUMBER", "", "The largest number of saved credits."),
    option("launch", "NUMBER", "0", "Credits that the machine has when it starts."),
    option(
        "balance",
        "NUMBER",
        "",
        "Credits that the machine has when Weir starts; by default the value kept in `file=`, or an estimate from the processor time used since the machine started.",
    ),
    option(
        "file",
        "FILE",
        "",
        "The file that keeps the account over restarts and upgrades of Weir, until the machine itself restarts.",
    ),
    option(
        "warn",
        "TIME | off",
        "30m",
        "A warning is logged when credits will run out within this time, at a quarter of this time, and when they have run out; a message follows when they suffice again.",
    ),
    option(
        "shed",
        "WHAT,…",
        "",
        "The values that are lowered so that credits last: `weight` (reported by `agent` and `/v1/weight`) and `connections` (the limit of open connections; further ones wait in the kernel's backlog, and open ones stay). By default none.",
    ),
    option(
        "within",
        "TIME",
        "15m",
        "The values are lowered when credits would run out within this time, as far as is needed for credits to last that long, at most down to the load that the baseline carries.",
    ),
    option("floor", "PERCENT", "10%", "The values are never lowered below this share."),
];

const AGENT: &[OptionSpec] =
    &[option("mode", "MODE", "", "Permissions of a Unix socket, in octal.")];

const ADMIN_OPTIONS: &[OptionSpec] = &[
    option("mode", "MODE", "0660", "Permissions of a Unix socket, in octal."),
    option("owner", "USER", "", "The owner of a Unix socket; by default the user that runs Weir."),
    option("group", "GROUP", "", "The group of a Unix socket."),
    flag("read_only", "Allows reading only."),
    option(
        "token_file",
        "FILE",
        "",
        "The file with the token that every request over TCP must carry, as `Authorization: Bearer TOKEN`.",
    ),
    option(
        "name",
        "NAME[,NAME…]",
        "",
        "Host names that a TCP address accepts in requests without a token or certificate, besides IP addresses, `localhost`, the machine's own name and the names in its certificate. Requests for other hosts get 421, which protects browsers against DNS rebinding.",
    ),
    flag("tls", "Uses TLS, with `certificate=`, which is read again at a reload."),
    option("certificate", "FILE", "", "The certificate chain (PEM)."),
    option("key", "FILE", "", "The key of the certificate, if it is not in the same file."),
    option(
        "client_ca",
        "FILE",
        "",
        "The authorities (PEM) whose client certificates are accepted. If the address has no token, a certificate is required. `role … certificate=NAME` gives certificates roles; without such lines every accepted certificate may do everything that the address allows.",
    ),
];

const ROLE: &[OptionSpec] = &[
    option("user", "NAME", "", "The user at the other end of a Unix socket, by name or number."),
    option("token_file", "FILE", "", "The file with the token."),
    option(
        "certificate",
        "NAME",
        "",
        "A DNS name in the client certificate, or its common name if it has no DNS name.",
    ),
    option(
        "password",
        "USER:PASSWORD",
        "",
        "A user and a password, which a browser asks for (`Authorization: Basic`). HAProxy calls this `stats auth`.",
    ),
];

const RESOLVER: &[OptionSpec] = &[
    option("valid", "TIME", "", "The time for which an answer is valid, instead of its TTL."),
    option("min_ttl", "TIME", "1s", "A shorter TTL counts as this."),
    option("max_ttl", "TIME", "1h", "A longer TTL counts as this."),
    option("timeout", "TIME", "5s", "The time limit of a whole lookup, including retries."),
    option("ipv4", "on | off", "on", "Queries IPv4 addresses."),
    option(
        "ipv6",
        "on | off",
        "on",
        "Queries IPv6 addresses; they are used if a name has no IPv4 address.",
    ),
];
