//! The last part of a request's way: the pool, the endpoint that its policy picks while all are up
//! and none is busy, and the head that the endpoint would get.

use weir_balance::{Arrival, Availability, ChosenBy, Rejection, Request, Tried, hash_key};
use weir_config::model::{Protocol, UpstreamHttp};
use weir_stats::{Entry, Escape};
use weir_wire::Framing;

use super::{Led, TraceEnd, Tracer};
use crate::http::grpc_web::{self, WebCall};
use crate::http::head_writer::{self, BodyFraming, UpstreamHead};
use crate::http::rewrites::RewriteFault;
use crate::routing::route::CompiledRoute;
use crate::routing::trace::text_of;
use crate::upstream::UpstreamPool;
use crate::upstream::affinity::{Affinity, Claim};

/// A time on the balancer's clock, µs.
const NOW_US: u64 = 1;

/// A request at its pool.
#[derive(Debug)]
pub struct PoolTrace {
    /// The number of the pool.
    pub number: usize,
    /// The policy.
    pub policy: &'static str,
    /// The text that the policy hashes.
    pub key: Option<String>,
    /// Set if an empty key is replaced by a random one.
    pub key_is_random: bool,
    /// The state of the sticky cookie, if the pool has one.
    pub sticky: Option<&'static str>,
    /// The endpoint, or the reason why there is none.
    pub pick: Result<PickTrace, &'static str>,
    /// The target that the endpoint gets.
    pub target: String,
    /// The head that the endpoint gets; empty for a connection of a `tcp` listener.
    pub head: String,
}

/// The endpoint that the policy picks.
#[derive(Debug)]
pub struct PickTrace {
    /// The number of the endpoint in the pool.
    pub endpoint: usize,
    /// The reason for the choice.
    pub chosen_by: ChosenBy,
    /// The number of the second-best endpoint, if the policy knows one.
    pub runner_up: Option<usize>,
}

impl<'a> Tracer<'a> {
    pub(super) fn pool(&self, route: &'a CompiledRoute, number: usize) -> TraceEnd {
        let Some(pool) = self.snapshot.pools.get(number) else { return TraceEnd::NoRoute };
        let refused = |status, reason: &str| TraceEnd::Refused { status, reason: reason.into() };
        let length = self.body_length().filter(|_| !self.internal.drops_body());
        let held = route.rules_for(pool).buffer_request;
        if length.zip(held).is_some_and(|(length, most)| length > most) {
            return refused(413, "its body is larger than `buffer_request`");
        }
        if length.is_some_and(|length| length > route.body_bytes) {
            return refused(413, "its body is larger than `limits body=`");
        }
        let rewritten = match self.rewritten(route) {
            Ok(rewritten) => rewritten,
            Err(RewriteFault::Path(fault)) => return refused(400, fault.reason()),
            Err(RewriteFault::TooLong) => {
                return refused(414, "the path or query is too long once it is rewritten");
            }
        };
        let is_tcp = self.listener.protocol == Protocol::Tcp;
        let mut target = rewritten.clone();
        if target.is_empty() && !is_tcp {
            head_writer::write_target(self.head, self.bytes, &mut target);
        }
        let is_available = |index| pool.balancer.takes_bound(index, NOW_US);
        let claim = |affinity: &Affinity| affinity.claim(self.head, self.bytes, is_available);
        let claim = pool.affinity.as_ref().map_or(Claim::None, claim);
        let led = Led { route: Some(route), pool: Some(pool), ..Led::default() };
        let claim = self.named_server(route, pool, claim);
        let key = pool.key.as_ref().map(|key| {
            let mut text = Vec::new();
            self.with_entry(led, |entry| key.template.append(entry, Escape::None, &mut text));
            key.network_text(self.client).map_or(text, String::into_bytes)
        });
        let network = pool.key.as_ref().and_then(|key| key.network(self.client));
        let mut random = fastrand::Rng::with_seed(self.input.seed);
        let hashed = match (network, key.as_deref()) {
            (Some(network), _) => hash_key(network.bytes()),
            (None, None) => 0,
            (None, Some(b"")) => random.u64(..),
            (None, Some(text)) => hash_key(text),
        };
        let pick = pick(pool, claim, hashed, random.u64(..));
        let endpoint = pick.as_ref().ok().map(|pick| pick.endpoint);
        TraceEnd::Pool(Box::new(PoolTrace {
            number,
            policy: pool.balancer.policy().as_str(),
            key_is_random: key.as_ref().is_some_and(Vec::is_empty),
            key: key.as_deref().map(text_of),
            sticky: said(claim),
            head: if is_tcp {
                String::new()
            } else {
                let led = Led { route: Some(route), pool: Some(pool), endpoint, target: &target };
                self.head_for(led, &rewritten)
            },
            target: text_of(&target),
            pick,
        }))
    }

    /// Returns the claim of a request whose route may name a server.
    fn named_server(
        &self,
        route: &'a CompiledRoute,
        pool: &'a UpstreamPool,
        claim: Claim,
    ) -> Claim {
        let Some(servers) = &route.rules_for(pool).servers else { return claim };
        let led = Led { route: Some(route), pool: Some(pool), ..Led::default() };
        let found = self.with_entry(led, |entry| {
            let is_available = |index| pool.balancer.takes_bound(index, NOW_US);
            servers.find(entry, is_available, &mut Vec::new())
        });
        found.map_or(claim, |index| claim.named(index))
    }

