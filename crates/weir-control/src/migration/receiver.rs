//! The side of the process that takes over: it checks that there is room for an offered connection
//! and a listener through which it may have come, replies, and serves the connection from then on.
//! It opens no connections.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use weir_proxy::migration::Moved;
use weir_proxy::os_net::OsAccepted;
use weir_proxy::snapshot::{CompiledListener, Snapshot};
use weir_proxy::start::{Admission, DataPlane};

use super::in_flight::Occupied;
use super::message::{MigrationMessage, Offer, PassVerdict};
use super::packets::{Packets, ReceivedPacket};
use crate::migration::machine_clock::MachineClock;

/// Takes connections over until the predecessor has ended.
pub(crate) struct Receiver {
    packets: Packets,
    plane: Arc<DataPlane>,
    clock: MachineClock,
}

/// A connection for which there is room.
struct AdmittedConnection {
    socket: OsAccepted,
    moved: Moved,
    admission: Admission,
}

impl Receiver {
    pub(crate) fn new(packets: Packets, plane: Arc<DataPlane>) -> Self {
        Self { packets, plane, clock: MachineClock::new() }
    }

    pub(crate) async fn run(self) {
        // The slots are returned when the predecessor has ended.
        let mut occupied = Occupied::default();
        while let Ok(ReceivedPacket::Packet(packet)) = self.packets.receive().await {
            // A predecessor that sends an invalid message gets no reply, and keeps its connections.
            let Ok((message, rest)) = MigrationMessage::decode(&packet.bytes) else { return };
            let offers = match message {
                MigrationMessage::InFlight(news) => {
                    occupied.follow(news, self.plane.process());
                    continue;
                }
                MigrationMessage::Offer(offers) => offers,
                MigrationMessage::InheritedState(_)
                | MigrationMessage::Hello { .. }
                | MigrationMessage::Verdicts(_) => return,
            };
            let Ok((verdicts, taken)) = self.judge(&offers, rest, packet.descriptors) else {
                return;
            };
            let Ok(answer) = MigrationMessage::Verdicts(verdicts).encode(&[]) else { return };
            if self.packets.send(&answer, &[]).await.is_err() {
                // The predecessor does not wait any longer, so the connections are still its own.
                return;
            }
            for AdmittedConnection { socket, moved, admission } in taken {
                self.plane.enter(admission, socket, moved).await;
            }
        }
    }

    /// Decides on offered connections.
    fn judge(
        &self,
        offers: &[Offer],
        mut rest: &[u8],
        sockets: Vec<OwnedFd>,
    ) -> Result<(Vec<PassVerdict>, Vec<AdmittedConnection>), String> {
        if offers.len() != sockets.len() {
            return Err("not every connection has its socket".to_owned());
        }
        let snapshot = self.plane.process().snapshot();
        let (mut verdicts, mut taken) = (Vec::new(), Vec::new());
        for (offer, socket) in offers.iter().zip(sockets) {
            let moved = offer.moved(&mut rest, &self.clock)?;
            let judged = self.admit(offer, &snapshot);
            let refused = match judged {
                Ok(admission) => {
                    let socket = OsAccepted::new(socket, moved.peer.is_none());
                    taken.push(AdmittedConnection { socket, moved, admission });
                    None
                }
                Err(why) => Some(why.to_owned()),
            };
            verdicts.push(PassVerdict { number: offer.number, refused });
        }
        if rest.is_empty() { Ok((verdicts, taken)) } else { Err("something is left".to_owned()) }
    }

    fn admit(&self, offer: &Offer, snapshot: &Snapshot) -> Result<Admission, &'static str> {
        let listener = listener(offer, snapshot).ok_or("the new process does not listen there")?;
        if listener.tls.is_some() {
            return Err("the new process uses TLS there");
        }
        self.plane.admit(&listener.gate).ok_or("the new process is at its limit of connections")
    }
}

/// The listener through which a connection may have come: one with the same name and address, else
/// one with the same address, else one with the same name.
fn listener<'a>(offer: &Offer, snapshot: &'a Snapshot) -> Option<&'a Arc<CompiledListener>> {
    let is_at = |listener: &&Arc<CompiledListener>| {
        let mut own = listener.addresses.iter();
        own.any(|address| offer.addresses.iter().any(|offered| offered.is_at(address)))
    };
    let named = snapshot.listener(&offer.listener);
    let at = || snapshot.listeners.iter().find(is_at);
    named.filter(is_at).or_else(at).or(named)
}
