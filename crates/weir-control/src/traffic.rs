//! What workers tell of endpoints, made into events of health and lines for the operator; and the end of an ejection, which nobody
//! else sees.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};
use weir_config::model::PassiveCause;
use weir_proxy::connect_trouble::ConnectTrouble;
use weir_proxy::notice::{Notice, Noticed};
use weir_proxy::shared::Shared;

use crate::health_log::{Change, HealthLog, HealthState, Span};

/// An endpoint's failed connects are one line in this time, at most.
const TROUBLE_PAUSE: Duration = Duration::from_secs(1);

/// Notes what is told until nobody is left to tell.
pub(crate) async fn listen(
    mut notices: mpsc::Receiver<Notice>,
    shared: Arc<Shared>,
    log: Arc<HealthLog>,
    say: fn(&str),
) {
    while let Some(Notice { pool, what }) = notices.recv().await {
        match what {
            Noticed::LawBroken { found } => {
                let name = shared.pools.get(pool).map_or("", |pool| &*pool.name);
                say(&format!(
                    "bug: the queue of pool {name} had {found} forgotten or surplus exchanges; the watchdog put that right"
                ));
            }
            Noticed::ConnectFailed { endpoint } => {
                tokio::spawn(watch_trouble((pool, endpoint), shared.clone(), say));
            }
            Noticed::Ejected { endpoint, cause, until_us } => {
                let reason = format!("too many failures in traffic, the last: {}", words(cause));
                let to = HealthState::Ejected;
                let excerpt = String::new();
                log.change(&shared, Change { pool, endpoint, to, reason, excerpt });
                let back = wait_for_return((pool, endpoint), until_us, shared.clone(), log.clone());
                tokio::spawn(back);
            }
            Noticed::Stalled { endpoint, silent_us, unanswered } => {
                let silent = Span(Duration::from_micros(silent_us));
                let reason = format!(
                    "{unanswered} requests without an answer, none for {silent}, while others answer"
                );
                let to = HealthState::Stalled;
                let excerpt = String::new();
                log.change(&shared, Change { pool, endpoint, to, reason, excerpt });
            }
            Noticed::Answers { endpoint }
                if log.state((pool, endpoint)) == HealthState::Stalled =>
            {
                let (to, excerpt) = (HealthState::Up, String::new());
                let reason = "it answers again".to_owned();
                log.change(&shared, Change { pool, endpoint, to, reason, excerpt });
            }
            Noticed::Answers { .. } => {}
        }
    }
}

/// Says what connects to an endpoint fail with, until none has for a while.
async fn watch_trouble(place: (usize, usize), shared: Arc<Shared>, say: fn(&str)) {
    loop {
        let Some(trouble) = say_trouble(&shared, place, say) else { return };
        sleep(TROUBLE_PAUSE).await;
        if trouble.is_over() {
            return;
        }
    }
}

/// Says one line, if there is something to say; `None` when there is no such endpoint.
fn say_trouble(
    shared: &Shared,
    (pool, endpoint): (usize, usize),
    say: fn(&str),
) -> Option<&ConnectTrouble> {
    let pool = shared.pools.get(pool)?;
    let one = pool.endpoints.get(endpoint)?;
    if let Some((failure, count)) = one.trouble.take() {
        let more = match count {
            0 | 1 => String::new(),
            count => format!(" ({} more left out)", count - 1),
        };
        say(&format!(
            "cannot connect to {}/{} at {}: {failure}{more}",
            pool.name, one.name, one.address_text
        ));
    }
    Some(&one.trouble)
}

/// Says what was still held back: at the end.
pub(crate) fn say_rest(shared: &Shared, say: fn(&str)) {
    for (number, pool) in shared.pools.iter().enumerate() {
        for endpoint in 0..pool.endpoints.len() {
            say_trouble(shared, (number, endpoint), say);
        }
    }
}

fn words(cause: PassiveCause) -> &'static str {
    match cause {
        PassiveCause::Connect => "no connection",
        PassiveCause::Reset => "the connection ended before a response",
        PassiveCause::Timeout => "no response in time",
        PassiveCause::Status => "a response with status 502, 503 or 504",
    }
}

/// Tells the operator that an ejection is over. Those who wait in the queue hear it from the worker that caused it.
async fn wait_for_return(
    place: (usize, usize),
    until_us: u64,
    shared: Arc<Shared>,
    log: Arc<HealthLog>,
) {
    sleep_until(shared.epoch + Duration::from_micros(until_us)).await;
    let (pool, endpoint) = place;
    let now_us = shared.balance_clock(Instant::now());
    let Some(balancer) = shared.pools.get(pool).map(|pool| &pool.balancer) else { return };
    let ejected = balancer.endpoint(endpoint).is_some_and(|state| state.is_ejected(now_us));
    if log.state(place) == HealthState::Ejected && !ejected {
        let reason = "its time out is over".to_owned();
        let change = Change { pool, endpoint, to: HealthState::Up, reason, excerpt: String::new() };
        log.change(&shared, change);
    }
}
