//! Tests of resolved names: the endpoints of a pool for sequences of DNS answers.

use std::net::Ipv4Addr;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::parse_str;

fn host(last: u8) -> Found {
    Found { ip: Ipv4Addr::new(10, 0, 0, last).into(), service: None }
}

fn target(last: u8, priority: u16, weight: u16) -> Found {
    let host = format!("node{last}.example.com");
    Found { service: Some(Service { host, port: 9000, priority, weight }), ..self::host(last) }
}

fn places(found: &[Found]) -> ResolvedServers {
    let mut places = ResolvedServers::default();
    assert_eq!(places.take(found.to_vec()), 0);
    places
}

/// Returns name, address, weight and tier of each server of the pool with this answer.
fn pool(server: &str, question: Question, places: ResolvedServers) -> Vec<String> {
    let text = format!("listen :80 -> app; pool app {{ {server} }}");
    let config = parse_str("test", &text).unwrap().config;
    let mut answers = Answers::default();
    answers.insert(question, places);
    let over = answers.over(&config, &Overrides::default());
    let pool = &over.pools[0];
    let show = |endpoint: &Endpoint| {
        let address = match &endpoint.address {
            EndpointAddress::Socket(address) => address.to_string(),
            EndpointAddress::Name(name, _) | EndpointAddress::Service(name) => format!("{name}?"),
            EndpointAddress::Unix(_) => "unix".to_owned(),
        };
        let host = endpoint.host.as_deref().unwrap_or("-");
        let (tier, weight) = (pool.tier(endpoint), endpoint.weight);
        format!("{} {address} {host} weight {weight} tier {tier}", endpoint.name)
    };
    pool.endpoints.iter().map(show).collect()
}

#[test]
fn a_name_becomes_a_server_for_each_address_with_what_was_configured() {
    let question = || Question::Host("app.test".to_owned());
    let one = "server app.test:80 weight=3; server 10.1.0.1:80;";
    assert_eq!(
        pool(one, question(), places(&[host(2), host(1)])),
        [
            "app.test:80 10.0.0.1:80 app.test weight 3 tier 0",
            "app.test:80~2 10.0.0.2:80 app.test weight 3 tier 0",
            "10.1.0.1:80 10.1.0.1:80 - weight 1 tier 0",
        ]
    );
    assert_eq!(
        pool(one, Question::Host("other.test".to_owned()), places(&[host(1)])),
        ["app.test:80 app.test? - weight 3 tier 0", "10.1.0.1:80 10.1.0.1:80 - weight 1 tier 0"]
    );
    assert_eq!(
        pool(one, question(), ResolvedServers::default())[0],
        "app.test:80 app.test? - weight 3 tier 0"
    );
    let taken = "server app.test:80 name=a; server app.test:81 name=a~2 host=own.test;";
    assert_eq!(
        pool(taken, question(), places(&[host(1), host(2)])),
        [
            "a 10.0.0.1:80 app.test weight 1 tier 0",
            "a~2~ 10.0.0.2:80 app.test weight 1 tier 0",
            "a~2 10.0.0.1:81 own.test weight 1 tier 0",
            "a~2~2 10.0.0.2:81 own.test weight 1 tier 0",
        ]
    );
}

#[test]
fn the_records_of_a_service_say_port_weight_and_tier() {
    let question = || Question::Service("_http._tcp.example.com".to_owned());
    let server = "server srv:_http._tcp.example.com name=web;";
    assert_eq!(
        pool(server, question(), places(&[target(1, 20, 0), target(2, 10, 60), target(3, 10, 40)])),
        [
            "web 10.0.0.1:9000 node1.example.com weight 1 tier 1",
            "web~2 10.0.0.2:9000 node2.example.com weight 60 tier 0",
            "web~3 10.0.0.3:9000 node3.example.com weight 40 tier 0",
        ]
    );
    let even = pool(server, question(), places(&[target(1, 5, 0), target(2, 5, 0)]));
    assert!(even.iter().all(|line| line.ends_with("weight 1 tier 0")), "{even:?}");
    let backup = "server 10.1.0.1:80; server srv:_http._tcp.example.com name=web backup;";
    let tiers = pool(backup, question(), places(&[target(1, 1, 1), target(2, 2, 1)]));
    assert!(tiers[1].ends_with("tier 1") && tiers[2].ends_with("tier 1"), "{tiers:?}");
}

