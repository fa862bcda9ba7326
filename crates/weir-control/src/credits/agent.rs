//! Tells balancers in front how much of its weight this instance asks for, in the agent protocol of HAProxy (`agent-check`): whoever
//! connects gets one line with a share in percent and is done. Only the share is told: words such as `ready` would undo what the operator
//! of that balancer ordered. While this instance stops the share is `0%`, which its successor takes back.

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
use weir_proxy::shared::{BoundAddress, Process};

use super::Credits;
use crate::server::tell;

/// Who asks at once, at one address; others wait in the kernel.
const ASKING: usize = 32;
/// For a whole answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// After an accept that failed for want of files or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// What somebody who asks may say, `agent-send` in HAProxy's words. It is not looked at.
const SAID_BYTES: u64 = 4_096;

/// An agent's socket that is open.
pub(crate) struct AgentSocket {
    /// As configured.
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
    /// Where it is.
    pub(crate) fn address(&self) -> &BoundAddress {
        &self.socket.address
    }

    /// For a successor, for as long as it is accepted from.
    pub(crate) fn lent(&self) -> (ListenAddress, Weak<OwnedFd>) {
        (self.asked.clone(), Arc::downgrade(&self.socket.socket))
    }
}

/// Agents that answer; dropped, they accept nothing any more.
#[derive(Default)]
pub(crate) struct Agents(Vec<AbortHandle>);

impl Agents {
    /// Answers at these sockets.
    pub(crate) fn start(
        sockets: Vec<AgentSocket>,
        told: (&Arc<Credits>, &Arc<Process>),
        runtime: &Handle,
    ) -> Self {
        let start = |socket: AgentSocket| {
            let told = (told.0.clone(), told.1.clone());
            let serve = async move {
                if let Err(error) = serve(socket.socket, told).await {
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

/// The line that is told now.
pub(crate) fn line(credits: &Credits, process: &Process) -> String {
    let stopping = process.stopping.load(Ordering::Relaxed);
    let percent = if stopping { 0 } else { credits.weight_percent() };
    format!("{percent}%\n")
}

async fn serve(
    socket: BoundSocket,
    (credits, process): (Arc<Credits>, Arc<Process>),
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

/// Answers on a task of its own, once there is a place.
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

/// Says it, and waits until the other side has it: with something unread the end would be a reset, which takes the line with it.
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
    async fn whoever_connects_gets_a_line_and_the_end_whether_he_says_something_or_not() {
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
    async fn whoever_talks_on_and_on_is_left() {
        let (mut own, other) = duplex(64);
        let answered = tokio::spawn(async move { say(other, "42%\n").await });
        while own.write_all(&[b'x'; 64]).await.is_ok() {}
        answered.await.unwrap().unwrap();
    }
}
