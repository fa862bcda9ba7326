//! A pool as the data plane sees it: the balancer, where its endpoints are, and how to connect to one. It picks nothing
//! itself (`weir-balance` does) and resolves no name (the control plane sets addresses).

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

use crate::affinity::Affinity;
use crate::compile::source::Source;
use crate::connect_trouble::{ConnectFailure, ConnectTrouble};
use crate::endpoint_number::EndpointNumber;
use crate::idle_count::IdleCount;
use crate::instant::Instant;
use crate::limiting::pool::PoolLimits;
use crate::net::{Net, PeerAddress};
use crate::pool_key::PoolKey;
use crate::reply::Page;
use crate::retry::RetryPolicy;
use crate::tls::ClientTls;
use crate::transport::Transport;

/// A pool with its live state.
pub struct UpstreamPool {
    /// Its name.
    pub name: Arc<str>,
    /// Who is picked, and how many exchanges each endpoint has.
    pub balancer: Arc<Balancer>,
    /// What the policy hashes, if it does.
    pub key: Option<PoolKey>,
    /// Its endpoints, in the balancer's order.
    pub endpoints: Vec<Arc<UpstreamEndpoint>>,
    /// Limits on idle connections.
    pub keepalive: model::Keepalive,
    /// How the kernel finds out that an endpoint is gone.
    pub tcp_keepalive: model::TcpKeepalive,
    /// Waits.
    pub timeouts: model::UpstreamTimeouts,
    /// What counts as a failure of an endpoint.
    pub passive_on: Box<[model::PassiveCause]>,
    /// What holds for those who have to wait; `None`: nobody waits.
    pub queue: Option<UpstreamQueue>,
    /// When an attempt that failed is followed by another.
    pub retry: Arc<RetryPolicy>,
    /// TLS to endpoints; each worker makes its own configuration of it.
    pub tls: Option<ClientTls>,
    /// The cookie that keeps clients at their endpoints, if any does.
    pub affinity: Option<Affinity>,
    /// Buffer whole request bodies up to this many bytes before picking.
    pub buffer_request: Option<u64>,
    /// Bounds on the pool as a whole, if there are any.
    pub limits: Option<Box<PoolLimits>>,
    pub(crate) source: Source<model::Pool>,
    pub(crate) tls_source: Source<Option<model::TlsClient>>,
}

/// A pool's queue, as those see it who wait in it. Who is next is the balancer's to say.
#[derive(Debug)]
pub struct UpstreamQueue {
    /// Longest wait of an exchange.
    pub timeout: Duration,
    /// What is answered without a place, or after too long a wait.
    pub status: u16,
    /// When to come again, told with that.
    pub retry_after_seconds: Option<u64>,
    /// The body of that answer; `None` is the status's usual one.
    pub page: Option<Page>,
}

/// One endpoint's address and connection counts.
pub struct UpstreamEndpoint {
    /// Its number in this process.
    pub(crate) number: EndpointNumber,
    /// Its name.
    pub name: Arc<str>,
    /// What the balancer knows of it.
    pub state: Arc<EndpointState>,
    /// Where it is; `None` while its name does not resolve.
    pub address: ArcSwapOption<PeerAddress>,
    /// Its address as written, for logs.
    pub address_text: Arc<str>,
    /// Name for SNI and verification, when the pool speaks TLS.
    pub server_name: Option<ServerName<'static>>,
    /// Idle connections over all workers.
    pub idle: IdleCount,
    /// Connections opened.
    pub opened: AtomicU64,
    /// Exchanges that went over an idle connection.
    pub reused: AtomicU64,
    /// Exchanges whose worker had no idle connection while another one had.
    pub idle_elsewhere: AtomicU64,
    /// Whether its connections are of no more use once their exchanges have ended.
    pub(crate) retired: AtomicBool,
    /// Connects that failed and that the operator was not told of yet.
    pub trouble: ConnectTrouble,
}

/// A new connection, and how long its TLS handshake took.
pub(crate) type Opened<S> = (Transport<S>, Option<Duration>);

impl UpstreamPool {
    /// Whether what it is depends on what files hold.
    pub fn reads_files(&self) -> bool {
        self.source.reads_files()
    }

    /// Whether an endpoint takes only so many exchanges at once.
    pub(crate) fn has_limit(&self, endpoint: usize) -> bool {
        self.endpoints.get(endpoint).is_some_and(|endpoint| endpoint.state.max_conn().is_some())
    }

    /// Tells where an endpoint whose name was looked up is, or that it is nowhere yet.
    pub fn resolved(&self, endpoint: usize, address: Option<SocketAddr>, now_us: u64) {
        let Some(place) = self.endpoints.get(endpoint) else { return };
        let availability =
            if address.is_some() { Availability::Available } else { Availability::Unavailable };
        place.address.store(address.map(|address| Arc::new(PeerAddress::Socket(address))));
        self.balancer.set_availability(endpoint, availability, now_us);
    }

    /// Opens a connection to endpoint `index`, with TLS if the worker has a configuration for this pool.
    pub(crate) async fn connect<N: Net>(
        &self,
        net: &N,
        index: usize,
        tls: Option<&Arc<ClientConfig>>,
    ) -> Result<Opened<N::Stream>, ConnectFailure> {
        let unknown = || ConnectFailure::Socket(io::Error::other("its address is not known"));
        let endpoint = self.endpoints.get(index).ok_or_else(unknown)?;
        let address = endpoint.address.load_full().ok_or_else(unknown)?;
        let failed = |error| ConnectFailure::socket(error, &address);
        let stream = net.connect(&address).await.map_err(failed)?;
        endpoint.opened.fetch_add(1, Ordering::Relaxed);
        net.keep_alive(&stream, &self.tcp_keepalive);
        let (Some(config), Some(name)) = (tls, &endpoint.server_name) else {
            return Ok((Transport::Plain(stream), None));
        };
        let connected = Instant::now();
        let handshake = TlsConnector::from(config.clone()).connect(name.clone(), stream);
        let stream = Box::pin(handshake).await.map_err(ConnectFailure::Tls)?;
        Ok((Transport::Client(Box::new(stream)), Some(connected.elapsed())))
    }
}
