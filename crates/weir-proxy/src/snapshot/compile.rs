//! Compiles a checked configuration into the snapshot that workers run on: routers, TLS, pools with
//! their live state. Files are read through the caller's function; every failure is one sentence
//! for the operator. A running process does not change until the result is published.

mod pool;

use std::collections::{HashMap, HashSet};
use std::io;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::{Arc, OnceLock, Weak};

use weir_config::{Config, model};
use weir_files::{FileTypes, Root};
use weir_stats::{Escape, Line, LogSink, Template, Variable};

pub(crate) use self::pool::PoolSuccession;
use crate::http::edits::uses_captures;
use crate::limiting::Limiter;
use crate::limiting::admission::Gate;
use crate::limiting::bandwidth::BandwidthLimiter;
use crate::limiting::client::ClientLimiter;
use crate::limiting::key_limits::KeyLimits;
use crate::net::tls::{
    CertificateMaterial, ClientCertificates, Demand, KnownNames, NamedOnly, PemFile,
    ProtocolSettings, ServerTls, Tickets,
};
use crate::routing::route::Router;
use crate::snapshot::{
    CompiledAccessLog, CompiledListener, CompiledTls, CountedConditions, ListenerModel, LogCounts,
    LogReasons, RequestBodies, ServerNames, Snapshot, hashes_server_name, keys_of_local_addresses,
};
use crate::upstream::endpoint_number::EndpointNumbers;
use crate::upstream::source::{FileReader, FilesSource, ReadFile};
use crate::upstream::{UpstreamEndpoint, UpstreamPool};

/// The inputs of compilation besides the configuration.
pub struct Surroundings<'a> {
    /// Reads certificates, keys and pages.
    pub read: ReadFile<'a>,
    /// One sink per access log of the configuration, in its order.
    pub sinks: Vec<LogSink>,
    /// The directory that will be `/` when files are served, if the process is going to change its
    /// root directory.
    pub root: Option<&'a Path>,
}

/// A compiled snapshot, and warnings for the operator.
pub struct Compiled {
    /// The snapshot for all workers.
    pub snapshot: Arc<Snapshot>,
    /// Problems that do not prevent the configuration from being used, one sentence each.
    pub warnings: Vec<String>,
    pub(crate) changes: Vec<PoolSuccession>,
    /// Endpoints that were removed, or whose connections are now made in another way.
    pub(crate) retired: Vec<Arc<UpstreamEndpoint>>,
}

/// Compiles a configuration. A part that is unchanged since `previous`, its files included, is
/// shared with `previous`; a changed part takes over all live state.
///
/// # Errors
/// One sentence: a file that cannot be read, a certificate that does not fit, a name that is
/// unknown.
pub fn compile(
    config: &Config,
    surroundings: Surroundings<'_>,
    previous: Option<&Snapshot>,
) -> Result<Compiled, String> {
    let tickets = match previous {
        Some(previous) => Arc::clone(&previous.tickets),
        None => Tickets::new().map_err(|error| error.to_string())?,
    };
    let mut compiler = Compiler::new(surroundings.read, surroundings.root, config);
    compiler.tickets = Some(Arc::clone(&tickets));
    if let Some(previous) = previous {
        compiler.numbers = Arc::clone(&previous.numbers);
        compiler.limiter = Arc::clone(&previous.limiter);
    }
    let known = previous.map(|previous| by_name(&previous.pools)).unwrap_or_default();
    let pools = config.pools.iter().map(|pool| {
        let now = known.get(pool.name.as_str()).map(|pool| Arc::clone(pool));
        let former = previous.into_iter().flat_map(|previous| previous.former_of(&pool.name));
        compiler.pool(pool, &now.into_iter().chain(former).collect::<Vec<_>>())
    });
    let pools = pools.collect::<Result<Vec<_>, _>>()?;
    let listeners =
        config.listeners.iter().map(|listener| compiler.listener(listener, config, previous));
    let listeners = listeners.collect::<Result<Vec<_>, _>>()?;
    let line = |log: &model::AccessLog| match &log.format {
        model::LogFormat::Combined => Line::combined(),
        model::LogFormat::Main => Line::main(),
        model::LogFormat::Haproxy => Line::haproxy(),
        model::LogFormat::Json => Line::json(),
        model::LogFormat::Text(template) => Line::escaped(
            template.clone(),
            match log.escape {
                model::LogEscape::Default => Escape::Log,
                model::LogEscape::Json => Escape::Json,
                model::LogEscape::None => Escape::None,
            },
        ),
    };
    let compiled = |(log, sink): (&model::AccessLog, _)| CompiledAccessLog {
        line: line(log),
        when: log.when.clone(),
        sink,
    };
    let logs = config.logs.iter().zip(surroundings.sinks);
    let Compiler { numbers, limiter, warnings, changes, .. } = compiler;
    let snapshot = Snapshot {
        generation: previous.map_or(1, |previous| previous.generation + 1),
        former: previous.map(|previous| former(previous, &pools)).unwrap_or_default(),
        listeners,
        pools,
        logs: logs.map(compiled).collect(),
        numbers,
        limiter,
        limit_table: config.limit_table,
        tickets,
        series: OnceLock::new(),
    };
    // Those of listeners that are still the former ones count the former pools until they change.
    snapshot.count_servers(CountedConditions::New);
    let retired = previous.map(|previous| retired(previous, &snapshot)).unwrap_or_default();
    Ok(Compiled { snapshot: Arc::new(snapshot), warnings, changes, retired })
}

