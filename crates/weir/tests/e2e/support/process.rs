//! A child process, by its id: it ends with its test, together with all its descendants.

use std::io::Read;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

use super::{PATIENCE, eventually};

/// Returns a command that is also found in the directories of system programs, whatever the shell's
/// `PATH`.
pub(crate) fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin:/usr/bin:/bin"));
    command
}

/// Runs a command that ends by itself, with this input. It is killed if it does not end in time.
pub(crate) fn finish(command: &mut Command, input: &[u8]) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // A program may end without reading its input; its exit status is what counts.
    let writer = std::thread::spawn(move || {
        let _ = std::io::Write::write_all(&mut stdin, &input);
    });
    let pid = Pid::from_child(&child);
    let (done, waiting) = std::sync::mpsc::channel::<()>();
    let watchdog = std::thread::spawn(move || {
        if waiting.recv_timeout(PATIENCE) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            let _ = kill_process(pid, Signal::KILL);
        }
    });
    let output = child.wait_with_output().unwrap();
    drop(done);
    watchdog.join().unwrap();
    writer.join().unwrap();
    output
}

/// A running program whose standard error is collected.
pub(crate) struct Process {
    child: Child,
    said: Arc<Mutex<Vec<u8>>>,
}

impl Process {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let said = Arc::new(Mutex::new(Vec::new()));
        let mut stderr = child.stderr.take().unwrap();
        let gathered = said.clone();
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(count @ 1..) = stderr.read(&mut piece) {
                gathered.lock().unwrap().extend_from_slice(&piece[..count]);
            }
        });
        Self { child, said }
    }

    /// Returns the standard error so far.
    pub(crate) fn said(&self) -> String {
        String::from_utf8_lossy(&self.said.lock().unwrap()).into_owned()
    }

    /// Waits until it has written this to standard error. The pipe may be slower than another
    /// process or a response.
    pub(crate) fn says(&self, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.said().contains(text) {
            assert!(Instant::now() < deadline, "no {text:?} in {}", self.said());
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    /// Sends a signal to it and to all its descendants.
    pub(crate) fn signal(&self, signal: Signal) {
        for pid in descendants(Pid::from_child(&self.child)) {
            kill_process(pid, signal).unwrap();
        }
    }

    /// Returns the exit status if it has ended.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Returns the process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the resident memory.
    pub(crate) fn resident_bytes(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
    }

    /// Waits for the end.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        eventually("the process ends", || self.ended())
    }
}

impl Drop for Process {
    /// Sends TERM first: a parent that is killed would leave its children running.
    fn drop(&mut self) {
        if self.ended().is_some() {
            return;
        }
        let family = descendants(Pid::from_child(&self.child));
        for &pid in &family {
            let _ = kill_process(pid, Signal::CONT);
        }
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let deadline = Instant::now() + std::time::Duration::from_secs(2);
        while self.ended().is_none() && Instant::now() < deadline {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        if self.ended().is_none() {
            for &pid in &family {
                let _ = kill_process(pid, Signal::KILL);
            }
            let _ = self.child.wait();
        }
    }
}

/// Returns the process and all its descendants.
pub(crate) fn descendants(pid: Pid) -> Vec<Pid> {
    let number = pid.as_raw_nonzero();
    let children = std::fs::read_to_string(format!("/proc/{number}/task/{number}/children"))
        .unwrap_or_default();
    let mut found = vec![pid];
    for child in children.split_whitespace() {
        if let Some(child) = child.parse().ok().and_then(Pid::from_raw) {
            found.extend(descendants(child));
        }
    }
    found
}
