use std::fs::{self, File};
use std::io::Read as _;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags};
use weir_config::model::{self, LogEscape, LogFormat, LogTarget, SyslogFormat, SyslogReceiver};
use weir_stats::{BATCH_BYTES, LogBatch};

use super::*;

const DEADLINE: Duration = Duration::from_mins(1);

fn log(to: LogTarget) -> AccessLog {
    AccessLog {
        name: "access".to_owned(),
        to: vec![to],
        format: LogFormat::Combined,
        escape: LogEscape::default(),
        when: None,
        buffer: None,
    }
}

fn syslog(to: SyslogReceiver, facility: u8) -> LogTarget {
    let format = SyslogFormat::Rfc3164;
    LogTarget::Syslog(model::Syslog { to, facility, severity: Severity::Info, format })
}

fn start(to: LogTarget) -> (LogWriter, LogBatch) {
    let (writer, sinks) = LogWriter::start(&[log(to)]).unwrap();
    let batch = sinks[0].batch();
    (writer, batch)
}

fn push(batch: &mut LogBatch, line: &str) {
    batch.push(|out| out.extend_from_slice(line.as_bytes()));
    batch.flush();
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

/// A datagram without its priority, time and tag, which are checked.
fn message(datagram: &[u8], priority: &str) -> String {
    let text = String::from_utf8(datagram.to_vec()).unwrap();
    let rest = text.strip_prefix(priority).unwrap();
    let (stamp, message) = rest.split_at(15);
    assert!(stamp.as_bytes()[3] == b' ' && stamp.as_bytes()[9] == b':', "{stamp}");
    message.strip_prefix(&format!(" weir[{}]: ", std::process::id())).unwrap().to_owned()
}

#[test]
fn lines_of_several_workers_are_appended_and_flushed_by_the_stop() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    fs::write(&path, "before\n").unwrap();
    let other = folder.path().join("other.log");
    let logs = [log(LogTarget::File(path.clone())), log(LogTarget::File(other.clone()))];
    let (writer, sinks) = LogWriter::start(&logs).unwrap();
    let mut workers = [sinks[0].batch(), sinks[0].batch(), sinks[1].batch()];
    for batch in &mut workers {
        (0..5_000)
            .for_each(|_| batch.push(|out| out.extend_from_slice(b"0123456789 0123456789\n")));
    }
    drop(workers);
    assert_eq!(writer.stop(DEADLINE), Flushed::All);
    let dropped: u64 = sinks.iter().map(LogSink::dropped).sum();
    let lines = read(&path).lines().count() + read(&other).lines().count();
    assert_eq!((lines, dropped), (15_001, 0));
    assert!(read(&path).starts_with("before\n"));
    assert_eq!(
        fs::metadata(&other).unwrap().permissions().mode() & 0o137,
        0,
        "others may read or run it"
    );
}

#[test]
fn a_moved_file_is_opened_anew_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let (path, moved) = (folder.path().join("access.log"), folder.path().join("access.log.1"));
    let (writer, mut batch) = start(LogTarget::File(path.clone()));
    fs::rename(&path, &moved).unwrap();
    writer.reopen();
    push(&mut batch, "after\n");
    assert_eq!(writer.stop(DEADLINE), Flushed::All);
    assert_eq!((read(&moved).as_str(), read(&path).as_str()), ("", "after\n"));
}

#[test]
fn a_file_that_cannot_be_opened_anew_goes_on_being_written() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("inner");
    fs::create_dir(&inner).unwrap();
    let (writer, mut batch) = start(LogTarget::File(inner.join("access.log")));
    let moved = folder.path().join("moved");
    fs::rename(&inner, &moved).unwrap();
    writer.reopen();
    push(&mut batch, "after\n");
    let orders = Arc::clone(&writer.orders);
    assert_eq!(writer.stop(DEADLINE), Flushed::All);
    assert_eq!(read(&moved.join("access.log")), "after\n");
    assert_eq!(orders.errors.load(Ordering::Relaxed), 1);
}

#[test]
fn a_file_that_cannot_be_opened_is_an_error_that_names_it() {
    let error = LogWriter::start(&[log(LogTarget::File(PathBuf::from("/nowhere/access.log")))])
        .unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    assert!(error.to_string().starts_with("cannot open log file /nowhere/access.log: "), "{error}");
}

#[test]
fn a_full_disk_drops_lines_and_counts_them() {
    let (writer, mut batch) = start(LogTarget::File(PathBuf::from("/dev/full")));
    let sink = writer.sinks().remove(0);
    push(&mut batch, "one\n");
    push(&mut batch, "two\n");
    assert_eq!(writer.stop(DEADLINE), Flushed::All);
    assert_eq!(sink.dropped(), 2);
}

