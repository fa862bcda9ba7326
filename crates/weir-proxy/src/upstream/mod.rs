//! A pool as the data plane uses it: the balancer, the endpoints' addresses, and the opening of
//! connections. It picks no endpoint (`weir-balance` does) and resolves no name (the control plane
//! sets addresses).

pub mod affinity;
pub mod connect_trouble;
pub mod endpoint_number;
pub(crate) mod http2;
pub(crate) mod idle;
pub mod idle_count;
pub(crate) mod imposed_method;
pub mod notice;
pub(crate) mod preference;
pub(crate) mod retry;
pub(crate) mod rules;
pub mod shared_idle;
pub mod source;
pub mod stream_counts;
pub(crate) mod upstream_stream;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;
use weir_balance::{Availability, Balancer, EndpointState};
use weir_config::model;

use crate::http::local_reply::Page;
use crate::http::pool_key::PoolKey;
use crate::limiting::pool::PoolLimiter;
use crate::net::tls::ClientTls;
use crate::net::transport::Transport;
use crate::net::{Net, PeerAddress, proxy_header};
use crate::time::instant::Instant;
use crate::upstream::affinity::Affinity;
use crate::upstream::connect_trouble::{ConnectFailure, ConnectTrouble};
use crate::upstream::endpoint_number::EndpointNumber;
use crate::upstream::idle_count::IdleCount;
use crate::upstream::retry::PoolRetryBudget;
use crate::upstream::rules::UpstreamRules;
use crate::upstream::source::FilesSource;
use crate::upstream::stream_counts::StreamCounters;

/// A pool with its live state.
pub struct UpstreamPool {
    /// Its name.
    pub name: Arc<str>,
    /// The balancer, which picks endpoints and counts their exchanges.
    pub balancer: Arc<Balancer>,
    /// The key that the policy hashes, if it uses one.
    pub key: Option<PoolKey>,
    /// Its endpoints, in the balancer's order.
    pub endpoints: Vec<Arc<UpstreamEndpoint>>,
    /// Limits on idle connections.
    pub keepalive: model::Keepalive,
    /// The kernel's probes that detect an endpoint that has disappeared.
    pub tcp_keepalive: model::TcpKeepalive,
    /// The fate of exchanges at an endpoint that goes down.
    pub on_down: model::OnDown,
    /// The fate of exchanges at endpoints of later tiers when an endpoint comes up again.
    pub on_up: model::OnUp,
    /// The causes that count as failures of an endpoint.
    pub passive_on: Box<[model::PassiveCause]>,
    /// The settings for waiting exchanges; `None` if exchanges never wait.
    pub queue: Option<UpstreamQueue>,
    /// The bound on further attempts after failed ones.
    pub retry_budget: Arc<PoolRetryBudget>,
    /// TLS towards endpoints; each worker derives a configuration from it.
    pub tls: Option<ClientTls>,
    /// The text for SNI and verification, if requests decide it.
    pub(crate) request_name: Option<PoolKey>,
    /// TLS of health checks, if only they use it.
    pub check_tls: Option<CheckTls>,
    /// The version of the PROXY header that begins each connection.
    pub send_proxy: Option<model::SendProxy>,
    /// The values of that header.
    pub proxy_tlvs: Vec<model::ProxyTlv>,
    /// The cookie that keeps clients at their endpoints, if the pool has one.
    pub affinity: Option<Affinity>,
    /// Set if requests to some of its endpoints may share connections.
    pub(crate) multiplexes: bool,
    /// The settings of requests whose route has none of its own.
    pub(crate) rules: UpstreamRules,
    /// The limits of the pool as a whole, if it has any.
    pub limits: Option<Box<PoolLimiter>>,
    pub(crate) source: FilesSource<model::Pool>,
    pub(crate) tls_source: FilesSource<Option<model::TlsClient>>,
}

/// TLS of the health checks of endpoints that requests reach without it.
#[derive(Debug)]
pub struct CheckTls {
    /// The settings of all endpoints.
    pub tls: ClientTls,
    /// The name for SNI and verification of each endpoint, in the pool's order.
    pub names: Vec<ServerName<'static>>,
}

/// The settings of a pool's queue. The balancer decides the order of service.
#[derive(Debug)]
pub struct UpstreamQueue {
    /// The longest wait of an exchange.
    pub timeout: Duration,
    /// The status of the response when the queue is full or the wait was too long.
    pub status: u16,
    /// The value of `Retry-After` in that response.
    pub retry_after_seconds: Option<u64>,
    /// The body of that response; `None` stands for the usual page of the status.
    pub page: Option<Page>,
}

