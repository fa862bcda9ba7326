//! `ClientHello` messages that no library produces.

/// The fields of a `ClientHello`, as bytes.
pub(super) struct Fields {
    /// The bytes of the list of suites.
    pub(super) suites: Vec<u8>,
    /// The bytes of the list of extensions.
    pub(super) extensions: Vec<u8>,
}

impl Fields {
    pub(super) fn new(extensions: Vec<u8>) -> Self {
        Self { suites: vec![0x13, 0x01], extensions }
    }

    /// The handshake message.
    pub(super) fn message(&self) -> Vec<u8> {
        let start = [&[3, 3][..], &[7; 32], &[0]].concat();
        let (suites, extensions) = (block(&self.suites), block(&self.extensions));
        let body = [start, suites, vec![1, 0], extensions].concat();
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        [&[1], &length[1..], &body].concat()
    }

    /// The message in one record.
    pub(super) fn record(&self) -> Vec<u8> {
        in_records(&self.message(), 1 << 14)
    }
}

/// These bytes with a length prefix of two bytes.
pub(super) fn block(bytes: &[u8]) -> Vec<u8> {
    [&u16::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
}

pub(super) fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
    [kind.to_be_bytes().to_vec(), block(content)].concat()
}

/// A message in records of `piece` bytes.
pub(super) fn in_records(message: &[u8], piece: usize) -> Vec<u8> {
    message.chunks(piece).flat_map(|part| [vec![22, 3, 1], block(part)].concat()).collect()
}

/// A message that lists `count` application protocols.
pub(super) fn with_protocols(count: usize) -> Fields {
    Fields::new(extension(16, &block(&[1, b'a'].repeat(count))))
}
