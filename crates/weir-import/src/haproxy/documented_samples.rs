//! The reasons why sample fetches of HAProxy's manual have no value, by the beginnings of their
//! names. Those that have one are in `expressions`, `acl` and `pool_counts`.

/// Fetches whose names begin so, or are so with `$` at the end, and the reason.
struct FetchFamily {
    start: &'static str,
    reason: &'static str,
}

const fn family(start: &'static str, reason: &'static str) -> FetchFamily {
    FetchFamily { start, reason }
}

const TABLES: &str = "Weir has no stick tables: write `limit rate KEY rate=…` or `limit client`";
const KEYS: &str = "Weir shows no keys and random numbers of TLS: remove it";
const CLOCKS: &str =
    "Weir measures no time of processor for sections: write `$t_own` in a native log";
const KERNEL: &str = "Weir asks the kernel for no numbers of a connection: write the times of the log format, such as `%Tw` and `%Tr`";
const OFFERS: &str = "what a client offers in TLS is not kept: write `ssl_fc_cipher` and `ssl_fc_protocol`, what both took";
const TO_SERVERS: &str =
    "connections to servers have no fetches: name the server with `srv_name` or `%s` in the log";
const TIMEOUTS: &str = "times of a section are in the file: write them where they are needed";
const FRAMES: &str = "packets are not captured: look at the network with a program for that";
const BUFFERS: &str = "it looks into HAProxy's own buffers, which Weir does not have: remove it";
const STREAMS: &str = "streams have no texts and numbers of their own: write `%ID` or `unique-id`";
const BYTES: &str = "bytes of connections are passed on unread but for a TLS handshake: choose by `req.ssl_sni`, `req.ssl_alpn` or the client";
const WEIGHTS: &str = "weights and rates of servers are no values: `weir ctl` and metrics show them; conditions have `nbsrv` and `srv_conn`";
const CERTIFICATE: &str = "of certificates Weir has `ssl_c_s_dn`, `ssl_c_i_dn`, `ssl_c_serial`, `ssl_c_sha1`, `ssl_c_notbefore` and `ssl_c_notafter`";
const OWN_CERTIFICATE: &str =
    "of the certificate that clients get, nothing is shown: write what it has as a text";
const SERVER_CERTIFICATE: &str = "of certificates of servers nothing is shown; they are verified with `verify required` and `verifyhost`";
const VERIFIED: &str = "a client whose certificate is not valid gets no further: write `ssl_c_verify`, which is 0 otherwise";
const ENTITIES: &str =
    "rules leave no trace of their place: `weir explain` shows which rules a request meets";
const NO_CACHE: &str = "Weir has no cache: remove it, or keep a cache behind Weir";
const NO_COMPRESSION: &str = "Weir compresses nothing: remove it";
const NAMES: &str =
    "write each of the names that matter: `req.hdr(NAME)`, `req.cook(NAME)` or `url_param(NAME)`";
const BODY: &str = "Weir looks at no body: leave that to a server behind it";
const DEVICES: &str = "Weir reads no databases of devices: write a map of `req.hdr(user-agent)`";
const HASHES: &str = "Weir has no binary samples: write `base` or `url` with `crc32` or `xxh32`, and `src` beside it";
const NUMBERS: &str =
    "sections and sockets have no numbers: write `fe_name`, `be_name` or `srv_name`";
const COUNTS: &str = "numbers of connections are compared: write `be_conn(NAME)`, `srv_conn(NAME/SERVER)`, `fe_conn` or `queue(NAME)` in a condition";
const LOCAL: &str = "write the addresses of this machine: `{ src 127.0.0.0/8 ::1 … }`";
const HEADER_OF_PROXY: &str = "of the PROXY header Weir takes the addresses alone: write `src`";
const ERRORS: &str =
    "errors of connections are in `$cause` of a native log, and in `%tsc` of HAProxy's";
const AMOUNTS: &str =
    "amounts are known at the end of a request: write `%U` and `%B` in `log-format`";
const PROCESS: &str =
    "write `pid` or `hostname`: Weir has one process, and its workers have no numbers here";
const DATES: &str = "write `date`, or `%T` and `%Ts` in `log-format`";
const USERS: &str = "write `http_auth(USERLIST)` in a condition";
const PRIORITY: &str =
    "requests have one queue without classes: write backends of their own for those that may wait";
const NOT_YET: &str = "it is known at the end of a request only: write it in `log-format`";

