//! Peers that speak no protocol: each side sends a number and bytes derived from it, and records
//! what it reads and how that ends.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use weir_proxy::net::PeerAddress;

use crate::ledger::tcp::{TcpRecord, TcpSeenEnd};
use crate::memory::simulated;
use crate::message::pattern::{PatternCheck, fill};
use crate::network::faults::Tamper;
use crate::network::net::SimListener;
use crate::network::stream::SimStream;
use crate::network::trace::LinkEnd;
use crate::plan::ClientPlan;
use crate::plan::tcp::{TcpEnd, TcpSide};
use crate::world::World;

/// The length of the number that a side's bytes begin with.
const NUMBER: usize = 8;

/// Serves every connection of a listener.
pub(crate) async fn serve(world: World, listener: SimListener, origin: usize) {
    for number in 0.. {
        if let Ok((stream, _)) = world.net.accept_stream(&listener).await {
            let side = TcpSide::of_origin(world.plan.seed, origin, number, world.profile());
            let record = TcpRecord::new(side, stream.watch(), LinkEnd::Acceptor, Some(origin));
            let index = world.ledger.tcp(record);
            check_limit(&world, origin);
            tokio::task::spawn_local(simulated(converse(world.clone(), index, side, stream)));
        }
    }
}

/// Checks law 3: connections that neither side has ended.
fn check_limit(world: &World, origin: usize) {
    let limit = world.limits.borrow().max_conn.get(origin).copied().flatten();
    let Some(limit) = limit else { return };
    let book = world.ledger.book();
    let running = |record: &&TcpRecord| {
        record.origin == Some(origin) && !record.over && !record.link.connector_gone()
    };
    let count = book.tcp.iter().filter(running).count();
    drop(book);
    if count > limit as usize {
        world.ledger.violation(format!("law 3: {count} connections are open at origin {origin}"));
    }
}

/// Runs a client's connections one after the other.
pub(crate) async fn run(world: World, target: PeerAddress, plan: ClientPlan) {
    sleep(Duration::from_millis(plan.start_ms)).await;
    for (index, connection) in plan.connections.iter().enumerate() {
        let Some(side) = connection.tcp else { continue };
        let address = Ipv4Addr::new(192, 0, 2, plan.number as u8 + 1);
        let source = SocketAddr::from((address, 2000 + index as u16));
        let Ok(stream) = world.net.connect_from(source, &target).await else { continue };
        let record = TcpRecord::new(side, stream.watch(), LinkEnd::Connector, None);
        let index = world.ledger.tcp(record);
        converse(world.clone(), index, side, stream).await;
    }
}

/// The conversation of one side.
struct TcpPeer {
    world: World,
    /// The record's index.
    index: usize,
    side: TcpSide,
    /// Told when a byte or the end of the other side was read.
    read: Notify,
}

async fn converse(world: World, index: usize, side: TcpSide, stream: SimStream) {
    let (mut read, mut write) = split(stream);
    let peer = TcpPeer { world, index, side, read: Notify::new() };
    let leaves = match side.end {
        TcpEnd::Leaves(after_ms) => Duration::from_millis(after_ms),
        _ => Duration::from_mins(10),
    };
    let talk = async {
        let mut reading = std::pin::pin!(peer.receive(&mut read));
        let mut writing = std::pin::pin!(peer.send(&mut write));
        let (mut reads, mut writes) = (true, true);
        while reads || writes {
            tokio::select! {
                biased;
                () = &mut reading, if reads => reads = false,
                () = &mut writing, if writes => {
                    writes = false;
                    if side.end == TcpEnd::Closes {
                        return;
                    }
                }
            }
        }
    };
    let left = timeout(leaves, talk).await.is_err();
    peer.with(|record| {
        record.dropped = left || !record.finished || record.end.is_none();
        record.over = true;
    });
}

