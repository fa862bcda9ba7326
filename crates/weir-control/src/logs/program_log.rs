//! Weir's own log, apart from the access logs: one line per message, with a level, to standard
//! error or to the targets of `error_log`. Callers never wait: each target has its own thread, and
//! lines that do not fit into its channel are counted as dropped.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::os::linux::fs::MetadataExt as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use weir_config::model::{ErrorLog, LogTarget, Severity};
use weir_stats::Clock;

use crate::logs::outcome::WriteOutcome;
use crate::logs::target::LogOutput;

/// The largest number of lines that wait for one target.
const CAPACITY: usize = 1024;

/// The longest that the end of the process waits for a target.
const FLUSH: Duration = Duration::from_secs(1);

/// The targets of log lines; `None` before the start and after the end: lines go directly to
/// standard error.
static PLACES: RwLock<Option<Arc<[OpenTarget]>>> = RwLock::new(None);

/// Logs a sentence with severity `notice`.
pub fn tell(sentence: &str) {
    say(Severity::Notice, sentence);
}

/// Logs a warning: nothing stops, but the operator should act.
pub fn warn(sentence: &str) {
    say(Severity::Warning, &format!("warning: {sentence}"));
}

/// Logs a sentence with this severity.
pub fn say(severity: Severity, sentence: &str) {
    let places = PLACES.read().unwrap_or_else(PoisonError::into_inner).clone();
    let Some(places) = places else {
        say_directly(severity, sentence);
        return;
    };
    say_at(&places, severity, sentence);
}

fn say_at(places: &[OpenTarget], severity: Severity, sentence: &str) {
    let line = ProgramLine { severity, time: SystemTime::now(), text: sentence.into() };
    let speech = places.iter().filter(|place| place.purpose == TargetPurpose::Speech);
    for place in speech.filter(|place| severity <= place.level) {
        place.send(TargetOrder::Write(line.clone()));
    }
}

/// As [`say`], before this process ends itself. Returns when the line is written everywhere, or
/// after a bounded wait.
pub(crate) fn say_last(severity: Severity, sentence: &str) {
    say(severity, sentence);
    let places = PLACES.read().unwrap_or_else(PoisonError::into_inner).clone();
    let until = Instant::now() + FLUSH;
    for place in places.as_deref().unwrap_or_default() {
        let (sender, written) = sync_channel(1);
        place.send(TargetOrder::Tell(sender));
        let left = until.saturating_duration_since(Instant::now());
        let _ = written.recv_timeout(left);
    }
}

/// Writes a JSON object to every audit log.
pub(crate) fn audit(object: &str) {
    let places = PLACES.read().unwrap_or_else(PoisonError::into_inner).clone();
    audit_at(places.as_deref().unwrap_or_default(), object);
}

fn audit_at(places: &[OpenTarget], object: &str) {
    for place in places.iter().filter(|place| place.purpose == TargetPurpose::Audit) {
        let (severity, time) = (Severity::Notice, SystemTime::now());
        place.send(TargetOrder::Write(ProgramLine { severity, time, text: object.into() }));
    }
}

/// The purpose of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TargetPurpose {
    /// Messages of Weir, in sentences.
    Speech,
    /// Records of the changes and their authors, as JSON.
    Audit,
}

/// The open targets. [`say`] writes to them from when they are published until this is dropped.
pub struct ProgramLog {
    places: Arc<[OpenTarget]>,
    done: Vec<Receiver<()>>,
}

impl ProgramLog {
    /// Opens every error log, or standard error if none is configured, and every audit log.
    ///
    /// # Errors
    /// The file that cannot be opened.
    pub fn open(logs: &[ErrorLog], audit: &[LogTarget]) -> io::Result<Self> {
        let usual = [ErrorLog { to: LogTarget::Stderr, level: Severity::Notice }];
        let logs = if logs.is_empty() { &usual } else { logs };
        let speech = logs.iter().map(|log| (log.clone(), TargetPurpose::Speech));
        let audit = audit
            .iter()
            .map(|to| (ErrorLog { to: to.clone(), level: Severity::Debug }, TargetPurpose::Audit));
        let mut places = Vec::new();
        let mut done = Vec::new();
        for (log, purpose) in speech.chain(audit) {
            let mut writer = TargetWriter {
                target: LogOutput::open(&log.to, "program")?,
                clock: Clock::new(),
                frame: match purpose {
                    TargetPurpose::Speech => LineFrame::of(&log.to),
                    TargetPurpose::Audit => LineFrame::Object,
                },
                dropped: Arc::default(),
                failing: false,
                line: Vec::new(),
            };
            let (sender, orders) = sync_channel(CAPACITY);
            let (finished, ended) = sync_channel(1);
            places.push(OpenTarget {
                purpose,
                level: log.level,
                is_stderr: log.to == LogTarget::Stderr,
                sender,
                dropped: writer.dropped.clone(),
            });
            thread::Builder::new().name("weir-say".to_owned()).spawn(move || {
                while let Ok(order) = orders.recv() {
                    writer.take(&order);
                }
                // The receiver is gone if the wait for the end took too long.
                let _ = finished.send(());
            })?;
            done.push(ended);
        }
        Ok(Self { places: places.into(), done })
    }

