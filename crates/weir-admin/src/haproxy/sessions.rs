//! `show sess`: a line for each running request, oldest first, and one for the caller, in HAProxy's
//! format (2.6). HAProxy's fields for buffers, timers and file descriptors have no counterpart in
//! Weir: they are empty or 0.

use std::fmt::Write;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use weir_proxy::sessions::RunningExchange;

use crate::humanize::age_ms;

/// HAProxy's fields about a session's internals, with the values of an inactive session.
const INSIDE: &str = "rq[f=0h,i=0,an=00h,rx=,wx=,ax=] rp[f=0h,i=0,an=00h,rx=,wx=,ax=] scf=[8,0h,fd=-1] scb=[8,0h,fd=-1] exp= rc=0 c_exp=";

/// The list; `who` is the caller.
pub(super) fn sessions(running: &[RunningExchange], who: &str, now: SystemTime) -> String {
    let mut text = String::new();
    for one in running {
        let (protocol, source) = match one.peer {
            None => ("unix_stream", "unix:1".to_owned()),
            Some(SocketAddr::V4(address)) => ("tcpv4", address.to_string()),
            // HAProxy writes IPv6 addresses without brackets.
            Some(SocketAddr::V6(address)) => {
                ("tcpv6", format!("{}:{}", address.ip(), address.port()))
            }
        };
        let _ = writeln!(
            text,
            "0x{:04x}{:08x}: proto={protocol} src={source} fe={} be={} srv={} ts={:02x} epoch=0 age={} calls={} rate=0 cpu=0 lat=0 {INSIDE}",
            one.worker + 1,
            one.number,
            one.listener,
            one.pool.as_deref().unwrap_or("<NONE>"),
            one.endpoint.as_deref().unwrap_or("<none>"),
            one.worker,
            age(one.age),
            one.exchanges,
        );
    }
    let own = now.duration_since(UNIX_EPOCH).unwrap_or_default().subsec_nanos();
    let source = who.replace(' ', "_");
    let _ = writeln!(
        text,
        "0x{own:012x}: proto=unix_stream src={source} fe=GLOBAL be=<NONE> srv=<none> ts=00 epoch=0 age=0s calls=1 rate=0 cpu=0 lat=0 {INSIDE}",
    );
    text
}

/// A time as HAProxy writes it: `7s`, `3m12s`, `4h1m`, `2d3h`.
fn age(age: Duration) -> String {
    age_ms(age.as_millis() as u64).replace(' ', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_a_line_as_haproxy_writes_it() {
        let running = RunningExchange {
            worker: 1,
            number: 7,
            peer: Some("[2001:db8::1]:5000".parse().unwrap()),
            listener: "front".into(),
            pool: Some("app".into()),
            endpoint: None,
            age: Duration::from_secs(192),
            exchanges: 3,
            held: 0,
        };
        let local = RunningExchange { peer: None, pool: None, worker: 0, ..running.clone() };
        let text = sessions(&[running, local], "uid 0", UNIX_EPOCH);
        let lines: Vec<&str> = text.lines().collect();
        let first = "0x000200000007: proto=tcpv6 src=2001:db8::1:5000 fe=front be=app srv=<none> ts=01 epoch=0 age=3m12s calls=3 rate=0 cpu=0 lat=0 rq[f=";
        assert!(lines[0].starts_with(first) && lines[0].ends_with(" rc=0 c_exp="), "{text}");
        assert!(lines[1].contains(" proto=unix_stream src=unix:1 fe=front be=<NONE> srv=<none> "));
        assert!(lines[2].contains(" src=uid_0 fe=GLOBAL "), "{text}");
        assert_eq!(lines.len(), 3);
    }
}