#[test]
fn a_server_of_a_service_knows_the_domain_that_the_configuration_names() {
    let domains = |server: &str, question: Question, found: Found| {
        let text = format!("listen :80 -> app; pool app {{ {server} tls; }}");
        let config = parse_str("test", &text).unwrap().config;
        let mut answers = Answers::default();
        answers.insert(question, places(&[found]));
        let over = answers.over(&config, &Overrides::default());
        over.pools[0].endpoints[0].domain.clone()
    };
    let service = |name: &str| Question::Service(name.to_owned());
    let check = |server: &str, name: &str, expected: Option<&str>| {
        assert_eq!(domains(server, service(name), target(1, 1, 1)).as_deref(), expected);
    };
    check("server srv:_https._tcp.example.com;", "_https._tcp.example.com", Some("example.com"));
    check("server srv:app.consul;", "app.consul", Some("app.consul"));
    // A name that the operator sets takes precedence over both.
    let own = "server srv:_https._tcp.example.com host=own.test;";
    check(own, "_https._tcp.example.com", None);
    let host_question = Question::Host("app.test".to_owned());
    assert_eq!(domains("server app.test:443;", host_question, host(1)), None);
}

#[test]
fn a_server_keeps_its_place_and_a_new_one_takes_the_lowest_that_is_free() {
    let mut places = places(&[host(1), host(2), host(3)]);
    places.take(vec![host(4), host(3), host(1)]);
    assert_eq!(places, ResolvedServers(vec![Some(host(1)), Some(host(4)), Some(host(3))]));
    places.take(vec![host(3)]);
    assert_eq!(places, ResolvedServers(vec![None, None, Some(host(3))]));
    places.take(vec![host(3), host(9)]);
    assert_eq!(places, ResolvedServers(vec![Some(host(9)), None, Some(host(3))]));
    places.take(vec![host(9)]);
    assert_eq!(places, ResolvedServers(vec![Some(host(9))]));
}

#[test]
fn a_record_that_changes_its_weight_keeps_its_place() {
    let mut places = places(&[target(1, 1, 1), target(2, 1, 1)]);
    places.take(vec![target(3, 1, 1), target(2, 7, 9)]);
    assert_eq!(places, ResolvedServers(vec![Some(target(3, 1, 1)), Some(target(2, 7, 9))]));
}

#[test]
fn very_many_addresses_are_used_as_far_as_there_are_places() {
    let many = |first: u16| {
        let found =
            |number: u16| Found { ip: Ipv4Addr::from(u32::from(number)).into(), service: None };
        (first..first + 1000).map(found).collect::<Vec<_>>()
    };
    let mut places = ResolvedServers::default();
    assert_eq!(places.take(many(1)), 1000 - MOST_PLACES);
    assert_eq!(places.take(many(5001)), 1000 - MOST_PLACES);
    assert_eq!(places.iter().count(), MOST_PLACES);
}

#[test]
fn a_name_is_known_by_what_it_became() {
    for (endpoint, own, expected) in [
        ("app:80", "app:80", true),
        ("app:80~2", "app:80", true),
        ("app:80~2~", "app:80", true),
        ("app:80~", "app:80", false),
        ("app:80~x", "app:80", false),
        ("app:801", "app:80", false),
        ("app", "app:80", false),
    ] {
        assert_eq!(is_place_of(endpoint, own), expected, "{endpoint}");
    }
}

proptest! {
    /// For any sequence of answers, each server has one place and keeps it as long as it is
    /// present.
    #[test]
    fn every_server_has_one_place_which_it_keeps(answers in vec(vec(0_u8..12, 0..10), 1..20)) {
        let mut places = ResolvedServers::default();
        for answer in answers {
            let mut wanted: Vec<Found> = answer.into_iter().map(host).collect();
            wanted.sort_unstable();
            wanted.dedup();
            let before = places.clone();
            prop_assert_eq!(places.take(wanted.clone()), 0);
            let mut there: Vec<Found> = places.iter().map(|(_, found)| found.clone()).collect();
            there.sort_unstable();
            prop_assert_eq!(&there, &wanted);
            for (number, found) in before.iter().filter(|(_, found)| wanted.contains(found)) {
                prop_assert_eq!(places.0[number].as_ref(), Some(found));
            }
        }
    }
}
