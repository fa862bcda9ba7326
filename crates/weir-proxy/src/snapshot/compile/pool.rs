//! Compiles a pool. It takes over the state, the address and the idle connections of endpoints that
//! its predecessor had unchanged; the new balancer succeeds the old one and inherits its queue.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use weir_balance::{
    AdminState, Availability, Balancer, EndpointState, Member, PassiveSettings, QueueSettings,
    Settings, StallSettings, hash_key,
};
use weir_config::model::names::service_domain;
use weir_config::model::{self, EndpointAddress, SrvName, UpstreamHttp};

use super::Compiler;
use crate::http::local_reply::Page;
use crate::http::pool_key::PoolKey;
use crate::limiting::pool::PoolLimiter;
use crate::net::PeerAddress;
use crate::net::tls::{ClientSettings, ClientTls, PemFile, server_name};
use crate::upstream::affinity::Affinity;
use crate::upstream::connect_trouble::ConnectTrouble;
use crate::upstream::idle_count::IdleCount;
use crate::upstream::retry::PoolRetryBudget;
use crate::upstream::rules::UpstreamRules;
use crate::upstream::source::FilesSource;
use crate::upstream::{CheckTls, UpstreamEndpoint, UpstreamPool, UpstreamQueue};
use rustls::pki_types::ServerName;

/// The succession of one pool to another, with the configured admin states of the new one.
pub(crate) struct PoolSuccession {
    pub(crate) before: Arc<Balancer>,
    pub(crate) after: Arc<UpstreamPool>,
    pub(crate) orders: Vec<AdminState>,
}

/// Tells whether connections to endpoints begin as before, with the same TLS settings and the same
/// PROXY header, so that they can be kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ConnectionStart {
    Same,
    Other,
}

impl ConnectionStart {
    fn of(is_same: bool) -> Self {
        if is_same { Self::Same } else { Self::Other }
    }
}

