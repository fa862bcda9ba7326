//! Log lines compared with those of nginx 1.22 and HAProxy 2.6 for the same exchanges.

use std::time::{Duration, UNIX_EPOCH};

use super::*;
use crate::exchange::sample::{self, List};
use crate::{
    AffinityOutcome, Cause, Concurrency, ConnectionCounts, FailedAttempt, Micros, ProcessCounts,
    Setback, TCP, Times,
};

fn line(format: &Line, entry: &Entry<'_>) -> String {
    let mut out = Vec::new();
    format.write_line(entry, &mut Clock::utc(), &mut out);
    String::from_utf8(out).unwrap()
}

/// An exchange at 20/Nov/2026:19:52:55.007 without anything optional.
fn bare<'a>(request_line: &'a [u8], request_headers: &'a List) -> Entry<'a> {
    Entry {
        started: UNIX_EPOCH + Duration::from_millis(1_795_204_375_007),
        times: Times::default(),
        peer: Some(([127, 0, 0, 1], 36376).into()),
        client: None,
        request_line,
        request_headers,
        body_bytes_sent: 5,
        tls: None,
        ..sample::entry()
    }
}

fn check_nginx(entry: &Entry<'_>, expected: &str) {
    assert_eq!(line(&Line::main(), entry), format!("{expected}\n"));
    let (combined, _) = expected.rsplit_once(" \"").unwrap();
    assert_eq!(line(&Line::combined(), entry), format!("{combined}\n"));
}

#[test]
fn main_and_combined_are_nginx_s() {
    let none = List(&[]);
    check_nginx(
        &bare(b"GET / HTTP/1.1", &none),
        r#"127.0.0.1 - - [20/Nov/2026:19:52:55 +0000] "GET / HTTP/1.1" 200 5 "-" "-" "-""#,
    );
    let headers = List(&[
        ("Referer", ""),
        ("User-Agent", "x\"y\\\t"),
        ("X-Forwarded-For", "1.2.3.4, 5.6.7.8"),
        ("Authorization", "Basic YWxpY2U6c2VjcmV0"),
    ]);
    check_nginx(
        &bare("GET /a\"b\\c\u{e9}?a=1&b HTTP/1.1".as_bytes(), &headers),
        concat!(
            r#"127.0.0.1 - alice [20/Nov/2026:19:52:55 +0000] "GET /a\x22b\x5Cc\xC3\xA9?a=1&b HTTP/1.1" 200 5 "#,
            r#""" "x\x22y\x5C\x09" "1.2.3.4, 5.6.7.8""#
        ),
    );
    let garbage = Entry { status: 400, body_bytes_sent: 157, ..bare(b"\x16\x03\x01abc", &none) };
    check_nginx(
        &garbage,
        r#"127.0.0.1 - - [20/Nov/2026:19:52:55 +0000] "\x16\x03\x01abc" 400 157 "-" "-" "-""#,
    );
    let unix = Entry { peer: None, ..bare(b"GET / HTTP/1.1", &none) };
    check_nginx(
        &unix,
        r#"unix: - - [20/Nov/2026:19:52:55 +0000] "GET / HTTP/1.1" 200 5 "-" "-" "-""#,
    );
    let slow = Times { request: Micros(1_001_000), ..Times::default() };
    let slow =
        Entry { times: slow, status: 408, body_bytes_sent: 0, ..bare(b"GET / HTTP/1.1", &none) };
    check_nginx(
        &slow,
        r#"127.0.0.1 - - [20/Nov/2026:19:52:56 +0000] "GET / HTTP/1.1" 408 0 "-" "-" "-""#,
    );
}

#[test]
fn variables_are_nginx_s() {
    let template = "$uri|$args|$request_uri|$arg_a|$cookie_c|$host|$upstream_addr|$request_time|$http_empty|$ssl_protocol";
    let template = Line::text(Template::parse(template).unwrap());
    let check = |target: &str, host: &str, headers: &List, expected: &str| {
        let entry = Entry {
            target: target.as_bytes(),
            host: host.as_bytes(),
            endpoint_address: "",
            ..bare(b"GET / HTTP/1.1", headers)
        };
        assert_eq!(line(&template, &entry), format!("{expected}\n"));
    };
    let none = List(&[]);
    check("/", "A.Example", &none, "/|-|/|-|-|a.example|-|0.000|-|-");
    let headers = List(&[("Cookie", "z=1; c=2"), ("Empty", "")]);
    let expected =
        r"/a\x22b\x5Cc\xC3\xA9|a=1&b|/a\x22b\x5Cc\xC3\xA9?a=1&b|1|2|a.example|-|0.000||-";
    check("/a\"b\\c\u{e9}?a=1&b", "A.Example", &headers, expected);
    check("/?", "A.Example", &none, "/|-|/?|-|-|a.example|-|0.000|-|-");
    check("http://h.example/p?q", "h.example", &none, "/p|q|/p?q|-|-|h.example|-|0.000|-|-");
}

