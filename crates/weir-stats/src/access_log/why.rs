//! The decisions that shaped an exchange as one line of words: `$why` and the debug header.

use weir_balance::ChosenBy;

use crate::access_log::escape::{self, Escape};
use crate::access_log::format;
use crate::exchange::entry::Entry;
use crate::exchange::reasons::{Delays, Reasons, WaitedFor};

/// Appends `route=:80/1 pool=app waited=398000 for=any_endpoint ahead=1:6b1f… server=app1 by=better
/// …`. Unknown words are left out; times are in µs.
pub fn append(entry: &Entry<'_>, how: Escape, out: &mut Vec<u8>) {
    let reasons = entry.reasons.copied().unwrap_or_default();
    let mut words = Words { start: out.len(), how, out };
    for (name, value) in [("route", entry.route), ("pool", entry.pool)] {
        if !value.is_empty() {
            words.key(name);
            words.escaped(value.as_bytes());
        }
    }
    if entry.queue_position > 0 {
        append_wait(entry, &reasons, &mut words);
    }
    if !entry.endpoint.is_empty() {
        append_choice(entry, &reasons, &mut words);
    }
    let times = &entry.times;
    let Delays { retry, tls, client } = reasons.delays;
    let spans = [
        ("request", times.request),
        ("connect", times.connect),
        ("retry", retry),
        ("tls", tls),
        ("response", times.response),
        ("data", times.data),
        ("client", client),
    ];
    for (name, us) in spans {
        if let Some(us) = us.reached() {
            words.key(name);
            words.number(us);
        }
    }
}

fn append_wait(entry: &Entry<'_>, reasons: &Reasons<'_>, words: &mut Words<'_>) {
    if let Some(us) = entry.times.queue.reached() {
        words.key("waited");
        words.number(us);
    }
    if reasons.waited_for != WaitedFor::Nothing {
        words.key("for");
        words.plain(reasons.waited_for.as_str());
    }
    words.key("ahead");
    words.number(entry.queue_position - 1);
    for (index, id) in reasons.ahead.iter().enumerate() {
        words.plain(if index == 0 { ":" } else { "," });
        words.escaped(id);
    }
}

fn append_choice(entry: &Entry<'_>, reasons: &Reasons<'_>, words: &mut Words<'_>) {
    words.key("server");
    words.escaped(entry.endpoint.as_bytes());
    if reasons.chosen_by == ChosenBy::Nothing {
        return;
    }
    for (name, value) in [("policy", reasons.policy), ("by", reasons.chosen_by.as_str())] {
        words.key(name);
        words.plain(value);
    }
    words.key("load");
    words.number(reasons.load);
    words.plain("/");
    words.number(reasons.weight);
    let Some(other) = reasons.runner_up else { return };
    words.key("over");
    words.escaped(other.endpoint.as_bytes());
    if let Some(load) = other.load {
        words.plain(":");
        words.number(load);
        words.plain("/");
        words.number(other.weight);
    }
}

/// The words of a line as they are written.
struct Words<'a> {
    /// The length of `out` before the first word.
    start: usize,
    how: Escape,
    out: &'a mut Vec<u8>,
}

impl Words<'_> {
    /// Begins a word.
    fn key(&mut self, name: &str) {
        if self.out.len() > self.start {
            self.out.push(b' ');
        }
        self.plain(name);
        self.out.push(b'=');
    }

    fn plain(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    fn escaped(&mut self, value: &[u8]) {
        escape::append(value, self.how, self.out);
    }

    fn number(&mut self, number: impl itoa::Integer) {
        format::append(number, self.out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::reasons::NamedRunnerUp;
    use crate::exchange::sample::entry;
    use crate::exchange::times::Micros;

    fn check(entry: &Entry<'_>, expected: &str) {
        let mut out = b"x".to_vec();
        append(entry, Escape::Header, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), format!("x{expected}"));
    }

    #[test]
    fn what_is_known_stands_in_one_line() {
        let times = "request=1000 connect=2000 response=102000 data=19000";
        check(&entry(), &format!("route=r pool=app server=app1 {times}"));
        let ahead: [&[u8]; 2] = [b"id-7", b"id-8"];
        let reasons = Reasons {
            waited_for: WaitedFor::AnyEndpoint,
            ahead: &ahead,
            policy: "least_conn",
            chosen_by: ChosenBy::Better,
            load: 1,
            weight: 2,
            runner_up: Some(NamedRunnerUp { endpoint: "app2", load: Some(3), weight: 1 }),
            delays: Delays { retry: Micros(7), client: Micros(9), ..Delays::default() },
        };
        let queued = Entry { reasons: Some(&reasons), queue_position: 4, ..entry() };
        check(
            &queued,
            "route=r pool=app waited=500 for=any_endpoint ahead=3:id-7,id-8 server=app1 policy=least_conn by=better load=1/2 \
             over=app2:3/1 request=1000 connect=2000 retry=7 response=102000 data=19000 client=9",
        );
    }
}
