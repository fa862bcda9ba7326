//! Real programs: nginx as origin and as reference, haproxy as reference, curl and OpenSSL as
//! clients. Each server listens on a socket that the test bound, so that no port is guessed.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};

use super::process::{Process, command, finish};
use super::{Directory, PATIENCE};

/// Returns a listening socket on a port that the kernel chose.
pub(crate) fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// An address that refuses connections: the port is bound here, so no other process gets it, but no
/// socket listens.
pub(crate) struct Refusing {
    pub(crate) address: SocketAddr,
    _socket: OwnedFd,
}

impl Refusing {
    pub(crate) fn new() -> Self {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = SocketAddr::try_from(getsockname(&socket).unwrap()).unwrap();
        Self { address, _socket: socket }
    }
}

/// A running nginx.
pub(crate) struct Nginx {
    pub(crate) process: Process,
    pub(crate) address: SocketAddr,
}

impl Nginx {
    /// Starts nginx with this text inside its `http` block; `ADDRESS` in it stands for its address.
    /// Connections are accepted from the return of this function on: the kernel holds them until
    /// nginx accepts.
    pub(crate) fn start(directory: &Directory, name: &str, http: &str) -> Self {
        let (listener, address) = listen();
        let base = directory.text(name);
        std::fs::create_dir_all(&base).unwrap();
        let user = if rustix::process::geteuid().is_root() { "user root root;" } else { "" };
        let config = format!(
            "{user} daemon off; worker_processes 1; pid {base}/pid; error_log stderr error;
             events {{ worker_connections 4096; }}
             http {{
                 client_body_temp_path {base}/body; proxy_temp_path {base}/proxy;
                 fastcgi_temp_path {base}/fastcgi; uwsgi_temp_path {base}/uwsgi; scgi_temp_path {base}/scgi;
                 {}
             }}",
            http.replace("ADDRESS", &address.to_string())
        );
        let path = directory.file(&format!("{name}/nginx.conf"), config);
        let process = Process::start(
            command("nginx")
                .args(["-e", "stderr", "-c"])
                .arg(path)
                // nginx inherits the listening sockets that this variable names; standard input is
                // one.
                .env("NGINX", "0;")
                .stdin(Stdio::from(OwnedFd::from(listener)))
                .stdout(Stdio::null()),
        );
        Self { process, address }
    }