impl Compiler<'_> {
    /// Compiles a pool. `line` has the earlier versions of the pool, the current one first; that
    /// one is returned if nothing that it depends on has changed.
    pub(super) fn pool(
        &mut self,
        pool: &model::Pool,
        line: &[Arc<UpstreamPool>],
    ) -> Result<Arc<UpstreamPool>, String> {
        let read = self.reader.plain();
        let before = line.first();
        let same = |before: &&Arc<UpstreamPool>| {
            before.balancer.is_latest() && before.source.is_still(pool, read)
        };
        if let Some(same) = before.filter(same) {
            return Ok(Arc::clone(same));
        }
        let tls = pool.tls.as_ref().map(|tls| self.client_tls(tls)).transpose()?;
        let mut files = self.reader.take();
        let tls_source = FilesSource::new(pool.tls.clone(), files.clone());
        let check_tls = pool.check_tls.as_ref().map(|tls| self.check_tls(tls, pool)).transpose()?;
        let same = ConnectionStart::of(before.is_some_and(|before| {
            before.send_proxy == pool.send_proxy && before.tls_source.is_still(&pool.tls, read)
        }));
        let known_by_name = endpoints_by_name(line);
        let endpoints = pool.endpoints.iter().map(|endpoint| {
            let known = known_by_name.get(endpoint.name.as_str()).into_iter().flatten();
            let known = known.copied().find(|known| known.is_at(endpoint));
            self.endpoint(endpoint, pool, known, same)
        });
        let endpoints = endpoints.collect::<Result<Vec<_>, _>>()?;
        let affinity =
            pool.sticky.as_ref().map(|sticky| self.affinity(pool, sticky)).transpose()?;
        let queue = pool.queue.as_ref().map(|queue| self.queue(queue, pool)).transpose()?;
        files.extend(self.reader.take());
        let members = pool.endpoints.iter().zip(&endpoints);
        let members = members.map(|(model, endpoint)| member(pool, model, endpoint)).collect();
        let orders: Vec<_> = pool.endpoints.iter().map(|endpoint| endpoint.order).collect();
        // When a removed pool is configured again, `before` may be an old version of it whose
        // exchanges wait in a later balancer. The new pool succeeds that one.
        let latest = before.map(|before| before.balancer.latest());
        let balancer = match &latest {
            Some(latest) => Balancer::prepared(latest, settings(pool), members),
            None => first_balancer(pool, members, &orders),
        };
        let after = Arc::new(UpstreamPool {
            name: pool.name.as_str().into(),
            balancer,
            key: pool.policy.hash().map(PoolKey::of_policy),
            multiplexes: endpoints.iter().any(|one| one.http != UpstreamHttp::Http1),
            endpoints,
            keepalive: keepalive(pool),
            send_proxy: pool.send_proxy,
            proxy_tlvs: pool.proxy_tlvs.clone(),
            tcp_keepalive: pool.tcp_keepalive.clone(),
            on_down: pool.on_down,
            on_up: pool.on_up,
            passive_on: pool.passive.on.as_slice().into(),
            queue,
            retry_budget: retry_budget(pool, before),
            tls,
            request_name: request_name(pool),
            check_tls,
            affinity,
            rules: UpstreamRules::of_pool(pool),
            limits: PoolLimiter::compile(pool, &self.limiter),
            source: FilesSource::new(pool.clone(), files),
            tls_source,
        });
        if let Some(before) = latest {
            self.changes.push(PoolSuccession { before, after: Arc::clone(&after), orders });
        }
        Ok(after)
    }

    /// Compiles an endpoint; `known` is its predecessor. The endpoint's connections are kept if
    /// they are still made in the same way.
    fn endpoint(
        &self,
        endpoint: &model::Endpoint,
        pool: &model::Pool,
        known: Option<&Arc<UpstreamEndpoint>>,
        same: ConnectionStart,
    ) -> Result<Arc<UpstreamEndpoint>, String> {
        let (address, text, host) = match &endpoint.address {
            EndpointAddress::Socket(address) => {
                (Some(PeerAddress::Socket(*address)), address.to_string(), address.ip().to_string())
            }
            EndpointAddress::Name(name, port) => (None, format!("{name}:{port}"), name.clone()),
            EndpointAddress::Service(name) => {
                (None, format!("srv:{name}"), service_domain(name).to_owned())
            }
            EndpointAddress::Unix(path) => (
                Some(PeerAddress::Unix(path.clone())),
                format!("unix:{}", path.display()),
                "localhost".to_owned(),
            ),
        };
        let tls = pool.tls.as_ref();
        let server_name = tls.map(|tls| verified_name(endpoint, tls, &host)).transpose()?;
        let source = pool.source_of(endpoint);
        let http = match pool.http_of(endpoint) {
            // Without TLS there is no choice.
            UpstreamHttp::Auto if tls.is_none() => UpstreamHttp::Http1,
            http => http,
        };
        let as_before = |known: &&Arc<UpstreamEndpoint>| {
            same == ConnectionStart::Same
                && known.server_name == server_name
                && known.source == source
                && known.http == http
        };
        if let Some(known) = known.filter(as_before) {
            return Ok(Arc::clone(known));
        }
        // An endpoint without an address is unavailable until the resolver has an answer.
        let availability =
            if address.is_some() { Availability::Available } else { Availability::Unavailable };
        let state = || Arc::new(EndpointState::new(availability));
        let count = |count: fn(&UpstreamEndpoint) -> &AtomicU64| {
            AtomicU64::new(known.map_or(0, |known| count(known).load(Ordering::Relaxed)))
        };
        Ok(Arc::new(UpstreamEndpoint {
            number: self.numbers.give(),
            name: endpoint.name.as_str().into(),
            state: known.map_or_else(state, |known| Arc::clone(&known.state)),
            address: known.map_or_else(
                || ArcSwapOption::from_pointee(address),
                |known| ArcSwapOption::new(known.address.load_full()),
            ),
            address_text: text.into(),
            server_name,
            source,
            http,
            idle: IdleCount::default(),
            opened: count(|known| &known.opened),
            reused: count(|known| &known.reused),
            taken_over: count(|known| &known.taken_over),
            idle_elsewhere: count(|known| &known.idle_elsewhere),
            streams: known.map(|known| Arc::clone(&known.streams)).unwrap_or_default(),
            retired: AtomicBool::new(false),
            trouble: ConnectTrouble::default(),
        }))
    }

    fn queue(&self, queue: &model::Queue, pool: &model::Pool) -> Result<UpstreamQueue, String> {
        let read = |path: &Path| self.reader.read(path);
        let load = |path| Page::load(path, queue.content_type.as_deref(), &read);
        let page = queue.page.as_deref().map(load).transpose();
        Ok(UpstreamQueue {
            timeout: queue.timeout.unwrap_or(pool.timeouts.connect),
            status: queue.status,
            retry_after_seconds: queue.retry_after.map(|wait| wait.as_secs()),
            page: page.map_err(|error| format!("queue of pool {}: {error}", pool.name))?,
        })
    }

    fn affinity(&self, pool: &model::Pool, sticky: &model::Sticky) -> Result<Affinity, String> {
        let secret = match &sticky.secret {
            None => None,
            Some(model::Secret::Text(text)) => Some(text.clone().into_bytes()),
            Some(model::Secret::File(path)) => Some(self.secret(path)?),
        };
        let values: Vec<Option<&str>> =
            pool.endpoints.iter().map(|endpoint| endpoint.cookie.as_deref()).collect();
        if values.iter().any(Option::is_some) {
            return Ok(Affinity::with_values(sticky, &values));
        }
        let names: Vec<&str> =
            pool.endpoints.iter().map(|endpoint| endpoint.name.as_str()).collect();
        Ok(Affinity::new(sticky, &pool.name, &names, secret.as_deref()))
    }

    fn secret(&self, path: &Path) -> Result<Vec<u8>, String> {
        let PemFile { label, bytes } = self.pem(path)?;
        let secret = bytes.trim_ascii_end();
        model::Secret::check(secret).map_err(|error| format!("{label}: {error}"))?;
        Ok(secret.to_vec())
    }

    fn check_tls(
        &mut self,
        tls: &model::TlsClient,
        pool: &model::Pool,
    ) -> Result<CheckTls, String> {
        let name = |endpoint: &model::Endpoint| {
            let host = match &endpoint.address {
                EndpointAddress::Socket(address) => address.ip().to_string(),
                EndpointAddress::Name(name, _) => name.clone(),
                EndpointAddress::Service(name) => service_domain(name).to_owned(),
                EndpointAddress::Unix(_) => "localhost".to_owned(),
            };
            verified_name(endpoint, tls, &host)
        };
        let names = pool.endpoints.iter().map(name).collect::<Result<Vec<_>, _>>()?;
        Ok(CheckTls { tls: self.client_tls(tls)?, names })
    }

    fn client_tls(&mut self, tls: &model::TlsClient) -> Result<ClientTls, String> {
        let settings = ClientSettings {
            skip_verification: !tls.verify,
            hide_name: !tls.sni,
            ca: tls.ca.as_deref().map(|path| self.pem(path)).transpose()?,
            crl: tls.crl.as_deref().map(|path| self.pem(path)).transpose()?,
            certificate: tls
                .certificate
                .as_ref()
                .map(|certificate| self.material(certificate))
                .transpose()?,
            protocol: super::protocol(&tls.protocol),
        };
        let built = ClientTls::new(&settings).map_err(|error| error.to_string())?;
        self.warnings.extend(built.warnings.iter().cloned());
        Ok(built)
    }
}

