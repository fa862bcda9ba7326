//! `agent-check` and the options of a server beside it become `agent_check` of the pool and `agent`
//! of its servers.

use std::net::{IpAddr, SocketAddr};

use weir_config::source::SourceSpan;
use weir_config::syntax::tree::Directive;

use super::convert::HaproxyConverter;
use super::sections::{LineId, SectionId};
use super::values;
use crate::native::NativeLine;

/// The time between two questions in HAProxy, µs.
const USUAL_INTERVAL: u64 = 2_000_000;

/// The agent of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AgentOptions {
    pub(super) asked: bool,
    pub(super) port: Option<u16>,
    /// The address, where it is not that of the server.
    address: Option<IpAddr>,
    interval: u64,
    send: Option<String>,
}

impl Default for AgentOptions {
    fn default() -> Self {
        Self { asked: false, port: None, address: None, interval: USUAL_INTERVAL, send: None }
    }
}

impl AgentOptions {
    /// Takes an option with a value; returns false if it is none of these.
    ///
    /// # Errors
    /// The reason for a value that has no conversion.
    pub(super) fn take(&mut self, word: &str, value: &str) -> Result<bool, String> {
        let wrong = || format!("`{word}` needs another value than `{value}`");
        match word {
            "agent-port" => {
                let port = value.parse::<u16>().ok().filter(|port| *port > 0);
                self.port = Some(port.ok_or_else(wrong)?);
            }
            "agent-addr" => {
                let address = value.trim_start_matches('[').trim_end_matches(']').parse();
                self.address = Some(address.map_err(|_| {
                    format!("`agent-addr {value}`: write an IP address, because names of agents are not resolved")
                })?);
            }
            "agent-inter" => {
                let time = values::microseconds(value).filter(|time| *time >= 10_000);
                self.interval = time.ok_or_else(wrong)?;
            }
            "agent-send" if !value.is_empty() => self.send = Some(value.to_owned()),
            "agent-send" => return Err(wrong()),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Returns the address of the agent, where it is not at the port of the pool's agents.
    fn own_address(&self, port: Option<u16>) -> Option<String> {
        let own = self.port?;
        match self.address {
            Some(address) => Some(SocketAddr::new(address, own).to_string()),
            None if self.port == port => None,
            None => Some(format!(":{own}")),
        }
    }
}

/// The agents of the servers of a backend.
#[derive(Default)]
pub(super) struct ConvertedAgents {
    /// The line of the pool.
    pub(super) line: Option<Directive>,
    /// The port of agents at the addresses of their servers.
    port: Option<u16>,
}

impl HaproxyConverter<'_> {
    /// Converts what the servers of a section have in common about their agents.
    pub(super) fn agents(
        &mut self,
        id: SectionId,
        servers: &[(&AgentOptions, LineId)],
        span: SourceSpan,
    ) -> ConvertedAgents {
        let asked = || servers.iter().filter(|(agent, _)| agent.asked);
        let Some((first, _)) = asked().next() else { return ConvertedAgents::default() };
        for (agent, line) in asked() {
            if agent.port.is_none() {
                self.outcomes.refuse(*line, "write `agent-port` beside `agent-check`");
            }
            if agent.interval != first.interval || agent.send != first.send {
                self.outcomes.differs(
                    *line,
                    "`agent-inter` and `agent-send` are those of the first server with an agent",
                );
            }
        }
        let mut plain = asked().filter(|(agent, _)| agent.address.is_none());
        let port = plain.next().and_then(|(agent, _)| agent.port);
        let most = self.time(id, "timeout check").unwrap_or(first.interval).min(first.interval);
        let mut line = NativeLine::new("agent_check", span);
        if let Some(port) = port {
            line = line.option("port", &port.to_string());
        }
        line = line.option("interval", &values::time(first.interval));
        line = line.option("timeout", &values::time(most));
        if let Some(text) = &first.send {
            line = line.option("send", text);
        }
        ConvertedAgents { line: Some(line.end()), port }
    }
}

impl ConvertedAgents {
    /// Returns the option of a server at this address, if it needs one.
    ///
    /// # Errors
    /// The reason for which its agent has no address.
    pub(super) fn of_server(
        &self,
        agent: &AgentOptions,
        address: &str,
    ) -> Result<Option<String>, String> {
        if self.line.is_none() {
            return Ok(None);
        }
        // Without a port the line of the server is refused.
        if !agent.asked || agent.port.is_none() {
            return Ok(Some("off".to_owned()));
        }
        let Some(own) = agent.own_address(self.port) else { return Ok(None) };
        let Some(port) = own.strip_prefix(':') else { return Ok(Some(own)) };
        match address.parse::<SocketAddr>() {
            Ok(server) => {
                let port = port.parse().unwrap_or_default();
                Ok(Some(SocketAddr::new(server.ip(), port).to_string()))
            }
            Err(_) => Err("the agents of named servers are at one port in a backend: write `agent-addr`, or a backend for each".to_owned()),
        }
    }
}