    /// Starts an origin that serves the directory's `www` and accepts uploads below `/upload/`.
    pub(crate) fn origin(directory: &Directory) -> Self {
        let root = directory.text("www");
        std::fs::create_dir_all(format!("{root}/upload")).unwrap();
        let server = format!(
            "access_log {root}.log; keepalive_requests 1000000;
             server {{
                 listen ADDRESS; root {root};
                 location /upload/ {{ dav_methods PUT DELETE; client_max_body_size 100m; }}
                 location = /connection {{ return 200 \"$connection\"; }}
                 location = /seen {{ return 200 \"$request_method $http_x_forwarded_for $http_x_forwarded_proto $http_host\"; }}
             }}"
        );
        Self::start(directory, "origin", &server)
    }
}

/// A running haproxy that listens on a socket of the test: `bind fd@0` in its configuration.
pub(crate) struct Haproxy {
    _process: Process,
    pub(crate) address: SocketAddr,
}

impl Haproxy {
    pub(crate) fn start(directory: &Directory, config: &str) -> Self {
        let (listener, address) = listen();
        let path = directory.file("haproxy.cfg", config);
        let process = Process::start(
            command("haproxy")
                .arg("-db")
                .arg("-f")
                .arg(path)
                .stdin(Stdio::from(OwnedFd::from(listener)))
                .stdout(Stdio::null()),
        );
        Self { _process: process, address }
    }
}

/// Runs curl with a time limit; fails the test when curl fails.
pub(crate) fn curl<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Vec<u8> {
    curl_with_input(arguments, b"")
}

/// The same, with this text on curl's standard input.
pub(crate) fn curl_with_input<'a>(
    arguments: impl IntoIterator<Item = &'a str>,
    input: &[u8],
) -> Vec<u8> {
    let mut curl = curl_command();
    curl.args(arguments);
    let done = finish(&mut curl, input);
    assert!(done.status.success(), "{curl:?}: {}", String::from_utf8_lossy(&done.stderr));
    done.stdout
}

/// Returns curl with the flags of every test.
pub(crate) fn curl_command() -> Command {
    let mut curl = command("curl");
    curl.args([
        "--silent",
        "--show-error",
        "--noproxy",
        "*",
        "--max-time",
        &PATIENCE.as_secs().to_string(),
    ]);
    curl
}

/// Runs OpenSSL with this input.
pub(crate) fn openssl(arguments: &str, input: &[u8]) -> Output {
    finish(command("openssl").args(arguments.split_whitespace()), input)
}

/// A certificate and its key, as files.
#[derive(Clone, Debug)]
pub(crate) struct Certificate {
    pub(crate) chain: PathBuf,
    pub(crate) key: PathBuf,
}

impl Certificate {
    /// Creates a self-signed certificate for these names. `algorithm` is in OpenSSL's syntax:
    /// `ec -pkeyopt ec_paramgen_curve:P-256`, `rsa:2048`.
    pub(crate) fn self_signed(
        directory: &Directory,
        name: &str,
        algorithm: &str,
        names: &[&str],
    ) -> Self {
        let chain = directory.path().join(format!("{name}.pem"));
        let key = directory.path().join(format!("{name}.key"));
        let alternatives: Vec<_> = names.iter().map(|name| format!("DNS:{name}")).collect();
        let done = openssl(
            &format!(
                "req -x509 -newkey {algorithm} -nodes -days 30 -subj /CN={} -addext subjectAltName={} -keyout {} -out {}",
                names[0],
                alternatives.join(","),
                key.display(),
                chain.display()
            ),
            b"",
        );
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        Self { chain, key }
    }

    /// Creates a P-256 certificate with this common name, issued by an authority. It is valid for
    /// 30 days and a half, so that the number of whole days does not change while a test runs.
    #[allow(dead_code, reason = "not all test binaries have clients with certificates")]
    pub(crate) fn issued(directory: &Directory, name: &str, authority: &Self) -> Self {
        let path = |ending: &str| directory.path().join(format!("client-{name}.{ending}"));
        let (chain, key, request) = (path("pem"), path("key"), path("csr"));
        let (settings, index) = (path("cnf"), path("index"));
        let text = format!(
            "[own]\ndatabase={}\nnew_certs_dir={}\nrand_serial=yes\ndefault_md=sha256\npolicy=any\n\
             [any]\ncountryName=optional\norganizationName=optional\ncommonName=supplied\n\
             [leaf]\nbasicConstraints=CA:FALSE\n",
            index.display(),
            directory.path().display()
        );
        std::fs::write(&settings, text).unwrap();
        std::fs::write(&index, "").unwrap();
        let ask = format!(
            "req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /C=DE/O=Weir,x/CN={name} -keyout {} -out {}",
            key.display(),
            request.display()
        );
        let end = Command::new("date").args(["-u", "-d", "+732 hours", "+%Y%m%d%H%M%SZ"]).output();
        let issue = format!(
            "ca -batch -notext -config {} -name own -extensions leaf -in {} -cert {} -keyfile {} -enddate {} -out {}",
            settings.display(),
            request.display(),
            authority.chain.display(),
            authority.key.display(),
            String::from_utf8(end.unwrap().stdout).unwrap().trim(),
            chain.display()
        );
        for arguments in [ask, issue] {
            let done = openssl(&arguments, b"");
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        }
        Self { chain, key }
    }

    /// Creates a P-256 certificate for `localhost`.
    pub(crate) fn localhost(directory: &Directory) -> Self {
        Self::self_signed(
            directory,
            "localhost",
            "ec -pkeyopt ec_paramgen_curve:P-256",
            &["localhost"],
        )
    }

    /// Returns the directive that names both files.
    pub(crate) fn directive(&self) -> String {
        format!("certificate {} key={};", self.chain.display(), self.key.display())
    }
}
