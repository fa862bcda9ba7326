//! Affinity by cookie: a client returns to the server that served it first, and servers never see
//! the cookie. It holds over all workers and restarts and through a drain; if the server is not
//! available the client gets another one.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::sleep;
use weir_balance::AdminState;

use crate::origin::Seen;
use crate::peer::{Message, Peer};
use crate::world::{Connects, World, app, play};
use crate::{GET, OK};

const STICKY: &str = "sticky cookie SRV insert;";

/// Returns a configuration with the servers 10.0.1.1 to 10.0.1.3 with these options, the cookie,
/// and three workers.
fn sticky(words: [&str; 3]) -> String {
    let [first, second, third] = words;
    let pool = format!(
        "server 10.0.1.1:80 name=a {first}; server 10.0.1.2:80 name=b {second}; server 10.0.1.3:80 name=c {third}; {STICKY}"
    );
    format!("workers 3; {}", app(&pool, ""))
}

const READY: [&str; 3] = [""; 3];

/// Starts origins that respond by themselves and record requests.
fn origins(world: &World) -> [Rc<RefCell<Seen>>; 3] {
    [1, 2, 3].map(|number| world.origin(number).answers(OK))
}

fn counts(seen: &[Rc<RefCell<Seen>>; 3]) -> [usize; 3] {
    seen.each_ref().map(|seen| seen.borrow().requests.len())
}

async fn get(client: &mut Peer, cookie: &str) -> Message {
    client.send(format!("GET / HTTP/1.1\r\nHost: a\r\nCookie: {cookie}\r\n\r\n")).await;
    client.message().await
}

/// Returns name and value of the sticky cookie that a response sets.
fn set(response: &Message) -> Option<String> {
    response.header("set-cookie").map(|line| line.split(';').next().unwrap().to_owned())
}

/// Returns the cookies of the three servers, from three new clients.
async fn cookies(world: &World) -> [String; 3] {
    let mut cookies = Vec::new();
    let mut client = world.client().await;
    for _ in 0..3 {
        client.send(GET).await;
        cookies.push(set(&client.message().await).expect("a new client gets a cookie"));
    }
    cookies.try_into().unwrap()
}

#[test]
fn a_client_returns_to_its_server_at_every_worker() {
    play(&sticky(READY), async |world| {
        let seen = origins(world);
        let cookies = cookies(world).await;
        assert_eq!(counts(&seen), [1, 1, 1]);
        let mut clients = Vec::new();
        for _ in 0..3 {
            clients.push(world.client().await);
        }
        for turn in 0..18 {
            let response = get(&mut clients[turn % 3], &cookies[1]).await;
            assert_eq!((response.status(), set(&response)), (200, None));
        }
        assert_eq!(world.open_by_worker(), [1, 1, 1]);
        assert_eq!(counts(&seen), [1, 19, 1]);
    });
}

#[test]
fn servers_see_every_cookie_but_the_sticky_one() {
    play(&sticky(READY), async |world| {
        let seen = origins(world);
        let [cookie, ..] = cookies(world).await;
        let mut client = world.client().await;
        get(&mut client, &format!("theme=dark; {cookie}; lang=en")).await;
        get(&mut client, &cookie).await;
        let requests = &seen[0].borrow().requests;
        assert_eq!(requests[1].all("cookie"), ["theme=dark; lang=en"]);
        assert_eq!(requests[2].all("cookie"), [""; 0]);
    });
}

#[test]
fn a_response_that_sets_the_cookie_is_kept_from_shared_caches() {
    let words = "httponly secure samesite=lax path=/shop domain=example.com max_age=1h secret=0123456789abcdef";
    let pool = format!("server 10.0.1.1:80; sticky cookie SRV insert {words};");
    play(&app(&pool, "response_header remove Set-Cookie;"), async |world| {
        world.origin(1).answers("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nCache-Control: max-age=60\r\nSet-Cookie: SRV=own\r\n\r\n");
        let mut client = world.client().await;
        client.send(GET).await;
        let response = client.message().await;
        let line = response.header("set-cookie").unwrap();
        let (cookie, attributes) = line.split_once("; ").unwrap();
        assert_eq!(
            attributes,
            "Path=/shop; Domain=example.com; Max-Age=3600; Secure; HttpOnly; SameSite=Lax"
        );
        assert_eq!(response.all("cache-control"), ["max-age=60", "private"]);
        let response = get(&mut client, cookie).await;
        assert_eq!(response.all("set-cookie"), [""; 0]);
        assert_eq!(response.all("cache-control"), ["max-age=60"]);
    });
}

