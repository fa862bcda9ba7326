//! `error_page … -> …`: a request that would get an error response is served by another route, with
//! its body and without it, and the connection stays in step.

use crate::OK;
use crate::peer::{Message, Peer};
use crate::world::{Connects, play};

fn routes(routes: &str) -> String {
    format!(
        "pool app {{ server 10.0.1.1:80; retry off; passive off; }}
        pool spare {{ server 10.0.1.2:80; }}
        pool whole {{ server 10.0.1.1:80; retry off; passive off; buffer_request 64k; }}
        listen 10.0.0.1:80 {{ {routes} }}"
    )
}

async fn ask(client: &mut Peer, line: &str, body: &str) -> Message {
    let length = body.len();
    client
        .send(format!("{line} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}"))
        .await;
    client.message().await
}

#[test]
fn an_error_of_weirs_own_is_answered_by_the_route_of_its_target() {
    let text = routes(
        "error_page 404 -> internal /lost;
         error_page 410 status=200 -> internal /lost;
         error_page 403 status=own -> internal @denied;
         error_page 405 -> redirect 302 http://b/;
         route internal @denied -> respond 201 denied;
         route path /lost method GET -> respond 202 \"lost $uri\";
         route path /gone -> respond 410;
         route path /text -> respond 404 \"a text\";
         route path /client -> app { deny all; }
         route path /method -> respond 405;
         route path /own -> respond 404 { error_page 403 -> internal /lost; }",
    );
    play(&text, async |world| {
        let mut client = world.client().await;
        for (line, status, body) in [
            ("GET /x", 404, "lost /lost"),
            ("POST /x", 404, "lost /lost"),
            ("GET /gone", 200, "lost /lost"),
            ("GET /text", 404, "a text"),
            ("GET /client", 201, "denied"),
        ] {
            let answer = ask(&mut client, line, "").await;
            assert_eq!((answer.status(), answer.text()), (status, body), "{line}");
        }
        let redirect = ask(&mut client, "GET /method", "").await;
        assert_eq!((redirect.status(), redirect.header("location")), (302, Some("http://b/")));
        // A route with targets of its own has none of the listener's.
        assert!(ask(&mut client, "GET /own", "").await.text().contains("404"));
        world.log().await;
    });
}

#[test]
fn the_error_of_a_target_gets_its_page_and_a_chain_ends() {
    let text = routes(
        "error_page 404 500 -> internal /missing;
         route path /text -> internal /missing;
         default -> respond 404;",
    );
    play(&text, async |world| {
        let mut client = world.client().await;
        assert_eq!(ask(&mut client, "GET /x", "").await.status(), 404);
        assert_eq!(ask(&mut client, "GET /text", "").await.status(), 404);
        world.log().await;
    });
}

