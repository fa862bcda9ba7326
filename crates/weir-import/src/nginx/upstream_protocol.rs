//! The protocols of servers, and the names of their settings: `grpc_pass` has those of `proxy_pass`
//! under names of its own.

/// The protocol of the servers of a block, by the directive that leads to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum UpstreamProtocol {
    /// `proxy_pass`.
    #[default]
    Http,
    /// `grpc_pass`.
    Grpc,
}

/// The settings of `proxy_pass` that `grpc_pass` has too, with its names of them.
const SETTINGS: [(&str, &str); 26] = [
    ("proxy_bind", "grpc_bind"),
    ("proxy_connect_timeout", "grpc_connect_timeout"),
    ("proxy_hide_header", "grpc_hide_header"),
    ("proxy_ignore_headers", "grpc_ignore_headers"),
    ("proxy_intercept_errors", "grpc_intercept_errors"),
    ("proxy_next_upstream", "grpc_next_upstream"),
    ("proxy_next_upstream_timeout", "grpc_next_upstream_timeout"),
    ("proxy_next_upstream_tries", "grpc_next_upstream_tries"),
    ("proxy_pass", "grpc_pass"),
    ("proxy_pass_header", "grpc_pass_header"),
    ("proxy_read_timeout", "grpc_read_timeout"),
    ("proxy_send_timeout", "grpc_send_timeout"),
    ("proxy_set_header", "grpc_set_header"),
    ("proxy_ssl_certificate", "grpc_ssl_certificate"),
    ("proxy_ssl_certificate_key", "grpc_ssl_certificate_key"),
    ("proxy_ssl_ciphers", "grpc_ssl_ciphers"),
    ("proxy_ssl_conf_command", "grpc_ssl_conf_command"),
    ("proxy_ssl_crl", "grpc_ssl_crl"),
    ("proxy_ssl_name", "grpc_ssl_name"),
    ("proxy_ssl_password_file", "grpc_ssl_password_file"),
    ("proxy_ssl_protocols", "grpc_ssl_protocols"),
    ("proxy_ssl_server_name", "grpc_ssl_server_name"),
    ("proxy_ssl_session_reuse", "grpc_ssl_session_reuse"),
    ("proxy_ssl_trusted_certificate", "grpc_ssl_trusted_certificate"),
    ("proxy_ssl_verify", "grpc_ssl_verify"),
    ("proxy_ssl_verify_depth", "grpc_ssl_verify_depth"),
];

impl UpstreamProtocol {
    /// Returns the name of a directive in blocks with servers of this protocol, for one that is
    /// named as `proxy_pass` has it; `None` if the protocol has no such setting.
    pub(crate) fn name(self, name: &str) -> Option<&str> {
        if self == Self::Http || !name.starts_with("proxy_") {
            return Some(name);
        }
        SETTINGS.iter().find(|(of_http, _)| *of_http == name).map(|(_, own)| *own)
    }
}
