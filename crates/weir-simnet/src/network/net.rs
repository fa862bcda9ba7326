//! The simulated network: addresses, backlogs, connects that fail, links. It transports bytes and
//! knows no protocol.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::{pending, poll_fn};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::task::{Poll, Waker};

use fastrand::Rng;
use tokio::time::{Instant, sleep};
use weir_proxy::net::{Net, PeerAddress};

use crate::memory::{self, simulated};
use crate::network::faults::{Faults, LinkFaults, Tamper, happens};
use crate::network::link::Link;
use crate::network::stream::SimStream;
use crate::network::trace::{LinkEnd, LinkSide, NetworkEvent, Trace};

/// A connection between accept and adoption; its stream waits in the network.
#[derive(Debug)]
pub struct PendingConnection(u64);

/// A listening address. Dropping it resets the connections in its backlog and refuses later ones.
pub struct SimListener {
    index: usize,
    shared: Rc<RefCell<NetworkState>>,
}

impl Drop for SimListener {
    fn drop(&mut self) {
        let mut shared = self.shared.borrow_mut();
        let bound = &mut shared.bound[self.index];
        bound.open = false;
        let backlog = std::mem::take(&mut bound.backlog);
        drop(shared);
        drop(backlog);
    }
}

struct SimBoundSocket {
    address: PeerAddress,
    open: bool,
    side: LinkSide,
    backlog: VecDeque<(SimStream, PeerAddress)>,
    wakers: Vec<Waker>,
}

struct NetworkState {
    random: Rng,
    bound: Vec<SimBoundSocket>,
    tickets: BTreeMap<u64, SimStream>,
    next_ticket: u64,
    links: Vec<Rc<RefCell<Link>>>,
    next_port: u16,
}

/// A seeded network in virtual time. Clones are the same network.
#[derive(Clone)]
pub struct SimNet {
    shared: Rc<RefCell<NetworkState>>,
    faults: Rc<RefCell<Faults>>,
    trace: Rc<RefCell<Trace>>,
    open_links: Rc<RefCell<u32>>,
    fault_seen: Rc<Cell<bool>>,
}

impl SimNet {
    /// Returns a network that follows `seed` and `faults`. It must be called in a runtime whose
    /// clock is paused.
    pub fn new(seed: u64, faults: Faults) -> Self {
        weir_proxy::instant::follow_tokio();
        let shared = NetworkState {
            random: Rng::with_seed(seed),
            bound: Vec::new(),
            tickets: BTreeMap::new(),
            next_ticket: 0,
            links: Vec::new(),
            next_port: 1024,
        };
        Self {
            shared: Rc::new(RefCell::new(shared)),
            faults: Rc::new(RefCell::new(faults)),
            trace: Rc::new(RefCell::new(Trace::new(Instant::now()))),
            open_links: Rc::default(),
            fault_seen: Rc::default(),
        }
    }

    /// Listens on an address; links to it are of this side.
    pub fn bind(&self, address: PeerAddress, side: LinkSide) -> SimListener {
        let mut shared = self.shared.borrow_mut();
        shared.bound.push(SimBoundSocket {
            address,
            open: true,
            side,
            backlog: VecDeque::new(),
            wakers: Vec::new(),
        });
        SimListener { index: shared.bound.len() - 1, shared: Rc::clone(&self.shared) }
    }

