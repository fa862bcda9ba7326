//! From a checked configuration to what workers run on: routers, TLS, pools with their live state. Files are read through the
//! caller's function; every failure is one sentence for the operator.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use weir_balance::{
    Availability, Balancer, EndpointState, Member, Order, PassiveSettings, QueueSettings, Settings,
    StallSettings, hash_key,
};
use weir_config::Config;
use weir_config::model::{self, EndpointAddress};
use weir_files::Root;
use weir_stats::{Line, LogSink, Variable};

use crate::affinity::Affinity;
use crate::connect_trouble::ConnectTrouble;
use crate::edits::uses_captures;
use crate::endpoint_number::EndpointNumbers;
use crate::gate::Gate;
use crate::net::PeerAddress;
use crate::pool_key::PoolKey;
use crate::reply::Page;
use crate::retry::RetryPolicy;
use crate::route::Router;
use crate::shared::{AccessLog, Listener, Snapshot};
use crate::tls::{
    CertificateMaterial, ClientSettings, ClientTls, PemFile, ProtocolSettings, ServerTls, Tickets,
    TlsVersion, server_name,
};
use crate::upstream::{UpstreamEndpoint, UpstreamPool, UpstreamQueue};

/// Reads a file that the configuration names.
pub type ReadFile<'a> = &'a dyn Fn(&Path) -> io::Result<Vec<u8>>;

/// What compiling needs besides the configuration.
pub struct Surroundings<'a> {
    /// Reads certificates, keys and pages.
    pub read: ReadFile<'a>,
    /// One per access log of the configuration, in its order.
    pub sinks: Vec<LogSink>,
}

/// What workers run on, and what the operator should know.
pub struct Compiled {
    /// For all workers.
    pub snapshot: Arc<Snapshot>,
    /// Sentences that stop nothing.
    pub warnings: Vec<String>,
}

/// Compiles a configuration.
///
/// # Errors
/// One sentence: which file cannot be read, which certificate does not fit, which name is unknown.
pub fn compile(config: &Config, surroundings: Surroundings<'_>) -> Result<Compiled, String> {
    let mut warnings = Vec::new();
    let numbers = Arc::<EndpointNumbers>::default();
    let mut compiler =
        Compiler { read: surroundings.read, numbers: &numbers, warnings: &mut warnings };
    let tickets = Tickets::new().map_err(|error| error.to_string())?;
    let pools =
        config.pools.iter().map(|pool| compiler.pool(pool)).collect::<Result<Vec<_>, _>>()?;
    let listeners = config
        .listeners
        .iter()
        .map(|listener| compiler.listener(listener, config, &tickets))
        .collect::<Result<Vec<_>, _>>()?;
    let line = |log: &model::AccessLog| match &log.format {
        model::LogFormat::Combined => Line::combined(),
        model::LogFormat::Main => Line::main(),
        model::LogFormat::Haproxy => Line::haproxy(),
        model::LogFormat::Json => Line::json(),
        model::LogFormat::Text(template) => Line::text(template.clone()),
    };
    let logs = config.logs.iter().zip(surroundings.sinks);
    let snapshot = Snapshot {
        generation: 1,
        listeners,
        pools,
        logs: logs.map(|(log, sink)| AccessLog { line: line(log), sink }).collect(),
        series: OnceLock::new(),
    };
    Ok(Compiled { snapshot: Arc::new(snapshot), warnings })
}

struct Compiler<'a> {
    read: ReadFile<'a>,
    numbers: &'a Arc<EndpointNumbers>,
    warnings: &'a mut Vec<String>,
}