/// The threads that compile the routes of a listener in [`verify`], which has no requests to serve.
const VERIFYING_THREADS: usize = 2;

/// Compiles every part of a configuration as [`compile`] does without a previous one, and keeps
/// none: for `weir check`. Pools and listeners are compiled beside each other.
///
/// # Returns
/// The warnings.
///
/// # Errors
/// Those of [`compile`].
pub fn verify(
    config: &Config,
    read: &(dyn Fn(&Path) -> io::Result<Vec<u8>> + Sync),
    root: Option<&Path>,
) -> Result<Vec<String>, String> {
    let compiler = || Compiler::new(read, root, config);
    let pools = || -> Result<_, String> {
        let mut compiler = compiler();
        config.pools.iter().try_for_each(|pool| compiler.pool(pool, &[]).map(drop))?;
        Ok(compiler.warnings)
    };
    let listeners = || -> Result<_, String> {
        let mut compiler = compiler();
        for listener in &config.listeners {
            let gate = Arc::new(Gate::new(listener.max_connections));
            let compiled = compiler.compiled_listener(listener, config, gate, VERIFYING_THREADS)?;
            // Taking 100,000 routes apart takes long; the process ends soon.
            std::mem::forget(compiled);
        }
        Ok(compiler.warnings)
    };
    let (of_pools, of_listeners) = std::thread::scope(|scope| {
        match std::thread::Builder::new().spawn_scoped(scope, pools) {
            Ok(beside) => {
                let listeners = listeners();
                (beside.join().unwrap_or_else(|panic| resume_unwind(panic)), listeners)
            }
            // The system gives no thread.
            Err(_) => (pools(), listeners()),
        }
    });
    let mut warnings: Vec<String> = of_pools?;
    warnings.extend(of_listeners?);
    Ok(warnings)
}

fn by_name(pools: &[Arc<UpstreamPool>]) -> HashMap<&str, &Arc<UpstreamPool>> {
    pools.iter().map(|pool| (&*pool.name, pool)).collect()
}

/// Pools whose configuration changed or was removed and that may still have exchanges.
fn former(previous: &Snapshot, pools: &[Arc<UpstreamPool>]) -> Vec<Weak<UpstreamPool>> {
    let there: HashSet<*const UpstreamPool> = pools.iter().map(Arc::as_ptr).collect();
    let stays = |one: &Arc<UpstreamPool>| there.contains(&Arc::as_ptr(one));
    let now = previous.pools.iter().filter(|pool| !stays(pool)).map(Arc::downgrade);
    // A pool that was removed earlier may be configured again.
    let lives = |pool: &&Weak<UpstreamPool>| pool.upgrade().is_some_and(|pool| !stays(&pool));
    now.chain(previous.former.iter().filter(lives).cloned()).collect()
}

