//! The admin sockets: they get their owner and mode before they accept, and the number of
//! connections is bounded. The first byte of a connection selects its protocol: HTTP requests begin
//! with a capital letter, commands of HAProxy's command line do not.

use std::io;
use std::os::unix::fs::lchown;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{self, Context as Digester, Digest};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;
use tokio_rustls::rustls::{ServerConfig, ServerConnection};
use weir_config::model::{AdminAccess, AdminListener, AdminTls, ListenAddress, RoleGrant};
use weir_proxy::bind::{BoundSocket, bind_with, set_mode};
use weir_proxy::inherited::Inherited;
use weir_proxy::tls::{
    CertificateMaterial, ClientCertificates, Demand, PemFile, ProtocolSettings, ServerTls, Tickets,
    certificate_names,
};

use super::stream::AdminStream;
use super::{LAST_WORDS, haproxy, http};
use crate::admin::access::caller::{Right, Visitor, is_owner};
use crate::admin::access::seats::{PROOF_PATIENCE, Seats, Standing};
use crate::admin::context::Context;
use crate::listeners::address::{Listening, Purpose};
use crate::listeners::token::Token;
use crate::logs::program_log::warn;
use crate::rights::{group_called, user_called};

/// The pause after an accept that failed for lack of files or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// An open admin socket with its access rules.
pub(crate) struct AdminSocket {
    pub(crate) model: AdminListener,
    pub(crate) keys: Keys,
    pub(crate) socket: BoundSocket,
}

/// The credentials that a listener accepts, resolved from its configuration.
#[derive(Clone, PartialEq)]
pub(crate) struct Keys {
    /// The right that each token gives.
    tokens: Arc<[(Right, Token)]>,
    /// The rights of users at a Unix socket.
    users: Vec<(Right, u32)>,
    /// The rights that names in client certificates give.
    certificates: Vec<(Right, String)>,
    tls: Option<Tls>,
    owner: Option<u32>,
    group: Option<u32>,
}

/// The TLS settings of an address.
#[derive(Clone)]
struct Tls {
    config: Arc<ServerConfig>,
    /// The names in the certificate.
    names: Vec<String>,
    /// The fingerprint of the files from which it was made.
    fingerprint: Digest,
}

impl PartialEq for Tls {
    fn eq(&self, other: &Self) -> bool {
        self.fingerprint.as_ref() == other.fingerprint.as_ref()
    }
}

impl Tls {
    /// Reads the certificate, key and authorities.
    ///
    /// # Errors
    /// One sentence for the operator.
    fn read(tls: &AdminTls, demand: Demand) -> Result<Self, String> {
        let mut digester = Digester::new(&digest::SHA256);
        let mut read = |path: &Path| {
            let label = path.display().to_string();
            let bytes =
                std::fs::read(path).map_err(|error| format!("cannot read {label}: {error}"));
            let bytes = bytes?;
            digester.update(&(bytes.len() as u64).to_le_bytes());
            digester.update(&bytes);
            Ok::<_, String>(PemFile { label, bytes: bytes.into() })
        };
        let chain = read(&tls.certificate.chain)?;
        let key = tls.certificate.key.as_deref().map(&mut read).transpose()?;
        let clients = match tls.client_ca.as_deref() {
            Some(path) => Some(ClientCertificates { ca: read(path)?, demand }),
            None => None,
        };
        let materials = [CertificateMaterial { chain, key }];
        let failed = |error: weir_proxy::tls::TlsError| error.to_string();
        let tickets = Tickets::new().map_err(failed)?;
        let protocol = ProtocolSettings::default();
        let server = ServerTls::with_clients(&materials, &protocol, tickets, clients.as_ref());
        let ServerTls { config, names, warnings } = server.map_err(failed)?;
        for warning in &warnings {
            warn(warning);
        }
        Ok(Self { config, names, fingerprint: digester.finish() })
    }
}

