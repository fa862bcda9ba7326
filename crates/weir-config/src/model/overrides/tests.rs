//! Tests of runtime changes: applied, pruned, refused, and shown as differences and lines.

use super::RefusalKind::{Conflict, Invalid, Unknown};
use super::*;
use crate::parse_str;

const FILE: &str = "
    pool app {
        server 10.0.0.1:80 name=app1 max_conn=2;
        server 10.0.0.2:80 name=app2 weight=3 drain;
    }
    pool one { server 10.0.0.9:80; }
    listen 127.0.0.1:80 name=front -> app;
    listen 127.0.0.1:81 -> one;
";

fn file(text: &str) -> Config {
    parse_str("weir.conf", text).unwrap_or_else(|error| panic!("{error}")).config
}

fn endpoint(pool: &str, endpoint: &str, set: EndpointOverride) -> Change {
    Change::Endpoint { pool: pool.to_owned(), endpoint: endpoint.to_owned(), set }
}

fn order(order: AdminState) -> EndpointOverride {
    EndpointOverride { order: Some(order), ..EndpointOverride::default() }
}

fn limit(limit: Limit) -> EndpointOverride {
    EndpointOverride { max_conn: Some(limit), ..EndpointOverride::default() }
}

fn weight(weight: u32) -> EndpointOverride {
    EndpointOverride { weight: Some(weight), ..EndpointOverride::default() }
}

fn added(line: &str) -> Change {
    let text = format!("pool p {{ check tcp; server 1.1.1.1:1; {line} }} listen :1 -> p;");
    let endpoint = Box::new(file(&text).pools[0].endpoints[1].clone());
    Change::Add { pool: "app".to_owned(), endpoint }
}

fn removed(pool: &str, endpoint: &str) -> Change {
    Change::Remove { pool: pool.to_owned(), endpoint: endpoint.to_owned() }
}

/// Returns the first pool's lines after these changes, and the overrides.
fn after(changes: &[Change]) -> (Vec<String>, Overrides) {
    let file = file(FILE);
    let mut overrides = Overrides::default();
    for change in changes {
        overrides = overrides.with(&file, change).unwrap_or_else(|refusal| panic!("{refusal:?}"));
    }
    (overrides.over(&file).pools[0].endpoints.iter().map(server_line).collect(), overrides)
}

#[track_caller]
fn check(changes: &[Change], expected: &[&str]) {
    assert_eq!(after(changes).0, expected);
}

const FIRST: &str = "server 10.0.0.1:80 name=app1 max_conn=2;";
const SECOND: &str = "server 10.0.0.2:80 name=app2 weight=3 drain;";

#[test]
fn changes_are_put_over_the_file() {
    check(&[], &[FIRST, SECOND]);
    let drained = endpoint("app", "app1", order(AdminState::Draining));
    check(&[drained], &["server 10.0.0.1:80 name=app1 max_conn=2 drain;", SECOND]);
    let free = endpoint("app", "app1", limit(Limit::Unlimited));
    check(std::slice::from_ref(&free), &["server 10.0.0.1:80 name=app1;", SECOND]);
    let both = [free, endpoint("app", "app1", weight(9))];
    check(&both, &["server 10.0.0.1:80 name=app1 weight=9;", SECOND]);
    check(&[removed("app", "app2")], &[FIRST]);
    let third = "server 10.0.0.3:80 name=app3 backup;";
    check(&[added(third)], &[FIRST, SECOND, third]);
    let ready = endpoint("app", "app3", order(AdminState::Maintenance));
    let down = "server 10.0.0.3:80 name=app3 backup down;";
    check(&[added(third), ready], &[FIRST, SECOND, down]);
    check(&[added(third), removed("app", "app3")], &[FIRST, SECOND]);
}

