//! The sending of a body as DATA frames within the windows of its stream and connection, for both
//! sides.

use std::io;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::SendStream;

/// Sends the bytes of `held`, the last of them with the end of the stream if the body `ends` with
/// them. The end of a body without bytes is a frame of its own.
///
/// # Errors
/// If the stream was reset, or its connection has ended.
pub(crate) fn poll_send(
    context: &mut Context<'_>,
    body: &mut SendStream<Bytes>,
    held: &mut Bytes,
    ends: bool,
) -> Poll<io::Result<()>> {
    while !held.is_empty() {
        body.reserve_capacity(held.len());
        let room = match ready!(body.poll_capacity(context)) {
            Some(Ok(room)) => room.min(held.len()),
            Some(Err(_)) | None => return Poll::Ready(Err(broken_pipe())),
        };
        let data = held.split_to(room);
        let is_last = ends && held.is_empty();
        body.send_data(data, is_last).map_err(|_| broken_pipe())?;
        if is_last {
            return Poll::Ready(Ok(()));
        }
    }
    if ends {
        body.send_data(Bytes::new(), true).map_err(|_| broken_pipe())?;
    }
    Poll::Ready(Ok(()))
}

/// The error of a stream that takes no more.
pub(crate) fn broken_pipe() -> io::Error {
    io::ErrorKind::BrokenPipe.into()
}
