//! `weir proxy`: a proxy from the command line. It writes a configuration from the flags and runs
//! it; it has no logic of serving of its own.

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use weir_balance::PolicyKind;

use crate::config_text::{self, quote, quote_path};
use crate::failure::CommandFailure;
use crate::serving::{self, WorkerCount};

/// Run a proxy from the command line
#[derive(Args, Debug)]
pub(crate) struct ProxyArguments {
    /// Address to listen on, such as `:8080`, `127.0.0.1:8080` or `unix:/run/site.sock`; may be
    /// repeated
    #[arg(long, value_name = "ADDR", required = true)]
    listen: Vec<String>,
    /// Endpoint to send requests to, such as `127.0.0.1:3000`; may be repeated
    #[arg(long, value_name = "ADDR", required = true)]
    to: Vec<String>,
    /// Certificate chain (PEM); clients must then use TLS
    #[arg(long, value_name = "FILE")]
    cert: Option<PathBuf>,
    /// Key of the certificate (PEM) [default: in the certificate's file]
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Load balancing policy; hash, ring_hash and maglev use the client's address as the key
    #[arg(long, value_name = "POLICY", value_parser = policies())]
    balance: Option<String>,
    /// Largest number of requests in flight at each endpoint
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_conn: Option<u32>,
    #[command(flatten)]
    workers: WorkerCount,
    /// Write an access log to this file, or to standard output with `-`
    #[arg(long, value_name = "FILE")]
    access_log: Option<PathBuf>,
    /// Format of the access log: combined, main, haproxy, json, or text with $variables
    #[arg(long, value_name = "NAME", default_value = "combined", requires = "access_log")]
    log_format: String,
    /// Lowest TLS version
    #[arg(long, value_name = "VERSION", value_parser = ["1.2", "1.3"], requires = "cert")]
    tls_min: Option<String>,
    /// Highest TLS version
    #[arg(long, value_name = "VERSION", value_parser = ["1.2", "1.3"], requires = "cert")]
    tls_max: Option<String>,
    /// Cipher suites by OpenSSL or IANA name, separated by colons
    #[arg(long, value_name = "LIST", requires = "cert")]
    ciphers: Option<String>,
}

fn policies() -> PossibleValuesParser {
    PolicyKind::all().iter().map(|policy| policy.as_str()).into()
}

pub(crate) fn run(arguments: &ProxyArguments) -> Result<(), CommandFailure> {
    let mut config = config_text::check(&arguments.text()?)?;
    arguments.workers.apply(&mut config);
    serving::serve_until_stopped(&config)
}

impl ProxyArguments {
    /// Returns the equivalent configuration.
    fn text(&self) -> Result<String, CommandFailure> {
        let mut text = String::new();
        if let Some(path) = &self.access_log {
            let target =
                if path.as_os_str() == "-" { "stdout".to_owned() } else { quote_path(path)? };
            let _ = writeln!(text, "log access {{ to {target}; format {}; }}", self.format());
        }
        text.push_str("pool endpoints {\n");
        if let Some(policy) = &self.balance {
            let hashes = policy.parse::<PolicyKind>().is_ok_and(|kind| kind.hashes().is_some());
            let key = if hashes { " $remote_addr" } else { "" };
            let _ = writeln!(text, "    balance {policy}{key};");
        }
        for address in &self.to {
            let limit = self.max_conn.map(|limit| format!(" max_conn={limit}")).unwrap_or_default();
            let _ = writeln!(text, "    server {}{limit};", quote(address));
        }
        let addresses: Vec<String> = self.listen.iter().map(|address| quote(address)).collect();
        let _ = write!(text, "}}\nlisten {}", addresses.join(" "));
        text.push_str(if self.cert.is_some() { " tls {\n" } else { " {\n" });
        self.write_tls(&mut text)?;
        if self.access_log.is_some() {
            text.push_str("    log access;\n");
        }
        text.push_str("    route -> endpoints;\n}\n");
        Ok(text)
    }

    fn write_tls(&self, text: &mut String) -> Result<(), CommandFailure> {
        let Some(certificate) = &self.cert else { return Ok(()) };
        let _ = write!(text, "    certificate {}", quote_path(certificate)?);
        if let Some(key) = &self.key {
            let _ = write!(text, " key={}", quote_path(key)?);
        }
        text.push_str(";\n");
        let options = [("min", &self.tls_min), ("max", &self.tls_max), ("ciphers", &self.ciphers)];
        let given = |(name, value): (&str, &Option<String>)| {
            value.as_ref().map(|value| format!(" {name}={}", quote(value)))
        };
        let given: String = options.into_iter().filter_map(given).collect();
        if !given.is_empty() {
            let _ = writeln!(text, "    tls{given};");
        }
        Ok(())
    }

    /// Returns the format for the configuration: a name as it is, a custom text in quotes.
    fn format(&self) -> String {
        let named = !self.log_format.contains(['$', ' ', '"', ';', '{', '}', '#', '\\']);
        if named { self.log_format.clone() } else { quote(&self.log_format) }
    }
}
