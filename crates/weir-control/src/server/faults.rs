//! Deliberate faults, for tests: a worker that hangs or panics, a process that dies. They are
//! available only if `WEIR_FAULTS` names a pipe at the start, from which orders are read: `hang 0`,
//! `lock 0`, `panic 1`, `task 0`, `segv`.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::sync::Arc;

use weir_proxy::start::{DataPlane, WorkerFault};

use crate::logs::program_log::warn;

const VARIABLE: &str = "WEIR_FAULTS";

/// Starts to obey orders, if `WEIR_FAULTS` is set.
pub(crate) fn listen(plane: &Arc<DataPlane>) {
    let Some(path) = std::env::var_os(VARIABLE) else { return };
    warn(&format!("{VARIABLE} is set: this process injects faults on request"));
    let plane = Arc::downgrade(plane);
    let obey = move || {
        let Ok(pipe) = File::options().read(true).write(true).open(path) else { return };
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            let Some(plane) = plane.upgrade() else { return };
            let (what, worker) = line.split_once(' ').unwrap_or((&line, "0"));
            let worker = worker.parse().unwrap_or(0);
            match what {
                "hang" => plane.inject(worker, WorkerFault::Loop),
                "lock" => plane.inject(worker, WorkerFault::LockedLoop),
                "panic" => plane.inject(worker, WorkerFault::Panic),
                "task" => plane.inject(worker, WorkerFault::TaskPanic),
                // The standard library's handler takes the first signal, to check for a stack
                // overflow.
                "segv" => loop {
                    // SAFETY: raises a signal in this process, which is meant to die of it.
                    unsafe { libc::raise(libc::SIGSEGV) };
                },
                _ => {}
            }
        }
    };
    let _ = std::thread::Builder::new().name("weir-faults".to_owned()).spawn(obey);
}
