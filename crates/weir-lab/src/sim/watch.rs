//! Checks that no request overtakes a waiting one, independently of the balancer's own counters.

use std::collections::VecDeque;

use super::agenda::AttemptToken;

/// A waiting request, with its number in the order of arrival.
#[derive(Clone, Copy, Debug)]
struct WatchedRequest {
    seq: u64,
    token: AttemptToken,
}

/// The check that requests get their slots in order of arrival.
#[derive(Debug)]
pub(crate) struct OrderWatch {
    lines: DispatchReference,
    violations: u64,
}

/// The state that dispatches are compared with.
#[derive(Debug)]
enum DispatchReference {
    /// The waiting requests: first those for any endpoint, then those for each endpoint.
    Waiting(Vec<VecDeque<WatchedRequest>>),
    /// The latest arrival that was dispatched to each endpoint. A key determines the endpoint of a
    /// request, which only the balancer knows.
    Latest(Vec<u64>),
    /// No check.
    Off,
}

impl OrderWatch {
    /// For policies that may send any request to any endpoint.
    pub(crate) fn by_line(endpoints: usize) -> Self {
        Self {
            lines: DispatchReference::Waiting(vec![VecDeque::new(); endpoints + 1]),
            violations: 0,
        }
    }

    /// For policies that choose the endpoint by a key.
    pub(crate) fn by_endpoint(endpoints: usize) -> Self {
        Self { lines: DispatchReference::Latest(vec![0; endpoints]), violations: 0 }
    }

    /// For runs in which the order is not known.
    pub(crate) fn off() -> Self {
        Self { lines: DispatchReference::Off, violations: 0 }
    }

    /// Number of dispatches that overtook a waiting request.
    pub(crate) fn violations(&self) -> Option<u64> {
        (!matches!(self.lines, DispatchReference::Off)).then_some(self.violations)
    }

    /// A request starts to wait, for one endpoint or for any.
    pub(crate) fn join(&mut self, seq: u64, token: AttemptToken, bound: Option<usize>) {
        if let DispatchReference::Waiting(lines) = &mut self.lines {
            lines[bound.map_or(0, |endpoint| endpoint + 1)]
                .push_back(WatchedRequest { seq, token });
        }
    }

    /// Arrival `seq` gets a slot at `endpoint`. `stand` gives the state of a request with regard to
    /// that slot.
    pub(crate) fn dispatched(
        &mut self,
        seq: u64,
        endpoint: usize,
        stand: impl Fn(AttemptToken) -> Stand,
    ) {
        let overtaken = match &mut self.lines {
            DispatchReference::Waiting(lines) => [0, endpoint + 1].into_iter().any(|line| {
                let line = &mut lines[line];
                while line.front().is_some_and(|first| stand(first.token) == Stand::Gone) {
                    line.pop_front();
                }
                line.iter()
                    .take_while(|other| other.seq < seq)
                    .any(|other| stand(other.token) == Stand::Waits)
            }),
            DispatchReference::Latest(latest) => {
                let overtaken = seq < latest[endpoint];
                latest[endpoint] = latest[endpoint].max(seq);
                overtaken
            }
            DispatchReference::Off => false,
        };
        self.violations += u64::from(overtaken);
    }
}

/// The state of a queued request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stand {
    /// It waits, and could take the slot.
    Waits,
    /// It waits for another slot.
    WaitsForAnother,
    /// It was served, or has left.
    Gone,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(place: u32) -> AttemptToken {
        AttemptToken { place, attempt: u64::from(place) }
    }

    #[test]
    fn overtaking_requests_are_counted() {
        let mut watch = OrderWatch::by_line(2);
        watch.join(1, token(1), None);
        watch.join(2, token(2), Some(1));
        watch.join(3, token(3), None);
        let waits = |gone: &'static [u32]| {
            move |token: AttemptToken| {
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
