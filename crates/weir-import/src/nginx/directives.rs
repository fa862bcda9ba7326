//! The table of nginx's directives: where each may stand, and what the front end does with it. The
//! page of coverage is generated from it.

use std::fmt::Write as _;

use super::documented_variables;
use super::families::write_rows;

/// The treatment of a directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handling {
    /// The converter takes it; where it does not, the directive is refused.
    Converted,
    /// The same, and a block without one has that of the block around it, so that one that no
    /// inner block uses has no effect.
    Inherited,
    /// It has no effect, for the reason given.
    Ignored,
    /// It has no effect; for these first words, or for all but `off` if there are none, that is a
    /// difference.
    DiffersFor(&'static [&'static str]),
    /// It is refused.
    Refused,
    /// It is refused but for these first words, with which it asks for what Weir does in any case.
    RefusedUnless(&'static [&'static str]),
    /// It is refused in a file with a cache, and has no effect in others.
    OfCache,
    /// The converter takes it where clients are asked for certificates; it has no effect elsewhere.
    OfClientCertificates,
}

impl Handling {
    /// Returns true if a directive without effect makes a difference, with this first word.
    pub(crate) fn differs(self, word: &str) -> bool {
        match self {
            Self::DiffersFor([]) => word != "off",
            Self::DiffersFor(words) => words.contains(&word),
            _ => false,
        }
    }
}

/// One directive, in contexts in which it is treated alike.
#[derive(Debug)]
pub(crate) struct NginxDirective {
    pub(crate) name: &'static str,
    /// The names of the blocks in which it may stand; `main` is outside all of them.
    pub(crate) contexts: &'static [&'static str],
    pub(crate) handling: Handling,
    /// The reason, or the form of the conversion.
    pub(crate) note: &'static str,
}

const fn row(
    name: &'static str,
    contexts: &'static [&'static str],
    handling: Handling,
    note: &'static str,
) -> NginxDirective {
    NginxDirective { name, contexts, handling, note }
}

/// Returns the row of a directive in a context.
pub(crate) fn find(name: &str, context: &str) -> Option<&'static NginxDirective> {
    DIRECTIVES.iter().find(|row| row.name == name && row.contexts.contains(&context))
}

/// Directives that begin like guards and only set how a guard works.
const SETTINGS: [&str; 9] = [
    "auth_basic_user_file",
    "auth_delay",
    "auth_jwt_claim_set",
    "auth_jwt_header_set",
    "auth_jwt_key_cache",
    "auth_jwt_key_file",
    "auth_jwt_leeway",
    "auth_jwt_type",
    "auth_request_set",
];

/// Returns true if a directive of this name keeps clients away and no context has a conversion for
/// it. One that the table does not know may do so if it is called like one.
pub(crate) fn is_guard(name: &str) -> bool {
    let mut rows = DIRECTIVES.iter().filter(|row| row.name == name);
    (name.starts_with("auth_") || name.starts_with("access_by_"))
        && !SETTINGS.contains(&name)
        && rows.all(|row| matches!(row.handling, Handling::Refused | Handling::RefusedUnless(_)))
}

/// Returns the contexts of a directive, empty if there is none of that name.
pub(crate) fn contexts_of(name: &str) -> Vec<&'static str> {
    let rows = DIRECTIVES.iter().filter(|row| row.name == name);
    rows.flat_map(|row| row.contexts).copied().collect()
}

const INTRODUCTION: &str = "# Directives of nginx

This page is generated from the table in `crates/weir-import/src/nginx/directives.rs`: change that, and run the tests of the crate with
`WEIR_BLESS=1`.

`weir check nginx.conf` reports what becomes of each directive of a file, with its line, and the defaults of nginx that are set or that
Weir does not have. `weir run -c nginx.conf` runs the file, and `weir import nginx.conf` prints it in Weir's own syntax. A refused
directive stops both, unless `--accept-ignored` is given. The defaults are those of nginx 1.22; `--assume nginx=1.31` takes those of another version.

A directive that is *converted* may still be refused where the note says so, and one that is in none of these rows always is. Rows with `…` are all directives whose names begin so, unless they have rows of their own.

| directive | in | | |
| --- | --- | --- | --- |
";

/// Returns the table as a page.
pub fn reference() -> String {
    let mut page = String::from(INTRODUCTION);
    for NginxDirective { name, contexts, handling, note } in DIRECTIVES {
        let word = match handling {
            Handling::Converted | Handling::Inherited | Handling::OfClientCertificates => {
                "converted"
            }
            Handling::Ignored => "ignored",
            Handling::DiffersFor([]) => "differs",
            Handling::DiffersFor(_) => "ignored or differs",
            Handling::Refused | Handling::OfCache => "refused",
            Handling::RefusedUnless(_) => "ignored or refused",
        };
        let note = note.replace('|', "\\|");
        let _ = writeln!(page, "| `{name}` | {} | {word} | {note} |", contexts.join(", "));
    }
    write_rows(&mut page);
    documented_variables::write_rows(&mut page);
    page
}

