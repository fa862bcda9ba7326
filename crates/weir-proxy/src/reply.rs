//! standin
use weir_wire::{encode, reason_phrase};
#[derive(Default)] pub struct HttpDate;
pub struct Reply<'a> { pub status: u16, pub body: Option<(&'a [u8], &'a str)>, pub headers: Vec<(&'a str, &'a [u8])> }
impl<'a> Reply<'a> {
 pub fn status(status: u16) -> Self { Self { status, body: None, headers: vec![] } }
 pub fn body(mut self, b: &'a [u8], t: &'a str) -> Self { self.body = Some((b, t)); self }
 pub fn header(mut self, n: &'a str, v: &'a [u8]) -> Self { self.headers.push((n, v)); self }
 pub fn write(&self, keep_alive: bool, head_only: bool, out: &mut Vec<u8>) -> usize {
  let page = format!("{} {}\n", self.status, reason_phrase(self.status));
  let (body, kind) = self.body.unwrap_or((page.as_bytes(), "text/plain"));
  encode::status_line(out, self.status); encode::header(out, b"Content-Type", kind.as_bytes()); encode::content_length(out, body.len() as u64);
  for (n, v) in &self.headers { encode::header(out, n.as_bytes(), v); }
  if !keep_alive { encode::header(out, b"Connection", b"close"); }
  out.extend_from_slice(b"\r\n"); if !head_only { out.extend_from_slice(body); body.len() } else { 0 }
 }
}