/// Endpoints whose idle connections will not be used again.
fn retired(previous: &Snapshot, next: &Snapshot) -> Vec<Arc<UpstreamEndpoint>> {
    let mut retired = Vec::new();
    let next = by_name(&next.pools);
    for before in &previous.pools {
        let after = next.get(&*before.name);
        if after.is_some_and(|after| Arc::ptr_eq(before, after)) {
            continue;
        }
        let there: HashSet<*const UpstreamEndpoint> =
            after.into_iter().flat_map(|after| &after.endpoints).map(Arc::as_ptr).collect();
        let stays = |endpoint: &&Arc<UpstreamEndpoint>| there.contains(&Arc::as_ptr(endpoint));
        retired.extend(before.endpoints.iter().filter(|endpoint| !stays(endpoint)).cloned());
    }
    retired
}

/// The gate of the listener's predecessor: the one of the same name or, if the name is new, one
/// whose name is gone and that had one of the listener's addresses.
fn gate_before(
    listener: &model::Listener,
    config: &Config,
    previous: &Snapshot,
) -> Option<Arc<Gate>> {
    let is_gone =
        |one: &CompiledListener| config.listeners.iter().all(|other| *other.name != *one.name);
    let shares = |one: &&Arc<CompiledListener>| {
        is_gone(one) && listener.addresses.iter().any(|address| one.addresses.contains(address))
    };
    let one = previous.listener(&listener.name);
    let one = one.or_else(|| previous.listeners.iter().find(shares))?;
    Some(Arc::clone(&one.gate))
}

/// The name under which the client limits over all listeners are counted; no listener can have it.
const ALL_LISTENERS: &str = "*";

struct Compiler<'a> {
    reader: FileReader<'a>,
    /// The directory that will be `/`.
    root: Option<&'a Path>,
    numbers: Arc<EndpointNumbers>,
    limiter: Arc<Limiter>,
    /// Made when the first listener needs them, which takes as long as 5,000 lines.
    tickets: Option<Arc<Tickets>>,
    /// The tables of types that routes use.
    types: HashMap<String, Arc<FileTypes>>,
    warnings: Vec<String>,
    changes: Vec<PoolSuccession>,
}

impl<'a> Compiler<'a> {
    /// A compiler without a previous configuration.
    fn new(read: ReadFile<'a>, root: Option<&'a Path>, config: &Config) -> Self {
        Self {
            reader: FileReader::new(read),
            root,
            numbers: Arc::default(),
            limiter: Limiter::new(config.limit_table),
            tickets: None,
            types: HashMap::new(),
            warnings: Vec::new(),
            changes: Vec::new(),
        }
    }
}