#[test]
fn the_received_forwarded_addresses_and_the_client_are_nginx_s() {
    let template = Template::parse("$is_args|$proxy_add_x_forwarded_for").unwrap();
    let template = Line::text(template);
    let check = |target: &str, headers: &List, expected: &str| {
        let entry = Entry {
            target: target.as_bytes(),
            peer: Some("192.0.2.7:9".parse().unwrap()),
            client: None,
            ..bare(b"GET / HTTP/1.1", headers)
        };
        assert_eq!(line(&template, &entry), format!("{expected}\n"));
    };
    check("/", &List(&[]), "|192.0.2.7");
    check("/?", &List(&[("X-Forwarded-For", "")]), "|192.0.2.7");
    let received = List(&[("X-Forwarded-For", "10.0.0.1, 10.0.0.2")]);
    check("/?a", &received, "?|10.0.0.1, 10.0.0.2, 192.0.2.7");
    // The line of a proxy before this one stays behind that of a client.
    let lines = List(&[("X-Forwarded-For", "10.0.0.1"), ("x-forwarded-for", "10.0.0.2")]);
    check("/", &lines, "|10.0.0.1, 10.0.0.2, 192.0.2.7");
}

#[test]
fn all_cookies_and_forwarded_addresses_are_there() {
    let template = Template::parse("$http_cookie|$http_x_forwarded_for|$http_via").unwrap();
    let headers = List(&[
        ("Cookie", "a=1"),
        ("X-Forwarded-For", "10.0.0.1"),
        ("Via", "1.1 a"),
        ("Cookie", "b=2"),
        ("X-Forwarded-For", "10.0.0.2"),
        ("Via", "1.1 b"),
    ]);
    let entry = bare(b"GET / HTTP/1.1", &headers);
    assert_eq!(line(&Line::text(template), &entry), "a=1; b=2|10.0.0.1, 10.0.0.2|1.1 a\n");
}

/// Times in milliseconds, -1 for never; `total` is measured from the first byte.
fn times(request: i64, queue: i64, connect: i64, response: i64, total: i64) -> Times {
    let micros = |milliseconds: i64| {
        if milliseconds < 0 { Micros::NEVER } else { Micros(milliseconds * 1000) }
    };
    Times {
        handshake: Micros(300),
        idle: Micros(5_000_000),
        request: micros(request),
        queue: micros(queue),
        connect: micros(connect),
        response: micros(response),
        data: Micros::NEVER,
        total: Micros(total * 1000 + 5_000_300),
        own: Micros::NEVER,
    }
}

struct Case<'a> {
    names: [&'a str; 3],
    times: Times,
    cause: Cause,
    status: u16,
    bytes: u64,
    request: &'a str,
}

fn check_haproxy(case: &Case<'_>, expected: &str) {
    let none = List(&[]);
    let [listener, pool, endpoint] = case.names;
    let entry = Entry {
        listener,
        pool,
        endpoint,
        times: case.times,
        cause: case.cause,
        status: case.status,
        bytes_sent: case.bytes,
        attempts: u32::from(!endpoint.is_empty()),
        concurrency: Concurrency { process: 1, listener: 1, pool: 0, endpoint: 0 },
        ..bare(case.request.as_bytes(), &none)
    };
    let start = "127.0.0.1:36376 [20/Nov/2026:19:52:55.007] ";
    assert_eq!(line(&Line::haproxy(), &entry), format!("{start}{expected}\n"));
}

