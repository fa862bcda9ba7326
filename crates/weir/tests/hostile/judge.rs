//! The honest client and the verdict: its latency beside the attack is compared with its latency
//! without one, at the same proxy in alternating rounds. Memory and descriptors are compared too.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::arena::Arena;
use crate::origin::Origin;
use crate::proxies::{
    Kind, Proxy, Setting, leave_the_proxys_processor, processor_time, stand_back,
};
use crate::support::eventually;

/// The time from the start of one honest request to that of the next, unless a request takes
/// longer.
const PACE: Duration = Duration::from_millis(2);
/// One in this many requests of the honest client uses a new connection.
const FRESH: usize = 10;
/// The timeout of an honest request.
const HONEST_PATIENCE: Duration = Duration::from_secs(3);
/// The bound on the p99 beside an attack is 3 times the undisturbed p99 plus this.
const TOLERANCE: Duration = Duration::from_millis(20);
/// The longest time that a proxy may take to recover after an attack.
const RECOVERY: Duration = Duration::from_secs(5);
/// The number of failed tries after which the verdict is failure: a defect shows in every try, the
/// noise of a busy machine does not.
const TRIES: usize = 3;
/// The most measurements of a pattern. A try counts only if the machine was not busy with anything
/// else; the last one counts in any case.
const MEASUREMENTS: usize = 10;
/// The share of the machine's processor time above which the machine was busy with other programs,
/// or its hypervisor with other machines.
const OTHERS: f64 = 0.1;
/// The descriptors that a proxy may have open after the attack in excess of those before: kept
/// connections to the origin (8 for each of three pools), and connections that are just closing.
pub(crate) const SPARE_DESCRIPTORS: usize = 30;

/// The number of rounds and their duration.
#[derive(Clone, Copy)]
pub(crate) struct Effort {
    pub(crate) rounds: usize,
    pub(crate) quiet: Duration,
    pub(crate) hostile: Duration,
}

/// One pattern of attack.
pub(crate) struct Pattern {
    pub(crate) name: &'static str,
    /// The class of attack, with a CVE number that stands for it where there is one.
    pub(crate) class: &'static str,
    pub(crate) setting: Setting,
    pub(crate) threads: usize,
    /// The attack, which runs in each of the threads while the arena is running.
    pub(crate) attack: fn(&Arena),
    /// The check after the last round, besides the honest client.
    pub(crate) outcome: fn(&Arena) -> Outcome,
    /// The bound on the growth of the resident memory, in bytes.
    pub(crate) memory: usize,
}

/// The result of an attack, besides the honest client's latency.
pub(crate) struct Outcome {
    pub(crate) verdict: Verdict,
    pub(crate) said: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Held,
    Broken,
    /// The proxy does not have the feature under attack.
    Absent,
}

impl Outcome {
    /// An outcome that depends on the honest client only.
    pub(crate) fn served() -> Self {
        Self { verdict: Verdict::Held, said: "served on".to_owned() }
    }

    pub(crate) fn absent() -> Self {
        Self { verdict: Verdict::Absent, said: "no such thing".to_owned() }
    }

    pub(crate) fn of(held: bool, said: impl Into<String>) -> Self {
        Self { verdict: if held { Verdict::Held } else { Verdict::Broken }, said: said.into() }
    }
}

/// The latencies of one round, sorted.
struct Round {
    latencies: Vec<Duration>,
    /// The delays with which the honest client woke from its pauses, sorted.
    delays: Vec<Duration>,
    failed: usize,
    /// The reason of the first failure.
    why: Option<String>,
}

impl Round {
    fn percentile(&self, share: f64) -> Duration {
        percentile(&self.latencies, share)
    }
}

/// Returns a percentile of sorted times; for an empty list, the timeout.
fn percentile(sorted: &[Duration], share: f64) -> Duration {
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(HONEST_PATIENCE)
}

/// The latencies of one kind of round, each the median of the rounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Latency {
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
}

/// The results of a pattern at one proxy.
pub(crate) struct Measured {
    pub(crate) quiet: Latency,
    pub(crate) hostile: Latency,
    /// The delay with which the honest client woke from its own pauses beside the attack: the
    /// median of the rounds' p99.
    delay: Duration,
    /// The share of the machine's processor time that other programs and machines used meanwhile.
    others: f64,
    /// The number of honest requests that were not answered with 200 in time during the attack.
    pub(crate) failed: usize,
    /// The reason of the first failure.
    pub(crate) why: Option<String>,
    /// The share of a processor that the proxy used during the attack.
    pub(crate) processor: f64,
    /// The growth of the peak resident memory, in bytes.
    pub(crate) memory: usize,
    /// The number of open descriptors before the attack and a moment after it.
    pub(crate) descriptors: (usize, usize),
    pub(crate) outcome: Outcome,
    /// The reason why the proxy ended, if it did.
    pub(crate) died: Option<String>,
}

