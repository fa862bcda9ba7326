//! The probe of gRPC: one call of `grpc.health.v1.Health/Check` over HTTP/2, on a connection of its
//! own.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, TE};
use http::{Request, Uri};
use weir_config::model::check::{GrpcProbe, REPLY_BYTES};
use weir_stats::GrpcStatus;

use super::connect::ProbeStream;
use super::http2::beside;
use super::reply::{Heard, ProbeFailure, ReplyPhase};

const METHOD: &str = "/grpc.health.v1.Health/Check";

/// The bytes before a message: a flag of compression and the length.
const PREFIX: usize = 5;

/// A call, the same for each probe.
#[derive(Debug)]
pub(super) struct GrpcQuestion {
    uri: Uri,
    message: Bytes,
}

impl GrpcQuestion {
    /// Makes the call for an endpoint; `None` if its host cannot be an authority.
    pub(super) fn new(probe: &GrpcProbe, host: &str, encrypted: bool) -> Option<Self> {
        let scheme = if encrypted { "https" } else { "http" };
        let uri = Uri::builder().scheme(scheme).authority(host).path_and_query(METHOD);
        Some(Self { uri: uri.build().ok()?, message: message(probe.service.as_deref()).into() })
    }

    /// Makes the call; the server passes if it says that the service is serving.
    pub(super) async fn ask(
        &self,
        stream: ProbeStream,
        heard: &mut Heard,
    ) -> Result<(), ProbeFailure> {
        heard.phase = ReplyPhase::Sending;
        let called = self.call(stream, heard).await;
        called.map_err(|reason| heard.failure(reason))
    }

    async fn call(&self, stream: ProbeStream, heard: &mut Heard) -> Result<(), String> {
        let said = |error: h2::Error| format!("HTTP/2: {error}");
        let mut builder = h2::client::Builder::new();
        builder.enable_push(false);
        let (sender, connection) = builder.handshake::<_, Bytes>(stream).await.map_err(said)?;
        let exchange = async {
            let mut sender = sender.ready().await.map_err(said)?;
            let request = Request::post(self.uri.clone())
                .header(CONTENT_TYPE, "application/grpc")
                .header(TE, "trailers")
                .body(())
                .map_err(|error| error.to_string())?;
            let (response, mut upload) = sender.send_request(request, false).map_err(said)?;
            upload.send_data(self.message.clone(), true).map_err(said)?;
            heard.phase = ReplyPhase::Reading;
            let (parts, mut body) = response.await.map_err(said)?.into_parts();
            heard.status = Some(parts.status.as_u16());
            if parts.status != 200 {
                return Err(format!("status {}, expected 200", parts.status.as_u16()));
            }
            let mut reply = Vec::new();
            while let Some(data) = body.data().await {
                let data = data.map_err(said)?;
                let _ = body.flow_control().release_capacity(data.len());
                if reply.len() + data.len() > REPLY_BYTES {
                    return Err("the reply is too long".to_owned());
                }
                reply.extend_from_slice(&data);
            }
            let trailers = body.trailers().await.map_err(said)?;
            judge(&parts.headers, trailers.as_ref(), &reply)
        };
        beside(connection, exchange).await
    }
}

/// The request of a call: the message `HealthCheckRequest`, whose field 1 is the service.
fn message(service: Option<&str>) -> Vec<u8> {
    let mut body = Vec::new();
    if let Some(service) = service.filter(|service| !service.is_empty()) {
        // The configuration bounds the name, so that one byte has its length.
        body.extend_from_slice(&[0x0a, service.len() as u8]);
        body.extend_from_slice(service.as_bytes());
    }
    let mut message = vec![0];
    message.extend_from_slice(&(body.len() as u32).to_be_bytes());
    message.extend_from_slice(&body);
    message
}