/// Each expected line is HAProxy's line without its start.
#[test]
fn haproxy_lines_of_finished_exchanges() {
    check_haproxy(
        &Case {
            names: ["fe", "be", "s1"],
            times: times(0, 0, 0, 0, 0),
            cause: Cause::Complete,
            status: 200,
            bytes: 54,
            request: "GET /be/\"q\\x HTTP/1.1",
        },
        r#"fe be/s1 0/0/0/0/0 200 54 - - ---- 1/1/0/0/0 0/0 "GET /be/#22q\x HTTP/1.1""#,
    );
    check_haproxy(
        &Case {
            names: ["fe", "slow", "s1"],
            times: times(0, 0, 0, -1, 1001),
            cause: Cause::ResponseTimeout,
            status: 504,
            bytes: 198,
            request: "GET /slow HTTP/1.1",
        },
        r#"fe slow/s1 0/0/0/-1/1001 504 198 - - sH-- 1/1/0/0/0 0/0 "GET /slow HTTP/1.1""#,
    );
    check_haproxy(
        &Case {
            names: ["fe", "deny", ""],
            times: times(0, -1, -1, -1, 0),
            cause: Cause::Denied,
            status: 403,
            bytes: 192,
            request: "GET /deny HTTP/1.1",
        },
        r#"fe deny/<NOSRV> 0/-1/-1/-1/0 403 192 - - PR-- 1/1/0/0/0 0/0 "GET /deny HTTP/1.1""#,
    );
    check_haproxy(
        &Case {
            names: ["fe", "slow", ""],
            times: times(0, 500, -1, -1, 500),
            cause: Cause::Denied,
            status: 500,
            bytes: 192,
            request: "GET /slow HTTP/1.1",
        },
        r#"fe slow/<NOSRV> -1/500/-1/-1/500 500 192 - - PT-- 1/1/0/0/0 0/0 "GET /slow HTTP/1.1""#,
    );
}

/// Each expected line is HAProxy's line of `option tcplog` without its start.
#[test]
fn haproxy_lines_of_tcp_connections() {
    let none = List(&[]);
    let check = |times: Times, attempts: u32, cause: Cause, expected: &str| {
        let entry = Entry {
            listener: "db",
            pool: "pg",
            endpoint: if attempts > 0 { "pg1" } else { "" },
            protocol: TCP,
            times,
            cause,
            attempts,
            bytes_sent: 1_234,
            ..bare(b"", &none)
        };
        let start = "127.0.0.1:36376 [20/Nov/2026:19:52:55.007] db ";
        assert_eq!(line(&Line::haproxy(), &entry), format!("{start}{expected}\n"));
    };
    let total = |times: Times, ms: i64| Times { total: Micros(ms * 1000), ..times };
    let ended = total(times(0, 7, 2, 1, 0), 5_010);
    check(ended, 1, Cause::TunnelClosed, "pg/pg1 7/2/5010 1234 -- 4/3/2/1/0 0/0");
    check(ended, 1, Cause::TunnelTimeout, "pg/pg1 7/2/5010 1234 cD 4/3/2/1/0 0/0");
    let silent = total(times(0, 7, 2, -1, 0), 5_010);
    check(silent, 1, Cause::TunnelClientReset, "pg/pg1 7/2/5010 1234 CD 4/3/2/1/0 0/0");
    check(silent, 1, Cause::Shutdown, "pg/pg1 7/2/5010 1234 KD 4/3/2/1/0 0/0");
    let refused = total(times(0, 0, -1, -1, 0), 3);
    check(refused, 2, Cause::ConnectFailed, "pg/pg1 0/-1/3 1234 SC 4/3/2/1/1 0/0");
    let waited = total(times(0, 50, -1, -1, 0), 50);
    check(waited, 0, Cause::ClientGone, "pg/<NOSRV> 50/-1/50 1234 CQ 4/3/2/1/0 0/0");
}

