//! The TCP probe: a connection, and perhaps a line said and one heard.

use tokio::io::AsyncWriteExt;
use weir_config::model::TcpProbe;

use super::connect::Stream;
use super::reply::{Failure, Heard, Phase};

/// Says what is to be said and waits for what is to be heard; without either, the connection was the answer.
pub(super) async fn ask(
    probe: &TcpProbe,
    stream: &mut Stream,
    heard: &mut Heard,
) -> Result<(), Failure> {
    if let Some(text) = &probe.send {
        heard.phase = Phase::Sending;
        stream.write_all(text.as_bytes()).await.map_err(|error| heard.broken(&error))?;
        stream.flush().await.map_err(|error| heard.broken(&error))?;
    }
    let Some(expected) = &probe.expect else { return Ok(()) };
    heard.phase = Phase::Reading;
    while heard.read(stream).await.map_err(|error| heard.broken(&error))? > 0 {
        if expected.is_in(&heard.bytes) {
            return Ok(());
        }
    }
    Err(heard.failure(format!("the reply does not have `{expected}`")))
}
