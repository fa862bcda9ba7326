//! Accepting on the admin sockets, whose number of connections is bounded. The first byte of a
//! connection selects its protocol: HTTP requests begin with a capital letter, commands of
//! HAProxy's command line do not.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;
use tokio_rustls::rustls::ServerConnection;
use weir_config::model::AdminListener;
use weir_control::admin_port::{AdminKeys, AdminSocket, LAST_WORDS};
use weir_proxy::tls::certificate_names;

use super::http;
use crate::access::caller::Visitor;
use crate::access::seats::{CallerStanding, PROOF_PATIENCE, Seats};
use crate::context::AdminContext;
use crate::haproxy;
use crate::stream::AdminStream;

/// The pause after an accept that failed for lack of files or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Accepts until the future is dropped, which closes the socket. Connections end soon after the
/// sender of `life` is dropped.
pub(crate) async fn accept(
    socket: AdminSocket,
    context: Arc<AdminContext>,
    connected: mpsc::Sender<()>,
    life: watch::Receiver<()>,
) -> io::Result<()> {
    let place: Rc<str> = socket.listening().place().into();
    let room = AddressRoom { seats: Seats::new(context.sources.seats.clone()), connected, life };
    let own = socket.socket.socket.try_clone()?;
    let is_unix = socket.socket.is_unix();
    let names = socket.model.names.iter().chain(socket.keys.tls.iter().flat_map(|tls| &tls.names));
    let names: Arc<[String]> = names.cloned().collect();
    let address = Rc::new(AdminAddress { model: socket.model, keys: socket.keys, place, names });
    if is_unix {
        let listener = std::os::unix::net::UnixListener::from(own);
        let listener = UnixListener::from_std(listener)?;
        loop {
            let Some((stream, _)) = accepted(listener.accept().await).await else { continue };
            let visitor = address.local(&stream);
            attend(&room, &context, async move { Some((stream, visitor)) }, Speaks::Both);
        }
    }
    let listener = std::net::TcpListener::from(own);
    let listener = TcpListener::from_std(listener)?;
    loop {
        let Some((stream, peer)) = accepted(listener.accept().await).await else { continue };
        let (address, peer) = (address.clone(), peer.to_string());
        match address.keys.tls.clone() {
            None => {
                let visitor = address.remote(&peer, None);
                attend(&room, &context, async move { Some((stream, visitor)) }, Speaks::Http);
            }
            Some(tls) => {
                let entered = async move {
                    let stream = weir_proxy::tls::accept(&tls.config, stream).await.ok()?;
                    let names = client_names(stream.get_ref().1);
                    Some((stream, address.remote(&peer, names.as_deref())))
                };
                attend(&room, &context, entered, Speaks::Http);
            }
        }
    }
}

/// An address, with the data for its connections.
struct AdminAddress {
    model: AdminListener,
    keys: AdminKeys,
    place: Rc<str>,
    names: Arc<[String]>,
}

impl AdminAddress {
    /// A client over a Unix socket.
    fn local(&self, stream: &UnixStream) -> Visitor {
        let uid = stream.peer_cred().ok().map(|peer| peer.uid());
        Visitor {
            who: format!("{} over {}", peer_of(stream), self.place),
            uid,
            right: self.keys.right_of_user(&self.model, uid),
            standing: CallerStanding::Known,
            tokens: Arc::clone(&self.keys.tokens),
            names: Arc::clone(&self.names),
        }
    }

    /// A client over TCP, with the names in its certificate, if it showed one.
    fn remote(&self, peer: &str, names: Option<&[String]>) -> Visitor {
        let place = &self.place;
        let (who, standing, right) = match names {
            None => {
                let right = self.keys.right_of_nobody(&self.model);
                (format!("{peer} over {place}"), CallerStanding::Unproven, right)
            }
            Some(names) => {
                let name = names.first().map_or("without a name", String::as_str);
                let right = self.keys.right_of_certificate(self.model.access, names);
                let who = format!("the certificate {name} from {peer} over {place}");
                (who, CallerStanding::Known, right)
            }
        };
        let (tokens, names) = (Arc::clone(&self.keys.tokens), Arc::clone(&self.names));
        Visitor { who, uid: None, right, standing, tokens, names }
    }
}

/// The names in a client's certificate.
fn client_names(connection: &ServerConnection) -> Option<Vec<String>> {
    let leaf = connection.peer_certificates()?.first()?;
    Some(certificate_names(leaf))
}

/// The accepted connection; after a failure, for lack of files or memory, `None` after a pause.
async fn accepted<A>(result: io::Result<A>) -> Option<A> {
    if result.is_err() {
        sleep(ACCEPT_PAUSE).await;
    }
    result.ok()
}

/// The process at the other end of a Unix socket, as the kernel reports it.
fn peer_of(stream: &UnixStream) -> String {
    let Ok(peer) = stream.peer_cred() else { return "an unknown process".to_owned() };
    match peer.pid() {
        Some(pid) => format!("uid {} (pid {pid})", peer.uid()),
        None => format!("uid {}", peer.uid()),
    }
}

/// The protocols allowed on a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Speaks {
    /// Only HTTP: HAProxy's command line has no place for a token.
    Http,
    /// HTTP and HAProxy's command line.
    Both,
}

/// The room for connections to one address.
struct AddressRoom {
    seats: Rc<Seats>,
    /// Each connection holds a clone.
    connected: mpsc::Sender<()>,
    life: watch::Receiver<()>,
}

/// Serves a connection on a task of its own, once the future `entered` has accepted it.
fn attend<S>(
    room: &AddressRoom,
    context: &Arc<AdminContext>,
    entered: impl Future<Output = Option<(S, Visitor)>> + 'static,
    speaks: Speaks,
) where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let (context, seat) = (context.clone(), Rc::new(room.seats.enter()));
    let (connected, life) = (room.connected.clone(), room.life.clone());
    tokio::task::spawn_local(async move {
        let served = async {
            let Some((stream, visitor)) = entered.await else { return };
            let (visitor, seat) = (Rc::new(visitor), seat.clone());
            let mut stream = AdminStream::new(stream, PROOF_PATIENCE);
            if let Ok(Some(first)) = stream.peek().await {
                if speaks == Speaks::Http || first.is_ascii_uppercase() {
                    http::serve(stream, context, visitor, seat).await;
                } else {
                    haproxy::serve(stream, &context, &visitor, &seat).await;
                }
            }
        };
        tokio::select! {
            () = served => {}
            () = over(life) => {}
            () = seat.lost() => {}
        }
        drop(connected);
    });
}

/// Waits until the rules under which a connection was accepted no longer apply, and then for as
/// long as its last response may take.
async fn over(mut life: watch::Receiver<()>) {
    while life.changed().await.is_ok() {}
    sleep(LAST_WORDS).await;
}
