//! `weir explain`: the way that one request would take through a configuration. The way is followed
//! in `weir-proxy`, by the code that serves; here is the command line, in `writer.rs` the account
//! of the way, and in `account.rs` its forms as text and as JSON.

mod account;
mod ask;
mod writer;

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;
use weir_control::explain;
use weir_control::trace::TracedRequest;

use crate::config_file::{
    self, AssumeArguments, CONFIGURATION_FILE, LanguageArguments, LanguageName, MappingArguments,
};
use crate::failure::CommandFailure;
use crate::terminal;
use ask::Ask;
use writer::AccountWriter;

/// Show which way a request would take through a configuration, and why
///
/// Nothing is sent, and no running Weir is asked: servers are taken to be up and idle. Certificates
/// and pages are not read.
#[derive(Args, Debug)]
#[command(
    after_help = "Example: weir explain -c weir.conf 'POST https://shop.example.com/cart' -H 'Cookie: beta=1'"
)]
pub(crate) struct ExplainArguments {
    /// Method and URL, such as 'GET https://shop.example.com/cart'; the method may be left out. Or
    /// tcp://HOST:PORT, for a connection to a `tcp` listener
    #[arg(value_name = "REQUEST", required = true, num_args = 1..=2)]
    request: Vec<String>,
    /// Configuration file
    #[arg(short, long, value_name = "FILE", default_value = CONFIGURATION_FILE)]
    config: PathBuf,
    /// Header of the request, as in curl; may be repeated
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    headers: Vec<String>,
    /// Address of the client
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    from: IpAddr,
    /// File with the body of the request
    #[arg(long, value_name = "FILE")]
    body: Option<PathBuf>,
    /// Listener that the request reaches, by name or address [default: found by port and scheme]
    #[arg(long, value_name = "NAME")]
    listener: Option<String>,
    /// Application protocols that the client of a `tcp` listener offers in its TLS handshake, such
    /// as h2,http/1.1
    #[arg(long, value_name = "PROTOCOLS", default_value = "")]
    alpn: String,
    /// Print the account as JSON
    #[arg(long)]
    json: bool,
    /// Language of the file [default: found by its directives]
    #[arg(long, value_name = "LANGUAGE")]
    language: Option<LanguageName>,
    #[command(flatten)]
    mapping: MappingArguments,
    #[command(flatten)]
    assume: AssumeArguments,
}

pub(crate) fn run(arguments: &ExplainArguments) -> Result<(), CommandFailure> {
    let body = match &arguments.body {
        None => None,
        Some(path) => Some(std::fs::metadata(path).map(|file| file.len()).map_err(|error| {
            CommandFailure::RunTime(format!("cannot read {}: {error}", path.display()))
        })?),
    };
    let ask =
        Ask::parse(&arguments.request, &arguments.headers, body).map_err(CommandFailure::Usage)?;
    let language = LanguageArguments::of(
        arguments.language,
        arguments.mapping.clone(),
        arguments.assume.clone(),
    );
    let checked = config_file::checked_file(&arguments.config, &language)?;
    let (listener, note) = ask
        .listener(&checked.config, arguments.listener.as_deref())
        .map_err(CommandFailure::RunTime)?;
    let head = ask.head();
    let has_tls = checked.config.listeners.get(listener).is_some_and(|one| one.tls.is_some());
    let lacks_tls = has_tls && ask.is_plain();
    let request = TracedRequest {
        listener,
        head: &head,
        server_name: ask.server_name(),
        alpn: &arguments.alpn,
        peer: Some(arguments.from),
        tls: has_tls && !lacks_tls,
        lacks_tls,
        seed: 0,
    };
    let trace = explain(&checked.config, &request).map_err(CommandFailure::RunTime)?;
    let account = AccountWriter::new(&checked, &request, &trace).account(note);
    terminal::print(&if arguments.json { account.json() } else { account.text(&ask.line()) })
}
