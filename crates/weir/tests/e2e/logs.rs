//! Compares the access log with the logs of nginx and haproxy for the same requests, byte for byte.

use std::net::SocketAddr;
use std::os::unix::net::UnixDatagram;

use crate::support::client::Client;
use crate::support::origin::Origin;
use crate::support::programs::{Haproxy, Nginx};
use crate::support::weir::Weir;
use crate::support::{Directory, PATIENCE, eventually, pattern};

/// Returns the requests whose log lines are compared; each closes its connection.
fn requests() -> Vec<String> {
    let with = |line: &str, headers: &str| {
        format!("{line}\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n")
    };
    vec![
        with("GET /1k HTTP/1.1", ""),
        with(
            "GET /1k?a=1&b=%20x HTTP/1.1",
            "User-Agent: Mozilla/5.0 (X11)\r\nReferer: http://example.com/\r\n",
        ),
        with("HEAD /1k HTTP/1.1", ""),
        with("GET /absent HTTP/1.1", ""),
        with("GET /1k HTTP/1.0", ""),
        with(
            "GET /1k HTTP/1.1",
            "User-Agent: a \"quoted\" \\ name\r\nX-Forwarded-For: 192.0.2.1, 192.0.2.2\r\n",
        ),
        with("GET /1k HTTP/1.1", "User-Agent: caf\u{e9}\ttab\r\n"),
        with("GET /1k HTTP/1.1", "Authorization: Basic dXNlcjpzZWNyZXQ=\r\n"),
        with("DELETE /1k HTTP/1.1", ""),
        format!("{}hello", with("POST /1k HTTP/1.1", "Content-Length: 5\r\n")),
    ]
}

/// Sends the requests one after the other, each on its own connection, and checks the log after
/// each: a line may be written after the connection has ended.
fn send_all(address: SocketAddr, mut after: impl FnMut(usize)) {
    for (number, request) in requests().into_iter().enumerate() {
        let mut client = Client::connect(address);
        client.send(request);
        client.rest();
        after(number);
    }
}

/// Returns the lines of the log once there are `count` of them.
fn lines(path: &str, count: usize) -> Vec<String> {
    eventually("every line is written", || {
        let log = std::fs::read_to_string(path).ok()?;
        let lines: Vec<_> = log.lines().map(str::to_owned).collect();
        (lines.len() >= count).then_some(lines)
    })
}

/// Returns a line without its time stamp, whose form is checked.
fn without_time(line: &str) -> String {
    let (before, rest) = line.split_once('[').unwrap();
    let (time, after) = rest.split_once(']').unwrap();
    let form: String =
        time.chars().map(|letter| if letter.is_ascii_digit() { '9' } else { letter }).collect();
    assert!(
        form.len() == 26 && form.starts_with("99/") && form[6..].starts_with("/9999:99:99:99 "),
        "{line}"
    );
    format!("{before}[]{after}")
}