#[test]
fn a_stuck_reader_delays_no_request_and_every_line_is_written_or_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let reader = rustix::fs::open(&path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).unwrap();
    let (writer, mut batch) = start(LogTarget::File(path));
    let line = format!("{}\n", "x".repeat(1023));
    let pushed = 3 * CAPACITY * BATCH_BYTES / 1024;
    for _ in 0..pushed {
        batch.push(|out| out.extend_from_slice(line.as_bytes()));
    }
    assert!(writer.dropped() > 0);
    // A stop while the target is stuck exceeds its deadline.
    let orders = Arc::clone(&writer.orders);
    let sink = writer.sinks().remove(0);
    drop(batch);
    assert_eq!(writer.stop(Duration::ZERO), Flushed::Late);
    assert!(orders.stop.load(Ordering::Relaxed));
    rustix::fs::fcntl_setfl(&reader, OFlags::empty()).unwrap();
    let mut text = String::new();
    File::from(reader).read_to_string(&mut text).unwrap();
    assert_eq!(text.lines().count() as u64 + sink.dropped(), pushed as u64);
}

#[test]
fn syslog_gets_a_datagram_a_line_and_is_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let mut buffer = [0; 512];
    let receive = |socket: &UnixDatagram, buffer: &mut [u8]| {
        let len = socket.recv(buffer).unwrap();
        message(&buffer[..len], "<134>")
    };
    let (writer, mut batch) = start(syslog(SyslogReceiver::Unix(path.clone()), 16));
    let sink = writer.sinks().remove(0);
    let socket = UnixDatagram::bind(&path).unwrap();
    push(&mut batch, "one\ntwo\n");
    assert_eq!(receive(&socket, &mut buffer), "one");
    assert_eq!(receive(&socket, &mut buffer), "two");
    // The receiver restarts.
    drop(socket);
    fs::remove_file(&path).unwrap();
    let socket = UnixDatagram::bind(&path).unwrap();
    push(&mut batch, "three\n");
    assert_eq!(receive(&socket, &mut buffer), "three");
    drop(socket);
    batch.push(|out| out.extend_from_slice(b"four\n"));
    batch.push(|out| out.extend_from_slice(b"five\n"));
    drop(batch);
    let orders = Arc::clone(&writer.orders);
    assert_eq!(writer.stop(DEADLINE), Flushed::All);
    // One send to each receiver that was gone, and one try to find the second again; "five" is not
    // tried.
    assert_eq!((sink.dropped(), orders.errors.load(Ordering::Relaxed)), (2, 3));
}

#[test]
fn syslog_over_udp_loses_only_a_line_that_fits_no_datagram() {
    let socket = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
    let to = SyslogReceiver::Udp(socket.local_addr().unwrap());
    let (writer, mut batch) = start(syslog(to, 1));
    let sink = writer.sinks().remove(0);
    push(&mut batch, &format!("{}\nshort\n", "x".repeat(70_000)));
    let mut buffer = [0; 512];
    let len = socket.recv(&mut buffer).unwrap();
    let text = String::from_utf8(buffer[..len].to_vec()).unwrap();
    assert!(text.starts_with("<14>"), "{text}");
    assert!(text.ends_with(&format!(" weir[{}]: short", std::process::id())), "{text}");
    // Over the network the host is included: `<14>Nov 20 19:15:00 HOST weir[4711]: short`.
    assert_eq!(text.split_ascii_whitespace().count(), 6, "{text}");
    assert_eq!(writer.stop(DEADLINE), Flushed::All);
    assert_eq!(sink.dropped(), 1);
}

#[test]
fn several_destinations_get_every_line_and_a_stuck_one_loses_only_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let (file, pipe) = (folder.path().join("access.log"), folder.path().join("pipe"));
    rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let reader = rustix::fs::open(&pipe, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).unwrap();
    let to = vec![LogTarget::File(pipe), LogTarget::File(file.clone())];
    let both = AccessLog { to, ..log(LogTarget::Stdout) };
    let (writer, sinks) = LogWriter::start(&[both]).unwrap();
    let mut batch = sinks[0].batch();
    let line = format!("{}\n", "x".repeat(1023));
    // The lines are handed over in parts that fit into the channel, at the pace of the disk.
    let part = CAPACITY / 2 * BATCH_BYTES / 1024;
    let mut pushed = 0;
    while pushed < 4 * part {
        (0..part).for_each(|_| batch.push(|out| out.extend_from_slice(line.as_bytes())));
        batch.flush();
        pushed += part;
        while fs::metadata(&file).unwrap().len() < pushed as u64 * 1024 {
            thread::yield_now();
        }
    }
    assert!(sinks[0].lost().refused() > 0, "the pipe took everything");
    assert_eq!(writer.stop(Duration::ZERO), Flushed::Late);
    assert_eq!(read(&file).lines().count(), pushed);
    drop(reader);
}

