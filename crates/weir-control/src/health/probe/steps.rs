//! The conversation of a TCP probe: connections, texts to send and texts to receive, one after the
//! other. The probe's timeout bounds it as a whole.

use tokio::io::AsyncWriteExt;
use weir_config::model::{ProbeConnect, ProbeStep, ReplyExpectation, SendProxy};

use super::at_port;
use super::connect::{ProbeStart, ProbeStream, ProbeTls, connect};
use super::reply::{Heard, ProbeFailure, ReplyPhase};

/// The connections that a conversation can open.
pub(super) struct Conversation<'a> {
    /// The first one.
    pub(super) start: ProbeStart<'a>,
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
            _ => Some(connect(self.start, None, heard).await?),
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
                ProbeStep::Expect(expected) => expect(expected, stream, heard).await?,
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
        let version = self.start.send_proxy.unwrap_or(SendProxy::V1);
        let address = &at_port(self.start.address, wanted.port);
        let send_proxy = wanted.send_proxy.then_some(version);
        let tls = self.tls.filter(|_| wanted.tls);
        connect(ProbeStart { address, send_proxy, ..self.start }, tls, heard).await
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

/// Judges the reply once enough of it has come, as HAProxy does: without a number of bytes the text
/// may come at any time up to the end.
async fn expect(
    expectation: &ReplyExpectation,
    stream: &mut ProbeStream,
    heard: &mut Heard,
) -> Result<(), ProbeFailure> {
    let ReplyExpectation { text, absent, min_bytes } = expectation;
    let least = min_bytes.map_or(0, |bytes| bytes as usize).max(text.least_bytes());
    heard.phase = ReplyPhase::Reading;
    let mut ended = false;
    loop {
        if ended && heard.bytes.is_empty() {
            return Err(heard.failure("connection closed without a reply"));
        }
        if ended || heard.bytes.len() >= least {
            match (text.is_in(&heard.bytes), absent) {
                (true, true) => {
                    return Err(heard.failure(format!("the reply contains `{text}`")));
                }
                (true, false) => return Ok(()),
                (false, true) if ended || min_bytes.is_some() => return Ok(()),
                (false, false) if ended || min_bytes.is_some() => {
                    return Err(heard.failure(format!("the reply does not contain `{text}`")));
                }
                (false, _) => {}
            }
        }
        ended = heard.read(stream).await.map_err(|error| heard.broken(&error))? == 0;
    }
}