/// The endpoints of the versions of a pool, by their names.
fn endpoints_by_name(line: &[Arc<UpstreamPool>]) -> HashMap<&str, Vec<&Arc<UpstreamEndpoint>>> {
    let mut by_name: HashMap<&str, Vec<&Arc<UpstreamEndpoint>>> = HashMap::new();
    for known in line.iter().flat_map(|pool| &pool.endpoints) {
        by_name.entry(&known.name).or_default().push(known);
    }
    by_name
}

/// The text of the name that servers are asked for, if requests decide it.
fn request_name(pool: &model::Pool) -> Option<PoolKey> {
    pool.tls.as_ref()?.request_name.clone().map(PoolKey::new)
}

/// The retry budget: that of the version before, if its settings have not changed.
fn retry_budget(pool: &model::Pool, before: Option<&Arc<UpstreamPool>>) -> Arc<PoolRetryBudget> {
    let same = before.filter(|before| before.source.model().retry == pool.retry);
    let same = same.map(|before| Arc::clone(&before.retry_budget));
    same.unwrap_or_else(|| Arc::new(PoolRetryBudget::new(&pool.retry)))
}

/// Returns the name for SNI and verification of an endpoint, whose address has this host.
fn verified_name(
    endpoint: &model::Endpoint,
    tls: &model::TlsClient,
    host: &str,
) -> Result<ServerName<'static>, String> {
    let domain = endpoint.domain.as_deref().filter(|_| tls.srv_name == SrvName::Domain);
    let host = domain.or(endpoint.host.as_deref()).unwrap_or(host);
    server_name(tls.server_name.as_deref(), host).map_err(|error| error.to_string())
}

