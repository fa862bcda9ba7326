//! The TCP probe: a connection and, if configured, a text to send and one to receive.

use tokio::io::AsyncWriteExt;
use weir_config::model::TcpProbe;

use super::connect::ProbeStream;
use super::reply::{Heard, ProbeFailure, ReplyPhase};

/// Sends the configured text and waits for the expected one; without either, the connection alone
/// is the probe.
pub(super) async fn ask(
    probe: &TcpProbe,
    stream: &mut ProbeStream,
    heard: &mut Heard,
) -> Result<(), ProbeFailure> {
    if let Some(text) = &probe.send {
        heard.phase = ReplyPhase::Sending;
        stream.write_all(text.as_bytes()).await.map_err(|error| heard.broken(&error))?;
        stream.flush().await.map_err(|error| heard.broken(&error))?;
    }
    let Some(expected) = &probe.expect else { return Ok(()) };
    heard.phase = ReplyPhase::Reading;
    while heard.read(stream).await.map_err(|error| heard.broken(&error))? > 0 {
        if expected.is_in(&heard.bytes) {
            return Ok(());
        }
    }
    Err(heard.failure(format!("the reply does not contain `{expected}`")))
}