    /// Makes these the targets of all further messages.
    pub fn publish(&self) {
        *PLACES.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&self.places));
    }

    /// Logs the reason of the process's end everywhere but on standard error, where the parent
    /// process reports it.
    pub fn say_elsewhere(&self, sentence: &str) {
        let time = SystemTime::now();
        let line = ProgramLine { severity: Severity::Crit, time, text: sentence.into() };
        let speech = self.places.iter().filter(|place| place.purpose == TargetPurpose::Speech);
        for place in speech.filter(|place| !place.is_stderr) {
            place.send(TargetOrder::Write(line.clone()));
        }
    }

    /// Writes the pending lines, within one second. Later lines go directly to standard error.
    pub fn close(&mut self) {
        {
            let mut current = PLACES.write().unwrap_or_else(PoisonError::into_inner);
            if current.as_ref().is_some_and(|places| Arc::ptr_eq(places, &self.places)) {
                *current = None;
            }
        }
        // The threads end when the last sender is dropped.
        self.places = Arc::new([]);
        let until = Instant::now() + FLUSH;
        for done in std::mem::take(&mut self.done) {
            let left = until.saturating_duration_since(Instant::now());
            // A target that is stuck loses its remaining lines.
            let _ = done.recv_timeout(left);
        }
    }

    /// Reopens files after they were renamed or removed.
    pub fn reopen(&self) {
        for place in &*self.places {
            place.send(TargetOrder::Reopen);
        }
    }
}

impl Drop for ProgramLog {
    fn drop(&mut self) {
        self.close();
    }
}

/// The channel to a target's thread.
struct OpenTarget {
    purpose: TargetPurpose,
    level: Severity,
    is_stderr: bool,
    sender: SyncSender<TargetOrder>,
    dropped: Arc<AtomicU64>,
}

impl OpenTarget {
    fn send(&self, order: TargetOrder) {
        if self.sender.try_send(order).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

enum TargetOrder {
    Write(ProgramLine),
    Reopen,
    /// Sends a reply when everything before it is written.
    Tell(SyncSender<()>),
}

#[derive(Clone)]
struct ProgramLine {
    severity: Severity,
    time: SystemTime,
    text: Arc<str>,
}

/// The format of a line around its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineFrame {
    /// `weir: text`, as programs write to a terminal.
    Name,
    /// `<5>text`, with the level as systemd reads it (sd-daemon(3)), which adds the time and the
    /// program's name.
    Journal,
    /// `2026-11-20T19:15:00.000007+00:00 [notice] text`.
    Time,
    /// A JSON object with the time before its own fields.
    Object,
}

impl LineFrame {
    fn of(target: &LogTarget) -> Self {
        match target {
            LogTarget::File(_) | LogTarget::Syslog(_) => Self::Time,
            LogTarget::Stdout => Self::of_stream(io::stdout()),
            LogTarget::Stderr => Self::of_stream(io::stderr()),
        }
    }

    /// The format of a standard stream. systemd identifies its own stream in `JOURNAL_STREAM`.
    fn of_stream(stream: impl AsFd) -> Self {
        let is_journal = || {
            let named = std::env::var("JOURNAL_STREAM").ok()?;
            let file = File::from(stream.as_fd().try_clone_to_owned().ok()?).metadata().ok()?;
            Some(names(&named, file.st_dev(), file.st_ino()))
        };
        if is_journal() == Some(true) { Self::Journal } else { Self::Name }
    }

