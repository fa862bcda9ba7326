//! The cause header: if configured, error responses that Weir makes itself name their cause to the
//! clients that the configuration selects.

use crate::world::{Connects, World, play};

fn text(directives: &str) -> String {
    format!(
        "pool app {{ server 10.0.1.1:80 max_conn=1; queue timeout=2s; }}
         listen 10.0.0.1:80 {{
             {directives}
             route path /ok -> respond 200;
             route path /teapot -> respond 418;
             route path /app -> app;
         }}"
    )
}

async fn answer(world: &World, request: &str, header: &str) -> (u16, Option<String>) {
    let mut client = world.client().await;
    client.send(request).await;
    let message = client.message().await;
    (message.status(), message.header(header).map(str::to_owned))
}

async fn check(world: &World, path: &str, header: &str, expected: (u16, Option<&str>)) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    let (status, cause) = answer(world, &request, header).await;
    assert_eq!((status, cause.as_deref()), expected, "{path}");
}

#[test]
fn only_local_error_replies_have_the_cause_header() {
    play(&text("cause_header;"), async |world| {
        let name = "weir-cause";
        check(world, "/ok", name, (200, None)).await;
        check(world, "/teapot", name, (418, Some("local"))).await;
        check(world, "/nowhere", name, (404, Some("no_route"))).await;
        let found = answer(world, "nonsense\r\n\r\n", name).await;
        assert_eq!(found, (400, Some("bad_request".to_owned())));
        world.connects(1, Some(Connects::Refused));
        check(world, "/app", name, (502, Some("connect_failed"))).await;
        world.connects(1, None);
        let origin = world.origin(1);
        let mut first = world.client().await;
        first.send("GET /app HTTP/1.1\r\nHost: a\r\n\r\n").await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        check(world, "/app", name, (503, Some("queue_timeout"))).await;
        // An endpoint's error response is passed on without the header.
        upstream.send("HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n").await;
        assert_eq!(first.message().await.header(name), None);
    });
}

#[test]
fn an_untrusted_client_gets_no_cause_where_trust_is_required() {
    for (network, told) in [("192.0.2.0/24", Some("no_route")), ("10.9.0.0/16", None)] {
        let directives = format!("cause_header X-Why trusted; trusted_proxies {network};");
        play(&text(&directives), async |world| {
            check(world, "/nowhere", "x-why", (404, told)).await;
        });
    }
}

#[test]
fn without_the_directive_no_response_has_the_cause_header() {
    play(&text(""), async |world| check(world, "/nowhere", "weir-cause", (404, None)).await);
}
