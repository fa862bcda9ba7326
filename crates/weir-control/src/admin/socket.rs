//! The admin sockets: opened with their owner and mode before anybody can connect, and accepted from with a bound on how many are
//! there at once. The first byte says what a connection speaks: requests of HTTP begin with a capital letter, commands of HAProxy's
//! command line do not.

use std::io;
use std::os::unix::fs::lchown;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{sleep, timeout};
use weir_config::model::{AdminAccess, AdminListener, ListenAddress};
use weir_proxy::bind::{BoundSocket, bind_with, set_mode};
use weir_proxy::inherited::Inherited;
use weir_proxy::shared::BoundAddress;

use super::caller::{Caller, Right};
use super::context::Context;
use super::stream::AdminStream;
use super::token::Token;
use super::{LAST_WORDS, haproxy, http};
use crate::rights::{group_called, user_called};

/// Connections to one address at once. Whoever floods one does not shut out who comes over another.
const CONNECTIONS: usize = 64;
/// For the first byte.
const FIRST_PATIENCE: Duration = Duration::from_secs(10);
/// To tell somebody that there is no room.
const REFUSAL_PATIENCE: Duration = Duration::from_millis(100);
/// After an accept that failed for want of files or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// An admin socket that is open, and what may be done over it.
pub(crate) struct AdminSocket {
    pub(super) model: AdminListener,
    pub(super) keys: Keys,
    pub(super) socket: BoundSocket,
}

/// What the words of a listener stand for.
#[derive(Clone, PartialEq)]
pub(super) struct Keys {
    token: Option<Arc<Token>>,
    owner: Option<u32>,
    group: Option<u32>,
}

impl Keys {
    /// Reads the token, and looks user and group up.
    ///
    /// # Errors
    /// One sentence for the operator.
    pub(super) fn of(listener: &AdminListener) -> Result<Self, String> {
        let belongs = |error| format!("{error} for the admin socket to belong to");
        let owner = listener.owner.as_deref().map(user_called).transpose().map_err(belongs)?;
        let group = listener.group.as_deref().map(group_called).transpose().map_err(belongs)?;
        let token = listener.token_file.as_deref().map(Token::read).transpose()?;
        let (owner, group) = (owner.map(Into::into), group.map(Into::into));
        Ok(Self { token: token.map(Arc::new), owner, group })
    }

    fn give(&self, path: &Path) -> io::Result<()> {
        if self.owner.is_some() || self.group.is_some() {
            // Of a link that somebody put there, itself.
            lchown(path, self.owner, self.group)?;
        }
        Ok(())
    }
}

impl AdminSocket {
    /// Opens it, unless it was inherited.
    ///
    /// # Errors
    /// One sentence for the operator.
    pub(super) fn open(
        listener: &AdminListener,
        keys: Keys,
        inherited: &mut Inherited,
    ) -> Result<Self, String> {
        let socket = bind_with(&listener.address, inherited, |path| keys.give(path))?;
        Ok(Self { model: listener.clone(), keys, socket })
    }

    /// Where it is.
    pub(crate) fn address(&self) -> &BoundAddress {
        &self.socket.address
    }

    /// Gives one that is open its owner and its mode; a line when that did not work.
    pub(super) fn change_owner(&self) -> Option<String> {
        let ListenAddress::Unix { path, mode } = &self.model.address else { return None };
        let error = self.keys.give(path).and_then(|()| set_mode(path, *mode)).err()?;
        Some(format!("cannot change owner and mode of unix:{}: {error}", path.display()))
    }

