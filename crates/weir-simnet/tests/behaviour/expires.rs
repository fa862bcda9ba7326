//! `expires`: the time for which clients may keep a response.

use crate::world::{app, play};

#[test]
fn expires_replaces_the_lines_of_the_server_and_leaves_errors_alone() {
    let text = app(
        "server 10.0.1.1:80;",
        "route -> app { expires 1h; response_status 503 if=$sent_http_x_busy; }",
    )
    .replace("default -> app;", "");
    play(&text, async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        let mut upstream = None;
        for (head, expected) in [
            ("200 OK\r\nCache-Control: private\r\nExpires: 0\r\n", Some("max-age=3600")),
            ("404 No\r\nCache-Control: private\r\n", Some("private")),
            ("304 Same\r\n", Some("max-age=3600")),
            ("500 No\r\n", None),
            // The status that the client gets counts.
            ("200 OK\r\nX-Busy: 1\r\n", None),
        ] {
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
            if upstream.is_none() {
                upstream = Some(origin.accept().await);
            }
            let upstream = upstream.as_mut().unwrap();
            upstream.message().await;
            let length = if head.starts_with("304") { "" } else { "Content-Length: 0\r\n" };
            upstream.send(format!("HTTP/1.1 {head}{length}\r\n")).await;
            let answer = client.message().await;
            assert_eq!(answer.all("cache-control"), Vec::from_iter(expected), "{head}");
            let dated = answer.header("expires").is_some_and(|date| date.ends_with(" GMT"));
            assert_eq!(dated, expected == Some("max-age=3600"), "{head}");
        }
        world.log().await;
    });
}

#[test]
fn a_variable_decides_on_the_time_of_each_response() {
    let text = app(
        "server 10.0.1.1:80;",
        "route path /own -> respond 200 x type=text/css { expires $kept; }
         route path /file -> files /etc strip=/file prefix=/passwd { expires $by_path; }
         route -> app { expires $kept; }",
    );
    let text = format!(
        "map $sent_http_content_type $kept {{ text/css max; ~^image/ 1h; default off; }}
         map $uri $by_path {{ /file epoch; }} {}",
        text.replace("default -> app;", "")
    );
    play(&text, async |world| {
        // The kernel has it in its cache, so that no thread has to wait for it.
        std::fs::read("/etc/passwd").unwrap();
        let origin = world.origin(1);
        let mut client = world.client().await;
        for (path, expected) in [("/own", "max-age=315360000"), ("/file", "no-cache")] {
            client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")).await;
            assert_eq!(client.message().await.all("cache-control"), [expected], "{path}");
        }
        let mut upstream = None;
        for (kind, expected) in
            [("image/png", "max-age=3600"), ("text/css", "max-age=315360000"), ("x/y", "private")]
        {
            client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
            if upstream.is_none() {
                upstream = Some(origin.accept().await);
            }
            let upstream = upstream.as_mut().unwrap();
            upstream.message().await;
            let head = format!("Content-Type: {kind}\r\nCache-Control: private\r\n");
            upstream.send(format!("HTTP/1.1 200 OK\r\n{head}Content-Length: 0\r\n\r\n")).await;
            assert_eq!(client.message().await.all("cache-control"), [expected], "{kind}");
        }
        world.log().await;
    });
}
