use std::collections::VecDeque;
use std::net::Ipv4Addr;

use tokio::time::Instant;
use weir_config::model::names::{Found, ResolvedServers};

use super::*;
use weir_config::model::Overrides;

fn found(last: u8) -> Found {
    Found { ip: Ipv4Addr::new(10, 0, 0, last).into(), service: None }
}

fn places(lasts: &[u8]) -> Answers {
    let mut places = ResolvedServers::default();
    places.take(lasts.iter().copied().map(found).collect());
    let mut answers = Answers::default();
    answers.insert(question("app.test"), places);
    answers
}

fn question(name: &str) -> Question {
    Question::Host(name.to_owned())
}

/// The last bytes of an answer's addresses and its TTL in seconds; `None` is a failure.
type Script = &'static [Option<(&'static [u8], u64)>];

/// Keeps a name resolved through `script` in virtual time; returns the second of each look-up and
/// each announced state.
async fn play(script: Script) -> (Vec<u64>, Vec<Answers>) {
    let start = Instant::now();
    let script: Mutex<VecDeque<_>> = Mutex::new(script.iter().copied().collect());
    let seconds = Mutex::new(Vec::new());
    let ask = |_: Question| {
        let next = script.lock().unwrap().pop_front();
        if next.is_some() {
            seconds.lock().unwrap().push(start.elapsed().as_secs());
        }
        async move {
            match next {
                Some(Some((lasts, ttl))) => Ok(Resolution {
                    found: lasts.iter().copied().map(found).collect(),
                    ttl: Duration::from_secs(ttl),
                }),
                Some(None) => Err("the DNS server answered SERVFAIL".to_owned()),
                // At the end of the script the look-up hangs.
                None => std::future::pending().await,
            }
        }
    };
    let names = Arc::new(Names::default());
    let told = Mutex::new(Vec::new());
    let listening = async {
        loop {
            names.changed().await;
            told.lock().unwrap().push(names.answers());
        }
    };
    let watching =
        watch(question("app.test"), Duration::ZERO, ask, names.clone(), Settings::default());
    let both = async { tokio::join!(watching, listening) };
    assert!(timeout(Duration::from_hours(5), both).await.is_err());
    (seconds.into_inner().unwrap(), told.into_inner().unwrap())
}

#[tokio::test(start_paused = true)]
async fn an_answer_holds_for_its_ttl_within_bounds() {
    let (seconds, told) =
        play(&[Some((&[1], 30)), Some((&[1], 0)), Some((&[2], 86_400)), Some((&[2], 5))]).await;
    assert_eq!(seconds, [0, 30, 31, 31 + 3600]);
    assert_eq!(told, [places(&[1]), places(&[2])]);
}

#[tokio::test(start_paused = true)]
async fn a_name_that_does_not_resolve_is_tried_again_ever_slower() {
    let failures: Script = &[None, None, None, None, None, None, None, Some((&[1], 60))];
    let (seconds, told) = play(failures).await;
    assert_eq!(seconds, [0, 1, 3, 7, 15, 31, 61, 91]);
    assert_eq!(told, [places(&[1])]);
}

#[tokio::test(start_paused = true)]
async fn the_last_good_answer_stays_when_dns_fails_and_when_the_name_is_gone() {
    let (seconds, told) =
        play(&[Some((&[1, 2], 10)), None, Some((&[], 10)), Some((&[2, 1], 10)), Some((&[2], 10))])
            .await;
    assert_eq!(seconds, [0, 10, 11, 13, 23]);
    let mut last = ResolvedServers::default();
    last.take(vec![found(1), found(2)]);
    last.take(vec![found(2)]);
    let mut alone = Answers::default();
    alone.insert(question("app.test"), last);
    assert_eq!(told, [places(&[1, 2]), alone]);
}

#[tokio::test(start_paused = true)]
async fn a_name_that_changes_for_ever_leaves_nothing_behind() {
    let names = Arc::new(Names::default());
    let count = std::sync::atomic::AtomicU32::new(0);
    let ask = |_| {
        let number = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let ip = Ipv4Addr::from(0x0a00_0000 + number).into();
        let found = vec![Found { ip, service: None }];
        async { Ok(Resolution { found, ttl: Duration::ZERO }) }
    };
    let settings = Settings { valid: Some(Duration::from_millis(100)), ..Settings::default() };
    let watching = watch(question("app.test"), Duration::ZERO, ask, names.clone(), settings);
    assert!(timeout(Duration::from_hours(1), watching).await.is_err());
    assert!(count.into_inner() > 30_000);
    let config = "listen :80 -> app; pool app { server app.test:80; }";
    let config = weir_config::parse_str("test", config).unwrap().config;
    let live = names.answers().over(&config, &Overrides::default());
    let called: Vec<&str> =
        live.pools[0].endpoints.iter().map(|endpoint| endpoint.name.as_str()).collect();
    assert_eq!(called, ["app.test:80"]);
    assert_eq!(names.known().len(), 1);
}

#[tokio::test]
async fn the_system_knows_localhost_and_what_is_not_answered_is_not_waited_for() {
    let config = "listen :80 -> localhost:80 10.0.0.1:80;";
    let config = weir_config::parse_str("test", config).unwrap().config;
    let resolver = NameResolver::default();
    let prepared = resolver.prepare(&config).await;
    let live = resolver.answers(&prepared).over(&config, &Overrides::default());
    let first = &live.pools[0].endpoints[0];
    assert_eq!(
        first.address,
        weir_config::model::EndpointAddress::Socket(([127, 0, 0, 1], 80).into())
    );
    assert_eq!(resolver.names().answers(), Answers::default(), "nothing has come of it yet");
}

#[tokio::test]
async fn another_configuration_keeps_what_is_known_and_forgets_the_rest() {
    let config = |text: &str| weir_config::parse_str("test", text).unwrap().config;
    let mut resolver = NameResolver::default();
    let both = config("listen :80 -> localhost:80; listen :81 -> ip6-nowhere.invalid:80;");
    let prepared = resolver.prepare(&both).await;
    assert_eq!(prepared.first.len(), 2);
    resolver.follow(prepared, &Handle::current());
    assert_eq!(resolver.tasks.len(), 2);
    let one = config("listen :80 -> localhost:80; resolver max_ttl=2s;");
    let prepared = resolver.prepare(&one).await;
    assert!(prepared.first.is_empty(), "a name that is known was waited for");
    let answers = resolver.answers(&prepared);
    resolver.follow(prepared, &Handle::current());
    assert_eq!(resolver.tasks.keys().collect::<Vec<_>>(), [&question("localhost")]);
    assert_eq!(resolver.names().known().len(), 1);
    let live = answers.over(&one, &Overrides::default());
    assert!(Question::of(&live.pools[0].endpoints[0].address).is_none());
}
