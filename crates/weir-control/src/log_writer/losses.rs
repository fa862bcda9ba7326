//! Whether lines are dropped because somebody takes them too slowly: said when it begins and when it is over, with how many
//! there were. What cannot be written at all is said by the writer itself.

use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};
use weir_config::model::Severity;
use weir_stats::LogSink;

/// How often it is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// Looks without a loss after which it is over.
const QUIET_LOOKS: u32 = 10;

/// Every access log.
pub(crate) struct Losses(Vec<Loss>);

struct Loss {
    log: String,
    sink: LogSink,
    /// Lines lost up to the last look.
    seen: u64,
    losing: Option<Losing>,
}

struct Losing {
    /// Lines lost before it began.
    before: u64,
    quiet_looks: u32,
}

impl Losses {
    pub(super) fn new(logs: impl Iterator<Item = (String, LogSink)>) -> Self {
        Self(logs.map(|(log, sink)| Loss { log, sink, seen: 0, losing: None }).collect())
    }

    /// Tells `say` of them for ever.
    pub(crate) async fn watch(mut self, say: fn(Severity, &str)) {
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            for loss in &mut self.0 {
                if let Some((severity, sentence)) = loss.look() {
                    say(severity, &sentence);
                }
            }
        }
    }
}

impl Loss {
    fn look(&mut self) -> Option<(Severity, String)> {
        let lost = self.sink.refused();
        let before = std::mem::replace(&mut self.seen, lost);
        let log = &self.log;
        match &mut self.losing {
            None if lost > before => {
                self.losing = Some(Losing { before, quiet_looks: 0 });
                let sentence = format!(
                    "lines of the log {log} are dropped: they come faster than they are taken"
                );
                return Some((Severity::Warning, sentence));
            }
            None => {}
            Some(losing) if lost > before => losing.quiet_looks = 0,
            Some(losing) => {
                losing.quiet_looks += 1;
                if losing.quiet_looks >= QUIET_LOOKS {
                    let lines = lost - losing.before;
                    self.losing = None;
                    let sentence =
                        format!("lines of the log {log} are no longer dropped; {lines} are lost");
                    return Some((Severity::Notice, sentence));
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use weir_stats::{LogBatch, log_fan};

    use super::*;

    static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

    fn hear(_: Severity, sentence: &str) {
        SAID.lock().unwrap().push(sentence.to_owned());
    }

    fn push(batch: &mut LogBatch) {
        batch.push(|out| out.push(b'\n'));
        batch.flush();
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_receiver_is_said_once_and_again_when_it_is_over() {
        let (sink, receivers) = log_fan(0, 1, 1);
        let mut batch = sink.batch();
        let losses = Losses::new([("access".to_owned(), sink)].into_iter());
        let watching = tokio::spawn(losses.watch(hear));
        for _ in 0..60 {
            push(&mut batch);
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        receivers[0].receive().unwrap();
        push(&mut batch);
        tokio::time::sleep(Duration::from_mins(1)).await;
        watching.abort();
        assert_eq!(
            *SAID.lock().unwrap(),
            [
                "lines of the log access are dropped: they come faster than they are taken",
                "lines of the log access are no longer dropped; 59 are lost",
            ]
        );
    }
}
