//! The input as a script: the first byte of each operation selects it and its connection, and its
//! arguments follow. Every input is a valid script. Nothing is performed here.

use std::collections::VecDeque;

/// Largest number of bytes that a script may send, so that one run stays short.
const MOST_BYTES: usize = 192 * 1024;
/// Largest number of operations.
const MOST_ACTS: usize = 96;

/// The next operation of one client.
#[derive(Clone, Debug)]
pub(super) struct ClientOperation {
    /// Index of the connection.
    pub(super) connection: usize,
    pub(super) what: OperationKind,
}

/// The operations of clients.
#[derive(Clone, Debug)]
pub(super) enum OperationKind {
    Send(Vec<u8>),
    Pause(u64),
    HalfClose,
    /// Drops the connection, with a reset if data is unread.
    Drop,
    /// Starts to read.
    Read,
    /// Stops reading.
    Hold,
}

/// The operations of the clients in order, and the responses of the origin in order.
#[derive(Debug, Default)]
pub(super) struct Script {
    pub(super) acts: Vec<ClientOperation>,
    pub(super) answers: VecDeque<u8>,
}

/// Pieces that a script can select by number.
const PIECES: &[&[u8]] = &[
    b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n",
    b"POST /b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST /c HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
    b"POST /d HTTP/1.1\r\nHost: a\r\nContent-Length: 70000\r\n\r\n",
    b"POST /e HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"5\r\nhello\r\n",
    b"0\r\n\r\n",
    b"0\r\nHost: b\r\nX-T: v\r\nX-Secret: 1\r\nContent-Length: 3\r\n\r\n",
    b"GET /up HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n",
    b"GET /up HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n",
    b"HEAD /h HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /admin/x HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /fixed HTTP/1.1\r\nHost: a\r\n\r\n",
    b"PUT /x HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n",
    b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    b"GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    b"CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n",
    b"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    b"GET /s HTTP/1.1\r\nHost: a\r\nX-Secret: 1\r\nCookie: SRV=abc; a=b\r\nTE: trailers\r\n",
    b"\r\n",
    b"GET http://b/../admin/%2e%2e/x HTTP/1.1\r\nHost: a\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
];

impl Script {
    pub(super) fn read(data: &[u8]) -> Self {
        let mut script = Self::default();
        let mut bytes = data.iter().copied();
        let mut sent = 0;
        while let Some(first) = bytes.next().filter(|_| script.acts.len() < MOST_ACTS) {
            let mut next = || bytes.next().unwrap_or(0);
            let what = match first & 15 {
                0 | 1 => {
                    let length = usize::from(next());
                    OperationKind::Send(bytes.by_ref().take(length).collect())
                }
                2..=4 => OperationKind::Send(PIECES[usize::from(next()) % PIECES.len()].to_vec()),
                5 => {
                    let piece = PIECES[usize::from(next()) % PIECES.len()];
                    OperationKind::Send(piece.repeat(4 * usize::from(next()) + 1))
                }
                6 | 7 => OperationKind::Pause(u64::from(next())),
                8 => OperationKind::Pause(100 * u64::from(next())),
                9 => OperationKind::HalfClose,
                10 => OperationKind::Drop,
                11 => OperationKind::Read,
                12 => OperationKind::Hold,
                _ => {
                    script.answers.push_back(next());
                    continue;
                }
            };
            let what = match what {
                OperationKind::Send(mut bytes) => {
                    bytes.truncate(MOST_BYTES.saturating_sub(sent));
                    sent += bytes.len();
                    OperationKind::Send(bytes)
                }
                what => what,
            };
            script.acts.push(ClientOperation { connection: usize::from(first >> 4 & 3), what });
        }
        script
    }
}