impl Compiler<'_> {
    /// Compiles a listener; returns the previous one if nothing that it depends on has changed.
    fn listener(
        &mut self,
        listener: &model::Listener,
        config: &Config,
        previous: Option<&Snapshot>,
    ) -> Result<Arc<CompiledListener>, String> {
        let model = ListenerModel::new(listener, config);
        let named = previous.and_then(|previous| previous.listener(&listener.name));
        let still = |one: &&Arc<CompiledListener>| one.is_still(&model, self.reader.plain());
        if let Some(same) = named.filter(still) {
            return Ok(Arc::clone(same));
        }
        let gate = previous.and_then(|previous| gate_before(listener, config, previous));
        let gate = gate.unwrap_or_else(|| Arc::new(Gate::new(listener.max_connections)));
        let mut compiled = self.compiled_listener(listener, config, gate, 1)?;
        compiled.source = Some(FilesSource::new(model, self.reader.take()));
        Ok(Arc::new(compiled))
    }

    /// Compiles a listener, its routes in so many threads, without its source.
    fn compiled_listener(
        &mut self,
        listener: &model::Listener,
        config: &Config,
        gate: Arc<Gate>,
        threads: usize,
    ) -> Result<CompiledListener, String> {
        let tls = listener.tls.as_ref().map(|tls| self.server_tls(tls, listener)).transpose()?;
        let mut router = Router::compile(listener, &|path: &Path| self.reader.read(path), threads)
            .map_err(|error| format!("listener {}: {error}", listener.name))?;
        router.limit(listener, &self.limiter);
        router.set_rules(listener, &config.pools);
        router.file_switches().iter().for_each(|switch| switch.look(self.root));
        let roots = router
            .files()
            .iter()
            .map(|files| self.root(files, config))
            .collect::<Result<_, _>>()?;
        router.set_logs(listener, |names| log_numbers(names, config));
        let logs = UsedLogs::of(listener, config);
        Ok(CompiledListener {
            name: listener.name.as_str().into(),
            log_name: listener.log_name.as_deref().unwrap_or(&listener.name).into(),
            addresses: listener.addresses.clone(),
            protocol: listener.protocol,
            proxy_protocol: listener.proxy_protocol.clone(),
            grpc: listener.grpc,
            http2: model::Http2 { mode: listener.http2_mode(), ..listener.http2 },
            tls,
            keeps_response_head: logs.want_response_headers() || router.uses_response_headers(),
            request_bodies: logs.request_bodies(&router),
            server_names: server_names(&router, listener, config),
            shows_local_address: keys_of_local_addresses(config)
                || is_limited_by(listener, Variable::is_local_address)
                || router.uses_local_address()
                || logs.want(may_show_local_address, |_| true),
            router,
            roots,
            timeouts: listener.timeouts.clone(),
            limits: listener.limits.clone(),
            path: listener.path.clone(),
            header_names: (listener.header_names != model::HeaderNames::default())
                .then_some(listener.header_names),
            client_limits: self.client_limits(listener, config),
            key_limits: KeyLimits::compile(
                &listener.rate_limits,
                &listener.in_flight_limits,
                &self.limiter,
            ),
            bandwidth: BandwidthLimiter::compile(listener.bandwidth.as_ref(), &self.limiter),
            forwarded: listener.forwarded.clone(),
            request_id: listener.request_id.clone(),
            cause_header: listener.cause_header.clone(),
            explain_header: listener.explain_header.clone(),
            access: listener.access.clone(),
            concurrency: LogCounts::of(logs.want(shows_concurrency, |_| false)),
            reasons: LogReasons::of(logs.want(tells_why, Template::tells_why)),
            logs_captures: logs.want(shows_captures, uses_captures),
            logs: log_numbers(&listener.logs, config),
            gate,
            max_connections: listener.max_connections,
            source: None,
        })
    }

    fn tickets(&mut self) -> Result<Arc<Tickets>, String> {
        if let Some(tickets) = &self.tickets {
            return Ok(Arc::clone(tickets));
        }
        let tickets = Tickets::new().map_err(|error| error.to_string())?;
        self.tickets = Some(Arc::clone(&tickets));
        Ok(tickets)
    }

    /// The TLS configuration of a listener.
    fn server_tls(
        &mut self,
        tls: &model::TlsServer,
        listener: &model::Listener,
    ) -> Result<CompiledTls, String> {
        let materials = tls
            .certificates
            .iter()
            .map(|certificate| self.material(certificate))
            .collect::<Result<Vec<_>, _>>()?;
        let clients = tls.clients.as_ref().map(|clients| self.authorities(clients)).transpose()?;
        let protocol = ProtocolSettings { prefer: tls.prefer, ..protocol(&tls.protocol) };
        let tickets = self.tickets()?;
        let built = ServerTls::with_clients(&materials, &protocol, tickets, clients.as_ref());
        let built = built.map_err(|error| format!("listener {}: {error}", listener.name))?;
        self.warnings.extend(built.warnings);
        let (mut config, clients) = (built.config, built.clients);
        let hosts = || listener.sites.iter().flat_map(|site| &site.hosts);
        let names = match tls.names {
            model::ServedNames::Any => None,
            model::ServedNames::Certificate => Some(KnownNames::of_certificates(&built.names)),
            model::ServedNames::Host => Some(KnownNames::of_hosts(hosts())),
        };
        if let Some(names) = names {
            let own = Arc::make_mut(&mut config);
            let certificates = Arc::clone(&own.cert_resolver);
            own.cert_resolver = Arc::new(NamedOnly { names, certificates });
        }
        let offered: &[&[u8]] = match listener.http2_mode() {
            // Only the servers know what is spoken.
            _ if listener.protocol == model::Protocol::Tcp => &[],
            model::Http2Mode::Off | model::Http2Mode::Auto => {
                return Ok(CompiledTls { config, clients });
            }
            model::Http2Mode::On => &[b"h2", b"http/1.1"],
            model::Http2Mode::Only => &[b"h2"],
        };
        let own = Arc::make_mut(&mut config);
        own.alpn_protocols = offered.iter().map(|name| name.to_vec()).collect();
        Ok(CompiledTls { config, clients })
    }

    /// The limits on clients that apply at a listener.
    fn client_limits(
        &self,
        listener: &model::Listener,
        config: &Config,
    ) -> Vec<Arc<ClientLimiter>> {
        let all = config.client_limit.iter().map(|limit| (limit, ALL_LISTENERS));
        let own = listener.client_limit.iter().map(|limit| (limit, listener.name.as_str()));
        let compile = |(limit, name)| ClientLimiter::compile(limit, name, &self.limiter);
        all.chain(own).map(compile).map(Arc::new).collect()
    }

    fn root(&mut self, files: &model::Files, config: &Config) -> Result<Arc<Root>, String> {
        let types = files.types.as_deref().and_then(|name| self.types(name, config));
        let (path, index) = (&files.root, files.index.clone());
        let root = match self.root {
            _ if files.optional => Root::optional(path, index),
            None => Root::open(path, index),
            Some(outer) => Root::open_within(outer, path, index),
        };
        let root = root.map_err(|error| {
            let within = self.root.map(|outer| format!(" within {}", outer.display()));
            let within = within.unwrap_or_default();
            format!("cannot open the directory {}{within}: {error}", path.display())
        })?;
        let inner = path.strip_prefix("/").unwrap_or(path);
        let now = self.root.map_or_else(|| path.clone(), |outer| outer.join(inner));
        self.reader.note_directory(path, &now);
        Ok(Arc::new(root.with_types(types)))
    }

    /// The table of types of this name, compiled once.
    fn types(&mut self, name: &str, config: &Config) -> Option<Arc<FileTypes>> {
        if let Some(types) = self.types.get(name) {
            return Some(Arc::clone(types));
        }
        let table = config.types.iter().find(|table| table.name == name)?;
        let types = table.types.iter().map(|(extension, text)| (extension.as_str(), text.as_str()));
        let types = Arc::new(FileTypes::new(types, &table.default));
        self.types.insert(name.to_owned(), Arc::clone(&types));
        Some(types)
    }

    fn pem(&self, path: &Path) -> Result<PemFile, String> {
        let label = path.display().to_string();
        let bytes =
            self.reader.read(path).map_err(|error| format!("cannot read {label}: {error}"))?;
        Ok(PemFile { label, bytes: bytes.into() })
    }

    fn authorities(&self, clients: &model::ClientAuthority) -> Result<ClientCertificates, String> {
        Ok(ClientCertificates {
            ca: self.pem(&clients.ca)?,
            trusted: clients.trusted.as_deref().map(|path| self.pem(path)).transpose()?,
            crl: clients.crl.as_deref().map(|path| self.pem(path)).transpose()?,
            demand: match clients.verify {
                model::ClientVerification::Required => Demand::Required,
                model::ClientVerification::Optional => Demand::Optional,
                model::ClientVerification::Request => Demand::Requested,
            },
        })
    }

    fn material(&self, certificate: &model::Certificate) -> Result<CertificateMaterial, String> {
        let key = certificate.key.as_deref().map(|path| self.pem(path)).transpose()?;
        Ok(CertificateMaterial { chain: self.pem(&certificate.chain)?, key })
    }
}