#[test]
fn the_cookie_is_secure_where_the_request_came_over_tls() {
    let pool = "server 10.0.1.1:80; sticky cookie SRV insert secure=auto samesite=none;";
    play(&app(pool, "trusted_proxies 192.0.2.1;"), async |world| {
        world.origin(1).answers(OK);
        let request = "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-Proto: https\r\n\r\n";
        for (peer, expected) in
            [("192.0.2.1", "Path=/; Secure; SameSite=None"), ("192.0.2.2", "Path=/")]
        {
            let mut client = world.client_from(peer, "10.0.0.1:80").await;
            client.send(request).await;
            let response = client.message().await;
            let line = response.header("set-cookie").unwrap();
            assert_eq!(line.split_once("; ").unwrap().1, expected, "{peer}");
        }
    });
}

#[test]
fn a_cookie_value_that_was_not_issued_is_replaced() {
    play(&sticky(READY), async |world| {
        origins(world);
        let cookies = cookies(world).await;
        let mut client = world.client().await;
        for wrong in ["SRV=b", "SRV=", "SRV=AAAAAAAAAAAAAAAAAAAAAA", "srv=x"] {
            let cookie = set(&get(&mut client, wrong).await).expect("a new cookie");
            assert!(cookies.contains(&cookie), "{wrong}");
        }
    });
}

#[test]
fn the_cookie_of_an_unavailable_server_is_replaced() {
    play(&sticky(READY), async |world| {
        let seen = origins(world);
        let cookies = cookies(world).await;
        world.connects(1, Some(Connects::Refused));
        sleep(Duration::from_mins(2)).await;
        let mut client = world.client().await;
        let mut replaced = Vec::new();
        for _ in 0..20 {
            let response = get(&mut client, &cookies[0]).await;
            assert_eq!(response.status(), 200);
            replaced.push(set(&response).expect("another cookie"));
        }
        assert!(replaced.iter().all(|cookie| cookies[1..].contains(cookie)), "{replaced:?}");
        assert_eq!(world.connect_count(1), 1 + 5, "left out after five failures");
        let [first, second, third] = counts(&seen);
        assert_eq!((first, second + third), (1, 22));
    });
}

#[test]
fn cookies_are_valid_after_a_restart_and_during_a_drain() {
    let mut before = None;
    play(&sticky(READY), async |world| {
        origins(world);
        before = Some(cookies(world).await);
    });
    let [bound, other, _] = before.unwrap();
    play(&sticky(["drain", "", ""]), async |world| {
        let seen = origins(world);
        let mut client = world.client().await;
        for _ in 0..6 {
            client.send(GET).await;
            assert!(set(&client.message().await).is_some());
        }
        assert_eq!(counts(&seen), [0, 3, 3]);
        for _ in 0..4 {
            assert_eq!(set(&get(&mut client, &bound).await), None);
        }
        assert_eq!(set(&get(&mut client, &other).await), None);
        assert_eq!(counts(&seen), [4, 4, 3]);
    });
    play(&sticky(["down", "", ""]), async |world| {
        let seen = origins(world);
        let mut client = world.client().await;
        for _ in 0..4 {
            assert!(set(&get(&mut client, &bound).await).is_some_and(|cookie| cookie != bound));
        }
        assert_eq!(counts(&seen), [0, 2, 2]);
    });
}

#[test]
fn clients_with_a_cookie_stay_at_a_server_that_begins_to_drain() {
    play(&sticky(READY), async |world| {
        let seen = origins(world);
        let [bound, ..] = cookies(world).await;
        let balancer = world.pool().balancer.clone();
        balancer.set_admin_state(0, AdminState::Draining, 0);
        let mut client = world.client().await;
        for _ in 0..4 {
            client.send(GET).await;
            client.message().await;
            assert_eq!(set(&get(&mut client, &bound).await), None);
        }
        assert_eq!(counts(&seen), [5, 3, 3]);
        balancer.set_admin_state(0, AdminState::Maintenance, 0);
        let moved = set(&get(&mut client, &bound).await).expect("another cookie");
        assert_ne!(moved, bound);
        balancer.set_admin_state(0, AdminState::Ready, 0);
        assert_eq!(set(&get(&mut client, &bound).await), None);
        assert_eq!(counts(&seen)[0], 6);
    });
}

