//! The reply to a probe, bounded in size, and its description: the reason of a failure and the
//! beginning of the reply. It does not parse HTTP.

use std::fmt::Write;
use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};
use weir_config::model::check::REPLY_BYTES;

/// The largest number of bytes of a reply that an event shows.
const EXCERPT_BYTES: usize = 256;

/// The progress of a probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ReplyPhase {
    /// Opening the connection.
    #[default]
    Connecting,
    /// In the TLS handshake.
    Handshake,
    /// Sending.
    Sending,
    /// Waiting for the reply, or reading it.
    Reading,
}

impl ReplyPhase {
    /// The phase as part of a sentence.
    fn doing(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Handshake => "in the TLS handshake",
            Self::Sending => "sending",
            Self::Reading => "waiting for the reply",
        }
    }
}

/// The failure of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProbeFailure {
    /// The reason, in one clause.
    pub(super) reason: String,
    /// The beginning of the reply; empty if there was none.
    pub(super) excerpt: String,
    /// The cause: the endpoint or this machine.
    pub(super) blame: Blame,
    /// The status of the response, if one came.
    pub(super) status: Option<u16>,
}

/// The cause of a failed probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blame {
    /// The endpoint, or the network path to it.
    Endpoint,
    /// This machine is short of descriptors, ports or memory: the endpoint was not probed.
    Shortage,
}

/// The state of a running probe; it survives the timeout that cuts the probe short.
#[derive(Debug, Default)]
pub(super) struct Heard {
    pub(super) phase: ReplyPhase,
    /// The reply received so far.
    pub(super) bytes: Vec<u8>,
    /// The offset of its body, for HTTP.
    pub(super) body: Option<usize>,
    /// The status of the response, for HTTP.
    pub(super) status: Option<u16>,
    /// The number of the step, from 1, if the probe has several.
    step: Option<usize>,
    /// The reason of the failure, if it is known already and more of the reply is read only for
    /// display.
    pub(super) failed: Option<String>,
}

impl Heard {
    /// Begins a step, counted from 0, with an empty reply.
    pub(super) fn begin_step(&mut self, number: usize, of: usize) {
        let step = (of > 1).then_some(number + 1);
        *self = Self { step, ..Self::default() };
    }

    /// Continues a conversation with another step.
    pub(super) fn note_step(&mut self, number: usize) {
        self.step = Some(number + 1);
    }

    /// Reads once; returns the number of bytes, or 0 at the end of the reply or of the room for it.
    pub(super) async fn read(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin + ?Sized),
    ) -> io::Result<usize> {
        let room = REPLY_BYTES.saturating_sub(self.bytes.len());
        if room == 0 {
            return Ok(0);
        }
        (&mut *stream).take(room as u64).read_buf(&mut self.bytes).await
    }

    /// The failure of this reason.
    pub(super) fn failure(&self, reason: impl Into<String>) -> ProbeFailure {
        let reason = match self.step {
            Some(step) => format!("step {step}: {}", reason.into()),
            None => reason.into(),
        };
        let (excerpt, status) = (self.excerpt(), self.status);
        ProbeFailure { reason, excerpt, blame: Blame::Endpoint, status }
    }

    /// The failure of a probe that took too long.
    pub(super) fn timed_out(&self, patience: &str) -> ProbeFailure {
        let late = || format!("timeout after {patience} {}", self.phase.doing());
        self.failure(self.failed.clone().unwrap_or_else(late))
    }

    /// The failure of an I/O error.
    pub(super) fn broken(&self, error: &io::Error) -> ProbeFailure {
        let reason = match (self.phase, error.kind()) {
            (ReplyPhase::Connecting, io::ErrorKind::ConnectionRefused) => {
                "connect refused".to_owned()
            }
            (ReplyPhase::Connecting, _) => format!("connect failed: {error}"),
            (ReplyPhase::Handshake, _) => format!("TLS handshake failed: {error}"),
            (_, io::ErrorKind::ConnectionReset) => {
                format!("connection reset {}", self.phase.doing())
            }
            _ => format!("connection broke {}: {error}", self.phase.doing()),
        };
        self.failure(reason)
    }

    /// The first line and the beginning of the body of an HTTP reply, or the beginning of any
    /// other, in printable characters.
    fn excerpt(&self) -> String {
        let mut text = String::new();
        match self.body.and_then(|body| self.bytes.split_at_checked(body)) {
            None => append(&mut text, &self.bytes),
            Some((head, body)) => {
                append(&mut text, head.split(|byte| *byte == b'\r').next().unwrap_or_default());
                let body = body.trim_ascii();
                if !body.is_empty() {
                    text.push_str(" | ");
                    append(&mut text, body);
                }
            }
        }
        text
    }
}

/// Appends as many bytes as an excerpt has room for. Non-printable bytes are escaped, so that a
/// reply cannot forge log lines.
fn append(text: &mut String, bytes: &[u8]) {
    for byte in bytes.trim_ascii() {
        let before = text.len();
        let _ = write!(text, "{}", byte.escape_ascii());
        if text.len() > EXCERPT_BYTES {
            text.truncate(before);
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(bytes: &[u8], body: Option<usize>) -> Heard {
        Heard { phase: ReplyPhase::Reading, bytes: bytes.to_vec(), body, ..Heard::default() }
    }

    #[test]
    fn an_excerpt_is_bounded_and_printable() {
        let http = b"HTTP/1.1 503 Sorry\r\nServer: x\r\n\r\n\r\nout of \x1b[31mcups\n";
        let body = 34;
        assert_eq!(heard(http, Some(body)).excerpt(), "HTTP/1.1 503 Sorry | out of \\x1b[31mcups");
        assert_eq!(heard(b"-ERR no\r\n", None).excerpt(), "-ERR no");
        assert_eq!(heard(&[b'x'; 1000], None).excerpt(), "x".repeat(256));
        let mixed = [&[b'x'; 254] as &[u8], b"\n\n\n", b"y"].concat();
        assert_eq!(heard(&mixed, None).excerpt(), format!("{}\\n", "x".repeat(254)));
        assert_eq!(heard(b"", None).excerpt(), "");
    }

    #[test]
    fn a_timeout_says_how_far_the_probe_came() {
        let mut heard = heard(b"", None);
        assert_eq!(heard.timed_out("1s").reason, "timeout after 1s waiting for the reply");
        heard.phase = ReplyPhase::Connecting;
        assert_eq!(heard.timed_out("300ms").reason, "timeout after 300ms connecting");
        heard.failed = Some("status 500, expected 200-399".to_owned());
        assert_eq!(heard.timed_out("1s").reason, "status 500, expected 200-399");
    }

    #[tokio::test]
    async fn no_more_is_read_than_fits() {
        let mut heard = Heard::default();
        let mut endless = tokio::io::repeat(b'x');
        while heard.read(&mut endless).await.unwrap() > 0 {}
        assert_eq!(heard.bytes.len(), REPLY_BYTES);
    }
}