#[test]
fn haproxy_lines_of_bad_requests() {
    check_haproxy(
        &Case {
            names: ["fe", "", ""],
            times: times(0, -1, -1, -1, 0),
            cause: Cause::BadRequest,
            status: 400,
            bytes: 0,
            request: "GET / HTTP/1.1",
        },
        r#"fe fe/<NOSRV> -1/-1/-1/-1/0 400 0 - - PR-- 1/1/0/0/0 0/0 "<BADREQ>""#,
    );
    check_haproxy(
        &Case {
            names: ["fe", "", ""],
            times: times(-1, -1, -1, -1, 701),
            cause: Cause::RequestTimeout,
            status: 408,
            bytes: 0,
            request: "",
        },
        r#"fe fe/<NOSRV> -1/-1/-1/-1/701 408 0 - - cR-- 1/1/0/0/0 0/0 "<BADREQ>""#,
    );
    check_haproxy(
        &Case {
            names: ["fe", "slow", "s1"],
            times: times(0, 0, 0, -1, 200),
            cause: Cause::ClientGone,
            status: 0,
            bytes: 0,
            request: "POST /#\x01 HTTP/1.1",
        },
        r#"fe slow/s1 0/0/0/-1/200 -1 0 - - CH-- 1/1/0/0/0 0/0 "POST /#23#01 HTTP/1.1""#,
    );
}

#[test]
fn haproxy_marks_tls_unix_sockets_and_retries() {
    let none = List(&[]);
    let entry = Entry {
        tls: sample::entry().tls,
        peer: None,
        attempts: 3,
        queue_position: 4,
        ..bare(b"GET /x HTTP/1.1", &none)
    };
    let expected = concat!(
        "unix:1 [20/Nov/2026:19:52:55.007] fe~ app/app1 -1/-1/-1/-1/0 200 1200 - - ---- 4/3/2/1/2 0/3 ",
        "\"<BADREQ>\"\n"
    );
    assert_eq!(line(&Line::haproxy(), &entry), expected);
    for (endpoint, count) in [("app1", "2"), ("app2", "+2")] {
        let failed = [FailedAttempt { endpoint, why: Setback::Status(503) }];
        let line = line(&Line::haproxy(), &Entry { failed_attempts: &failed, ..entry });
        assert!(line.contains(&format!(" 4/3/2/1/{count} ")), "{line}");
    }
}

#[test]
fn affinity_is_said_in_every_format() {
    let none = List(&[]);
    let answered = times(0, 0, 0, 1, 2);
    let check = |affinity, times, letters: &str, word: &str| {
        let entry = Entry { times, affinity, ..bare(b"GET / HTTP/1.1", &none) };
        let haproxy = line(&Line::haproxy(), &entry);
        assert!(haproxy.contains(&format!("{letters} 4/3/2/1/")), "{affinity:?}: {haproxy}");
        let text = Line::text(Template::parse("$affinity").unwrap());
        assert_eq!(line(&text, &entry).trim_end(), if word.is_empty() { "-" } else { word });
        let json = if word.is_empty() { "null".to_owned() } else { format!("\"{word}\"") };
        assert!(line(&Line::json(), &entry).contains(&format!("\"affinity\":{json},")));
    };
    check(AffinityOutcome::None, answered, "--", "");
    check(AffinityOutcome::New, answered, "NI", "new");
    check(AffinityOutcome::Unknown, answered, "II", "unknown");
    check(AffinityOutcome::Moved, answered, "DI", "moved");
    check(AffinityOutcome::Kept, answered, "VN", "kept");
    let unanswered = Times { response: Micros::NEVER, ..answered };
    check(AffinityOutcome::New, unanswered, "NN", "new");
    check(AffinityOutcome::Moved, unanswered, "DN", "moved");
}

#[test]
fn the_start_is_not_the_time_of_the_line() {
    let none = List(&[]);
    let entry = Entry { times: times(0, 0, 0, 900, 1000), ..bare(b"GET / HTTP/1.1", &none) };
    assert!(line(&Line::haproxy(), &entry).contains("[20/Nov/2026:19:52:55.007]"));
    assert!(line(&Line::combined(), &entry).contains("[20/Nov/2026:19:52:56 +0000]"));
}