impl TcpPeer {
    fn with<T>(&self, change: impl FnOnce(&mut TcpRecord) -> T) -> T {
        change(&mut self.world.ledger.book().tcp[self.index])
    }

    async fn receive(&self, read: &mut ReadHalf<SimStream>) {
        let pace = self.side.read_pace.bytes.clamp(1, 65_536);
        let mut piece = vec![0; pace];
        // The network may give a few bytes at a time: a pause follows all of a pace's.
        let mut before_pause = pace;
        loop {
            let end = match read.read(&mut piece[..before_pause]).await {
                Ok(0) => Some(TcpSeenEnd::Closed),
                Ok(count) => {
                    self.with(|record| record.take(&piece[..count]));
                    before_pause -= count;
                    None
                }
                Err(_) => Some(TcpSeenEnd::Reset),
            };
            if let Some(end) = end {
                self.with(|record| {
                    record.end = Some(end);
                    record.over |= record.finished || end == TcpSeenEnd::Reset;
                });
            }
            self.read.notify_one();
            if end.is_some() {
                return;
            }
            if before_pause == 0 {
                before_pause = pace;
                if self.side.read_pace.pause_ms > 0 {
                    sleep(Duration::from_millis(self.side.read_pace.pause_ms)).await;
                }
            }
        }
    }

    async fn until(&self, holds: impl Fn(&TcpRecord) -> bool) {
        while !self.with(|record| holds(record)) {
            self.read.notified().await;
        }
    }

    async fn send(&self, write: &mut WriteHalf<SimStream>) {
        let side = self.side;
        sleep(Duration::from_millis(side.wait_ms)).await;
        if side.answers {
            self.until(|record| record.received > 0 || record.end.is_some()).await;
        }
        let all = NUMBER as u64 + side.bytes;
        let mut sent = 0;
        while sent < all {
            let count = (all - sent).min(side.write_pace.bytes as u64) as usize;
            let mut bytes = piece(side.tag, sent, count);
            if self.world.net.tamper() == Tamper::FlipRequestByte && sent + count as u64 == all {
                bytes[count - 1] ^= 16;
            }
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                let Ok(count) = write.write(rest).await else { return };
                self.with(|record| record.sent += count as u64);
                rest = &rest[count..];
            }
            sent += count as u64;
            if side.write_pace.pause_ms > 0 {
                sleep(Duration::from_millis(side.write_pace.pause_ms)).await;
            }
        }
        match side.end {
            TcpEnd::FinishesLast => self.until(|record| record.end.is_some()).await,
            TcpEnd::Finishes => {}
            TcpEnd::Closes | TcpEnd::Leaves(_) => return,
        }
        self.with(|record| {
            record.finished = true;
            record.over |= record.end.is_some();
        });
        let _ = write.shutdown().await;
    }
}

/// Returns bytes of a side from an offset on: its number, then its pattern.
fn piece(tag: u64, offset: u64, count: usize) -> Vec<u8> {
    let number = tag.to_be_bytes();
    let head = number.iter().copied().skip(offset as usize).take(count);
    let mut bytes: Vec<u8> = head.collect();
    let behind = offset.saturating_sub(NUMBER as u64);
    let rest = fill(tag, behind, count - bytes.len());
    bytes.extend(rest);
    bytes
}

impl TcpRecord {
    /// Takes bytes that were read: the other side's number, then its pattern.
    fn take(&mut self, bytes: &[u8]) {
        self.received += bytes.len() as u64;
        let mut rest = bytes;
        if self.checked.is_none() {
            let missing = NUMBER - self.number.len();
            let (number, behind) = rest.split_at(missing.min(rest.len()));
            self.number.extend_from_slice(number);
            rest = behind;
            if let Ok(number) = self.number.as_slice().try_into() {
                self.checked = Some(PatternCheck::new(u64::from_be_bytes(number)));
            }
        }
        if let Some(checked) = &mut self.checked {
            checked.take(rest);
        }
    }
}
