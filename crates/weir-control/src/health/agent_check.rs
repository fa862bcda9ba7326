//! Questions to the agents of endpoints (HAProxy's `agent-check`): a program beside a server says
//! in one line how the server is. What is done about it is in `control/agents.rs`.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use weir_balance::{AdminState, Health};
use weir_config::Config;
use weir_config::defaults::MAX_WEIGHT;
use weir_config::model::{
    AgentCheck, Endpoint, EndpointAddress, EndpointCheck, EndpointOverride, Limit, Pool,
};
use weir_proxy::net::{PeerAddress, socket_name};
use weir_proxy::process::Process;

use crate::health::health_log::EndpointName;
use crate::health::probe::at_port;

/// The most bytes of an answer's line.
const LINE_BYTES: u64 = 1_024;
/// The most characters of a description that are shown.
const SHOWN: usize = 80;
/// The highest percentage that an agent can give a weight.
const MOST_PERCENT: u32 = 25_600;

/// An endpoint with an agent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AgentTarget {
    pub(crate) of: EndpointName,
    pub(crate) check: AgentCheck,
    own: EndpointCheck,
    /// The address of the endpoint's traffic.
    of_traffic: EndpointAddress,
}

/// Returns the endpoints of a configuration that have agents.
pub(crate) fn targets(config: &Config) -> Vec<AgentTarget> {
    let pools = config.pools.iter().filter_map(|pool| Some((pool, pool.agent_check.as_ref()?)));
    let of = |(pool, check): (&Pool, &AgentCheck)| {
        let (name, check) = (pool.name.clone(), check.clone());
        let asked = |own: &&Endpoint| own.agent != EndpointCheck::Off;
        let target = move |own: &Endpoint| AgentTarget {
            of: EndpointName { pool: name.as_str().into(), endpoint: own.name.as_str().into() },
            check: check.clone(),
            own: own.agent.clone(),
            of_traffic: own.address.clone(),
        };
        pool.endpoints.iter().filter(asked).map(target).collect::<Vec<_>>()
    };
    pools.flat_map(of).collect()
}

/// An answer of an agent: what it does not say stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AgentAnswer {
    pub(crate) health: Option<Health>,
    /// The word about the health, with its description.
    pub(crate) reason: String,
    order: Option<AdminState>,
    /// The weight, in percent of the one in the file.
    percent: Option<u32>,
    max_conn: Option<Limit>,
}

impl AgentAnswer {
    /// Reads a line; `None` if no word of it is known.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let (words, description) = line.split_once('#').unwrap_or((line, ""));
        let mut answer = Self::default();
        let split = |letter: char| letter.is_ascii_whitespace() || letter == ',';
        for word in words.split(split).filter(|word| !word.is_empty()) {
            let lower = word.to_ascii_lowercase();
            match lower.as_str() {
                "up" => answer.health = Some(Health::Healthy),
                "down" | "fail" | "failed" | "stopped" => answer.health = Some(Health::Unhealthy),
                "ready" => answer.order = Some(AdminState::Ready),
                "drain" => answer.order = Some(AdminState::Draining),
                "maint" => answer.order = Some(AdminState::Maintenance),
                other => answer.number(other),
            }
            if matches!(lower.as_str(), "up" | "down" | "fail" | "failed" | "stopped") {
                answer.reason = said(&lower, description);
            }
        }
        (answer != Self::default()).then_some(answer)
    }

    /// Reads a weight or a limit.
    fn number(&mut self, word: &str) {
        if let Some(percent) = word.strip_suffix('%').and_then(|text| text.parse::<u32>().ok()) {
            self.percent = Some(percent.min(MOST_PERCENT));
        } else if let Some(limit) = word.strip_prefix("maxconn:")
            && let Ok(limit) = limit.parse::<u32>()
        {
            self.max_conn = Some(Limit::from(Some(limit).filter(|limit| *limit > 0)));
        }
    }

    /// Returns true if the agent gives the endpoint no weight; `None` if it leaves that as it is.
    /// An order replaces what it said before.
    pub(crate) fn drains(&self, own_weight: Option<u32>) -> Option<bool> {
        let by_order = self.order.map(|_| false);
        self.percent.map(|_| self.weight(own_weight) == Some(0)).or(by_order)
    }

    /// The weight that the agent gives the endpoint: a percentage, rounded down, of `own_weight`,
    /// or nothing. Without an own weight it is known for 0 % only.
    fn weight(&self, own_weight: Option<u32>) -> Option<u32> {
        let percent = self.percent?;
        let own = if percent == 0 { 0 } else { own_weight? };
        let scaled = u64::from(own) * u64::from(percent) / 100;
        Some(u32::try_from(scaled).unwrap_or(MAX_WEIGHT).min(MAX_WEIGHT))
    }

    /// Returns what differs from the endpoint as it is.
    pub(crate) fn change(&self, now: &Endpoint, own_weight: Option<u32>) -> EndpointOverride {
        let weight = self.weight(own_weight);
        let now_limit = Limit::from(now.max_conn);
        EndpointOverride {
            order: self.order.filter(|order| *order != now.order),
            weight: weight.filter(|weight| *weight > 0 && *weight != now.weight),
            max_conn: self.max_conn.filter(|limit| *limit != now_limit),
        }
    }
}

