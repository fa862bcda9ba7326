//! Reports of dropped log lines, if a target takes them too slowly: one when drops begin and one,
//! with their number, when they end. Failed writes are reported by the writer itself.

use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};
use weir_config::model::Severity;
use weir_stats::LostLines;

use super::LogWriter;

/// The interval between checks.
const LOOK: Duration = Duration::from_secs(1);

/// The number of checks without a loss after which drops have ended.
const QUIET_LOOKS: u32 = 10;

/// The losses of the configured logs.
#[derive(Default)]
pub(crate) struct Losses(Vec<Loss>);

struct Loss {
    lost: Arc<LostLines>,
    /// The number of lines lost until the last check.
    seen: u64,
    losing: Option<Losing>,
}

struct Losing {
    /// The number of lines lost before the drops began.
    before: u64,
    quiet_looks: u32,
}

/// Reports dropped lines to `say` for as long as there is a writer.
pub(crate) async fn watch(writer: Weak<LogWriter>, say: fn(Severity, &str)) {
    let mut losses = Losses::default();
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        let Some(writer) = writer.upgrade() else { return };
        for (severity, sentence) in losses.look(writer.lost()) {
            say(severity, &sentence);
        }
    }
}

impl Losses {
    /// Checks the current logs, and returns the messages for the operator.
    fn look(&mut self, logs: Vec<(String, Arc<LostLines>)>) -> Vec<(Severity, String)> {
        let mut before = std::mem::take(&mut self.0);
        let mut said = Vec::new();
        for (log, lost) in logs {
            let known = before.iter().position(|known| Arc::ptr_eq(&known.lost, &lost));
            let mut loss = match known {
                Some(index) => before.swap_remove(index),
                None => Loss { lost, seen: 0, losing: None },
            };
            said.extend(loss.look(&log));
            self.0.push(loss);
        }
        said
    }
}

impl Loss {
    fn look(&mut self, log: &str) -> Option<(Severity, String)> {
        let lost = self.lost.refused();
        let before = std::mem::replace(&mut self.seen, lost);
        match &mut self.losing {
            None if lost > before => {
                self.losing = Some(Losing { before, quiet_looks: 0 });
                let sentence = format!(
                    "lines of the log {log} are dropped: they arrive faster than they can be written"
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
    use weir_stats::{LogBatch, LogReceiver, log_fan};

    use super::*;

    struct World {
        losses: Losses,
        lost: Arc<LostLines>,
        batch: LogBatch,
        receiver: LogReceiver,
    }

    impl World {
        fn new() -> Self {
            let (sink, mut receivers) = log_fan(0, 1, 1);
            let (lost, batch) = (Arc::clone(sink.lost()), sink.batch());
            Self { losses: Losses::default(), lost, batch, receiver: receivers.remove(0) }
        }

        fn push(&mut self) {
            self.batch.push(|out| out.push(b'\n'));
            self.batch.flush();
        }

        fn looks(&mut self, count: usize) -> Vec<String> {
            let look = |_| self.losses.look(vec![("access".to_owned(), Arc::clone(&self.lost))]);
            (0..count).flat_map(look).map(|(_, sentence)| sentence).collect()
        }
    }

    #[test]
    fn a_slow_receiver_is_said_once_and_again_when_it_is_over() {
        let mut world = World::new();
        world.push();
        assert!(world.looks(5).is_empty(), "a line that waits is not lost");
        let begins =
            "lines of the log access are dropped: they arrive faster than they can be written";
        world.push();
        assert_eq!(world.looks(1), [begins]);
        for _ in 0..5 {
            world.push();
            assert!(world.looks(9).is_empty());
        }
        world.receiver.receive().unwrap();
        world.push();
        assert_eq!(world.looks(20), ["lines of the log access are no longer dropped; 6 are lost"]);
        world.push();
        assert_eq!(world.looks(1), [begins]);
    }

    #[test]
    fn a_log_that_is_not_configured_any_more_is_forgotten() {
        let mut world = World::new();
        world.looks(1);
        assert_eq!(world.losses.look(Vec::new()), []);
        assert!(world.losses.0.is_empty());
    }
}
