//! The agents of endpoints: what they say is done as an operator does it, and the verdict that a
//! server is down holds beside that of its probes. An agent that cannot be asked says nothing. The
//! words are read in `health/agent_check.rs`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};
use weir_balance::Health;
use weir_config::model::{Change, EndpointOverride, Severity};
use weir_proxy::process::Process;

use super::operations::{Operations, Trial};
use crate::health::agent_check::{AgentAnswer, AgentTarget, ask};
use crate::health::health_log::{EndpointName, HealthChange, HealthState};

/// The shortest time between two lines about an agent.
const TROUBLE_PAUSE: Duration = Duration::from_secs(10);

/// The agents that are asked, with their tasks.
type AskedAgents = HashMap<EndpointName, (AgentTarget, AbortHandle)>;

/// Asks the agents of the configuration in effect, each on a task of its own, as long as the
/// sender of targets exists.
pub(crate) async fn follow(
    mut targets: watch::Receiver<Vec<AgentTarget>>,
    operations: Arc<Operations>,
    say: fn(Severity, &str),
) {
    let mut asked = AskedAgents::new();
    loop {
        let wanted = targets.borrow_and_update().clone();
        let mut before = std::mem::take(&mut asked);
        for target in wanted {
            let of = target.of.clone();
            let known = before.remove(&of);
            let kept = match known {
                Some((same, task)) if same == target => task,
                other => {
                    if let Some((old, task)) = other {
                        task.abort();
                        if !old.asks_of_the_same(&target) {
                            forget(operations.process(), &of);
                        }
                    }
                    let watched = watch_agent(target.clone(), operations.clone(), say);
                    tokio::spawn(watched).abort_handle()
                }
            };
            asked.insert(of, (target, kept));
        }
        for (_, task) in before.into_values() {
            task.abort();
        }
        forget_all_but(operations.process(), &asked);
        if targets.changed().await.is_err() {
            for (_, task) in asked.values() {
                task.abort();
            }
            return;
        }
    }
}

/// Asks the agent of an endpoint until the task is aborted.
async fn watch_agent(target: AgentTarget, operations: Arc<Operations>, say: fn(Severity, &str)) {
    let name = format!("agent of {}/{}", target.of.pool, target.of.endpoint);
    let mut trouble = AgentTrouble { name: name.clone(), is_told: false, told_at: None, say };
    loop {
        let began = Instant::now();
        if let Some(address) = target.address(operations.process()) {
            let line = timeout(target.check.timeout, ask(&address, target.check.send.as_deref()));
            let answer = match line.await {
                Err(_) => Err("it did not answer in time".to_owned()),
                Ok(Err(error)) => Err(error.to_string()),
                Ok(Ok(line)) => AgentAnswer::parse(&line)
                    .ok_or_else(|| "it says nothing that is known".to_owned()),
            };
            trouble.note(match answer {
                Ok(answer) => apply(&target, &answer, &operations, &name).await,
                Err(reason) => Err(reason),
            });
        }
        sleep(target.check.interval.saturating_sub(began.elapsed())).await;
    }
}

/// The fault of an agent that the operator was told last.
struct AgentTrouble {
    name: String,
    /// Set if the operator was told that the agent is not followed.
    is_told: bool,
    told_at: Option<Instant>,
    say: fn(Severity, &str),
}

impl AgentTrouble {
    /// Tells that the agent is followed no longer, or again; an agent that changes often is told of
    /// once in a while.
    fn note(&mut self, outcome: Result<(), String>) {
        if outcome.is_err() == self.is_told
            || self.told_at.is_some_and(|at| at.elapsed() < TROUBLE_PAUSE)
        {
            return;
        }
        self.is_told = outcome.is_err();
        self.told_at = Some(Instant::now());
        let name = &self.name;
        match outcome {
            Ok(()) => (self.say)(Severity::Notice, &format!("the {name} is followed again")),
            Err(reason) => {
                (self.say)(Severity::Warning, &format!("the {name} is not followed: {reason}"));
            }
        }
    }
}

/// Does what an answer says.
///
/// # Errors
/// The reason for which a change is refused.
async fn apply(
    target: &AgentTarget,
    answer: &AgentAnswer,
    operations: &Operations,
    who: &str,
) -> Result<(), String> {
    let process = operations.process();
    if let Some(health) = answer.health
        && let Some(probed) = set_health(process, &target.of, health)
    {
        let to = match (health, probed) {
            (Health::Unhealthy, _) => Some(HealthState::Down),
            (Health::Healthy, Health::Healthy) => Some(HealthState::Up),
            // The probes keep it down.
            (Health::Healthy, Health::Unhealthy) => None,
        };
        if let Some(to) = to {
            let (of, reason) = (target.of.clone(), answer.reason.clone());
            let change = HealthChange { of, to, reason, excerpt: String::new() };
            operations.health().change(process, change);
        }
    }
    let served = operations.served();
    let (pool, endpoint) = (&*target.of.pool, &*target.of.endpoint);
    let own_weight = served.own_weight(pool, endpoint);
    if let Some(drains) = answer.drains(own_weight) {
        set_draining(process, &target.of, drains);
    }
    let Some(now) = served.endpoint(pool, endpoint) else { return Ok(()) };
    let set = answer.change(now, own_weight);
    if set != EndpointOverride::default() {
        let (pool, endpoint) = (pool.to_owned(), endpoint.to_owned());
        let change = Change::Endpoint { pool, endpoint, set };
        let made = operations.change(who, &change, Trial::Real).await;
        made.map_err(|refusal| refusal.message)?;
    }
    Ok(())
}

/// Records that an agent gives its endpoint no weight, or does so no longer.
fn set_draining(process: &Process, of: &EndpointName, drains: bool) {
    let snapshot = process.snapshot();
    if let Some((pool, endpoint)) = snapshot.endpoint(&of.pool, &of.endpoint) {
        let now_us = process.balance_clock(Instant::now());
        pool.balancer.set_agent_draining(endpoint, drains, now_us);
    }
}

/// Forgets what an agent said.
fn forget(process: &Process, of: &EndpointName) {
    set_health(process, of, Health::Healthy);
    set_draining(process, of, false);
}

/// Forgets what the agents of endpoints that have none now said, also to the process before this
/// one.
fn forget_all_but(process: &Process, asked: &AskedAgents) {
    for pool in &process.snapshot().pools {
        for index in 0..pool.balancer.len() {
            let said = pool.balancer.endpoint(index).is_some_and(|state| {
                state.agent_health() == Health::Unhealthy || state.is_agent_draining()
            });
            if said
                && let Some(of) = EndpointName::of(pool, index)
                && !asked.contains_key(&of)
            {
                forget(process, &of);
            }
        }
    }
}

/// Records the verdict of an agent. Returns that of the probes, if the agent's is another one than
/// before.
fn set_health(process: &Process, of: &EndpointName, health: Health) -> Option<Health> {
    let snapshot = process.snapshot();
    let (pool, endpoint) = snapshot.endpoint(&of.pool, &of.endpoint)?;
    let state = pool.balancer.endpoint(endpoint)?;
    if state.agent_health() == health {
        return None;
    }
    pool.balancer.set_agent_health(endpoint, health, process.balance_clock(Instant::now()));
    Some(state.probed_health())
}