/// The families. The first that fits counts.
#[rustfmt::skip]
const FAMILIES: &[FetchFamily] = &[
    family("sc_", TABLES), family("sc0_", TABLES), family("sc1_", TABLES), family("sc2_", TABLES), family("table_", TABLES),
    family("src_is_local$", LOCAL), family("dst_is_local$", LOCAL), family("fc_src_is_local$", LOCAL), family("fc_dst_is_local$", LOCAL),
    family("src_", TABLES), family("cpu_", CLOCKS), family("lat_", CLOCKS),
    family("last_", ENTITIES), family("waiting_entity$", ENTITIES), family("term_events$", ERRORS),
    family("fc_err", ERRORS), family("bc_err", ERRORS), family("ssl_fc_err", ERRORS), family("ssl_bc_err", ERRORS),
    family("txn.sess_term_state$", "write `%ts` in `log-format`"), family("fs.", STREAMS), family("bs.", STREAMS), family("txn.id32$", STREAMS),
    family("act_conn$", COUNTS), family("dst_conn$", COUNTS), family("be_conn_free$", COUNTS), family("srv_conn_free$", COUNTS),
    family("connslots$", COUNTS), family("srv_queue$", COUNTS), family("srv_conn$", COUNTS),
    family("srv_is_up$", "write `srv_is_up(BACKEND/SERVER)` in a condition"),
    family("srv_iweight$", WEIGHTS), family("srv_uweight$", WEIGHTS), family("srv_weight$", WEIGHTS), family("srv_sess_rate$", WEIGHTS),
    family("srv_id$", NUMBERS), family("fe_id$", NUMBERS), family("be_id$", NUMBERS), family("so_id$", NUMBERS), family("so_name$", NUMBERS),
    family("fe_defbe$", "the default backend is in the file: write its name as a text"),
    family("prio_", PRIORITY), family("proc$", PROCESS), family("thread$", PROCESS), family("stopping$", PROCESS), family("uptime$", PROCESS),
    family("quic_enabled$", "HTTP/3 is not spoken: write `bool(false)`"),
    family("meth$", "write `method`"), family("acl$", "write the names of the ACLs in the condition: `if a !b`"),
    family("wait_end$", "rules do not wait for a time: write `inspect-delay` and the rule without it"),
    family("date_us$", DATES), family("accept_date$", DATES), family("request_date$", DATES),
    family("bytes_", AMOUNTS), family("req.bytes_", AMOUNTS), family("res.bytes_", AMOUNTS),
    family("cur_", TIMEOUTS), family("be_max_retries$", TIMEOUTS), family("be_", TIMEOUTS), family("fe_", TIMEOUTS),
    family("bc_rtt", KERNEL), family("fc_rtt", KERNEL), family("fc_fackets$", KERNEL), family("fc_lost$", KERNEL), family("fc_reordering$", KERNEL),
    family("fc_retrans$", KERNEL), family("fc_sacked$", KERNEL), family("fc_unacked$", KERNEL), family("fc_saved_syn$", FRAMES),
    family("fc_glitches$", "unusual frames are bounded and counted by metrics: remove it"),
    family("fc_nb_streams$", "streams of a client are bounded natively: `http2 streams=`"),
    family("fc_settings_streams_limit$", "streams of a client are bounded natively: `http2 streams=`"),
    family("fc_pp_", HEADER_OF_PROXY), family("fc_rcvd_proxy$", HEADER_OF_PROXY),
    family("fc_dst$", "write `dst`"), family("fc_dst_port$", "write `dst_port`"),
    family("bc_", TO_SERVERS),
    family("ssl_bc_client_", KEYS), family("ssl_bc_server_", KEYS), family("ssl_bc_early_", KEYS), family("ssl_bc_exporter_", KEYS), family("ssl_bc_session_", KEYS),
    family("ssl_bc", TO_SERVERS),
    family("ssl_c_ca_err", VERIFIED), family("ssl_c_err$", VERIFIED), family("ssl_c_", CERTIFICATE),
    family("ssl_f_", OWN_CERTIFICATE), family("ssl_s_", SERVER_CERTIFICATE), family("ssl_fc_crtname$", OWN_CERTIFICATE),
    family("ssl_fc_client_", KEYS), family("ssl_fc_server_", KEYS), family("ssl_fc_early_", KEYS), family("ssl_fc_exporter_", KEYS),
    family("ssl_fc_session_", KEYS), family("ssl_fc_unique_id$", KEYS),
    family("ssl_fc_has_early$", "no early data is taken: write `bool(false)`"),
    family("ssl_fc_npn$", "ALPN has replaced it: write `ssl_fc_alpn`"),
    family("ssl_fc_", OFFERS),
    family("req.ssl_cipherlist$", OFFERS), family("req.ssl_keyshare_groups$", OFFERS), family("req.ssl_sigalgs$", OFFERS), family("req.ssl_supported_groups$", OFFERS),
    family("req.ssl_", BYTES), family("req_ssl_", BYTES), family("rep_ssl_", BYTES), family("res.ssl_", BYTES),
    family("payload", BYTES), family("req.payload", BYTES), family("res.payload", BYTES), family("req.len$", BYTES), family("req_len$", BYTES), family("res.len$", BYTES),
    family("distcc_", BYTES), family("rdp_cookie", BYTES), family("req.rdp_cookie", BYTES), family("req.proto_http$", BYTES), family("req_proto_http$", BYTES),
    family("req.body", BODY), family("res.body", BODY), family("res.cache_", NO_CACHE), family("res.comp", NO_COMPRESSION),
    family("base32", HASHES), family("url32", HASHES),
    family("url_ip$", "the address of an absolute URL is not looked at: write `req.hdr(host)`"),
    family("url_port$", "the port of an absolute URL is not looked at: write `dst_port`"),
    family("http_auth_pass$", USERS), family("http_auth_group$", USERS), family("http_auth$", USERS),
    family("req.cook_names$", NAMES), family("res.cook_names$", NAMES), family("req.hdr_names$", NAMES), family("res.hdr_names$", NAMES),
    family("req.hdrs", NAMES), family("res.hdrs", NAMES), family("51d.", DEVICES), family("internal.", BUFFERS),
    family("capture.res.ver$", "servers are asked in HTTP/1.1 or HTTP/2 as the file says: write that as a text"),
    family("res.ver$", "servers are asked in HTTP/1.1 or HTTP/2 as the file says: write that as a text"),
    family("resp_ver$", "servers are asked in HTTP/1.1 or HTTP/2 as the file says: write that as a text"),
    family("server_status$", "write `status` in a rule of responses"), family("txn.status$", "write `%ST` in `log-format`, or `status` in a rule of responses"),
    family("txn.conn_retries$", "write `%rc` in `log-format`"), family("txn.redispatched$", "write `%rc` in `log-format`"),
    family("res.fhdr_cnt$", "write `res.hdr_cnt(NAME)`"), family("req.fhdr_cnt$", "write `req.hdr_cnt(NAME)`"),
    family("cookie$", "write `req.cook(NAME)`"), family("cook", "write `req.cook(NAME)`"), family("scook", "write `res.hdr(set-cookie)`"),
    family("req.cook", "write `req.cook(NAME)`"), family("res.cook", "write `res.hdr(set-cookie)`"),
    family("shdr", "write `res.hdr(NAME)`"), family("res.hdr_ip$", "write `res.hdr(NAME)`"), family("url_param$", "write `url_param(NAME)`"), family("urlp", "write `url_param(NAME)`"),
    family("bc.timer.", NOT_YET), family("fc.timer.", NOT_YET), family("req.timer.", NOT_YET), family("res.timer.", NOT_YET), family("txn.timer.", NOT_YET),
];

/// Returns the reason why a fetch of the manual has no value.
pub(super) fn reason(name: &str) -> Option<&'static str> {
    let fits = |family: &&FetchFamily| match family.start.strip_suffix('$') {
        Some(whole) => name == whole,
        None => name.starts_with(family.start),
    };
    FAMILIES.iter().find(fits).map(|family| family.reason)
}

/// Returns the reason why a converter has no counterpart, for families of them.
pub(super) fn of_converter(name: &str) -> Option<&'static str> {
    let is_packet = ["eth.", "ip.", "tcp."].iter().any(|start| name.starts_with(start));
    Some(match name {
        _ if is_packet => FRAMES,
        _ if name.starts_with("table_") => TABLES,
        "base2" => "Weir has no binary samples: write `hex` or `base64`",
        "fe_exists" => "sections are in the file: write their names in a map",
        "has_ctl" => {
            "write `-m reg [[:cntrl:]]`; Weir refuses control characters in heads in any case"
        }
        "map_match" | "map_match_output" => {
            "a map gives the value beside a key, not the key: write the key as the value in the file, too"
        }
        _ => return None,
    })
}
