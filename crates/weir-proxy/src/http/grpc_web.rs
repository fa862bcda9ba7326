//! gRPC-Web, the form of gRPC that browsers can speak (`PROTOCOL-WEB.md` of gRPC): the trailers of
//! a response are the last frame of its body, and bodies may be text in base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use weir_stats::{GrpcWebType, is_grpc};
use weir_wire::{Method, RequestHead};

/// The content type of gRPC.
const GRPC: &[u8] = b"application/grpc";

/// The bit of a frame's first byte that says that it has trailers.
const TRAILERS: u8 = 0x80;

/// The bytes of a group in base64.
const GROUP: usize = 4;

/// The form of a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WebForm {
    /// The frames of gRPC as they are.
    Binary,
    /// The same in base64.
    Text,
}

impl WebForm {
    fn of(kind: GrpcWebType<'_>) -> Self {
        if kind.is_text { Self::Text } else { Self::Binary }
    }

    /// The content type of a body in this form.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Binary => "application/grpc-web",
            Self::Text => "application/grpc-web-text",
        }
    }
}

/// The forms of the two bodies of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WebCall {
    pub(crate) request: WebForm,
    pub(crate) response: WebForm,
}

impl WebCall {
    /// The call of the request with this head, whose spans refer to `bytes`.
    pub(crate) fn of_head(head: &RequestHead, bytes: &[u8]) -> Option<Self> {
        let content_type = head.header(bytes, "content-type")?;
        let call = || Self::of(content_type, head.header(bytes, "accept"));
        if head.method == Method::Post { call() } else { None }
    }

    /// Returns true if the body of the request is text.
    pub(crate) fn sends_text(self) -> bool {
        self.request == WebForm::Text
    }

    /// The call whose request has these headers; `None` if it is none of gRPC-Web.
    fn of(content_type: &[u8], accept: Option<&[u8]>) -> Option<Self> {
        let form = WebForm::of(GrpcWebType::of(content_type)?);
        let accepted = accept.unwrap_or_default().split(|byte| *byte == b',');
        let response = accepted.map(<[u8]>::trim_ascii).find_map(GrpcWebType::of);
        Some(Self { request: form, response: response.map_or(form, WebForm::of) })
    }
}

/// The content type of gRPC for the one that the head of a call has, whose spans refer to `bytes`.
pub(crate) fn request_type(head: &RequestHead, bytes: &[u8]) -> Option<Vec<u8>> {
    to_grpc(head.header(bytes, "content-type")?)
}

fn to_grpc(content_type: &[u8]) -> Option<Vec<u8>> {
    GrpcWebType::of(content_type).map(|kind| [GRPC, kind.rest].concat())
}

/// The content type in this form of gRPC-Web for one of gRPC; `None` if it is none.
pub(crate) fn from_grpc(content_type: &[u8], form: WebForm) -> Option<Vec<u8>> {
    let rest = content_type.get(GRPC.len()..).filter(|_| is_grpc(content_type))?;
    Some([form.content_type().as_bytes(), rest].concat())
}

/// Appends the frame with these trailers, which are lines, in this form.
pub(crate) fn write_trailers(lines: &[u8], form: WebForm, out: &mut Vec<u8>) {
    let mut frame = vec![TRAILERS];
    // Trailers are bounded by the head of a message.
    frame.extend_from_slice(&u32::try_from(lines.len()).unwrap_or(u32::MAX).to_be_bytes());
    frame.extend_from_slice(lines);
    match form {
        WebForm::Binary => out.extend_from_slice(&frame),
        WebForm::Text => write_text(&frame, out),
    }
}

/// Appends bytes in base64, with its padding: readers take several such texts in a row.
pub(crate) fn write_text(bytes: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(3) * GROUP, 0);
    let place = out.get_mut(start..).unwrap_or_default();
    let written = STANDARD.encode_slice(bytes, place).unwrap_or_default();
    out.truncate(start + written);
}

/// Bytes that are no base64.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NotBase64;

/// Decodes base64 that comes in pieces; the padding may be in its middle.
#[derive(Default)]
pub(crate) struct TextDecoder {
    /// The beginning of a group.
    group: [u8; GROUP],
    length: usize,
}