#[test]
fn a_request_goes_to_the_pool_of_a_name_with_its_body() {
    let text = routes(
        "error_page 502 status=own -> internal @spare;
         route internal @spare -> spare;
         default -> whole;",
    );
    play(&text, async |world| {
        world.connects(1, Some(Connects::Refused));
        let spare = world.origin(2);
        let mut client = world.client().await;
        client.send("POST /x?y HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody").await;
        let mut upstream = spare.accept().await;
        let seen = upstream.message().await;
        assert_eq!((seen.first.as_str(), seen.text()), ("POST /x?y HTTP/1.1", "body"));
        upstream.send(OK).await;
        assert_eq!(client.message().await.text(), "ok");
        world.expect_logged("complete", Some(200)).await;
        // The connection is in step: the next request is read as one.
        client.send("GET /next HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert_eq!(upstream.message().await.first, "GET /next HTTP/1.1");
        upstream.send(OK).await;
        assert_eq!(client.message().await.status(), 200);
        world.log().await;
    });
}

/// The bound of the error's route is for bodies that it sends on.
#[test]
fn an_error_is_answered_whatever_the_length_of_the_body() {
    let text = routes(
        "limits body=1b;
         error_page 502 -> internal @sorry;
         route internal @sorry -> respond 200 sorry;
         route path /up -> app { limits body=9b; }",
    );
    play(&text, async |world| {
        world.connects(1, Some(Connects::Refused));
        let mut client = world.client().await;
        let answer = ask(&mut client, "POST /up", "body").await;
        assert_eq!((answer.status(), answer.text()), (502, "sorry"));
        world.expect_logged("connect_failed", Some(502)).await;
    });
}

#[test]
fn a_body_that_was_not_kept_is_not_sent_to_another_pool() {
    let text = routes(
        "error_page 502 status=own -> internal @spare;
         route internal @spare -> spare;
         default -> app;",
    );
    play(&text, async |world| {
        let (first, spare) = (world.origin(1), world.origin(2));
        let mut client = world.client().await;
        client.send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody").await;
        let mut upstream = first.accept().await;
        upstream.message().await;
        drop(upstream);
        assert_eq!(client.message().await.status(), 502);
        spare.expect_no_connection().await;
        world.expect_logged("upstream_reset", Some(502)).await;
    });
}

/// A body that is not sent on stays in the connection, which must not take it for a request.
#[test]
fn a_target_path_is_asked_for_without_the_body() {
    let text = routes(
        "error_page 413 502 -> internal /page;
         limits body=5b;
         route path /page -> spare;
         default -> app;",
    );
    play(&text, async |world| {
        let spare = world.origin(2);
        let mut client = world.client().await;
        client
            .send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 38\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\nxxxx")
            .await;
        let mut upstream = spare.accept().await;
        let seen = upstream.message().await;
        assert_eq!(seen.first, "GET /page HTTP/1.1");
        assert_eq!((seen.header("content-length"), seen.header("transfer-encoding")), (None, None));
        upstream.send(OK).await;
        let answer = client.message().await;
        assert_eq!((answer.status(), answer.text()), (413, "ok"));
        assert_eq!(answer.header("connection"), Some("close"));
        upstream.expect_silence(std::time::Duration::from_millis(1)).await;
        world.expect_logged("body_too_large", Some(413)).await;
    });
}

#[test]
fn responses_of_servers_are_replaced_only_where_that_is_asked_for() {
    let text = routes(
        "error_page 404 intercept -> internal /page;
         error_page 500 -> internal /page;
         route path /page -> respond 200 page;
         default -> app;",
    );
    play(&text, async |world| {
        let first = world.origin(1);
        let mut client = world.client().await;
        client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n").await;
        let mut upstream = first.accept().await;
        upstream.message().await;
        upstream.send("HTTP/1.1 404 No\r\nContent-Length: 6\r\n\r\ntheirs").await;
        let answer = client.message().await;
        assert_eq!((answer.status(), answer.text()), (404, "page"));
        // The response was complete, so its connection serves the next request.
        client.send("GET /y HTTP/1.1\r\nHost: a\r\n\r\n").await;
        upstream.message().await;
        upstream.send("HTTP/1.1 500 No\r\nContent-Length: 6\r\n\r\ntheirs").await;
        let answer = client.message().await;
        assert_eq!((answer.status(), answer.text()), (500, "theirs"));
        world.log().await;
    });
}

/// Otherwise an error would be a way around the limits of the first route.
#[test]
fn limits_of_both_routes_hold() {
    let text = routes(
        "limit rate $remote_addr rate=1/m burst=2 status=429;
         error_page 404 -> internal /page;
         route path /page -> respond 200 page { limit rate $remote_addr rate=1/m burst=1 status=403; }
         default -> respond 404;",
    );
    play(&text, async |world| {
        let mut statuses = Vec::new();
        for _ in 0..4 {
            statuses.push(ask(&mut world.client().await, "GET /a", "").await.status());
        }
        assert_eq!(statuses, [404, 404, 403, 429]);
        world.log().await;
    });
}

#[test]
fn files_of_pages_have_no_conditions_and_ranges() {
    let text = routes(
        "error_page 404 -> internal /etc/passwd;
         route path /none -> respond 404;
         route path /always -> files / { rewrite path /etc/passwd; response_status 203 always; }
         default -> files / { rewrite path /etc/passwd; }",
    );
    play(&text, async |world| {
        // The kernel has this file in its cache, so that no thread has to wait for it.
        let content = std::fs::read("/etc/passwd").unwrap();
        let mut client = world.client().await;
        client
            .send("GET /none HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1\r\nIf-None-Match: *\r\n\r\n")
            .await;
        let answer = client.message().await;
        assert_eq!((answer.status(), answer.text().len()), (404, content.len()));
        // The path of a file can be rewritten.
        client.send("GET /whatever HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1\r\n\r\n").await;
        assert_eq!(client.message().await.status(), 206);
        // A part of a file keeps its status; the whole has that of the rule.
        client.send("GET /always HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1\r\n\r\n").await;
        assert_eq!(client.message().await.status(), 206);
        client.send("GET /always HTTP/1.1\r\nHost: a\r\nRange: bytes=9999999-\r\n\r\n").await;
        assert_eq!(client.message().await.status(), 416);
        assert_eq!(ask(&mut client, "GET /always", "").await.status(), 203);
        // The page is asked for with GET, whatever the request was.
        let answer = ask(&mut client, "POST /none", "").await;
        assert_eq!((answer.status(), answer.text().len()), (404, content.len()));
        world.log().await;
    });
}

/// The bytes of a body behind such a head would be read as the next response.
#[test]
fn a_status_without_a_body_is_sent_without_asking_the_target() {
    let text = routes(
        "error_page 404 status=204 -> internal @spare;
         error_page 410 status=304 -> internal /page;
         route internal @spare -> spare;
         route path /page -> respond 200 page;
         route path /gone -> respond 410;
         default -> respond 404;",
    );
    play(&text, async |world| {
        let mut client = world.client().await;
        for (line, status) in [("GET /x", 204), ("POST /x", 204), ("GET /gone", 304)] {
            client.send(format!("{line} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n")).await;
            let answer = client.head().await;
            assert_eq!(
                (answer.status(), answer.header("content-length")),
                (status, None),
                "{line}"
            );
        }
        world.origin(2).expect_no_connection().await;
        world.log().await;
    });
}

/// A request that is refused before any limit counted it is counted with its target.
#[test]
fn limits_of_the_listener_hold_for_requests_without_a_route() {
    let text = routes(
        "limit rate $remote_addr rate=1/m burst=2 status=429;
         error_page 403 404 status=own -> internal /page;
         route path /page -> respond 200 page;
         route path /denied -> respond 200 { deny all; };",
    );
    play(&text, async |world| {
        let mut client = world.client().await;
        let mut statuses = Vec::new();
        for line in ["GET /a", "GET /denied", "GET /a", "GET /denied"] {
            statuses.push(ask(&mut client, line, "").await.status());
        }
        assert_eq!(statuses, [200, 200, 200, 429]);
        world.log().await;
    });
}

/// A limit that was not asked before another one refused is asked about the target.
#[test]
fn a_limit_counts_once_and_only_if_it_was_asked() {
    let text = routes(
        "error_page 429 status=own -> internal @page;
         route internal @page -> app { limit in_flight $remote_addr name=one max=1 status=503; }
         route path /a -> respond 200 a {
             limit rate $remote_addr rate=1/m burst=1 status=429;
             limit in_flight $remote_addr name=one max=1 status=503;
         }
         default -> app;",
    );
    play(&text, async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        for _ in 0..2 {
            assert_eq!(ask(&mut client, "GET /a", "").await.text(), "a");
        }
        client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n").await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        // The request for the page is in flight.
        let mut other = world.client().await;
        assert_eq!(ask(&mut other, "GET /a", "").await.status(), 503);
        upstream.send(OK).await;
        assert_eq!(client.message().await.status(), 200);
        world.log().await;
    });
}