    /// Accepts for ever. Whoever gives that up closes the socket. Connections end soon after the other side of `life` is gone.
    pub(super) async fn accept(
        self,
        (context, connected): (Arc<Context>, mpsc::Sender<()>),
        life: watch::Receiver<()>,
    ) -> io::Result<()> {
        let place = match &self.socket.address {
            BoundAddress::Socket(address) => address.to_string(),
            BoundAddress::Unix(path) => format!("unix:{}", path.display()),
        };
        let room = Room { places: Arc::new(Semaphore::new(CONNECTIONS)), connected, life };
        let own = self.socket.socket.try_clone()?;
        let right = match self.model.access {
            AdminAccess::Write => Right::Write,
            AdminAccess::ReadOnly => Right::Read,
        };
        let token = self.keys.token.clone();
        let caller = |who: String| {
            let who = format!("{who} over {place}");
            Rc::new(Caller { who, uid: None, right, token: token.clone() })
        };
        let local = |stream: &UnixStream| {
            let uid = stream.peer_cred().ok().map(|peer| peer.uid());
            Rc::new(Caller { uid, ..Rc::unwrap_or_clone(caller(peer_of(stream))) })
        };
        if self.socket.is_unix() {
            let listener = std::os::unix::net::UnixListener::from(own);
            let listener = UnixListener::from_std(listener)?;
            loop {
                let Some((stream, _)) = accepted(listener.accept().await).await else { continue };
                attend(stream, Speaks::Both, (&room, &context), local);
            }
        }
        let listener = std::net::TcpListener::from(own);
        let listener = TcpListener::from_std(listener)?;
        let brought = if token.is_some() { "the token from " } else { "" };
        loop {
            let Some((stream, peer)) = accepted(listener.accept().await).await else { continue };
            let who = format!("{brought}{peer}");
            attend(stream, Speaks::Http, (&room, &context), |_| caller(who));
        }
    }
}

/// What was accepted; after a failure, for want of files or memory, a pause.
async fn accepted<A>(result: io::Result<A>) -> Option<A> {
    if result.is_err() {
        sleep(ACCEPT_PAUSE).await;
    }
    result.ok()
}

/// Who is at the other end of a Unix socket, by the kernel's word.
fn peer_of(stream: &UnixStream) -> String {
    let Ok(peer) = stream.peer_cred() else { return "somebody".to_owned() };
    match peer.pid() {
        Some(pid) => format!("uid {} (pid {pid})", peer.uid()),
        None => format!("uid {}", peer.uid()),
    }
}

/// What may be spoken over a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Speaks {
    /// Only HTTP: a command line has no place for a token.
    Http,
    /// HTTP and HAProxy's command line.
    Both,
}

/// Room for connections to one address.
struct Room {
    places: Arc<Semaphore>,
    /// Each connection holds one.
    connected: mpsc::Sender<()>,
    life: watch::Receiver<()>,
}

/// Serves a connection on a task of its own, or tells it that there is no room.
fn attend<S>(
    stream: S,
    speaks: Speaks,
    (room, context): (&Room, &Arc<Context>),
    caller: impl FnOnce(&S) -> Rc<Caller>,
) where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let Ok(place) = room.places.clone().try_acquire_owned() else {
        tokio::task::spawn_local(refuse(stream));
        return;
    };
    let (context, caller) = (context.clone(), caller(&stream));
    let (connected, life) = (room.connected.clone(), room.life.clone());
    tokio::task::spawn_local(async move {
        let served = async {
            let mut stream = AdminStream::new(stream, FIRST_PATIENCE);
            if let Ok(Some(first)) = stream.peek().await {
                if speaks == Speaks::Http || first.is_ascii_uppercase() {
                    http::serve(stream, context, caller).await;
                } else {
                    haproxy::serve(stream, &context, &caller).await;
                }
            }
        };
        tokio::select! {
            () = served => {}
            () = over(life) => {}
        }
        drop((place, connected));
    });
}

/// Waits until what a connection came in by does not hold any more, and for as long as its last answer may take.
async fn over(mut life: watch::Receiver<()>) {
    while life.changed().await.is_ok() {}
    sleep(LAST_WORDS).await;
}

async fn refuse(mut stream: impl AsyncWrite + Unpin) {
    let body = "{\"error\": {\"field\": null, \"message\": \"too many admin connections\"}}\n";
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    let _ = timeout(REFUSAL_PATIENCE, stream.write_all(answer.as_bytes())).await;
}