impl Measured {
    /// Tells whether the machine was busy with something else, so that a latency says little.
    fn was_disturbed(&self) -> bool {
        self.delay > TOLERANCE || self.others > OTHERS
    }

    /// Returns true if no honest request failed and their p99 is within the bound.
    pub(crate) fn honest_client_is_served(&self) -> bool {
        self.failed == 0 && self.hostile.p99 <= self.quiet.p99 * 3 + TOLERANCE
    }
}

/// Runs a pattern against a proxy.
pub(crate) fn measure(kind: Kind, pattern: &Pattern, effort: Effort) -> Measured {
    leave_the_proxys_processor();
    let origin = Origin::start();
    let proxy = Proxy::start(kind, pattern.setting, &origin);
    origin.loop_to(proxy.plain);
    let mut arena = Arena::new(proxy, origin);
    wait_until_served(&arena);
    arena.descriptors = arena.proxy.descriptors();
    arena.processes = arena.proxy.processes();
    let before = arena.proxy.resident();
    arena.proxy.forget_peak();
    let mut measured = loop_rounds(&arena, pattern, effort);
    let mut failed = 0;
    for _ in 1..MEASUREMENTS {
        failed += usize::from(!measured.was_disturbed());
        if measured.honest_client_is_served() || failed == TRIES {
            break;
        }
        measured = loop_rounds(&arena, pattern, effort);
    }
    measured.memory = arena.proxy.peak().saturating_sub(before);
    measured.died = gone(&mut arena);
    if measured.died.is_none() {
        measured.descriptors = (arena.descriptors, settled_descriptors(&arena));
        measured.outcome = (pattern.outcome)(&arena);
        measured.died = gone(&mut arena);
    }
    measured
}

/// Returns a message if a process of the proxy has ended; a supervisor may have started another
/// one.
fn gone(arena: &mut Arena) -> Option<String> {
    let now = arena.proxy.processes();
    let lost = arena.processes.iter().find(|pid| !now.contains(pid)).copied();
    let status = arena.proxy.process.ended().map(|status| status.to_string());
    let why = status.or_else(|| lost.map(|pid| format!("process {pid} is gone")))?;
    let said = arena.proxy.process.said();
    Some(format!("{why}: {}", said.lines().last().unwrap_or_default()))
}

/// Waits until the proxy answers, and sends a few more requests so that one-time costs are not
/// measured.
pub(crate) fn wait_until_served(arena: &Arena) {
    eventually("the proxy serves", || ask_once(arena).then_some(()));
    honest(arena, Duration::from_millis(100));
}

fn ask_once(arena: &Arena) -> bool {
    Asker::connect(arena).is_some_and(|mut asker| asker.ask().is_ok())
}