#[test]
fn a_request_that_found_a_full_pool_takes_its_body_to_the_next() {
    let text = routes(
        "error_page 503 status=own -> internal @spare;
         route internal @spare -> spare;
         default -> small;",
    );
    let text = format!(
        "pool small {{ server 10.0.1.1:80; limits max_in_flight=1; buffer_request 64k; }} {text}"
    );
    play(&text, async |world| {
        let (first, spare) = (world.origin(1), world.origin(2));
        let mut held = world.client().await;
        held.send("GET /held HTTP/1.1\r\nHost: a\r\n\r\n").await;
        let mut upstream = first.accept().await;
        upstream.message().await;
        let mut client = world.client().await;
        client.send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody").await;
        let mut second = spare.accept().await;
        assert_eq!(second.message().await.text(), "body");
        second.send(OK).await;
        assert_eq!(client.message().await.status(), 200);
        upstream.send(OK).await;
        assert_eq!(held.message().await.status(), 200);
        world.log().await;
    });
}

#[test]
fn texts_of_a_target_have_its_method_and_no_other_response() {
    let text = routes(
        "error_page 404 status=own -> internal /page;
         route path /page -> respond 200 \"$request_method [$sent_http_x_of_app]\";
         route path /app -> app;
         default -> respond 404;",
    );
    play(&text, async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        // Both requests are there at once, so that nothing is given back between them.
        client
            .send(
                "GET /app HTTP/1.1\r\nHost: a\r\n\r\nPOST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
            )
            .await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        upstream.send("HTTP/1.1 200 OK\r\nX-Of-App: 1\r\nContent-Length: 2\r\n\r\nok").await;
        assert_eq!(client.message().await.text(), "ok");
        assert_eq!(client.message().await.text(), "GET []");
        world.log().await;
    });
}

