//! Warns of limits that are never reached, of pools with backups only, and of other settings that
//! are allowed and most likely not intended.

use super::arguments::Arguments;
use super::checker::Checker;
use crate::diagnostic::Diagnostic;
use crate::model::{Policy, Pool};

impl<'a> Checker<'a> {
    /// Reports these warnings.
    pub(super) fn limits_fit(&mut self, lines: &[Arguments<'a>], pool: &Pool) {
        if self.is_wrong() {
            return;
        }
        self.backups_fit(lines, pool);
        self.lines_fit(lines, pool);
        self.max_conns_fit(lines);
        self.slow_starts_fit(lines, pool);
    }

    /// Warns of a `slow_start=` where neither the weight nor `max_conn=` grows.
    fn slow_starts_fit(&mut self, lines: &[Arguments<'a>], pool: &Pool) {
        let weighs = match &pool.policy {
            Policy::Fair(_) | Policy::First => false,
            policy => policy.hash().is_none_or(|hash| hash.balance_factor.is_some()),
        };
        if weighs {
            return;
        }
        for line in servers(lines) {
            let Some(option) = line.option("slow_start") else { continue };
            if pool.queue.is_some() && line.option("max_conn").is_some() {
                continue;
            }
            let message = format!(
                "`slow_start=` has no effect: `balance {}` does not share by weight, and no `max_conn=` grows",
                pool.policy.kind()
            );
            let warning = Diagnostic::warning(option.word.span, message);
            self.report(warning.help("use another policy, or a queue and `max_conn=`"));
        }
    }

    fn backups_fit(&mut self, lines: &[Arguments<'a>], pool: &Pool) {
        let first = servers(lines).find_map(|line| line.option("backup"));
        if let Some(first) = first.filter(|_| pool.endpoints.iter().all(|server| server.backup)) {
            let message = "every server of this pool is a `backup`, which has no effect";
            let warning = Diagnostic::warning(first.word.span, message);
            self.report(warning.help("remove `backup` from the servers that are to be used first"));
        }
    }

    fn lines_fit(&mut self, lines: &[Arguments<'a>], pool: &Pool) {
        let line = lines.iter().find(|line| line.name() == "queue");
        let option = line.and_then(|line| line.option("per_endpoint"));
        let (Some(option), Some(queue)) = (option, &pool.queue) else { return };
        if queue.per_endpoint.is_some_and(|most| most > queue.max) {
            let message = format!(
                "`per_endpoint=` is never reached: the whole queue is limited to {}",
                queue.max
            );
            let warning = Diagnostic::warning(option.word.span, message);
            self.report(warning.help("raise `max=` or remove `per_endpoint=`"));
        }
    }

    /// Warns of a `max_conn` above `max_connections`: one connection carries one request at a time.
    fn max_conns_fit(&mut self, lines: &[Arguments<'a>]) {
        let Some((most, said)) = self.max_connections else { return };
        for option in servers(lines).filter_map(|line| line.option("max_conn")) {
            if option.text().parse::<u32>().is_ok_and(|limit| limit > most) {
                let message = format!(
                    "`max_conn=` is never reached: {most} connections carry at most {most} requests at once"
                );
                let warning = Diagnostic::warning(option.word.span, message);
                self.report(warning.related(said, "the limit on connections").help(
                    "raise `max_connections`, or remove `max_conn=` from servers without a limit",
                ));
            }
        }
    }
}

fn servers<'l, 'a>(lines: &'l [Arguments<'a>]) -> impl Iterator<Item = &'l Arguments<'a>> {
    lines.iter().filter(|line| line.name() == "server")
}