impl TextDecoder {
    /// Appends what the text says, as far as its groups are complete.
    ///
    /// # Errors
    /// The text is none in base64.
    pub(crate) fn decode(&mut self, text: &[u8], out: &mut Vec<u8>) -> Result<(), NotBase64> {
        for byte in text {
            let Some(place) = self.group.get_mut(self.length) else { return Err(NotBase64) };
            *place = *byte;
            self.length += 1;
            if self.length == GROUP {
                self.length = 0;
                let mut bytes = [0; 3];
                let count = STANDARD.decode_slice(self.group, &mut bytes).map_err(|_| NotBase64)?;
                out.extend_from_slice(bytes.get(..count).unwrap_or_default());
            }
        }
        Ok(())
    }

    /// Returns true if no group is incomplete.
    pub(crate) fn is_complete(&self) -> bool {
        self.length == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_types_have_a_form_and_a_counterpart() {
        let of = |kind: &str, accept: Option<&str>| {
            WebCall::of(kind.as_bytes(), accept.map(str::as_bytes))
                .map(|call| (call.request, call.response))
        };
        let (binary, text) = (WebForm::Binary, WebForm::Text);
        assert_eq!(of("application/grpc-web", None), Some((binary, binary)));
        assert_eq!(of("Application/GRPC-Web-Text+proto", None), Some((text, text)));
        let both = Some("application/json, application/grpc-web-text");
        assert_eq!(of("application/grpc-web+proto", both), Some((binary, text)));
        assert_eq!(
            of("application/grpc-web-text", Some("application/grpc-web")),
            Some((text, binary))
        );
        assert_eq!(of("application/grpc-web-text", Some("*/*")), Some((text, text)));
        for other in [
            "application/grpc",
            "application/grpc-webs",
            "application/grpc-web-texts",
            "",
            "text/plain",
        ] {
            assert_eq!(of(other, None), None, "{other}");
        }
        assert_eq!(to_grpc(b"application/grpc-web-text+proto").unwrap(), b"application/grpc+proto");
        assert_eq!(to_grpc(b"application/grpc-web").unwrap(), b"application/grpc");
        assert_eq!(
            from_grpc(b"application/grpc+proto", text).unwrap(),
            b"application/grpc-web-text+proto"
        );
        assert_eq!(from_grpc(b"text/html", binary), None);
    }

    #[test]
    fn text_is_decoded_in_any_pieces_and_with_padding_in_its_middle() {
        let mut text = Vec::new();
        let parts: [&[u8]; 4] = [b"a", b"\x00\x00\x00\x00\x05hello", b"", b"no padding"];
        for part in parts {
            write_text(part, &mut text);
        }
        for size in 1..=text.len() {
            let (mut decoder, mut out) = (TextDecoder::default(), Vec::new());
            for piece in text.chunks(size) {
                decoder.decode(piece, &mut out).unwrap();
            }
            assert!(decoder.is_complete());
            assert_eq!(out, parts.concat(), "pieces of {size}");
        }
        for wrong in ["AA*A", "A===", "=AAA", "\r\nAA"] {
            let decoded = TextDecoder::default().decode(wrong.as_bytes(), &mut Vec::new());
            assert_eq!(decoded, Err(NotBase64), "{wrong}");
        }
        let mut decoder = TextDecoder::default();
        decoder.decode(b"AAAAA", &mut Vec::new()).unwrap();
        assert!(!decoder.is_complete());
    }

    #[test]
    fn trailers_are_a_frame() {
        let mut out = Vec::new();
        write_trailers(b"grpc-status: 0\r\n", WebForm::Binary, &mut out);
        assert_eq!(out, b"\x80\x00\x00\x00\x10grpc-status: 0\r\n");
        let mut text = Vec::new();
        write_trailers(b"grpc-status: 0\r\n", WebForm::Text, &mut text);
        let mut back = Vec::new();
        TextDecoder::default().decode(&text, &mut back).unwrap();
        assert_eq!(back, out);
    }
}
