//! The side of the old process: it offers connections that have left their workers, holds them
//! until the successor has decided, and continues to serve those that the successor does not take.
//! It accepts no connections.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{Instant, sleep_until, timeout};
use weir_config::model::ListenAddress;
use weir_proxy::handoff::Parting;
use weir_proxy::os_net::OsNet;
use weir_proxy::start::DataPlane;

use super::in_flight::{LOOK, ToldLoads};
use super::message::{CONNECTIONS, MESSAGE_BYTES, MigrationMessage, Offer, room_for};
use super::packets::{Packet, Packets, ReceivedPacket};
use crate::migration::machine_clock::MachineClock;

/// The longest time that a successor may take to decide on a connection. It only has to check that
/// there is room.
const PATIENCE: Duration = Duration::from_secs(3);
/// The largest number of undecided connections: the kernel bounds the number of descriptors in
/// flight.
const OUTSTANDING: usize = 4 * CONNECTIONS;

type DepartingConnection = Parting<OsNet>;

/// Passes connections on until the last one has ended.
pub(crate) struct Sender {
    packets: Packets,
    plane: Arc<DataPlane>,
    departures: UnboundedReceiver<DepartingConnection>,
    clock: MachineClock,
    /// Connections that have left their workers and are not offered yet.
    pending: VecDeque<DepartingConnection>,
    /// Offered connections, by number, with the time of the offer. Their sockets stay open here but
    /// are not read.
    outstanding: BTreeMap<u64, (Instant, DepartingConnection)>,
    next_number: u64,
    /// The counts that the successor knows of exchanges in this process.
    told: ToldLoads,
    /// The time at which they were last sent.
    told_at: Instant,
    taken: PassOutcome,
}

/// The outcome of passing connections on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PassOutcome {
    /// The number of connections that the successor took.
    pub(crate) connections: usize,
    /// The number of them with a request that waits in a queue.
    pub(crate) waiting: usize,
    /// The number of connections that it did not take, by its reasons.
    pub(crate) refused: BTreeMap<String, usize>,
}

/// The reason that no more connections are passed on.
#[derive(Debug, PartialEq, Eq)]
enum Over {
    /// No connections are left.
    Done,
    /// The successor is gone, is silent, or sent an invalid message.
    Broken(String),
}

impl Sender {
    /// Makes plain connections leave their workers, and offers those that could leave at once.
    ///
    /// # Returns
    /// The outcome, and the sender that passes on connections that become idle later; `None` if the
    /// successor is gone.
    pub(crate) async fn begin(
        packets: Packets,
        plane: Arc<DataPlane>,
    ) -> (PassOutcome, Option<Self>) {
        let (sender, mut departures) = unbounded_channel();
        plane.part(Some(sender)).await;
        let mut first = Vec::new();
        while let Ok(connection) = departures.try_recv() {
            first.push(connection);
        }
        // Waiting requests go first, in the order of their arrival.
        first.sort_by_key(|connection| {
            let seniority = connection.seniority();
            (seniority.is_none(), seniority)
        });
        let mut sender = Self {
            packets,
            plane,
            departures,
            clock: MachineClock::new(),
            pending: first.into(),
            outstanding: BTreeMap::new(),
            next_number: 0,
            told: ToldLoads::default(),
            told_at: Instant::now(),
            taken: PassOutcome::default(),
        };
        // The counts go before the waiting requests: running exchanges are ahead of them.
        let mut going = sender.tell().await;
        while going.is_ok() && !sender.is_settled() {
            going = sender.step().await;
        }
        if let Err(over) = going {
            return (sender.give_up(over).await, None);
        }
        (std::mem::take(&mut sender.taken), Some(sender))
    }

    /// Passes on connections that become idle, until none is left or the successor takes no more.
    pub(crate) async fn go_on(mut self) -> PassOutcome {
        loop {
            if let Err(over) = self.step().await {
                return self.give_up(over).await;
            }
        }
    }

    fn is_settled(&self) -> bool {
        self.pending.is_empty() && self.outstanding.is_empty()
    }