#[test]
fn a_denied_request_stays_one_and_an_upgrade_is_not_offered_for_a_page() {
    let text = routes(
        "error_page 403 -> internal /page;
         route path /page -> app;
         default -> respond 403 cause=denied;",
    );
    play(&text, async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client
            .send("GET /x HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
            .await;
        let mut upstream = origin.accept().await;
        let seen = upstream.message().await;
        assert_eq!((seen.header("upgrade"), seen.header("connection")), (None, None));
        upstream.send(OK).await;
        assert_eq!(client.message().await.status(), 403);
        world.expect_logged("denied", Some(403)).await;
    });
}

#[test]
fn rules_discard_responses_and_change_their_status() {
    let text = routes(
        "route internal @gone -> respond 404 \"gone $http_host\" { response_header set X-Own 1; }
         route internal @spare -> spare;
         route path /never internal -> respond 200 never;
         default -> whole {
            intercept if=$sent_http_x_gone -> internal @gone;
            intercept if=$sent_http_x_spare -> internal @spare;
            response_status 500 if=$sent_http_x_busy;
            response_status 503 if=$sent_http_x_busier;
            response_header set X-Status $status;
         }",
    );
    play(&text, async |world| {
        let (first, spare) = (world.origin(1), world.origin(2));
        let mut client = world.client().await;
        client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n").await;
        let mut upstream = first.accept().await;
        upstream.message().await;
        upstream.send("HTTP/1.1 200 OK\r\nX-Gone: 1\r\nContent-Length: 6\r\n\r\ntheirs").await;
        let answer = client.message().await;
        assert_eq!((answer.status(), answer.text()), (404, "gone a"));
        assert_eq!((answer.header("x-own"), answer.header("x-gone")), (Some("1"), None));
        world.expect_logged("local", Some(404)).await;
        // The response was complete, so its connection serves the next request.
        for (headers, status) in
            [("X-Busy: 0", 200), ("X-Busy: 1", 500), ("X-Busy: 1\r\nX-Busier: 1", 503)]
        {
            client.send("GET /y HTTP/1.1\r\nHost: a\r\n\r\n").await;
            upstream.message().await;
            let head = format!("HTTP/1.1 200 OK\r\n{headers}\r\nContent-Length: 6\r\n\r\ntheirs");
            upstream.send(head).await;
            let answer = client.message().await;
            assert_eq!((answer.status(), answer.text()), (status, "theirs"), "{headers}");
            assert_eq!(answer.header("x-status"), Some("200"));
            world.expect_logged("complete", Some(status.into())).await;
        }
        // A status that ends a response without a body is not changed.
        client.send("GET /z HTTP/1.1\r\nHost: a\r\n\r\n").await;
        upstream.message().await;
        upstream.send("HTTP/1.1 204 No Content\r\nX-Busy: 1\r\n\r\n").await;
        assert_eq!(client.message().await.status(), 204);
        // A body that was kept goes on.
        client.send("POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody").await;
        assert_eq!(upstream.message().await.text(), "body");
        upstream.send("HTTP/1.1 200 OK\r\nX-Spare: 1\r\nContent-Length: 0\r\n\r\n").await;
        let mut other = spare.accept().await;
        let seen = other.message().await;
        assert_eq!((seen.first.as_str(), seen.text()), ("POST /p HTTP/1.1", "body"));
        // Its route has no rules, and those of the one before do not hold.
        other.send("HTTP/1.1 200 OK\r\nX-Gone: 1\r\nContent-Length: 5\r\n\r\nspare").await;
        assert_eq!(client.message().await.text(), "spare");
        client.send("GET /next HTTP/1.1\r\nHost: a\r\n\r\n").await;
        upstream.message().await;
        upstream.send(OK).await;
        assert_eq!(client.message().await.text(), "ok");
        world.log().await;
    });
}