impl Compiler<'_> {
    fn pool(&mut self, pool: &model::Pool) -> Result<Arc<UpstreamPool>, String> {
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
        let queue = queue
            .map(|queue| QueueSettings { max: queue.max, max_per_endpoint: queue.per_endpoint });
        let settings = Settings {
            passive,
            stall,
            queue,
            panic_percent,
            fault: pool.fault,
            ..Settings::new(pool.policy.kind())
        };
        let members = pool.endpoints.iter().map(|endpoint| member(pool, endpoint)).collect();
        let tls = pool.tls.as_ref().map(|tls| self.client_tls(tls)).transpose()?;
        let endpoints =
            pool.endpoints.iter().map(|endpoint| self.endpoint(endpoint, pool.tls.as_ref()));
        let balancer = Balancer::new(settings, members);
        for (index, endpoint) in pool.endpoints.iter().enumerate() {
            balancer.set_order(index, order(endpoint.order), 0);
        }
        let affinity =
            pool.sticky.as_ref().map(|sticky| self.affinity(pool, sticky)).transpose()?;
        Ok(Arc::new(UpstreamPool {
            name: pool.name.as_str().into(),
            balancer,
            key: pool.policy.key().cloned().map(PoolKey::new),
            endpoints: endpoints.collect::<Result<Vec<_>, _>>()?,
            keepalive: pool.keepalive.clone(),
            timeouts: pool.timeouts.clone(),
            passive_on: pool.passive.on.as_slice().into(),
            queue: pool.queue.as_ref().map(|queue| self.queue(queue, pool)).transpose()?,
            retry: RetryPolicy::new(&pool.retry),
            tls,
            affinity,
            buffer_request: pool.buffer_request,
        }))
    }

    fn endpoint(
        &self,
        endpoint: &model::Endpoint,
        tls: Option<&model::TlsClient>,
    ) -> Result<Arc<UpstreamEndpoint>, String> {
        let (address, text, host) = match &endpoint.address {
            EndpointAddress::Socket(address) => {
                (Some(PeerAddress::Socket(*address)), address.to_string(), address.ip().to_string())
            }
            EndpointAddress::Name(name, port) => (None, format!("{name}:{port}"), name.clone()),
            EndpointAddress::Unix(path) => (
                Some(PeerAddress::Unix(path.clone())),
                format!("unix:{}", path.display()),
                "localhost".to_owned(),
            ),
        };
        let server_name = match tls {
            None => None,
            Some(tls) => Some(
                server_name(tls.server_name.as_deref(), &host)
                    .map_err(|error| error.to_string())?,
            ),
        };
        Ok(Arc::new(UpstreamEndpoint {
            number: self.numbers.give(),
            name: endpoint.name.as_str().into(),
            address: ArcSwapOption::from_pointee(address),
            address_text: text.into(),
            server_name,
            idle: AtomicU32::new(0),
            opened: AtomicU64::new(0),
            reused: AtomicU64::new(0),
            trouble: ConnectTrouble::default(),
        }))
    }

    fn queue(&self, queue: &model::Queue, pool: &model::Pool) -> Result<UpstreamQueue, String> {
        let load = |path| Page::load(path, queue.content_type.as_deref(), self.read);
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
        let names: Vec<&str> =
            pool.endpoints.iter().map(|endpoint| endpoint.name.as_str()).collect();
        Ok(Affinity::new(sticky, (&pool.name, &names), secret.as_deref()))
    }

    fn secret(&self, path: &Path) -> Result<Vec<u8>, String> {
        let PemFile { label, bytes } = self.pem(path)?;
        let secret = bytes.trim_ascii_end();
        model::Secret::check(secret).map_err(|error| format!("{label}: {error}"))?;
        Ok(secret.to_vec())
    }

    fn client_tls(&mut self, tls: &model::TlsClient) -> Result<ClientTls, String> {
        let settings = ClientSettings {
            skip_verification: !tls.verify,
            ca: tls.ca.as_deref().map(|path| self.pem(path)).transpose()?,
            certificate: tls
                .certificate
                .as_ref()
                .map(|certificate| self.material(certificate))
                .transpose()?,
            protocol: protocol(&tls.protocol),
        };
        let built = ClientTls::new(&settings).map_err(|error| error.to_string())?;
        self.warnings.extend(built.warnings.iter().cloned());
        Ok(built)
    }

    fn listener(
        &mut self,
        listener: &model::Listener,
        config: &Config,
        tickets: &Arc<Tickets>,
    ) -> Result<Arc<Listener>, String> {
        let tls = match &listener.tls {
            None => None,
            Some(tls) => {
                let materials = tls
                    .certificates
                    .iter()
                    .map(|certificate| self.material(certificate))
                    .collect::<Result<Vec<_>, _>>()?;
                let built = ServerTls::new(&materials, &protocol(&tls.protocol), tickets.clone());
                let built =
                    built.map_err(|error| format!("listener {}: {error}", listener.name))?;
                self.warnings.extend(built.warnings);
                Some(built.config)
            }
        };
        let router = Router::compile(listener, self.read)
            .map_err(|error| format!("listener {}: {error}", listener.name))?;
        let roots = router.files().iter().map(open_root).collect::<Result<Vec<_>, _>>()?;
        let log_index = |name: &String| config.logs.iter().position(|log| log.name == *name);
        let logs: Vec<usize> = listener.logs.iter().filter_map(log_index).collect();
        let shows = |wanted: fn(&model::LogFormat) -> bool| {
            logs.iter().filter_map(|&index| config.logs.get(index)).any(|log| wanted(&log.format))
        };
        Ok(Arc::new(Listener {
            name: listener.name.as_str().into(),
            addresses: listener.addresses.clone(),
            tls,
            keeps_response_head: shows(shows_response_headers) || router.uses_response_headers(),
            router,
            roots,
            timeouts: listener.timeouts.clone(),
            limits: listener.limits.clone(),
            forwarded: listener.forwarded.clone(),
            request_id: listener.request_id.clone(),
            cause_header: listener.cause_header.clone(),
            access: listener.access.clone(),
            shows_local_address: keys_of_local_addresses(config)
                || shows(|format| {
                    matches!(format, model::LogFormat::Text(_) | model::LogFormat::Json)
                }),
            logs_captures: shows(|format| match format {
                model::LogFormat::Text(template) => uses_captures(template),
                model::LogFormat::Json => true,
                model::LogFormat::Combined | model::LogFormat::Main | model::LogFormat::Haproxy => {
                    false
                }
            }),
            logs,
            gate: Arc::new(Gate::new(listener.max_connections)),
        }))
    }

    fn pem(&self, path: &Path) -> Result<PemFile, String> {
        let label = path.display().to_string();
        let bytes = (self.read)(path).map_err(|error| format!("cannot read {label}: {error}"))?;
        Ok(PemFile { label, bytes })
    }

    fn material(&self, certificate: &model::Certificate) -> Result<CertificateMaterial, String> {
        let key = certificate.key.as_deref().map(|path| self.pem(path)).transpose()?;
        Ok(CertificateMaterial { chain: self.pem(&certificate.chain)?, key })
    }
}

