//! The variables of nginx's documentation: where each has its value, or the reason why it has none.
//! The page of directives has them, too. The conversion itself is in `values` and `logs`.

use std::fmt::Write as _;

/// The place where a variable has its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VariablePlace {
    /// Texts and lines of logs.
    All,
    /// Lines of logs alone.
    Lines,
    None,
}

/// One variable, or all whose names begin so.
pub(crate) struct VariableRow {
    /// A name that ends with `_` stands for all that begin so.
    pub(crate) name: &'static str,
    pub(crate) place: VariablePlace,
    /// The special meaning, or the reason why it has no value.
    pub(crate) note: &'static str,
}

const fn all(name: &'static str, note: &'static str) -> VariableRow {
    VariableRow { name, place: VariablePlace::All, note }
}

const fn lines(name: &'static str, note: &'static str) -> VariableRow {
    VariableRow { name, place: VariablePlace::Lines, note }
}

const fn none(name: &'static str, note: &'static str) -> VariableRow {
    VariableRow { name, place: VariablePlace::None, note }
}

const SAME: &str = "";
const LAST: &str = "that of the last attempt, where nginx lists all";
const BROWSER: &str = "write a `map` of `$http_user_agent`";
const PLACES: &str =
    "Weir reads no databases of places: write the networks that matter into a `geo` block";
const TOKENS: &str = "Weir reads no tokens: let the server that checks them read their parts";
const SESSIONS: &str = "Weir makes no ids of users: let the application set and log its cookie";
const VALUES_OF_HEADER: &str =
    "of the PROXY header Weir takes the addresses alone: `$remote_addr` is the client there";
const LISTENS: &str = "without a `listen … proxy_protocol` empty, as in nginx; with one, Weir takes the client from the header: write `$remote_addr`";
const KERNEL: &str = "Weir asks the kernel for no numbers of a client's connection: remove it; `$t_…` of a native log tell where time went";
const OFFERS: &str =
    "what a client offers is not kept: `$ssl_cipher` and `$ssl_curve` are what both took";
const ECH: &str = "names of clients are not encrypted (ECH): leave it out with `ssl_ech_file`";
const CERTIFICATE: &str =
    "write `$ssl_client_escaped_cert`, the same certificate without line feeds";
const FASTCGI: &str =
    "servers of FastCGI are not asked: put a web server in front of the application";
const LINKS: &str =
    "Weir checks no signatures of links: let the application that makes them check them";
const LIMITS: &str =
    "write `$status`, or `$cause` in a native log, which is `rate_limited` or `in_flight_limited`";

