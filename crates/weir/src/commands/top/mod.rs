//! `weir top`: the dashboard in a terminal, over the admin socket. It polls once a second and
//! draws; the values shown are those of the status of `weir-admin`.
//!
//! ```text
//! asking thread ──Seen──▶ ┐
//!                          ├─▶ Screen ──frame──▶ terminal
//! reading thread ──keys──▶ ┤      └── an order, once confirmed ──▶ admin socket
//! signals ─────────────────┘
//! ```

mod frame;
mod keys;
mod message;
mod screen;
mod seen;
mod signals;
mod table;
mod terminal;
mod what_if;

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use nix::sys::signal::Signal;

use self::frame::ScreenSize;
use self::message::TopMessage;
use self::screen::{AfterKey, Screen};
use self::signals::EndSignals;
use self::terminal::RawTerminal;
use crate::admin_client::AdminPlace;
use crate::failure::CommandFailure;
use crate::terminal as output;

/// The polling interval.
const PERIOD: Duration = Duration::from_secs(1);

/// Monitor a running Weir in the terminal
#[derive(Args, Clone, Debug)]
pub(crate) struct TopArguments {
    #[command(flatten)]
    place: AdminPlace,
    /// Print one frame as plain text and exit
    #[arg(long)]
    once: bool,
    /// Order of the servers of a pool
    #[arg(long, value_enum, default_value_t)]
    sort: table::Sort,
}

/// The end of a session.
enum SessionEnd {
    /// The user left.
    Left,
    By(Signal),
}

pub(crate) fn run(arguments: &TopArguments) -> Result<(), CommandFailure> {
    let first = seen::look(&arguments.place)?;
    let mut screen = Screen::new(first, arguments.sort);
    if arguments.once {
        let columns = terminal::size().map_or_else(columns, |size| size.columns);
        return output::print(&screen.whole(columns).plain());
    }
    // Signals are blocked before the terminal is changed.
    let signals = EndSignals::take()
        .map_err(|error| CommandFailure::RunTime(format!("cannot handle signals: {error}")))?;
    let raw = RawTerminal::enter().map_err(|error| {
        CommandFailure::Usage(format!(
            "weir top needs a terminal ({error}); use --once to print one frame"
        ))
    })?;
    let (sender, heard) = mpsc::channel();
    let (told, before) = (sender.clone(), raw.before());
    thread::spawn(move || signals.wait(&told, &before));
    let watched = watch(&arguments.place, &mut screen, sender, &heard);
    drop(raw);
    if let SessionEnd::By(signal) = watched? {
        signals::end_by(signal);
    }
    Ok(())
}

/// Draws until the user leaves or a signal arrives.
fn watch(
    place: &AdminPlace,
    screen: &mut Screen,
    sender: Sender<TopMessage>,
    heard: &Receiver<TopMessage>,
) -> Result<SessionEnd, CommandFailure> {
    let typed = sender.clone();
    thread::spawn(move || read_keys(&typed));
    let asked = place.clone();
    thread::spawn(move || ask(&asked, &sender));
    let mut drawn = Instant::now();
    loop {
        // The screen is drawn at least once a second, so a resized window is noticed.
        if drawn.elapsed() >= PERIOD || screen.take_changed() {
            let size = terminal::size().unwrap_or(ScreenSize { columns: 80, rows: 24 });
            terminal::draw(&screen.frame(size))
                .map_err(|error| CommandFailure::RunTime(format!("cannot draw: {error}")))?;
            drawn = Instant::now();
        }
        match heard.recv_timeout(PERIOD) {
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) | Ok(TopMessage::NoMoreKeys) => {
                return Ok(SessionEnd::Left);
            }
            Ok(TopMessage::Told(signal)) => return Ok(SessionEnd::By(signal)),
            Ok(TopMessage::Saw(seen)) => screen.saw(*seen),
            Ok(TopMessage::Typed(bytes)) => {
                for key in keys::keys(&bytes) {
                    match screen.press(key) {
                        AfterKey::Stay => {}
                        AfterKey::Leave => return Ok(SessionEnd::Left),
                        AfterKey::Order(order) => screen.ordered(&order.clone(), order.send(place)),
                    }
                }
            }
        }
    }
}

fn read_keys(typed: &Sender<TopMessage>) {
    loop {
        let message = match terminal::read_keys() {
            Ok(bytes) if !bytes.is_empty() => TopMessage::Typed(bytes),
            _ => TopMessage::NoMoreKeys,
        };
        let last = matches!(message, TopMessage::NoMoreKeys);
        if typed.send(message).is_err() || last {
            return;
        }
    }
}

/// Polls once a second until the receiver is gone.
fn ask(place: &AdminPlace, seen: &Sender<TopMessage>) {
    loop {
        thread::sleep(PERIOD);
        if seen.send(TopMessage::Saw(Box::new(seen::look(place)))).is_err() {
            return;
        }
    }
}

/// Returns the width of a frame that goes to no terminal.
fn columns() -> usize {
    let said = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    said.unwrap_or(100).clamp(40, 1_000)
}
