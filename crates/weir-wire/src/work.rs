//! Counts the bytes that parsing scans, in this crate's tests only. The tests show without a clock
//! that the cost of a head is at most a constant times its length.

#[cfg(test)]
std::thread_local! {
    static LOOKED_AT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Records that a pass over `bytes` bytes begins.
#[inline]
pub(crate) fn count(bytes: usize) {
    #[cfg(test)]
    LOOKED_AT.set(LOOKED_AT.get() + bytes);
    #[cfg(not(test))]
    let _ = bytes;
}

#[cfg(test)]
mod tests {
    use super::LOOKED_AT;
    use crate::fault::{FieldFault, RequestFault};
    use crate::limits::HeadLimits;
    use crate::lines::Scan;
    use crate::method::Method;
    use crate::request::RequestHead;
    use crate::response::ResponseHead;

    /// Number of passes that one head may need: the quick parser, the search for the end, the
    /// tokeniser, and the search for the fault.
    const PASSES: usize = 4;

    /// Number of bytes scanned while `head` arrives in pieces of `step` bytes.
    fn looked_at(head: &[u8], step: usize) -> usize {
        let limits = HeadLimits::default();
        let (mut request, mut request_scan) = (RequestHead::default(), Scan::default());
        let (mut response, mut response_scan) = (ResponseHead::default(), Scan::default());
        let before = LOOKED_AT.get();
        let mut length = 0;
        while length < head.len() {
            length = (length + step).min(head.len());
            let bytes = &head[..length];
            let done = if head.starts_with(b"HTTP/") {
                let parsed = response.parse(bytes, &mut response_scan, &limits, Method::Get);
                !matches!(parsed, Ok(None))
            } else {
                !matches!(request.parse(bytes, &mut request_scan, &limits), Ok(None))
            };
            if done {
                break;
            }
        }
        LOOKED_AT.get() - before
    }

    #[test]
    fn no_head_costs_more_than_a_few_passes_however_it_arrives() {
        let head =
            |lines: &str, end: &str| format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}{end}\r\n");
        let heads = [
            head(&"a:b\r\n".repeat(2000), ""),
            head(&"X-Header: 0123456789012345678901234567890123456789\r\n".repeat(90), ""),
            head(&"a:b\r\n".repeat(90), "bad header: x\r\n"),
            head(&"a:b\r\n".repeat(90), "b:\u{1}\r\n"),
            head(&format!("a: {}\r\n", "x".repeat(30_000)), " folded\r\n"),
            head(&format!("a: {}\r\n", "x".repeat(40_000)), ""),
            head(&"a:b\r\n".repeat(90), "c: d\n"),
            head(&format!("Connection: {}\r\n", "a,".repeat(10_000)), ""),
            head(&"Connection: a,b\r\n".repeat(98), ""),
            format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "%".repeat(30_000)),
            "x".repeat(40_000),
            "\r\n".repeat(20_000),
        ];
        for request in &heads {
            let response = request.replacen("GET / HTTP/1.1", "HTTP/1.1 200 OK", 1);
            for head in [request, &response] {
                for step in [1, 2, 7, 100, 1460, usize::MAX] {
                    let work = looked_at(head.as_bytes(), step);
                    let most = PASSES * head.len();
                    assert!(work <= most, "{work} > {most}, {step} at a time: {head:.60}");
                }
            }
        }
    }

    #[test]
    fn a_head_with_too_many_lines_is_refused_at_the_first_of_them() {
        let mut bytes = b"GET / HTTP/1.1\r\nHost: a\r\n".to_vec();
        bytes.extend_from_slice(&b"a:b\r\n".repeat(100));
        let mut head = RequestHead::default();
        let refused = head.parse(&bytes, &mut Scan::default(), &HeadLimits::default()).unwrap_err();
        assert_eq!(refused.fault, RequestFault::Field(FieldFault::TooManyHeaders));
        assert_eq!(refused.at, bytes.len() - 5);
    }
}
