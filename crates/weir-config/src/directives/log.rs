//! Directives of access logs. The checks are in `check/log.rs`.

use super::spec::{BlockRule, Context, LOG, Spec, TOP, directive};

/// The directives, in the order of the reference page.
pub(super) const DIRECTIVES: &[Spec] = &[
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
];
