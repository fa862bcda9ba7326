//! The state of one name: the last good answer, and the time since which look-ups fail. It makes no
//! look-ups and logs nothing.

use std::time::Duration;

use tokio::time::Instant;
use weir_config::model::Severity;
use weir_config::model::names::{Answers, Found, MOST_PLACES, Question, ResolvedServers};
use weir_config::model::resolver::Resolver as Settings;
use weir_config::units;

use super::dns::Resolution;

/// The wait after the first failure; it doubles with each further one, up to [`LAST_RETRY`].
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_secs(30);

/// The largest number of addresses listed in one message; the rest are counted.
const SHOWN: usize = 5;

#[derive(Default)]
pub(super) struct KnownAddresses {
    places: ResolvedServers,
    failing: Option<Failing>,
    /// The number of addresses for which there were no places.
    left_out: usize,
}

struct Failing {
    since: Instant,
    times: u32,
}

/// The consequences of one answer.
pub(super) struct AnswerEffect {
    /// Set if the configuration changes with it.
    pub(super) changed: bool,
    /// A message for the operator.
    pub(super) notice: Option<(Severity, String)>,
    /// The wait until the next look-up.
    pub(super) wait: Duration,
}

impl KnownAddresses {
    /// Inserts the last good answer, if there is one, into `answers`.
    pub(super) fn tell(&self, question: &Question, answers: &mut Answers) {
        if !self.places.is_empty() {
            answers.insert(question.clone(), self.places.clone());
        }
    }

    pub(super) fn take(
        &mut self,
        question: &Question,
        answer: Result<Resolution, String>,
        settings: &Settings,
    ) -> AnswerEffect {
        match answer {
            Ok(answer) if answer.found.is_empty() => self.failed(question, "it has no address"),
            Ok(answer) => self.resolved(question, answer, settings),
            Err(error) => self.failed(question, &error),
        }
    }

    fn resolved(
        &mut self,
        question: &Question,
        answer: Resolution,
        settings: &Settings,
    ) -> AnswerEffect {
        let before = self.places.clone();
        let left_out = self.places.take(answer.found);
        let newly_left_out = left_out > 0 && self.left_out == 0;
        self.left_out = left_out;
        let changed = self.places != before;
        let failed = self.failing.take();
        let (name, now) = (question.name(), shown(&self.places));
        let over = |failing: Failing| {
            let whole = Duration::from_secs(failing.since.elapsed().as_secs());
            format!(", after {}", units::duration::format(whole))
        };
        let notice = match failed {
            Some(failing) => Some((
                Severity::Notice,
                format!("endpoint name {name} resolves now: {now}{}", over(failing)),
            )),
            None if changed && !before.is_empty() => Some((
                Severity::Notice,
                format!("endpoint name {name} is now {now}, was {}", shown(&before)),
            )),
            None if newly_left_out => Some((
                Severity::Warning,
                format!(
                    "endpoint name {name} has {left_out} addresses beyond the {MOST_PLACES} that are used"
                ),
            )),
            None => None,
        };
        AnswerEffect { changed, notice, wait: settings.holds(answer.ttl) }
    }

    fn failed(&mut self, question: &Question, error: &str) -> AnswerEffect {
        let first = self.failing.is_none();
        let failing =
            self.failing.get_or_insert_with(|| Failing { since: Instant::now(), times: 0 });
        let wait = FIRST_RETRY.saturating_mul(1 << failing.times.min(16)).min(LAST_RETRY);
        failing.times = failing.times.saturating_add(1);
        let notice = first.then(|| {
            let then = if self.places.is_empty() {
                "trying again".to_owned()
            } else {
                format!("keeping {}", shown(&self.places))
            };
            let name = question.name();
            (Severity::Warning, format!("endpoint name {name} does not resolve: {error}; {then}"))
        });
        AnswerEffect { changed: false, notice, wait }
    }
}

fn shown(places: &ResolvedServers) -> String {
    let address = |found: &Found| match &found.service {
        None => found.ip.to_string(),
        Some(service) => std::net::SocketAddr::new(found.ip, service.port).to_string(),
    };
    let count = places.iter().count();
    let mut list: Vec<String> =
        places.iter().take(SHOWN).map(|(_, found)| address(found)).collect();
    if count > SHOWN {
        list.push(format!("and {} more", count - SHOWN));
    }
    list.join(", ")
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn answer(lasts: &[u8], ttl_seconds: u64) -> Resolution {
        let found = |last: &u8| Found { ip: Ipv4Addr::new(10, 0, 0, *last).into(), service: None };
        let ttl = Duration::from_secs(ttl_seconds);
        Resolution { found: lasts.iter().map(found).collect(), ttl }
    }

    #[tokio::test(start_paused = true)]
    async fn the_operator_hears_of_changes_once_and_the_last_good_answer_stays() {
        let question = Question::Host("app.test".to_owned());
        let mut known = KnownAddresses::default();
        let mut take = async |answer: Result<Resolution, String>| {
            let told = known.take(&question, answer, &Settings::default());
            tokio::time::sleep(told.wait).await;
            let notice = told.notice.map(|(_, sentence)| sentence).unwrap_or_default();
            (told.wait.as_secs(), told.changed, notice)
        };
        let gone = || Err("there is no such name (NXDOMAIN)".to_owned());
        let failed = "endpoint name app.test does not resolve: there is no such name (NXDOMAIN)";
        let same = |wait| (wait, false, String::new());
        assert_eq!(take(gone()).await, (1, false, format!("{failed}; trying again")));
        assert_eq!(take(gone()).await, same(2));
        assert_eq!(
            take(Ok(answer(&[1], 60))).await,
            (60, true, "endpoint name app.test resolves now: 10.0.0.1, after 3s".to_owned())
        );
        assert_eq!(take(Ok(answer(&[1], 0))).await, same(1));
        assert_eq!(take(gone()).await, (1, false, format!("{failed}; keeping 10.0.0.1")));
        for wait in [2, 4, 8, 16, 30, 30] {
            assert_eq!(take(Ok(answer(&[], 5))).await, same(wait));
        }
        assert_eq!(
            take(Ok(answer(&[1], 86_400))).await,
            (3600, false, "endpoint name app.test resolves now: 10.0.0.1, after 91s".to_owned())
        );
        assert_eq!(
            take(Ok(answer(&[2, 1, 3, 4, 5, 6, 7], 5))).await,
            (
                5,
                true,
                "endpoint name app.test is now 10.0.0.1, 10.0.0.2, 10.0.0.3, 10.0.0.4, 10.0.0.5, and 2 more, was 10.0.0.1"
                    .to_owned()
            )
        );
    }
}
