//! The agent protocol of HAProxy (`agent-check`): tells balancers in front which share of its
//! weight this instance asks for. Each connection gets one line with a percentage and is closed.
//! Words such as `ready` are not sent, since they would undo orders of that balancer's operator.
//! While this instance stops, the share is `0%`, which its successor raises again.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use weir_config::Config;
use weir_config::model::ListenAddress;
use weir_proxy::bind::{BoundSocket, bind};
use weir_proxy::inherited::Inherited;
use weir_proxy::process::Process;

use super::Credits;
use crate::listeners::address::{Listening, Purpose};
use crate::logs::program_log::tell;

/// The largest number of simultaneous connections at one address; others wait in the kernel's
/// backlog.
const ASKING: usize = 32;
/// The longest that one connection may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// The pause after an accept that failed for lack of files or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// The largest number of bytes that a client may send (HAProxy's `agent-send`). They are ignored.
const SAID_BYTES: u64 = 4_096;

/// An agent's open socket.
pub(crate) struct AgentSocket {
    /// The address as configured.
    asked: ListenAddress,
    socket: BoundSocket,
}

/// Opens every agent's socket, unless it was inherited.
///
/// # Errors
/// One sentence for the operator.
pub(crate) fn open(config: &Config, inherited: &mut Inherited) -> Result<Vec<AgentSocket>, String> {
    let open = |asked: &ListenAddress| {
        Ok(AgentSocket { asked: asked.clone(), socket: bind(asked, inherited)? })
    };
    config.agent.iter().map(open).collect()
}

impl AgentSocket {
    /// The address listened on.
    pub(crate) fn listening(&self) -> Listening {
        Listening { purpose: Purpose::Agent, address: self.socket.address.clone(), tls: false }
    }

    /// The socket for a successor, valid as long as it accepts connections.
    pub(crate) fn lent(&self) -> (ListenAddress, Weak<OwnedFd>) {
        (self.asked.clone(), Arc::downgrade(&self.socket.socket))
    }
}

/// The running agents. Dropping them stops accepting.
#[derive(Default)]
pub(crate) struct Agents(Vec<AbortHandle>);

impl Agents {
    /// Serves on these sockets.
    pub(crate) fn start(
        sockets: Vec<AgentSocket>,
        credits: &Arc<Credits>,
        process: &Arc<Process>,
        runtime: &Handle,
    ) -> Self {
        let start = |socket: AgentSocket| {
            let (credits, process) = (credits.clone(), process.clone());
            let serve = async move {
                if let Err(error) = serve(socket.socket, credits, process).await {
                    tell(&format!("an agent address is not served: {error}"));
                }
            };
            runtime.spawn(serve).abort_handle()
        };
        Self(sockets.into_iter().map(start).collect())
    }
}

impl Drop for Agents {
    fn drop(&mut self) {
        self.0.iter().for_each(AbortHandle::abort);
    }
}

/// The line to send at this moment.
pub fn line(credits: &Credits, process: &Process) -> String {
    let stopping = process.stopping.load(Ordering::Relaxed);
    let percent = if stopping { 0 } else { credits.weight_percent() };
    format!("{percent}%\n")
}

async fn serve(
    socket: BoundSocket,
    credits: Arc<Credits>,
    process: Arc<Process>,
) -> io::Result<()> {
    let own = socket.socket.try_clone()?;
    let places = Arc::new(Semaphore::new(ASKING));
    let line = || line(&credits, &process);
    if socket.is_unix() {
        let listener = UnixListener::from_std(std::os::unix::net::UnixListener::from(own))?;
        loop {
            answer(listener.accept().await, line(), &places).await;
        }
    }
    let listener = TcpListener::from_std(std::net::TcpListener::from(own))?;
    loop {
        answer(listener.accept().await, line(), &places).await;
    }
}

/// Serves a connection on a task of its own, once there is a permit.
async fn answer<S, A>(accepted: io::Result<(S, A)>, line: String, places: &Arc<Semaphore>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Ok((stream, _)) = accepted else {
        sleep(ACCEPT_PAUSE).await;
        return;
    };
    let Ok(place) = places.clone().acquire_owned().await else { return };
    tokio::spawn(async move {
        let _ = timeout(PATIENCE, say(stream, &line)).await;
        drop(place);
    });
}

/// Sends the line and reads until the peer closes: closing with unread input would reset the
/// connection, and the line could be lost.
async fn say(mut stream: impl AsyncRead + AsyncWrite + Unpin, line: &str) -> io::Result<()> {
    stream.write_all(line.as_bytes()).await?;
    stream.shutdown().await?;
    let mut said = [0; 256];
    let mut left = SAID_BYTES;
    loop {
        let count = stream.read(&mut said).await? as u64;
        if count == 0 || count >= left {
            return Ok(());
        }
        left -= count;
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;

    use super::*;

    #[tokio::test]
    async fn a_client_gets_a_line_and_the_end_whether_it_sends_something_or_not() {
        for said in ["", "weir\n"] {
            let (mut own, other) = duplex(64);
            let answered = tokio::spawn(async move { say(other, "42%\n").await });
            own.write_all(said.as_bytes()).await.unwrap();
            let mut text = String::new();
            own.read_to_string(&mut text).await.unwrap();
            assert_eq!(text, "42%\n");
            drop(own);
            answered.await.unwrap().unwrap();
        }
    }

    #[tokio::test]
    async fn a_peer_that_never_stops_sending_is_closed() {
        let (mut own, other) = duplex(64);
        let answered = tokio::spawn(async move { say(other, "42%\n").await });
        while own.write_all(&[b'x'; 64]).await.is_ok() {}
        answered.await.unwrap().unwrap();
    }
}
