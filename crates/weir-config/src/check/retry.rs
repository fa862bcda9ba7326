//! Checks `retry …` of a pool.

use super::arguments::{ArgumentValue, Arguments};
use super::checker::Checker;
use crate::diagnostic::Diagnostic;
use crate::model::{MOST_RETRIES, Pool, Retry, RetryOn, values};

impl<'a> Checker<'a> {
    pub(super) fn retry(
        &mut self,
        line: &Arguments<'a>,
        count: Option<ArgumentValue<'a>>,
        retry: &mut Retry,
    ) {
        if let Some(attempts) = count.and_then(|value| self.value(value, attempts)) {
            retry.attempts = attempts;
        }
        self.set(line, "on", &mut retry.on, conditions);
        self.set(line, "budget", &mut retry.budget, str::parse);
        self.set(line, "backoff", &mut retry.backoff, values::wait_or_off);
        self.set(line, "within", &mut retry.within, values::wait_or_off);
        retry.non_idempotent = line.flag("non_idempotent");
    }

    /// Warns of a `retry` that has no effect.
    pub(super) fn retry_fits(&mut self, lines: &[Arguments<'a>], pool: &Pool) {
        let Some(line) = lines.iter().find(|line| line.name() == "retry") else { return };
        let nowhere = pool.endpoints.len() == 1 && pool.retry.backoff.is_none();
        if nowhere && pool.retry.attempts > 0 && pool.retry != Retry::default() && !self.is_wrong()
        {
            let message = format!("the pool `{}` has no other server for a retry", pool.name);
            let warning = Diagnostic::warning(line.directive.name.span, message);
            self.report(warning.help("to retry at the same server, write `backoff=25ms`"));
        }
    }
}

fn attempts(text: &str) -> Result<u32, String> {
    if text == "off" {
        return Ok(0);
    }
    values::whole(text, 0, u64::from(MOST_RETRIES))
        .map(|attempts| attempts as u32)
        .map_err(|error| format!("{error} (or `off`)"))
}

/// Parses the conditions of a retry, separated by commas.
fn conditions(text: &str) -> Result<Vec<RetryOn>, String> {
    let mut conditions = Vec::new();
    for word in text.split(',') {
        let on = word.parse()?;
        if conditions.contains(&on) {
            return Err(format!("`{word}` is given twice"));
        }
        conditions.push(on);
    }
    Ok(conditions)
}
