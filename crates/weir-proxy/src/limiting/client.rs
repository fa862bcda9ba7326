//! `limit client`: limits the connections, TLS handshakes and requests of a client address or
//! network. Connections and handshakes are limited by the peer's address, connections before a
//! worker sees them; requests are limited by the client's address behind trusted hops.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use weir_config::model::{self, ClientPrefix, EventRate, LimitAction, contains};
use weir_stats::Cause;

use super::counts::{LimitCounts, Limited};
use super::table::{Entered, LimitVerdict, OpenPlace, Rate, TableKey};
use super::{Limiter, Refused, Told, seconds};
use crate::http::client_network::Network;

/// A compiled `limit client`.
#[derive(Debug)]
pub struct ClientLimiter {
    limiter: Arc<Limiter>,
    connections: Option<OpenLimit>,
    in_flight: Option<OpenLimit>,
    rate: Option<Events>,
    new_connections: Option<Events>,
    handshakes: Option<Events>,
    except: Vec<IpNet>,
    prefix: ClientPrefix,
    status: u16,
    action: LimitAction,
    dry_run: bool,
}

/// A limit on the number of items open at once.
#[derive(Debug)]
struct OpenLimit {
    number: u64,
    most: u32,
    counts: Arc<LimitCounts>,
}

/// A limit on the rate of events.
#[derive(Debug)]
struct Events {
    number: u64,
    rate: Rate,
    counts: Arc<LimitCounts>,
}

/// Error: the client is over a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OverLimit;

impl ClientLimiter {
    /// Compiles a limit of this name.
    pub(crate) fn compile(limit: &model::ClientLimit, name: &str, limiter: &Arc<Limiter>) -> Self {
        let counts = |bound| limiter.counts(name, bound);
        let number = |bound| limiter.table.limit_number(&format!("{name}\0{bound}"));
        let open = |most: Option<u32>, bound| {
            let most = most?;
            Some(OpenLimit { number: number(bound), most, counts: counts(bound) })
        };
        let events = |rate: Option<EventRate>, burst: Option<u32>, bound| {
            let rate = rate?;
            let rate = rate_of(rate, burst);
            Some(Events { number: number(bound), rate, counts: counts(bound) })
        };
        Self {
            connections: open(limit.connections, "client_connections"),
            in_flight: open(limit.in_flight, "client_in_flight"),
            rate: events(limit.rate, limit.burst, "client_rate"),
            new_connections: events(limit.new_connections, None, "client_new_connections"),
            handshakes: events(limit.handshakes, None, "client_handshakes"),
            except: limit.except.clone(),
            prefix: limit.prefix,
            status: limit.status,
            action: limit.action,
            dry_run: limit.dry_run,
            limiter: Arc::clone(limiter),
        }
    }

    /// Admits a connection of this peer if the limit permits it now: its place is added to
    /// `places`.
    pub(crate) fn open_connection(
        &self,
        peer: IpAddr,
        now_ns: u64,
        places: &mut Vec<OpenPlace>,
    ) -> Result<(), OverLimit> {
        if self.is_free(peer) {
            return Ok(());
        }
        self.event(self.new_connections.as_ref(), peer, now_ns).map_err(|_| OverLimit)?;
        self.open(self.connections.as_ref(), peer, now_ns, None, places)
    }

    /// Counts a connection that is open already, even beyond the limit.
    pub(crate) fn take_over_connection(
        &self,
        peer: IpAddr,
        now_ns: u64,
        places: &mut Vec<OpenPlace>,
    ) {
        let Some(bound) = self.connections.as_ref().filter(|_| !self.is_free(peer)) else { return };
        let key = self.key(bound.number, peer);
        if let Entered::Yes(place) = self.limiter.table.enter(key, u32::MAX, now_ns) {
            places.push(place);
        }
    }

    /// Counts a TLS handshake that this peer begins; an error, without counting it, if the limit
    /// does not permit one now.
    pub(crate) fn begin_handshake(&self, peer: IpAddr, now_ns: u64) -> Result<(), OverLimit> {
        if self.is_free(peer) {
            return Ok(());
        }
        self.event(self.handshakes.as_ref(), peer, now_ns).map_err(|_| OverLimit)
    }

    /// Returns true if handshakes are limited, so that the caller needs the time.
    pub(crate) fn bounds_handshakes(&self) -> bool {
        self.handshakes.is_some()
    }

