//! A Unix socket that preserves message boundaries (`SOCK_SEQPACKET`) and carries descriptors. A
//! message arrives whole or not at all. It does not interpret messages.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::sockopt::set_socket_send_buffer_size;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, SocketFlags, SocketType,
    recvmsg, sendmsg, shutdown, socketpair,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::message::{CONNECTIONS, MESSAGE_BYTES};

/// One end of the socket, registered with the runtime in which it was made.
pub(crate) struct Packets(AsyncFd<OwnedFd>);

/// A message.
#[derive(Debug)]
pub(crate) struct Packet {
    pub(crate) bytes: Vec<u8>,
    /// The descriptors attached to it, with close-on-exec set.
    pub(crate) descriptors: Vec<OwnedFd>,
}

/// The result of a receive.
#[derive(Debug)]
pub(crate) enum ReceivedPacket {
    Packet(Packet),
    /// The other end is closed.
    End,
}

/// Makes two connected non-blocking ends.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (one, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    for end in [&one, &other] {
        // Room for a message and the kernel's overhead, as far as the machine's limit allows.
        set_socket_send_buffer_size(end, 2 * MESSAGE_BYTES)?;
    }
    Ok((one, other))
}

impl Packets {
    /// Wraps an end made by [`pair`], perhaps by another process.
    pub(crate) fn new(socket: OwnedFd) -> io::Result<Self> {
        // SAFETY: an `OwnedFd` names the same open descriptor until it is dropped, and the
        // `AsyncFd` owns it.
        Ok(Self(unsafe { AsyncFd::register(socket) }?))
    }

    /// Sends one message; if the future is dropped before it completes, nothing was sent.
    pub(crate) async fn send(
        &self,
        bytes: &[u8],
        descriptors: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        self.0.async_io(Interest::WRITABLE, |socket| send_now(socket, bytes, descriptors)).await
    }

    /// Waits for a message; if the future is dropped before it completes, no message is lost.
    pub(crate) async fn receive(&self) -> io::Result<ReceivedPacket> {
        self.0.async_io(Interest::READABLE, |socket| receive_now(socket.as_fd())).await
    }

    /// Shuts the socket down: later sends of the other end fail. Returns the messages that it had
    /// sent before.
    pub(crate) fn withdraw(&self) -> Vec<Packet> {
        let _ = shutdown(self.0.get_ref(), Shutdown::Both);
        let mut rest = Vec::new();
        loop {
            match receive_now(self.0.get_ref()) {
                Ok(ReceivedPacket::Packet(packet)) => rest.push(packet),
                // The other end was closed with unread messages: the error is reported once, before
                // the messages that wait here.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
                Ok(ReceivedPacket::End) | Err(_) => return rest,
            }
        }
    }
}

/// Sends one message, or fails with [`io::ErrorKind::WouldBlock`] if there is no room for it.
pub(crate) fn send_now(
    socket: impl AsFd,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(CONNECTIONS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fits = descriptors.is_empty() || control.push(SendAncillaryMessage::ScmRights(descriptors));
    if !fits || descriptors.len() > CONNECTIONS {
        return Err(io::Error::other("more descriptors than a message carries"));
    }
    sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives a waiting message, or fails with [`io::ErrorKind::WouldBlock`].
pub(crate) fn receive_now(socket: impl AsFd) -> io::Result<ReceivedPacket> {
    let mut bytes = vec![0; MESSAGE_BYTES];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(CONNECTIONS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut slices = [IoSliceMut::new(&mut bytes)];
    let got = recvmsg(socket, &mut slices, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    if got.bytes == 0 {
        return Ok(ReceivedPacket::End);
    }
    if got.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        // It was too long, or this process had no room for its descriptors.
        return Err(io::Error::other("a message was cut off"));
    }
    bytes.truncate(got.bytes);
    Ok(ReceivedPacket::Packet(Packet { bytes, descriptors }))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn packet(socket: &OwnedFd) -> Packet {
        let Ok(ReceivedPacket::Packet(packet)) = receive_now(socket) else { panic!("no message") };
        packet
    }

    #[test]
    fn messages_stay_apart_and_descriptors_come_with_theirs() {
        let (one, other) = pair().unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        send_now(&one, b"first", &[]).unwrap();
        send_now(&one, b"second", &[writer.as_fd(), writer.as_fd()]).unwrap();
        drop(writer);
        assert_eq!(packet(&other).bytes, b"first");
        let second = packet(&other);
        assert_eq!((second.bytes.as_slice(), second.descriptors.len()), (b"second".as_slice(), 2));
        assert!(receive_now(&other).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock));
        drop(one);
        assert!(matches!(receive_now(&other), Ok(ReceivedPacket::End)));
        drop(second);
        assert_eq!(reader.read(&mut [0]).unwrap(), 0, "nobody else has it");
    }

    #[test]
    fn a_message_of_the_most_bytes_and_descriptors_arrives() {
        let (one, other) = pair().unwrap();
        let bytes = vec![7; MESSAGE_BYTES];
        let null = std::fs::File::open("/dev/null").unwrap();
        send_now(&one, &bytes, &[null.as_fd(); CONNECTIONS]).unwrap();
        let got = packet(&other);
        assert_eq!((got.bytes.len(), got.descriptors.len()), (MESSAGE_BYTES, CONNECTIONS));
        assert!(send_now(&one, &bytes, &[null.as_fd(); CONNECTIONS + 1]).is_err());
    }

    #[tokio::test]
    async fn what_was_said_before_a_withdrawal_counts_and_nothing_after_it() {
        for closes in [false, true] {
            let (one, other) = pair().unwrap();
            let own = Packets::new(one).unwrap();
            // The other end never reads this.
            own.send(b"offer", &[]).await.unwrap();
            send_now(&other, b"taken", &[]).unwrap();
            let mut other = Some(other);
            if closes {
                other = None;
            }
            let rest = own.withdraw();
            assert_eq!(rest.len(), 1, "closed: {closes}");
            assert_eq!(rest[0].bytes, b"taken");
            if let Some(other) = other {
                let late = send_now(&other, b"taken", &[]).unwrap_err();
                assert_eq!(late.kind(), io::ErrorKind::BrokenPipe);
            }
        }
    }
}
