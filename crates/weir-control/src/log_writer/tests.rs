use std::fs::{self, File};
use std::io::Read as _;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags};
use weir_config::model::LogFormat;
use weir_stats::{BATCH_BYTES, LogBatch};

use super::*;

const DEADLINE: Duration = Duration::from_mins(1);

fn log(to: LogTarget) -> AccessLog {
    AccessLog { name: "access".to_owned(), to, format: LogFormat::Combined }
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

/// A datagram without its priority, time and tag, after checking them.
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
fn a_stuck_reader_holds_up_nobody_and_every_line_is_written_or_counted() {
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
    // Stopped while it is stuck, it is late.
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
    let (writer, mut batch) = start(LogTarget::SyslogUnix { path: path.clone(), facility: 16 });
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
    // One send to each receiver that was gone, and one try to find the second again; "five" is not tried.
    assert_eq!((sink.dropped(), orders.errors.load(Ordering::Relaxed)), (2, 3));
}

#[test]
fn syslog_over_udp_loses_only_a_line_that_fits_no_datagram() {
    let socket = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
    let to = LogTarget::SyslogUdp { address: socket.local_addr().unwrap(), facility: 1 };
    let (writer, mut batch) = start(to);
    let sink = writer.sinks().remove(0);
    push(&mut batch, &format!("{}\nshort\n", "x".repeat(70_000)));
    let mut buffer = [0; 512];
    let len = socket.recv(&mut buffer).unwrap();
    assert_eq!(message(&buffer[..len], "<14>"), "short");
    assert_eq!(writer.stop(DEADLINE), Flushed::All);
    assert_eq!(sink.dropped(), 1);
}
