//! Servers that the health checks of a case talk to. Each holds the conversation of the case's
//! script on every connection and records what the checking program sent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use super::case::unescape;
use super::support::eventually;
use super::support::origin::{Accepted, Origin};

/// The number of connections after which the result of the first check counts for traffic: the
/// third one belongs to a later check even if one check takes two.
const CHECKS: usize = 3;

/// A checked server of a case.
pub(crate) struct CheckedServer {
    pub(crate) origin: Origin,
    state: Arc<Conversation>,
}

#[derive(Default)]
struct Conversation {
    script: Mutex<Vec<Turn>>,
    of_program: Mutex<OfProgram>,
}

/// The doings of a program.
#[derive(Default)]
struct OfProgram {
    /// Its number: connections of the one before may end late.
    number: usize,
    /// The bytes of the connections that have ended. Checks repeat, so each text is kept once.
    heard: BTreeSet<Vec<u8>>,
    accepted: usize,
}

/// A line of the script.
#[derive(Clone, Debug, PartialEq)]
enum Turn {
    Send(Vec<u8>),
    /// Waits until this has come.
    Await(Vec<u8>),
    Close,
}

impl CheckedServer {
    pub(crate) fn start() -> Self {
        let state = Arc::new(Conversation::default());
        let own = state.clone();
        let origin = Origin::start(move |connection| own.hold(connection));
        Self { origin, state }
    }

    /// Sets the script, in which placeholders have been filled.
    pub(crate) fn set_script(&self, text: &str) {
        *self.state.script.lock().unwrap() = read_script(text);
    }

    /// Begins again, for another program.
    pub(crate) fn reset(&self) {
        let mut of_program = self.state.of_program.lock().unwrap();
        *of_program = OfProgram { number: of_program.number + 1, ..OfProgram::default() };
    }

    /// Returns true once checks have been repeated.
    pub(crate) fn is_checked(&self) -> bool {
        self.state.of_program.lock().unwrap().accepted >= CHECKS
    }

    /// Returns what came over the connections that have ended.
    pub(crate) fn heard(&self) -> Vec<Vec<u8>> {
        self.state.of_program.lock().unwrap().heard.iter().cloned().collect()
    }
}

/// Waits until one of the servers was checked often enough.
pub(crate) fn await_checks(servers: &BTreeMap<String, CheckedServer>) {
    if !servers.is_empty() {
        let checked = || servers.values().any(CheckedServer::is_checked).then_some(());
        eventually("the servers are checked", checked);
    }
}

impl Conversation {
    fn hold(&self, connection: &mut Accepted) {
        let number = {
            let mut of_program = self.of_program.lock().unwrap();
            of_program.accepted += 1;
            of_program.number
        };
        let script = self.script.lock().unwrap().clone();
        let mut heard = Vec::new();
        let mut judged = 0;
        for turn in script {
            match turn {
                Turn::Send(bytes) => connection.send(bytes),
                Turn::Await(bytes) => {
                    let Some(end) = await_bytes(connection, &mut heard, judged, &bytes) else {
                        break;
                    };
                    judged = end;
                }
                Turn::Close => {
                    connection.finish_sending();
                    break;
                }
            }
        }
        heard.extend(connection.all());
        let mut of_program = self.of_program.lock().unwrap();
        if of_program.number == number {
            of_program.heard.insert(heard);
        }
    }
}

/// Reads until the text has come behind `from`, and returns its end.
fn await_bytes(
    connection: &mut Accepted,
    heard: &mut Vec<u8>,
    from: usize,
    text: &[u8],
) -> Option<usize> {
    loop {
        let place = heard[from..].windows(text.len()).position(|window| window == text);
        if let Some(place) = place {
            return Some(from + place + text.len());
        }
        heard.extend(connection.some()?);
    }
}

fn read_script(text: &str) -> Vec<Turn> {
    let lines = text.lines().filter(|line| !line.is_empty());
    let turns = lines.map(|line| match line.split_once(' ').unwrap_or((line, "")) {
        (">", text) => Turn::Send([&unescape(text), &b"\r\n"[..]].concat()),
        (">>", text) => Turn::Send(unescape(text)),
        ("<", text) => Turn::Await(unescape(text)),
        ("!close", "") => Turn::Close,
        _ => panic!("{line}"),
    });
    turns.collect()
}

#[test]
fn scripts_of_checked_servers_are_read() {
    let script = read_script("> +OK\n< \\x01\\r\\n\n>> x\n!close\n");
    let expected = [
        Turn::Send(b"+OK\r\n".to_vec()),
        Turn::Await(b"\x01\r\n".to_vec()),
        Turn::Send(b"x".to_vec()),
        Turn::Close,
    ];
    assert_eq!(script, expected);
}
