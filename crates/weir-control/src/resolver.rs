//! Endpoint names to addresses, beside the data plane: looked up at the start, again while a name does not
//! resolve, and every half minute after that. It picks no endpoints and does not know what they serve.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, timeout};
use weir_config::model::{Config, EndpointAddress};
use weir_proxy::shared::Process;

/// Between two looks at a name that resolved.
const REFRESH: Duration = Duration::from_secs(30);

/// First wait after a failure; doubled with each further one, up to [`REFRESH`].
const FIRST_RETRY: Duration = Duration::from_secs(1);

/// How long a configuration waits for the first answers for names that are new.
const FIRST_LOOKUPS: Duration = Duration::from_secs(2);

/// An endpoint whose address is a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Name {
    /// The pool's name.
    pub pool: String,
    /// The endpoint's name.
    pub endpoint: String,
    /// The name to look up.
    pub host: String,
    /// The port, which comes with the address.
    pub port: u16,
}

/// Every endpoint of a configuration whose address is a name.
pub fn names(config: &Config) -> Vec<Name> {
    let mut names = Vec::new();
    for pool in &config.pools {
        for endpoint in &pool.endpoints {
            if let EndpointAddress::Name(host, port) = &endpoint.address {
                let (pool, endpoint) = (pool.name.clone(), endpoint.name.clone());
                names.push(Name { pool, endpoint, host: host.clone(), port: *port });
            }
        }
    }
    names
}

/// The names of the configuration that holds, each kept resolved by a task of its own.
#[derive(Default)]
pub(crate) struct Resolver(HashMap<Name, AbortHandle>);

/// First answers for names that are new.
pub(crate) struct Answers(Vec<(Name, SocketAddr)>);

impl Answers {
    /// Tells the endpoints of the current snapshot.
    pub(crate) fn tell(self, process: &Process) {
        for (name, address) in self.0 {
            tell_endpoint(process, &name, Some(address));
        }
    }
}

impl Resolver {
    /// Looks up what a configuration names anew, and waits a moment for that: when it begins to hold, its endpoints shall be there.
    pub(crate) async fn look_up_new(&self, config: &Config) -> Answers {
        let new = names(config).into_iter().filter(|name| !self.0.contains_key(name));
        let mut lookups: JoinSet<_> = new
            .map(|name| async move {
                let answer = system_lookup(name.host.clone(), name.port).await.ok()?;
                Some((name, *answer.first()?))
            })
            .collect();
        let mut answers = Vec::new();
        let all = async {
            while let Some(answer) = lookups.join_next().await {
                answers.extend(answer.ok().flatten());
            }
        };
        // What is not answered by then is said by the task that goes on asking.
        let _ = timeout(FIRST_LOOKUPS, all).await;
        Answers(answers)
    }

    /// Keeps the names of this configuration resolved from now on, and no others.
    pub(crate) fn follow(&mut self, config: &Config, process: &Arc<Process>, runtime: &Handle) {
        let mut before = std::mem::take(&mut self.0);
        for name in names(config) {
            let task = before.remove(&name).unwrap_or_else(|| {
                let process = process.clone();
                let report = move |name: &Name, answer: Result<SocketAddr, String>| {
                    tell_endpoint(&process, name, answer.ok());
                };
                runtime.spawn(run(vec![name.clone()], system_lookup, report)).abort_handle()
            });
            self.0.insert(name, task);
        }
        for task in before.into_values() {
            task.abort();
        }
    }
}

fn tell_endpoint(process: &Process, name: &Name, address: Option<SocketAddr>) {
    let now_us = process.balance_clock(Instant::now());
    if let Some((pool, endpoint)) = process.snapshot().endpoint(&name.pool, &name.endpoint) {
        pool.resolved(endpoint, address, now_us);
    }
}

/// The system's resolver: `/etc/hosts`, DNS and whatever else it is set up for.
pub async fn system_lookup(host: String, port: u16) -> io::Result<Vec<SocketAddr>> {
    Ok(tokio::net::lookup_host((host, port)).await?.collect())
}