/// Returns the reason for a verdict: the agent's word, and what it says about it.
fn said(word: &str, description: &str) -> String {
    let shown: String = description
        .trim()
        .chars()
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .take(SHOWN)
        .collect();
    if shown.is_empty() {
        format!("its agent says `{word}`")
    } else {
        format!("its agent says `{word}`: {shown}")
    }
}

impl AgentTarget {
    /// Returns true if the other one is the agent of the same machine.
    pub(crate) fn asks_of_the_same(&self, other: &Self) -> bool {
        let place =
            |target: &Self| (target.own.clone(), target.of_traffic.clone(), target.check.port);
        place(self) == place(other)
    }

    /// The address of the agent; `None` while the endpoint has no address.
    pub(crate) fn address(&self, process: &Process) -> Option<PeerAddress> {
        match &self.own {
            EndpointCheck::At(EndpointAddress::Socket(address)) => {
                Some(PeerAddress::Socket(*address))
            }
            EndpointCheck::At(EndpointAddress::Unix(path)) => Some(PeerAddress::Unix(path.clone())),
            // A name is refused when the configuration is checked.
            EndpointCheck::Off | EndpointCheck::At(_) => None,
            EndpointCheck::Own => {
                let snapshot = process.snapshot();
                let (pool, endpoint) = snapshot.endpoint(&self.of.pool, &self.of.endpoint)?;
                let address = pool.endpoints.get(endpoint)?.address.load_full()?;
                Some(at_port(&address, Some(self.check.port?)))
                    .filter(|address| matches!(address, PeerAddress::Socket(_)))
            }
        }
    }
}

/// Asks an agent; returns the line that it answers.
pub(crate) async fn ask(address: &PeerAddress, send: Option<&str>) -> io::Result<String> {
    match address {
        PeerAddress::Socket(address) => talk(TcpStream::connect(*address).await?, send).await,
        PeerAddress::Unix(path) => talk(UnixStream::connect(socket_name(path)).await?, send).await,
    }
}

