//! Calls of gRPC-Web, where the listener converts them: the endpoint gets and sends gRPC.

use weir_stats::is_grpc;
use weir_wire::Framing;

use crate::exchange::client_side::ClientSide;
use crate::exchange::pump::Encoder;
use crate::exchange::state::Exchange;
use crate::http::grpc_web::{self, WebCall, WebForm};

/// Notes whether the request, whose head was read, is such a call.
pub(crate) fn note_call<C: ClientSide>(exchange: &mut Exchange<'_, C>) {
    let Exchange { client, heads, .. } = exchange;
    heads.web_call = WebCall::of_head(&heads.request, client.head());
}

/// The content type that the client gets instead of the endpoint's, whose head is at the beginning
/// of `raw`.
pub(crate) fn response_type<C: ClientSide>(
    exchange: &Exchange<'_, C>,
    raw: &[u8],
) -> Option<Vec<u8>> {
    let call = exchange.heads.web_call?;
    let kind = exchange.heads.response.header(raw, "content-type")?;
    grpc_web::from_grpc(kind, call.response)
}

/// The form of the response's body, whose head is at the beginning of `raw`; `None` if it has none,
/// or is no response of gRPC: that is sent as it is.
pub(crate) fn body_form<C: ClientSide>(exchange: &Exchange<'_, C>, raw: &[u8]) -> Option<WebForm> {
    let call = exchange.heads.web_call?;
    if exchange.heads.response.framing == Framing::None {
        return None;
    }
    let kind = exchange.heads.response.header(raw, "content-type")?;
    is_grpc(kind).then_some(call.response)
}

/// The framing of a response in the client's stream: the trailers are a part of a converted body.
pub(crate) fn encoder(encoder: Encoder, form: Option<WebForm>) -> Encoder {
    match (encoder, form) {
        (Encoder::Sink, Some(_)) => Encoder::Plain,
        (encoder, _) => encoder,
    }
}
