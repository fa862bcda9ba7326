//! The body of a response: small ones are read at once, large ones in pieces by offset. A body
//! never has more or fewer bytes than its head declared; if the file has become shorter, reading
//! fails and the caller must close the connection. Nothing is sent from here.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{Errno, ReadWriteFlags, preadv2};

/// Permission to wait for a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// Reads from the kernel's caches; `WouldBlock` if that is not possible.
    CachedOnly,
    /// Waits as long as necessary.
    MayBlock,
}

/// The body of a file response.
#[derive(Debug)]
pub enum FileBody {
    /// The whole body, already read; empty for HEAD.
    Whole(Vec<u8>),
    /// A body that is read piece by piece.
    Pieces(Pieces),
}

/// The state of a body after a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyProgress {
    /// More bytes remain.
    More,
    /// The body is complete.
    Done,
}

/// A body that is still in its file.
#[derive(Debug)]
pub struct Pieces {
    file: OwnedFd,
    parts: VecDeque<BodyPart>,
}

/// The next bytes of a file, for a caller that sends them without reading them (`sendfile`).
#[derive(Clone, Copy, Debug)]
pub struct Stretch<'a> {
    /// The file.
    pub file: BorrowedFd<'a>,
    /// Offset of the first byte.
    pub offset: u64,
    /// Number of bytes, at least one.
    pub bytes: usize,
}

/// A part of the body.
#[derive(Debug)]
pub(crate) enum BodyPart {
    /// Text around the parts of a multipart body.
    Text(Vec<u8>),
    /// Bytes of the file.
    Stretch { offset: u64, len: u64 },
}

impl Pieces {
    pub(crate) fn new(file: OwnedFd, parts: VecDeque<BodyPart>) -> Self {
        Self { file, parts }
    }

    /// Appends up to `max` bytes to `buf`, waiting for the disk where necessary.
    ///
    /// # Errors
    /// `UnexpectedEof` if the file has become shorter than declared; any other error of reading.
    pub fn read(&mut self, buf: &mut Vec<u8>, max: usize) -> io::Result<BodyProgress> {
        self.read_with(buf, max, Patience::MayBlock)
    }

    /// Works like [`read`](Self::read), but reads from the kernel's caches only.
    ///
    /// # Errors
    /// Also `WouldBlock` if the read would have to wait. No bytes are lost; continue with
    /// [`read`](Self::read).
    pub fn read_cached(&mut self, buf: &mut Vec<u8>, max: usize) -> io::Result<BodyProgress> {
        self.read_with(buf, max, Patience::CachedOnly)
    }

    /// The next bytes, at most `max`, if they are bytes of the file.
    pub fn next_stretch(&self, max: usize) -> Option<Stretch<'_>> {
        let Some(&BodyPart::Stretch { offset, len }) = self.parts.front() else { return None };
        let bytes = usize::try_from(len).unwrap_or(usize::MAX).min(max);
        (bytes > 0).then(|| Stretch { file: self.file.as_fd(), offset, bytes })
    }

    /// Records that so many bytes of [`next_stretch`](Self::next_stretch) were sent.
    pub fn skip(&mut self, bytes: usize) -> BodyProgress {
        if let Some(part) = self.parts.front_mut() {
            if let BodyPart::Stretch { offset, len } = part {
                let bytes = (bytes as u64).min(*len);
                *offset += bytes;
                *len -= bytes;
            }
            if part.is_empty() {
                self.parts.pop_front();
            }
        }
        self.progress()
    }

    pub(crate) fn read_with(
        &mut self,
        buf: &mut Vec<u8>,
        max: usize,
        patience: Patience,
    ) -> io::Result<BodyProgress> {
        let mut room = max;
        while room > 0 {
            let Some(part) = self.parts.front_mut() else { break };
            let read = match part.read(&self.file, buf, room, patience) {
                // Return the bytes read so far; the next call meets the same condition and reports
                // it.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && room < max => break,
                outcome => outcome?,
            };
            room -= read;
            if part.is_empty() {
                self.parts.pop_front();
            }
        }
        Ok(self.progress())
    }

    fn progress(&self) -> BodyProgress {
        if self.parts.is_empty() { BodyProgress::Done } else { BodyProgress::More }
    }
}

impl BodyPart {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Text(text) => text.len() as u64,
            Self::Stretch { len, .. } => *len,
        }
    }

    /// Moves up to `room` bytes of this part to `buf`.
    fn read(
        &mut self,
        file: &OwnedFd,
        buf: &mut Vec<u8>,
        room: usize,
        patience: Patience,
    ) -> io::Result<usize> {
        match self {
            Self::Text(text) => {
                let len = text.len().min(room);
                buf.extend(text.drain(..len));
                Ok(len)
            }
            Self::Stretch { offset, len } => {
                let want = usize::try_from(*len).unwrap_or(usize::MAX).min(room);
                let read = read_at(file, buf, *offset, want, patience)?;
                *offset += read as u64;
                *len -= read as u64;
                Ok(read)
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Appends at least one and at most the requested number of bytes.
fn read_at(
    file: &OwnedFd,
    buf: &mut Vec<u8>,
    offset: u64,
    want: usize,
    patience: Patience,
) -> io::Result<usize> {
    let flags = match patience {
        Patience::CachedOnly => ReadWriteFlags::NOWAIT,
        Patience::MayBlock => ReadWriteFlags::empty(),
    };
    let before = buf.len();
    buf.resize(before + want, 0);
    let (_, room) = buf.split_at_mut(before);
    let outcome =
        rustix::io::retry_on_intr(|| preadv2(file, &mut [IoSliceMut::new(room)], offset, flags));
    buf.truncate(before + outcome.unwrap_or(0));
    match outcome {
        Ok(0) => Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "the file became shorter while it was sent",
        )),
        Ok(read) => Ok(read),
        // The file system does not support reads that never wait.
        Err(Errno::OPNOTSUPP) if patience == Patience::CachedOnly => {
            Err(io::ErrorKind::WouldBlock.into())
        }
        Err(errno) => Err(errno.into()),
    }
}