fn server_names(router: &Router, listener: &model::Listener, config: &Config) -> ServerNames {
    let needs_it = router.needs_server_name()
        || is_limited_by(listener, Variable::is_of_client_hello)
        || hashes_server_name(listener, config);
    if needs_it { ServerNames::Read } else { ServerNames::Unread }
}

/// Returns true if a limit of the listener is keyed by a variable of this kind.
fn is_limited_by(listener: &model::Listener, is_of_kind: fn(&Variable) -> bool) -> bool {
    let bandwidths = listener.all_routes().filter_map(|route| route.bandwidth.as_ref());
    let bandwidths = bandwidths.chain(&listener.bandwidth).filter_map(|limit| limit.key.as_ref());
    let rates =
        listener.all_routes().flat_map(|route| &route.rate_limits).chain(&listener.rate_limits);
    let in_flight = listener.all_routes().flat_map(|route| &route.in_flight_limits);
    let in_flight = in_flight.chain(&listener.in_flight_limits).map(|limit| &limit.key);
    let keys = rates.map(|limit| &limit.key).chain(in_flight).chain(bandwidths);
    keys.flat_map(Template::variables).any(is_of_kind)
}

/// The positions of logs in the configuration.
fn log_numbers(names: &[String], config: &Config) -> Vec<usize> {
    let number = |name: &String| config.logs.iter().position(|log| log.name == *name);
    names.iter().filter_map(number).collect()
}