/// Whether a pool goes by the address that clients reached us at.
fn keys_of_local_addresses(config: &Config) -> bool {
    let mut keys = config.pools.iter().filter_map(|pool| pool.policy.key());
    keys.any(|key| key.variables().any(Variable::is_local_address))
}

fn shows_response_headers(format: &model::LogFormat) -> bool {
    matches!(format, model::LogFormat::Text(template) if template.needs_response_headers())
}

fn open_root(files: &model::Files) -> Result<Arc<Root>, String> {
    let root = Root::open(&files.root, files.index.clone());
    root.map(Arc::new)
        .map_err(|error| format!("cannot open the directory {}: {error}", files.root.display()))
}

fn member(pool: &model::Pool, endpoint: &model::Endpoint) -> Member {
    let availability = match endpoint.address {
        // Until the resolver has an answer.
        EndpointAddress::Name(..) => Availability::Unavailable,
        EndpointAddress::Socket(_) | EndpointAddress::Unix(_) => Availability::Available,
    };
    Member {
        identity: hash_key(endpoint.name.as_bytes()),
        weight: endpoint.weight,
        max_conn: endpoint.max_conn,
        tier: pool.tier(endpoint),
        state: Arc::new(EndpointState::new(availability)),
    }
}

fn order(order: model::Order) -> Order {
    match order {
        model::Order::Ready => Order::Ready,
        model::Order::Draining => Order::Draining,
        model::Order::Maintenance => Order::Maintenance,
    }
}

fn protocol(protocol: &model::TlsProtocol) -> ProtocolSettings<'_> {
    let version = |version| match version {
        model::TlsVersion::Tls12 => TlsVersion::Tls12,
        model::TlsVersion::Tls13 => TlsVersion::Tls13,
    };
    ProtocolSettings {
        min: version(protocol.min),
        max: version(protocol.max),
        ciphers: &protocol.ciphers,
        curves: &protocol.curves,
    }
}