#[rustfmt::skip]
const DIRECTIVES: &[NginxDirective] = &[
    row("worker_processes", &["main"], Handling::Converted, "`workers`; more workers than processor cores are not pinned one to a core"),
    row("user", &["main"], Handling::Converted, "`user`"),
    row("pid", &["main"], Handling::Converted, "`pid_file`"),
    row("error_log", &["main"], Handling::Converted, "`error_log`, for the process as a whole; memory is refused"),
    row("events", &["main"], Handling::Converted, "the directives inside are converted"),
    row("http", &["main"], Handling::Converted, "the directives inside are converted"),
    row("daemon", &["main"], Handling::Ignored, "Weir runs in the foreground; a service manager or a shell starts it in the background"),
    row("master_process", &["main"], Handling::Ignored, "Weir runs in the foreground; a service manager or a shell starts it in the background"),
    row("worker_cpu_affinity", &["main"], Handling::Converted, "`workers cpus=`; without it each worker has a core of its own of those that the process may use"),
    row("worker_priority", &["main"], Handling::Ignored, "Weir pins each worker to a core of the set that the process may use"),
    row("worker_rlimit_nofile", &["main"], Handling::Ignored, "Weir raises its own limit of open files; a service manager sets others"),
    row("worker_rlimit_core", &["main"], Handling::Ignored, "Weir raises its own limit of open files; a service manager sets others"),
    row("worker_shutdown_timeout", &["main"], Handling::Ignored, "Weir ends requests that still run 30 seconds after a stop"),
    row("pcre_jit", &["main"], Handling::Ignored, "it tunes the inside of nginx and has no counterpart"),
    row("ssl_engine", &["main"], Handling::Ignored, "it tunes the inside of nginx and has no counterpart"),
    row("timer_resolution", &["main"], Handling::Ignored, "it tunes the inside of nginx and has no counterpart"),
    row("lock_file", &["main"], Handling::Ignored, "it tunes the inside of nginx and has no counterpart"),
    row("thread_pool", &["main"], Handling::Ignored, "it tunes the inside of nginx and has no counterpart"),
    row("working_directory", &["main"], Handling::Ignored, "it tunes the inside of nginx and has no counterpart"),
    row("debug_points", &["main"], Handling::Ignored, "it tunes the inside of nginx and has no counterpart"),
    row("load_module", &["main"], Handling::Ignored, "Weir has no modules of nginx; directives that it does not have are refused by name"),
    row("env", &["main"], Handling::Ignored, "only modules that Weir does not have read variables of the environment"),
    row("stream", &["main"], Handling::Converted, "the directives inside are converted; UDP is refused"),
    row("mail", &["main"], Handling::Refused, "Weir has no mail proxy: pass connections on in `stream`"),
    row("server", &["stream"], Handling::Converted, "`listen tcp`"),
    row("upstream", &["stream"], Handling::Converted, "the directives inside are converted"),
    row("map", &["stream"], Handling::Converted, "`map`; that of `$ssl_preread_server_name` to the targets of `proxy_pass` becomes `sni`"),
    row("geo", &["stream"], Handling::Converted, "`map` with `networks`, as in `http`"),
    row("split_clients", &["stream"], Handling::Converted, "`split`, with the same hash"),
    row("limit_conn", &["stream"], Handling::Inherited, "`limit in_flight` of the listener"),
    row("limit_conn_zone", &["stream"], Handling::Converted, "`limit in_flight`; the table has one size for all limits (`limit_table`)"),
    row("limit_conn_dry_run", &["stream"], Handling::Inherited, "`dry_run` of the limit"),
    row("limit_conn_log_level", &["stream"], Handling::Ignored, "refused connections are counted by limit, and access logs tell the cause"),
    row("proxy_download_rate", &["stream", "server"], Handling::Inherited, "`limit bandwidth down=` of the listener"),
    row("proxy_upload_rate", &["stream", "server"], Handling::Inherited, "`limit bandwidth up=` of the listener"),
    row("proxy_ssl", &["stream", "server"], Handling::Inherited, "`tls` of the pool"),
    row("proxy_half_close", &["stream", "server"], Handling::DiffersFor(&["off"]), "the end of one side is passed on and the other one goes on, as with `on`"),
    row("proxy_requests", &["stream", "server"], Handling::Ignored, "it concerns UDP"),
    row("proxy_responses", &["stream", "server"], Handling::Ignored, "it concerns UDP"),
    row("proxy_protocol_timeout", &["stream", "server"], Handling::DiffersFor(&[]), "the header has the time of `preread_timeout`, or of `ssl_handshake_timeout`"),
    row("set_real_ip_from", &["stream"], Handling::Inherited, "`proxy_protocol` of the listener"),
    row("proxy_socket_keepalive", &["stream"], Handling::Ignored, "it tunes buffers and sockets of nginx; clients get the same bytes"),
    row("variables_hash_max_size", &["stream"], Handling::Ignored, "it tunes tables and buffers of nginx and has no counterpart"),
    row("variables_hash_bucket_size", &["stream"], Handling::Ignored, "it tunes tables and buffers of nginx and has no counterpart"),
    row("map_hash_max_size", &["stream"], Handling::Ignored, "it tunes tables and buffers of nginx and has no counterpart"),
    row("map_hash_bucket_size", &["stream"], Handling::Ignored, "it tunes tables and buffers of nginx and has no counterpart"),
    row("log_format", &["stream"], Handling::Converted, "`format` and `escape` of a `log`, if every variable exists in Weir"),
    row("access_log", &["stream"], Handling::Inherited, "`log`"),
    row("allow", &["stream"], Handling::Inherited, "`allow` and `deny`"),
    row("deny", &["stream"], Handling::Inherited, "`allow` and `deny`"),
    row("proxy_pass", &["server"], Handling::Converted, "of `stream`: a pool; of addresses with variables, those whose values the file has in a `map`, `geo`, `split_clients` or `set`"),
    row("proxy_timeout", &["stream", "server"], Handling::Inherited, "`timeout tunnel=` of the pool"),
    row("proxy_connect_timeout", &["stream"], Handling::Inherited, "`timeout` of the pool"),
    row("proxy_next_upstream", &["stream"], Handling::Inherited, "`retry` of the pool"),
    row("proxy_next_upstream_tries", &["stream"], Handling::Inherited, "`retry` of the pool"),
    row("proxy_next_upstream_timeout", &["stream"], Handling::Inherited, "`retry` of the pool"),
    row("proxy_protocol", &["stream", "server"], Handling::Inherited, "`send_proxy v1` of the pool"),
    row("ssl_preread", &["stream", "server"], Handling::Inherited, "what a client asks for is read as far as `sni`, conditions and variables need it"),
    row("preread_timeout", &["stream", "server"], Handling::Inherited, "`timeout handshake=`"),
    row("ssl_handshake_timeout", &["stream", "server"], Handling::Inherited, "`timeout handshake=`"),
    row("ssl_certificate", &["stream"], Handling::Inherited, "`certificate`"),
    row("ssl_certificate_key", &["stream"], Handling::Inherited, "`certificate`"),
    row("ssl_protocols", &["stream"], Handling::Inherited, "`tls min= max=`; versions before 1.2 are not offered"),
    row("ssl_ciphers", &["stream"], Handling::Inherited, "`tls ciphers=`, those that Weir has"),
    row("tcp_nodelay", &["stream"], Handling::Ignored, "it tunes buffers and sockets of nginx; clients get the same bytes"),
    row("proxy_buffer_size", &["stream"], Handling::Ignored, "it tunes buffers and sockets of nginx; clients get the same bytes"),
    row("preread_buffer_size", &["stream", "server"], Handling::Ignored, "it tunes buffers and sockets of nginx; clients get the same bytes"),
    row("error_log", &["http", "server", "location"], Handling::DiffersFor(&[]), "Weir has one log for the process, that of the main context"),
    row("error_log", &["stream"], Handling::Ignored, "Weir has one log for the process, that of the main context"),
    row("include", &["main", "http", "stream", "server", "location", "upstream", "events"], Handling::Converted, "the directives of the files stand in its place"),
    row("worker_connections", &["events"], Handling::Converted, "`worker_connections … servers`: over all workers together"),
    row("use", &["events"], Handling::Ignored, "it tunes how nginx waits for events and has no counterpart"),
    row("multi_accept", &["events"], Handling::Ignored, "it tunes how nginx waits for events and has no counterpart"),
    row("accept_mutex", &["events"], Handling::Ignored, "it tunes how nginx waits for events and has no counterpart"),
    row("accept_mutex_delay", &["events"], Handling::Ignored, "it tunes how nginx waits for events and has no counterpart"),
    row("worker_aio_requests", &["events"], Handling::Ignored, "it tunes how nginx waits for events and has no counterpart"),
    row("debug_connection", &["events"], Handling::Ignored, "it tunes how nginx waits for events and has no counterpart"),
    row("server", &["http"], Handling::Converted, "the directives inside are converted"),
    row("upstream", &["http"], Handling::Converted, "the directives inside are converted"),
    row("location", &["server", "location"], Handling::Converted, "routes in the order that gives nginx's precedence"),
    row("listen", &["server"], Handling::Converted, "`listen` and `host`"),
    row("server_name", &["server"], Handling::Converted, "`listen` and `host`"),
    row("server", &["upstream"], Handling::Converted, "`server` of a pool"),
    row("least_conn", &["upstream"], Handling::Converted, "lines of a pool"),
    row("ip_hash", &["upstream"], Handling::Converted, "lines of a pool"),
    row("hash", &["upstream"], Handling::Converted, "lines of a pool"),
    row("random", &["upstream"], Handling::Converted, "lines of a pool"),
    row("keepalive", &["upstream"], Handling::Converted, "lines of a pool"),
    row("keepalive_requests", &["upstream"], Handling::Converted, "lines of a pool"),
    row("keepalive_time", &["upstream"], Handling::Converted, "lines of a pool"),
    row("keepalive_timeout", &["upstream"], Handling::Converted, "lines of a pool"),
    row("zone", &["upstream"], Handling::Converted, "lines of a pool"),
    row("least_time", &["upstream"], Handling::Converted, "lines of a pool"),
    row("sticky", &["upstream"], Handling::Converted, "`sticky cookie` of a pool, and for `route` `use_server` of routes; `learn` is refused"),
    row("sticky_cookie_insert", &["upstream"], Handling::Refused, "nginx has renamed it: write `sticky cookie NAME`"),
    row("queue", &["upstream"], Handling::Converted, "`queue` of a pool"),
    row("state", &["upstream"], Handling::Refused, "write the servers into the block; changes at run time are kept by `state_file` of a native file"),
    row("ntlm", &["upstream"], Handling::Refused, "connections that clients authenticate are not kept apart: write `keepalive reuse=never` in a native pool"),
    row("fair", &["upstream"], Handling::Converted, "`balance fair`, the policy of nginx-upstream-fair"),
    row("resolver", &["upstream"], Handling::Converted, "`resolver`, for all names of the file; names of DNS servers are refused"),
    row("resolver_timeout", &["upstream"], Handling::Converted, "`resolver timeout=`"),
    row("check", &["upstream"], Handling::Refused, "it belongs to a module that nginx itself does not have: print the native form with `weir import` and add `check http` to the pool"),
    row("check_http_send", &["upstream"], Handling::Refused, "it belongs to a module that nginx itself does not have: print the native form with `weir import` and add `check http` to the pool"),
    row("client_header_timeout", &["http", "server"], Handling::Inherited, "a setting of the listener: that of the default server of the address"),
    row("keepalive_requests", &["http", "server", "location"], Handling::Inherited, "a setting of the listener: that of the default server of the address"),
    row("keepalive_time", &["http", "server", "location"], Handling::Inherited, "a setting of the listener: that of the default server of the address"),
    row("large_client_header_buffers", &["http", "server"], Handling::Inherited, "a setting of the listener: that of the default server of the address"),
    row("max_headers", &["http", "server"], Handling::Inherited, "`limits headers=` of the listener: that of the default server of the address"),
    row("merge_slashes", &["http", "server"], Handling::Inherited, "a setting of the listener: that of the default server of the address"),
    row("keepalive_timeout", &["http", "server", "location"], Handling::Inherited, "a setting of the listener: that of the default server of the address"),
    row("client_body_timeout", &["http", "server", "location"], Handling::Inherited, "a setting of the listener: that of the default server of the address"),
    row("send_timeout", &["http", "server", "location"], Handling::Inherited, "a setting of the listener: that of the default server of the address"),
    row("client_max_body_size", &["http", "server", "location"], Handling::Inherited, "`limits body=` of the listener and of routes, and `buffer_request`"),
    row("access_log", &["http", "server", "location"], Handling::Inherited, "`log` of listeners and routes; a file with variables and `gzip` are refused"),
    row("log_format", &["http"], Handling::Converted, "`format` and `escape` of a `log`, if every variable exists in Weir"),
    row("default_type", &["http", "server", "location"], Handling::Inherited, "the type of texts of `return`, and of files whose extension has none"),
    row("add_header", &["http", "server", "location"], Handling::Inherited, "`response_header add`; without `always` with `if=` of the statuses that nginx names"),
    row("add_header_inherit", &["http", "server", "location"], Handling::Inherited, "as nginx inherits `add_header` then"),
    row("return", &["http", "server", "location", "if"], Handling::Converted, "`respond` or `redirect`"),
    row("allow", &["http", "server", "location"], Handling::Inherited, "`allow` and `deny`"),
    row("deny", &["http", "server", "location"], Handling::Inherited, "`allow` and `deny`"),
    row("ssl_certificate", &["http", "server"], Handling::Inherited, "`certificate`; which one a client gets depends on the names in the certificates"),
    row("ssl_certificate_key", &["http", "server"], Handling::Inherited, "`certificate`; which one a client gets depends on the names in the certificates"),
    row("ssl_protocols", &["http", "server"], Handling::Inherited, "`tls min= max=`; versions before 1.2 are not offered"),
    row("ssl_ciphers", &["http", "server"], Handling::Inherited, "`tls ciphers=`: the list is read as OpenSSL does; Weir has the suites of TLS 1.2 with ECDHE and AES-GCM or ChaCha20"),
    row("ssl_prefer_server_ciphers", &["http", "server", "stream"], Handling::Inherited, "`tls prefer=`"),
    row("ssl_ecdh_curve", &["http", "server", "stream"], Handling::Inherited, "`tls curves=`, those that Weir has; the client's order decides"),
    row("ssl_dhparam", &["http", "server", "stream"], Handling::Ignored, "Weir has safe orders and groups of its own and no early data"),
    row("ssl_conf_command", &["http", "server", "stream"], Handling::RefusedUnless(&["Options", "Ciphersuites", "CipherString", "Groups", "Curves", "SignatureAlgorithms"]), "`tls ciphers= curves=` for `Ciphersuites`, `CipherString`, `Groups` and `Curves`; `Options` that Weir does not follow are told; Weir does not use OpenSSL: write versions in `ssl_protocols`"),
    row("ssl_buffer_size", &["http", "server"], Handling::Ignored, "Weir has safe orders and groups of its own and no early data"),
    row("ssl_early_data", &["http", "server"], Handling::Ignored, "Weir has safe orders and groups of its own and no early data"),
    row("ssl_session_cache", &["http", "server", "stream"], Handling::DiffersFor(&["off", "none"]), "sessions are resumed over all workers in any case, with tickets too"),
    row("ssl_session_timeout", &["http", "server", "stream"], Handling::Ignored, "sessions are resumed over all workers in any case"),
    row("ssl_session_tickets", &["http", "server", "stream"], Handling::DiffersFor(&["off"]), "sessions are resumed over all workers in any case, with tickets too"),
    row("ssl_session_ticket_key", &["http", "server", "stream"], Handling::DiffersFor(&[]), "Weir makes its own keys, and new ones in time: a client that comes from another machine begins with a full handshake"),
    row("ssl_client_certificate", &["http", "server", "stream"], Handling::OfClientCertificates, "`client_ca`, one for all servers of an address"),
    row("ssl_trusted_certificate", &["http", "server", "stream"], Handling::OfClientCertificates, "`client_ca trusted=`; for stapling alone it has no effect, because OCSP responses are not stapled"),
    row("ssl_verify_client", &["http", "server", "stream"], Handling::OfClientCertificates, "`client_ca verify=request`, and routes that answer 400 where a server wants a certificate; in `stream` `verify=required` or `optional`"),
    row("ssl_verify_depth", &["http", "server", "stream"], Handling::OfClientCertificates, "a chain may have up to six authorities in any case"),
    row("ssl_crl", &["http", "server", "stream"], Handling::OfClientCertificates, "`crl=` of `client_ca`"),
    row("ssl_ocsp", &["http", "server", "stream"], Handling::RefusedUnless(&["off"]), "certificates of clients are not checked by OCSP: write `ssl_crl`"),
    row("ssl_password_file", &["http", "server", "stream"], Handling::Refused, "encrypted keys are not supported: decrypt the key, for example with `openssl pkey`"),
    row("ssl_stapling", &["http", "server", "stream"], Handling::Ignored, "OCSP responses are not stapled; clients that check ask the authority"),
    row("ssl_stapling_verify", &["http", "server", "stream"], Handling::Ignored, "OCSP responses are not stapled; clients that check ask the authority"),
    row("ssl_stapling_file", &["http", "server", "stream"], Handling::Ignored, "OCSP responses are not stapled; clients that check ask the authority"),
    row("ssl_stapling_responder", &["http", "server", "stream"], Handling::Ignored, "OCSP responses are not stapled; clients that check ask the authority"),
    row("ssl", &["http", "server"], Handling::Inherited, "every `listen` of the server has TLS, as with `listen … ssl`; nginx has removed it in 1.25.1"),
    row("ssl_reject_handshake", &["http", "server"], Handling::Inherited, "`tls names=host`, in the default server of an address"),
    row("proxy_pass", &["location", "if"], Handling::Converted, "a route to a pool, with `rewrite` for an address with a path and `tls` for `https`; of addresses with variables, those whose values the file has in a `map`, `geo`, `split_clients` or `set`"),
    row("proxy_set_header", &["http", "server", "location"], Handling::Inherited, "`header set`; headers of a single connection are written by Weir itself"),
    row("proxy_connect_timeout", &["http", "server", "location"], Handling::Inherited, "`timeout` of the pool"),
    row("proxy_send_timeout", &["http", "server", "location"], Handling::Inherited, "`timeout` of the pool"),
    row("proxy_read_timeout", &["http", "server", "location"], Handling::Inherited, "`timeout` of the pool"),
    row("proxy_next_upstream", &["http", "server", "location"], Handling::Inherited, "`retry` of the pool"),
    row("proxy_next_upstream_tries", &["http", "server", "location"], Handling::Inherited, "`retry` of the pool"),
    row("proxy_next_upstream_timeout", &["http", "server", "location"], Handling::Inherited, "`retry` of the pool"),
    row("proxy_http_version", &["http", "server", "location"], Handling::Inherited, "`http_version 2` of the pool for `2`; with the others Weir speaks HTTP/1.1 to servers"),
    row("proxy_request_buffering", &["http", "server", "location"], Handling::Inherited, "`buffer_request`"),
    row("proxy_redirect", &["http", "server", "location"], Handling::Inherited, "`response_header replace Location`; a `Refresh` is left alone"),
    row("proxy_buffering", &["http", "server", "location"], Handling::Ignored, "responses stream through one bounded buffer; clients get the same bytes"),
    row("proxy_buffers", &["http", "server", "location"], Handling::Ignored, "responses stream through one bounded buffer; clients get the same bytes"),
    row("proxy_buffer_size", &["http", "server", "location"], Handling::Ignored, "responses stream through one bounded buffer; clients get the same bytes"),
    row("proxy_busy_buffers_size", &["http", "server", "location"], Handling::Ignored, "responses stream through one bounded buffer; clients get the same bytes"),
    row("proxy_max_temp_file_size", &["http", "server", "location"], Handling::Ignored, "responses stream through one bounded buffer; clients get the same bytes"),
    row("proxy_temp_file_write_size", &["http", "server", "location"], Handling::Ignored, "responses stream through one bounded buffer; clients get the same bytes"),
    row("proxy_temp_path", &["http", "server", "location"], Handling::Ignored, "responses stream through one bounded buffer; clients get the same bytes"),
    row("proxy_headers_hash_max_size", &["http", "server", "location"], Handling::Ignored, "it tunes tables and sockets of nginx; clients get the same bytes"),
    row("proxy_headers_hash_bucket_size", &["http", "server", "location"], Handling::Ignored, "it tunes tables and sockets of nginx; clients get the same bytes"),
    row("proxy_socket_keepalive", &["http", "server", "location"], Handling::Ignored, "it tunes tables and sockets of nginx; clients get the same bytes"),
    row("proxy_socket_rcvbuf", &["http", "server", "location"], Handling::Ignored, "it tunes tables and sockets of nginx; clients get the same bytes"),
    row("proxy_socket_sndbuf", &["http", "server", "location"], Handling::Ignored, "it tunes tables and sockets of nginx; clients get the same bytes"),
    row("proxy_ssl_certificate_cache", &["http", "server", "location", "stream"], Handling::Ignored, "certificates are read when the configuration is loaded"),
    row("ssl_certificate_cache", &["http", "server", "stream"], Handling::Ignored, "certificates are read when the configuration is loaded"),
    row("ssl_object_cache_inheritable", &["main"], Handling::Ignored, "certificates are read when the configuration is loaded"),
    row("ssl_certificate_compression", &["http", "server", "stream"], Handling::DiffersFor(&["on"]), "certificates are sent uncompressed"),
    row("proxy_pass_trailers", &["http", "server", "location"], Handling::DiffersFor(&["off"]), "trailers of servers are passed on in any case"),
    row("early_hints", &["http", "server", "location"], Handling::DiffersFor(&[]), "responses with 103 are passed on in any case"),
    row("keepalive_min_timeout", &["http", "server", "location"], Handling::Ignored, "idle connections stay open for `keepalive_timeout`, but at a stop and where others need their room"),
    row("proxy_send_lowat", &["http", "server", "location"], Handling::Ignored, "it tunes tables and sockets of nginx; clients get the same bytes"),
    row("proxy_bind", &["stream", "http", "server", "location"], Handling::Inherited, "`source` of the pool; variables and `transparent` are refused"),
    row("proxy_cookie_domain", &["http", "server", "location"], Handling::Inherited, "`response_header replace Set-Cookie`, with a regex `replace_attribute`"),
    row("proxy_cookie_path", &["http", "server", "location"], Handling::Inherited, "`response_header replace Set-Cookie`, with a regex `replace_attribute`"),
    row("proxy_cookie_flags", &["http", "server", "location"], Handling::Inherited, "`response_header replace Set-Cookie`; a regex is refused"),
    row("proxy_force_ranges", &["http", "server", "location"], Handling::RefusedUnless(&["off"]), "ranges are asked of the server as the client asks: remove it, or let the server send `Accept-Ranges`"),
    row("proxy_hide_header", &["http", "server", "location"], Handling::Inherited, "`response_header remove`"),
    row("proxy_ignore_client_abort", &["http", "server", "location"], Handling::DiffersFor(&["on"]), "a request to a server ends when its client is gone"),
    row("proxy_ignore_headers", &["http", "server", "location"], Handling::Ignored, "of these headers Weir acts on `X-Accel-Redirect` alone, which it does not follow with this; it has no cache"),
    row("proxy_intercept_errors", &["http", "server", "location"], Handling::Inherited, "`intercept` of `error_page`"),
    row("proxy_limit_rate", &["http", "server", "location"], Handling::RefusedUnless(&["0"]), "write `limit_rate`, which bounds what the client gets"),
    row("proxy_method", &["http", "server", "location"], Handling::Inherited, "`request_method`; not `HEAD`"),
    row("proxy_pass_header", &["http", "server", "location"], Handling::Inherited, "headers of servers that nginx does not pass on by default are passed on; `Date` is Weir's own"),
    row("proxy_pass_request_body", &["http", "server", "location"], Handling::RefusedUnless(&["on"]), "bodies go to the server with their requests: send the requests that need none elsewhere with `limit_except` or `if`"),
    row("proxy_pass_request_headers", &["http", "server", "location"], Handling::RefusedUnless(&["on"]), "headers go to the server: take single ones away by `proxy_set_header NAME \"\"`"),
    row("proxy_set_body", &["http", "server", "location"], Handling::Refused, "Weir changes no bodies: let the application write it"),
    row("proxy_store", &["http", "server", "location"], Handling::RefusedUnless(&["off"]), "Weir stores no files: keep that in a server behind Weir"),
    row("proxy_store_access", &["http", "server", "location"], Handling::Ignored, "Weir stores no responses"),
    row("proxy_cache", &["http", "server", "location"], Handling::RefusedUnless(&["off"]), "Weir has no cache: remove it, or keep a cache behind Weir"),
    row("proxy_cache_path", &["http", "server", "location"], Handling::OfCache, "Weir has no cache: remove it, or keep a cache behind Weir"),
    row("proxy_cache_key", &["http", "server", "location"], Handling::OfCache, "Weir has no cache: remove it, or keep a cache behind Weir"),
    row("proxy_cache_valid", &["http", "server", "location"], Handling::OfCache, "Weir has no cache: remove it, or keep a cache behind Weir"),
    row("proxy_cache_bypass", &["http", "server", "location"], Handling::OfCache, "Weir has no cache: remove it, or keep a cache behind Weir"),
    row("proxy_cache_methods", &["http", "server", "location"], Handling::OfCache, "Weir has no cache: remove it, or keep a cache behind Weir"),
    row("proxy_cache_min_uses", &["http", "server", "location"], Handling::OfCache, "Weir has no cache: remove it, or keep a cache behind Weir"),
    row("proxy_cache_lock", &["http", "server", "location"], Handling::OfCache, "Weir has no cache: remove it, or keep a cache behind Weir"),
    row("proxy_cache_use_stale", &["http", "server", "location"], Handling::OfCache, "Weir has no cache: remove it, or keep a cache behind Weir"),
    row("proxy_cache_background_update", &["http", "server", "location"], Handling::OfCache, "Weir has no cache: remove it, or keep a cache behind Weir"),
    row("proxy_cache_revalidate", &["http", "server", "location"], Handling::OfCache, "Weir has no cache: remove it, or keep a cache behind Weir"),
    row("proxy_cache_convert_head", &["http", "server", "location"], Handling::OfCache, "Weir has no cache: remove it, or keep a cache behind Weir"),
    row("proxy_cache_lock_age", &["http", "server", "location"], Handling::OfCache, "Weir has no cache: remove it, or keep a cache behind Weir"),
    row("proxy_cache_lock_timeout", &["http", "server", "location"], Handling::OfCache, "Weir has no cache: remove it, or keep a cache behind Weir"),
    row("proxy_cache_max_range_offset", &["http", "server", "location"], Handling::OfCache, "Weir has no cache: remove it, or keep a cache behind Weir"),
    row("proxy_cache_purge", &["http", "server", "location"], Handling::OfCache, "Weir has no cache: remove it, or keep a cache behind Weir"),
    row("proxy_no_cache", &["http", "server", "location"], Handling::OfCache, "Weir has no cache: remove it, or keep a cache behind Weir"),
    row("proxy_ssl_verify", &["http", "server", "location", "stream"], Handling::Inherited, "`tls verify=` of the pool; nginx does not verify servers by default, and each pool without it is warned of"),
    row("proxy_ssl_name", &["http", "server", "location", "stream"], Handling::Inherited, "`tls name=`"),
    row("proxy_ssl_server_name", &["http", "server", "location", "stream"], Handling::Inherited, "`tls sni=`, off by default as in nginx"),
    row("proxy_ssl_trusted_certificate", &["http", "server", "location", "stream"], Handling::Inherited, "`tls ca=`"),
    row("proxy_ssl_certificate", &["http", "server", "location", "stream"], Handling::Inherited, "`tls certificate= key=`"),
    row("proxy_ssl_certificate_key", &["http", "server", "location", "stream"], Handling::Inherited, "`tls certificate= key=`"),
    row("proxy_ssl_protocols", &["http", "server", "location", "stream"], Handling::Inherited, "`tls min= max=`; versions before 1.2 are not offered"),
    row("proxy_ssl_ciphers", &["http", "server", "location", "stream"], Handling::Inherited, "`tls ciphers=`: the list is read as OpenSSL does; Weir has the suites of TLS 1.2 with ECDHE and AES-GCM or ChaCha20"),
    row("proxy_ssl_session_reuse", &["http", "server", "location", "stream"], Handling::Inherited, "sessions are resumed in any case"),
    row("proxy_ssl_verify_depth", &["http", "server", "location", "stream"], Handling::Inherited, "chains of any usual length are verified"),
    row("proxy_ssl_crl", &["http", "server", "location", "stream"], Handling::Inherited, "`tls crl=` of the pool"),
    row("proxy_ssl_password_file", &["http", "server", "location", "stream"], Handling::Refused, "encrypted keys are not read: write the key without its password to a file that only Weir may read"),
    row("proxy_ssl_conf_command", &["http", "server", "location", "stream"], Handling::RefusedUnless(&["Options", "Ciphersuites", "CipherString", "Groups", "Curves", "SignatureAlgorithms"]), "`tls ciphers= curves=` for `Ciphersuites`, `CipherString`, `Groups` and `Curves`; `Options` that Weir does not follow are told; Weir does not use OpenSSL: write versions in `proxy_ssl_protocols`"),
    row("sendfile", &["http", "server", "location"], Handling::Ignored, "it has no effect on proxied traffic, in nginx neither; Weir uses it for files by itself"),
    row("sendfile_max_chunk", &["http", "server", "location"], Handling::Ignored, "it tunes buffers and sockets of nginx; clients get the same bytes"),
    row("tcp_nopush", &["http", "server", "location"], Handling::Ignored, "it tunes buffers and sockets of nginx; clients get the same bytes"),
    row("tcp_nodelay", &["http", "server", "location"], Handling::Ignored, "it tunes buffers and sockets of nginx; clients get the same bytes"),
    row("aio", &["http", "server", "location"], Handling::Ignored, "it tunes buffers and sockets of nginx; clients get the same bytes"),
    row("aio_write", &["http", "server", "location"], Handling::Ignored, "it tunes buffers and sockets of nginx; clients get the same bytes"),
    row("directio", &["http", "server", "location"], Handling::Ignored, "it tunes buffers and sockets of nginx; clients get the same bytes"),
    row("directio_alignment", &["http", "server", "location"], Handling::Ignored, "it tunes buffers and sockets of nginx; clients get the same bytes"),
    row("output_buffers", &["http", "server", "location"], Handling::Ignored, "it tunes buffers and sockets of nginx; clients get the same bytes"),
    row("postpone_output", &["http", "server", "location"], Handling::Ignored, "it tunes buffers and sockets of nginx; clients get the same bytes"),
    row("lingering_close", &["http", "server", "location"], Handling::Ignored, "it tunes buffers and sockets of nginx; clients get the same bytes"),
    row("lingering_time", &["http", "server", "location"], Handling::Ignored, "it tunes buffers and sockets of nginx; clients get the same bytes"),
    row("lingering_timeout", &["http", "server", "location"], Handling::Ignored, "it tunes buffers and sockets of nginx; clients get the same bytes"),
    row("reset_timedout_connection", &["http", "server", "location"], Handling::Ignored, "it tunes buffers and sockets of nginx; clients get the same bytes"),
    row("send_lowat", &["http", "server", "location"], Handling::Ignored, "it tunes buffers and sockets of nginx; clients get the same bytes"),
    row("read_ahead", &["http", "server", "location"], Handling::Ignored, "it tunes buffers and sockets of nginx; clients get the same bytes"),
    row("subrequest_output_buffer_size", &["http", "server", "location"], Handling::Ignored, "it tunes buffers and sockets of nginx; clients get the same bytes"),
    row("client_body_buffer_size", &["http", "server", "location"], Handling::Ignored, "it tunes buffers and sockets of nginx; clients get the same bytes"),
    row("client_body_in_file_only", &["http", "server", "location"], Handling::Ignored, "it tunes buffers and sockets of nginx; clients get the same bytes"),
    row("client_body_in_single_buffer", &["http", "server", "location"], Handling::Ignored, "it tunes buffers and sockets of nginx; clients get the same bytes"),
    row("client_body_temp_path", &["http", "server", "location"], Handling::Ignored, "it tunes buffers and sockets of nginx; clients get the same bytes"),
    row("types_hash_max_size", &["http", "server", "location"], Handling::Ignored, "it tunes tables and buffers of nginx and has no counterpart"),
    row("types_hash_bucket_size", &["http", "server", "location"], Handling::Ignored, "it tunes tables and buffers of nginx and has no counterpart"),
    row("variables_hash_max_size", &["http", "server", "location"], Handling::Ignored, "it tunes tables and buffers of nginx and has no counterpart"),
    row("variables_hash_bucket_size", &["http", "server", "location"], Handling::Ignored, "it tunes tables and buffers of nginx and has no counterpart"),
    row("map_hash_max_size", &["http", "server", "location"], Handling::Ignored, "it tunes tables and buffers of nginx and has no counterpart"),
    row("map_hash_bucket_size", &["http", "server", "location"], Handling::Ignored, "it tunes tables and buffers of nginx and has no counterpart"),
    row("server_names_hash_max_size", &["http", "server", "location"], Handling::Ignored, "it tunes tables and buffers of nginx and has no counterpart"),
    row("server_names_hash_bucket_size", &["http", "server", "location"], Handling::Ignored, "it tunes tables and buffers of nginx and has no counterpart"),
    row("connection_pool_size", &["http", "server", "location"], Handling::Ignored, "it tunes tables and buffers of nginx and has no counterpart"),
    row("request_pool_size", &["http", "server", "location"], Handling::Ignored, "it tunes tables and buffers of nginx and has no counterpart"),
    row("client_header_buffer_size", &["http", "server", "location"], Handling::Ignored, "it tunes tables and buffers of nginx and has no counterpart"),
    row("open_file_cache", &["http", "server", "location"], Handling::Ignored, "Weir looks at a file for each request, so that changes are seen at once"),
    row("open_file_cache_valid", &["http", "server", "location"], Handling::Ignored, "Weir looks at a file for each request, so that changes are seen at once"),
    row("open_file_cache_min_uses", &["http", "server", "location"], Handling::Ignored, "Weir looks at a file for each request, so that changes are seen at once"),
    row("open_file_cache_errors", &["http", "server", "location"], Handling::Ignored, "Weir looks at a file for each request, so that changes are seen at once"),
    row("open_log_file_cache", &["http", "server", "location"], Handling::Ignored, "it tunes tables and buffers of nginx and has no counterpart"),
    row("proxy_headers_hash", &["http", "server", "location"], Handling::Ignored, "it tunes tables and buffers of nginx and has no counterpart"),
    row("if_modified_since", &["http", "server", "location"], Handling::DiffersFor(&["off", "before"]), "files are not sent again where their time is that of `If-Modified-Since`"),
    row("etag", &["http", "server", "location"], Handling::DiffersFor(&["off"]), "files have an `ETag` in any case"),
    row("log_not_found", &["http", "server", "location"], Handling::Ignored, "missing files are in access logs only"),
    row("log_subrequest", &["http", "server", "location"], Handling::Ignored, "Weir has no subrequests"),
    row("server_tokens", &["http", "server", "location"], Handling::Ignored, "Weir sends no `Server`, and its pages name no version"),
    row("gzip", &["http", "server", "location"], Handling::Ignored, "responses pass as the server sent them, uncompressed if it does not compress itself"),
    row("gzip_types", &["http", "server", "location"], Handling::Ignored, "responses pass as the server sent them, uncompressed if it does not compress itself"),
    row("gzip_vary", &["http", "server", "location"], Handling::Ignored, "responses pass as the server sent them, uncompressed if it does not compress itself"),
    row("gzip_min_length", &["http", "server", "location"], Handling::Ignored, "responses pass as the server sent them, uncompressed if it does not compress itself"),
    row("gzip_comp_level", &["http", "server", "location"], Handling::Ignored, "responses pass as the server sent them, uncompressed if it does not compress itself"),
    row("gzip_proxied", &["http", "server", "location"], Handling::Ignored, "responses pass as the server sent them, uncompressed if it does not compress itself"),
    row("gzip_buffers", &["http", "server", "location"], Handling::Ignored, "responses pass as the server sent them, uncompressed if it does not compress itself"),
    row("gzip_disable", &["http", "server", "location"], Handling::Ignored, "responses pass as the server sent them, uncompressed if it does not compress itself"),
    row("gzip_http_version", &["http", "server", "location"], Handling::Ignored, "responses pass as the server sent them, uncompressed if it does not compress itself"),
    row("gzip_static", &["http", "server", "location"], Handling::Ignored, "responses pass as the server sent them, uncompressed if it does not compress itself"),
    row("gunzip", &["http", "server", "location"], Handling::Ignored, "responses pass as the server sent them, uncompressed if it does not compress itself"),
    row("brotli", &["http", "server", "location"], Handling::Ignored, "responses pass as the server sent them, uncompressed if it does not compress itself"),
    row("brotli_types", &["http", "server", "location"], Handling::Ignored, "responses pass as the server sent them, uncompressed if it does not compress itself"),
    row("brotli_comp_level", &["http", "server", "location"], Handling::Ignored, "responses pass as the server sent them, uncompressed if it does not compress itself"),
    row("brotli_static", &["http", "server", "location"], Handling::Ignored, "responses pass as the server sent them, uncompressed if it does not compress itself"),
    row("types", &["http", "server", "location"], Handling::Inherited, "`types`, the table that files have"),
    row("charset", &["http", "server", "location"], Handling::Inherited, "part of the types of files and of texts of `return`; responses of servers keep theirs"),
    row("charset_types", &["http", "server", "location"], Handling::Refused, "`charset` concerns the types that nginx names by default: leave it out"),
    row("override_charset", &["http", "server", "location"], Handling::DiffersFor(&[]), "responses of servers keep their types; files of text have `charset=utf-8`"),
    row("port_in_redirect", &["http", "server", "location"], Handling::Inherited, "redirects to paths have the scheme, the host and the port of the request as this says; those to folders of files always do"),
    row("absolute_redirect", &["http", "server", "location"], Handling::Inherited, "redirects to paths have the scheme, the host and the port of the request as this says; those to folders of files always do"),
    row("server_name_in_redirect", &["http", "server", "location"], Handling::Inherited, "redirects have the host of the request, or with `on` the first name of the server"),
    row("map", &["http"], Handling::Converted, "`map`; that of `$http_upgrade` for WebSocket becomes `upgrade`"),
    row("geo", &["http"], Handling::Converted, "`map` with `networks`; of ranges a later one replaces a part of an earlier one; `proxy` is refused"),
    row("split_clients", &["http"], Handling::Converted, "`split`, with the same hash"),
    row("geoip_country", &["http"], Handling::Refused, "Weir reads no databases of places: write the networks that matter into a `geo` block"),
    row("geoip2", &["http"], Handling::Refused, "Weir reads no databases of places: write the networks that matter into a `geo` block"),
    row("perl_modules", &["http"], Handling::Refused, "Weir runs no Perl: write a `map`, or leave it to a server behind Weir"),
    row("if", &["server", "location"], Handling::Converted, "routes with conditions, if `return`, `rewrite`, `set` and `break` are all that it contains; tests of variables, and of files with a constant path, which are looked at once a second and not for each request; tests of files whose path depends on the request are `files … found= fallback=`"),
    row("set", &["server", "location", "if"], Handling::Converted, "its text stands where the variable is used; in an `if` it becomes a `map`, or part of the conditions that ask for it; `set $args` gives requests another query"),
    row("rewrite", &["server", "location", "if"], Handling::Converted, "`redirect`, `internal`, and for `break` in a location `rewrite`; the directives after one without a flag are routes of a name, to which it leads with the new path"),
    row("break", &["server", "location", "if"], Handling::Converted, "it ends the directives of its block"),
    row("uninitialized_variable_warn", &["server", "location"], Handling::Ignored, "a variable without a value is reported when the file is read"),
    row("rewrite_log", &["server", "location"], Handling::Ignored, "`weir explain` shows what becomes of a request"),
    row("root", &["http", "server", "location"], Handling::Inherited, "`files … optional`; with variables `below=`"),
    row("alias", &["http", "server", "location"], Handling::Inherited, "`files … strip=`, without a `/` at both ends with `prefix=`; with groups of the location `rewrite path`"),
    row("index", &["http", "server", "location"], Handling::Inherited, "`index=` of `files`"),
    row("try_files", &["server", "location"], Handling::Inherited, "`fallback=` of `files`, after `$uri` and `$uri/`; a status becomes a named location"),
    row("autoindex", &["http", "server", "location"], Handling::Inherited, "`off`; Weir lists no directories, so that `on` is refused"),
    row("autoindex_exact_size", &["http", "server", "location"], Handling::Ignored, "Weir lists no directories; `autoindex on` is refused"),
    row("autoindex_localtime", &["http", "server", "location"], Handling::Ignored, "Weir lists no directories; `autoindex on` is refused"),
    row("random_index", &["http", "server", "location"], Handling::RefusedUnless(&["off"]), "Weir draws no file: name the one that is wanted with `index`"),
    row("disable_symlinks", &["http", "server", "location"], Handling::RefusedUnless(&["off"]), "links are followed: keep those that lead elsewhere out of the folder, or run Weir with `chroot` in a native file"),
    row("expires", &["http", "server", "location"], Handling::Inherited, "`expires`; of variables that of a `map` or `split_clients`; `modified` with a variable is refused"),
    row("internal", &["http", "server", "location"], Handling::Inherited, "the condition `internal`; responses of servers with `X-Accel-Redirect` lead there (`intercept`)"),
    row("error_page", &["http", "server", "location"], Handling::Inherited, "`error_page` of the routes; a `POST` whose page is a path comes there without its body"),
    row("recursive_error_pages", &["http", "server", "location"], Handling::Inherited, "`recursive` of `error_page`"),
    row("auth_basic", &["http", "server", "location"], Handling::RefusedUnless(&["off"]), "Weir checks no passwords: leave that to the servers, or refuse clients by address with `deny`"),
    row("auth_basic_user_file", &["http", "server", "location"], Handling::Refused, "Weir checks no passwords: leave that to the servers, or refuse clients by address with `deny`"),
    row("auth_request", &["http", "server", "location"], Handling::RefusedUnless(&["off"]), "Weir asks no other server about a request: send it to that server with `proxy_pass`, and let it pass the request on (forward authentication), or refuse clients by address with `deny`"),
    row("auth_request_set", &["http", "server", "location"], Handling::Refused, "Weir asks no other server about a request: leave it out with `auth_request`"),
    row("satisfy", &["http", "server", "location"], Handling::RefusedUnless(&["all"]), "Weir checks no passwords; without other checks than addresses it has no effect"),
    row("auth_jwt", &["http", "server", "location"], Handling::RefusedUnless(&["off"]), "Weir reads no tokens: leave that to the servers, or refuse clients by address with `deny`"),
    row("limit_req", &["http", "server", "location"], Handling::Inherited, "`limit rate` of routes, with a name for each zone; several in one block count a request that a later one refuses"),
    row("limit_req_zone", &["http"], Handling::Converted, "`limit rate`; the table has one size for all limits (`limit_table`)"),
    row("limit_req_status", &["http", "server", "location"], Handling::Inherited, "`status=` of the limit"),
    row("limit_req_log_level", &["http", "server", "location"], Handling::Ignored, "refused requests are counted by limit, and access logs tell the cause"),
    row("limit_req_dry_run", &["http", "server", "location"], Handling::Inherited, "`dry_run` of the limit"),
    row("limit_conn", &["http", "server", "location"], Handling::Inherited, "`limit in_flight` of routes"),
    row("limit_conn_zone", &["http"], Handling::Converted, "`limit in_flight`; the table has one size for all limits (`limit_table`)"),
    row("limit_conn_status", &["http", "server", "location"], Handling::Inherited, "`status=` of the limit"),
    row("limit_conn_dry_run", &["http", "server", "location"], Handling::Inherited, "`dry_run` of the limit"),
    row("limit_conn_log_level", &["http", "server", "location"], Handling::Ignored, "refused requests are counted by limit, and access logs tell the cause"),
    row("limit_rate", &["http", "server", "location"], Handling::Inherited, "`limit bandwidth` of routes; a rate with variables is refused"),
    row("limit_rate_after", &["http", "server", "location"], Handling::Inherited, "`limit bandwidth after=`"),
    row("limit_except", &["http", "server", "location"], Handling::Converted, "routes with the condition `method`, if it has `allow` and `deny` only"),
    row("fastcgi_pass", &["http", "server", "location"], Handling::Refused, "Weir speaks HTTP to servers only: put a web server in front of the application"),
    row("fastcgi_param", &["http", "server", "location"], Handling::Refused, "Weir speaks HTTP to servers only: put a web server in front of the application"),
    row("fastcgi_index", &["http", "server", "location"], Handling::Refused, "Weir speaks HTTP to servers only: put a web server in front of the application"),
    row("fastcgi_split_path_info", &["http", "server", "location"], Handling::Refused, "Weir speaks HTTP to servers only: put a web server in front of the application"),
    row("fastcgi_read_timeout", &["http", "server", "location"], Handling::Refused, "Weir speaks HTTP to servers only: put a web server in front of the application"),
    row("fastcgi_buffers", &["http", "server", "location"], Handling::Refused, "Weir speaks HTTP to servers only: put a web server in front of the application"),
    row("fastcgi_buffer_size", &["http", "server", "location"], Handling::Refused, "Weir speaks HTTP to servers only: put a web server in front of the application"),
    row("fastcgi_intercept_errors", &["http", "server", "location"], Handling::Refused, "Weir speaks HTTP to servers only: put a web server in front of the application"),
    row("uwsgi_pass", &["http", "server", "location"], Handling::Refused, "Weir speaks HTTP to servers only: put a web server in front of the application"),
    row("uwsgi_param", &["http", "server", "location"], Handling::Refused, "Weir speaks HTTP to servers only: put a web server in front of the application"),
    row("scgi_pass", &["http", "server", "location"], Handling::Refused, "Weir speaks HTTP to servers only: put a web server in front of the application"),
    row("scgi_param", &["http", "server", "location"], Handling::Refused, "Weir speaks HTTP to servers only: put a web server in front of the application"),
    row("memcached_pass", &["http", "server", "location"], Handling::Refused, "Weir speaks HTTP to servers only: put a web server in front of the application"),
    row("grpc_pass", &["location", "if"], Handling::Converted, "a route to a pool with `http_version 2`, and `tls` for `grpcs`; of addresses with variables, those whose values the file has in a `map`, `geo`, `split_clients` or `set`"),
    row("grpc_set_header", &["http", "server", "location"], Handling::Inherited, "`header set`; `Host` becomes `:authority`, and headers of a single connection are written by Weir itself"),
    row("grpc_connect_timeout", &["http", "server", "location"], Handling::Inherited, "`timeout` of the pool"),
    row("grpc_send_timeout", &["http", "server", "location"], Handling::Inherited, "`timeout` of the pool"),
    row("grpc_read_timeout", &["http", "server", "location"], Handling::Inherited, "`timeout` of the pool"),
    row("grpc_next_upstream", &["http", "server", "location"], Handling::Inherited, "`retry` of the pool"),
    row("grpc_next_upstream_tries", &["http", "server", "location"], Handling::Inherited, "`retry` of the pool"),
    row("grpc_next_upstream_timeout", &["http", "server", "location"], Handling::Inherited, "`retry` of the pool"),
    row("grpc_bind", &["http", "server", "location"], Handling::Inherited, "`source` of the pool; variables and `transparent` are refused"),
    row("grpc_hide_header", &["http", "server", "location"], Handling::Inherited, "`response_header remove`"),
    row("grpc_pass_header", &["http", "server", "location"], Handling::Inherited, "headers of servers that nginx does not pass on by default are passed on; `Date` is Weir's own"),
    row("grpc_ignore_headers", &["http", "server", "location"], Handling::Ignored, "of these headers Weir acts on `X-Accel-Redirect` alone, which it does not follow with this; it has no cache"),
    row("grpc_intercept_errors", &["http", "server", "location"], Handling::Inherited, "`intercept` of `error_page`"),
    row("grpc_buffer_size", &["http", "server", "location"], Handling::Ignored, "responses stream through one bounded buffer; clients get the same bytes"),
    row("grpc_socket_keepalive", &["http", "server", "location"], Handling::Ignored, "it tunes tables and sockets of nginx; clients get the same bytes"),
    row("grpc_ssl_verify", &["http", "server", "location"], Handling::Inherited, "`tls verify=` of the pool; nginx does not verify servers by default, and each pool without it is warned of"),
    row("grpc_ssl_name", &["http", "server", "location"], Handling::Inherited, "`tls name=`"),
    row("grpc_ssl_server_name", &["http", "server", "location"], Handling::Inherited, "`tls sni=`, off by default as in nginx"),
    row("grpc_ssl_trusted_certificate", &["http", "server", "location"], Handling::Inherited, "`tls ca=`"),
    row("grpc_ssl_certificate", &["http", "server", "location"], Handling::Inherited, "`tls certificate= key=`"),
    row("grpc_ssl_certificate_key", &["http", "server", "location"], Handling::Inherited, "`tls certificate= key=`"),
    row("grpc_ssl_protocols", &["http", "server", "location"], Handling::Inherited, "`tls min= max=`; versions before 1.2 are not offered"),
    row("grpc_ssl_ciphers", &["http", "server", "location"], Handling::Inherited, "`tls ciphers=`: the list is read as OpenSSL does; Weir has the suites of TLS 1.2 with ECDHE and AES-GCM or ChaCha20"),
    row("grpc_ssl_session_reuse", &["http", "server", "location"], Handling::Inherited, "sessions are resumed in any case"),
    row("grpc_ssl_verify_depth", &["http", "server", "location"], Handling::Inherited, "chains of any usual length are verified"),
    row("grpc_ssl_crl", &["http", "server", "location"], Handling::Inherited, "`tls crl=` of the pool"),
    row("grpc_ssl_certificate_cache", &["http", "server", "location"], Handling::Ignored, "certificates are read when the configuration is loaded"),
    row("grpc_ssl_password_file", &["http", "server", "location"], Handling::Refused, "encrypted keys are not read: write the key without its password to a file that only Weir may read"),
    row("grpc_ssl_conf_command", &["http", "server", "location"], Handling::RefusedUnless(&["Options", "Ciphersuites", "CipherString", "Groups", "Curves", "SignatureAlgorithms"]), "`tls ciphers= curves=` for `Ciphersuites`, `CipherString`, `Groups` and `Curves`; `Options` that Weir does not follow are told; Weir does not use OpenSSL: write versions in `grpc_ssl_protocols`"),
    row("grpc_ssl_key_log", &["http", "server", "location"], Handling::Refused, "Weir writes no keys of connections to files: remove it"),
    row("proxy_ssl_key_log", &["http", "server", "location", "stream"], Handling::Refused, "Weir writes no keys of connections to files: remove it"),
    row("ssl_key_log", &["http", "server", "stream"], Handling::Refused, "Weir writes no keys of connections to files: remove it"),
    row("fastcgi_temp_path", &["http", "server", "location"], Handling::Ignored, "Weir writes no temporary files"),
    row("uwsgi_temp_path", &["http", "server", "location"], Handling::Ignored, "Weir writes no temporary files"),
    row("scgi_temp_path", &["http", "server", "location"], Handling::Ignored, "Weir writes no temporary files"),
    row("set_real_ip_from", &["http", "server", "location"], Handling::Inherited, "`trusted_proxies`, for the listener as a whole; names and `unix:` are refused"),
    row("real_ip_header", &["http", "server", "location"], Handling::Inherited, "`trusted_proxies header=`, or `proxy_protocol`"),
    row("real_ip_recursive", &["http", "server", "location"], Handling::Inherited, "`trusted_proxies recursive=`"),
    row("resolver", &["http", "server", "location", "stream"], Handling::Converted, "`resolver`, for all names of the file; names of DNS servers are refused"),
    row("resolver_timeout", &["http", "server", "location", "stream"], Handling::Converted, "`resolver timeout=`"),
    row("sub_filter", &["http", "server", "location"], Handling::Refused, "Weir changes no bodies: change the text where it is written, or keep the filter in a server behind Weir"),
    row("sub_filter_once", &["http", "server", "location"], Handling::RefusedUnless(&["on"]), "Weir changes no bodies: leave it out with `sub_filter`"),
    row("sub_filter_types", &["http", "server", "location"], Handling::Refused, "Weir changes no bodies: leave it out with `sub_filter`"),
    row("sub_filter_last_modified", &["http", "server", "location"], Handling::Refused, "Weir changes no bodies: leave it out with `sub_filter`"),
    row("add_before_body", &["http", "server", "location"], Handling::Refused, "Weir changes no bodies: let the application write that text"),
    row("add_after_body", &["http", "server", "location"], Handling::Refused, "Weir changes no bodies: let the application write that text"),
    row("ssi", &["http", "server", "location"], Handling::RefusedUnless(&["off"]), "Weir changes no bodies: put the pages together in the application"),
    row("image_filter", &["http", "server", "location"], Handling::Refused, "Weir changes no bodies: keep a program that changes images behind Weir, with a `location` of its own"),
    row("xslt_stylesheet", &["http", "server", "location"], Handling::Refused, "Weir changes no bodies: keep that in the application"),
    row("mirror", &["http", "server", "location"], Handling::RefusedUnless(&["off"]), "no request is sent twice: remove it, or let the application pass requests on"),
    row("mirror_request_body", &["http", "server", "location"], Handling::Refused, "no request is sent twice: leave it out with `mirror`"),
    row("dav_methods", &["http", "server", "location"], Handling::Refused, "Weir serves files for reading: send these methods with `proxy_pass` to a server that stores files"),
    row("stub_status", &["server", "location"], Handling::Converted, "`respond` with nginx's page and Weir's numbers; an `admin` address of a native file has more, for Prometheus too"),
    row("status", &["http", "server", "location"], Handling::Refused, "write `stub_status`, or a native `admin` address, which has more"),
    row("empty_gif", &["http", "server", "location"], Handling::Refused, "write a `location` with `alias` and the file of one pixel"),
    row("add_trailer", &["http", "server", "location"], Handling::Refused, "trailers of servers are passed on, and none are added: write `add_header`"),
    row("chunked_transfer_encoding", &["http", "server", "location"], Handling::DiffersFor(&["off"]), "responses without a length are sent in chunks to clients that know them"),
    row("client_body_in_file", &["http", "server", "location"], Handling::Refused, "Weir writes no bodies to files: remove it"),
    row("msie_padding", &["http", "server", "location"], Handling::Ignored, "it concerns versions of a browser that is no longer in use"),
    row("max_ranges", &["http", "server", "location"], Handling::DiffersFor(&[]), "requests for several ranges of a file get the number that Weir allows"),
    row("userid", &["http", "server", "location"], Handling::RefusedUnless(&["off"]), "Weir makes no ids of users: let the application set the cookie"),
    row("userid_name", &["http", "server", "location"], Handling::Refused, "Weir makes no ids of users: leave it out with `userid`"),
    row("flv", &["http", "server", "location"], Handling::DiffersFor(&[]), "files are sent whole or in ranges; `start` in the query has no effect"),
    row("mp4", &["http", "server", "location"], Handling::DiffersFor(&[]), "files are sent whole or in ranges; `start` in the query has no effect"),
    row("secure_link", &["http", "server", "location"], Handling::Refused, "Weir checks no signatures of links: let the application that makes them check them"),
    row("secure_link_md5", &["http", "server", "location"], Handling::Refused, "Weir checks no signatures of links: leave it out with `secure_link`"),
    row("referer_hash_max_size", &["server", "location"], Handling::Ignored, "it tunes tables and buffers of nginx and has no counterpart"),
    row("referer_hash_bucket_size", &["server", "location"], Handling::Ignored, "it tunes tables and buffers of nginx and has no counterpart"),
    row("valid_referers", &["server", "location"], Handling::Inherited, "a `map` of `$http_referer` for `$invalid_referer`"),
    row("js_import", &["http", "server", "location"], Handling::Refused, "Weir runs no scripts: write a `map`, or leave it to a server behind Weir"),
    row("js_content", &["http", "server", "location"], Handling::Refused, "Weir runs no scripts: send these requests with `proxy_pass` to a program that answers them"),
    row("perl", &["http", "server", "location"], Handling::Refused, "Weir runs no scripts: send these requests with `proxy_pass` to a program that answers them"),
    row("lua_package_path", &["http", "server", "location"], Handling::Refused, "Weir runs no scripts: leave it out with the blocks in Lua"),
    row("content_by_lua_block", &["http", "server", "location"], Handling::Refused, "Weir runs no scripts: send these requests with `proxy_pass` to a program that answers them"),
    row("access_by_lua_block", &["http", "server", "location"], Handling::Refused, "Weir runs no scripts: leave the check to the servers, or refuse clients by address with `deny`"),
    row("ignore_invalid_headers", &["http", "server"], Handling::Inherited, "`header_names` of the listener: that of the default server of the address"),
    row("underscores_in_headers", &["http", "server"], Handling::Inherited, "`header_names underscores=` of the listener: that of the default server of the address"),
    row("http2", &["http", "server"], Handling::Inherited, "`http2 on` of the listener, if one of its servers has it"),
    row("http2_max_concurrent_streams", &["http", "server"], Handling::Inherited, "`http2 streams=` of the listener: that of the default server of the address"),
    row("http2_push_preload", &["http", "server"], Handling::Ignored, "browsers no longer take what a server pushes"),
    row("http3", &["http", "server"], Handling::Ignored, "Weir offers HTTP/2 and HTTP/1.1; clients fall back to them"),
    row("quic_retry", &["http", "server"], Handling::Ignored, "Weir offers HTTP/2 and HTTP/1.1; clients fall back to them"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_names_each_directive_once_in_a_context() {
        let mut seen = std::collections::HashSet::new();
        for row in DIRECTIVES {
            assert!(!row.note.is_empty());
            for context in row.contexts {
                assert!(seen.insert((row.name, *context)), "{} in {context}", row.name);
            }
        }
        assert!(DIRECTIVES.len() > 150);
    }
}