#[test]
fn a_pipe_without_a_reader_holds_up_no_start_and_is_written_once_it_has_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let (writer, mut batch) = start(LogTarget::File(path.clone()));
    let sink = writer.sinks().remove(0);
    push(&mut batch, "nobody\nhears\n");
    while sink.dropped() == 0 {
        thread::yield_now();
    }
    assert_eq!(sink.dropped(), 2);
    let reader = rustix::fs::open(&path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).unwrap();
    push(&mut batch, "heard\n");
    assert_eq!(writer.stop(DEADLINE), Flushed::All);
    // The pipe ends when the thread does, a moment later.
    rustix::fs::fcntl_setfl(&reader, OFlags::empty()).unwrap();
    let mut text = String::new();
    File::from(reader).read_to_string(&mut text).unwrap();
    assert_eq!(text, "heard\n");
}

#[test]
fn a_line_that_a_full_disk_tore_is_ended_before_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let reader = rustix::fs::open(&path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    // A non-blocking pipe stands for the disk: it accepts a part, then nothing, and later more.
    rustix::fs::fcntl_setfl(&file, OFlags::NONBLOCK).unwrap();
    let mut appender = crate::logs::file::Appender::new(file);
    let line = format!("{}\n", "x".repeat(9_999));
    let torn = appender.write(line.repeat(20).as_bytes());
    assert!(torn.last.is_some() && torn.lost > 10 && torn.lost < 20, "{}", torn.lost);
    let mut reader = File::from(reader);
    let mut text = vec![0; 1 << 20];
    let length = reader.read(&mut text).unwrap();
    assert!(appender.write(b"after\n").last.is_none());
    drop(appender);
    let mut rest = String::new();
    reader.read_to_string(&mut rest).unwrap();
    assert_eq!((length % 10_000 > 0, rest.as_str()), (true, "\nafter\n"));
}

#[test]
fn the_new_form_of_syslog_names_the_log_and_has_a_full_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let socket = UnixDatagram::bind(&path).unwrap();
    let (writer, mut batch) = start(LogTarget::Syslog(model::Syslog {
        to: SyslogReceiver::Unix(path),
        facility: 23,
        severity: Severity::Notice,
        format: SyslogFormat::Rfc5424,
    }));
    push(&mut batch, "GET /\n");
    let mut buffer = [0; 512];
    let len = socket.recv(&mut buffer).unwrap();
    let text = String::from_utf8(buffer[..len].to_vec()).unwrap();
    let words: Vec<&str> = text.splitn(8, ' ').collect();
    let process = std::process::id().to_string();
    assert_eq!(words[0], "<189>1", "{text}");
    assert!(words[1].len() == 32 && words[1].as_bytes()[10] == b'T', "{text}");
    assert_eq!(words[3..], ["weir", &process, "access", "-", "GET /"], "{text}");
    assert_eq!(writer.stop(DEADLINE), Flushed::All);
}

#[test]
fn another_configuration_keeps_open_logs_and_closes_unused_ones() {
    let folder = tempfile::tempdir().unwrap();
    let named = |name: &str| {
        let to = vec![LogTarget::File(folder.path().join(name))];
        AccessLog {
            name: name.to_owned(),
            to,
            format: LogFormat::Combined,
            escape: LogEscape::default(),
            when: None,
            buffer: None,
        }
    };
    let (writer, sinks) = LogWriter::start(&[named("kept"), named("old")]).unwrap();
    let (mut kept, mut old) = (sinks[0].batch(), sinks[1].batch());
    drop(sinks);
    let prepared = writer.prepare(&[named("new"), named("kept")]).unwrap();
    let mut new = prepared.sinks()[0].batch();
    let mut same = prepared.sinks()[1].batch();
    writer.commit(prepared);
    push(&mut kept, "one\n");
    push(&mut same, "two\n");
    push(&mut new, "three\n");
    // Lines of an exchange that runs on the earlier configuration still arrive.
    push(&mut old, "four\n");
    drop(old);
    let threads = || lock(&writer.threads).len();
    while threads() > 2 {
        writer.commit(writer.prepare(&[named("new"), named("kept")]).unwrap());
        thread::yield_now();
    }
    assert_eq!(writer.stop(DEADLINE), Flushed::All);
    let text = |name| read(&folder.path().join(name));
    assert_eq!(
        (text("kept"), text("new"), text("old")),
        ("one\ntwo\n".into(), "three\n".into(), "four\n".into())
    );
    let refused =
        AccessLog { to: vec![LogTarget::File(PathBuf::from("/nowhere/x"))], ..named("x") };
    assert!(writer.prepare(&[refused]).is_err());
}

