//! The HTTP probe over HTTP/2: carries the request, which is HTTP/1 text, to the server as a
//! stream, and gives its response as such a text. `http.rs` judges it.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use bytes::Bytes;
use http::uri::Scheme;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use weir_config::model::check::REPLY_BYTES;
use weir_proxy::http::http2_head;

use super::connect::ProbeStream;
use super::http::HttpQuestion;
use super::reply::{Heard, ProbeFailure, ReplyPhase};

/// The most bytes of a request's head.
const HEAD_BYTES: usize = 64 * 1024;

/// Asks over a connection that speaks HTTP/2.
pub(super) async fn ask(
    question: &HttpQuestion,
    stream: ProbeStream,
    scheme: &Scheme,
    heard: &mut Heard,
) -> Result<(), ProbeFailure> {
    heard.phase = ReplyPhase::Sending;
    let (near, far) = duplex(REPLY_BYTES);
    let mut near: ProbeStream = Box::new(near);
    let mut carried = pin!(carry(stream, far, scheme));
    let failure = {
        let mut asked = pin!(question.ask(&mut near, heard));
        tokio::select! {
            biased;
            answer = &mut asked => return answer,
            carried = &mut carried => match carried {
                Ok(()) => return asked.await,
                Err(reason) => reason,
            },
        }
    };
    Err(heard.failure(format!("HTTP/2: {failure}")))
}

/// Carries one request and its response.
async fn carry(stream: ProbeStream, mut text: DuplexStream, scheme: &Scheme) -> Result<(), String> {
    let mut request = Vec::new();
    let head = loop {
        if let Some(end) = request.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            break end + 4;
        }
        if request.len() > HEAD_BYTES || !matches!(text.read_buf(&mut request).await, Ok(1..)) {
            return Err("the request has no end".to_owned());
        }
    };
    // A body is written with its head.
    let body = Bytes::copy_from_slice(request.get(head..).unwrap_or_default());
    let request = http2_head::request(request.get(..head).unwrap_or_default(), scheme);
    let request = request.ok_or("the request cannot be expressed")?;
    let said = |error: h2::Error| error.to_string();
    let mut builder = h2::client::Builder::new();
    builder.enable_push(false).max_header_list_size(HEAD_BYTES as u32);
    let (sender, connection) = builder.handshake::<_, Bytes>(stream).await.map_err(said)?;
    let exchange = async {
        let mut sender = sender.ready().await.map_err(said)?;
        let (response, mut upload) = sender.send_request(request, body.is_empty()).map_err(said)?;
        if !body.is_empty() {
            upload.send_data(body, true).map_err(said)?;
        }
        let (parts, mut body) = response.await.map_err(said)?.into_parts();
        let mut head = Vec::new();
        let response = http::Response::from_parts(parts, ());
        http2_head::write_response(
            &response,
            http2_head::AfterResponseHead::NothingEver,
            &mut head,
        )?;
        let mut sent = text.write_all(&head).await;
        while let Some(data) = body.data().await {
            let data = data.map_err(said)?;
            let _ = body.flow_control().release_capacity(data.len());
            sent = sent.and(text.write_all(&data).await);
            if sent.is_err() {
                break;
            }
        }
        Ok(())
    };
    beside(connection, exchange).await
}

/// Polls an exchange together with its connection, until the exchange is over.
pub(super) async fn beside<T>(
    connection: impl Future<Output = Result<(), h2::Error>>,
    exchange: impl Future<Output = T>,
) -> T {
    let (mut connection, mut exchange) = (pin!(connection), pin!(exchange));
    let mut has_ended = false;
    poll_fn(|context| {
        if let Poll::Ready(done) = exchange.as_mut().poll(context) {
            return Poll::Ready(done);
        }
        // Its streams know why it ended.
        has_ended = has_ended || connection.as_mut().poll(context).is_ready();
        exchange.as_mut().poll(context)
    })
    .await
}
