//! The record of one side of a TCP connection.

use crate::message::pattern::PatternCheck;
use crate::network::stream::LinkWatch;
use crate::network::trace::LinkEnd;
use crate::plan::tcp::TcpSide;

/// The end of what a side reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TcpSeenEnd {
    Closed,
    Reset,
}

/// One side of a connection: what it sent, and what it read.
pub(crate) struct TcpRecord {
    pub(crate) side: TcpSide,
    pub(crate) link: LinkWatch,
    /// The end of the link that this side has.
    pub(crate) at: LinkEnd,
    /// The origin, if the side is one.
    pub(crate) origin: Option<usize>,
    /// The bytes that its connection took, its number included.
    pub(crate) sent: u64,
    /// Set once it has ended its direction.
    pub(crate) finished: bool,
    /// Set if it closed the connection before it had read its end.
    pub(crate) dropped: bool,
    /// Set once it waits for nothing more.
    pub(crate) over: bool,
    pub(crate) received: u64,
    /// The first bytes that it read, which are the other side's number.
    pub(crate) number: Vec<u8>,
    /// The comparison of the bytes behind the number, which tells the other side.
    pub(crate) checked: Option<PatternCheck>,
    pub(crate) end: Option<TcpSeenEnd>,
}

impl TcpRecord {
    pub(crate) fn new(side: TcpSide, link: LinkWatch, at: LinkEnd, origin: Option<usize>) -> Self {
        Self {
            side,
            link,
            at,
            origin,
            sent: 0,
            finished: false,
            dropped: false,
            over: false,
            received: 0,
            number: Vec::new(),
            checked: None,
            end: None,
        }
    }

    /// Returns the number of the other side, if it was read.
    pub(crate) fn other(&self) -> Option<u64> {
        Some(u64::from_be_bytes(self.number.as_slice().try_into().ok()?))
    }
}