/// Keeps `names` resolved until the future is dropped; returns at once when there are none.
///
/// `report` gets the endpoint and its address: at the first answer and at each change. While a name has never resolved it
/// gets each failure; after that the last good address stays. Changes are told to the operator on standard
/// error, one line each.
pub async fn run<L, F>(
    names: Vec<Name>,
    lookup: L,
    mut report: impl FnMut(&Name, Result<SocketAddr, String>),
) where
    L: Fn(String, u16) -> F + Clone + Send + 'static,
    F: Future<Output = io::Result<Vec<SocketAddr>>> + Send + 'static,
{
    let (sender, mut answers) = mpsc::channel(names.len().max(1));
    let mut tasks = JoinSet::new();
    for name in names {
        tasks.spawn(watch(name, lookup.clone(), sender.clone()));
    }
    drop(sender);
    while let Some((name, told)) = answers.recv().await {
        if let Some(notice) = told.notice {
            eprintln!("weir: {notice}");
        }
        if let Some(answer) = told.answer {
            report(&name, answer);
        }
    }
}

async fn watch<L, F>(name: Name, lookup: L, sender: mpsc::Sender<(Name, Told)>)
where
    L: Fn(String, u16) -> F,
    F: Future<Output = io::Result<Vec<SocketAddr>>>,
{
    let mut known = Known::default();
    loop {
        let answer = lookup(name.host.clone(), name.port).await;
        let (told, wait) = known.take(&name, answer);
        if sender.send((name.clone(), told)).await.is_err() {
            return;
        }
        tokio::time::sleep(wait).await;
    }
}

/// What one answer leads to.
#[derive(Debug, Default, PartialEq, Eq)]
struct Told {
    /// For the data plane.
    answer: Option<Result<SocketAddr, String>>,
    /// For the operator.
    notice: Option<String>,
}

/// What is known of one name.
#[derive(Default)]
struct Known {
    address: Option<SocketAddr>,
    /// Failures since the last success.
    failures: u32,
}

impl Known {
    /// Takes an answer in; says what to tell and how long to wait before the next.
    fn take(&mut self, name: &Name, answer: io::Result<Vec<SocketAddr>>) -> (Told, Duration) {
        match answer.map_err(|error| error.to_string()) {
            Ok(addresses) => match self.address.filter(|address| addresses.contains(address)) {
                Some(same) => (self.resolved(name, same), REFRESH),
                None => match addresses.first() {
                    Some(&first) => (self.resolved(name, first), REFRESH),
                    None => self.failed(name, "it has no addresses".to_owned()),
                },
            },
            Err(error) => self.failed(name, error),
        }
    }

    fn resolved(&mut self, name: &Name, address: SocketAddr) -> Told {
        let failed = std::mem::take(&mut self.failures) > 0;
        let before = self.address.replace(address);
        let changed = before != Some(address);
        let notice = match before {
            Some(before) if changed => {
                Some(format!("endpoint name {} is now {address}, was {before}", name.host))
            }
            _ if failed => Some(format!("endpoint name {} resolves now: {address}", name.host)),
            _ => None,
        };
        Told { answer: changed.then_some(Ok(address)), notice }
    }