#[test]
fn what_the_file_says_itself_is_no_change() {
    let there_and_back = [
        endpoint("app", "app1", limit(Limit::At(7))),
        endpoint("app", "app1", limit(Limit::At(2))),
    ];
    assert!(after(&there_and_back).1.is_empty());
    assert!(after(&[removed("app", "app1"), added(FIRST)]).1.is_empty());
    let other = "server 10.0.0.77:80 name=app1;";
    let (lines, overrides) = after(&[removed("app", "app1"), added(other)]);
    assert_eq!(lines, [SECOND, other]);
    assert!(!overrides.is_empty());
}

#[test]
fn a_change_that_makes_no_sense_names_what_is_to_blame() {
    let file = file(FILE);
    let check = |change: &Change, kind, field: &str, message: &str| {
        let refusal = ChangeRefusal { kind, field: field.to_owned(), message: message.to_owned() };
        assert_eq!(Overrides::default().with(&file, change), Err(refusal));
    };
    let nothing = EndpointOverride::default();
    let message = "the change is empty: set order, weight or max_conn";
    check(&endpoint("app", "app1", nothing), Invalid, "body", message);
    check(&endpoint("ap", "app1", weight(1)), Unknown, "pool", "there is no pool `ap`");
    check(&endpoint("app", "x", weight(1)), Unknown, "endpoint", "there is no endpoint `x`");
    check(&endpoint("app", "app1", weight(0)), Invalid, "weight", "0 is too small: at least 1");
    let large = "65536 is too large: at most 65535";
    check(&endpoint("app", "app1", weight(65_536)), Invalid, "weight", large);
    let small = "0 is too small: at least 1";
    check(&endpoint("app", "app1", limit(Limit::At(0))), Invalid, "max_conn", small);
    check(&Change::MaxConnections(0), Invalid, "max_connections", small);
    let there = "there is a server `app1` in pool `app` already";
    check(&added(FIRST), Conflict, "name", there);
    let last = "`10.0.0.9:80` is the only server of pool `one`";
    check(&removed("one", "10.0.0.9:80"), Conflict, "endpoint", last);
    let listener = Change::Listener { listener: "back".to_owned(), max_connections: 9 };
    check(&listener, Unknown, "listener", "there is no listener `back`");
}

