//! `show errors`: the last invalid request of each listener and the last invalid response of each
//! pool, with its bytes, in HAProxy's format (2.6). The broken rule is shown in place of HAProxy's
//! flags.

use std::fmt::Write;
use std::time::SystemTime;

use weir_proxy::capture::{Captured, Side};
use weir_stats::Clock;

use super::stat::{proxy_number, server_number};
use crate::status::Status;

/// The bytes in a line of a dump.
const LINE: usize = 70;

/// The list of all errors, or of those that `show errors [NAME|NUMBER] [request|response]` selects.
pub(super) fn errors(
    status: &Status,
    count: u64,
    captured: &[Captured],
    options: &[&str],
) -> String {
    let mut text = format!("Total events captured on [{}] : {count}\n", moment(SystemTime::now()));
    let wanted = |one: &&Captured| {
        options.iter().all(|option| match *option {
            "request" => one.side == Side::Request,
            "response" => one.side == Side::Response,
            "" | "-1" => true,
            name => {
                let number = proxy_number(status, owner(one)).map(|number| number.to_string());
                owner(one) == name || number.as_deref() == Some(name)
            }
        })
    };
    for one in captured.iter().filter(wanted) {
        text.push_str(" \n");
        append(status, one, &mut text);
    }
    text
}

/// The listener or pool under which the error is listed.
fn owner(one: &Captured) -> &str {
    one.endpoint.as_ref().map_or(&one.listener, |(pool, _)| pool)
}

fn append(status: &Status, one: &Captured, text: &mut String) {
    let number = |name: &str| proxy_number(status, name).map_or(-1, |number| number as i64);
    let at = moment(one.at);
    let name = owner(one);
    let source = one.peer.map_or("unix:1".to_owned(), |peer| peer.to_string());
    let _ = match &one.endpoint {
        None => writeln!(
            text,
            "[{at}] frontend {name} (#{}): invalid request\n  backend <NONE> (#-1), server <NONE> (#-1), event #{}, src {source}",
            number(name),
            one.number
        ),
        Some((pool, server)) => writeln!(
            text,
            "[{at}] backend {name} (#{}): invalid response\n  frontend {} (#{}), server {server} (#{}), event #{}, src {source}",
            number(name),
            one.listener,
            number(&one.listener),
            server_number(status, pool, server).map_or(-1, |number| number as i64),
            one.number
        ),
    };
    let _ = writeln!(
        text,
        "  buffer starts at 0 (including 0 out), 0 free,\n  len {}, wraps at {}, error at position {}\n  {} :\n  ",
        one.length, one.length, one.position, one.reason
    );
    dump(&one.bytes, text);
}

/// Dumps bytes in lines that begin with their offset. Each line of the message begins a new line of
/// the dump; continuation lines are marked with a plus.
fn dump(bytes: &[u8], text: &mut String) {
    let mut at = 0;
    let mut goes_on = false;
    while at < bytes.len() {
        let _ = write!(text, "  {at:05}{} ", if goes_on { '+' } else { ' ' });
        let start = text.len();
        goes_on = true;
        while let Some(byte) = bytes.get(at) {
            if text.len() - start > LINE {
                break;
            }
            at += 1;
            match byte {
                b'\n' => {
                    text.push_str("\\n");
                    goes_on = false;
                    break;
                }
                b'\r' => text.push_str("\\r"),
                b'\t' => text.push_str("\\t"),
                b'\\' => text.push_str("\\\\"),
                0x20..0x7f => text.push(char::from(*byte)),
                other => {
                    let _ = write!(text, "\\x{other:02X}");
                }
            }
        }
        text.push('\n');
    }
}

/// A time as HAProxy writes it: `21/Nov/2026:20:09:21.561`.
fn moment(time: SystemTime) -> String {
    let mut out = Vec::new();
    Clock::new().append_haproxy(time, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_line_by_line() {
        let mut text = String::new();
        dump(b"GET / HTTP/1.1\r\nBad Name\x01: \\\t\x80\r\n\r\nrest", &mut text);
        let expected = "  00000  GET / HTTP/1.1\\r\\n\n  00016  Bad Name\\x01: \\\\\\t\\x80\\r\\n\n  00032  \\r\\n\n  00034  rest\n";
        assert_eq!(text, expected);
        let mut text = String::new();
        dump(&[b'x'; 200], &mut text);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines.len(), lines[1].starts_with("  00071+ xxx")), (3, true), "{text}");
    }
}