    fn write(self, line: &ProgramLine, clock: &mut Clock, out: &mut Vec<u8>) {
        match self {
            Self::Name => out.extend_from_slice(b"weir: "),
            Self::Journal => {
                // Writing to a `Vec` cannot fail.
                let _ = write!(out, "<{}>", line.severity.number());
            }
            Self::Time => {
                clock.append_iso_micros(line.time, out);
                let _ = write!(out, " [{}] ", line.severity.as_str());
            }
            Self::Object => {
                out.extend_from_slice(b"{\"time\":\"");
                clock.append_iso_micros(line.time, out);
                out.extend_from_slice(b"\",");
                if let Some(fields) = line.text.strip_prefix('{') {
                    append_text(fields, out);
                } else {
                    // A sentence that the writer itself produced.
                    let text = serde_json::Value::from(&*line.text);
                    let _ = write!(out, "\"kind\":\"log\",\"what\":{text}}}");
                }
                out.push(b'\n');
                return;
            }
        }
        let text = if self == Self::Name { &line.text } else { without_level(&line.text) };
        append_text(text, out);
        out.push(b'\n');
    }
}

/// Returns true if `device:inode` identifies this file.
fn names(text: &str, device: u64, inode: u64) -> bool {
    let Some((first, second)) = text.split_once(':') else { return false };
    first.parse() == Ok(device) && second.parse() == Ok(inode)
}

/// Removes the prefix `warning: `, which is meant for output that does not show the level.
fn without_level(text: &str) -> &str {
    text.strip_prefix("warning: ").unwrap_or(text)
}

/// Replaces control characters, so that quoted text cannot break a line.
fn append_text(text: &str, out: &mut Vec<u8>) {
    let mut bytes = [0; 4];
    for character in text.chars() {
        let shown = if character.is_control() { '\u{fffd}' } else { character };
        out.extend_from_slice(shown.encode_utf8(&mut bytes).as_bytes());
    }
}

/// The state of a target's thread.
struct TargetWriter {
    target: LogOutput,
    clock: Clock,
    frame: LineFrame,
    dropped: Arc<AtomicU64>,
    failing: bool,
    line: Vec<u8>,
}

impl TargetWriter {
    fn take(&mut self, order: &TargetOrder) {
        match order {
            TargetOrder::Write(line) => {
                let dropped = self.dropped.swap(0, Ordering::Relaxed);
                if dropped > 0 {
                    let text = format!(
                        "{dropped} lines were dropped here: they came faster than they could be written"
                    );
                    let text = text.into();
                    self.write(&ProgramLine { severity: Severity::Warning, time: line.time, text });
                }
                self.write(line);
            }
            TargetOrder::Tell(written) => {
                let _ = written.try_send(());
            }
            TargetOrder::Reopen => {
                if let Err(error) = self.target.reopen() {
                    say_directly(Severity::Error, &format!("{error}; the open file stays in use"));
                }
            }
        }
    }

    fn write(&mut self, line: &ProgramLine) {
        self.line.clear();
        let outcome = if let LogOutput::Syslog(syslog) = &mut self.target {
            append_text(without_level(&line.text), &mut self.line);
            syslog.message(line.severity, line.time, &self.line)
        } else {
            self.frame.write(line, &mut self.clock, &mut self.line);
            self.target.write(&self.line)
        };
        self.note(outcome);
    }

    /// Reports a failing target once, on standard error; a failure of standard error itself is not
    /// reported.
    fn note(&mut self, outcome: WriteOutcome) {
        let name = self.target.name();
        match outcome.last {
            Some(error) if !self.failing => {
                self.failing = true;
                if !matches!(self.target, LogOutput::Stream(..)) {
                    say_directly(
                        Severity::Error,
                        &format!("cannot write to the error log {name}: {error}"),
                    );
                }
            }
            None if self.failing => {
                self.failing = false;
                if !matches!(self.target, LogOutput::Stream(..)) {
                    say_directly(Severity::Notice, &format!("the error log {name} works again"));
                }
            }
            Some(_) | None => {}
        }
    }
}

/// Writes to standard error. A failure is ignored, since there is no other place to report it.
fn say_directly(severity: Severity, sentence: &str) {
    let line = ProgramLine { severity, time: SystemTime::now(), text: sentence.into() };
    let mut bytes = Vec::new();
    LineFrame::of_stream(io::stderr()).write(&line, &mut Clock::utc(), &mut bytes);
    let _ = io::stderr().write_all(&bytes);
}

#[cfg(test)]
mod tests;