#[test]
fn a_full_server_without_a_queue_gives_its_client_to_another() {
    let pool = sticky(["max_conn=1", "", ""]).replace("pool app {", "pool app { queue off;");
    play(&pool, async |world| {
        let first = world.origin(1);
        let seen = [2, 3].map(|number| world.origin(number).answers(OK));
        let mut holder = world.client().await;
        holder.send(GET).await;
        let mut upstream = first.accept().await;
        upstream.message().await;
        upstream.send(OK).await;
        let cookie = set(&holder.message().await).unwrap();
        holder.send(format!("GET / HTTP/1.1\r\nHost: a\r\nCookie: {cookie}\r\n\r\n")).await;
        upstream.message().await;
        let mut client = world.client().await;
        assert!(set(&get(&mut client, &cookie).await).is_some_and(|other| other != cookie));
        assert_eq!(seen.map(|seen| seen.borrow().requests.len()).iter().sum::<usize>(), 1);
        upstream.send(OK).await;
        assert_eq!(set(&holder.message().await), None);
    });
}

#[test]
fn the_log_has_the_affinity_outcome() {
    play(&sticky(READY), async |world| {
        origins(world);
        let cookies = cookies(world).await;
        world.pool().balancer.set_admin_state(0, AdminState::Maintenance, 0);
        let mut client = world.client().await;
        for cookie in ["a=1", "SRV=wrong", &cookies[0], &cookies[1]] {
            get(&mut client, cookie).await;
        }
        let lines = world.log().await;
        let words: Vec<String> = lines.iter().skip(3).map(|line| line.text("affinity")).collect();
        assert_eq!(words, ["new", "unknown", "moved", "kept"]);
    });
}

