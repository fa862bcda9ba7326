//! What the simulation checks beside the balancer's own counters: that nobody overtakes anybody who waits.

use std::collections::VecDeque;

use super::agenda::Token;

/// Whom a request waits for, and since when in the order of arrival.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    seq: u64,
    token: Token,
}

/// Whether requests get their places in the order in which they came.
#[derive(Debug)]
pub(crate) struct OrderWatch {
    lines: Lines,
    violations: u64,
}

/// What there is to compare with.
#[derive(Debug)]
enum Lines {
    /// Those who wait: first those for any endpoint, then those for each.
    Waiting(Vec<VecDeque<Waiting>>),
    /// The latest arrival that was seen at each endpoint. A key decides who waits for which, and only the balancer knows.
    Latest(Vec<u64>),
    /// Nothing.
    Off,
}

impl OrderWatch {
    /// For policies that send anybody anywhere.
    pub(crate) fn by_line(endpoints: usize) -> Self {
        Self { lines: Lines::Waiting(vec![VecDeque::new(); endpoints + 1]), violations: 0 }
    }

    /// For policies that choose the endpoint by a key.
    pub(crate) fn by_endpoint(endpoints: usize) -> Self {
        Self { lines: Lines::Latest(vec![0; endpoints]), violations: 0 }
    }

    /// Where neither can be told.
    pub(crate) fn off() -> Self {
        Self { lines: Lines::Off, violations: 0 }
    }

    /// Dispatches that overtook somebody.
    pub(crate) fn violations(&self) -> Option<u64> {
        (!matches!(self.lines, Lines::Off)).then_some(self.violations)
    }

    /// A request waits, for one endpoint or any.
    pub(crate) fn join(&mut self, seq: u64, token: Token, bound: Option<usize>) {
        if let Lines::Waiting(lines) = &mut self.lines {
            lines[bound.map_or(0, |endpoint| endpoint + 1)].push_back(Waiting { seq, token });
        }
    }

    /// Arrival `seq` gets a place at `endpoint`. `stand` says how somebody stands towards that place.
    pub(crate) fn dispatched(&mut self, seq: u64, endpoint: usize, stand: impl Fn(Token) -> Stand) {
        let overtaken = match &mut self.lines {
            Lines::Waiting(lines) => [0, endpoint + 1].into_iter().any(|line| {
                let line = &mut lines[line];
                while line.front().is_some_and(|first| stand(first.token) == Stand::Gone) {
                    line.pop_front();
                }
                line.iter()
                    .take_while(|other| other.seq < seq)
                    .any(|other| stand(other.token) == Stand::Waits)
            }),
            Lines::Latest(latest) => {
                let overtaken = seq < latest[endpoint];
                latest[endpoint] = latest[endpoint].max(seq);
                overtaken
            }
            Lines::Off => false,
        };
        self.violations += u64::from(overtaken);
    }
}

/// How somebody who joined a line stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stand {
    /// Waits, and could have the place in question.
    Waits,
    /// Waits for another.
    WaitsForAnother,
    /// Was served or left.
    Gone,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(place: u32) -> Token {
        Token { place, attempt: u64::from(place) }
    }

    #[test]
    fn who_overtakes_is_counted() {
        let mut watch = OrderWatch::by_line(2);
        watch.join(1, token(1), None);
        watch.join(2, token(2), Some(1));
        watch.join(3, token(3), None);
        let waits = |gone: &'static [u32]| {
            move |token: Token| {
                if gone.contains(&token.place) { Stand::Gone } else { Stand::Waits }
            }
        };
        watch.dispatched(1, 0, waits(&[1]));
        assert_eq!(watch.violations(), Some(0), "the oldest");
        watch.dispatched(3, 0, waits(&[1, 3]));
        assert_eq!(watch.violations(), Some(0), "2 waits for the other endpoint");
        watch.dispatched(4, 1, waits(&[1, 3]));
        assert_eq!(watch.violations(), Some(1), "2 waits for this one");
        watch.join(5, token(5), None);
        watch.dispatched(6, 0, |_| Stand::WaitsForAnother);
        assert_eq!(watch.violations(), Some(1));
        watch.dispatched(6, 0, waits(&[1, 2, 3]));
        assert_eq!(watch.violations(), Some(2));
    }

    #[test]
    fn with_keys_order_holds_at_each_endpoint() {
        let mut watch = OrderWatch::by_endpoint(2);
        for (seq, endpoint) in [(1, 0), (3, 0), (2, 1), (4, 1)] {
            watch.dispatched(seq, endpoint, |_| Stand::Waits);
        }
        assert_eq!(watch.violations(), Some(0));
        watch.dispatched(2, 0, |_| Stand::Waits);
        assert_eq!(watch.violations(), Some(1));
    }
}