/// The rest of a response that was discarded is not taken for the next one.
#[test]
fn the_connection_of_a_discarded_response_is_used_again_only_if_it_is_over() {
    let text = routes(
        "route internal @gone -> respond 404 gone;
         default -> app { intercept -> internal @gone; }",
    );
    play(&text, async |world| {
        let first = world.origin(1);
        let mut client = world.client().await;
        client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n").await;
        let mut upstream = first.accept().await;
        upstream.message().await;
        upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 60\r\n\r\nHTTP/1.1 200 OK\r\n").await;
        assert_eq!(client.message().await.text(), "gone");
        client.send("POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhal").await;
        let mut upstream = first.accept().await;
        upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
        let answer = client.message().await;
        assert_eq!((answer.text(), answer.header("connection")), ("gone", Some("close")));
        world.log().await;
    });
}

#[test]
fn own_responses_get_another_status_where_that_is_asked_for() {
    let text = routes(
        "route path /gone -> respond 410 {
            response_status 404 always if=$http_x; response_header set X-Was $status;
         }
         route path /text -> respond 200 \"a text\" { response_status 418 always; }
         route path /empty -> respond 204 { response_status 200 always; }
         default -> app { response_status 599 always; }",
    );
    play(&text, async |world| {
        world.connects(1, Some(Connects::Refused));
        let mut client = world.client().await;
        let was = async |client: &mut Peer, line: &str, status| {
            let answer = ask(client, line, "").await;
            assert_eq!(answer.status(), status, "{line}");
            answer
        };
        assert_eq!(was(&mut client, "GET /gone", 410).await.header("x-was"), Some("410"));
        let answer = was(&mut client, "GET /gone HTTP/1.1\r\nX: 1\r\nX-Line:", 404).await;
        assert_eq!(answer.header("x-was"), Some("410"));
        assert!(answer.text().contains("410"), "the page stays: {}", answer.text());
        assert_eq!(was(&mut client, "GET /text", 418).await.text(), "a text");
        was(&mut client, "GET /empty", 204).await;
        was(&mut client, "GET /", 599).await;
        world.log().await;
    });
}

#[test]
fn the_method_of_a_route_is_not_that_of_the_route_after_it() {
    let text = routes(
        "route internal @spare -> spare;
         route path /a -> app { request_method PUT; error_page 502 -> internal @spare; }",
    );
    play(&text, async |world| {
        world.connects(1, Some(Connects::Refused));
        let spare = world.origin(2);
        let mut client = world.client().await;
        client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n").await;
        let mut upstream = spare.accept().await;
        assert_eq!(upstream.message().await.first, "GET /a HTTP/1.1");
        upstream.send(OK).await;
        client.message().await;
        world.log().await;
    });
}

/// A name with a path is a step of `internal` only.
#[test]
fn errors_lead_on_ten_times() {
    let text = routes(
        "route internal @a -> app { error_page 404 intercept recursive -> internal @a /x; }
         default -> app { error_page 404 intercept recursive -> internal @a /x; }",
    );
    play(&text, async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        let mut upstream = origin.accept().await;
        let mut asked = 0;
        while asked < 11 {
            upstream.message().await;
            asked += 1;
            upstream.send("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").await;
        }
        assert_eq!(client.message().await.status(), 500);
        world.log().await;
    });
}

const LED: &str = "intercept if=$sent_http_x_to recursive -> internal $sent_http_x_to;";