#[test]
fn json_has_every_field() {
    let expected = concat!(
        r#"{"time":"2009-02-13T23:31:30.007009+00:00","listener":"fe","client":"192.0.2.7","peer":"192.0.2.7:40000","#,
        r#""local":"10.9.9.9:443","tls":{"resumed":true,"protocol":"TLSv1.3","cipher":"C","group":"G","#,
        r#""server_name":"S"},"connection_requests":9,"request_id":"id-1","request":"GET /a?b=c HTTP/1.1","#,
        r#""method":"GET","target":"/a?b=c","protocol":"HTTP/1.1","host":"Shop.Example.com","referer":"http://r/","#,
        r#""user_agent":"curl/8\"","x_forwarded_for":null,"route":"r","captures":["one","two"],"pool":"app","#,
        r#""endpoint":"app1","endpoint_address":"10.0.0.1:80","attempts":1,"failed_attempts":["app0=connect_failed","app\"2=503"],"#,
        r#""reused":false,"affinity":null,"queue_position":0,"waited_for":null,"ahead":[],"chosen_by":null,"runner_up":null,"status":200,"cause":"complete","grpc":null,"bytes_received":80,"bytes_sent":1200,"body_bytes_sent":1024,"worker":3,"#,
        r#""process_connections":4,"listener_connections":3,"pool_in_flight":2,"endpoint_in_flight":1,"#,
        r#""t_handshake":null,"t_idle":10,"t_request":1000,"t_queue":500,"t_connect":2000,"t_response":102000,"#,
        r#""t_data":19000,"t_active":124500,"t_own":90,"t_total":124510,"t_retry":null,"t_tls":null,"t_client":null}"#,
        "\n"
    );
    let failed_attempts = [
        FailedAttempt { endpoint: "app0", why: Setback::Cause(Cause::ConnectFailed) },
        FailedAttempt { endpoint: "app\"2", why: Setback::Status(503) },
    ];
    let entry = Entry { failed_attempts: &failed_attempts, ..sample::entry() };
    assert_eq!(line(&Line::json(), &entry), expected);
    let text = Line::text(Template::parse("$attempts $failed_attempts").unwrap());
    assert_eq!(line(&text, &entry), "1 app0=connect_failed,app\\x222=503\n");
    assert_eq!(line(&text, &sample::entry()), "1 -\n");
}

#[test]
fn json_says_null_for_what_is_not_there() {
    let none = List(&[]);
    let entry = Entry {
        peer: Some("[2001:db8::1]:9".parse().unwrap()),
        local: None,
        status: 0,
        pool: "",
        captures: &[],
        ..bare(b"", &none)
    };
    let text = line(&Line::json(), &entry);
    for part in [
        r#""client":"2001:db8::1","peer":"[2001:db8::1]:9","local":null,"tls":null"#,
        r#""request":null"#,
        r#""captures":[],"pool":null"#,
        r#""status":null"#,
        r#""t_total":null"#,
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

#[test]
fn variables_about_the_connection_and_the_process() {
    struct Process;

    impl ProcessCounts for Process {
        fn connections(&self) -> ConnectionCounts {
            let requests = 90;
            ConnectionCounts { open: 9, busy: 5, reading: 2, handled: 70, refused: 3, requests }
        }
    }

    let none = List(&[]);
    let template = "$connections_active $connections_reading $connections_writing \
        $connections_waiting $connections_accepted $connections_handled $connections_requests \
        $connection $realip_remote_addr:$realip_remote_port";
    let template = Line::text(Template::parse(template).unwrap());
    let entry = Entry {
        process: &Process,
        client: Some([10, 0, 0, 1].into()),
        ..bare(b"GET / HTTP/1.1", &none)
    };
    assert_eq!(line(&template, &entry), "9 2 3 4 73 70 90 7 127.0.0.1:36376\n");
    let template = Line::text(Template::parse("$connection_time [$request_body]").unwrap());
    let times = Times { total: Micros(4_000), ..entry.times };
    let entry = Entry { times, request_body: b"a\"b", ..entry };
    assert_eq!(line(&template, &entry), "1.004 [a\\x22b]\n");
    assert_eq!(line(&template, &Entry { request_body: b"", ..entry }), "1.004 [-]\n");
}

#[test]
fn a_response_is_complete_if_it_was_sent_to_its_end() {
    let none = List(&[]);
    let template = Line::text(Template::parse("<$request_completion>").unwrap());
    for (status, cause, expected) in [
        (200, Cause::Complete, "OK"),
        (404, Cause::Local, "OK"),
        (502, Cause::ConnectFailed, "OK"),
        (200, Cause::ClientGone, ""),
        (200, Cause::UpstreamAborted, ""),
        (444, Cause::Local, ""),
        (0, Cause::TlsHandshake, ""),
    ] {
        let entry = Entry { cause, status, ..bare(b"GET / HTTP/1.1", &none) };
        assert_eq!(line(&template, &entry), format!("<{expected}>\n"), "{status} {cause:?}");
    }
}