fn buffered(path: &Path, bytes: usize, flush: Option<Duration>) -> AccessLog {
    let buffer = Some(model::LogBuffer { bytes, flush });
    AccessLog { buffer, ..log(LogTarget::File(path.to_owned())) }
}

/// Waits until a file has this text.
fn wait_for(path: &Path, expected: &str) {
    let until = Instant::now() + DEADLINE;
    while fs::read_to_string(path).unwrap_or_default() != expected {
        assert!(Instant::now() < until, "{:?}", fs::read_to_string(path));
        thread::yield_now();
    }
}

#[test]
fn a_buffer_is_written_when_it_is_full_and_by_the_stop() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let (writer, sinks) = LogWriter::start(&[buffered(&path, 1024, None)]).unwrap();
    let mut batch = sinks[0].batch();
    let long = format!("{}\n", "x".repeat(599));
    push(&mut batch, &long);
    // The second line has no room beside the first one, so that one is written alone.
    push(&mut batch, &long);
    wait_for(&path, &long);
    // A batch that is larger than the buffer does not wait, and comes after those before it.
    let huge = format!("{}\n", "y".repeat(5000));
    push(&mut batch, &huge);
    let mut all = format!("{long}{long}{huge}");
    wait_for(&path, &all);
    push(&mut batch, "last\n");
    drop(batch);
    all += "last\n";
    assert_eq!(writer.stop(DEADLINE), Flushed::All);
    assert_eq!(read(&path), all);
}

#[test]
fn buffered_lines_wait_no_longer_than_the_flush_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let flush = Some(Duration::from_millis(30));
    let (writer, sinks) = LogWriter::start(&[buffered(&path, 1 << 20, flush)]).unwrap();
    let mut batch = sinks[0].batch();
    for (line, expected) in [("a\n", "a\n"), ("b\n", "a\nb\n")] {
        push(&mut batch, line);
        wait_for(&path, expected);
    }
    drop(batch);
    assert_eq!(writer.stop(DEADLINE), Flushed::All);
}

#[test]
fn buffered_lines_go_to_the_file_that_was_open_when_they_came() {
    let folder = tempfile::tempdir().unwrap();
    let (path, moved) = (folder.path().join("access.log"), folder.path().join("access.log.1"));
    let (sink, mut receivers) = log_fan(0, 1, CAPACITY);
    let orders = Arc::new(Orders::default());
    let mut writer = WriterThread {
        log: "access".to_owned(),
        target: LogOutput::open(&LogTarget::File(path.clone()), "access").unwrap(),
        lost: Arc::clone(sink.lost()),
        state: WriteState::Working,
        buffer: buffered(&path, 1 << 20, None).buffer.map(HeldLines::new),
        reopened: 0,
        receiver: receivers.remove(0),
        orders: Arc::clone(&orders),
    };
    let mut batch = sink.batch();
    push(&mut batch, "old\n");
    let message = writer.receiver.try_receive().unwrap();
    writer.take(&message);
    assert_eq!(read(&path), "", "it waits");
    fs::rename(&path, &moved).unwrap();
    orders.reopened.fetch_add(1, Ordering::Release);
    writer.take(&Message::Wake);
    assert_eq!((read(&moved).as_str(), read(&path).as_str()), ("old\n", ""));
    // A log that is no longer configured is written when its last sink is gone.
    push(&mut batch, "new\n");
    drop((batch, sink));
    writer.run();
    assert_eq!((read(&moved).as_str(), read(&path).as_str()), ("old\n", "new\n"));
}

#[test]
fn another_buffer_is_another_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    let (writer, sinks) = LogWriter::start(&[buffered(&path, 1 << 20, None)]).unwrap();
    let mut batch = sinks[0].batch();
    push(&mut batch, "before\n");
    let other = writer.prepare(&[buffered(&path, 2048, None)]).unwrap();
    let mut later = other.sinks()[0].batch();
    writer.commit(other);
    drop((batch, sinks));
    wait_for(&path, "before\n");
    push(&mut later, "later\n");
    drop(later);
    assert_eq!(writer.stop(DEADLINE), Flushed::All);
    assert_eq!(read(&path), "before\nlater\n");
}