/// Responses lead on after responses and after error pages, and none that does reaches the client.
#[test]
fn recursive_rules_discard_responses_of_any_route() {
    let text = routes(&format!(
        "route path /text internal -> respond 200 text;
         route path /lost -> respond 404;
         route path /bad -> app {{ error_page 404 intercept -> internal /page; {LED} }}
         default -> app {{ error_page 404 status=own -> internal /page; {LED} }}"
    ));
    let to = |status: &str, path: &str| {
        format!("HTTP/1.1 {status}\r\nX-To: {path}\r\nContent-Length: 6\r\n\r\ntheirs")
    };
    play(&text, async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n").await;
        let mut upstream = origin.accept().await;
        for (path, next) in [("/a", "/b"), ("/b", "/text")] {
            assert_eq!(upstream.message().await.first, format!("GET {path} HTTP/1.1"));
            upstream.send(to("200 OK", next)).await;
        }
        assert_eq!(client.message().await.text(), "text");
        // The page of a status comes before a rule, and the page may lead on with that status.
        client.send("GET /bad HTTP/1.1\r\nHost: a\r\n\r\n").await;
        upstream.message().await;
        upstream.send(to("404 Not Found", "/text")).await;
        assert_eq!(upstream.message().await.first, "GET /page HTTP/1.1");
        upstream.send(to("200 OK", "/text")).await;
        let answer = client.message().await;
        assert_eq!((answer.status(), answer.text()), (404, "text"));
        // After such a page no other one answers.
        client.send("GET /bad HTTP/1.1\r\nHost: a\r\n\r\n").await;
        upstream.message().await;
        upstream.send("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").await;
        upstream.message().await;
        upstream.send(to("200 OK", "/lost")).await;
        assert_eq!(client.message().await.status(), 404);
        // A loop ends.
        client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n").await;
        for _ in 0..11 {
            upstream.message().await;
            upstream.send(to("200 OK", "/a")).await;
        }
        let answer = client.message().await;
        assert_eq!(answer.status(), 500);
        assert_ne!(answer.text(), "theirs");
        world.log().await;
    });
}

/// The next response gets the kept headers as the route of the discarded one would have sent them.
#[test]
fn kept_headers_have_the_changes_of_their_route() {
    let text = routes(
        "route internal @next -> respond 200 next;
         default -> app {
            intercept if=$sent_http_x_to keep=Set-Cookie,X-Hidden,X-Shown -> internal @next;
            response_header replace Set-Cookie \"~^(.*)$\" \"$1; Secure\";
            response_header remove X-Hidden;
         }",
    );
    play(&text, async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        let head = "X-To: 1\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nX-Hidden: 1\r\nX-Shown: 1";
        upstream.send(format!("HTTP/1.1 200 OK\r\n{head}\r\nContent-Length: 0\r\n\r\n")).await;
        let answer = client.message().await;
        assert_eq!(answer.all("set-cookie"), ["a=1; Secure", "b=2; Secure"]);
        assert_eq!((answer.header("x-hidden"), answer.header("x-shown")), (None, Some("1")));
        world.log().await;
    });
}

#[test]
fn the_page_of_a_discarded_401_keeps_its_challenges() {
    let text = routes(
        "error_page 401 403 intercept -> internal @login;
         route internal @login path /spare -> spare;
         route internal @login path /dropped -> respond 200 \"log in\" { response_header remove WWW-Authenticate; };
         route internal @login -> respond 200 \"log in\";
         default -> app;",
    );
    play(&text, async |world| {
        let (origin, spare) = (world.origin(1), world.origin(2));
        let mut client = world.client().await;
        for (path, status, challenges) in [
            ("/own", 401, 2),
            ("/spare", 401, 2),
            ("/dropped", 401, 0),
            ("/other", 403, 0),
            ("/own", 401, 2),
        ] {
            client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")).await;
            let mut upstream = origin.accept().await;
            upstream.head().await;
            let head = "WWW-Authenticate: Basic realm=\"a\"\r\nwww-authenticate: Bearer\r\nContent-Length: 0\r\nConnection: close";
            upstream.send(format!("HTTP/1.1 {status} No\r\n{head}\r\n\r\n")).await;
            if path == "/spare" {
                let mut upstream = spare.accept().await;
                upstream.head().await;
                upstream
                    .send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                    .await;
            }
            let answer = client.message().await;
            assert_eq!(answer.status(), status, "{path}");
            assert_eq!(answer.all("www-authenticate").len(), challenges, "{path}");
        }
    });
}
