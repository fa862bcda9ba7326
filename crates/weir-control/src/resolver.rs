//! Resolution of server names to addresses, beside the data plane: before a configuration takes
//! effect, and again whenever an answer expires. It picks no endpoints; its results are applied to
//! the configuration like other runtime changes.

pub(crate) mod dns;
mod known;

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;
use weir_config::model::Config;
use weir_config::model::names::{Answers, Question};
use weir_config::model::resolver::Resolver as Settings;

use self::dns::{Dns, Resolution};
use self::known::KnownAddresses;
use crate::logs::program_log::say;

/// The longest that a configuration waits for the first answers for new names.
const FIRST_LOOKUPS: Duration = Duration::from_secs(2);

/// The names of the configuration in effect, each kept resolved by a task of its own.
#[derive(Default)]
pub(crate) struct NameResolver {
    settings: Settings,
    names: Arc<Names>,
    tasks: HashMap<Question, AbortHandle>,
}

/// The current answers for all names.
#[derive(Default)]
pub(crate) struct Names {
    known: Mutex<HashMap<Question, KnownAddresses>>,
    changed: Notify,
}

/// The questions of a new configuration, and the first answers for those that are new.
pub(crate) struct PreparedNames {
    settings: Settings,
    dns: Arc<Dns>,
    asked: Vec<Question>,
    first: HashMap<Question, Result<Resolution, String>>,
}

impl NameResolver {
    /// The shared answers, which also signal changes.
    pub(crate) fn names(&self) -> &Arc<Names> {
        &self.names
    }

    /// Looks up the new names of a configuration and waits a bounded time, so that its servers are
    /// known when it takes effect.
    pub(crate) async fn prepare(&self, config: &Config) -> PreparedNames {
        let settings = config.resolver.clone();
        let dns = Arc::new(Dns::new(&settings));
        let asked = questions(config);
        let mut lookups = JoinSet::new();
        for question in asked.iter().filter(|asked| !self.tasks.contains_key(asked)).cloned() {
            let dns = dns.clone();
            lookups.spawn(async move {
                let answer = dns.ask(&question).await;
                (question, answer)
            });
        }
        let mut first = HashMap::new();
        let all = async {
            while let Some(Ok((question, answer))) = lookups.join_next().await {
                first.insert(question, answer);
            }
        };
        // A task asks again for names without an answer by then.
        let _ = timeout(FIRST_LOOKUPS, all).await;
        PreparedNames { settings, dns, asked, first }
    }

    /// The current answers together with the first answers of `prepared`, which is not applied yet.
    pub(crate) fn answers(&self, prepared: &PreparedNames) -> Answers {
        let mut answers = Answers::default();
        let known = self.names.known();
        for question in &prepared.asked {
            if let Some(known) = known.get(question) {
                known.tell(question, &mut answers);
            } else if let Some(answer) = prepared.first.get(question) {
                let mut known = KnownAddresses::default();
                known.take(question, answer.clone(), &prepared.settings);
                known.tell(question, &mut answers);
            }
        }
        answers
    }

    /// Keeps the names of this configuration resolved from now on, and no others.
    pub(crate) fn follow(&mut self, prepared: PreparedNames, runtime: &Handle) {
        let PreparedNames { settings, dns, asked, mut first } = prepared;
        let mut before = std::mem::take(&mut self.tasks);
        let other_servers = settings != self.settings;
        self.settings = settings.clone();
        self.names.forget_all_but(&asked);
        for question in asked {
            if let Some(task) = before.remove(&question) {
                if !other_servers {
                    self.tasks.insert(question, task);
                    continue;
                }
                task.abort();
            }
            let wait = first
                .remove(&question)
                .map_or(Duration::ZERO, |answer| self.names.take(&question, answer, &settings));
            let dns = dns.clone();
            let ask = move |question: Question| {
                let dns = dns.clone();
                async move { dns.ask(&question).await }
            };
            let watching = watch(question.clone(), wait, ask, self.names.clone(), settings.clone());
            self.tasks.insert(question, runtime.spawn(watching).abort_handle());
        }
        for task in before.into_values() {
            task.abort();
        }
    }
}

impl Names {
    /// The answers that are applied to the configuration.
    pub(crate) fn answers(&self) -> Answers {
        let mut answers = Answers::default();
        for (question, known) in &*self.known() {
            known.tell(question, &mut answers);
        }
        answers
    }

    /// Waits for the next change of an answer.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Stores an answer, logs what the operator should know, and returns the wait before the next
    /// question.
    fn take(
        &self,
        question: &Question,
        answer: Result<Resolution, String>,
        settings: &Settings,
    ) -> Duration {
        let mut known = self.known();
        let told = known.entry(question.clone()).or_default().take(question, answer, settings);
        drop(known);
        if let Some((severity, sentence)) = told.notice {
            say(severity, &sentence);
        }
        if told.changed {
            self.changed.notify_one();
        }
        told.wait
    }

    fn forget_all_but(&self, asked: &[Question]) {
        self.known().retain(|question, _| asked.contains(question));
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Question, KnownAddresses>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The names of a configuration, without duplicates.
fn questions(config: &Config) -> Vec<Question> {
    let endpoints = config.pools.iter().flat_map(|pool| &pool.endpoints);
    let mut asked: Vec<Question> =
        endpoints.filter_map(|endpoint| Question::of(&endpoint.address)).collect();
    asked.sort_unstable();
    asked.dedup();
    asked
}

/// Keeps one name resolved until the task is aborted.
async fn watch<L, F>(
    question: Question,
    first: Duration,
    ask: L,
    names: Arc<Names>,
    settings: Settings,
) where
    L: Fn(Question) -> F,
    F: Future<Output = Result<Resolution, String>>,
{
    let mut wait = first;
    loop {
        tokio::time::sleep(wait).await;
        let answer = ask(question.clone()).await;
        wait = names.take(&question, answer, &settings);
    }
}

#[cfg(test)]
mod tests;