/// Judges a response by the status of the call, and the status of the service in the message.
fn judge(head: &HeaderMap, trailers: Option<&HeaderMap>, reply: &[u8]) -> Result<(), String> {
    let field = |name: &str| trailers.and_then(|own| own.get(name)).or_else(|| head.get(name));
    let status = field("grpc-status").and_then(|value| GrpcStatus::of_value(value.as_bytes()));
    let status = status.ok_or("a response without a status of gRPC")?;
    if status != GrpcStatus::OK {
        let message = field("grpc-message").and_then(|value| value.to_str().ok());
        let message = message.map(|text| format!(": {text}")).unwrap_or_default();
        return Err(format!("the call ended with `{}`{message}", status.as_str()));
    }
    match serving_status(reply).ok_or("the reply is no message of grpc.health.v1")? {
        1 => Ok(()),
        0 => Err("the service is UNKNOWN".to_owned()),
        2 => Err("the service is NOT_SERVING".to_owned()),
        3 => Err("the service is SERVICE_UNKNOWN".to_owned()),
        other => Err(format!("the service has the unknown status {other}")),
    }
}

/// The status in a `HealthCheckResponse`, its field 1; 0 if the message does not have it. `None` if
/// it is malformed.
fn serving_status(reply: &[u8]) -> Option<u64> {
    let (prefix, message) = reply.split_at_checked(PREFIX)?;
    let length = u32::from_be_bytes(prefix.get(1..)?.try_into().ok()?);
    if prefix.first() != Some(&0) || length as usize != message.len() {
        return None;
    }
    let mut rest = message;
    let mut status = 0;
    while !rest.is_empty() {
        let tag = varint(&mut rest)?;
        match (tag >> 3, tag & 7) {
            (1, 0) => status = varint(&mut rest)?,
            (_, 0) => drop(varint(&mut rest)?),
            (_, 1) => rest = rest.get(8..)?,
            (_, 2) => {
                let length = usize::try_from(varint(&mut rest)?).ok()?;
                rest = rest.get(length..)?;
            }
            (_, 5) => rest = rest.get(4..)?,
            _ => return None,
        }
    }
    Some(status)
}

/// Takes a number in the encoding of protobuf.
fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, others) = rest.split_first()?;
        *rest = others;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn a_request_names_the_service() {
        assert_eq!(message(None), [0, 0, 0, 0, 0]);
        assert_eq!(message(Some("a.B")), b"\0\0\0\0\x05\x0a\x03a.B");
    }

    #[test]
    fn only_a_service_that_is_serving_passes() {
        let ok = fields(&[("grpc-status", "0")]);
        let verdict = |reply: &[u8]| judge(&HeaderMap::new(), Some(&ok), reply);
        assert_eq!(verdict(b"\0\0\0\0\x02\x08\x01"), Ok(()));
        // Unknown fields are skipped.
        assert_eq!(verdict(b"\0\0\0\0\x09\x12\x02hi\x18\x80\x01\x08\x01"), Ok(()));
        for (reply, reason) in [
            (&b"\0\0\0\0\x02\x08\x02"[..], "the service is NOT_SERVING"),
            (b"\0\0\0\0\0", "the service is UNKNOWN"),
            (b"\0\0\0\0\x02\x08\x03", "the service is SERVICE_UNKNOWN"),
            (b"\0\0\0\0\x02\x08\x09", "the service has the unknown status 9"),
            (b"", "the reply is no message of grpc.health.v1"),
            (b"\x01\0\0\0\x02\x08\x01", "the reply is no message of grpc.health.v1"),
            (b"\0\0\0\0\x03\x08\x01", "the reply is no message of grpc.health.v1"),
            (b"\0\0\0\0\x02\x08\x81", "the reply is no message of grpc.health.v1"),
            (b"\0\0\0\0\x02\x12\x7f", "the reply is no message of grpc.health.v1"),
            (b"\0\0\0\0\x01\x0b", "the reply is no message of grpc.health.v1"),
        ] {
            assert_eq!(verdict(reply).unwrap_err(), reason);
        }
        let failed = fields(&[("grpc-status", "5"), ("grpc-message", "no such service")]);
        let reason = judge(&failed, None, b"").unwrap_err();
        assert_eq!(reason, "the call ended with `not-found`: no such service");
        let none = judge(&HeaderMap::new(), None, b"").unwrap_err();
        assert_eq!(none, "a response without a status of gRPC");
    }
}
