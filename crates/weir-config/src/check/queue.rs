//! Checks `queue …` of a pool.

use weir_balance::{FairSettings, WeightMode};

use super::arguments::{ArgumentValue, Arguments};
use super::checker::Checker;
use crate::diagnostic::Diagnostic;
use crate::model::{Policy, Pool, Queue, values};

impl<'a> Checker<'a> {
    pub(super) fn queue(
        &mut self,
        line: &Arguments<'a>,
        off: Option<ArgumentValue<'a>>,
    ) -> Option<Queue> {
        let timeout = self.setting(line, "timeout", values::wait);
        let mut queue = Queue { timeout, ..Queue::default() };
        self.set(line, "max", &mut queue.max, places);
        queue.per_client = self.setting(line, "per_client", places);
        queue.per_endpoint = self.setting(line, "per_endpoint", places);
        self.set(line, "status", &mut queue.status, values::error_status);
        queue.retry_after = self.setting(line, "retry_after", |text| {
            let wait = values::wait(text)?;
            values::whole_seconds(wait).map(|()| wait)
        });
        queue.page = line.option("page").map(|value| self.path(value));
        queue.content_type =
            self.setting(line, "type", |text| values::line_text(text).map(|()| text.to_owned()));
        if let (Some(value), None) = (line.option("type"), &queue.page) {
            let message = "`type=` without `page=` has no effect";
            self.report(Diagnostic::error(value.word.span, message));
        }
        if self.is_off(line, off) { None } else { Some(queue) }
    }

    /// Warns of a `queue` in which no exchange ever waits.
    pub(super) fn queue_fits(&mut self, lines: &[Arguments<'a>], pool: &Pool) {
        let Some(line) = lines.iter().find(|line| line.name() == "queue") else { return };
        let limited = pool.endpoints.iter().any(|endpoint| endpoint.max_conn.is_some())
            || matches!(
                pool.policy,
                Policy::Fair(FairSettings { weight_mode: WeightMode::Peak, .. })
            );
        if limited
            || pool.queue.as_ref().is_none_or(|queue| *queue == Queue::default())
            || self.is_wrong()
        {
            return;
        }
        let message =
            format!("the queue has no effect: no server of the pool `{}` has a limit", pool.name);
        let warning = Diagnostic::warning(line.directive.name.span, message);
        self.report(warning.help("add `max_conn=` to the servers"));
    }
}

fn places(text: &str) -> Result<u32, String> {
    values::whole(text, 1, u64::from(u32::MAX)).map(|places| places as u32)
}
