//! Headers of the PROXY protocol. A reader that takes as many bytes as the parser asks for gets the
//! same result as one that has them all, and no byte behind the header; the beginning of a header
//! is never refused; and a header that tells addresses is one that Weir would write for them, or
//! tells more besides.

use weir_wire::{
    PROXY_HEADER_BYTES, ProxyHeader, ProxyProgress, ProxyTlvs, ProxyVersion, parse_proxy_header,
    write_proxy_header,
};

pub(crate) fn target(data: &[u8]) {
    let whole = parse_proxy_header(data);
    let mut had = 0;
    let stepwise = loop {
        match parse_proxy_header(&data[..had]) {
            Ok(ProxyProgress::Partial(more)) => {
                assert!(more > 0, "nothing is missing after {had} bytes");
                assert!(had + more <= PROXY_HEADER_BYTES + 1, "{more} more after {had} bytes");
                if had + more > data.len() {
                    break None;
                }
                had += more;
            }
            found => break Some(found),
        }
    };
    match (whole, stepwise) {
        (Ok(ProxyProgress::Whole(header)), _) => {
            assert!(header.length <= data.len() && header.length <= PROXY_HEADER_BYTES);
            assert_eq!(stepwise, Some(whole), "{had} of {} bytes were taken", header.length);
            assert_eq!(had, header.length);
            for cut in 0..header.length {
                let progress = parse_proxy_header(&data[..cut]);
                assert!(matches!(progress, Ok(ProxyProgress::Partial(_))), "{progress:?} at {cut}");
            }
            check_written(data, header);
        }
        (Ok(ProxyProgress::Partial(_)), stepwise) => assert_eq!(stepwise, None),
        // The fault may lie behind what was taken.
        (Err(_), found) => assert!(found.is_none_or(|found| found.is_err()), "{found:?}"),
    }
}

/// Compares a header with the one that Weir writes for its addresses.
fn check_written(data: &[u8], header: ProxyHeader) {
    let Some(addresses) = header.addresses else { return };
    let is_text = data.starts_with(b"PROXY");
    let version = if is_text { ProxyVersion::V1 } else { ProxyVersion::V2 };
    let mut written = Vec::new();
    write_proxy_header(version, Some(addresses), &ProxyTlvs::default(), &mut written);
    let again = parse_proxy_header(&written);
    let expected = ProxyHeader { length: written.len(), ..header };
    assert_eq!(again, Ok(ProxyProgress::Whole(expected)), "{written:?}");
}
