//! The counters of the network: of each interface, and of TCP in all.

use serde::{Deserialize, Serialize};

/// What went through an interface in one direction since it exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceTraffic {
    /// Bytes, headers included.
    pub bytes: u64,
    /// Packets.
    pub packets: u64,
    /// Packets with errors.
    pub errors: u64,
    /// Packets that were dropped, for want of buffers for example.
    pub dropped: u64,
}

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NetworkInterface {
    /// Its name, such as `eth0`.
    pub name: String,
    /// Traffic to this machine.
    pub received: InterfaceTraffic,
    /// Traffic from it.
    pub sent: InterfaceTraffic,
    /// Its speed in each direction, in bytes per second. The loopback and most interfaces of
    /// virtual machines have none.
    pub bytes_per_s: Option<f64>,
}

impl NetworkInterface {
    /// Parses `/proc/net/dev`; `None` if a line is not understood. `speed` returns the text of
    /// `/sys/class/net/NAME/speed` for a name.
    pub fn all_of_dev(dev: &str, speed: impl Fn(&str) -> Option<String>) -> Option<Vec<Self>> {
        let interface = |line: &str| {
            let (name, counters) = line.split_once(':')?;
            let name = name.trim();
            let counters: Vec<u64> =
                counters.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
            let (received, sent) = (counters.get(..4)?, counters.get(8..12)?);
            // In millions of bits per second; -1 if it is not known.
            let megabits = speed(name).and_then(|text| text.trim().parse::<f64>().ok());
            Some(Self {
                name: name.to_owned(),
                received: InterfaceTraffic::of(received)?,
                sent: InterfaceTraffic::of(sent)?,
                bytes_per_s: megabits.filter(|speed| *speed > 0.0).map(|speed| speed * 125_000.0),
            })
        };
        dev.lines().skip(2).map(interface).collect()
    }

    /// The share of the interface's speed that its busier direction used since `earlier`, `wall_us`
    /// microseconds before; `None` without a speed.
    fn share(&self, earlier: &Self, wall_us: f64) -> Option<f64> {
        let moved =
            |now: InterfaceTraffic, then: InterfaceTraffic| now.bytes.saturating_sub(then.bytes);
        let busier =
            moved(self.received, earlier.received).max(moved(self.sent, earlier.sent)) as f64;
        Some(busier * 1e6 / wall_us.max(1.0) / self.bytes_per_s?)
    }
}

impl InterfaceTraffic {
    fn of(counters: &[u64]) -> Option<Self> {
        let [bytes, packets, errors, dropped] = *counters else { return None };
        Some(Self { bytes, packets, errors, dropped })
    }
}

/// The largest share of its speed that an interface used in one direction between two readings,
/// `wall_us` microseconds apart; `None` if no interface has a speed.
pub fn network_share(
    earlier: &[NetworkInterface],
    now: &[NetworkInterface],
    wall_us: f64,
) -> Option<f64> {
    let share = |interface: &NetworkInterface| {
        let earlier = earlier.iter().find(|earlier| earlier.name == interface.name)?;
        interface.share(earlier, wall_us)
    };
    now.iter().filter_map(share).max_by(f64::total_cmp)
}

/// Of fewer segments, no share is computed: one of them would be a large one.
const ENOUGH_SEGMENTS: u64 = 500;

/// TCP's counters in this network namespace since it exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpCounters {
    /// Segments sent, retransmitted ones left out.
    pub sent_segments: u64,
    /// Segments that were retransmitted.
    pub retransmitted_segments: u64,
    /// Connections that a full backlog of a listening socket kept waiting or refused.
    pub backlog_overflows: u64,
}

impl TcpCounters {
    /// Parses `/proc/net/snmp` and `/proc/net/netstat`.
    pub fn of(snmp: &str, netstat: &str) -> Option<Self> {
        Some(Self {
            sent_segments: counter(snmp, "Tcp:", "OutSegs")?,
            retransmitted_segments: counter(snmp, "Tcp:", "RetransSegs")?,
            backlog_overflows: counter(netstat, "TcpExt:", "ListenOverflows")?,
        })
    }