/// Returns the number of descriptors after the attack: as soon as they are few enough, or after two
/// seconds.
fn settled_descriptors(arena: &Arena) -> usize {
    let deadline = Instant::now() + Duration::from_secs(2);
    loop {
        let now = arena.proxy.descriptors();
        if now <= arena.descriptors + SPARE_DESCRIPTORS || Instant::now() > deadline {
            return now;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until the proxy has finished the work that the last attack left, so that it does not
/// disturb the quiet round. Work that remains shows in that round.
fn recover(arena: &Arena) {
    let deadline = Instant::now() + RECOVERY;
    let mut in_a_row = 0;
    while in_a_row < 10 && Instant::now() < deadline {
        let asked = Instant::now();
        let swift = ask_once(arena) && asked.elapsed() < TOLERANCE;
        in_a_row = if swift { in_a_row + 1 } else { 0 };
    }
}

/// Alternates quiet and hostile rounds.
fn loop_rounds(arena: &Arena, pattern: &Pattern, effort: Effort) -> Measured {
    let (mut quiet, mut hostile) = (Vec::new(), Vec::new());
    let (mut worked, mut passed, mut all) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    for _ in 0..effort.rounds {
        recover(arena);
        quiet.push(honest(arena, effort.quiet));
        let (before, began) = (arena.proxy.processor_time(), Instant::now());
        let all_before = time_of_others();
        hostile.push(beside(arena, pattern, effort.hostile));
        worked += arena.proxy.processor_time().saturating_sub(before);
        all += time_of_others().saturating_sub(all_before);
        passed += began.elapsed();
    }
    Measured {
        quiet: median(&quiet),
        hostile: median(&hostile),
        delay: middle(hostile.iter().map(|round| percentile(&round.delays, 0.99))),
        failed: hostile.iter().map(|round| round.failed).sum(),
        why: hostile.iter().find_map(|round| round.why.clone()),
        others: all.saturating_sub(worked).as_secs_f64() / (passed.as_secs_f64() * processors()),
        processor: worked.as_secs_f64() / passed.as_secs_f64(),
        memory: 0,
        descriptors: (0, 0),
        outcome: Outcome::absent(),
        died: None,
    }
}

fn median(rounds: &[Round]) -> Latency {
    let of = |share: f64| middle(rounds.iter().map(|round| round.percentile(share)));
    Latency { p50: of(0.5), p99: of(0.99) }
}

/// The processor time of everything but this process: the other programs of the machine, the proxy
/// among them, and the time that the hypervisor gave to other machines. Interrupts are left out,
/// because they are those of the load.
fn time_of_others() -> Duration {
    let all = processor_time("/proc/stat", &[1, 2, 3, 8]).unwrap();
    all.saturating_sub(processor_time("/proc/self/stat", &[11, 12, 13, 14]).unwrap())
}

/// The number of the machine's processors, not only of those that this process may use.
fn processors() -> f64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap();
    text.lines().filter(|line| line.starts_with("cpu")).count() as f64 - 1.0
}

/// Returns the median of some times.
fn middle(times: impl Iterator<Item = Duration>) -> Duration {
    let mut times: Vec<_> = times.collect();
    times.sort_unstable();
    times[times.len() / 2]
}

/// Runs the honest client beside the attack.
fn beside(arena: &Arena, pattern: &Pattern, time: Duration) -> Round {
    arena.begin();
    std::thread::scope(|scope| {
        for _ in 0..pattern.threads {
            scope.spawn(|| {
                stand_back();
                (pattern.attack)(arena);
            });
        }
        let round = honest(arena, time);
        arena.end();
        round
    })
}

/// The honest client's connection.
struct Asker(TcpStream);

impl Asker {
    fn connect(arena: &Arena) -> Option<Self> {
        let stream = TcpStream::connect_timeout(&arena.proxy.plain, HONEST_PATIENCE).ok()?;
        stream.set_read_timeout(Some(HONEST_PATIENCE)).ok()?;
        stream.set_write_timeout(Some(HONEST_PATIENCE)).ok()?;
        stream.set_nodelay(true).ok()?;
        Some(Self(stream))
    }

    /// Sends a request and reads the origin's response. The error is the text received instead.
    fn ask(&mut self) -> Result<(), String> {
        let request = b"GET /honest HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let mut answer = Vec::new();
        let mut piece = [0; 4096];
        self.0.write_all(request).map_err(|error| error.to_string())?;
        while !answer.ends_with(b"\r\n\r\nok") {
            match self.0.read(&mut piece) {
                Ok(count @ 1..) => answer.extend_from_slice(&piece[..count]),
                Ok(_) => return Err(format!("ended after {}", String::from_utf8_lossy(&answer))),
                Err(error) => {
                    return Err(format!("{error} after {}", String::from_utf8_lossy(&answer)));
                }
            }
        }
        if answer.starts_with(b"HTTP/1.1 200 ") {
            return Ok(());
        }
        Err(String::from_utf8_lossy(&answer).into_owned())
    }
}

/// Sends one request every [`PACE`], or as soon as the one before is complete, most on one kept
/// connection, every tenth on a new one.
fn honest(arena: &Arena, time: Duration) -> Round {
    let began = Instant::now();
    let mut round = Round { latencies: Vec::new(), delays: Vec::new(), failed: 0, why: None };
    let mut kept: Option<Asker> = None;
    let mut number = 0;
    while began.elapsed() < time {
        let asked = Instant::now();
        number += 1;
        let mut fresh = None;
        let asker = if number % FRESH == 0 { &mut fresh } else { &mut kept };
        if asker.is_none() {
            *asker = Asker::connect(arena);
        }
        let refused = || Err("no connection".to_owned());
        let done = asker.as_mut().map_or_else(refused, Asker::ask);
        round.latencies.push(asked.elapsed());
        let done = done
            .inspect_err(|why| {
                round.failed += 1;
                kept = None;
                round.why.get_or_insert_with(|| why.clone());
            })
            .is_ok();
        // A proxy that has ended refuses at once; the pause avoids a busy loop.
        let early = if done { PACE.saturating_sub(asked.elapsed()) } else { PACE };
        let slept = Instant::now();
        std::thread::sleep(early);
        round.delays.push(slept.elapsed().saturating_sub(early));
    }
    round.latencies.sort_unstable();
    round.delays.sort_unstable();
    round
}

/// Sends one request to an admin address as an operator, and returns all bytes received in time.
pub(crate) fn operator(admin: SocketAddr, request: &[u8]) -> Vec<u8> {
    let mut answer = Vec::new();
    let Ok(mut stream) = TcpStream::connect_timeout(&admin, HONEST_PATIENCE) else { return answer };
    let _ = stream.set_read_timeout(Some(HONEST_PATIENCE));
    if stream.write_all(request).is_ok() {
        let _ = stream.read_to_end(&mut answer);
    }
    answer
}
