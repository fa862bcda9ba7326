//! The admin interface, with real programs: curl over real sockets, socat, hatop and Prometheus'
//! HAProxy exporter.

mod api;
mod ctl;
mod dashboard;
mod events;
pub(crate) mod haproxy;
mod moving;
mod numbers;
mod prometheus;
mod rights;
mod servers;
mod tls;
mod top;

use std::path::PathBuf;

use serde_json::Value;

use crate::support::Directory;
use crate::support::origin::Origin;
use crate::support::process::finish;
use crate::support::programs::curl_command;
use crate::support::weir::Weir;

/// A Weir with an admin socket, in front of two servers that answer with their names.
pub(crate) struct Managed {
    pub(crate) weir: Weir,
    pub(crate) socket: PathBuf,
    pub(crate) directory: Directory,
    pub(crate) _origins: Vec<Origin>,
}

/// Starts an origin that answers with its name.
pub(crate) fn named(name: &'static str) -> Origin {
    Origin::start(move |connection| {
        while connection.request().is_some() {
            connection.answer(name.as_bytes());
        }
    })
}

impl Managed {
    /// Starts it with the servers `one` and `two` in the pool `app`. `more` goes to the top of the
    /// file; it contains `tcp` admin addresses.
    pub(crate) fn start(more: &str, tcp: usize) -> Self {
        let directory = Directory::new();
        let origins = vec![named("one"), named("two")];
        let more = more.replace("DIRECTORY", &directory.path().display().to_string());
        let config = format!(
            "workers 2;
             admin unix:{}/admin.sock;
             {more}
             pool app {{
                 server {} name=one max_conn=50;
                 server {} name=two max_conn=60 weight=3;
             }}
             listen 127.0.0.1:0 name=front -> app;",
            directory.path().display(),
            origins[0].address,
            origins[1].address,
        );
        let weir = Weir::start_with_addresses(&directory, &config, 1 + tcp);
        let socket = directory.path().join("admin.sock");
        Self { weir, socket, directory, _origins: origins }
    }

    /// Sends a request over the Unix socket and returns the status and the body.
    pub(crate) fn ask(&self, arguments: &[&str]) -> (u16, String) {
        let socket = self.socket.display().to_string();
        let path = arguments.last().unwrap();
        let url = format!("http://weir{path}");
        let rest = &arguments[..arguments.len() - 1];
        asked(&[&["--unix-socket", &socket], rest, &[&url]].concat())
    }

    /// Returns the JSON of an existing path.
    pub(crate) fn json(&self, path: &str) -> Value {
        let (status, body) = self.ask(&[path]);
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("{path}: {error}: {body}"))
    }

    /// Sends a change and returns the status and the response.
    pub(crate) fn change(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let (status, text) = self.ask(&["-X", method, "--data", body, path]);
        (status, serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
    }

    /// Returns the names of the servers that answer `count` requests, each once.
    pub(crate) fn answers(&self, count: usize) -> Vec<String> {
        let mut client = crate::support::client::Client::connect(self.weir.address());
        let mut names: Vec<String> = (0..count).map(|_| client.ask("/").text()).collect();
        names.sort();
        names.dedup();
        names
    }
}

/// Runs curl and returns the status and the body.
pub(crate) fn asked(arguments: &[&str]) -> (u16, String) {
    let mut curl = curl_command();
    curl.args(["--write-out", "\n%{http_code}"]).args(arguments);
    let done = finish(&mut curl, b"");
    assert!(done.status.success(), "{curl:?}: {}", String::from_utf8_lossy(&done.stderr));
    let text = String::from_utf8(done.stdout).unwrap();
    let (body, status) = text.rsplit_once('\n').unwrap();
    (status.parse().unwrap(), body.to_owned())
}
