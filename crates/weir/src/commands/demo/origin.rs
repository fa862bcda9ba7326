//! The origin of `weir demo`: a small web server with a thread for each connection. It handles the
//! requests that the demonstration and a curious user send through Weir, and is no model for a real
//! server.

use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

/// The duration of `/slow`.
pub(crate) const SLOW: Duration = Duration::from_millis(30);
/// The size of the body of `/large`.
pub(crate) const LARGE_BYTES: usize = 1024 * 1024;

const STACK_BYTES: usize = 128 * 1024;
const HEAD_BYTES: u64 = 64 * 1024;
/// The largest number of bytes of an unused request body that are read.
const BODY_BYTES: u64 = 64 * 1024 * 1024;

/// An origin that runs as long as the process.
pub(crate) struct DemoOrigin {
    /// The name in its responses.
    pub(crate) name: &'static str,
    /// The address that it listens on.
    pub(crate) address: SocketAddr,
}

impl DemoOrigin {
    /// Starts an origin on a free port of the loopback address.
    pub(crate) fn start(name: &'static str) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || listener.incoming().flatten().for_each(|stream| take(stream, name)))?;
        Ok(Self { name, address })
    }
}

/// Serves a connection on a thread of its own.
fn take(stream: TcpStream, name: &'static str) {
    let serve = move || {
        // After any error the proxy sees the connection close and logs it.
        let _ = serve(&stream, name);
        let _ = stream.shutdown(Shutdown::Both);
    };
    // If no thread can be started, the connection is dropped, which the proxy tolerates.
    let _ = thread::Builder::new().stack_size(STACK_BYTES).spawn(serve);
}

fn serve(stream: &TcpStream, name: &str) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut input = BufReader::new(stream);
    while let Some(request) = read_head(&mut input)? {
        skip_body(&mut input, &request)?;
        answer(stream, &request, name)?;
    }
    Ok(())
}

/// Reads a head as text; `None` when the connection ends first.
fn read_head(input: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut head = String::new();
    let mut limited = input.take(HEAD_BYTES);
    loop {
        let before = head.len();
        if limited.read_line(&mut head)? == 0 {
            return Ok(None);
        }
        if head[before..].trim_end().is_empty() {
            return Ok(Some(head));
        }
    }
}

fn skip_body(input: &mut impl BufRead, head: &str) -> io::Result<()> {
    if header(head, "transfer-encoding").is_some() {
        return skip_chunks(input);
    }
    let length = header(head, "content-length").and_then(|value| value.parse().ok()).unwrap_or(0);
    skip(input, length)
}

fn skip_chunks(input: &mut impl BufRead) -> io::Result<()> {
    loop {
        let mut line = String::new();
        input.take(HEAD_BYTES).read_line(&mut line)?;
        let size =
            u64::from_str_radix(line.trim_end(), 16).map_err(|_| io::ErrorKind::InvalidData)?;
        // The line end after the last chunk is the empty line that ends the body: Weir sends no
        // trailers of its own.
        skip(input, size.saturating_add(2))?;
        if size == 0 {
            return Ok(());
        }
    }
}

fn skip(input: &mut impl BufRead, length: u64) -> io::Result<()> {
    if length > BODY_BYTES {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    match io::copy(&mut input.take(length), &mut io::sink())? {
        copied if copied == length => Ok(()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let lines = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    lines.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
}

fn answer(mut stream: &TcpStream, request: &str, name: &str) -> io::Result<()> {
    let mut words = request.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = target.split('?').next().unwrap_or_default();
    if path == "/slow" {
        thread::sleep(SLOW);
    }
    let body = match path {
        "/large" => "weir\n".repeat(LARGE_BYTES / 5),
        _ => {
            format!(
                "Hello, this is {name}. What Weir sent me:\n\n{}",
                request.replace('\r', "").trim_end()
            ) + "\n"
        }
    };
    let mut response =
        String::from("HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\n");
    let _ = write!(response, "Content-Length: {}\r\nX-Origin: {name}\r\n\r\n", body.len());
    if method != "HEAD" {
        response.push_str(&body);
    }
    stream.write_all(response.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(stream: &mut BufReader<TcpStream>, request: &str, expected: &str) {
        stream.get_mut().write_all(request.as_bytes()).unwrap();
        let head = read_head(stream).unwrap().unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        let length: u64 = header(&head, "content-length").unwrap().parse().unwrap();
        if !request.starts_with("HEAD") {
            let mut body = String::new();
            stream.take(length).read_to_string(&mut body).unwrap();
            assert!(body.contains(expected), "{body}");
        }
    }

    #[test]
    fn requests_with_and_without_bodies_are_answered_in_order_on_one_connection() {
        let origin = DemoOrigin::start("app").unwrap();
        let stream = TcpStream::connect(origin.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let stream = &mut BufReader::new(stream);
        check(
            stream,
            "GET /a HTTP/1.1\r\nHost: x\r\n\r\n",
            "this is app. What Weir sent me:\n\nGET /a HTTP/1.1\nHost: x\n",
        );
        check(stream, "POST /b HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", "POST /b");
        check(
            stream,
            "POST /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            "POST /c",
        );
        check(stream, "HEAD /d HTTP/1.1\r\n\r\n", "");
        check(stream, "GET /large HTTP/1.1\r\n\r\n", "weir\nweir\n");
    }
}