/// An endpoint's address and connection counts.
// The fields that each exchange uses are in the first cache line: with thousands of endpoints, none
// of them is in the processor's cache.
#[repr(C, align(64))]
pub struct UpstreamEndpoint {
    /// Its number in this process.
    pub(crate) number: EndpointNumber,
    /// The number of exchanges that used an idle connection.
    pub reused: AtomicU64,
    /// Set if its connections are not to be kept after their exchanges.
    pub(crate) retired: AtomicBool,
    /// The version of HTTP that it is asked in; `Auto` only with TLS.
    pub http: model::UpstreamHttp,
    /// The number of idle connections over all workers.
    pub idle: IdleCount,
    /// Its name.
    pub name: Arc<str>,
    /// Its state in the balancer.
    pub state: Arc<EndpointState>,
    /// Its address; `None` while its name does not resolve.
    pub address: ArcSwapOption<PeerAddress>,
    /// Its address as configured, for logs.
    pub address_text: Arc<str>,
    /// The name for SNI and verification, if the pool uses TLS.
    pub server_name: Option<ServerName<'static>>,
    /// The address of this machine that connections come from; `None` for that of the kernel's
    /// choice.
    pub source: Option<SocketAddr>,
    /// The number of connections opened.
    pub opened: AtomicU64,
    /// The number of exchanges that took over an idle connection of another worker.
    pub taken_over: AtomicU64,
    /// The number of exchanges whose worker had no idle connection and found none to take over,
    /// while another worker had one.
    pub idle_elsewhere: AtomicU64,
    /// Its HTTP/2 streams.
    pub streams: Arc<StreamCounters>,
    /// The failed connects that were not reported to the operator yet.
    pub trouble: ConnectTrouble,
}

impl UpstreamEndpoint {
    /// Returns true if its connections are not to be kept after their exchanges.
    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }
}

/// An endpoint of a pool.
#[derive(Clone, Copy)]
pub(crate) struct EndpointRef<'a> {
    pub(crate) pool: &'a Arc<UpstreamPool>,
    /// Its index in the pool.
    pub(crate) index: usize,
    /// The settings of the request.
    pub(crate) rules: &'a UpstreamRules,
}

impl EndpointRef<'_> {
    /// Returns true if it has a limit on the exchanges in flight.
    pub(crate) fn has_limit(self) -> bool {
        self.pool.has_limit(self.index)
    }
}

/// The beginning of a connection.
pub(crate) struct ConnectionOpening<'a> {
    /// The worker's configuration of TLS for the pool, if it has one.
    pub(crate) tls: Option<&'a Arc<ClientConfig>>,
    /// The name for SNI and verification, if the request decides it.
    pub(crate) name: Option<Box<ServerName<'static>>>,
    /// The PROXY header, if the pool sends one.
    pub(crate) announcement: Option<Vec<u8>>,
}

/// A new connection, and the duration of its TLS handshake.
pub(crate) type Opened<S> = (Transport<S>, Option<Duration>);

impl UpstreamPool {
    /// Returns true if its compilation depends on the contents of files.
    pub fn reads_files(&self) -> bool {
        self.source.reads_files()
    }

    /// Returns true if an endpoint has a limit on the exchanges in flight.
    pub(crate) fn has_limit(&self, endpoint: usize) -> bool {
        self.endpoints.get(endpoint).is_some_and(|endpoint| endpoint.state.max_conn().is_some())
    }

    /// Sets the address of an endpoint whose name was looked up; `None` makes it unavailable.
    /// `now_us` is the time on the balancer's clock, µs.
    pub fn resolved(&self, endpoint: usize, address: Option<SocketAddr>, now_us: u64) {
        let Some(place) = self.endpoints.get(endpoint) else { return };
        let availability =
            if address.is_some() { Availability::Available } else { Availability::Unavailable };
        place.address.store(address.map(|address| Arc::new(PeerAddress::Socket(address))));
        self.balancer.set_availability(endpoint, availability, now_us);
    }

    /// Opens a connection to endpoint `index`.
    pub(crate) async fn connect<N: Net>(
        &self,
        net: &N,
        index: usize,
        ConnectionOpening { tls, name, announcement }: ConnectionOpening<'_>,
    ) -> Result<Opened<N::Stream>, ConnectFailure> {
        let unknown = || ConnectFailure::Socket(io::Error::other("its address is not known"));
        let endpoint = self.endpoints.get(index).ok_or_else(unknown)?;
        let address = endpoint.address.load_full().ok_or_else(unknown)?;
        let failed = |error| ConnectFailure::socket(error, &address);
        let mut stream = match endpoint.source {
            None => net.connect(&address).await,
            Some(from) => Box::pin(net.connect_from(&address, from)).await,
        }
        .map_err(failed)?;
        endpoint.opened.fetch_add(1, Ordering::Relaxed);
        net.keep_alive(&stream, &self.tcp_keepalive);
        if let Some(header) = announcement {
            let sent = Box::pin(proxy_header::send(header, &mut stream)).await;
            sent.map_err(|error| ConnectFailure::socket(error, &address))?;
        }
        let own = endpoint.server_name.as_ref();
        let (Some(config), Some(name)) = (tls, name.as_deref().or(own)) else {
            return Ok((Transport::Plain(stream), None));
        };
        let connected = Instant::now();
        let handshake = TlsConnector::from(config.clone()).connect(name.clone(), stream);
        let stream = Box::pin(handshake).await.map_err(ConnectFailure::Tls)?;
        Ok((Transport::Client(Box::new(stream)), Some(connected.elapsed())))
    }
}