    /// Returns the target that the route's changes make of the request's; it is empty if there are
    /// none.
    pub(super) fn rewritten(&self, route: &'a CompiledRoute) -> Result<Vec<u8>, RewriteFault> {
        let mut out = self.internal.whole_target().to_vec();
        if let Some(rewrites) = &route.rewrites {
            let led = Led { route: Some(route), ..Led::default() };
            let (view, rules) = (self.view(), &self.listener.path);
            let (path, query) = (view.path(), view.query());
            self.with_entry(led, |entry| {
                rewrites.apply(path, query, rules, Some(entry), &mut out)
            })?;
        }
        Ok(out)
    }

    /// Writes the head for an endpoint.
    fn head_for(&self, led: Led<'_>, rewritten: &[u8]) -> String {
        let Led { route: Some(route), pool: Some(pool), endpoint, .. } = led else {
            return String::new();
        };
        let one = endpoint.and_then(|index| pool.endpoints.get(index));
        let mut out = Vec::new();
        let mut method = Vec::new();
        if let Some(methods) = &route.rules_for(pool).methods {
            self.with_entry(led, |entry| methods.write(entry, &mut method));
        }
        let (head, bytes) = (self.head, self.bytes);
        let web = Some(head).filter(|_| self.listener.grpc.web);
        let web = web.and_then(|head| WebCall::of_head(head, bytes));
        let content_type = web.and_then(|_| grpc_web::request_type(head, bytes));
        let takes_trailers = web.is_some() || head.takes_trailers(bytes);
        let mut write = |entry: Option<&Entry<'_>>| {
            let head = UpstreamHead {
                head: self.head,
                bytes: self.bytes,
                method: if method.is_empty() { self.view().method() } else { &method },
                rewritten,
                content_type: content_type.as_deref(),
                peer: self.peer(),
                tls: self.input.tls,
                request_id_value: self.id.as_bytes(),
                endpoint_address: one.map_or("", |endpoint| &endpoint.address_text),
                entry,
                forwarded: &self.listener.forwarded,
                request_id: &self.listener.request_id,
                edits: route.request_edits.resolve(entry),
                trust: self.trust,
                sticky_cookie: pool.affinity.as_ref().and_then(Affinity::request),
                framing: match (self.head.framing, route.rules_for(pool).buffer_request) {
                    _ if self.internal.drops_body() => BodyFraming::None,
                    (Framing::None | Framing::UntilClose, _) => BodyFraming::None,
                    (Framing::Length(_), None) if web.is_some_and(WebCall::sends_text) => {
                        BodyFraming::Chunked
                    }
                    (Framing::Length(length), _) => BodyFraming::Length(length),
                    (Framing::Chunked, _) => BodyFraming::Chunked,
                },
                upgrade: Some(&route.protocols)
                    .filter(|protocols| protocols.are_offered(self.head, self.bytes))
                    .filter(|_| !self.internal.drops_body()),
                takes_trailers: one.is_some_and(|endpoint| endpoint.http == UpstreamHttp::Http2)
                    && takes_trailers,
                counts_hops: self.listener.limits.hops.is_some(),
            };
            head_writer::write_request_head(&head, &mut out);
        };
        if route.request_edits.has_variables() {
            self.with_entry(led, |entry| write(Some(entry)));
        } else {
            write(None);
        }
        String::from_utf8_lossy(&out).replace("\r\n", "\n")
    }
}

/// Lets the balancer pick while all endpoints are up and none is busy.
fn pick(
    pool: &UpstreamPool,
    claim: Claim,
    key: u64,
    random: u64,
) -> Result<PickTrace, &'static str> {
    let balancer = &pool.balancer;
    for index in 0..balancer.len() {
        balancer.set_availability(index, Availability::Available, NOW_US);
    }
    let tried = Tried::new();
    let bound = claim.endpoint();
    let request = Request { key, bound, ..Request::new(NOW_US, random, &tried) };
    match balancer.arrive(&request) {
        Arrival::Dispatched(slot) => {
            let decision = slot.decision();
            let seen = decision.runner_up().map(|other| other.index as usize);
            let second = || match decision.chosen_by {
                ChosenBy::Key => balancer.second_choice(slot.index(), key, NOW_US),
                _ => None,
            };
            Ok(PickTrace {
                endpoint: slot.index(),
                chosen_by: decision.chosen_by,
                runner_up: seen.or_else(second),
            })
        }
        Arrival::Queued(_) => Err("it would wait in the queue"),
        Arrival::Rejected(Rejection::Unavailable) => {
            Err("every server is out of service by its order in the file (503)")
        }
        Arrival::Rejected(Rejection::Full | Rejection::QueueFull) => {
            Err("no server has room for a request (503)")
        }
    }
}

fn said(claim: Claim) -> Option<&'static str> {
    match claim {
        Claim::None => None,
        Claim::New => Some("the request has no sticky cookie: the policy picks"),
        Claim::Unknown => Some("the value of the sticky cookie names no server: the policy picks"),
        Claim::Bound(_) => Some("the sticky cookie names the server"),
        Claim::Named(..) => Some("a `use_server` line of the route names the server"),
    }
}
