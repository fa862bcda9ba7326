//! The columns of HAProxy's `show stat` in its order (taken from version 2.6), each with the tags
//! of the typed format (origin, nature, scope) and its type. Tools use these names and positions.
//! The values are set in `stat.rs`.

/// A column.
pub(super) struct StatColumn {
    pub(super) name: &'static str,
    pub(super) tags: &'static str,
    pub(super) kind: &'static str,
}

const fn column(name: &'static str, tags: &'static str, kind: &'static str) -> StatColumn {
    StatColumn { name, tags, kind }
}

/// All columns.
pub(super) const COLUMNS: &[StatColumn] = &[
    column("pxname", "KNS", "str"),
    column("svname", "KNS", "str"),
    column("qcur", "MGP", "u32"),
    column("qmax", "MMP", "u32"),
    column("scur", "MGP", "u32"),
    column("smax", "MMP", "u32"),
    column("slim", "CLP", "u32"),
    column("stot", "MCP", "u64"),
    column("bin", "MCP", "u64"),
    column("bout", "MCP", "u64"),
    column("dreq", "MCP", "u64"),
    column("dresp", "MCP", "u64"),
    column("ereq", "MCP", "u64"),
    column("econ", "MCP", "u64"),
    column("eresp", "MCP", "u64"),
    column("wretr", "MCP", "u64"),
    column("wredis", "MCP", "u64"),
    column("status", "SGP", "str"),
    column("weight", "MaP", "u32"),
    column("act", "SGP", "u32"),
    column("bck", "SGP", "u32"),
    column("chkfail", "MCP", "u64"),
    column("chkdown", "MCP", "u64"),
    column("lastchg", "MAP", "u32"),
    column("downtime", "MCP", "u32"),
    column("qlimit", "CLS", "u32"),
    column("pid", "KGP", "u32"),
    column("iid", "KGS", "u32"),
    column("sid", "KGS", "u32"),
    column("throttle", "MaP", "u32"),
    column("lbtot", "MCP", "u64"),
    column("tracked", "CGS", "str"),
    column("type", "CGS", "u32"),
    column("rate", "MRP", "u32"),
    column("rate_lim", "CLP", "u32"),
    column("rate_max", "MMP", "u32"),
    column("check_status", "MOP", "str"),
    column("check_code", "MOP", "u32"),
    column("check_duration", "MDP", "u64"),
    column("hrsp_1xx", "MCP", "u64"),
    column("hrsp_2xx", "MCP", "u64"),
    column("hrsp_3xx", "MCP", "u64"),
    column("hrsp_4xx", "MCP", "u64"),
    column("hrsp_5xx", "MCP", "u64"),
    column("hrsp_other", "MCP", "u64"),
    column("hanafail", "MCP", "u64"),
    column("req_rate", "MRP", "u32"),
    column("req_rate_max", "MMP", "u32"),
    column("req_tot", "MCP", "u64"),
    column("cli_abrt", "MCP", "u64"),
    column("srv_abrt", "MCP", "u64"),
    column("comp_in", "MCP", "u64"),
    column("comp_out", "MCP", "u64"),
    column("comp_byp", "MCP", "u64"),
    column("comp_rsp", "MCP", "u64"),
    column("lastsess", "MAP", "s32"),
    column("last_chk", "MOP", "str"),
    column("last_agt", "MOP", "str"),
    column("qtime", "MaP", "u32"),
    column("ctime", "MaP", "u32"),
    column("rtime", "MaP", "u32"),
    column("ttime", "MaP", "u32"),
    column("agent_status", "MOP", "str"),
    column("agent_code", "MOP", "u32"),
    column("agent_duration", "MDP", "u64"),
    column("check_desc", "MOP", "str"),
    column("agent_desc", "MOP", "str"),
    column("check_rise", "CGS", "u32"),
    column("check_fall", "CGS", "u32"),
    column("check_health", "SGP", "u32"),
    column("agent_rise", "CGS", "u32"),
    column("agent_fall", "CGS", "u32"),
    column("agent_health", "SGP", "u32"),
    column("addr", "CGS", "str"),
    column("cookie", "CNS", "str"),
    column("mode", "CGS", "str"),
    column("algo", "CGS", "str"),
    column("conn_rate", "MRP", "u32"),
    column("conn_rate_max", "MMP", "u32"),
    column("conn_tot", "MCP", "u64"),
    column("intercepted", "MCP", "u64"),
    column("dcon", "MCP", "u64"),
    column("dses", "MCP", "u64"),
    column("wrew", "MCP", "u64"),
    column("connect", "MCP", "u64"),
    column("reuse", "MCP", "u64"),
    column("cache_lookups", "MCP", "u64"),
    column("cache_hits", "MCP", "u64"),
    column("srv_icur", "MGP", "u32"),
    column("src_ilim", "CLP", "u32"),
    column("qtime_max", "MMP", "u32"),
    column("ctime_max", "MMP", "u32"),
    column("rtime_max", "MMP", "u32"),
    column("ttime_max", "MMP", "u32"),
    column("eint", "MCP", "u64"),
    column("idle_conn_cur", "MGP", "u32"),
    column("safe_conn_cur", "MGP", "u32"),
    column("used_conn_cur", "MGP", "u32"),
    column("need_conn_est", "MGP", "u32"),
    column("uweight", "MaP", "u32"),
    column("agg_server_status", "MGP", "u32"),
    column("agg_server_check_status", "MGP", "u32"),
    column("agg_check_status", "MGP", "u32"),
    column("ssl_sess", "MCP", "u64"),
    column("ssl_reused_sess", "MCP", "u64"),
    column("ssl_failed_handshake", "MCP", "u64"),
    column("h2_headers_rcvd", "MCP", "u64"),
    column("h2_data_rcvd", "MCP", "u64"),
    column("h2_settings_rcvd", "MCP", "u64"),
    column("h2_rst_stream_rcvd", "MCP", "u64"),
    column("h2_goaway_rcvd", "MCP", "u64"),
    column("h2_detected_conn_protocol_errors", "MCP", "u64"),
    column("h2_detected_strm_protocol_errors", "MCP", "u64"),
    column("h2_rst_stream_resp", "MCP", "u64"),
    column("h2_goaway_resp", "MCP", "u64"),
    column("h2_open_connections", "MGP", "u64"),
    column("h2_backend_open_streams", "MGP", "u64"),
    column("h2_total_connections", "MCP", "u64"),
    column("h2_backend_total_streams", "MCP", "u64"),
    column("h1_open_connections", "MGP", "u64"),
    column("h1_open_streams", "MGP", "u64"),
    column("h1_total_connections", "MCP", "u64"),
    column("h1_total_streams", "MCP", "u64"),
    column("h1_bytes_in", "MCP", "u64"),
    column("h1_bytes_out", "MCP", "u64"),
    column("h1_spliced_bytes_in", "MCP", "u64"),
    column("h1_spliced_bytes_out", "MCP", "u64"),
];

/// The index of the first column about protocols; in CSV a column with a dash precedes it.
pub(super) const OF_PROTOCOLS: usize = 103;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_where_haproxy_has_them() {
        let check = |place: usize, name: &str| assert_eq!(COLUMNS[place].name, name);
        check(17, "status");
        check(73, "addr");
        check(102, "agg_check_status");
        check(OF_PROTOCOLS, "ssl_sess");
        check(118, "h2_backend_total_streams");
        check(126, "h1_spliced_bytes_out");
        assert_eq!(COLUMNS.len(), 127);
    }
}
