//! TLS as OpenSSL's client sees it: versions, suites in both spellings, curves, certificates,
//! resumption.

use crate::support::origin::Origin;
use crate::support::programs::{Certificate, openssl};
use crate::support::weir::Weir;
use crate::support::{Directory, eventually};

const P256: &str = "ec -pkeyopt ec_paramgen_curve:P-256";
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// A Weir with one TLS listener that has these directives.
struct Secure {
    weir: Weir,
    _origin: Origin,
}

impl Secure {
    fn new(directory: &Directory, directives: &str) -> Self {
        let origin = Origin::echo();
        let config = format!("listen 127.0.0.1:0 tls -> {} {{ {directives} }}", origin.address);
        Self { weir: Weir::start(directory, &config), _origin: origin }
    }

    /// Returns the output of `openssl s_client` for a connection with one request.
    fn connect(&self, flags: &str) -> String {
        let command = format!("s_client -ign_eof -connect {} {flags}", self.weir.address());
        let done = openssl(&command, REQUEST);
        String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned()
    }

    /// Checks that a connection with these flags is established and served and that the output
    /// contains `expected`.
    fn serves(&self, flags: &str, expected: &str) {
        let printed = self.connect(flags);
        assert!(printed.contains("HTTP/1.1 200"), "{flags}: {printed}");
        assert!(printed.contains(expected), "{flags}: {expected} is not in {printed}");
    }

    /// Checks that no connection is established with these flags.
    fn refuses(&self, flags: &str) {
        let printed = self.connect(flags);
        assert!(printed.contains("Cipher is (NONE)"), "{flags}: {printed}");
        assert!(!printed.contains("HTTP/1.1"), "{flags}: {printed}");
    }
}

#[test]
fn both_versions_by_default_and_either_one_alone() {
    let directory = Directory::new();
    let certificate = Certificate::localhost(&directory).directive();
    let both = Secure::new(&directory, &certificate);
    both.serves("-tls1_3", "New, TLSv1.3");
    both.serves("-tls1_2", "Protocol  : TLSv1.2");
    both.refuses("-tls1_1");
    let newest = Secure::new(&directory, &format!("{certificate} tls min=1.3;"));
    newest.serves("-tls1_3", "New, TLSv1.3");
    newest.refuses("-tls1_2");
    let older = Secure::new(&directory, &format!("{certificate} tls max=1.2;"));
    older.serves("", "Protocol  : TLSv1.2");
    older.refuses("-tls1_3");
}

#[test]
fn suites_are_pinned_in_either_spelling() {
    let directory = Directory::new();
    let certificate = Certificate::localhost(&directory).directive();
    for spelling in ["ECDHE-ECDSA-AES256-GCM-SHA384", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"] {
        let secure =
            Secure::new(&directory, &format!("{certificate} tls max=1.2 ciphers={spelling};"));
        secure.serves("-tls1_2", "Cipher is ECDHE-ECDSA-AES256-GCM-SHA384");
        secure.refuses("-tls1_2 -cipher ECDHE-ECDSA-AES128-GCM-SHA256");
    }
    let secure = Secure::new(
        &directory,
        &format!("{certificate} tls min=1.3 ciphers=TLS_AES_256_GCM_SHA384;"),
    );
    secure.serves("", "Cipher is TLS_AES_256_GCM_SHA384");
    secure.refuses("-ciphersuites TLS_AES_128_GCM_SHA256");
}

#[test]
fn curves_are_pinned_and_the_default_takes_what_clients_have() {
    let directory = Directory::new();
    let certificate = Certificate::localhost(&directory).directive();
    let free = Secure::new(&directory, &certificate);
    free.serves("-groups X25519", "Server Temp Key: X25519");
    free.serves("-groups P-256", "Server Temp Key: ECDH, prime256v1");
    free.serves("-groups P-384", "Server Temp Key: ECDH, secp384r1");
    let pinned = Secure::new(&directory, &format!("{certificate} tls curves=P-256;"));
    pinned.serves("-groups X25519:P-256", "Server Temp Key: ECDH, prime256v1");
    pinned.refuses("-groups X25519");
}

#[test]
fn the_certificate_follows_the_name_asked_for() {
    let directory = Directory::new();
    let first = Certificate::self_signed(&directory, "first", P256, &["first.example"]);
    let wild = Certificate::self_signed(&directory, "wild", "rsa:2048", &["*.wild.example"]);
    let secure = Secure::new(&directory, &format!("{} {}", first.directive(), wild.directive()));
    secure.serves("-servername first.example", "CN = first.example");
    secure.serves("-servername shop.wild.example", "CN = *.wild.example");
    secure.serves("-servername shop.wild.example", "Peer signature type: RSA");
    secure.serves("-servername unknown.example", "CN = first.example");
    secure.serves("-noservername", "CN = first.example");
}

#[test]
fn one_bundle_holds_certificate_and_key() {
    let directory = Directory::new();
    let certificate = Certificate::localhost(&directory);
    let both =
        [std::fs::read(&certificate.key).unwrap(), std::fs::read(&certificate.chain).unwrap()]
            .concat();
    let bundle = directory.file("bundle.pem", both);
    let secure = Secure::new(&directory, &format!("certificate {};", bundle.display()));
    secure.serves("", "CN = localhost");
}