impl Keys {
    /// Reads tokens and certificates, and looks up users and the group.
    ///
    /// # Errors
    /// One sentence for the operator.
    pub(crate) fn of(listener: &AdminListener) -> Result<Self, String> {
        let belongs = |error| format!("{error} for the admin socket to belong to");
        let owner = listener.owner.as_deref().map(user_called).transpose().map_err(belongs)?;
        let group = listener.group.as_deref().map(group_called).transpose().map_err(belongs)?;
        let (owner, group) = (owner.map(Into::into), group.map(Into::into));
        let most = Right::most(listener.access);
        let mut tokens = Vec::new();
        if let Some(path) = &listener.token_file {
            tokens.push((most, Token::read(path)?));
        }
        let (mut users, mut certificates) = (Vec::new(), Vec::new());
        for RoleGrant { role, user, token_file, certificate } in &listener.roles {
            let right = Right::from(*role).min(most);
            if let Some(path) = token_file {
                tokens.push((right, Token::read(path)?));
            }
            if let Some(name) = user {
                let user = user_called(name).map_err(|error| format!("{error} to have a role"))?;
                users.push((right, user.as_raw()));
            }
            certificates.extend(certificate.iter().map(|name| (right, name.to_ascii_lowercase())));
        }
        let demand = if tokens.is_empty() { Demand::Required } else { Demand::Optional };
        let tls = listener.tls.as_ref().map(|tls| Tls::read(tls, demand)).transpose()?;
        Ok(Self { tokens: tokens.into(), users, certificates, tls, owner, group })
    }

    /// The right of a user at a Unix socket; root and the user of this process have the most that
    /// the address allows.
    fn right_of_user(&self, access: AdminAccess, uid: Option<u32>) -> Option<Right> {
        let most = Right::most(access);
        if self.users.is_empty() || is_owner(uid) {
            return Some(most);
        }
        let granted = self.users.iter().filter(|(_, user)| Some(*user) == uid);
        let open = (access == AdminAccess::ReadOnly).then_some(Right::Read);
        granted.map(|(right, _)| *right).max().or(open)
    }

    /// The right that a client certificate with these names gives.
    fn right_of_certificate(&self, access: AdminAccess, names: &[String]) -> Option<Right> {
        if self.certificates.is_empty() {
            return Some(Right::most(access));
        }
        let granted = self.certificates.iter().filter(|(_, name)| names.contains(name));
        granted.map(|(right, _)| *right).max()
    }

    /// The right of a TCP client without credentials.
    fn right_of_nobody(&self, listener: &AdminListener) -> Option<Right> {
        let asks = !self.tokens.is_empty()
            || listener.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
        (!asks).then_some(Right::most(listener.access))
    }

    fn give(&self, path: &Path) -> io::Result<()> {
        if self.owner.is_some() || self.group.is_some() {
            // If the path is a symbolic link, the link itself changes its owner.
            lchown(path, self.owner, self.group)?;
        }
        Ok(())
    }
}

impl AdminSocket {
    /// Opens the socket, unless it was inherited.
    ///
    /// # Errors
    /// One sentence for the operator.
    pub(crate) fn open(
        listener: &AdminListener,
        keys: Keys,
        inherited: &mut Inherited,
    ) -> Result<Self, String> {
        let socket = bind_with(&listener.address, inherited, |path| keys.give(path))?;
        Ok(Self { model: listener.clone(), keys, socket })
    }

    /// The address listened on.
    pub(crate) fn listening(&self) -> Listening {
        let (purpose, address) = (Purpose::Admin, self.socket.address.clone());
        Listening { purpose, address, tls: self.keys.tls.is_some() }
    }

    /// Gives an open socket its owner and mode; returns a line if that failed.
    pub(crate) fn change_owner(&self) -> Option<String> {
        let ListenAddress::Unix { path, mode } = &self.model.address else { return None };
        let error = self.keys.give(path).and_then(|()| set_mode(path, *mode)).err()?;
        Some(format!("cannot change owner and mode of unix:{}: {error}", path.display()))
    }

