//! Directives of access logs. The checks are in `check/log.rs`.

use super::spec::{BlockRule, Context, LOG, Spec, TOP, directive, option};

/// The directives, in the order of the reference page.
pub(super) const DIRECTIVES: &[Spec] = &[
    directive("log", TOP, "NAME", "Defines an access log, which is written by the listeners and routes that name it.")
        .block(BlockRule::Required(Context::Log))
        .many()
        .example("log access { to /var/log/weir/access.log; format haproxy; }"),
    directive("to", LOG, "FILE | stdout | stderr | syslog:SOCKET[,OPTION…] | syslog:udp:ADDRESS[,OPTION…]", "A destination of the lines. With several `to` directives the lines go to each destination; a slow or unavailable one does not delay the others. Lines are appended to a file, which is reopened on USR1. Syslog options are `,facility=` (`local0`), `,severity=` (`info`) and `,format=` (`rfc3164`, or `rfc5424` with year, time zone, microseconds and the log's name); a syslog socket may be a datagram or a stream socket.")
        .many()
        .example("to syslog:/dev/log,facility=local1,severity=notice;"),
    directive("format", LOG, "combined | main | haproxy | json | \"TEXT\"", "The format of a line: nginx's `combined`, the same with `X-Forwarded-For` (`main`), HAProxy's `httplog` (`haproxy`), a JSON object with times in microseconds (`json`), or a text with `$variables`.")
        .options(&[option(
            "escape",
            "default | json | none",
            "default",
            "The escaping of the values in a text: `default` writes `\"`, `\\`, control bytes and bytes beyond ASCII as `\\xXX`, and an absent value as `-`; `json` escapes for a string of JSON; with `none` a client can write what it likes into the log.",
        )])
        .default("combined")
        .example("format \"$remote_addr $request $status $t_queue\";"),
    directive("buffer", LOG, "SIZE", "Collects lines, up to this size (1k to 64m), and writes them to a file in one piece, so that a disk has fewer writes. They are written when the buffer is full, after the `flush=` time, and when files are reopened (USR1), the log is no longer configured or the process ends; a crash loses them. Not for syslog. nginx calls this `buffer=` and `flush=` of `access_log`.")
        .options(&[option("flush", "TIME", "", "The longest time that a line waits; by default there is no limit.")])
        .example("buffer 64k flush=5s;"),
    directive("when", LOG, "TEXT", "Writes only the lines of requests for which this text with `$variables` is neither empty nor `0`, such as that of a `map`.")
        .example("when $http_x_trace;"),
];