async fn talk<S>(mut stream: S, send: Option<&str>) -> io::Result<String>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    if let Some(text) = send {
        stream.write_all(text.as_bytes()).await?;
        stream.flush().await?;
    }
    let mut bytes = Vec::new();
    let mut rest = stream.take(LINE_BYTES);
    while !bytes.contains(&b'\n') {
        if rest.read_buf(&mut bytes).await? == 0 {
            break;
        }
    }
    match bytes.iter().position(|byte| *byte == b'\n') {
        Some(end) => bytes.truncate(end),
        None if bytes.len() as u64 >= LINE_BYTES => {
            return Err(io::Error::other(format!("its line has more than {LINE_BYTES} bytes")));
        }
        // The rest of the line may change its meaning.
        None => return Err(io::Error::other("its line has no end")),
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::net::TcpListener;
    use tokio::time::timeout;

    use super::*;

    #[test]
    fn the_words_of_an_answer_are_those_of_haproxy() {
        let check = |line: &str, expected: Option<AgentAnswer>| {
            assert_eq!(AgentAnswer::parse(line), expected, "{line}");
        };
        let usual = AgentAnswer::default;
        let health = |health, reason: &str| {
            Some(AgentAnswer { health: Some(health), reason: reason.to_owned(), ..usual() })
        };
        check("up", health(Health::Healthy, "its agent says `up`"));
        check("UP\r", health(Health::Healthy, "its agent says `up`"));
        for word in ["down", "fail", "failed", "stopped"] {
            check(word, health(Health::Unhealthy, &format!("its agent says `{word}`")));
        }
        check(
            "down # disk\x1b full",
            health(Health::Unhealthy, "its agent says `down`: disk  full"),
        );
        check("drain", Some(AgentAnswer { order: Some(AdminState::Draining), ..usual() }));
        check("maint", Some(AgentAnswer { order: Some(AdminState::Maintenance), ..usual() }));
        check("50%", Some(AgentAnswer { percent: Some(50), ..usual() }));
        check("99999%", Some(AgentAnswer { percent: Some(MOST_PERCENT), ..usual() }));
        check("maxconn:30", Some(AgentAnswer { max_conn: Some(Limit::At(30)), ..usual() }));
        check("maxconn:0", Some(AgentAnswer { max_conn: Some(Limit::Unlimited), ..usual() }));
        let all = AgentAnswer {
            health: Some(Health::Healthy),
            reason: "its agent says `up`".to_owned(),
            order: Some(AdminState::Ready),
            percent: Some(75),
            max_conn: Some(Limit::At(9)),
        };
        check("ready,up\t75% maxconn:9", Some(all));
        for nothing in ["", " ", "# down", "hello", "-5%", "maxconn:x", "99999999999%", "%"] {
            check(nothing, None);
        }
    }

    #[test]
    fn a_change_is_what_differs_and_no_weight_is_a_draining_of_its_own() {
        let address = EndpointAddress::Socket("10.0.0.1:80".parse().unwrap());
        let file = Endpoint { weight: 100, ..Endpoint::new("a", address) };
        let check = |line: &str, now: &Endpoint, expected: &str| {
            let answer = AgentAnswer::parse(line).unwrap();
            let set = answer.change(now, Some(100));
            let order = set.order.map_or("", AdminState::as_str);
            let drains = answer.drains(Some(100));
            let found = format!("{order} {:?} {:?} {drains:?}", set.weight, set.max_conn);
            assert_eq!(found, expected, "{line}");
        };
        check("100% up", &file, " None None Some(false)");
        check("50%", &file, " Some(50) None Some(false)");
        check("0%", &file, " None None Some(true)");
        let drained = Endpoint { order: AdminState::Draining, ..file.clone() };
        // The operator's order stays.
        check("30%", &drained, " Some(30) None Some(false)");
        check("0%", &drained, " None None Some(true)");
        check("ready", &drained, "ready None None Some(false)");
        check("ready 0%", &drained, "ready None None Some(true)");
        check("ready 0%", &file, " None None Some(true)");
        check("maint 0%", &drained, "maintenance None None Some(true)");
        check("maint", &file, "maintenance None None Some(false)");
        check("maxconn:7", &file, " None Some(At(7)) None");
        check("maxconn:0", &file, " None None None");
        let half = AgentAnswer::parse("50%").unwrap();
        assert_eq!(half.change(&file, None), EndpointOverride::default());
        assert_eq!(half.drains(None), Some(false));
        // A weight that rounds to nothing is none.
        assert_eq!((half.drains(Some(1)), half.change(&file, Some(1)).weight), (Some(true), None));
    }

    /// Asks an agent that answers with these bytes, and closes the connection if it is told to.
    async fn answer(bytes: &'static [u8], closes: bool) -> Result<String, String> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = PeerAddress::Socket(listener.local_addr().unwrap());
        let agent = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = [0; 3];
            stream.read_exact(&mut asked).await.unwrap();
            let _ = stream.write_all(bytes).await;
            if !closes {
                std::future::pending::<()>().await;
            }
            asked
        });
        let line = timeout(Duration::from_secs(20), ask(&address, Some("hi\n"))).await.unwrap();
        if closes {
            assert_eq!(&agent.await.unwrap(), b"hi\n");
        }
        line.map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn an_answer_is_one_bounded_line() {
        assert_eq!(answer(b"up 50%\nmore", false).await.unwrap(), "up 50%");
        assert_eq!(answer(b"down", true).await.unwrap_err(), "its line has no end");
        assert_eq!(answer(b"\xff up\n", true).await.unwrap(), "\u{fffd} up");
        assert_eq!(answer(b"", true).await.unwrap_err(), "its line has no end");
        assert_eq!(answer(b"\n", true).await.unwrap(), "");
        let long: &'static [u8] = Box::leak(vec![b'x'; 5_000].into_boxed_slice());
        assert!(answer(long, false).await.unwrap_err().contains("more than 1024 bytes"));
    }
}