    /// Admits a request of this client on a worker if the limit permits it now. Its place among
    /// those in flight is added to `places`; a request without a valid head (`places` is `None`)
    /// gets none.
    pub(crate) fn begin_request(
        &self,
        client: IpAddr,
        worker: usize,
        now_ns: u64,
        places: Option<&mut Vec<OpenPlace>>,
    ) -> Result<(), Refused> {
        if self.is_free(client) {
            return Ok(());
        }
        self.event(self.rate.as_ref(), client, now_ns).map_err(|again_ns| {
            let rate = self.rate.as_ref().map(|bound| bound.rate);
            let headers = rate.map_or_else(Vec::new, |rate| told("client", rate, 0, again_ns));
            let told =
                Told { retry_after_seconds: Some(seconds(again_ns)), headers, ..Told::default() };
            self.refused(Cause::RateLimited, told)
        })?;
        let Some(places) = places else { return Ok(()) };
        let worker = Some(worker);
        self.open(self.in_flight.as_ref(), client, now_ns, worker, places).map_err(|OverLimit| {
            let told = Told { retry_after_seconds: Some(1), ..Told::default() };
            self.refused(Cause::InFlightLimited, told)
        })
    }

    fn refused(&self, cause: Cause, told: Told) -> Refused {
        Refused { cause, status: self.status, silent: self.action == LimitAction::Close, told }
    }

    fn is_free(&self, client: IpAddr) -> bool {
        !self.except.is_empty() && contains(&self.except, client.to_canonical())
    }

    fn key(&self, number: u64, client: IpAddr) -> TableKey {
        self.limiter.table.key(number, Network::of(client, self.prefix).bytes())
    }

    /// Counts an event; over the rate, the error is the time until the next one may come, ns.
    fn event(&self, bound: Option<&Events>, client: IpAddr, now_ns: u64) -> Result<(), u64> {
        let Some(bound) = bound else { return Ok(()) };
        let key = self.key(bound.number, client);
        match self.limiter.table.take(key, bound.rate, 1, now_ns) {
            LimitVerdict::Yes { .. } => Ok(()),
            LimitVerdict::No { again_ns } => {
                self.note(&bound.counts, client, now_ns);
                if self.dry_run { Ok(()) } else { Err(again_ns) }
            }
        }
    }

    fn open(
        &self,
        bound: Option<&OpenLimit>,
        client: IpAddr,
        now_ns: u64,
        worker: Option<usize>,
        places: &mut Vec<OpenPlace>,
    ) -> Result<(), OverLimit> {
        let Some(bound) = bound else { return Ok(()) };
        let key = self.key(bound.number, client);
        let table = &self.limiter.table;
        let entered = match worker {
            Some(worker) => table.enter_on(worker, key, bound.most, now_ns),
            None => table.enter(key, bound.most, now_ns),
        };
        match entered {
            Entered::Yes(place) => places.push(place),
            Entered::Untracked => {}
            Entered::Full => {
                self.note(&bound.counts, client, now_ns);
                if !self.dry_run {
                    return Err(OverLimit);
                }
            }
        }
        Ok(())
    }

    fn note(&self, counts: &LimitCounts, client: IpAddr, now_ns: u64) {
        let what = if self.dry_run { Limited::DryRun } else { Limited::Refused };
        counts.note(what, Network::text(client, self.prefix).as_bytes(), now_ns);
    }
}

/// Converts a configured rate into the table's form.
pub(super) fn rate_of(rate: EventRate, burst: Option<u32>) -> Rate {
    let per_ns = u64::try_from(rate.per.as_nanos()).unwrap_or(u64::MAX);
    Rate::new(rate.count, per_ns, burst.unwrap_or_else(|| rate.burst()))
}

/// The headers `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers-10) for a
/// limit of this name: `left` events may still come at once, and more are permitted after
/// `reset_ns`.
pub(super) fn told(
    name: &str,
    rate: Rate,
    left: u64,
    reset_ns: u64,
) -> Vec<(&'static str, String)> {
    // A string of RFC 9651 holds only visible ASCII characters and spaces, and a backslash begins
    // an escape. Names contain no quotes.
    let clean = |byte: char| if (' '..='~').contains(&byte) && byte != '\\' { byte } else { '_' };
    let name: String = name.chars().map(clean).collect();
    let (quota, window) = (rate.at_once(), seconds(rate.window_ns()));
    vec![
        ("RateLimit-Policy", format!("\"{name}\";q={quota};w={window}")),
        ("RateLimit", format!("\"{name}\";r={left};t={}", seconds(reset_ns))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_limit_headers_have_the_form_of_the_draft() {
        let rate = Rate::new(10, 1_000_000_000, 99);
        let expected = [
            ("RateLimit-Policy", "\"a\";q=100;w=10".to_owned()),
            ("RateLimit", "\"a\";r=3;t=2".to_owned()),
        ];
        assert_eq!(told("a", rate, 3, 1_200_000_000), expected);
    }
}
