//! standin
use weir_wire::{Framing, RequestHead, ResponseHead, encode};
pub enum BodyFraming { None, Length(u64), Chunked, Close, AsReceived }
pub fn write_interim_head(head: &ResponseHead, bytes: &[u8], out: &mut Vec<u8>) { encode::status_line(out, head.status); for h in head.forwarded(bytes) { encode::parsed_header(out, bytes, h); } out.extend_from_slice(b"\r\n"); }
pub fn write_request_head(head: &RequestHead, bytes: &[u8], framing: Framing, client: Option<std::net::IpAddr>, id: &str, tls: bool, out: &mut Vec<u8>) {
  encode::request_line(out, head.method_span.of(bytes), head.target.of(bytes));
  encode::header(out, b"Host", head.host.of(bytes));
  for h in head.forwarded(bytes) { encode::parsed_header(out, bytes, h); }
  if let Some(c) = client { use std::io::Write; out.extend_from_slice(b"X-Forwarded-For: "); let _ = write!(out, "{c}\r\n"); }
  encode::header(out, b"X-Forwarded-Proto", if tls { b"https" } else { b"http" });
  encode::header(out, b"X-Forwarded-Host", head.host.of(bytes));
  encode::header(out, b"X-Request-Id", id.as_bytes());
  match framing { Framing::Length(n) => encode::content_length(out, n), Framing::Chunked => encode::transfer_chunked(out), _ => {} }
  if head.upgrade { encode::header(out, b"Connection", b"upgrade"); if let Some(v) = head.header(bytes, "upgrade") { encode::header(out, b"Upgrade", v); } }
  out.extend_from_slice(b"\r\n");
}
pub fn write_response_head(head: &ResponseHead, bytes: &[u8], framing: &BodyFraming, keep_alive: bool, http10: bool, out: &mut Vec<u8>) {
  encode::status_line(out, head.status);
  for h in head.forwarded(bytes) { encode::parsed_header(out, bytes, h); }
  match framing { BodyFraming::Length(n) => encode::content_length(out, *n), BodyFraming::Chunked => encode::transfer_chunked(out), BodyFraming::AsReceived => if let Some(n) = head.content_length { encode::content_length(out, n) }, _ => {} }
  if head.status == 101 { encode::header(out, b"Connection", b"upgrade"); if let Some(v) = head.header(bytes, "upgrade") { encode::header(out, b"Upgrade", v); } }
  else if !keep_alive { encode::header(out, b"Connection", b"close"); } else if http10 { encode::header(out, b"Connection", b"keep-alive"); }
  out.extend_from_slice(b"\r\n");
}