    /// Accepts until the future is dropped, which closes the socket. Connections end soon after the
    /// sender of `life` is dropped.
    pub(crate) async fn accept(
        self,
        (context, connected): (Arc<Context>, mpsc::Sender<()>),
        life: watch::Receiver<()>,
    ) -> io::Result<()> {
        let place: Rc<str> = self.listening().place().into();
        let room = Room { seats: Seats::new(context.seats.clone()), connected, life };
        let own = self.socket.socket.try_clone()?;
        let is_unix = self.socket.is_unix();
        let names = self.model.names.iter().chain(self.keys.tls.iter().flat_map(|tls| &tls.names));
        let names: Arc<[String]> = names.cloned().collect();
        let door = Rc::new(Door { model: self.model, keys: self.keys, place, names });
        if is_unix {
            let listener = std::os::unix::net::UnixListener::from(own);
            let listener = UnixListener::from_std(listener)?;
            loop {
                let Some((stream, _)) = accepted(listener.accept().await).await else { continue };
                let visitor = door.local(&stream);
                attend(&room, &context, async move { Some((stream, visitor)) }, Speaks::Both);
            }
        }
        let listener = std::net::TcpListener::from(own);
        let listener = TcpListener::from_std(listener)?;
        loop {
            let Some((stream, peer)) = accepted(listener.accept().await).await else { continue };
            let (door, peer) = (door.clone(), peer.to_string());
            match door.keys.tls.clone() {
                None => {
                    let visitor = door.remote(&peer, None);
                    attend(&room, &context, async move { Some((stream, visitor)) }, Speaks::Http);
                }
                Some(tls) => {
                    let entered = async move {
                        let stream = weir_proxy::tls::accept(&tls.config, stream).await.ok()?;
                        let names = client_names(stream.get_ref().1);
                        Some((stream, door.remote(&peer, names.as_deref())))
                    };
                    attend(&room, &context, entered, Speaks::Http);
                }
            }
        }
    }
}

/// An address, with the data for its connections.
struct Door {
    model: AdminListener,
    keys: Keys,
    place: Rc<str>,
    names: Arc<[String]>,
}

impl Door {
    /// A client over a Unix socket.
    fn local(&self, stream: &UnixStream) -> Visitor {
        let uid = stream.peer_cred().ok().map(|peer| peer.uid());
        Visitor {
            who: format!("{} over {}", peer_of(stream), self.place),
            uid,
            right: self.keys.right_of_user(self.model.access, uid),
            standing: Standing::Known,
            tokens: Arc::new([]),
            names: Arc::clone(&self.names),
        }
    }

    /// A client over TCP, with the names in its certificate, if it showed one.
    fn remote(&self, peer: &str, names: Option<&[String]>) -> Visitor {
        let place = &self.place;
        let (who, standing, right) = match names {
            None => {
                let right = self.keys.right_of_nobody(&self.model);
                (format!("{peer} over {place}"), Standing::Unproven, right)
            }
            Some(names) => {
                let name = names.first().map_or("without a name", String::as_str);
                let right = self.keys.right_of_certificate(self.model.access, names);
                let who = format!("the certificate {name} from {peer} over {place}");
                (who, Standing::Known, right)
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

impl Right {
    /// The most that an address allows.
    fn most(access: AdminAccess) -> Self {
        match access {
            AdminAccess::Write => Self::Admin,
            AdminAccess::ReadOnly => Self::Read,
        }
    }
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
    let Ok(peer) = stream.peer_cred() else { return "somebody".to_owned() };
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
struct Room {
    seats: Rc<Seats>,
    /// Each connection holds a clone.
    connected: mpsc::Sender<()>,
    life: watch::Receiver<()>,
}

/// Serves a connection on a task of its own, once the future `entered` has accepted it.
fn attend<S>(
    room: &Room,
    context: &Arc<Context>,
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
