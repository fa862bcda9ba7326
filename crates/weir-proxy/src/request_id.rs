//! standin
#[derive(Default)] pub struct RequestId([u8; 32], usize);
impl RequestId { pub fn as_str(&self) -> &str { std::str::from_utf8(&self.0[..self.1]).unwrap_or("") } }
pub struct RequestIdSource(fastrand::Rng);
impl RequestIdSource { pub fn new(seed: u64) -> Self { Self(fastrand::Rng::with_seed(seed)) }
 pub fn next(&mut self) -> RequestId { let v = self.0.u128(..); let mut b=[0;32]; for i in 0..32 { b[i] = b"0123456789abcdef"[((v >> (i*4)) & 15) as usize]; } RequestId(b, 32) } }
