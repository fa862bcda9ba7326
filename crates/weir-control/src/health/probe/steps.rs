//! The conversation of a TCP probe: connections, texts to send and texts to receive, one after the
//! other. The probe's timeout bounds it as a whole.

use tokio::io::AsyncWriteExt;
use weir_config::model::{ProbeConnect, ProbeStep, SendProxy};
use weir_config::pattern::ContentPattern;
use weir_proxy::net::PeerAddress;

use super::at_port;
use super::connect::{ProbeStream, ProbeTls, connect};
use super::reply::{Heard, ProbeFailure, ReplyPhase};

/// The connections that a conversation can open.
pub(super) struct Conversation<'a> {
    pub(super) address: &'a PeerAddress,
    /// The version of the PROXY header of the pool.
    pub(super) send_proxy: Option<SendProxy>,
    /// The TLS parameters of the pool.
    pub(super) tls: Option<&'a ProbeTls>,
}

impl Conversation<'_> {
    /// Takes all steps, up to the first that fails.
    pub(super) async fn hold(
        &self,
        steps: &[ProbeStep],
        heard: &mut Heard,
    ) -> Result<(), ProbeFailure> {
        let mut stream = match steps.first() {
            Some(ProbeStep::Connect(_)) => None,
            _ => Some(connect(self.address, self.send_proxy, None, heard).await?),
        };
        for (number, step) in steps.iter().enumerate() {
            heard.note_step(number);
            if let ProbeStep::Connect(wanted) = step {
                // The one before is closed first: a server may serve one at a time.
                drop(stream.take());
                stream = Some(self.connect(*wanted, heard).await?);
                continue;
            }
            let Some(stream) = &mut stream else { continue };
            match step {
                ProbeStep::Connect(_) => {}
                ProbeStep::Send(text) => send(text.as_bytes(), stream, heard).await?,
                ProbeStep::SendHex(bytes) => send(bytes.bytes(), stream, heard).await?,
                ProbeStep::Expect(text) => expect(text, stream, heard).await?,
                ProbeStep::ExpectNot(text) => expect_not(text, stream, heard).await?,
            }
        }
        Ok(())
    }

    async fn connect(
        &self,
        wanted: ProbeConnect,
        heard: &mut Heard,
    ) -> Result<ProbeStream, ProbeFailure> {
        heard.phase = ReplyPhase::Connecting;
        heard.bytes.clear();
        let version = self.send_proxy.unwrap_or(SendProxy::V1);
        let send_proxy = wanted.send_proxy.then_some(version);
        let tls = self.tls.filter(|_| wanted.tls);
        connect(&at_port(self.address, wanted.port), send_proxy, tls, heard).await
    }
}

async fn send(
    bytes: &[u8],
    stream: &mut ProbeStream,
    heard: &mut Heard,
) -> Result<(), ProbeFailure> {
    heard.phase = ReplyPhase::Sending;
    heard.bytes.clear();
    stream.write_all(bytes).await.map_err(|error| heard.broken(&error))?;
    stream.flush().await.map_err(|error| heard.broken(&error))
}

async fn expect(
    expected: &ContentPattern,
    stream: &mut ProbeStream,
    heard: &mut Heard,
) -> Result<(), ProbeFailure> {
    heard.phase = ReplyPhase::Reading;
    while !expected.is_in(&heard.bytes) {
        if heard.read(stream).await.map_err(|error| heard.broken(&error))? == 0 {
            return Err(heard.failure(format!("the reply does not contain `{expected}`")));
        }
    }
    Ok(())
}

/// Judges what has come once that is enough for the text, as HAProxy does: it cannot wait for a text
/// that is not to come.
async fn expect_not(
    unwanted: &ContentPattern,
    stream: &mut ProbeStream,
    heard: &mut Heard,
) -> Result<(), ProbeFailure> {
    heard.phase = ReplyPhase::Reading;
    while heard.bytes.len() < unwanted.least_bytes() {
        if heard.read(stream).await.map_err(|error| heard.broken(&error))? == 0 {
            if heard.bytes.is_empty() {
                return Err(heard.failure("connection closed without a reply"));
            }
            break;
        }
    }
    if unwanted.is_in(&heard.bytes) {
        return Err(heard.failure(format!("the reply contains `{unwanted}`")));
    }
    Ok(())
}
