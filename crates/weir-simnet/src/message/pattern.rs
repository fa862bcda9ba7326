//! Bodies that can be checked byte by byte: each byte is derived from a tag and its offset. Only
//! letters from a to p are used, so that no body can be mistaken for a head.

/// Returns the tag of a request's body.
pub(crate) fn request_tag(id: u64) -> u64 {
    id.wrapping_mul(2)
}

/// Returns the tag of the response body of an attempt.
pub(crate) fn response_tag(id: u64, attempt: u32) -> u64 {
    id.wrapping_mul(2).wrapping_add(1).wrapping_add(u64::from(attempt) << 48)
}

fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Returns the byte at an offset.
fn byte(tag: u64, offset: u64) -> u8 {
    let word = mix(mix(tag.wrapping_add(0x9e37_79b9_7f4a_7c15)) ^ (offset / 8));
    b'a' + ((word >> ((offset % 8) * 8)) & 15) as u8
}

/// Returns bytes of a body from an offset on.
pub(crate) fn fill(tag: u64, offset: u64, count: usize) -> Vec<u8> {
    (0..count as u64).map(|index| byte(tag, offset + index)).collect()
}

/// Compares a body with its pattern as it arrives.
#[derive(Clone, Debug)]
pub(crate) struct PatternCheck {
    tag: u64,
    /// The number of bytes seen.
    pub(crate) bytes: u64,
    /// The offset of the first wrong byte.
    pub(crate) wrong_at: Option<u64>,
}

impl PatternCheck {
    pub(crate) fn new(tag: u64) -> Self {
        Self { tag, bytes: 0, wrong_at: None }
    }

    pub(crate) fn take(&mut self, bytes: &[u8]) {
        for seen in bytes {
            if self.wrong_at.is_none() && *seen != byte(self.tag, self.bytes) {
                self.wrong_at = Some(self.bytes);
            }
            self.bytes += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shifted_or_foreign_body_is_detected() {
        let body = fill(7, 0, 1000);
        let verdict = |tag, bytes: &[u8]| {
            let mut checked = PatternCheck::new(tag);
            checked.take(bytes);
            checked.wrong_at
        };
        assert_eq!(verdict(7, &body), None);
        assert!(verdict(9, &body).is_some_and(|offset| offset < 8));
        assert!(verdict(7, &body[1..]).is_some_and(|offset| offset < 8));
        assert_eq!(fill(7, 100, 50), body[100..150]);
    }
}
