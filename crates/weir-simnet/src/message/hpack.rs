//! Header compression (RFC 7541) for the simulation: a strict decoder with the dynamic table, and
//! an encoder that compresses nothing. It shares no code with the product.

use std::collections::VecDeque;

/// The fields of a head or of trailers, in order.
pub(crate) type HeadFields = Vec<(String, String)>;

/// The dynamic table of one direction of a connection.
#[derive(Clone, Debug)]
pub(crate) struct HpackTable {
    entries: VecDeque<(String, String)>,
    bytes: usize,
    size: usize,
    /// The largest size that the encoder may choose.
    most: usize,
}

impl Default for HpackTable {
    fn default() -> Self {
        Self { entries: VecDeque::new(), bytes: 0, size: 4_096, most: 4_096 }
    }
}

impl HpackTable {
    /// Decodes a whole block.
    pub(crate) fn decode(&mut self, block: &[u8]) -> Result<HeadFields, &'static str> {
        let mut rest = block;
        let mut fields = HeadFields::new();
        while let Some(first) = rest.first().copied() {
            if first & 0x80 != 0 {
                let index = integer(&mut rest, 7)?;
                fields.push(self.entry(index)?);
            } else if first & 0xe0 == 0x20 {
                let size = integer(&mut rest, 5)?;
                if size > self.most || !fields.is_empty() {
                    return Err("a change of the table's size that is not allowed");
                }
                self.size = size;
                self.evict();
            } else {
                let indexed = first & 0x40 != 0;
                let index = integer(&mut rest, if indexed { 6 } else { 4 })?;
                let name = if index == 0 { text(&mut rest)? } else { self.entry(index)?.0 };
                let value = text(&mut rest)?;
                if indexed {
                    self.bytes += name.len() + value.len() + 32;
                    self.entries.push_front((name.clone(), value.clone()));
                    self.evict();
                }
                fields.push((name, value));
            }
        }
        Ok(fields)
    }

    fn evict(&mut self) {
        while self.bytes > self.size {
            let Some((name, value)) = self.entries.pop_back() else { return };
            self.bytes -= name.len() + value.len() + 32;
        }
    }

    fn entry(&self, index: usize) -> Result<(String, String), &'static str> {
        if let Some((name, value)) = index.checked_sub(1).and_then(|index| STATIC.get(index)) {
            return Ok(((*name).to_owned(), (*value).to_owned()));
        }
        let dynamic = index.checked_sub(STATIC.len() + 1).and_then(|index| self.entries.get(index));
        dynamic.cloned().ok_or("an index beyond the table")
    }
}

/// Encodes fields as literals that are not indexed (RFC 7541 section 6.2.2).
pub(crate) fn encode(fields: &[(String, String)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            put_length(&mut block, text.len());
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

fn put_length(block: &mut Vec<u8>, length: usize) {
    if length < 127 {
        block.push(length as u8);
        return;
    }
    block.push(127);
    let mut rest = length - 127;
    while rest >= 128 {
        block.push((rest % 128 + 128) as u8);
        rest /= 128;
    }
    block.push(rest as u8);
}

/// Reads an integer with a prefix of this many bits.
fn integer(rest: &mut &[u8], bits: u32) -> Result<usize, &'static str> {
    let (first, tail) = rest.split_first().ok_or("an integer is cut off")?;
    *rest = tail;
    let mask = (1_usize << bits) - 1;
    let mut value = usize::from(*first) & mask;
    if value < mask {
        return Ok(value);
    }
    for shift in [0, 7, 14, 21] {
        let (next, tail) = rest.split_first().ok_or("an integer is cut off")?;
        *rest = tail;
        value += (usize::from(*next) & 127) << shift;
        if next & 128 == 0 {
            return Ok(value);
        }
    }
    Err("a huge integer")
}

fn text(rest: &mut &[u8]) -> Result<String, &'static str> {
    let huffman = rest.first().ok_or("a text is cut off")? & 0x80 != 0;
    let length = integer(rest, 7)?;
    let (bytes, tail) = rest.split_at_checked(length).ok_or("a text is cut off")?;
    *rest = tail;
    let bytes = if huffman { unpack(bytes)? } else { bytes.to_vec() };
    String::from_utf8(bytes).map_err(|_| "a text that is not UTF-8")
}

/// Decodes the Huffman code of RFC 7541 appendix B. It is canonical: codes of the same length
/// follow each other in the order of their bytes.
fn unpack(bytes: &[u8]) -> Result<Vec<u8>, &'static str> {
    let codes = &*CODES;
    let mut text = Vec::new();
    let (mut code, mut length) = (0_u32, 0_u8);
    for bit in bytes.iter().flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1)) {
        code = code << 1 | u32::from(bit);
        length += 1;
        if let Ok(found) = codes.binary_search_by_key(&(length, code), |(key, _)| *key) {
            text.push(codes[found].1);
            (code, length) = (0, 0);
        } else if length > 30 {
            return Err("bits that are no code");
        }
    }
    let padding = length < 8 && code == (1 << length) - 1;
    if padding { Ok(text) } else { Err("a code is cut off") }
}

/// The codes, ordered by length and bits, with their bytes.
static CODES: std::sync::LazyLock<Vec<((u8, u32), u8)>> = std::sync::LazyLock::new(|| {
    let mut order: Vec<usize> = (0..256).collect();
    order.sort_by_key(|byte| (LENGTHS[*byte], *byte));
    let (mut code, mut last) = (0_u32, 0);
    let mut codes = Vec::new();
    for byte in order {
        let length = LENGTHS[byte];
        code <<= length - last;
        codes.push(((length, code), byte as u8));
        code += 1;
        last = length;
    }
    codes
});

/// The lengths of the codes in bits, by byte.
#[rustfmt::skip]
const LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7,
    7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21,
    23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24,
    21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
];

/// RFC 7541 appendix A.
#[rustfmt::skip]
const STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits: String = text.split_whitespace().collect();
        (0..digits.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap())
            .collect()
    }

    /// The requests of RFC 7541 appendix C.4: Huffman codes and the dynamic table.
    #[test]
    fn the_examples_of_the_rfc_are_decoded() {
        let mut table = HpackTable::default();
        let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let first = [
            field(":method", "GET"),
            field(":scheme", "http"),
            field(":path", "/"),
            field(":authority", "www.example.com"),
        ];
        let block = hex("8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff");
        assert_eq!(table.decode(&block).unwrap(), first);
        let second = table.decode(&hex("8286 84be 5886 a8eb 1064 9cbf")).unwrap();
        assert_eq!(second[3..], [first[3].clone(), field("cache-control", "no-cache")]);
        let third = hex("8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf");
        assert_eq!(table.decode(&third).unwrap()[4], field("custom-key", "custom-value"));
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let fields = vec![("x-long".to_owned(), "y".repeat(1_000)), ("a".into(), String::new())];
        assert_eq!(HpackTable::default().decode(&encode(&fields)).unwrap(), fields);
    }
}