    /// Waits for the next event and handles it.
    async fn step(&mut self) -> Result<(), Over> {
        // Counts are sent in time, however much there is to offer and to receive: the successor
        // can use a slot that became free here only after it has received the count.
        if !self.told.is_empty() && self.told_at.elapsed() >= LOOK {
            return self.tell().await;
        }
        if !self.pending.is_empty() && self.outstanding.len() < OUTSTANDING {
            return self.offer().await;
        }
        let oldest = self.outstanding.first_key_value().map(|(_, (since, _))| *since + PATIENCE);
        let silent = async {
            match oldest {
                Some(deadline) => sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            received = self.packets.receive() => match received {
                Ok(ReceivedPacket::Packet(packet)) => self.settle(&packet).await.map_err(Over::Broken),
                Ok(ReceivedPacket::End) => Err(Over::Broken("it is gone".to_owned())),
                Err(error) => Err(Over::Broken(error.to_string())),
            },
            connection = self.departures.recv(), if self.pending.is_empty() => match connection {
                Some(connection) => {
                    self.pending.push_back(connection);
                    Ok(())
                }
                None if self.outstanding.is_empty() => Err(Over::Done),
                None => self.last_verdicts().await,
            },
            () = silent => Err(Over::Broken(late())),
            () = sleep_until(self.told_at + LOOK), if !self.told.is_empty() => self.tell().await,
        }
    }

    /// Sends the changed counts to the successor.
    async fn tell(&mut self) -> Result<(), Over> {
        for news in self.told.news(self.plane.process()) {
            self.send(&MigrationMessage::InFlight(news), &[]).await.map_err(Over::Broken)?;
        }
        self.told_at = Instant::now();
        Ok(())
    }

    /// Waits for the verdicts on the last connections; no others will come.
    async fn last_verdicts(&mut self) -> Result<(), Over> {
        match timeout(PATIENCE, self.packets.receive()).await {
            Ok(Ok(ReceivedPacket::Packet(packet))) => {
                self.settle(&packet).await.map_err(Over::Broken)
            }
            Ok(Ok(ReceivedPacket::End)) => Err(Over::Broken("it is gone".to_owned())),
            Ok(Err(error)) => Err(Over::Broken(error.to_string())),
            Err(_) => Err(Over::Broken(late())),
        }
    }

    /// Offers as many connections as fit into a message.
    async fn offer(&mut self) -> Result<(), Over> {
        let (mut offers, mut batch, mut room) = (Vec::new(), Vec::new(), MESSAGE_BYTES);
        while offers.len() < CONNECTIONS
            && let Some(connection) = self.pending.pop_front()
        {
            let listener = &connection.listener;
            let need =
                room_for(names_bytes(&listener.name, &listener.addresses), &connection.moved);
            if need > room && !batch.is_empty() {
                self.pending.push_front(connection);
                break;
            }
            room = room.saturating_sub(need);
            let number = self.next_number;
            self.next_number += 1;
            let (name, addresses) = (&listener.name, &listener.addresses);
            offers.push(Offer::new(number, name, addresses, &connection.moved, &self.clock));
            batch.push((number, connection));
        }
        let sent = self.send(&MigrationMessage::Offer(offers), &batch).await;
        match sent {
            Ok(()) => {
                let now = Instant::now();
                let offered = batch.into_iter().map(|(number, one)| (number, (now, one)));
                self.outstanding.extend(offered);
                Ok(())
            }
            Err(why) => {
                // Nothing of the batch was sent.
                for (_, connection) in batch.into_iter().rev() {
                    self.pending.push_front(connection);
                }
                Err(Over::Broken(why))
            }
        }
    }

    async fn send(
        &self,
        message: &MigrationMessage,
        batch: &[(u64, DepartingConnection)],
    ) -> Result<(), String> {
        let begun = batch.iter().flat_map(|(_, connection)| &connection.moved.begun);
        let requests: Vec<&[u8]> = begun.map(|begun| &*begun.bytes).collect();
        let sockets: Vec<BorrowedFd<'_>> =
            batch.iter().map(|(_, connection)| connection.accepted.socket()).collect();
        let bytes = message.encode(&requests).map_err(|error| error.to_string())?;
        match timeout(PATIENCE, self.packets.send(&bytes, &sockets)).await {
            Ok(sent) => sent.map_err(|error| error.to_string()),
            Err(_) => Err(late()),
        }
    }

    /// Drops connections that were taken over, and takes refused ones back.
    async fn settle(&mut self, packet: &Packet) -> Result<(), String> {
        let (message, _) = MigrationMessage::decode(&packet.bytes)?;
        let MigrationMessage::Verdicts(verdicts) = message else {
            return Err("it says what it is not asked".to_owned());
        };
        for verdict in verdicts {
            let offered = self.outstanding.remove(&verdict.number);
            let (_, connection) = offered.ok_or("it speaks of connections that are not its own")?;
            if let Some(why) = verdict.refused {
                *self.taken.refused.entry(why).or_default() += 1;
                self.plane.take_back(connection).await;
            } else {
                self.taken.connections += 1;
                self.taken.waiting += usize::from(connection.seniority().is_some());
            }
        }
        Ok(())
    }

    /// Takes back all connections that the successor does not own by now.
    async fn give_up(&mut self, over: Over) -> PassOutcome {
        for packet in self.packets.withdraw() {
            if self.settle(&packet).await.is_err() {
                // The messages after an invalid one are not trusted either.
                break;
            }
        }
        self.plane.part(None).await;
        self.departures.close();
        let offered = std::mem::take(&mut self.outstanding).into_values();
        let mut own: Vec<DepartingConnection> = offered.map(|(_, connection)| connection).collect();
        own.extend(std::mem::take(&mut self.pending));
        while let Ok(connection) = self.departures.try_recv() {
            own.push(connection);
        }
        if let Over::Broken(why) = over
            && !own.is_empty()
        {
            *self.taken.refused.entry(why).or_default() += own.len();
        }
        for connection in own {
            self.plane.take_back(connection).await;
        }
        std::mem::take(&mut self.taken)
    }
}

fn late() -> String {
    format!("it did not answer within {} s", PATIENCE.as_secs())
}

/// The size of a listener's name and addresses in a message.
fn names_bytes(name: &str, addresses: &[ListenAddress]) -> usize {
    let address = |address: &ListenAddress| match address {
        ListenAddress::Socket(_) => 128,
        ListenAddress::Unix { path, .. } => 128 + path.as_os_str().len(),
    };
    name.len() + addresses.iter().map(address).sum::<usize>()
}

impl PassOutcome {
    /// The outcome as sentences; none if there was nothing to pass on.
    pub(crate) fn lines(&self, process: u32) -> Vec<String> {
        let mut lines = Vec::new();
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        if self.connections > 0 {
            let waiting = match self.waiting {
                0 => String::new(),
                waiting => format!(", {waiting} of them with a request that waits in a queue"),
            };
            lines.push(format!(
                "process {process} takes over {} connection{}{waiting}",
                self.connections,
                plural(self.connections)
            ));
        }
        for (why, count) in &self.refused {
            lines.push(format!(
                "{count} connection{} stay{} with this process: {why}",
                plural(*count),
                if *count == 1 { "s" } else { "" }
            ));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_became_of_connections_is_said() {
        let refused = BTreeMap::from([("it is gone".to_owned(), 1), ("no room".to_owned(), 3)]);
        let taken = PassOutcome { connections: 5, waiting: 2, refused };
        let lines = [
            "process 7 takes over 5 connections, 2 of them with a request that waits in a queue",
            "1 connection stays with this process: it is gone",
            "3 connections stay with this process: no room",
        ];
        assert_eq!(taken.lines(7), lines);
        assert_eq!(
            PassOutcome { connections: 1, ..PassOutcome::default() }.lines(7),
            ["process 7 takes over 1 connection"]
        );
        assert!(PassOutcome::default().lines(7).is_empty());
    }
}
