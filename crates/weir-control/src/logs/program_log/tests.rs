use std::fs;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use weir_config::model::{Syslog, SyslogFormat, SyslogReceiver};

use super::*;

/// Opens a log without publishing it, since other tests of this process publish theirs.
fn open(logs: &[ErrorLog]) -> ProgramLog {
    ProgramLog::open(logs, &[]).unwrap()
}

impl ProgramLog {
    fn say(&self, severity: Severity, sentence: &str) {
        say_at(&self.places, severity, sentence);
    }

    fn tell(&self, sentence: &str) {
        self.say(Severity::Notice, sentence);
    }
}

fn to_file(path: &Path, level: Severity) -> ErrorLog {
    ErrorLog { to: LogTarget::File(path.to_owned()), level }
}

/// The lines without their time stamps, whose form is checked.
fn lines(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    let without_time = |line: &str| {
        let (time, rest) = line.split_once(' ').unwrap();
        assert!(time.len() == 32 && time.as_bytes()[10] == b'T', "{line}");
        rest.to_owned()
    };
    text.lines().map(without_time).collect()
}

#[test]
fn each_destination_gets_messages_of_its_severity_with_time_and_level() {
    let folder = tempfile::tempdir().unwrap();
    let (all, grave) = (folder.path().join("all.log"), folder.path().join("grave.log"));
    let logs = [to_file(&all, Severity::Debug), to_file(&grave, Severity::Warning)];
    let log = open(&logs);
    log.tell("server app1 is up");
    log.say(Severity::Warning, "warning: 3 is\nmany\u{1b}[1m");
    log.say(Severity::Error, "cannot connect");
    drop(log);
    let (warning, error) = ("[warning] 3 is\u{fffd}many\u{fffd}[1m", "[error] cannot connect");
    assert_eq!(lines(&all), ["[notice] server app1 is up", warning, error]);
    assert_eq!(lines(&grave), [warning, error]);
}

#[test]
fn a_moved_file_is_opened_anew() {
    let folder = tempfile::tempdir().unwrap();
    let (path, moved) = (folder.path().join("error.log"), folder.path().join("error.log.1"));
    let log = open(&[to_file(&path, Severity::Notice)]);
    log.tell("before");
    fs::rename(&path, &moved).unwrap();
    log.reopen();
    log.tell("after");
    drop(log);
    // The first line may be written before or after the file is renamed, in either case to the same
    // file.
    assert_eq!(
        (lines(&moved), lines(&path)),
        (vec!["[notice] before".into()], vec!["[notice] after".into()])
    );
}

#[test]
fn a_stuck_destination_delays_no_other_and_missing_lines_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let (pipe, file) = (folder.path().join("pipe"), folder.path().join("error.log"));
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let reader = rustix::fs::open(
        &pipe,
        rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK,
        Mode::empty(),
    )
    .unwrap();
    let log = open(&[to_file(&pipe, Severity::Notice), to_file(&file, Severity::Warning)]);
    // More than the pipe and the channel hold together.
    let text = "x".repeat(1000);
    for _ in 0..4 * CAPACITY {
        log.tell(&text);
    }
    log.say(Severity::Error, "still heard");
    while fs::read_to_string(&file).unwrap().is_empty() {
        thread::yield_now();
    }
    assert_eq!(lines(&file), ["[error] still heard"]);
    rustix::fs::fcntl_setfl(&reader, rustix::fs::OFlags::empty()).unwrap();
    let reading = thread::spawn(move || io::read_to_string(File::from(reader)).unwrap());
    drop(log);
    let text = reading.join().unwrap();
    let missing = text.lines().filter_map(|line| {
        let (_, rest) = line.split_once("[warning] ")?;
        rest.split(' ').next()?.parse::<usize>().ok()
    });
    let missing: usize = missing.sum();
    let there = text.lines().filter(|line| line.ends_with('x') || line.ends_with("heard")).count();
    // The last lines may be missing without a message about it, which is written before the next
    // line.
    assert!(missing > 0 && there + missing <= 4 * CAPACITY + 1, "{there} {missing}");
    assert!(there < 4 * CAPACITY, "nothing was dropped");
}

