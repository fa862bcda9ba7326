//! Notices of workers about endpoints, made into health events and log lines, and the end of an
//! ejection, which no worker reports. It ejects nothing itself.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};
use weir_config::model::{PassiveCause, Severity};
use weir_proxy::notice::{Notice, Noticed};
use weir_proxy::process::Process;
use weir_proxy::upstream::UpstreamPool;

use crate::health::health_log::{EndpointName, HealthChange, HealthLog, HealthSpan, HealthState};

/// The shortest time between two lines about an endpoint's failed connects.
const TROUBLE_PAUSE: Duration = Duration::from_secs(1);

/// Handles notices until all senders are gone.
pub(crate) async fn listen(
    mut notices: mpsc::Receiver<Notice>,
    process: Arc<Process>,
    log: Arc<HealthLog>,
    say: fn(Severity, &str),
) {
    while let Some(notice) = notices.recv().await {
        take(&notice, &process, &log, say);
    }
}

fn take(notice: &Notice, process: &Arc<Process>, log: &Arc<HealthLog>, say: fn(Severity, &str)) {
    let name = |endpoint| EndpointName::of(&notice.pool, endpoint);
    let change = |endpoint, to, reason| {
        let Some(of) = name(endpoint) else { return };
        log.change(process, HealthChange { of, to, reason, excerpt: String::new() });
    };
    match notice.what {
        Noticed::LawBroken { found } => {
            let name = &notice.pool.name;
            say(
                Severity::Error,
                &format!(
                    "bug: the queue of pool {name} had {found} forgotten or surplus exchanges; the watchdog corrected it"
                ),
            );
        }
        Noticed::ConnectFailed { endpoint } => {
            tokio::spawn(watch_trouble(notice.pool.clone(), endpoint, say));
        }
        Noticed::Ejected { endpoint, cause, until_us } => {
            let reason = format!("too many failures in traffic, the last: {}", words(cause));
            change(endpoint, HealthState::Ejected, reason);
            let Some(of) = name(endpoint) else { return };
            tokio::spawn(wait_for_return(of, until_us, process.clone(), log.clone()));
        }
        Noticed::Stalled { endpoint, silent_us, unanswered } => {
            let silent = HealthSpan(Duration::from_micros(silent_us));
            let reason = format!(
                "{unanswered} requests are unanswered and there was no response for {silent}, while others answer"
            );
            change(endpoint, HealthState::Stalled, reason);
        }
        Noticed::Answers { endpoint } => {
            if name(endpoint).is_some_and(|of| log.state(&of) == HealthState::Stalled) {
                change(endpoint, HealthState::Up, "it answers again".to_owned());
            }
        }
    }
}

/// Logs the reasons of an endpoint's failed connects, until none has failed for a while.
async fn watch_trouble(pool: Arc<UpstreamPool>, endpoint: usize, say: fn(Severity, &str)) {
    loop {
        say_trouble(&pool, endpoint, say);
        sleep(TROUBLE_PAUSE).await;
        if pool.endpoints.get(endpoint).is_none_or(|endpoint| endpoint.trouble.is_over()) {
            return;
        }
    }
}

/// Logs one line, if there are failures to report.
fn say_trouble(pool: &UpstreamPool, endpoint: usize, say: fn(Severity, &str)) {
    let Some(one) = pool.endpoints.get(endpoint) else { return };
    if let Some((failure, count)) = one.trouble.take() {
        let more = match count {
            0 | 1 => String::new(),
            count => format!(" ({} more left out)", count - 1),
        };
        say(
            Severity::Error,
            &format!(
                "cannot connect to {}/{} at {}: {failure}{more}",
                pool.name, one.name, one.address_text
            ),
        );
    }
}

/// Logs the failures held back so far; called at the end.
pub(crate) fn say_rest(process: &Process, say: fn(Severity, &str)) {
    for pool in &process.snapshot().pools {
        for endpoint in 0..pool.endpoints.len() {
            say_trouble(pool, endpoint, say);
        }
    }
}

fn words(cause: PassiveCause) -> Cow<'static, str> {
    Cow::Borrowed(match cause {
        PassiveCause::Connect => "no connection",
        PassiveCause::Reset => "the connection ended before a response",
        PassiveCause::Timeout => "no response in time",
        PassiveCause::Invalid => "the response was not HTTP",
        PassiveCause::GatewayStatus => "a response with status 502, 503 or 504",
        PassiveCause::Status(status) => {
            return Cow::Owned(format!("a response with status {status}"));
        }
        PassiveCause::Grpc(status) => {
            return Cow::Owned(format!("a call with status `{}`", status.as_str()));
        }
    })
}

/// Waits for the end of an ejection that no worker of this process caused.
pub(crate) async fn end_ejection(
    of: EndpointName,
    until_us: u64,
    process: Arc<Process>,
    log: Arc<HealthLog>,
) {
    sleep_until(process.instant(until_us).into()).await;
    if let Some((pool, _)) = process.snapshot().endpoint(&of.pool, &of.endpoint) {
        pool.balancer.tick(process.balance_clock(Instant::now()));
    }
    wait_for_return(of, until_us, process, log).await;
}

/// Logs the end of an ejection. Queued exchanges are dispatched by the worker that caused the
/// ejection.
async fn wait_for_return(
    of: EndpointName,
    until_us: u64,
    process: Arc<Process>,
    log: Arc<HealthLog>,
) {
    sleep_until(process.instant(until_us).into()).await;
    let now_us = process.balance_clock(Instant::now());
    let snapshot = process.snapshot();
    let Some((pool, endpoint)) = snapshot.endpoint(&of.pool, &of.endpoint) else { return };
    let ejected = pool.balancer.endpoint(endpoint).is_some_and(|state| state.is_ejected(now_us));
    if log.state(&of) == HealthState::Ejected && !ejected {
        let reason = "its ejection has ended".to_owned();
        let change = HealthChange { of, to: HealthState::Up, reason, excerpt: String::new() };
        log.change(&process, change);
    }
}