/// The limits on idle connections. A connection that was announced for one client serves no other.
fn keepalive(pool: &model::Pool) -> model::Keepalive {
    let mut keepalive = pool.keepalive.clone();
    if pool.send_proxy.is_some() {
        keepalive.idle = 0;
    }
    keepalive
}

/// The balancer of a pool without a predecessor.
fn first_balancer(
    pool: &model::Pool,
    members: Vec<Member>,
    orders: &[AdminState],
) -> Arc<Balancer> {
    let balancer = Balancer::new(settings(pool), members);
    for (index, order) in orders.iter().enumerate() {
        balancer.set_admin_state(index, *order, 0);
    }
    balancer
}

impl UpstreamEndpoint {
    /// Returns true if a configured endpoint is this one: name and address are the same.
    fn is_at(&self, endpoint: &model::Endpoint) -> bool {
        let same = |text: &str| *self.address_text == *text;
        *self.name == *endpoint.name
            && match &endpoint.address {
                EndpointAddress::Socket(address) => same(&address.to_string()),
                EndpointAddress::Name(name, port) => same(&format!("{name}:{port}")),
                EndpointAddress::Service(name) => same(&format!("srv:{name}")),
                EndpointAddress::Unix(path) => same(&format!("unix:{}", path.display())),
            }
    }
}

fn settings(pool: &model::Pool) -> Settings {
    let passive = PassiveSettings {
        errors: pool.passive.errors,
        window_us: pool.passive.window.as_micros() as u64,
        eject_us: pool.passive.eject.as_micros() as u64,
        max_ejected_percent: pool.passive.max_ejected_percent,
    };
    let panic_percent = pool.check.as_ref().map_or(0, |check| check.panic_percent);
    let stall = (pool.stall.factor > 0).then_some(StallSettings {
        factor: pool.stall.factor,
        floor_us: pool.stall.floor.as_micros() as u64,
    });
    let queue = pool.queue.as_ref();
    let queue =
        queue.map(|queue| QueueSettings { max: queue.max, max_per_endpoint: queue.per_endpoint });
    let fault = pool.fault;
    Settings { passive, stall, queue, panic_percent, fault, ..Settings::new(pool.policy.kind()) }
}

fn member(pool: &model::Pool, model: &model::Endpoint, endpoint: &UpstreamEndpoint) -> Member {
    Member {
        identity: hash_key(model.name.as_bytes()),
        weight: model.weight,
        max_conn: model.max_conn,
        tier: pool.tier(model),
        ejection: Some(pool.ejection(model)),
        slow_start_us: model.slow_start.map_or(0, |time| time.as_micros() as u64),
        state: Arc::clone(&endpoint.state),
    }
}