    /// Returns the trace so far.
    pub fn trace(&self) -> std::cell::Ref<'_, Trace> {
        self.trace.borrow()
    }

    /// Adds an event to the trace.
    pub fn note(&self, event: NetworkEvent) {
        self.trace.borrow_mut().note(event);
    }

    /// Returns the number of links with at least one end open.
    pub fn open_links(&self) -> u32 {
        *self.open_links.borrow()
    }

    /// Injects no further faults; earlier ones persist.
    pub fn calm(&self) {
        let tamper = self.tamper();
        *self.faults.borrow_mut() = Faults { tamper, ..Faults::default() };
    }

    /// Returns true if a connect to an endpoint failed, or if the network broke or stalled an
    /// established link.
    pub fn upstream_faulted(&self) -> bool {
        let links = &self.shared.borrow().links;
        self.fault_seen.get()
            || links
                .iter()
                .any(|link| link.borrow().side == LinkSide::Upstream && link.borrow().faulted)
    }

    pub(crate) fn tamper(&self) -> Tamper {
        self.faults.borrow().tamper
    }

    /// Returns everything that was written to endpoints, by the number of the link.
    pub(crate) fn taps(&self) -> Vec<(u32, Vec<u8>)> {
        let links = self.shared.borrow().links.clone();
        let tap = |link: Rc<RefCell<Link>>| Some((link.borrow().id, link.borrow().tap.clone()?));
        links.into_iter().filter_map(tap).collect()
    }

    /// Connects from a given source address; `Net::connect` uses one of the network's own.
    pub async fn connect_from(
        &self,
        source: SocketAddr,
        target: &PeerAddress,
    ) -> io::Result<SimStream> {
        let found = self
            .shared
            .borrow()
            .bound
            .iter()
            .position(|bound| bound.open && bound.address == *target);
        let Some(listener) = found else {
            return Err(io::ErrorKind::ConnectionRefused.into());
        };
        let side = self.shared.borrow().bound[listener].side;
        let faults = self.link_faults(side);
        let (refuses, hangs, closes, round_trip) = {
            let random = &mut self.shared.borrow_mut().random;
            let refuses = happens(random, faults.refuses);
            let hangs = happens(random, faults.hangs);
            let closes = happens(random, faults.closes_at_once);
            (refuses, hangs, closes, 2 * random.u64(faults.latency_ms.clone()))
        };
        if (refuses || hangs || closes) && side == LinkSide::Upstream {
            self.fault_seen.set(true);
        }
        if hangs {
            self.note(NetworkEvent::ConnectHangs { side });
            pending::<()>().await;
        }
        if round_trip > 0 {
            sleep(std::time::Duration::from_millis(round_trip)).await;
        }
        if refuses || !self.shared.borrow().bound[listener].open {
            self.note(NetworkEvent::ConnectRefused { side });
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (near, far) = self.link(side, source, target, &faults);
        if closes {
            self.note(NetworkEvent::ClosedAtOnce { link: near.link() });
            drop(far);
            return Ok(near);
        }
        let mut shared = self.shared.borrow_mut();
        let bound = &mut shared.bound[listener];
        bound.backlog.push_back((far, PeerAddress::Socket(source)));
        bound.wakers.drain(..).for_each(Waker::wake);
        Ok(near)
    }

    fn link_faults(&self, side: LinkSide) -> LinkFaults {
        let faults = self.faults.borrow();
        match side {
            LinkSide::Downstream => faults.downstream.clone(),
            LinkSide::Upstream => faults.upstream.clone(),
        }
    }

    fn link(
        &self,
        side: LinkSide,
        source: SocketAddr,
        target: &PeerAddress,
        faults: &LinkFaults,
    ) -> (SimStream, SimStream) {
        let mut shared = self.shared.borrow_mut();
        let id = shared.links.len() as u32;
        let random = shared.random.fork();
        let mut link = Link::new(id, side, faults, random, Rc::clone(&self.trace));
        // The third client is the canary's victim, because earlier ones may leave before any
        // response.
        let clients =
            shared.links.iter().filter(|link| link.borrow().side == LinkSide::Downstream).count();
        link.swallow = side == LinkSide::Downstream
            && clients == 2
            && self.tamper() == Tamper::SwallowResponses;
        let link = Rc::new(RefCell::new(link));
        shared.links.push(Rc::clone(&link));
        *self.open_links.borrow_mut() += 1;
        self.note(NetworkEvent::Connected { link: id, side });
        let local = match target {
            PeerAddress::Socket(address) => Some(*address),
            PeerAddress::Unix(_) => None,
        };
        let near = SimStream::new(
            Rc::clone(&link),
            LinkEnd::Connector,
            Some(source),
            Rc::clone(&self.open_links),
        );
        let far = SimStream::new(link, LinkEnd::Acceptor, local, Rc::clone(&self.open_links));
        (near, far)
    }

    /// Returns the next connection of a listener's backlog, as a stream.
    pub async fn accept_stream(
        &self,
        listener: &SimListener,
    ) -> io::Result<(SimStream, PeerAddress)> {
        let fails = self.faults.borrow().accept_fails;
        poll_fn(|context| {
            let mut shared = self.shared.borrow_mut();
            let side = shared.bound[listener.index].side;
            if shared.bound[listener.index].backlog.is_empty() {
                shared.bound[listener.index].wakers.push(context.waker().clone());
                return Poll::Pending;
            }
            if side == LinkSide::Downstream && happens(&mut shared.random, fails) {
                self.note(NetworkEvent::AcceptFailed { side });
                return Poll::Ready(Err(io::Error::from_raw_os_error(24)));
            }
            let accepted = shared.bound[listener.index].backlog.pop_front();
            Poll::Ready(accepted.ok_or_else(|| io::ErrorKind::WouldBlock.into()))
        })
        .await
        .inspect(|(stream, _)| {
            stream.accept();
            self.note(NetworkEvent::Accepted { link: stream.link() });
        })
    }
}

impl Net for SimNet {
    type Stream = SimStream;
    type Accepted = PendingConnection;
    type Listener = SimListener;

    async fn accept(&self, listener: &SimListener) -> io::Result<(PendingConnection, PeerAddress)> {
        let (stream, peer) = simulated(self.accept_stream(listener)).await?;
        let _scope = memory::simulation();
        let mut shared = self.shared.borrow_mut();
        let ticket = shared.next_ticket;
        shared.next_ticket += 1;
        shared.tickets.insert(ticket, stream);
        Ok((PendingConnection(ticket), peer))
    }

    fn adopt(&self, accepted: PendingConnection) -> io::Result<SimStream> {
        let _scope = memory::simulation();
        let stream = self.shared.borrow_mut().tickets.remove(&accepted.0);
        stream.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn close(&self, accepted: PendingConnection) {
        drop(self.adopt(accepted));
    }

    fn detach(&self, stream: SimStream) -> io::Result<PendingConnection> {
        let _scope = memory::simulation();
        let mut shared = self.shared.borrow_mut();
        let ticket = shared.next_ticket;
        shared.next_ticket += 1;
        shared.tickets.insert(ticket, stream);
        Ok(PendingConnection(ticket))
    }

    async fn connect(&self, address: &PeerAddress) -> io::Result<SimStream> {
        let port = {
            let mut shared = self.shared.borrow_mut();
            shared.next_port = shared.next_port.checked_add(1).unwrap_or(1024);
            shared.next_port
        };
        let source = SocketAddr::from((Ipv4Addr::new(10, 0, 0, 1), port));
        simulated(self.connect_from(source, address)).await
    }

    fn local_address(&self, stream: &SimStream) -> Option<SocketAddr> {
        stream.local()
    }
}