#[test]
fn main_and_combined_lines_are_those_of_nginx() {
    let directory = Directory::new();
    let origin = Nginx::origin(&directory);
    directory.file("www/1k", pattern(1024));
    let main = "log_format main '$remote_addr - $remote_user [$time_local] \"$request\" '
                '$status $body_bytes_sent \"$http_referer\" ' '\"$http_user_agent\" \"$http_x_forwarded_for\"';";
    let nginx = Nginx::start(
        &directory,
        "peer",
        &format!(
            "{main} access_log {}/nginx.main main; access_log {0}/nginx.combined combined;
             server {{ listen ADDRESS; location / {{ proxy_pass http://{}; }} }}",
            directory.path().display(),
            origin.address
        ),
    );
    let config = format!(
        "workers 1;
         log main {{ to {0}/weir.main; format main; }}
         log combined {{ to {0}/weir.combined; format combined; }}
         listen 127.0.0.1:0 {{ log main combined; route -> {1}; }}",
        directory.path().display(),
        origin.address
    );
    let weir = Weir::start(&directory, &config);
    let main_of = |name: &str| directory.text(&format!("{name}.main"));
    send_all(nginx.address, |number| drop(lines(&main_of("nginx"), number + 1)));
    send_all(weir.address(), |number| drop(lines(&main_of("weir"), number + 1)));
    for format in ["main", "combined"] {
        let count = requests().len();
        let expected = lines(&directory.text(&format!("nginx.{format}")), count);
        let written = lines(&directory.text(&format!("weir.{format}")), count);
        for (ours, theirs) in written.iter().zip(&expected) {
            assert_eq!(without_time(ours), without_time(theirs));
        }
        assert_eq!(written.len(), expected.len());
    }
}

/// Returns haproxy's line with the parts that differ between runs (port, time, durations) replaced
/// by letters.
fn masked(line: &str) -> String {
    let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    let (address, port) = words[0].rsplit_once(':').unwrap();
    port.parse::<u16>().unwrap();
    words[0] = format!("{address}:PORT");
    words[1] =
        words[1].chars().map(|letter| if letter.is_ascii_digit() { '9' } else { letter }).collect();
    // HAProxy counts bytes in its own form of a message, in which a connection header has no size.
    words[6].parse::<u64>().unwrap();
    "BYTES".clone_into(&mut words[6]);
    // Durations: a measured number, or -1 for a phase that was not reached.
    let durations: Vec<_> = words[4]
        .split('/')
        .map(|duration| if duration.parse::<i64>().unwrap() < 0 { "-1" } else { "ms" })
        .collect();
    words[4] = durations.join("/");
    // Connections and exchanges at the same time: it depends on timing whether the previous one is
    // already closed. The retries are compared.
    let mut counts: Vec<&str> = words[10].split('/').collect();
    for count in &mut counts[..4] {
        count.parse::<u32>().unwrap();
        *count = "N";
    }
    words[10] = counts.join("/");
    words.join(" ")
}

#[test]
fn haproxy_lines_are_those_of_haproxy() {
    let directory = Directory::new();
    let origin = Nginx::origin(&directory);
    directory.file("www/1k", pattern(1024));
    let sink = UnixDatagram::bind(directory.path().join("log.sock")).unwrap();
    sink.set_read_timeout(Some(PATIENCE)).unwrap();
    let haproxy = Haproxy::start(
        &directory,
        &format!(
            "global\n log {} format raw local0\ndefaults\n mode http\n log global\n option httplog\n \
             timeout connect 5s\n timeout client 5s\n timeout server 5s\n\
             frontend fe\n bind fd@0\n default_backend be\nbackend be\n server s1 {}\n",
            directory.text("log.sock"),
            origin.address
        ),
    );
    let config = format!(
        "workers 1;
         log access {{ to {}; format haproxy; }}
         pool be {{ server {} name=s1; }}
         listen 127.0.0.1:0 name=fe {{ log access; route -> be; }}",
        directory.text("weir.log"),
        origin.address
    );
    let weir = Weir::start(&directory, &config);
    let mut expected = Vec::new();
    send_all(haproxy.address, |_| expected.push(haproxy_line(&sink)));
    let log = directory.text("weir.log");
    send_all(weir.address(), |number| drop(lines(&log, number + 1)));
    let written = lines(&log, requests().len());
    // Nothing was there before the first request.
    assert!(written[0].contains(" ---- 1/1/0/0/0 0/0 "), "{}", written[0]);
    for (ours, theirs) in written.iter().zip(&expected) {
        assert_eq!(masked(ours), masked(theirs));
    }
    assert_eq!(written.len(), expected.len());
}

/// Returns the line of the next request; haproxy also logs its start there.
fn haproxy_line(sink: &UnixDatagram) -> String {
    let mut buffer = [0; 4096];
    loop {
        let length = sink.recv(&mut buffer).unwrap();
        let line = String::from_utf8_lossy(&buffer[..length]).trim_end().to_owned();
        if line.contains(" fe be/") {
            return line;
        }
    }
}

#[test]
fn json_is_one_object_a_line_with_the_time_split() {
    let directory = Directory::new();
    let origin = Origin::echo();
    let config = format!(
        "log access {{ to {}; format json; }}
         listen 127.0.0.1:0 {{ log access; route path /own -> respond 204; route -> {}; }}",
        directory.text("weir.json"),
        origin.address
    );
    let weir = Weir::start(&directory, &config);
    let mut client = Client::connect(weir.address());
    client.ask("/a\"b?c=\\d");
    client.ask("/own");
    let lines = lines(&directory.text("weir.json"), 2);
    let [proxied, own] =
        [0, 1].map(|at| serde_json::from_str::<serde_json::Value>(&lines[at]).unwrap());
    assert_eq!((proxied["status"].as_u64(), own["status"].as_u64()), (Some(200), Some(204)));
    assert_eq!(
        (proxied["cause"].as_str(), own["cause"].as_str()),
        (Some("complete"), Some("local"))
    );
    let time = |name: &str| proxied[name].as_u64().unwrap_or_else(|| panic!("{name}: {proxied}"));
    let parts = ["t_request", "t_queue", "t_connect", "t_response", "t_data"].map(time);
    assert_eq!(parts.iter().sum::<u64>(), time("t_active"));
    assert!(time("t_active") <= time("t_total"));
    assert!(own["t_connect"].is_null(), "{own}");
}

#[test]
fn syslog_takes_one_datagram_a_line() {
    let directory = Directory::new();
    let origin = Origin::echo();
    let path = directory.text("log.sock");
    let sink = UnixDatagram::bind(&path).unwrap();
    sink.set_read_timeout(Some(PATIENCE)).unwrap();
    let config = format!(
        "log access {{ to syslog:{path},facility=local0; format \"$status $request_uri\"; }}
         listen 127.0.0.1:0 {{ log access; route -> {}; }}",
        origin.address
    );
    let weir = Weir::start(&directory, &config);
    let mut client = Client::connect(weir.address());
    for number in 0..3 {
        client.ask(&format!("/{number}"));
    }
    let mut buffer = [0; 2048];
    for number in 0..3 {
        let length = sink.recv(&mut buffer).unwrap();
        let line = String::from_utf8_lossy(&buffer[..length]).into_owned();
        // Facility 16 (local0), severity 6 (information): 16 * 8 + 6.
        assert!(line.starts_with("<134>"), "{line}");
        assert!(line.trim_end().ends_with(&format!(": 200 /{number}")), "{line}");
    }
}

#[test]
fn one_log_goes_to_two_destinations_and_messages_go_to_their_own() {
    let directory = Directory::new();
    let path = directory.text("log.sock");
    let sink = UnixDatagram::bind(&path).unwrap();
    sink.set_read_timeout(Some(PATIENCE)).unwrap();
    let (access, errors, pid) =
        (directory.text("access.log"), directory.text("error.log"), directory.text("weir.pid"));
    let config = format!(
        "pid_file {pid}; error_log stderr; error_log {errors} warn;
         pool app {{ server 127.0.0.1:1; }}
         log access {{ to {access}; to syslog:{path},severity=notice,format=rfc5424; format \"$request_uri\"; }}
         listen 127.0.0.1:0 {{ log access; route path /own -> respond 204; route -> app; }}"
    );
    let mut weir = Weir::start(&directory, &config);
    let number = std::fs::read_to_string(&pid).unwrap();
    assert_eq!(number, format!("{}\n", weir.process.id()));
    let mut client = Client::connect(weir.address());
    client.ask("/own");
    assert_eq!(lines(&access, 1), ["/own"]);
    let mut buffer = [0; 2048];
    let length = sink.recv(&mut buffer).unwrap();
    let line = String::from_utf8_lossy(&buffer[..length]).into_owned();
    let end = format!(" weir {} access - /own", number.trim_end());
    assert!(line.starts_with("<133>1 ") && line.ends_with(&end), "{line}");
    // Notices go to standard error only, errors to both.
    client.ask("/");
    let line = lines(&errors, 1).remove(0);
    assert!(line.contains(" [error] cannot connect to app/127.0.0.1:1 "), "{line}");
    weir.process.says("weir: listening on ");
    assert_eq!(lines(&access, 2), ["/own", "/"]);
    // Both files are reopened.
    for log in [&access, &errors] {
        std::fs::rename(log, format!("{log}.1")).unwrap();
    }
    weir.process.signal(rustix::process::Signal::USR1);
    eventually("the error log is there again", || std::fs::metadata(&errors).ok());
    client.ask("/own");
    assert_eq!(lines(&access, 1), ["/own"]);
    weir.process.signal(rustix::process::Signal::TERM);
    assert!(weir.process.wait().success());
    assert!(!std::path::Path::new(&pid).exists(), "the pid file was left behind");
}

#[test]
fn a_full_disk_and_a_pipe_without_a_reader_stop_no_traffic_and_are_logged() {
    let directory = Directory::new();
    let pipe = directory.text("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let config = format!(
        "log full {{ to /dev/full; }}
         log pipe {{ to {pipe}; }}
         listen 127.0.0.1:0 {{ log full pipe; route -> respond 204; }}"
    );
    let weir = Weir::start(&directory, &config);
    let mut client = Client::connect(weir.address());
    for _ in 0..20 {
        assert_eq!(client.ask("/").status, 204);
    }
    for (log, place, why) in [
        ("full", "/dev/full", "No space left on device"),
        ("pipe", pipe.as_str(), "no process reads this pipe"),
    ] {
        let said = format!("weir: cannot write the log {log} to {place}: {why}");
        weir.process.says(&said);
    }
    assert_eq!(client.ask("/").status, 204);
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || std::fs::File::open(pipe)
    });
    let again = format!("weir: the log pipe is written to {pipe} again; ");
    eventually("it works again", || {
        client.ask("/");
        weir.process.said().contains(&again).then_some(())
    });
    assert!(reader.join().unwrap().is_ok());
    let said = weir.process.said();
    assert_eq!(said.matches("cannot write the log full").count(), 1, "{said}");
}

#[test]
fn routes_have_logs_of_their_own_and_lines_depend_on_a_text() {
    let directory = Directory::new();
    let path = |name: &str| directory.text(name);
    let config = format!(
        "map $status $loud {{ ~^4 1; default 0; }}
         log all {{ to {}; format \"$request_uri $http_x_a\"; }}
         log own {{ to {}; format \"{{\\\"a\\\":\\\"$http_x_a\\\"}}\" escape=json; }}
         log errors {{ to {}; format \"$request_uri $status\"; when $loud; }}
         listen 127.0.0.1:0 {{
             log all errors;
             route path /own -> respond 404 {{ log own; }}
             route path /quiet -> respond 404 {{ log off; }}
             route path /missing -> respond 404;
             route -> respond 204;
         }}",
        path("all.log"),
        path("own.log"),
        path("errors.log")
    );
    let weir = Weir::start(&directory, &config);
    let mut client = Client::connect(weir.address());
    for path in ["/own", "/quiet", "/missing", "/last"] {
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\nX-A: \"x\"\r\n\r\n"));
        client.response();
    }
    assert_eq!(lines(&path("all.log"), 2), [r"/missing \x22x\x22", r"/last \x22x\x22"]);
    assert_eq!(lines(&path("own.log"), 1), [r#"{"a":"\"x\""}"#]);
    assert_eq!(lines(&path("errors.log"), 1), ["/missing 404"]);
}