#[test]
fn they_go_to_json_and_back() {
    let (_, overrides) = after(&[
        endpoint("app", "app1", limit(Limit::Unlimited)),
        endpoint("app", "app1", order(AdminState::Maintenance)),
        removed("app", "app2"),
        added("server unix:/run/app.sock name=app3 max_conn=4 check=off;"),
        Change::Listener { listener: "front".to_owned(), max_connections: 9 },
        Change::MaxConnections(77),
    ]);
    let text = serde_json::to_string(&overrides).unwrap();
    assert!(text.contains(r#""app1":{"order":"maintenance","max_conn":null}"#), "{text}");
    assert_eq!(serde_json::from_str::<Overrides>(&text).unwrap(), overrides);
    let limits = overrides.over(&file(FILE));
    assert_eq!(limits.max_connections, Some(77));
    assert_eq!(limits.listeners[0].max_connections, Some(9));
}

#[test]
fn a_file_that_took_them_over_leaves_nothing_of_them() {
    let (_, mut overrides) = after(&[
        endpoint("app", "app1", limit(Limit::At(9))),
        removed("app", "app2"),
        added("server 10.0.0.3:80 name=app3;"),
    ]);
    let lines = overrides.lines(&file(FILE));
    let written: Vec<_> = lines.iter().map(|line| line.write.as_deref()).collect();
    let first = "server 10.0.0.1:80 name=app1 max_conn=9;";
    assert_eq!(written, [Some(first), None, Some("server 10.0.0.3:80 name=app3;")]);
    assert_eq!(lines[1].instead_of.as_deref(), Some(SECOND));
    let text = FILE.replace(FIRST, first).replace(SECOND, "server 10.0.0.3:80 name=app3;");
    assert_eq!(overrides.prune(&file(&text)), Vec::<String>::new());
    assert!(overrides.is_empty(), "{overrides:?}");
}

#[test]
fn what_the_file_has_nothing_for_is_said() {
    let (_, mut overrides) = after(&[
        endpoint("app", "app1", limit(Limit::At(9))),
        endpoint("one", "10.0.0.9:80", limit(Limit::At(9))),
        Change::Listener { listener: "front".to_owned(), max_connections: 9 },
    ]);
    let other = file("pool app { server 10.0.0.7:80; } listen :81 -> app;");
    assert_eq!(overrides.prune(&other), ["listener front", "server app/app1", "pool one"]);
    assert!(overrides.is_empty());
}

#[test]
fn differences_are_shown_beside_the_values_of_the_file() {
    let (_, overrides) = after(&[
        endpoint("app", "app2", order(AdminState::Ready)),
        endpoint("app", "app2", limit(Limit::At(5))),
        removed("app", "app1"),
    ]);
    let differences = overrides.differences(&file(FILE));
    let rows: Vec<_> = differences
        .iter()
        .map(|row| {
            let text = |value: &Option<String>| value.clone().unwrap_or_default();
            [text(&row.name), row.field.clone(), text(&row.file), text(&row.now)]
        })
        .collect();
    assert_eq!(
        rows,
        [
            ["app1", "server", FIRST, ""],
            ["app2", "order", "draining", "ready"],
            ["app2", "max_conn", "none", "5"],
        ]
    );
}

#[test]
fn reverting_brings_back_the_file() {
    let changes = [
        endpoint("app", "app2", order(AdminState::Ready)),
        removed("app", "app1"),
        Change::MaxConnections(3),
    ];
    let revert = |pool: Option<&str>, endpoint: Option<&str>| Change::Revert {
        pool: pool.map(str::to_owned),
        endpoint: endpoint.map(str::to_owned),
    };
    let with = |last: Change| after(&[changes.as_slice(), &[last]].concat());
    assert!(with(revert(None, None)).1.is_empty());
    assert_eq!(with(revert(Some("app"), None)).0, [FIRST, SECOND]);
    let (lines, _) = with(revert(Some("app"), Some("app1")));
    assert_eq!(lines, [FIRST, "server 10.0.0.2:80 name=app2 weight=3;"]);
    let refusal = Overrides::default().with(&file(FILE), &revert(Some("app"), Some("zz")));
    assert_eq!(refusal, Err(ChangeRefusal::unknown("endpoint", "zz")));
}

#[test]
fn a_servers_line_means_the_server() {
    for line in [
        "server 10.0.0.1:80;",
        "server app.internal:8080 name=a weight=7 priority=2;",
        "server unix:/run/app.sock backup;",
        "server [::1]:80 max_conn=3 down check=127.0.0.1:9;",
        "server 10.0.0.1:80 slow_start=30s backup;",
        "server 10.0.0.1:80 name=\"a;b{}\" drain check=off;",
    ] {
        let Change::Add { endpoint, .. } = added(line) else { panic!() };
        assert_eq!(server_line(&endpoint), line);
    }
}

const NAMES: &str = "
    pool app { server app.test:80 max_conn=2; server 10.0.0.9:80; }
    pool web { server srv:_http._tcp.test; }
    listen :80 -> app; listen :81 -> web;
";

fn addressed(endpoint: &str, last: u8) -> Addressed {
    Addressed { endpoint: endpoint.to_owned(), address: ([10, 0, 0, last], 80).into() }
}

/// Returns the lines of the first pool while its name has these addresses.
fn served(overrides: &Overrides, lasts: &[u8]) -> Vec<String> {
    use crate::model::names::{Answers, Found, Question, ResolvedServers};
    let mut places = ResolvedServers::default();
    let found = |last: &u8| Found { ip: [10, 0, 0, *last].into(), service: None };
    assert_eq!(places.take(lasts.iter().map(found).collect()), 0);
    let mut answers = Answers::default();
    answers.insert(Question::Host("app.test".to_owned()), places);
    let live = answers.over(&overrides.over(&file(NAMES)), overrides);
    let line = |endpoint: &Endpoint| format!("{} {}", endpoint.name, server_line(endpoint));
    live.pools[0].endpoints.iter().filter(|one| one.name.starts_with("app")).map(line).collect()
}

fn with(overrides: &Overrides, change: &Change) -> Overrides {
    overrides.with(&file(NAMES), change).unwrap_or_else(|refusal| panic!("{refusal:?}"))
}

fn address(last: u8, set: EndpointOverride) -> Change {
    Change::Address { pool: "app".to_owned(), of: addressed("app.test:80", last), set }
}

#[test]
fn an_order_for_an_address_stays_with_it() {
    let overrides = with(&Overrides::default(), &address(2, order(AdminState::Draining)));
    let overrides = with(&overrides, &address(2, limit(Limit::At(7))));
    let one = "server 10.0.0.1:80 name=\"app.test:80\" max_conn=2 host=app.test;";
    assert_eq!(
        served(&overrides, &[1, 2]),
        [
            format!("app.test:80 {one}"),
            "app.test:80~2 server 10.0.0.2:80 name=\"app.test:80~2\" max_conn=7 host=app.test drain;"
                .to_owned()
        ]
        .map(|line| line.replace("name=\"app.test:80\"", "name=app.test:80"))
    );
    // Another address at the same place has the configured values; the same address at another
    // place keeps its change.
    let shown = served(&overrides, &[1, 3]);
    assert!(shown.iter().all(|line| line.contains("max_conn=2") && !line.contains("drain")));
    let shown = served(&overrides, &[2]);
    assert!(shown[0].starts_with("app.test:80 ") && shown[0].ends_with(" drain;"), "{shown:?}");
}

#[test]
fn the_later_order_counts_for_an_address_and_for_its_name() {
    let name = |set| endpoint("app", "app.test:80", set);
    let drained = with(&Overrides::default(), &address(2, order(AdminState::Draining)));
    assert!(with(&drained, &name(order(AdminState::Ready))).is_empty());
    let both = with(&drained, &name(limit(Limit::At(5))));
    assert_eq!(both.pools["app"].addresses["app.test:80"].len(), 1);
    let all = with(&Overrides::default(), &name(order(AdminState::Draining)));
    let but_one = with(&all, &address(1, order(AdminState::Ready)));
    let shown = served(&but_one, &[1, 2]);
    assert_eq!([0, 1].map(|place| shown[place].ends_with(" drain;")), [false, true], "{shown:?}");
    let of = addressed("app.test:80", 1);
    let revert = Change::RevertAddress { pool: "app".to_owned(), of };
    assert_eq!(with(&but_one, &revert), all);
    assert!(all.with(&file(NAMES), &revert).is_err(), "there is nothing of it any more");
    let reverted =
        Change::Revert { pool: Some("app".to_owned()), endpoint: Some("app.test:80".to_owned()) };
    assert!(with(&but_one, &reverted).is_empty());
}

#[test]
fn orders_for_addresses_are_kept_and_told_and_given_up_with_the_name() {
    let overrides = with(&Overrides::default(), &address(2, order(AdminState::Draining)));
    let text = serde_json::to_string(&overrides).unwrap();
    assert_eq!(serde_json::from_str::<Overrides>(&text).unwrap(), overrides);
    let differences = overrides.differences(&file(NAMES));
    assert_eq!(differences[0].name.as_deref(), Some("app.test:80@10.0.0.2:80"));
    assert_eq!(differences[0].now.as_deref(), Some("draining"));
    let write = overrides.lines(&file(NAMES))[0].write.clone().unwrap();
    assert!(write.starts_with("# app.test:80@10.0.0.2:80 is draining:"), "{write}");
    let mut pruned = overrides.clone();
    let without = file(&NAMES.replace("app.test:80", "10.0.0.2:80 name=app.test:80"));
    assert_eq!(pruned.prune(&without), ["server app/app.test:80@10.0.0.2:80"]);
    assert!(pruned.is_empty());
}

#[test]
fn an_order_for_an_address_that_makes_no_sense_is_refused() {
    let check = |change: &Change, kind, field: &str| {
        let refusal = Overrides::default().with(&file(NAMES), change).unwrap_err();
        assert_eq!((refusal.kind, refusal.field.as_str()), (kind, field), "{refusal:?}");
    };
    check(&address(2, EndpointOverride::default()), Invalid, "body");
    check(&address(2, weight(0)), Invalid, "weight");
    let other = |pool: &str, name: &str| Change::Address {
        pool: pool.to_owned(),
        of: addressed(name, 9),
        set: order(AdminState::Draining),
    };
    check(&other("app", "10.0.0.9:80"), Conflict, "endpoint");
    check(&other("app", "nine"), Unknown, "endpoint");
    check(&other("nine", "app.test:80"), Unknown, "pool");
    let mut many = Overrides::default();
    for number in 0..MOST_ADDRESSES as u32 {
        let address = SocketAddr::from((std::net::Ipv4Addr::from(number), 80));
        let all = many
            .pools
            .entry("app".to_owned())
            .or_default()
            .addresses
            .entry("app.test:80".to_owned());
        all.or_default().insert(address, order(AdminState::Draining));
    }
    assert!(many.with(&file(NAMES), &address(2, order(AdminState::Draining))).is_err());
}

#[test]
fn what_an_operator_names_is_found() {
    use crate::model::names::{Answers, Found, Question, ResolvedServers};
    let written = file(NAMES);
    let mut places = ResolvedServers::default();
    let found = |last: u8| Found { ip: [10, 0, 0, last].into(), service: None };
    places.take(vec![found(1), found(2)]);
    let mut answers = Answers::default();
    answers.insert(Question::Host("app.test".to_owned()), places);
    let live = answers.over(&written, &Overrides::default());
    let check = |name: &str, expected: Option<u8>| {
        let found = Addressed::named(name, &written.pools[0], &live.pools[0]);
        assert_eq!(found, expected.map(|last| addressed("app.test:80", last)), "{name}");
    };
    check("app.test:80", None);
    check("app.test:80~2", Some(2));
    check("app.test:80~3", None);
    check("app.test:80@10.0.0.1:80", Some(1));
    check("app.test:80@10.0.0.7:80", Some(7));
    check("10.0.0.9:80@10.0.0.9:80", None);
    check("app.test:80@nowhere", None);
}

#[test]
fn the_number_of_idle_connections_is_a_value_of_the_pool() {
    let file = file(
        "pool app { server 10.0.0.1:80; }
         pool announced { server 10.0.0.2:80; send_proxy v1; }
         listen 127.0.0.1:80 { route path /a -> announced; default -> app; }",
    );
    let set = |pool: &str, keepalive_idle| Change::Pool { pool: pool.to_owned(), keepalive_idle };
    let own = Overrides::default().with(&file, &set("app", 7)).unwrap();
    assert_eq!(own.over(&file).pools[0].keepalive.idle, 7);
    let text = serde_json::to_string(&own).unwrap();
    assert_eq!(serde_json::from_str::<Overrides>(&text).unwrap(), own, "the state file keeps it");
    let lines = own.lines(&file);
    assert_eq!(lines[0].place, "pool app");
    assert_eq!(
        (&lines[0].instead_of, lines[0].write.as_deref()),
        (&None, Some("keepalive idle=7;"))
    );
    let usual = file.pools[0].keepalive.idle;
    assert!(own.with(&file, &set("app", usual)).unwrap().is_empty(), "it is the file's value");
    let revert = Change::Revert { pool: Some("app".to_owned()), endpoint: None };
    assert!(own.with(&file, &revert).unwrap().is_empty());
    assert_eq!(own.with(&file, &set("api", 1)).unwrap_err().kind, Unknown);
    let refused = own.with(&file, &set("announced", 1)).unwrap_err();
    assert_eq!(refused.kind, Conflict);
    assert!(refused.message.contains("send_proxy"), "{refused:?}");
}
