//! Sentences to the operator about clients that were cut off. A client can cause them at will, so
//! there is at most one in a while.

use std::cell::Cell;

use crate::limits::NOTICE_PAUSE;
use crate::time::instant::Instant;
use crate::worker::incidents::Incidents;

/// The notices of a worker.
#[derive(Default)]
pub(crate) struct ClientNotices {
    said: Cell<Option<Instant>>,
    /// The number of sentences that were left out since then.
    left_out: Cell<u64>,
}

impl ClientNotices {
    /// Says a sentence, unless another one was said a short while ago.
    pub(crate) fn say(&self, incidents: &Incidents, now: Instant, sentence: &str) {
        if self.said.get().is_some_and(|said| now < said + NOTICE_PAUSE) {
            self.left_out.set(self.left_out.get() + 1);
            return;
        }
        self.said.set(Some(now));
        match self.left_out.take() {
            0 => incidents.say(sentence),
            count => incidents.say(&format!("{sentence} (and {count} more since the last)")),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use super::*;

    static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

    #[test]
    fn a_flood_of_notices_becomes_a_few() {
        let incidents = Incidents::default();
        incidents.set_speaker(|line| SAID.lock().unwrap().push(line.to_owned()));
        let (notices, start) = (ClientNotices::default(), Instant::now());
        for millis in [0, 1, 2, 999, 1000, 2500] {
            notices.say(&incidents, start + Duration::from_millis(millis), &format!("at {millis}"));
        }
        let expected = ["at 0", "at 1000 (and 3 more since the last)", "at 2500"];
        assert_eq!(*SAID.lock().unwrap(), expected);
    }
}