/// The logs that a listener or one of its routes names.
struct UsedLogs<'a>(Vec<&'a model::AccessLog>);

impl<'a> UsedLogs<'a> {
    fn of(listener: &model::Listener, config: &'a Config) -> Self {
        let of_routes = listener.all_routes().filter_map(|route| route.logs.as_deref());
        let names = of_routes.chain([listener.logs.as_slice()]);
        let numbers = names.flat_map(|names| log_numbers(names, config));
        Self(numbers.filter_map(|number| config.logs.get(number)).collect())
    }

    /// Returns true if a format, or the text of a condition, has this property.
    fn want(&self, format: fn(&model::LogFormat) -> bool, text: fn(&Template) -> bool) -> bool {
        self.0.iter().any(|log| format(&log.format) || log.when.as_ref().is_some_and(text))
    }
}

impl UsedLogs<'_> {
    fn want_response_headers(&self) -> bool {
        self.want(shows_response_headers, Template::needs_response_headers)
    }

    fn request_bodies(&self, router: &Router) -> RequestBodies {
        let in_logs = self.want(shows_request_body, Template::needs_request_body);
        if in_logs || router.uses_request_body() {
            RequestBodies::Shown
        } else {
            RequestBodies::Unshown
        }
    }
}

fn shows_captures(format: &model::LogFormat) -> bool {
    match format {
        model::LogFormat::Text(template) => uses_captures(template),
        model::LogFormat::Json => true,
        model::LogFormat::Combined | model::LogFormat::Main | model::LogFormat::Haproxy => false,
    }
}

fn may_show_local_address(format: &model::LogFormat) -> bool {
    matches!(format, model::LogFormat::Text(_) | model::LogFormat::Json)
}

fn shows_concurrency(format: &model::LogFormat) -> bool {
    match format {
        model::LogFormat::Haproxy | model::LogFormat::Json => true,
        model::LogFormat::Text(text) => text.variables().any(Variable::is_haproxy_field),
        model::LogFormat::Combined | model::LogFormat::Main => false,
    }
}

fn tells_why(format: &model::LogFormat) -> bool {
    match format {
        model::LogFormat::Text(template) => template.tells_why(),
        model::LogFormat::Json => true,
        model::LogFormat::Combined | model::LogFormat::Main | model::LogFormat::Haproxy => false,
    }
}

fn shows_response_headers(format: &model::LogFormat) -> bool {
    matches!(format, model::LogFormat::Text(template) if template.needs_response_headers())
}

fn shows_request_body(format: &model::LogFormat) -> bool {
    matches!(format, model::LogFormat::Text(template) if template.needs_request_body())
}

fn protocol(protocol: &model::TlsProtocol) -> ProtocolSettings<'_> {
    ProtocolSettings {
        min: protocol.min,
        max: protocol.max,
        ciphers: &protocol.ciphers,
        curves: &protocol.curves,
        prefer: None,
    }
}