    fn failed(&mut self, name: &Name, error: String) -> (Told, Duration) {
        let first = self.failures == 0;
        let doubled = FIRST_RETRY.saturating_mul(1 << self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        let notice = |then: String| {
            first.then(|| format!("endpoint name {} does not resolve: {error}; {then}", name.host))
        };
        if let Some(address) = self.address {
            return (Told { answer: None, notice: notice(format!("keeping {address}")) }, REFRESH);
        }
        let notice = notice("trying again".to_owned());
        (Told { answer: Some(Err(error)), notice }, doubled.min(REFRESH))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::{Arc, Mutex};

    use super::*;

    fn name(endpoint: usize, host: &str) -> Name {
        Name {
            pool: "app".to_owned(),
            endpoint: endpoint.to_string(),
            host: host.to_owned(),
            port: 80,
        }
    }

    fn address(last: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, last], 80))
    }

    fn failure() -> io::Result<Vec<SocketAddr>> {
        Err(io::Error::other("no such name"))
    }

    /// Last bytes of the addresses an answer has; `None` is a failure.
    type Script = &'static [Option<&'static [u8]>];

    struct Play {
        start: Instant,
        script: Mutex<VecDeque<Option<&'static [u8]>>>,
        seconds: Mutex<Vec<u64>>,
    }

    impl Play {
        async fn lookup(self: Arc<Self>, host: String, port: u16) -> io::Result<Vec<SocketAddr>> {
            assert_eq!((host.as_str(), port), ("app.test", 80));
            let next = self.script.lock().unwrap().pop_front();
            // When the script is over, the last look-up hangs.
            let Some(answer) = next else { return std::future::pending().await };
            self.seconds.lock().unwrap().push(self.start.elapsed().as_secs());
            answer
                .map_or_else(failure, |lasts| Ok(lasts.iter().map(|last| address(*last)).collect()))
        }
    }

    /// Runs the resolver through `script` in virtual time; gives the seconds of each look-up and what was reported.
    async fn play(script: Script) -> (Vec<u64>, Vec<Result<u8, String>>) {
        let script = Mutex::new(script.iter().copied().collect());
        let play = Arc::new(Play { start: Instant::now(), script, seconds: Mutex::default() });
        let lookup = {
            let play = Arc::clone(&play);
            move |host, port| Arc::clone(&play).lookup(host, port)
        };
        let mut reports = Vec::new();
        let report = |name: &Name, answer: Result<SocketAddr, String>| {
            assert_eq!(name.endpoint, "3");
            reports.push(answer.map(|address| match address {
                SocketAddr::V4(address) => address.ip().octets()[3],
                SocketAddr::V6(_) => 0,
            }));
        };
        let running = run(vec![name(3, "app.test")], lookup, report);
        assert!(tokio::time::timeout(Duration::from_hours(1), running).await.is_err());
        let seconds = play.seconds.lock().unwrap().clone();
        (seconds, reports)
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_that_does_not_resolve_is_tried_again_ever_slower() {
        let (times, reports) =
            play(&[None, None, None, None, None, None, None, Some(&[1]), Some(&[1])]).await;
        assert_eq!(times, [0, 1, 3, 7, 15, 31, 61, 91, 121]);
        assert_eq!(reports.iter().filter(|report| report.is_err()).count(), 7);
        assert_eq!(reports.last(), Some(&Ok(1)));
        assert_eq!(reports.len(), 8);
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_good_answer_stays_and_an_address_still_named_is_kept() {
        let (times, reports) =
            play(&[Some(&[1, 2]), None, Some(&[]), Some(&[2, 1]), Some(&[2]), Some(&[3, 4])]).await;
        assert_eq!(times, [0, 30, 60, 90, 120, 150]);
        assert_eq!(reports, [Ok(1), Ok(2), Ok(3)]);
    }

    async fn hangs_or_works(host: String, _port: u16) -> io::Result<Vec<SocketAddr>> {
        if host == "hangs" {
            return std::future::pending().await;
        }
        Ok(vec![address(9)])
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_that_hangs_does_not_hold_up_another() {
        let mut reports = Vec::new();
        let names = vec![name(0, "hangs"), name(1, "works")];
        let running = run(names, hangs_or_works, |name, answer| {
            reports.push((name.endpoint.clone(), answer));
        });
        assert!(tokio::time::timeout(Duration::from_secs(20), running).await.is_err());
        assert_eq!(reports, [("1".to_owned(), Ok(address(9)))]);
    }

    #[tokio::test]
    async fn without_names_there_is_nothing_to_do() {
        run(Vec::new(), system_lookup, |_, _| panic!("nothing was asked")).await;
    }

    #[tokio::test]
    async fn the_system_knows_localhost() {
        let addresses = system_lookup("localhost".to_owned(), 80).await.unwrap();
        assert!(addresses.iter().all(|address| address.ip().is_loopback() && address.port() == 80));
        assert!(!addresses.is_empty());
    }

    #[test]
    fn the_operator_hears_of_changes_once() {
        let name = name(0, "app.test");
        let mut known = Known::default();
        let mut notice = |answer| known.take(&name, answer).0.notice.unwrap_or_default();
        let failed = "endpoint name app.test does not resolve: no such name; ";
        assert_eq!(notice(failure()), format!("{failed}trying again"));
        assert_eq!(notice(failure()), "");
        assert_eq!(
            notice(Ok(vec![address(1)])),
            "endpoint name app.test resolves now: 10.0.0.1:80"
        );
        assert_eq!(notice(Ok(vec![address(1)])), "");
        assert_eq!(notice(failure()), format!("{failed}keeping 10.0.0.1:80"));
        assert_eq!(notice(Ok(Vec::new())), "");
        assert_eq!(
            notice(Ok(vec![address(1)])),
            "endpoint name app.test resolves now: 10.0.0.1:80"
        );
        assert_eq!(
            notice(Ok(vec![address(2)])),
            "endpoint name app.test is now 10.0.0.2:80, was 10.0.0.1:80"
        );
    }
}