#[test]
fn local_replies_set_no_cookie_and_a_switch_of_protocols_does() {
    play(&app(&format!("server 10.0.1.1:80; {STICKY}"), ""), async |world| {
        let mut client = world.client().await;
        client.send(GET).await;
        let response = client.message().await;
        assert_eq!((response.status(), set(&response)), (502, None));
        let origin = world.origin(1);
        client
            .send("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
            .await;
        let mut upstream = origin.accept().await;
        upstream.head().await;
        upstream
            .send("HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
            .await;
        let response = client.head().await;
        assert_eq!((response.status(), set(&response).is_some()), (101, true));
    });
}

#[test]
fn a_bound_request_waits_for_a_busy_server_although_another_is_free() {
    let pool = format!(
        "server 10.0.1.1:80 max_conn=1; server 10.0.1.2:80 max_conn=1; queue timeout=1m; {STICKY}"
    );
    play(&app(&pool, ""), async |world| {
        let [first, second] = [world.origin(1), world.origin(2)];
        let mut holder = world.client().await;
        holder.send(GET).await;
        let mut upstream = first.accept().await;
        upstream.message().await;
        upstream.send(OK).await;
        let cookie = set(&holder.message().await).unwrap();
        holder.send(GET).await;
        let mut busy = second.accept().await;
        busy.message().await;
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\nCookie: {cookie}\r\n\r\n");
        let mut served = world.client().await;
        served.send(&request).await;
        upstream.message().await;
        // The second server is free now, the first is not.
        busy.send(OK).await;
        holder.message().await;
        let mut client = world.client().await;
        client.send(&request).await;
        sleep(Duration::from_secs(1)).await;
        assert_eq!(world.waiting(), 1);
        let mut other = world.client().await;
        other.send(GET).await;
        busy.message().await;
        busy.send(OK).await;
        assert_eq!(other.message().await.status(), 200);
        for waiter in [&mut served, &mut client] {
            upstream.send(OK).await;
            assert_eq!(set(&waiter.message().await), None);
            if world.in_flight() > 0 {
                upstream.message().await;
            }
        }
    });
}

/// A request as the log shows it, times in ms.
struct Logged {
    number: u64,
    bound: Option<String>,
    endpoint: String,
    waited: u64,
}

#[test]
fn bound_requests_among_others_neither_starve_them_nor_are_starved() {
    const SERVICE: u64 = 20;
    const REQUESTS: u64 = 240;
    let words = "max_conn=1";
    let text =
        sticky([words, words, words]).replace(STICKY, &format!("{STICKY} queue timeout=1h;"));
    play(&text, async |world| {
        let seen = [1, 2, 3]
            .map(|number| world.origin(number).answers_after(Duration::from_millis(SERVICE), OK));
        let cookies = cookies(world).await;
        world.log().await;
        // One request per millisecond, in turn for each of the servers and for any: six times their
        // capacity.
        let mut clients = Vec::new();
        for number in 0..REQUESTS {
            let cookie = cookies.get(number as usize % 4).map_or("none", String::as_str);
            let mut client = world.client().await;
            let head = format!("GET /{number} HTTP/1.1\r\nHost: a\r\nCookie: {cookie}\r\n\r\n");
            client.send(head).await;
            clients.push(client);
            sleep(Duration::from_millis(1)).await;
        }
        for client in &mut clients {
            assert_eq!(client.message().await.status(), 200);
        }
        assert_eq!(seen.map(|seen| seen.borrow().most_busy), [1, 1, 1]);
        let lines = world.log().await;
        let mut served: Vec<Logged> = lines
            .iter()
            .map(|line| {
                let number = line.text("target")[1..].parse::<u64>().unwrap();
                let bound = ["a", "b", "c"].get(number as usize % 4).map(ToString::to_string);
                let waited = line.number("t_queue").unwrap() / 1000;
                Logged { number, bound, endpoint: line.text("endpoint"), waited }
            })
            .collect();
        assert_eq!(served.len() as u64, REQUESTS);
        served.sort_by_key(|one| one.number + one.waited);
        for (at, one) in served.iter().enumerate() {
            assert!(one.bound.as_ref().is_none_or(|bound| *bound == one.endpoint));
            for later in &served[at + 1..] {
                let may = later.bound.as_ref().is_none_or(|bound| *bound == one.endpoint);
                let fair = !may || later.number > one.number;
                assert!(fair, "{} overtook {} at {}", one.number, later.number, one.endpoint);
            }
        }
        let longest = |bound: bool| {
            let own = served.iter().filter(|one| one.bound.is_some() == bound);
            own.map(|one| one.waited).max().unwrap()
        };
        let (bound, free) = (longest(true), longest(false));
        assert!(free <= bound && bound <= free + 4 * SERVICE, "{free} {bound}");
        assert_eq!(world.pool().balancer.counters().violations, 0);
    });
}

#[test]
fn a_route_names_the_server_of_some_requests_while_it_is_up() {
    let text = "pool app {
            server 10.0.1.1:80 name=a; server 10.0.1.2:80 name=b;
            server 10.0.1.3:80 name=c down; sticky cookie SRV insert;
        }
        listen 10.0.0.1:80 { default -> app {
            use_server c if=$http_x_test;
            use_server b if=$http_x_test;
            use_server $http_x_server if=$http_x_server;
            use_server a if=$http_x_server;
        } }";
    play(text, async |world| {
        let seen = origins(world);
        let mut client = world.client().await;
        let mut ask = async |headers: &str| {
            client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{headers}\r\n")).await;
            let before = counts(&seen);
            let response = client.message().await;
            let served = counts(&seen).iter().zip(before).position(|(now, before)| *now > before);
            (served.unwrap_or(usize::MAX), set(&response))
        };
        let (first, cookie) = ask("").await;
        let cookie = cookie.unwrap();
        assert_eq!(first, 0);
        // The server of the first line is down, that of the second comes before the cookie, which
        // the client keeps.
        for _ in 0..3 {
            let asked = ask(&format!("X-Test: 1\r\nCookie: {cookie}\r\n")).await;
            assert_eq!(asked, (1, None));
            assert_eq!(ask("X-Test: 1\r\n").await, (1, None));
        }
        assert_eq!(ask("X-Server: b\r\n").await.0, 1);
        assert_eq!(ask("X-Server: a\r\n").await.0, 0);
        // A name that no server has ends the list: the policy picks, in turn.
        let picked = [ask("X-Server: z\r\n").await.0, ask("X-Server: z\r\n").await.0];
        assert_ne!(picked[0], picked[1]);
        // `0` does not hold.
        assert_eq!(ask(&format!("X-Test: 0\r\nCookie: {cookie}\r\n")).await, (0, None));
    });
}