#[test]
fn sessions_are_resumed_whichever_worker_takes_the_connection() {
    let directory = Directory::new();
    let certificate = Certificate::localhost(&directory).directive();
    let origin = Origin::echo();
    let config =
        format!("workers 2;\nlisten 127.0.0.1:0 tls -> {} {{ {certificate} }}", origin.address);
    let secure = Secure { weir: Weir::start(&directory, &config), _origin: origin };
    for version in ["-tls1_2", "-tls1_3"] {
        let session = directory.text(&format!("session{version}"));
        secure.serves(&format!("{version} -sess_out {session}"), "New, TLSv1");
        for _ in 0..4 {
            secure.serves(&format!("{version} -sess_in {session}"), "Reused, TLSv1");
        }
    }
}

#[test]
fn plain_http_to_a_tls_port_does_no_harm() {
    let directory = Directory::new();
    let secure = Secure::new(&directory, &Certificate::localhost(&directory).directive());
    let mut client = crate::support::client::Client::connect(secure.weir.address());
    client.get("/");
    let (answer, _) = client.rest();
    assert!(!answer.starts_with(b"HTTP/1.1 200"), "{answer:?}");
    secure.serves("", "CN = localhost");
}

#[test]
fn a_hello_in_several_records_is_served_and_one_over_a_bound_is_refused() {
    let directory = Directory::new();
    let secure = Secure::new(&directory, &Certificate::localhost(&directory).directive());
    let protocols = |count: usize| format!("-alpn {}http/1.1", "some-protocol,".repeat(count - 1));
    // Most of OpenSSL's cipher suites, in records of 512 bytes.
    let all = "-max_send_frag 512 -cipher ALL:COMPLEMENTOFALL:@SECLEVEL=0";
    secure.serves(&format!("{all} {}", protocols(64)), "ALPN protocol: http/1.1");
    secure.refuses(&protocols(65));
    let printed = secure.connect(&protocols(65));
    assert!(printed.contains("alert illegal parameter"), "{printed}");
}

#[test]
fn handshakes_of_a_client_are_bounded_and_its_open_connections_are_not() {
    let directory = Directory::new();
    let certificate = Certificate::localhost(&directory).directive();
    let secure = Secure::new(&directory, &format!("{certificate} limit client handshakes=3/h;"));
    let served = (0..10).filter(|_| secure.connect("").contains("HTTP/1.1 200")).count();
    assert!((1..=4).contains(&served), "{served} of 10 handshakes");
    secure.refuses("");
}

#[test]
fn the_log_names_version_suite_and_group_of_each_connection() {
    let directory = Directory::new();
    let certificate = Certificate::localhost(&directory).directive();
    let log = directory.text("access.log");
    let config = format!(
        "log tls {{ to {log}; format \"$ssl_protocol $ssl_cipher $ssl_curve\"; }}
         listen 127.0.0.1:0 tls {{
             {certificate}
             log tls;
             tls ciphers=TLS_AES_256_GCM_SHA384,ECDHE-ECDSA-AES256-GCM-SHA384;
             default -> respond 204;
         }}"
    );
    let weir = Weir::start(&directory, &config);
    let lines = |count: usize| {
        eventually("the line is written", || {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            let lines: Vec<String> = text.lines().map(str::to_owned).collect();
            (lines.len() == count).then_some(lines)
        })
    };
    let connections = [
        ("-tls1_3 -groups P-256", "TLSv1.3 TLS_AES_256_GCM_SHA384 secp256r1"),
        ("-tls1_3 -groups X25519", "TLSv1.3 TLS_AES_256_GCM_SHA384 x25519"),
        ("-tls1_2 -groups P-256", "TLSv1.2 TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 secp256r1"),
    ];
    for (number, (flags, expected)) in connections.into_iter().enumerate() {
        let command = format!("s_client -ign_eof -connect {} {flags}", weir.address());
        openssl(&command, REQUEST);
        assert_eq!(lines(number + 1)[number], expected, "{flags}");
    }
}

#[test]
fn clients_present_certificates_as_the_listener_demands() {
    let directory = Directory::new();
    let certificate = Certificate::localhost(&directory).directive();
    let authority = Certificate::self_signed(&directory, "authority", P256, &["authority"]);
    let anna = Certificate::issued(&directory, "anna", &authority);
    let stranger = Certificate::self_signed(&directory, "stranger", P256, &["stranger"]);
    let flags = |own: &Certificate, version: &str| {
        format!("-cert {} -key {} {version}", own.chain.display(), own.key.display())
    };
    for (verify, without, with_other) in
        [("required", false, false), ("optional", true, false), ("request", true, true)]
    {
        let lines = format!(
            "{certificate} client_ca {} verify={verify};
             response_header set X-Client \"$ssl_client_verify $ssl_client_s_dn\";",
            authority.chain.display()
        );
        let secure = Secure::new(&directory, &lines);
        for version in ["-tls1_2", "-tls1_3"] {
            secure.serves(&flags(&anna, version), "X-Client: SUCCESS CN=anna,O=Weir");
            let is_served = |flags: &str| secure.connect(flags).contains("HTTP/1.1 200");
            assert_eq!(is_served(version), without, "{verify} {version}");
            assert_eq!(is_served(&flags(&stranger, version)), with_other, "{verify} {version}");
        }
        if without {
            secure.serves("", "X-Client: NONE");
        }
        if with_other {
            secure.serves(&flags(&stranger, ""), "X-Client: FAILED:");
        }
    }
}
