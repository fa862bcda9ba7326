//! `show info`, with HAProxy's names and positions. Fields without a counterpart in Weir are left
//! out, as HAProxy leaves out fields of features that are not compiled in.

use super::table::{Cell, Field};
use crate::status::Status;

/// The date of the latest change to these fields.
const RELEASE_DATE: &str = "2026/11/21";

/// All fields.
pub(super) fn fields(status: &Status) -> Vec<Field> {
    let info = &status.info;
    let text = |position, name, tags, value: &str| Field {
        position,
        name,
        tags,
        kind: "str",
        value: value.into(),
    };
    let number = |position, name, tags, value: u64| Field {
        position,
        name,
        tags,
        kind: "u32",
        value: Cell::from(value),
    };
    let uptime = info.uptime_s;
    let (days, hours) = (uptime / 86_400, uptime % 86_400 / 3600);
    let elapsed = format!("{days}d {hours}h{:02}m{:02}s", uptime % 3600 / 60, uptime % 60);
    let listeners: usize = status.listeners.iter().map(|listener| listener.addresses.len()).sum();
    let accepted: u64 = status.listeners.iter().map(|listener| listener.accepted).sum();
    let requests: u64 = status.listeners.iter().map(|listener| listener.traffic.requests).sum();
    let sent: u64 = status.listeners.iter().map(|listener| listener.traffic.bytes_sent).sum();
    let rate: f64 = status.listeners.iter().map(|listener| listener.traffic.per_second).sum();
    let stopping = u64::from(info.state == "stopping");
    vec![
        text(0, "Name", "POS", &info.name),
        text(1, "Version", "POS", &info.version),
        text(2, "Release_date", "POS", RELEASE_DATE),
        number(3, "Nbthread", "CGS", info.workers as u64),
        number(4, "Nbproc", "CGS", 1),
        number(5, "Process_num", "KGP", 1),
        number(6, "Pid", "SGP", u64::from(info.pid)),
        text(7, "Uptime", "MDP", &elapsed),
        number(8, "Uptime_sec", "MDP", uptime),
        number(9, "Memmax_MB", "CLP", 0),
        number(13, "Ulimit-n", "CLP", info.open_files_limit),
        number(14, "Maxsock", "CLP", info.open_files_limit),
        number(15, "Maxconn", "CLP", info.max_connections as u64),
        number(16, "Hard_maxconn", "CLP", info.max_connections as u64),
        number(17, "CurrConns", "MGP", info.connections as u64),
        number(18, "CumConns", "MCP", accepted),
        number(19, "CumReq", "MCP", requests),
        number(23, "Maxpipes", "CLP", 0),
        number(24, "PipesUsed", "MGP", 0),
        number(25, "PipesFree", "MGP", 0),
        number(29, "SessRate", "MRP", rate as u64),
        number(47, "Tasks", "MGP", info.connections as u64),
        number(48, "Run_queue", "MGP", info.requests_running as u64),
        text(50, "node", "COS", &info.host),
        number(52, "Stopping", "MGP", stopping),
        number(53, "Jobs", "MGP", (info.connections + listeners) as u64),
        number(55, "Listeners", "MGP", listeners as u64),
        number(61, "TotalBytesOut", "MGP", sent),
        number(70, "Start_time_sec", "MDP", info.started_ms / 1000),
    ]
}