#[test]
fn syslog_gets_each_line_with_its_own_severity() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let socket = UnixDatagram::bind(&path).unwrap();
    let syslog = Syslog {
        to: SyslogReceiver::Unix(path),
        facility: 17,
        severity: Severity::Info,
        format: SyslogFormat::Rfc5424,
    };
    let log = open(&[ErrorLog { to: LogTarget::Syslog(syslog), level: Severity::Notice }]);
    log.say(Severity::Info, "too little");
    log.say(Severity::Error, "something is wrong");
    let mut buffer = [0; 512];
    let length = socket.recv(&mut buffer).unwrap();
    let text = String::from_utf8(buffer[..length].to_vec()).unwrap();
    assert!(text.starts_with("<139>1 "), "{text}");
    let end = format!(" weir {} program - something is wrong", std::process::id());
    assert!(text.ends_with(&end), "{text}");
    drop(log);
}

#[test]
fn a_file_that_cannot_be_opened_is_an_error_that_names_it() {
    let error =
        ProgramLog::open(&[to_file(Path::new("/nowhere/error.log"), Severity::Notice)], &[]);
    let error = error.err().unwrap().to_string();
    assert!(error.starts_with("cannot open log file /nowhere/error.log: "), "{error}");
}

#[test]
fn a_full_disk_does_not_stop_anything() {
    let log = open(&[to_file(Path::new("/dev/full"), Severity::Notice)]);
    log.tell("one");
    log.tell("two");
    drop(log);
}

#[test]
fn the_journal_gets_levels_instead_of_names() {
    let check = |frame: LineFrame, severity, text: &str, expected: &str| {
        let line = ProgramLine { severity, time: SystemTime::UNIX_EPOCH, text: text.into() };
        let mut out = Vec::new();
        frame.write(&line, &mut Clock::utc(), &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    };
    check(LineFrame::Journal, Severity::Warning, "warning: a", "<4>a\n");
    check(LineFrame::Name, Severity::Warning, "warning: a", "weir: warning: a\n");
    check(LineFrame::Time, Severity::Notice, "a", "1970-01-01T00:00:00.000000+00:00 [notice] a\n");
    assert!(names("8:12345", 8, 12345));
    for other in ["8:12346", "9:12345", "8", "", "x:y"] {
        assert!(!names(other, 8, 12345), "{other}");
    }
}

#[test]
fn a_stream_socket_gets_lines() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let listener = UnixListener::bind(&path).unwrap();
    let syslog = Syslog {
        to: SyslogReceiver::Unix(path),
        facility: 3,
        severity: Severity::Info,
        format: SyslogFormat::Rfc3164,
    };
    let log = open(&[ErrorLog { to: LogTarget::Syslog(syslog), level: Severity::Notice }]);
    log.tell("one");
    log.tell("two");
    drop(log);
    let (mut stream, _) = listener.accept().unwrap();
    let mut text = String::new();
    io::Read::read_to_string(&mut stream, &mut text).unwrap();
    let messages: Vec<&str> = text.lines().collect();
    assert_eq!(messages.len(), 2, "{text}");
    let tail = format!(" weir[{}]: ", std::process::id());
    for (message, text) in messages.iter().zip(["one", "two"]) {
        assert!(
            message.starts_with("<29>") && message.ends_with(&format!("{tail}{text}")),
            "{message}"
        );
    }
}

#[test]
fn an_audit_log_gets_objects_and_no_sentences() {
    let folder = tempfile::tempdir().unwrap();
    let (errors, audits) = (folder.path().join("error.log"), folder.path().join("audit.log"));
    let log = to_file(&errors, Severity::Notice);
    let log = ProgramLog::open(&[log], &[LogTarget::File(audits.clone())]).unwrap();
    log.tell("a sentence");
    audit_at(&log.places, r#"{"kind":"change","who":"uid 0","what":"a \"b\""}"#);
    drop(log);
    assert_eq!(lines(&errors), ["[notice] a sentence"]);
    let text = fs::read_to_string(&audits).unwrap();
    let object: serde_json::Value = serde_json::from_str(text.trim_end()).unwrap();
    assert_eq!((&object["who"], &object["what"]), (&"uid 0".into(), &"a \"b\"".into()));
    assert!(object["time"].as_str().unwrap().starts_with("20"), "{text}");
}