/// The variables. Of several that fit a name the first counts.
#[rustfmt::skip]
const VARIABLES: &[VariableRow] = &[
    all("arg_", SAME), all("args", SAME), all("binary_remote_addr", "the address as text, which keys cannot tell apart"),
    all("body_bytes_sent", SAME), all("bytes_sent", SAME), all("connection", SAME), all("connection_requests", SAME),
    all("content_length", SAME), all("content_type", SAME), all("cookie_", SAME),
    all("document_root", "where a `root` holds, or in lines the folder of nginx as packaged"),
    all("document_uri", "control bytes stay percent-encoded"), all("host", SAME), all("hostname", SAME),
    all("http2", SAME), all("http3", "empty: HTTP/3 is not spoken"), all("http_", SAME), all("https", SAME), all("is_args", SAME),
    all("msec", SAME), all("nginx_version", "the version that `--assume` names"), all("pid", SAME), all("pipe", "`.`: requests are not pipelined"),
    all("proxy_add_x_forwarded_for", SAME), all("proxy_host", "beside a `proxy_pass`"), all("proxy_port", "beside a `proxy_pass`"),
    all("query_string", SAME), all("realip_remote_addr", SAME), all("realip_remote_port", SAME), all("remote_addr", SAME), all("remote_port", SAME),
    all("remote_user", SAME), all("request", SAME), all("request_filename", "where a `root` or an `alias` holds"), all("request_id", SAME),
    all("request_length", SAME), all("request_method", SAME), all("request_time", SAME), all("request_uri", SAME), all("scheme", SAME),
    all("sent_http_", "in lines without headers of Weir's own responses"), all("server_addr", SAME), all("server_name", SAME), all("server_port", SAME),
    all("server_protocol", SAME), all("status", SAME), all("time_iso8601", SAME), all("time_local", SAME),
    all("uri", "control bytes stay percent-encoded"), all("gzip_ratio", "empty: nothing is compressed"),
    all("ssl_cipher", SAME), all("ssl_client_escaped_cert", SAME), all("ssl_client_fingerprint", SAME), all("ssl_client_i_dn", SAME),
    all("ssl_client_i_dn_legacy", SAME), all("ssl_client_s_dn", SAME), all("ssl_client_s_dn_legacy", SAME), all("ssl_client_serial", SAME),
    all("ssl_client_v_end", SAME), all("ssl_client_v_remain", SAME), all("ssl_client_v_start", SAME), all("ssl_client_verify", SAME),
    all("ssl_curve", SAME), all("ssl_early_data", "empty: no early data is taken"), all("ssl_protocol", SAME), all("ssl_server_name", SAME),
    all("ssl_session_reused", SAME), all("ssl_preread_alpn_protocols", SAME), all("ssl_preread_protocol", SAME), all("ssl_preread_server_name", SAME),
    all("upstream_addr", LAST), all("upstream_cache_status", "empty: Weir has no cache"), all("upstream_connect_time", LAST),
    all("upstream_header_time", LAST), all("upstream_http_", LAST), all("upstream_last_addr", SAME), all("upstream_response_length", LAST),
    all("upstream_response_time", LAST), all("upstream_status", LAST),
    all("bytes_received", "in `stream`"), all("protocol", "in `stream`"), all("session_time", "in `stream`"),
    lines("connection_time", "it is known at the end of a request"), lines("request_body", "of bodies up to 20k that are read whole"),
    lines("request_completion", "it is known at the end of a request"), lines("upstream_bytes_received", "it is known at the end of a request"),
    lines("upstream_bytes_sent", "it is known at the end of a request"),
    none("acme_", "obtain certificates with a program for that, and name the files"),
    none("ancient_browser", BROWSER), none("modern_browser", BROWSER), none("msie", BROWSER),
    none("date_", "Weir changes no bodies, where these stand: write `$time_iso8601`"),
    none("fastcgi_", FASTCGI), none("geoip_", PLACES),
    none("invalid_referer", "it has a value in the `if` of a block with `valid_referers` alone"),
    none("is_request_port", "write `$server_port`, the port that the client connected to"),
    none("request_port", "write `$server_port`, the port that the client connected to"),
    none("jwt_", TOKENS), none("oidc_", TOKENS), none("limit_conn_status", LIMITS), none("limit_req_status", LIMITS),
    none("limit_rate", "a rate is that of a block: write `limit_rate`"),
    none("memcached_key", "servers of memcached are not asked: put a web server in front"),
    none("mqtt_", "messages of MQTT are not read: choose by `$ssl_preread_server_name`, or give each kind of client a port"),
    none("proxy_protocol_tlv_", VALUES_OF_HEADER), none("proxy_protocol_", LISTENS),
    none("realpath_root", "links are not resolved: write `$document_root`"),
    none("request_body_file", "bodies are not written to files: write `$request_body` in logs"),
    none("secure_link", LINKS), none("secure_link_", LINKS),
    none("sent_trailer_", "trailers of servers are passed on unread: write a header of the response"),
    none("upstream_trailer_", "trailers of servers are passed on unread: write a header of the response"),
    none("session_log_", "every request has its line in `access_log`: write `$request_id`"),
    none("slice_range", "ranges are asked of the server as the client asks: write `$http_range`"),
    none("ssl_alpn_protocol", "write `$server_protocol`, which tells HTTP/2 from HTTP/1.1"),
    none("ssl_ciphers", OFFERS), none("ssl_curves", OFFERS), none("ssl_sigalgs", OFFERS), none("ssl_sigalg", OFFERS),
    none("ssl_client_sigalg", OFFERS), none("ssl_client_cert", CERTIFICATE), none("ssl_client_raw_cert", CERTIFICATE), none("ssl_ech_", ECH),
    none("ssl_session_id", "sessions have no ids that are shown: write `$ssl_session_reused`, or `$connection`"),
    none("tcpinfo_", KERNEL), none("time_iso8601_ms", "write `$msec`, which has milliseconds"), none("uid_", SESSIONS),
    none("upstream_cookie_", "write `$upstream_http_set_cookie`, the whole line"),
    none("upstream_last_server_name", "write `$proxy_host`, or the name of `proxy_ssl_name`"),
    none("upstream_queue_time", "write `$t_queue` in a native log, µs"),
    none("upstream_first_byte_time", "write `$t_response` in a native log, µs"),
    none("upstream_session_time", "write `$session_time`, which has the time to connect too"),
];

/// Returns the row of a variable.
pub(crate) fn find(name: &str) -> Option<&'static VariableRow> {
    let fits = |row: &&VariableRow| {
        row.name == name
            || row.name.ends_with('_') && name.len() > row.name.len() && name.starts_with(row.name)
    };
    VARIABLES.iter().find(|row| row.name == name).or_else(|| VARIABLES.iter().find(fits))
}

/// Returns the reason why a text cannot have a variable.
pub(crate) fn reason(name: &str) -> String {
    match find(name) {
        Some(VariableRow { place: VariablePlace::None, note, .. }) => format!("`${name}`: {note}"),
        Some(VariableRow { place: VariablePlace::Lines, note, .. }) => {
            format!("`${name}` has its value in lines of logs only: {note}")
        }
        Some(VariableRow { note, .. }) if !note.is_empty() => {
            format!("`${name}` has no value here, but {note}")
        }
        _ => format!("Weir has no variable `${name}`"),
    }
}

/// Appends the variables to the page of directives.
pub(crate) fn write_rows(page: &mut String) {
    page.push_str("\n## Variables\n\nWhere a variable of nginx has its value in a converted file.\n\n| variable | | |\n| --- | --- | --- |\n");
    for VariableRow { name, place, note } in VARIABLES {
        let more = if name.ends_with('_') { "NAME" } else { "" };
        let word = match place {
            VariablePlace::All => "converted",
            VariablePlace::Lines => "in logs",
            VariablePlace::None => "refused",
        };
        let _ = writeln!(page, "| `${name}{more}` | {word} | {note} |");
    }
}