    /// The share of the segments since `earlier` that were retransmitted; `None` if there were too
    /// few of them.
    pub fn retransmitted_share(self, earlier: Self) -> Option<f64> {
        let sent = self.sent_segments.saturating_sub(earlier.sent_segments);
        let retransmitted =
            self.retransmitted_segments.saturating_sub(earlier.retransmitted_segments);
        (sent >= ENOUGH_SEGMENTS).then(|| retransmitted as f64 / (sent + retransmitted) as f64)
    }
}

/// A number of a table with a line of names and a line of values, both with the same first word.
fn counter(text: &str, table: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(table));
    let (names, values) = (lines.next()?, lines.next()?);
    let place = names.split_whitespace().position(|own| own == name)?;
    values.split_whitespace().nth(place)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEV: &str = "Inter-|   Receive\n face |bytes\n    lo: 10 1 0 0 0 0 0 0 20 2 0 0 0 0 0 0\n\
        eth0:100 3 4 5 0 0 0 0 200 6 7 8 0 0 0 0\n";

    fn speed(name: &str) -> Option<String> {
        (name == "eth0").then(|| "10\n".to_owned())
    }

    #[test]
    fn interfaces_are_read_with_their_speeds() {
        let found = NetworkInterface::all_of_dev(DEV, speed).unwrap();
        let [loopback, card] = &found[..] else { panic!("{found:?}") };
        assert_eq!((loopback.received.bytes, loopback.sent.bytes), (10, 20));
        assert_eq!(loopback.bytes_per_s, None);
        assert_eq!(card.name, "eth0");
        assert_eq!(
            card.received,
            InterfaceTraffic { bytes: 100, packets: 3, errors: 4, dropped: 5 }
        );
        assert_eq!(card.sent, InterfaceTraffic { bytes: 200, packets: 6, errors: 7, dropped: 8 });
        assert_eq!(card.bytes_per_s, Some(1_250_000.0));
        let unknown = NetworkInterface::all_of_dev(DEV, |_| Some("-1\n".to_owned())).unwrap();
        assert_eq!(unknown[1].bytes_per_s, None);
        assert_eq!(NetworkInterface::all_of_dev("a\nb\nnonsense\n", speed), None);
        assert_eq!(NetworkInterface::all_of_dev("a\nb\neth0: 1 2 3\n", speed), None);
    }

    #[test]
    fn the_share_is_that_of_the_busiest_direction_of_an_interface_with_a_speed() {
        let before = NetworkInterface::all_of_dev(DEV, speed).unwrap();
        // 1 MB in a second over a link of 10 Mbit/s; the loopback has no speed.
        let mut after = before.clone();
        after[0].sent.bytes += 1_000_000_000;
        after[1].sent.bytes += 1_000_000;
        after[1].received.bytes += 500_000;
        let share = network_share(&before, &after, 1e6).unwrap();
        assert!((share - 0.8).abs() < 1e-9, "{share}");
        assert_eq!(network_share(&[], &after, 1e6), None);
        assert_eq!(network_share(&before[..1], &after[..1], 1e6), None);
    }

    #[test]
    fn tcp_s_counters_are_found_by_their_names() {
        let snmp =
            "Ip: Forwarding OutSegs\nIp: 1 9\nTcp: InSegs OutSegs RetransSegs\nTcp: 5 900 100\n";
        let netstat = "TcpExt: A ListenOverflows B\nTcpExt: 1 7 2\nIpExt: A\nIpExt: 3\n";
        let found = TcpCounters::of(snmp, netstat).unwrap();
        let expected =
            TcpCounters { sent_segments: 900, retransmitted_segments: 100, backlog_overflows: 7 };
        assert_eq!(found, expected);
        assert_eq!(found.retransmitted_share(TcpCounters::default()), Some(0.1));
        assert_eq!(found.retransmitted_share(found), None);
        assert_eq!(TcpCounters::of("Tcp: InSegs\nTcp: 5\n", netstat), None);
        assert_eq!(TcpCounters::of(snmp, ""), None);
    }
}
