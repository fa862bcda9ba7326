//! The link between the client and the proxy of an experiment: the laboratory enters a network
//! namespace of its own and has the kernel delay, drop and pace what goes over its loopback
//! interface from and to the client's address. All programs that it starts are in the namespace,
//! which ends with the last of them.

use std::net::Ipv4Addr;
use std::process::{Command, Stdio};

use nix::sched::{CloneFlags, unshare};

use crate::experiment::ClientLink;

/// The address of the generator on a link. Those of all other programs are 127.0.0.1.
pub(super) const CLIENT: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// The rate of a link without one, and of all other traffic.
const UNLIMITED: &str = "100gbit";
/// Packets that wait for their delay at most: 100 ms of 10 Gbit/s.
const DELAYED_PACKETS: &str = "100000";

/// Enters a namespace with this link.
///
/// # Errors
/// One sentence: what is missing.
pub(super) fn enter(link: &ClientLink) -> Result<(), String> {
    unshare(CloneFlags::CLONE_NEWNET).map_err(|error| {
        format!(
            "`link` needs a network namespace, and the system gives none ({error}): run as root"
        )
    })?;
    commands(link).iter().try_for_each(|command| run(command))
}

/// The commands that make the link.
fn commands(link: &ClientLink) -> Vec<Vec<String>> {
    let rate = link.rate_bits.map_or(UNLIMITED.to_owned(), |bits| format!("{bits:.0}bit"));
    let client = format!("{CLIENT}/32");
    let mut found = vec![
        // Packets of the size that networks have, one by one: bundles would be lost as a whole.
        words("ip link set lo up mtu 1500 gso_max_segs 1"),
        words("tc qdisc add dev lo root handle 1: htb default 1"),
        words(&format!("tc class add dev lo parent 1: classid 1:1 htb rate {UNLIMITED}")),
    ];
    for (class, end) in [("2", "src"), ("3", "dst")] {
        found.push(words(&format!(
            "tc class add dev lo parent 1: classid 1:{class} htb rate {rate} quantum 1514"
        )));
        found.push(words(&format!(
            "tc filter add dev lo parent 1: protocol ip u32 match ip {end} {client} flowid 1:{class}"
        )));
        if link.has_netem() {
            let mut netem = words(&format!(
                "tc qdisc add dev lo parent 1:{class} handle {class}: netem limit {DELAYED_PACKETS}"
            ));
            if link.delay_ns > 0 {
                netem.extend(["delay".to_owned(), microseconds(link.delay_ns)]);
                if link.jitter_ns > 0 {
                    netem.push(microseconds(link.jitter_ns));
                }
            }
            if link.loss > 0.0 {
                netem.extend(["loss".to_owned(), format!("{}%", link.loss * 100.0)]);
            }
            found.push(netem);
        }
    }
    found
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

fn microseconds(ns: u64) -> String {
    format!("{}us", ns.div_ceil(1_000))
}

fn run(command: &[String]) -> Result<(), String> {
    let Some((program, arguments)) = command.split_first() else { return Ok(()) };
    let done = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let done = done.map_err(|error| {
        format!(
            "`link` needs `{program}`, of Debian's package iproute2, which does not start: {error}"
        )
    })?;
    if done.status.success() {
        return Ok(());
    }
    let line = command.join(" ");
    let said = String::from_utf8_lossy(&done.stderr);
    let said = said.lines().next().unwrap_or("without a reason").trim();
    let hint = if arguments.iter().any(|word| word == "netem") {
        ": delay, jitter and loss need a kernel with netem (CONFIG_NET_SCH_NETEM); a `rate` alone does not"
    } else {
        ""
    };
    Err(format!("the link cannot be made: `{line}` failed ({said}){hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_limit_delay_and_drop_both_directions_of_the_client_alone() {
        let link = ClientLink {
            delay_ns: 20_000_000,
            jitter_ns: 1_500_000,
            loss: 0.001,
            rate_bits: Some(100e6),
        };
        let lines: Vec<String> = commands(&link).iter().map(|command| command.join(" ")).collect();
        let expected = "ip link set lo up mtu 1500 gso_max_segs 1
tc qdisc add dev lo root handle 1: htb default 1
tc class add dev lo parent 1: classid 1:1 htb rate 100gbit
tc class add dev lo parent 1: classid 1:2 htb rate 100000000bit quantum 1514
tc filter add dev lo parent 1: protocol ip u32 match ip src 127.0.0.2/32 flowid 1:2
tc qdisc add dev lo parent 1:2 handle 2: netem limit 100000 delay 20000us 1500us loss 0.1%
tc class add dev lo parent 1: classid 1:3 htb rate 100000000bit quantum 1514
tc filter add dev lo parent 1: protocol ip u32 match ip dst 127.0.0.2/32 flowid 1:3
tc qdisc add dev lo parent 1:3 handle 3: netem limit 100000 delay 20000us 1500us loss 0.1%";
        assert_eq!(lines.join("\n"), expected);
        let rate_alone = ClientLink { rate_bits: Some(1e6), ..ClientLink::default() };
        assert!(commands(&rate_alone).iter().all(|command| !command.contains(&"netem".to_owned())));
        let delay_alone = ClientLink { delay_ns: 1, ..ClientLink::default() };
        let lines: Vec<String> = commands(&delay_alone).iter().map(|one| one.join(" ")).collect();
        assert!(lines[3].ends_with("rate 100gbit quantum 1514"), "{}", lines[3]);
        assert!(lines[5].ends_with("delay 1us"), "{}", lines[5]);
    }

    #[test]
    fn a_command_that_fails_is_named_with_what_is_missing() {
        let failure = |line: &str| run(&words(line)).unwrap_err();
        assert!(failure("no-such-program-of-weir").contains("iproute2"));
        let said = failure("false netem delay 1us");
        assert!(said.contains("`false netem delay 1us` failed"), "{said}");
        assert!(said.contains("CONFIG_NET_SCH_NETEM"), "{said}");
        assert!(!failure("false").contains("NETEM"));
    }
}
